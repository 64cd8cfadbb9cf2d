package shards

import (
	"crypto/sha256"
	"sync"
	"time"

	"example.com/marketdata/artifacts"
)

// Pace keeps work in the background from holding up requests. A goroutine that
// computes without a pause keeps a core's scheduler from looking at the network
// for up to ten milliseconds, yields or not: so work is done in short pieces,
// one at a time in the whole process, each followed by a sleep of the same
// length, in which requests are served. See edge/BENCHMARKS.md for what that
// does to latency during a swap.
type Pace struct {
	mu   sync.Mutex
	busy time.Duration // worked since the last sleep
}

// piece is how long work goes on before it sleeps.
const piece = 150 * time.Microsecond

// Do runs one short piece of work, and sleeps when it is time to. A nil Pace
// runs it at once.
func (p *Pace) Do(work func()) {
	if p == nil {
		work()
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	began := time.Now()
	work()
	p.busy += time.Since(began)
	if p.busy >= piece {
		time.Sleep(p.busy)
		p.busy = 0
	}
}

// hashed is how many bytes are hashed in one piece: some 80 µs.
const hashed = 32 << 10

// sum is artifacts.Sum in pieces.
func (p *Pace) sum(b []byte) artifacts.Digest {
	if p == nil {
		return artifacts.Sum(b)
	}
	h := sha256.New()
	for len(b) > 0 {
		n := min(hashed, len(b))
		p.Do(func() { h.Write(b[:n]) })
		b = b[n:]
	}
	return artifacts.Digest(h.Sum(nil))
}
