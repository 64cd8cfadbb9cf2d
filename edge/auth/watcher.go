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
	// DefaultEvery is the interval at which a Watcher asks the store for a newer set. A change takes effect
	// within ten seconds while the store answers (INTERFACE.md, "Keys"), so this leaves two seconds for the
	// store's answer.
	DefaultEvery = 8 * time.Second
	// maxPause bounds the pause between attempts after consecutive errors.
	maxPause = 8 * time.Second
)

// Config configures a Watcher.
type Config struct {
	// Cells reads the store. Required.
	Cells *follow.Cells
	// Every is the interval between two reads of the store; 0 means DefaultEvery. Each interval is shortened
	// at random by up to a fifth, so that the edges of a fleet do not all ask simultaneously.
	Every time.Duration
	// File is the path where the Watcher saves the last valid set, so that an edge can start while the store
	// is unreachable. If it is empty, nothing is saved.
	File string
	// MaxAge is how long the set stays in force after the store last confirmed it; 0 means forever. After
	// that Lookup returns Undecided for well-formed keys.
	MaxAge time.Duration
	// Logger receives changes of state. It may be nil.
	Logger *slog.Logger
}

// errUnconfirmed means that the store answers without a valid key set. An older set in the fallback store
// confirms nothing.
var errUnconfirmed = errors.New("the store answers without a key set that may be taken, and the fallback store has" +
	" no newer one; the last one stays in force")

// errLost means that the store has lost a key set that it once had.
var errLost = errors.New("the store has lost its key set; the last one stays in force until builder keys restore puts" +
	" it back, from this edge's cache folder or a backup")

// Status describes the set in force and the last contact with the store.
type Status struct {
	upstream.Status
	// Confirmed is the time when the store last returned or confirmed the set.
	Confirmed time.Time `json:"confirmed,omitzero"`
	// InForce is the number of keys in force, or -1 if no set has been read yet.
	InForce int `json:"in_force"`
}

// Watcher updates a Keys when the store's key set changes.
type Watcher struct {
	keys  *Keys
	cfg   Config
	floor *floor.Floor // the floor of Cells

	known    artifacts.Version // the version of the set in force; only Run uses it
	believed bool              // the set in force comes from the store
	read     bool              // the store or File contained a set
	inForce  *artifacts.KeySet // nil until there is a set
	missed   bool              // the absence of a set has been logged

	mu     sync.Mutex
	status Status
}

// NewWatcher returns a Watcher that updates keys. It reads nothing before Load and Run.
func NewWatcher(keys *Keys, cfg Config) *Watcher {
	if cfg.Every <= 0 {
		cfg.Every = DefaultEvery
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Watcher{keys: keys, cfg: cfg, floor: cfg.Cells.Floor, status: Status{Status: upstream.Start()}}
}

// Load puts the set from File in force until the store answers. An unusable file is reported; a missing file
// is not an error.
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

// Run reads the store until ctx is done.
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
		wait = pause - time.Duration(rand.Int64N(int64(pause)/5+1)) // 0.8 to 1 times the pause
	}
}

// take applies the store's answer.
func (w *Watcher) take(a follow.Answer) error {
	now := time.Now()
	switch err := a.Err; {
	case a.Unconfirmed():
		return errUnconfirmed
	case errors.Is(err, artifacts.ErrNotModified) && w.believed:
		w.confirm(now)
		return nil
	case errors.Is(err, artifacts.ErrNotFound) && (w.read || w.floor.Seen(artifacts.KeysKey)):
		// A missing object never changes who has access. The set in force stays, and so does its file, which
		// may be the last copy.
		w.known = ""
		w.floor.Missing(artifacts.KeysKey, true)
		return errLost
	case errors.Is(err, artifacts.ErrNotFound):
		// If the store has never had a key set, the set is empty.
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
		// The version is not remembered, so the next poll reads the set again and reports the error again.
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

// use puts in force a set that the store confirmed at the given time. It reports whether the set differs from
// the previous one.
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

// confirm records that the store confirmed the set in force at time now.
func (w *Watcher) confirm(now time.Time) {
	w.believe(now)
	if w.cfg.MaxAge > 0 && w.cfg.File != "" {
		// After a restart the file's modification time determines how long the set may be used. If
		// updating it fails, the set merely expires sooner.
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
		w.missed = true // Status shows the newest error
		w.cfg.Logger.Warn("no key set was read yet; trying until there is one", "err", err)
	}
}

// setState sets the state and reports whether it changed.
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
