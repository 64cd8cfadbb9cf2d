package snapshot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge/floor"
	"example.com/marketdata/edge/follow"
	"example.com/marketdata/edge/shards"
	"example.com/marketdata/edge/timeline"
	"example.com/marketdata/edge/upstream"
	"github.com/cenkalti/backoff/v5"
)

// State is the immutable data from which one request is answered.
type State struct {
	// Snapshot is the current snapshot. It is nil if the store answers but contains no snapshot.
	Snapshot *Snapshot
	// Change is the change record in force. It is nil if there is none or it cannot be used (FEED.md, "Change
	// of the total").
	Change *artifacts.Change
}

// Config configures a Refresher. For durations, zero means the default that the field's comment states.
type Config struct {
	Store artifacts.Reader
	Cache *shards.Cache
	// Dir is a folder for verified objects, so that an edge can start while the store is unreachable. If it
	// is empty, objects are not saved.
	Dir string
	// Poll is the interval between polls of the pointer (2 s), varied by up to a fifth. While the store does
	// not answer, the interval is half a second. After other errors, it grows to at most MaxBackoff (30 s).
	Poll, MaxBackoff time.Duration
	// FetchBudget is the time for fetching a new snapshot, after which it may become current with objects
	// missing (60 s).
	FetchBudget time.Duration
	// Cells reads the store's cells and refuses those that the edge must not take. Its Floor also records
	// problems with Dir. If it is nil, the Refresher creates one for Store.
	Cells *follow.Cells
	// HistoryBytes bounds the history that is prefetched. DirBytes is the size limit of the disk copy, or
	// 0 for none; history uses the part that snapshots leave free.
	HistoryBytes, DirBytes int64
	// Coins adds the views of CoinView to snapshots.
	Coins bool
	// Swapped is called for each snapshot that becomes current, except one from Dir. It may be nil.
	Swapped func(Swap)
	// Now is the wall clock for activation, for pins in the future, and for the first snapshot's budget
	// (time.Now).
	Now func() time.Time
	Log *slog.Logger
}

// Warm prepares the next snapshot before it becomes current, by reading the shards whose counterparts in the
// old snapshot are in memory. The caller must call the returned function once the next snapshot is current.
// For the first snapshot, old is nil.
type Warm func(ctx context.Context, old, next *Snapshot) (after func())

// Refresher keeps the State up to date.
type Refresher struct {
	cfg   Config
	state atomic.Pointer[State]
	kick  chan struct{} // makes Run poll immediately; see pollForPin

	restored chan struct{}

	Counters Counters

	floor *floor.Floor // the floor of Cells

	// Owned by the goroutine of Run.
	warm    Warm
	pointer artifacts.Version // the version of the last processed pointer
	// Owned by pollChange. Only one call of it runs at a time.
	change artifacts.Version // the version of the last readable change record
	// unasked counts the polls since the change record was last read.
	unasked atomic.Int64

	// activating serializes changes of the state by the goroutine of Run and by the timers of waiting
	// snapshots. It must be locked before mu. It also guards the change record in force.
	activating sync.Mutex
	record     *artifacts.Change // the change record in force

	// mu guards the following fields, and the progress of every snapshot.
	mu       sync.Mutex
	timeline timeline.Timeline[*Snapshot]
	status   Status
	changed  chan struct{} // closed at the next change of the state
	loading  map[artifacts.Digest]*load
	kicked   time.Time // when a pin last made Run poll
	first    time.Time // when the first snapshot became current

	waiting    atomic.Int64 // requests that wait for a pinned snapshot
	background sync.WaitGroup
	// historySlots bounds the fetching of history for all snapshots together.
	historySlots slots
}

