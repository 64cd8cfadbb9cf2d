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
	// ProbeEvery is the time between two questions to a store that is away. Edges see that it
	// is back within this time of each other, and must fetch and verify a snapshot in what
	// is left of a second. At rest an edge asks about as often.
	ProbeEvery = 500 * time.Millisecond
	// MaxProbes bounds the questions that wait at once: as many as begin until the first of them is
	// given up, and some, so that a fresh one asks a store that hangs all the while.
	MaxProbes = 24
)

// Follower reads one cell again and again. While the store gives no answer it asks it with short and
// even pauses, so that all edges of a fleet come back together, and beside questions that have no answer
// yet: what an outage swallowed is answered never, or much later. No answer of the store is lost.
// It belongs to one goroutine.
type Follower struct {
	cells   *Cells
	key     artifacts.Key
	pause   time.Duration // between probes
	asked   *atomic.Int64 // counts questions to the store; nil: nobody counts
	answers chan Answer
	slots   chan struct{}
	running sync.WaitGroup

	away     bool      // the last question had no answer in time
	fault    *Answer   // why the store leaves a gap; nil: it leaves none
	copying  bool      // the copy is being asked
	question int       // the last one to the store
	answered int       // the last one with an answer
	probed   time.Time // when the store was last asked
}

// NewFollower returns a Follower of a cell that is read every so often. asked counts the questions to
// the store; nil: nobody counts them.
func NewFollower(cells *Cells, key artifacts.Key, every time.Duration, asked *atomic.Int64) *Follower {
	return &Follower{cells: cells, key: key, pause: min(ProbeEvery, every), asked: asked,
		answers: make(chan Answer), slots: make(chan struct{}, MaxProbes)}
}

// Wait returns when nothing runs any more. The context of Next must be done.
func (f *Follower) Wait() { f.running.Wait() }

// Next returns the next answer about the cell. It asks the store after a wait, or once kick says so, if
// the store gives no late answer before. While the store is away, Next returns when it is back, and after
// the wait what the copy says, or that the store is away. known is as in Read.
func (f *Follower) Next(ctx context.Context, known artifacts.Version, wait time.Duration, kick <-chan struct{},
) Answer {
	timer := time.NewTimer(wait)
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
			final = f.receive(ctx, known, a)
		case <-patience:
			if patience = nil; f.away || f.answered == f.question {
				continue // it has failed, or has answered
			}
			f.away, f.fault = true, &Answer{Away: true, waiting: true,
				Err: fmt.Errorf("read %s: the store has not answered within %v", f.key, f.cells.Timeout)}
			final = f.gap(ctx, known)
		case <-probe:
			f.ask(ctx, known)
		case <-kicked:
			patience = f.begin(ctx, known)
		case <-timer.C:
			if f.away {
				final = f.gap(ctx, known)
			} else {
				patience = f.begin(ctx, known)
			}
		}
		if final != nil {
			return *final
		}
	}
}

// begin asks the store, and returns what says that it is away.
func (f *Follower) begin(ctx context.Context, known artifacts.Version) (patience <-chan time.Time) {
	f.ask(ctx, known)
	return time.After(f.cells.Timeout)
}

// receive returns an answer that Next returns, or nil.
func (f *Follower) receive(ctx context.Context, known artifacts.Version, a Answer) *Answer {
	if a.second {
		f.copying = false
		if f.fault == nil {
			return nil // the store has answered meanwhile
		}
		filled := f.cells.fill(f.key, known, *f.fault, a)
		if f.fault.waiting && filled.Err != nil {
			return nil // the store may still answer, or this is no help
		}
		return &filled
	}
	f.cells.check(f.key, &a)
	if a.question < f.answered && (a.Err != nil || !f.cells.Floor.Higher(f.key, a.of.Store, a.of.Number)) {
		return nil // a later question had an answer
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
		return nil // it is said after the wait
	}
	return f.gap(ctx, known)
}

// gap asks the copy about what the store does not give. It returns the store's answer if there is no copy.
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

// ask asks the store in the background, unless too many questions wait.
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

// run sends what ask returns to Next.
func (f *Follower) run(ctx context.Context, ask func() Answer) {
	f.running.Go(func() {
		a := ask()
		select {
		case f.answers <- a:
		case <-ctx.Done():
		}
	})
}
