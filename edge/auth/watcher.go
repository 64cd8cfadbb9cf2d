package auth

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge/floor"
	"example.com/marketdata/edge/follow"
	"example.com/marketdata/edge/upstream"
	"example.com/marketdata/internal/durable"
)

const (
	// DefaultEvery is how often the store is asked for a newer set. A change
	// is in force within ten seconds while the store answers
	// (INTERFACE.md, "Keys"): two are left for the answer.
	DefaultEvery = 8 * time.Second
	// maxPause bounds the pause after a row of refused sets, and between reports that the
	// store is away.
	maxPause = 8 * time.Second
)

// Config says where a Watcher reads the key set, and how often.
type Config struct {
	// Cells reads the store. Required.
	Cells *follow.Cells
	// Every is the time between two questions; 0: DefaultEvery. Each is
	// shifted by up to a fifth, so that many edges do not ask at once.
	Every time.Duration
	// File is where the bytes of the last good set are kept, for a start while
	// the store is away; "": nowhere.
	File string
	// MaxAge is for how long a set is believed after the store last confirmed
	// it; 0: for ever. After that well-formed keys are Undecided.
	MaxAge time.Duration
	// Logger gets changes of state; nil: none.
	Logger *slog.Logger
}

// errUnconfirmed: the store answers, but not with a key set that may be taken, and a copy's old one confirms nothing.
var errUnconfirmed = errors.New("the store answers without a key set that may be taken, and the fallback store has" +
	" no newer one; the last one stays in force")

// errLost: the store holds no key set, although it did.
var errLost = errors.New("the store has lost its key set; the last one stays in force until builder keys restore puts" +
	" it back, from this edge's cache folder or a backup")

// Status describes the set in force and how the store was last met.
type Status struct {
	upstream.Status
	// Confirmed is when the store last gave or confirmed the set.
	Confirmed time.Time `json:"confirmed,omitzero"`
	// InForce is how many keys are in force; -1 before a set was read.
	InForce int `json:"in_force"`
}

// Watcher keeps a Keys in step with the store.
type Watcher struct {
	keys  *Keys
	cfg   Config
	floor *floor.Floor // of Cells

	known    artifacts.Version // of the set in force; of Run alone
	believed bool              // the set in force came from the store
	read     bool              // there was a set, in the store or in File
	inForce  *artifacts.KeySet // nil at first
	missed   bool              // that there is no set yet was logged

	mu     sync.Mutex
	status Status
}

