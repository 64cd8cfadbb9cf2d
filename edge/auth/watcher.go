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
	// defaultTimeout bounds one question to the store.
	defaultTimeout = 5 * time.Second
	// maxPause bounds the pause after a row of refused sets, and between reports that the
	// store is away.
	maxPause = 8 * time.Second
)

// Config says where a Watcher reads the key set, and how often.
type Config struct {
	// Reader is the store. Required.
	Reader artifacts.CellReader
	// Every is the time between two questions; 0: DefaultEvery. Each is
	// shifted by up to a fifth, so that many edges do not ask at once.
	Every time.Duration
	// Timeout bounds each question; 0: 5 seconds.
	Timeout time.Duration
	// File is where the bytes of the last good set are kept, for a start while
	// the store is away; "": nowhere.
	File string
	// Floor says what must not be taken, and what is wrong with File; nil: a new
	// one, in memory.
	Floor *floor.Floor
	// Verify is asked about the bytes of a set, from the store or from File,
	// before they are believed, and of what says which store it is; nil: all are.
	Verify func(key artifacts.Key, data []byte) error
	// MaxAge is for how long a set is believed after the store last confirmed
	// it; 0: for ever. After that well-formed keys are Undecided.
	MaxAge time.Duration
	// Logger gets changes of state; nil: none.
	Logger *slog.Logger
}

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
	cells follow.Cells

	probeSlots chan struct{}
	background sync.WaitGroup

	known    artifacts.Version // of the set in force; of Run alone
	believed bool              // the set in force came from the store
	read     bool              // there was a set, in the store or in File

	mu     sync.Mutex
	status Status
}

// NewWatcher returns a Watcher of keys. It asks nothing before Run.
func NewWatcher(keys *Keys, cfg Config) *Watcher {
	if cfg.Every <= 0 {
		cfg.Every = DefaultEvery
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = defaultTimeout
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Floor == nil {
		cfg.Floor = floor.Open("", nil, nil)
	}
	return &Watcher{
		keys: keys, cfg: cfg, status: Status{Status: upstream.Start()},
		probeSlots: make(chan struct{}, follow.MaxProbes),
		cells:      follow.Cells{Reader: cfg.Reader, Verify: cfg.Verify, Floor: cfg.Floor, Timeout: cfg.Timeout},
	}
}

// Load puts the set in File in force, until the store answers. One that cannot
// be used is reported, and none there is no fault.
func (w *Watcher) Load() {
	if w.cfg.File != "" {
		w.cfg.Floor.Report(artifacts.KeysKey.String(), w.load())
	}
}

func (w *Watcher) load() error {
	b, err := floor.ReadFile(w.cfg.File, artifacts.MaxKeySetSize)
	if b == nil {
		return err
	}
	if w.cfg.Verify != nil {
		if err := w.cfg.Verify(artifacts.KeysKey, b); err != nil {
			return fmt.Errorf("verify key set: %w", err)
		}
	}
	set, err := w.parse(b)
	if err != nil {
		return err
	}
	info, err := os.Stat(w.cfg.File)
	if err != nil {
		return err
	}
	w.use(set, info.ModTime())
	w.read = true
	w.cfg.Floor.Take(artifacts.KeysKey, set.Store, set.Number)
	w.setState(upstream.Interrupted)
	w.cfg.Logger.Info("kept key set is in force until the store answers", "keys", len(set.Keys), "kept",
		info.ModTime().UTC())
	return nil
}

// Run asks the store until ctx is done.
func (w *Watcher) Run(ctx context.Context) {
	defer w.background.Wait()
	pause := w.cfg.Every
	for {
		err := w.poll(ctx)
		if err == nil {
			pause = w.cfg.Every
		} else if ctx.Err() == nil {
			w.fault(err)
			pause = max(w.cfg.Every, min(2*pause, maxPause))
		}
		if follow.IsAway(err) && ctx.Err() == nil {
			w.untilBack(ctx)
			pause = w.cfg.Every
			continue
		}
		// From 0.8 to 1 times the pause.
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause - time.Duration(rand.Int64N(int64(pause)/5+1))):
		}
	}
}

// untilBack returns when the store, which is away, answers again, or ctx is done. It reports the
// fault with longer and longer pauses meanwhile.
func (w *Watcher) untilBack(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	known := w.known
	probes := follow.Probe(ctx, min(follow.ProbeEvery, w.cfg.Every), w.probeSlots, w.background.Go,
		func(ctx context.Context) error {
			if err := w.cells.Learn(ctx); err != nil {
				return err
			}
			if _, _, err := w.cells.Read(ctx, artifacts.KeysKey, known); err != nil {
				return fmt.Errorf("read key set: %w", err)
			}
			return nil
		})
	pause := 2 * w.cfg.Every
	report := time.After(pause)
	var last error
	for {
		select {
		case <-ctx.Done():
			return
		case last = <-probes:
			if !follow.IsAway(last) {
				return
			}
		case <-report:
			pause = min(2*pause, max(w.cfg.Every, maxPause))
			report = time.After(pause)
			if last != nil {
				w.fault(last)
			}
		}
	}
}

// poll asks the store once.
func (w *Watcher) poll(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, w.cfg.Timeout)
	defer cancel()
	if err := w.cells.Learn(ctx); err != nil {
		return err
	}
	b, version, err := w.cells.Read(ctx, artifacts.KeysKey, w.known)
	now := time.Now()
	switch {
	case errors.Is(err, artifacts.ErrNotModified) && w.believed:
		w.confirm(now)
		return nil
	case errors.Is(err, artifacts.ErrNotFound) && (w.read || w.cfg.Floor.Seen(artifacts.KeysKey)):
		// A missing object never changes who has access. The set in force stays, and
		// so does its file: it may be the last copy.
		w.known = ""
		w.cfg.Floor.Missing(artifacts.KeysKey, true)
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
	case err != nil && b != nil:
		return fmt.Errorf("verify key set: %w", err)
	case err != nil:
		return fmt.Errorf("read key set: %w", err)
	}
	set, err := w.parse(b)
	if err != nil {
		// The version is not remembered, so that this is a fault each time.
		return err
	}
	w.use(set, now)
	w.read = true
	w.cfg.Floor.Missing(artifacts.KeysKey, false)
	if w.cfg.File != "" {
		w.cfg.Floor.Report(artifacts.KeysKey.String(), durable.WriteFile(w.cfg.File, bytes.NewReader(b), 0o600))
	}
	w.cfg.Floor.Take(artifacts.KeysKey, set.Store, set.Number)
	w.known, w.believed = version, true
	w.confirm(now)
	w.cfg.Logger.Info("new key set is in force", "keys", len(set.Keys), "in_force", w.keys.count(now))
	return nil
}

// parse returns a set that may be taken.
func (w *Watcher) parse(b []byte) (*artifacts.KeySet, error) {
	set, err := artifacts.ParseKeySet(b)
	if err != nil {
		return nil, err
	}
	if err := w.cfg.Floor.Check(artifacts.KeysKey, set.Store, set.Number); err != nil {
		return nil, fmt.Errorf("key set refused: %w", err)
	}
	return set, nil
}

// use puts a set in force that was confirmed at the given time.
func (w *Watcher) use(set *artifacts.KeySet, confirmed time.Time) {
	w.believe(confirmed)
	w.keys.Use(set, time.Now())
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
	} else if w.keys.set.Load() == nil {
		w.cfg.Logger.Warn("no key set was read yet", "err", err)
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
