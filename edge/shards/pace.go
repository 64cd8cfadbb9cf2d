package shards

import (
	"crypto/sha256"
	"sync"
	"time"

	"example.com/marketdata/artifacts"
)

// Pace keeps background work from delaying requests. A goroutine that computes without pausing keeps a core's
// scheduler from polling the network for up to ten milliseconds, even if it yields. So background work runs
// in short pieces, one at a time in the whole process, and after each piece it sleeps while requests are
// served. edge/BENCHMARKS.md contains the latencies during a swap.
type Pace struct {
	mu     sync.Mutex
	busy   time.Duration // the time worked since the last sleep
	gentle time.Time     // until this time the sleeps are long
}

const (
	// piece is how long work runs before it sleeps. block is the number of bytes that one call hashes, reads
	// or writes, which takes about 20 to 80 µs.
	piece = 150 * time.Microsecond
	block = 32 << 10
	// A gentle sleep is four times as long as the work before it, so that an edge at half its
	// capacity stays well below full capacity. Other sleeps are as long as the work.
	gentleSleep = 4
)

// Gently lengthens the sleeps for the next d. After that they return to normal, so that work that is still
// unfinished meets its deadline.
func (p *Pace) Gently(d time.Duration) {
	p.mu.Lock()
	p.gentle = time.Now().Add(d)
	p.mu.Unlock()
}

// Do runs one short piece of work, and sleeps if a sleep is due. A nil Pace never sleeps.
func (p *Pace) Do(work func()) {
	if p == nil {
		work()
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	began := time.Now()
	work()
	now := time.Now()
	p.busy += now.Sub(began)
	if p.busy < piece {
		return
	}
	sleep := p.busy
	if now.Before(p.gentle) {
		sleep *= gentleSleep
	}
	p.busy = 0
	time.Sleep(sleep)
}

// blocks calls work with each block of b in turn, until it fails. If the Pace is nil, it calls work once with
// all of b.
func (p *Pace) blocks(b []byte, work func(block []byte) error) (err error) {
	if p == nil {
		return work(b)
	}
	for len(b) > 0 && err == nil {
		n := min(block, len(b))
		p.Do(func() { err = work(b[:n]) })
		b = b[n:]
	}
	return err
}

// sum is like artifacts.Sum, but works in blocks.
func (p *Pace) sum(b []byte) artifacts.Digest {
	h := sha256.New()
	_ = p.blocks(b, func(b []byte) error { // writing to a hash cannot fail
		h.Write(b)
		return nil
	})
	return artifacts.Digest(h.Sum(nil))
}
