// Package fallback reads from a second store what the first does not give.
//
// The second store is a copy of the first, or, once the first is lost, the one that the builder goes
// on with. It may be behind the first, ahead of it, or incomplete:
//
//   - An object is taken from whichever store has the bytes that its key names.
//   - A cell is the first store's while that gives one that may be taken, else the second's, if that
//     may be taken. An older one never is, so whoever reads moves in one direction only.
//   - What the second store says counts only if it helps. A cell that it lacks is not missing, and an
//     old one that it has is no news: the answer is then the first store's, whatever that is.
package fallback

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"example.com/marketdata/artifacts"
)

// probeTimeout bounds the read that asks whether the first store is back.
const probeTimeout = 5 * time.Second

// Config configures a Reader.
type Config struct {
	First, Second artifacts.Reader
	// Check says why a cell must not be taken: its signature is wrong, it is of another store, or
	// older than one that was taken.
	Check func(key artifacts.Key, data []byte) error
	// Patience is how long a read waits for one store before it asks the other, too (1 s).
	Patience time.Duration
	Log      *slog.Logger
}

// Reader is an artifacts.Reader of two stores. It is safe for concurrent use.
type Reader struct {
	cfg    Config
	stores [2]artifacts.Reader

	away    atomic.Pointer[string] // why the first store gives no answers: the second is asked first
	probing atomic.Bool

	mu     sync.Mutex
	from   map[artifacts.Key]string // cells that the second store gave last: why the first did not
	status Status
}

var (
	_ artifacts.Reader = (*Reader)(nil)
	_ artifacts.Clock  = (*Reader)(nil)
)

// Status says which store answers.
type Status struct {
	// Active means that a cell, such as the pointer, came from the second store when it was last
	// read. Since is when that began or ended, Reason why the first did not give it.
	Active bool      `json:"active"`
	Since  time.Time `json:"since"`
	Reason string    `json:"reason,omitempty"`
	// Reads counts the answers that were taken from the second store.
	Reads int64 `json:"reads"`
}

// New returns a Reader. It asks nothing yet.
func New(cfg Config) *Reader {
	cfg.Patience = cmp.Or(max(cfg.Patience, 0), time.Second)
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Reader{cfg: cfg, stores: [2]artifacts.Reader{cfg.First, cfg.Second},
		from: map[artifacts.Key]string{}, status: Status{Since: time.Now().UTC()}}
}

// Try reads the second store's pointer once and logs a warning if it gives none, since a wrong address
// would show only when the first store is away.
func (r *Reader) Try(ctx context.Context) {
	key := artifacts.CurrentKey
	if _, _, err := r.cfg.Second.Get(ctx, key, key.Limit()); err != nil && ctx.Err() == nil {
		r.cfg.Log.Warn("the fallback store would not help now: it gives no pointer", "err", err)
	}
}