// NewRefresher returns a Refresher that has read nothing yet.
func NewRefresher(cfg Config) *Refresher {
	cfg.Poll = cmp.Or(max(cfg.Poll, 0), 2*time.Second)
	cfg.MaxBackoff = cmp.Or(max(cfg.MaxBackoff, 0), 30*time.Second)
	cfg.FetchBudget = cmp.Or(max(cfg.FetchBudget, 0), time.Minute)
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Cells == nil {
		cfg.Cells = follow.NewCells(cfg.Store)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Swapped == nil {
		cfg.Swapped = func(Swap) {}
	}
	return &Refresher{
		cfg: cfg, kick: make(chan struct{}, 1), changed: make(chan struct{}), restored: make(chan struct{}),
		warm:   func(context.Context, *Snapshot, *Snapshot) (after func()) { return func() {} },
		status: Status{Status: upstream.Start()}, loading: map[artifacts.Digest]*load{},
		timeline:     timeline.Timeline[*Snapshot]{Budget: cfg.FetchBudget},
		historySlots: make(slots, historyFetchers), floor: cfg.Cells.Floor,
	}
}

// State returns the current State, or nil as long as nothing is known.
func (r *Refresher) State() *State { return r.state.Load() }

// Restored returns a channel that is closed when the snapshot in Dir is current, or when Dir turns out to
// contain no usable snapshot. Until then State returns nil.
func (r *Refresher) Restored() <-chan struct{} { return r.restored }

// Run starts with the snapshot in Dir, and polls until ctx is done. It warms each snapshot before it becomes
// current. warm may be nil.
func (r *Refresher) Run(ctx context.Context, warm Warm) {
	defer r.background.Wait()
	defer r.end()
	if warm != nil {
		r.warm = warm
	}
	finish := r.restore(ctx)
	close(r.restored)
	finish()
	pointer := follow.NewFollower(r.cfg.Cells, artifacts.CurrentKey, r.cfg.Poll, &r.Counters.Polls)
	defer pointer.Wait()
	retry, wait := r.backOff(), time.Duration(0)
	record := aside{run: r.background.Go, do: func(ctx context.Context) { _ = r.pollChange(ctx) }}
	defer record.end()
	for {
		a := pointer.Next(ctx, r.pointer, wait, r.kick)
		if ctx.Err() != nil {
			return
		}
		if !a.Away || r.State() == nil {
			record.end()
		}
		err, changeErr := r.poll(ctx, a)
		r.floor.Retry()
		r.cfg.Cache.RetryDisk()
		if err != nil {
			wait = retry.NextBackOff()
		} else {
			retry.Reset()
			wait = r.cfg.Poll*4/5 + rand.N(r.cfg.Poll*2/5+1)
		}
		if a.Away && (err != nil || r.unasked.Load() >= changeEach) {
			record.begin(ctx) // the record may be readable even if the pointer is not
		}
		// An unreadable change record must not delay snapshots.
		if err = cmp.Or(err, changeErr); err == nil {
			r.succeed()
		} else if ctx.Err() == nil {
			r.Counters.PollErrors.Add(1)
			r.fail(err)
		}
	}
}

// aside runs a function in the background, one call at a time.
type aside struct {
	run    func(func())
	do     func(context.Context)
	cancel context.CancelFunc
	done   chan struct{} // nil before the first call
}

func (a *aside) begin(ctx context.Context) {
	select {
	case <-a.done:
	default:
		if a.done != nil {
			return // the call is still running
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	a.cancel, a.done = cancel, done
	a.run(func() {
		defer close(done)
		defer cancel()
		a.do(ctx)
	})
}

// end cancels a running call and waits until it has returned.
func (a *aside) end() {
	if a.done != nil {
		a.cancel()
		<-a.done
	}
}

// backOff returns the pauses after errors. They grow from Poll to MaxBackoff and vary by up to half.
func (r *Refresher) backOff() *backoff.ExponentialBackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval, b.RandomizationFactor = r.cfg.Poll, r.cfg.MaxBackoff*2/3, 0.5
	return b
}

// changeEach is how many polls of the pointer there are for each poll of the change record, as long as the
// pointer does not change. By default, this is one poll per minute. A builder writes the record every five minutes.
const changeEach = 30

// poll processes an answer for the pointer and then, if it is due, reads the change record. That read may be
// slow, so it comes last. Before the first snapshot, however, it comes first, so that every answer contains
// the record.
func (r *Refresher) poll(ctx context.Context, pointer follow.Answer) (err, changeErr error) {
	first, before := r.State() == nil, r.pointer
	if first && (!pointer.Away || pointer.Err == nil) {
		changeErr = r.pollChange(ctx)
	}
	err = r.takePointer(ctx, pointer)
	if r.unasked.Add(1); r.pointer != before {
		r.unasked.Store(changeEach)
	}
	if !first && !pointer.Away && r.unasked.Load() >= changeEach {
		changeErr = r.pollChange(ctx)
	}
	return err, changeErr
}

// takePointer processes an answer for the pointer.
func (r *Refresher) takePointer(ctx context.Context, a follow.Answer) error {
	switch err := a.Err; {
	case errors.Is(err, artifacts.ErrNotModified):
		r.Counters.NotModified.Add(1)
		return nil
	case errors.Is(err, artifacts.ErrNotFound):
		// A store that answers without a pointer has no snapshot yet, unless this edge has seen one.
		if s := r.State(); s != nil && s.Snapshot != nil {
			r.floor.Missing(artifacts.CurrentKey, true)
			return fmt.Errorf("the store has lost its pointer; keeping snapshot %s", s.Snapshot.TimeText)
		}
		if r.floor.Seen(artifacts.CurrentKey) {
			r.floor.Missing(artifacts.CurrentKey, true)
			return errors.New("the store has lost its pointer")
		}
		r.pointer = ""
		if r.State() == nil {
			r.cfg.Log.Warn("the store has no snapshot yet: is builder run publishing to it?")
			r.activating.Lock()
			defer r.activating.Unlock()
			r.publish(nil)
		}
		return nil
	case a.Away && err != nil:
		return fmt.Errorf("pointer: %w", err)
	case err != nil:
		r.Counters.Refused.Add(1) // the store returned a pointer, but the edge must not take it
		return fmt.Errorf("pointer refused: %w", err)
	}
	r.floor.Missing(artifacts.CurrentKey, false)
	if err := r.follow(ctx, a.Data); err != nil {
		r.Counters.Refused.Add(1)
		return err
	}
	r.pointer = a.Version
	return nil
}

// follow processes the pointer b and takes over the snapshot that it names.
func (r *Refresher) follow(ctx context.Context, b []byte) error {
	p, err := artifacts.ParsePointer(b)
	if err != nil {
		return err
	}
	r.mu.Lock()
	action, err := r.timeline.Seen(p, time.Now())
	r.mu.Unlock()
	switch {
	case err != nil:
		return fmt.Errorf("pointer refused: %w", err)
	case action == timeline.Confirm:
		r.keep(artifacts.CurrentKey, b)
		return nil
	case action == timeline.Ignore:
		return nil
	}
	next, raw, err := r.load(ctx, p.Manifest)
	if err == nil {
		if err = r.prepare(ctx, next, p); err != nil {
			next.release()
		}
	}
	if err != nil {
		return fmt.Errorf("snapshot of %s: %w", p.Time.Format(timeFormat), err)
	}
	next.Store, next.Sequence = p.Store, p.Sequence
	after := r.warm(ctx, r.current(), next)
	r.enqueue(ctx, next, &arrival{pointer: p, rawPointer: b, rawManifest: raw, after: after})
	return nil
}

func (r *Refresher) current() *Snapshot {
	if s := r.State(); s != nil {
		return s.Snapshot
	}
	return nil
}

// load reads and verifies a manifest, from Dir or else from the store.
func (r *Refresher) load(ctx context.Context, ref artifacts.Ref) (s *Snapshot, raw []byte, err error) {
	if raw = r.keptManifest(ref); raw == nil {
		ctx, cancel := context.WithTimeout(ctx, 2*r.cfg.Cells.Timeout)
		defer cancel()
		if raw, _, err = r.cfg.Store.Get(ctx, artifacts.ManifestKey(ref.Digest), ref.Size); err != nil {
			return nil, nil, fmt.Errorf("manifest: %w", err)
		}
	}
	s, err = r.open(raw, ref)
	return s, raw, err
}

// open builds a snapshot from the bytes of its manifest.
func (r *Refresher) open(raw []byte, ref artifacts.Ref) (*Snapshot, error) {
	if err := ref.Check(raw); err != nil {
		return nil, fmt.Errorf("manifest %s: %w", ref.Digest, err)
	}
	m, err := artifacts.ParseManifest(raw)
	if err != nil {
		return nil, err
	}
	return newSnapshot(m, ref.Digest, r.cfg.Cache, r.cfg.Coins)
}

// pollChange updates the change record. If the record is missing or unreadable, answers contain null. If the
// store does not answer, the last record stays in force.
func (r *Refresher) pollChange(ctx context.Context) error {
	a := r.cfg.Cells.Read(ctx, artifacts.ChangeKey, r.change)
	version, err := a.Version, a.Err
	var c *artifacts.Change
	switch {
	case errors.Is(err, artifacts.ErrNotModified):
		r.unasked.Store(0)
		return nil
	case errors.Is(err, artifacts.ErrNotFound):
		version, err = "", nil
		r.floor.Missing(artifacts.ChangeKey, r.floor.Seen(artifacts.ChangeKey))
	case a.Broken:
		return fmt.Errorf("change record refused: %w", err)
	case a.Away && err != nil:
		return fmt.Errorf("change record: %w", err)
	case err != nil:
		err = fmt.Errorf("change record: %w", err)
	default:
		c, err = artifacts.ParseChange(a.Data)
	}
	r.unasked.Store(0)
	if r.change = version; err != nil {
		r.change = "" // read it again, since it may have been damaged in transit
		r.unasked.Store(changeEach)
	}
	if c != nil {
		r.floor.Missing(artifacts.ChangeKey, false)
		r.keep(artifacts.ChangeKey, a.Data)
		r.floor.Take(artifacts.ChangeKey, c.Store, c.Number)
	}
	r.activating.Lock()
	defer r.activating.Unlock()
	if old := r.State(); old != nil && r.record != c {
		r.state.Store(&State{Snapshot: old.Snapshot, Change: c})
	}
	r.record = c
	return err
}
