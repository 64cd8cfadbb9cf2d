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

// State is what one request is answered from. It does not change.
type State struct {
	// Snapshot is the current one; nil: the store answers and has none.
	Snapshot *Snapshot
	// Change is the change record in force; nil: there is none, or it cannot be used
	// (FEED.md, "Change of the total").
	Change *artifacts.Change
}

// Config configures a Refresher. Zero durations take the defaults in their comments.
type Config struct {
	Store artifacts.Reader
	Cache *shards.Cache
	// Dir keeps verified objects, so that an edge can start while the store is away; "":
	// nothing is kept.
	Dir string
	// Poll is the time between polls of the pointer (2 s), give or take a fifth. While the
	// store does not answer it is half a second; after other errors it grows up to
	// MaxBackoff (30 s).
	Poll, MaxBackoff time.Duration
	// FetchBudget is how long a new snapshot is fetched before it may become current with
	// objects missing (60 s).
	FetchBudget time.Duration
	// Cells reads the store's cells, and says what must not be taken, and what is wrong with Dir; nil: those
	// of Store, about which nothing is known.
	Cells *follow.Cells
	// HistoryBytes bounds what of history is fetched before it is asked for, and
	// DirBytes the disk copy, of which it takes what snapshots themselves leave; 0
	// DirBytes: no bound.
	HistoryBytes, DirBytes int64
	// Coins: snapshots have the views of CoinView, too.
	Coins bool
	// Swapped is called for each snapshot that becomes current, except one from Dir; nil:
	// nothing is called.
	Swapped func(Swap)
	// Now is the wall clock for activation, for pins of the future, and for the budget of
	// the first snapshot (time.Now).
	Now func() time.Time
	Log *slog.Logger
}

// Warm prepares next before it is current, from the hot shards of old, and
// returns the work left for when it is. old is nil for the first snapshot.
type Warm func(ctx context.Context, old, next *Snapshot) (after func())

// Refresher keeps the State up to date.
type Refresher struct {
	cfg   Config
	state atomic.Pointer[State]
	kick  chan struct{} // makes Run poll at once; see pollForPin

	restored chan struct{}

	Counters Counters

	floor *floor.Floor // of Cells

	// Owned by the goroutine of Run.
	warm    Warm
	pointer artifacts.Version // of the last pointer that was handled
	// Owned by pollChange, which runs once at a time.
	change artifacts.Version // of the last readable change record
	// unasked counts the polls since the change record was last read.
	unasked atomic.Int64

	// activating serializes changes of the state: by the goroutine of Run, and by the
	// timers of snapshots that wait. It is locked before mu, and guards record.
	activating sync.Mutex
	record     *artifacts.Change // in force

	// mu guards these, and the progress of every snapshot.
	mu       sync.Mutex
	timeline timeline.Timeline[*Snapshot]
	status   Status
	changed  chan struct{} // closed at the next change of state
	loading  map[artifacts.Digest]*load
	kicked   time.Time // when a pin last had Run poll
	first    time.Time // when the first snapshot became current

	waiting    atomic.Int64 // requests that wait for a pin of the future
	background sync.WaitGroup
	// historySlots bound the fetching of history of all snapshots together.
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

// State returns the State in force; nil before anything is known.
func (r *Refresher) State() *State { return r.state.Load() }

// Restored is closed once the snapshot in Dir is current, or none there can be used. Until
// then State returns nil.
func (r *Refresher) Restored() <-chan struct{} { return r.restored }

// Run starts from the snapshot in Dir, and polls until ctx is done. It warms each snapshot
// before it is current, unless warm is nil.
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
			record.begin(ctx) // it may be there, and the pointer is the greater fault
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

// aside does something in the background, once at a time.
type aside struct {
	run    func(func())
	do     func(context.Context)
	cancel context.CancelFunc
	done   chan struct{} // nil: it never began
}

func (a *aside) begin(ctx context.Context) {
	select {
	case <-a.done:
	default:
		if a.done != nil {
			return // it is at work
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

// end returns when nothing runs any more.
func (a *aside) end() {
	if a.done != nil {
		a.cancel()
		<-a.done
	}
}

// backOff returns the pauses after errors: they grow from Poll to MaxBackoff, give or take
// half.
func (r *Refresher) backOff() *backoff.ExponentialBackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval, b.RandomizationFactor = r.cfg.Poll, r.cfg.MaxBackoff*2/3, 0.5
	return b
}

// changeEach is how many polls of the pointer there are to one of the change record, unless the
// pointer moves: by default one a minute, where a builder writes it every five.
const changeEach = 30

// poll follows the pointer and, if it is time, reads the change record: last, because it may be slow, but
// before the first snapshot, so that every answer has it.
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

// takePointer takes over a new snapshot.
func (r *Refresher) takePointer(ctx context.Context, a follow.Answer) error {
	switch err := a.Err; {
	case errors.Is(err, artifacts.ErrNotModified):
		r.Counters.NotModified.Add(1)
		return nil
	case errors.Is(err, artifacts.ErrNotFound):
		// A store that answers and has no pointer: nothing was published yet.
		if s := r.State(); s != nil && s.Snapshot != nil {
			r.floor.Missing(artifacts.CurrentKey, true)
			return fmt.Errorf("the store has no pointer any more; keeping snapshot %s", s.Snapshot.TimeText)
		}
		if r.floor.Seen(artifacts.CurrentKey) {
			r.floor.Missing(artifacts.CurrentKey, true)
			return errors.New("the store has no pointer any more")
		}
		r.pointer = ""
		if r.State() == nil {
			r.cfg.Log.Warn("the store has no snapshot yet: is builder run at work there?")
			r.activating.Lock()
			defer r.activating.Unlock()
			r.publish(nil)
		}
		return nil
	case a.Away && err != nil:
		return fmt.Errorf("pointer: %w", err)
	case err != nil:
		r.Counters.Refused.Add(1) // it is there, and no credentials would help
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

// follow takes over the snapshot that the pointer b names.
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

// pollChange brings the change record up to date. A record that is missing or
// unreadable is null in answers; a store that cannot be asked leaves the last
// one in force.
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
		r.change = "" // it may have been damaged on its way: it is read again
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