// Status says which store answers; of a nil Reader, that no second one does.
func (r *Reader) Status() Status {
	if r == nil {
		return Status{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status
}

// ClockSkew implements artifacts.Clock, by the store that answers.
func (r *Reader) ClockSkew() (skew time.Duration, known bool) {
	store := r.stores[0]
	if r.away.Load() != nil {
		store = r.stores[1]
	}
	if c, ok := store.(artifacts.Clock); ok {
		return c.ClockSkew()
	}
	return 0, false
}

// Get implements artifacts.Reader.
func (r *Reader) Get(ctx context.Context, key artifacts.Key, limit int64) ([]byte, artifacts.Version, error) {
	return r.GetIf(ctx, key, "", limit)
}

// answer is one store's.
type answer struct {
	store int // 0: the first
	data  []byte
	// version is prefixed with the store, since each has versions of its own.
	version artifacts.Version
	err     error
	refused error // why it does not count; nil: it does
}

// said reports whether the store has answered.
func (a *answer) said() bool {
	return a.err == nil || errors.Is(a.err, artifacts.ErrNotFound) || errors.Is(a.err, artifacts.ErrNotModified) ||
		errors.Is(a.err, artifacts.ErrTooLarge)
}

// cells are those that are read again and again, the most important one first. The identity is not:
// it would stand for ever.
var cells = []artifacts.Key{artifacts.CurrentKey, artifacts.KeysKey, artifacts.ChangeKey}

var prefixes = [2]string{"1:", "2:"}

// ask asks one store.
func (r *Reader) ask(ctx context.Context, store int, key artifacts.Key, known artifacts.Version, limit int64) answer {
	own, _ := strings.CutPrefix(string(known), prefixes[store])
	if own == string(known) {
		own = "" // it is the other store's
	}
	a := answer{store: store}
	a.data, a.version, a.err = r.stores[store].GetIf(ctx, key, artifacts.Version(own), limit)
	switch {
	case errors.Is(a.err, artifacts.ErrNotModified):
	case a.err != nil:
		a.refused = a.err
	case !key.Immutable():
		a.refused = r.cfg.Check(key, a.data)
	case !key.Names(a.data):
		a.refused = fmt.Errorf("%w: %s has other bytes", artifacts.ErrCorrupt, key)
	}
	if a.err == nil {
		a.version = artifacts.Version(prefixes[store]) + a.version
	}
	switch {
	case store != 0:
	case a.said():
		r.away.Store(nil)
	case ctx.Err() == nil:
		reason := a.err.Error()
		r.away.Store(&reason)
	}
	return a
}

// GetIf implements artifacts.Reader.
func (r *Reader) GetIf(ctx context.Context, key artifacts.Key, known artifacts.Version, limit int64,
) ([]byte, artifacts.Version, error) {
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan answer, len(r.stores))
	ask := func(store int) { go func() { answers <- r.ask(inner, store, key, known, limit) }() }
	order := [2]int{0, 1}
	if r.away.Load() != nil {
		order = [2]int{1, 0}
		r.probe(ctx, key)
	}
	ask(order[0])
	patience := time.NewTimer(r.cfg.Patience)
	defer patience.Stop()
	var got [2]*answer
	for asked := 1; got[0] == nil || got[1] == nil; {
		select {
		case a := <-answers:
			got[a.store] = &a
			if a.refused == nil {
				if got[0] == nil && order[0] == 0 && !key.Immutable() { // an object may just be long
					silent := fmt.Sprintf("no answer within %v", r.cfg.Patience)
					r.away.Store(&silent)
				}
				r.took(key, &a, got[0])
				return a.data, a.version, a.err
			}
		case <-patience.C:
		case <-ctx.Done():
			if a := got[0]; a != nil && a.said() {
				return a.data, a.version, a.err
			}
			return nil, "", ctx.Err()
		}
		if asked == 1 {
			ask(order[1])
			asked++
		}
	}
	first, second := got[0], got[1]
	switch {
	case first.said():
	case key.Immutable() && second.refused != nil:
		// Whoever waits for it must know that the store that answers does not have it.
		first.err = fmt.Errorf("%w; the fallback store: %w", first.err, second.refused)
	default:
		first.err = fmt.Errorf("%w; the fallback store: %v", first.err, second.refused)
	}
	return first.data, first.version, first.err
}

// took notes that a was taken; first is the first store's answer, nil if there is none.
func (r *Reader) took(key artifacts.Key, a, first *answer) {
	reason := ""
	if a.store == 1 {
		if away := r.away.Load(); first != nil {
			reason = first.refused.Error()
		} else if away != nil {
			reason = *away
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status.Reads += int64(a.store)
	if !slices.Contains(cells, key) {
		return
	}
	if a.store == 0 {
		delete(r.from, key)
	} else if reason != "" || r.from[key] == "" {
		r.from[key] = cmp.Or(reason, "no answer")
	}
	active := len(r.from) > 0
	r.status.Reason = ""
	for _, key := range cells {
		if from, there := r.from[key]; there {
			r.status.Reason = fmt.Sprintf("%s: %s", key, from)
			break
		}
	}
	if active == r.status.Active {
		return
	}
	r.status.Active, r.status.Since = active, time.Now().UTC()
	if active {
		r.cfg.Log.Warn("the fallback store answers in place of the first", "object", key.String(), "err", reason)
	} else {
		r.cfg.Log.Info("the first store answers again")
	}
}

// probe asks the first store, once at a time and for nobody, whether it is back.
func (r *Reader) probe(ctx context.Context, key artifacts.Key) {
	if key.Immutable() || !r.probing.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer r.probing.Store(false)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeTimeout)
		defer cancel()
		r.ask(ctx, 0, key, "", key.Limit())
	}()
}
