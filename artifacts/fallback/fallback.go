// Package fallback reads from a second store what the first store does not provide.
//
// The second store is a copy of the first or, once the first is lost, the store with which the
// builder continues. It may be behind the first store, ahead of it, or incomplete. An object is
// taken from whichever store has the bytes that its key names. For cells, package follow decides
// which store counts.
package fallback

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"example.com/marketdata/artifacts"
)

// Config configures a Reader.
type Config struct {
	First, Second artifacts.Reader
	// Patience is how long the read of an object waits for one store before it also asks the other.
	// The default is 1 s.
	Patience time.Duration
	Log      *slog.Logger
}

// Reader is an artifacts.Reader that reads from the first store and, if necessary, reads objects
// from the second. It is safe for concurrent use.
type Reader struct {
	cfg Config

	mu     sync.Mutex
	from   map[artifacts.Key]string // for each cell last read from the second store, why the first did not provide it
	status Status
}

var (
	_ artifacts.Reader = (*Reader)(nil)
	_ artifacts.Clock  = (*Reader)(nil)
)

// Status says which store is answering.
type Status struct {
	// Active means that a cell, such as the pointer, came from the second store when it was last
	// read. Since is when that began or ended. Reason says why the first store did not provide the
	// cell.
	Active bool      `json:"active"`
	Since  time.Time `json:"since"`
	Reason string    `json:"reason,omitempty"`
	// Reads counts the answers that came from the second store.
	Reads int64 `json:"reads"`
}

// New returns a Reader. It does not access the stores yet.
func New(cfg Config) *Reader {
	cfg.Patience = cmp.Or(max(cfg.Patience, 0), time.Second)
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Reader{cfg: cfg, from: map[artifacts.Key]string{}, status: Status{Since: time.Now().UTC()}}
}

// Try reads the pointer of the second store once and logs a warning if that fails. Otherwise a
// wrong address would go unnoticed until the first store fails.
func (r *Reader) Try(ctx context.Context) {
	key := artifacts.CurrentKey
	if _, _, err := r.cfg.Second.Get(ctx, key, key.Limit()); err != nil && ctx.Err() == nil {
		r.cfg.Log.Warn("the fallback store has no readable pointer: it would not help now", "err", err)
	}
}

// Copy returns the second store.
func (r *Reader) Copy() artifacts.Reader { return r.cfg.Second }

// Status says which store is answering. On a nil Reader it returns the zero Status.
func (r *Reader) Status() Status {
	if r == nil {
		return Status{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status
}

// ClockSkew implements artifacts.Clock, with the store that is answering.
func (r *Reader) ClockSkew() (skew time.Duration, known bool) {
	store := r.cfg.First
	if r.Status().Active {
		store = r.cfg.Second
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

// answer is the answer of one store.
type answer struct {
	second  bool
	data    []byte
	version artifacts.Version
	err     error
	refused error // why the answer does not count; nil if it does
}

// GetIf implements artifacts.Reader. While cells come from the second store, GetIf asks that store
// first for objects.
func (r *Reader) GetIf(ctx context.Context, key artifacts.Key, known artifacts.Version, limit int64,
) ([]byte, artifacts.Version, error) {
	if !key.Immutable() {
		return r.cfg.First.GetIf(ctx, key, known, limit)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan answer, 2)
	ask := func(second bool) {
		from := r.cfg.First
		if second {
			from = r.cfg.Second
		}
		go func() {
			a := answer{second: second}
			a.data, a.version, a.err = from.GetIf(ctx, key, known, limit)
			if a.refused = a.err; errors.Is(a.err, artifacts.ErrNotModified) {
				a.refused = nil
			} else if a.err == nil && !key.Names(a.data) {
				a.refused = fmt.Errorf("%w: %s has other bytes", artifacts.ErrCorrupt, key)
			}
			answers <- a
		}()
	}
	second := r.Status().Active
	ask(second)
	patience := time.NewTimer(r.cfg.Patience)
	defer patience.Stop()
	var got []answer
	says := func(a *answer) bool { // Such an error is an answer about the object, not a failure of the store.
		return a.err == nil || errors.Is(a.err, artifacts.ErrNotFound) || errors.Is(a.err, artifacts.ErrTooLarge)
	}
	for asked := 1; len(got) < 2; asked++ {
		select {
		case a := <-answers:
			if a.refused == nil {
				r.took(a.second)
				return a.data, a.version, a.err
			}
			got = append(got, a)
		case <-patience.C:
		case <-ctx.Done():
			if len(got) > 0 && !got[0].second && says(&got[0]) {
				return got[0].data, got[0].version, got[0].err
			}
			return nil, "", ctx.Err()
		}
		if asked == 1 {
			ask(!second)
		}
	}
	if got[0].second {
		slices.Reverse(got)
	}
	first := got[0]
	if !says(&first) {
		// A caller that waits for the object must learn that the fallback store, even if it
		// answers, does not have the object.
		first.err = fmt.Errorf("%w; the fallback store: %w", first.err, got[1].refused)
	}
	return first.data, first.version, first.err
}

// took counts an answer if it came from the second store.
func (r *Reader) took(second bool) {
	if second {
		r.mu.Lock()
		r.status.Reads++
		r.mu.Unlock()
	}
}

// cells are the cells that edges poll, the most important one first.
var cells = []artifacts.Key{artifacts.CurrentKey, artifacts.KeysKey, artifacts.ChangeKey}

// Note records that the second store provided a cell, and why the first did not. If reason is
// empty, the first store provided the cell.
func (r *Reader) Note(key artifacts.Key, reason string) {
	r.took(reason != "")
	r.mu.Lock()
	defer r.mu.Unlock()
	if delete(r.from, key); reason != "" {
		r.from[key] = reason
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
