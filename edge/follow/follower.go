package follow

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"example.com/marketdata/artifacts"
)

const (
	// ProbeEvery is the interval between two reads of a store that does not answer. All edges notice within
	// this time that the store is back. That leaves half a second for fetching and verifying, so an edge can
	// be up to date within a second.
	ProbeEvery = 500 * time.Millisecond
	// MaxProbes bounds the concurrent reads. It is a little more than the number of reads that start before
	// the first one times out, so that new reads can keep starting while a store hangs.
	MaxProbes = 24
)

// Follower reads a cell repeatedly. While the store does not answer, a Follower reads it at short, equal
// intervals, so that all edges of a fleet recover together. It does not wait for earlier reads: their
// requests may be lost, or be answered much later. It never discards an answer from the store. A Follower
// must be used by one goroutine only.
type Follower struct {
	cells   *Cells
	key     artifacts.Key
	pause   time.Duration // between probes
	asked   *atomic.Int64 // counts reads of the store; may be nil
	answers chan Answer
	slots   chan struct{}
	running sync.WaitGroup

	away     bool      // the last read was not answered in time
	fault    *Answer   // the store's last answer, if it leaves a gap
	copying  bool      // a read of the copy is under way
	question int       // the number of the last read of the store
	answered int       // the highest number of an answered read
	probed   time.Time // when the store was last read
}

// NewFollower returns a Follower that reads a cell at the given interval. readCount counts the store reads and
// may be nil.
func NewFollower(cells *Cells, key artifacts.Key, every time.Duration, readCount *atomic.Int64) *Follower {
	return &Follower{cells: cells, key: key, pause: min(ProbeEvery, every), asked: readCount,
		answers: make(chan Answer), slots: make(chan struct{}, MaxProbes)}
}

// Wait waits until all reads have ended. The context of Next must be done.
func (f *Follower) Wait() { f.running.Wait() }

// Next returns the next answer for the cell. It reads the store after the delay, or as soon as it receives
// from kick, unless a pending read is answered first. While the store does not answer, Next returns as soon as
// the store is back. After the delay it returns the copy's answer or, if there is none, an Answer that says
// that the store is away. lastTaken has the same meaning as in Read.
func (f *Follower) Next(ctx context.Context, lastTaken artifacts.Version, delay time.Duration, kick <-chan struct{},
) Answer {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	var patience <-chan time.Time
	for {
		var probe <-chan time.Time
		kicked := kick
		if f.away {
			probe, kicked = time.After(f.pause-time.Since(f.probed)), nil
		}
		var final *Answer
		select {
		case <-ctx.Done():
			return Answer{Err: ctx.Err(), Away: true}
		case a := <-f.answers:
			final = f.receive(ctx, lastTaken, a)
		case <-patience:
			if patience = nil; f.away || f.answered == f.question {
				continue // that read has failed or has been answered
			}
			f.away, f.fault = true, &Answer{Away: true, waiting: true,
				Err: fmt.Errorf("read %s: the store has not answered within %v", f.key, f.cells.Timeout)}
			final = f.gap(ctx, lastTaken)
		case <-probe:
			f.ask(ctx, lastTaken)
		case <-kicked:
			patience = f.begin(ctx, lastTaken)
		case <-timer.C:
			if f.away {
				final = f.gap(ctx, lastTaken)
			} else {
				patience = f.begin(ctx, lastTaken)
			}
		}
		if final != nil {
			return *final
		}
	}
}

// begin reads the store. It returns a channel that receives when the read has taken too long.
func (f *Follower) begin(ctx context.Context, known artifacts.Version) (patience <-chan time.Time) {
	f.ask(ctx, known)
	return time.After(f.cells.Timeout)
}

// receive handles an answer. It returns the answer that Next must return, or nil.
func (f *Follower) receive(ctx context.Context, known artifacts.Version, a Answer) *Answer {
	if a.second {
		f.copying = false
		if f.fault == nil {
			return nil // the store has answered in the meantime
		}
		filled := f.cells.fill(f.key, known, *f.fault, a)
		if f.fault.waiting && filled.Err != nil {
			return nil // the store may still answer
		}
		return &filled
	}
	f.cells.check(f.key, &a)
	if a.question < f.answered && (a.Err != nil || !f.cells.Floor.Higher(f.key, a.of.Store, a.of.Number)) {
		return nil // a later read has been answered
	}
	if a.counts() {
		f.away, f.fault, f.answered = false, nil, max(f.answered, a.question)
		f.cells.note(f.key, &a)
		return &a
	}
	if !a.Away {
		f.answered = a.question
	}
	again := a.Away && f.away && !f.fault.waiting
	f.away, f.fault = a.Away, &a
	if again {
		return nil // Next returns it after the delay
	}
	return f.gap(ctx, known)
}

// gap reads the copy, because the store leaves a gap. If there is no copy, gap returns the store's answer.
func (f *Follower) gap(ctx context.Context, known artifacts.Version) *Answer {
	if f.cells.Fallback == nil {
		return f.fault
	}
	if !f.copying {
		f.copying = true
		f.run(ctx, func() Answer { return f.cells.askCopy(ctx, f.key, known) })
	}
	return nil
}

// ask reads the store in the background, unless MaxProbes reads are under way.
func (f *Follower) ask(ctx context.Context, known artifacts.Version) {
	f.probed = time.Now()
	select {
	case f.slots <- struct{}{}:
	default:
		return
	}
	if f.asked != nil {
		f.asked.Add(1)
	}
	f.question++
	question := f.question
	f.run(ctx, func() Answer {
		defer func() { <-f.slots }()
		a := f.cells.ask(ctx, f.key, known)
		a.question = question
		return a
	})
}

// run sends the result of readCell to Next.
func (f *Follower) run(ctx context.Context, readCell func() Answer) {
	f.running.Go(func() {
		a := readCell()
		select {
		case f.answers <- a:
		case <-ctx.Done():
		}
	})
}