// NewWatcher returns a Watcher of keys. It asks nothing before Run.
func NewWatcher(keys *Keys, cfg Config) *Watcher {
	if cfg.Every <= 0 {
		cfg.Every = DefaultEvery
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Watcher{keys: keys, cfg: cfg, floor: cfg.Cells.Floor, status: Status{Status: upstream.Start()}}
}

// Load puts the set in File in force, until the store answers. One that cannot
// be used is reported, and none there is no fault.
func (w *Watcher) Load() {
	if w.cfg.File != "" {
		w.floor.Report(artifacts.KeysKey.String(), w.load())
	}
}

func (w *Watcher) load() error {
	b, err := floor.ReadFile(w.cfg.File, artifacts.MaxKeySetSize)
	if b == nil {
		return err
	}
	if verify := w.cfg.Cells.Verify; verify != nil {
		if err := verify(artifacts.KeysKey, b); err != nil {
			return fmt.Errorf("verify key set: %w", err)
		}
	}
	set, err := artifacts.ParseKeySet(b)
	if err != nil {
		return err
	}
	if err := w.floor.Check(artifacts.KeysKey, set.Store, set.Number); err != nil {
		return fmt.Errorf("key set refused: %w", err)
	}
	info, err := os.Stat(w.cfg.File)
	if err != nil {
		return err
	}
	w.use(set, info.ModTime())
	w.read = true
	w.floor.Take(artifacts.KeysKey, set.Store, set.Number)
	w.setState(upstream.Interrupted)
	w.cfg.Logger.Info("kept key set is in force until the store answers", "keys", len(set.Keys), "kept",
		info.ModTime().UTC())
	return nil
}

// Run asks the store until ctx is done.
func (w *Watcher) Run(ctx context.Context) {
	f := follow.NewFollower(w.cfg.Cells, artifacts.KeysKey, w.cfg.Every, nil)
	defer f.Wait()
	wait, pause := time.Duration(0), w.cfg.Every
	for {
		a := f.Next(ctx, w.known, wait, nil)
		if ctx.Err() != nil {
			return
		}
		if err := w.take(a); err == nil {
			pause = w.cfg.Every
		} else {
			w.fault(err)
			pause = max(w.cfg.Every, min(2*pause, maxPause))
		}
		wait = pause - time.Duration(rand.Int64N(int64(pause)/5+1)) // from 0.8 to 1 times the pause
	}
}

// take puts in force what the store says of the set.
func (w *Watcher) take(a follow.Answer) error {
	now := time.Now()
	switch err := a.Err; {
	case a.Unconfirmed():
		return errUnconfirmed
	case errors.Is(err, artifacts.ErrNotModified) && w.believed:
		w.confirm(now)
		return nil
	case errors.Is(err, artifacts.ErrNotFound) && (w.read || w.floor.Seen(artifacts.KeysKey)):
		// A missing object never changes who has access. The set in force stays, and
		// so does its file: it may be the last copy.
		w.known = ""
		w.floor.Missing(artifacts.KeysKey, true)
		return errLost
	case errors.Is(err, artifacts.ErrNotFound):
		// A store that answers and never had a key set has the empty one.
		if !w.believed {
			w.cfg.Logger.Info("the store has no key set: every key is refused; builder keys create makes one")
			w.use(&artifacts.KeySet{}, now)
		}
		w.believed = true
		w.confirm(now)
		return nil
	case a.Away && err != nil:
		return fmt.Errorf("read key set: %w", err)
	case err != nil:
		// The version is not remembered, so that this is a fault each time.
		return fmt.Errorf("key set refused: %w", err)
	}
	b := a.Data
	set, err := artifacts.ParseKeySet(b)
	if err != nil {
		return err
	}
	if w.use(set, now) {
		w.cfg.Logger.Info("new key set is in force", "number", set.Number, "keys", len(set.Keys), "in_force",
			w.keys.count(now))
	}
	w.read = true
	w.floor.Missing(artifacts.KeysKey, false)
	if w.cfg.File != "" {
		w.floor.Keep(artifacts.KeysKey.String(), func() error {
			return durable.WriteFile(w.cfg.File, bytes.NewReader(b), 0o600)
		})
	}
	w.floor.Take(artifacts.KeysKey, set.Store, set.Number)
	w.known, w.believed = a.Version, true
	w.confirm(now)
	return nil
}

// use puts a set in force that was confirmed at the given time, and reports whether it is another one than
// before.
func (w *Watcher) use(set *artifacts.KeySet, confirmed time.Time) (changed bool) {
	before := w.inForce
	w.inForce = set
	w.believe(confirmed)
	w.keys.Use(set, time.Now())
	return before == nil || before.Number != set.Number || before.Store != set.Store
}

func (w *Watcher) believe(confirmed time.Time) {
	if w.cfg.MaxAge > 0 {
		w.keys.until.Store(confirmed.Add(w.cfg.MaxAge).UnixNano())
	}
	w.mu.Lock()
	w.status.Confirmed = confirmed.UTC()
	w.mu.Unlock()
}

// confirm notes that the store stands by the set in force.
func (w *Watcher) confirm(now time.Time) {
	w.believe(now)
	if w.cfg.MaxAge > 0 && w.cfg.File != "" {
		// The file's time says until when it may be believed after a restart. If
		// that fails it is believed for less long.
		_ = os.Chtimes(w.cfg.File, now, now)
	}
	if w.setState(upstream.Valid) {
		w.cfg.Logger.Info("key set is confirmed by the store")
	}
}

func (w *Watcher) fault(err error) {
	w.mu.Lock()
	w.status.Fail(err)
	w.mu.Unlock()
	if w.keys.set.Load() != nil && w.setState(upstream.Interrupted) {
		w.cfg.Logger.Warn("key set is not confirmed by the store; the last one stays in force", "err", err)
	} else if w.keys.set.Load() == nil && !w.missed {
		w.missed = true // Status has the newest error
		w.cfg.Logger.Warn("no key set was read yet; trying until there is one", "err", err)
	}
}

// setState reports whether the state is another than before.
func (w *Watcher) setState(state upstream.State) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.status.Set(state)
}

// Status describes the set in force.
func (w *Watcher) Status() Status {
	w.mu.Lock()
	s := w.status
	w.mu.Unlock()
	s.InForce = w.keys.count(time.Now())
	return s
}
