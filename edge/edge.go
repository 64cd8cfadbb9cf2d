// Package edge serves published snapshots: it follows the pointer in an object
// store and answers the endpoints from its own machine.
// README.md walks through the life of a request and of a snapshot.
package edge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/fallback"
	"example.com/marketdata/artifacts/stores"
	"example.com/marketdata/edge/admin"
	"example.com/marketdata/edge/auth"
	"example.com/marketdata/edge/coingecko"
	"example.com/marketdata/edge/files"
	"example.com/marketdata/edge/floor"
	"example.com/marketdata/edge/follow"
	"example.com/marketdata/edge/limit"
	"example.com/marketdata/edge/limit/redisstore"
	"example.com/marketdata/edge/metrics"
	"example.com/marketdata/edge/reply"
	"example.com/marketdata/edge/server"
	"example.com/marketdata/edge/shards"
	"example.com/marketdata/edge/snapshot"
	"example.com/marketdata/edge/web"
)

// Config is what an Edge is made from. Zero values take the defaults that
// stand beside them.
type Config struct {
	// Coins: what package coingecko answers is there, too.
	Coins bool

	// Store is the URL of the object store; Reader takes its place when set.
	Store  string
	Reader artifacts.Reader
	// FallbackStore is the URL of a copy that is read where the store does not answer; "": none.
	// See package fallback.
	FallbackStore string

	// Listen is the public address, Admin that of the admin listener.
	Listen, Admin string
	// PublicSockets and AdminSocket take the place of these addresses if set. Another process keeps
	// them open, such as systemd, so that nothing is refused between two edges.
	PublicSockets []net.Listener
	AdminSocket   net.Listener
	// ReusePort shares Listen with other edges of this user (Linux). The edge listens there once it
	// is ready, and loses no connection when it leaves.
	ReusePort bool
	// AdminHosts are names by which the admin listener answers, beside addresses
	// and localhost.
	AdminHosts []string
	// AuthOff lets everybody in, for local use: Listen must then be a loopback
	// address unless Insecure.
	AuthOff, Insecure bool
	// BoardLogos are the origins that the market board may load logos from.
	BoardLogos []string
	// Pprof serves profiles on an Admin address that is not loopback, too.
	Pprof bool

	// CacheSize bounds the memory for shards and finished answers together, in
	// bytes (256 MiB).
	CacheSize int64
	// CacheDir holds the disk copy, which no other edge may use; "": a temporary folder that goes at exit.
	CacheDir string
	// CacheDirSize bounds the disk copy, in bytes; 0: no bound.
	CacheDirSize int64
	// HistoryFetch bounds what of /history is fetched before it is asked for, in
	// bytes; 0: nothing is. Of CacheDirSize it takes what the snapshot leaves.
	HistoryFetch int64

	// Poll is how often the pointer is asked for (2 s).
	Poll time.Duration
	// FetchBudget: see snapshot.Config (60 s).
	FetchBudget time.Duration
	AcceptStore []string
	// Trust are the keys that must have signed the pointer, the change record and
	// the key set; none: no signature is asked for.
	Trust artifacts.Trust
	// MaxStale turns answers into 503 past that age; 0: never.
	MaxStale time.Duration
	// MaxKeyAge refuses keys that long after the store last confirmed them; 0:
	// never.
	MaxKeyAge time.Duration
	// CacheScope begins Cache-Control: private or public.
	CacheScope string

	// LimitStore is the URL of the Redis or Valkey through which edges share
	// the limits of keys; "": they share none. See package redisstore.
	LimitStore string

	// OnReady is called when /readyz first says so, OnDrain when the edge begins to drain; nil: nothing is.
	OnReady, OnDrain func()

	// Server configures the public listener. New sets Answer, Current, Keys, Static (package
	// web), Observe and Logger, and lowers MaxConns to what the process's limit of open files
	// allows.
	Server server.Config

	// DrainWait is how long requests are still served after the end was asked
	// for, with /readyz at 503: 0 to an edge that is idle, to which there was no request
	// for as long. DrainTimeout bounds what comes then (15 s).
	DrainWait, DrainTimeout time.Duration

	// Now is the clock by which snapshots become current, and of pins of the future
	// (time.Now).
	Now func() time.Time

	Log *slog.Logger
}

// Edge is a running edge.
type Edge struct {
	cfg       Config
	cache     *shards.Cache
	engine    *reply.Engine
	refresher *snapshot.Refresher
	keys      *auth.Keys
	watcher   *auth.Watcher
	limits    *limit.Shared // nil: not shared
	floor     *floor.Floor
	fallback  *fallback.Reader // nil: there is none
	public    *server.Server
	admin     *admin.Server
	metrics   *metrics.Metrics
	listeners []net.Listener // of ReusePort: none until the edge is ready, and servePublic's
	adminLn   net.Listener
	folder    *folder
	began     time.Time
	atom      feedOf
	ready     atomic.Bool // it was, once: see unready
	listening atomic.Bool // at the public address
}

// ErrUsage: the configuration cannot be.
var ErrUsage = errors.New("usage")

// complete sets the defaults, and refuses what does not fit together.
func (cfg *Config) complete() error {
	cfg.Listen = cmp.Or(cfg.Listen, "127.0.0.1:8080")
	public := []string{cfg.Listen}
	if len(cfg.PublicSockets) > 0 {
		public = addresses(cfg.PublicSockets)
		cfg.Listen = strings.Join(public, ", ")
	}
	cfg.Admin = cmp.Or(cfg.Admin, "127.0.0.1:9090")
	cfg.CacheSize = cmp.Or(cfg.CacheSize, 256<<20)
	cfg.Poll = cmp.Or(cfg.Poll, 2*time.Second)
	cfg.DrainTimeout = cmp.Or(cfg.DrainTimeout, 15*time.Second)
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	switch cfg.CacheScope {
	case "", "private":
	case "public":
		cfg.Log.Warn("answers are marked as public: whatever caches them must check keys itself")
	default:
		return fmt.Errorf("%w: --cache-scope %q: want private or public", ErrUsage, cfg.CacheScope)
	}
	switch _, port, _ := net.SplitHostPort(cfg.Listen); {
	case !cfg.ReusePort:
	case len(cfg.PublicSockets) > 0:
		return fmt.Errorf("%w: --reuse-port: the public socket was passed to this process, so it opens none to share",
			ErrUsage)
	case port == "0":
		return fmt.Errorf("%w: --reuse-port: --listen %s lets the system choose: want the port to share", ErrUsage,
			cfg.Listen)
	}
	if cfg.AuthOff {
		if !cfg.Insecure && slices.ContainsFunc(public, func(a string) bool { return !loopback(a) }) {
			return fmt.Errorf(
				"%w: --auth off lets everybody in, and --listen %s is not a loopback address; if that is meant, add --insecure", ErrUsage, cfg.Listen)
		}
		cfg.Log.Warn("AUTHENTICATION IS OFF: everybody who reaches the listener is let in, without limits", "listen",
			cfg.Listen)
	}
	return nil
}

// New opens the store, the cache folder and both listeners. Nothing is served
// before Run.
func New(ctx context.Context, cfg Config) (_ *Edge, err error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	e := &Edge{cfg: cfg, began: time.Now()}
	defer func() {
		if err != nil {
			e.close()
		}
	}()
	var unlocked error
	if e.folder, unlocked, err = openFolder(cfg.CacheDir, cfg.Log); err != nil {
		return nil, err
	}
	dir := e.folder.path
	var verify func(key artifacts.Key, data []byte) error
	if len(cfg.Trust) > 0 {
		verify = cfg.Trust.Verify
	}
	e.floor = floor.Open(dir, cfg.AcceptStore, cfg.Log)
	e.floor.Report("its lock", unlocked)
	local := cfg.Reader == nil && stores.Local(cfg.Store)
	cells := follow.NewCells(nil)
	cells.Floor, cells.Verify = e.floor, verify
	if cfg.Reader, err = e.openReader(context.WithoutCancel(ctx), cells); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUsage, err)
	}
	e.cfg.Reader = cfg.Reader
	// A quarter of the memory is for finished answers. During a swap two
	// snapshots have theirs; each is filled by what is asked for twice, or was coded.
	responses := cfg.CacheSize / 4
	if e.cache, err = shards.New(shards.Config{
		Store: cfg.Reader, Local: local, Memory: cfg.CacheSize - responses, Dir: dir, DirSize: cfg.CacheDirSize,
		Log: cfg.Log,
	}); err != nil {
		return nil, err
	}
	e.refresher = snapshot.NewRefresher(snapshot.Config{
		Store: cfg.Reader, Cache: e.cache, Dir: dir, Poll: cfg.Poll, FetchBudget: cfg.FetchBudget, Cells: cells,
		HistoryBytes: cfg.HistoryFetch, DirBytes: cfg.CacheDirSize, Now: cfg.Now,
		Coins: cfg.Coins, Log: cfg.Log,
		Swapped: func(s snapshot.Swap) { e.metrics.Swapped(s) },
	})
	e.engine = reply.New(reply.Config{
		Refresher: e.refresher, WarmBytes: cfg.CacheSize / 4, MaxStale: cfg.MaxStale,
		CacheScope: cfg.CacheScope, AllowOrigin: cfg.Server.AllowOrigin, ResponseMemory: responses, Log: cfg.Log,
	})

	public := cfg.Server
	public.Current, public.Notice, public.KeyHeaders = e.refresher.Current, e.refresher.Notice, coingecko.KeyHeaders
	if cfg.Coins {
		public.Dialect = coingecko.Dialect()
	} else {
		public.Off = map[string]string{coingecko.Prefix: "the operator has not enabled the CoinGecko-compatible API" +
			" (edge --coingecko)"}
	}
	public.Feed = e.feed
	public.Answer = func(r *server.Request) error { return e.engine.Answer(&r.Asked) }
	public.Files = &files.Files{Refresher: e.refresher, Cache: e.cache}
	public.Logger, public.SharedCaches = cfg.Log, cfg.CacheScope == "public"
	if public.Static, err = web.Files(web.Options{KeyRequestURL: public.KeyRequestURL, AuthOff: cfg.AuthOff,
		Logos: cfg.BoardLogos, Coins: cfg.Coins}); err != nil {
		return nil, fmt.Errorf("%w: --board-logos: %w", ErrUsage, err)
	}
	public.MaxConns = fitConns(cmp.Or(public.MaxConns, server.DefaultMaxConns), openFiles(), cfg.Log)
	if !cfg.AuthOff {
		if cfg.LimitStore != "" {
			store, err := redisstore.Open(cfg.LimitStore)
			if err != nil {
				return nil, fmt.Errorf("%w: --limit-store: %w", ErrUsage, err)
			}
			e.limits = limit.NewShared(limit.SharedConfig{Store: store, Logger: cfg.Log})
		}
		e.keys = &auth.Keys{Shared: e.limits}
		e.watcher = auth.NewWatcher(e.keys, auth.Config{
			Cells: cells, Every: min(4*cfg.Poll, auth.DefaultEvery),
			File:   filepath.Join(dir, artifacts.KeysKey.String()),
			MaxAge: cfg.MaxKeyAge, Logger: cfg.Log,
		})
		e.watcher.Load()
		public.Keys = e.keys
	}
	e.metrics = metrics.New(metrics.Sources{
		Engine: e.engine, Refresher: e.refresher, Cache: e.cache, Watcher: e.watcher, Limits: e.limits, Floor: e.floor,
		Fallback:    e.fallback,
		Coins:       cfg.Coins,
		ClockSkew:   e.clockSkew,
		Connections: func() server.Stats { return e.public.Stats() },
	})
	public.Observe = e.metrics.Observe
	if e.public, err = server.New(public); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUsage, err)
	}
	if e.admin, err = e.newAdmin(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUsage, err)
	}
	if err = e.listen(); err != nil {
		return nil, err
	}
	return e, nil
}

// openReader opens the store, and the one to fall back on, if there is one, and has cells read them.
// Opening fails only for a wrong address.
func (e *Edge) openReader(ctx context.Context, cells *follow.Cells) (artifacts.Reader, error) {
	first := e.cfg.Reader
	var err error
	if first == nil {
		if first, err = stores.OpenReader(ctx, e.cfg.Store); err != nil {
			return nil, fmt.Errorf("--store: %w", err)
		}
	}
	cells.Reader = first
	if e.cfg.FallbackStore == "" {
		return first, nil
	}
	second, err := stores.OpenReader(ctx, e.cfg.FallbackStore)
	if err != nil {
		return nil, fmt.Errorf("--fallback-store: %w", err)
	}
	e.fallback = fallback.New(fallback.Config{First: first, Second: second, Log: e.cfg.Log})
	cells.Fallback = e.fallback
	return e.fallback, nil
}

// listen opens the listeners that were not passed, but not one of ReusePort: the kernel would give
// it connections before it can answer.
func (e *Edge) listen() (err error) {
	e.listeners, e.adminLn = e.cfg.PublicSockets, e.cfg.AdminSocket
	for _, ln := range e.listeners {
		err = errors.Join(err, server.Adopt(ln))
	}
	if len(e.listeners) == 0 && !e.cfg.ReusePort {
		err = e.open(server.Listen)
	}
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	if e.adminLn == nil {
		if e.adminLn, err = net.Listen("tcp", e.cfg.Admin); err != nil {
			return fmt.Errorf("--admin: %w", err)
		}
	}
	return nil
}

// open opens the public address.
func (e *Edge) open(listen func(string) (net.Listener, error)) error {
	ln, err := listen(e.cfg.Listen)
	if err == nil {
		e.listeners = []net.Listener{ln}
	}
	return err
}

func addresses(lns []net.Listener) (all []string) {
	for _, ln := range lns {
		all = append(all, ln.Addr().String())
	}
	return all
}

// loopback reports an address that only this machine reaches.
func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// Addr and AdminAddr return where the edge listens. Addr is not for one of ReusePort, whose address
// is Config.Listen.
func (e *Edge) Addr() net.Addr      { return e.listeners[0].Addr() }
func (e *Edge) AdminAddr() net.Addr { return e.adminLn.Addr() }

// Run serves until ctx is done, and then drains: /readyz is 503 at once,
// requests are served for DrainWait unless the edge is idle, then with Connection: close, and all is
// over within DrainTimeout. It returns nil after that, or why it could not
// serve. It may be called once.
func (e *Edge) Run(ctx context.Context) error {
	// Refreshing and the admin listener outlive ctx, for as long as it drains.
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	failed := make(chan error, 2)
	var running sync.WaitGroup
	running.Go(func() { e.refresher.Run(work, e.engine.Warm) })
	if e.watcher != nil {
		running.Go(func() { e.watcher.Run(work) })
	}
	if e.fallback != nil {
		running.Go(func() { e.fallback.Try(work) })
	}
	if e.limits != nil {
		running.Go(func() { e.limits.Run(work) })
	}
	served := make(chan struct{})
	running.Go(func() {
		defer close(served)
		if err := e.servePublic(ctx); err != nil {
			failed <- err
		}
	})
	if e.cfg.OnReady != nil {
		running.Go(func() {
			if e.await(ctx, e.notReady) {
				e.cfg.OnReady()
			}
		})
	}
	running.Go(func() {
		if err := e.admin.Serve(e.adminLn); err != nil {
			failed <- err
		}
	})

	var err error
	select {
	case <-ctx.Done():
		e.cfg.Log.Info("draining", "wait", e.cfg.DrainWait, "timeout", e.cfg.DrainTimeout)
		e.admin.SetDraining()
		if e.cfg.OnDrain != nil {
			e.cfg.OnDrain()
		}
		err = e.serveOn(failed)
	case err = <-failed:
		leave()
	}
	drain, cancel := context.WithTimeout(work, e.cfg.DrainTimeout)
	defer cancel()
	if cut := e.public.Drain(drain); cut != nil {
		e.cfg.Log.Warn("drained", "err", cut)
	}
	<-served
	e.admin.Close()
	stop()
	running.Wait()
	e.close()
	if err == nil {
		e.cfg.Log.Info("stopped")
	}
	return err
}

// servePublic serves the public listener until it drains.
func (e *Edge) servePublic(ctx context.Context) error {
	// Who connects meanwhile waits, where an edge that was just restarted would
	// refuse what it can answer a moment later: a proxy sends that on.
	<-e.refresher.Restored()
	if e.cfg.ReusePort {
		if !e.await(ctx, e.unready) {
			return nil
		}
		if err := e.open(server.ListenShared); err != nil {
			return fmt.Errorf("--listen: %w", err)
		}
	}
	e.listening.Store(true)
	e.cfg.Log.Info("listening", "listen", strings.Join(addresses(e.listeners), ", "), "admin",
		e.AdminAddr().String(), "store", e.cfg.Store)
	return e.public.ServeAll(e.listeners...)
}

// await waits until there is no reason why not, and reports false if ctx is done before.
func (e *Edge) await(ctx context.Context, why func() string) bool {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for why() != "" {
		select {
		case <-ctx.Done():
			return false
		case <-ticker.C:
		}
	}
	return true
}

// serveOn serves for DrainWait, in which balancers notice that the edge is not ready. An edge to
// which there was no request for as long is in no balancer's use, so nobody has to notice. It
// returns what fails meanwhile.
func (e *Edge) serveOn(failed <-chan error) error {
	timer, ticker := time.NewTimer(e.cfg.DrainWait), time.NewTicker(lookEvery)
	defer timer.Stop()
	defer ticker.Stop()
	for e.public.Quiet() < e.cfg.DrainWait {
		select {
		case <-timer.C:
			return nil
		case err := <-failed:
			return err
		case <-ticker.C:
		}
	}
	return nil
}

// lookEvery is how often await and serveOn look.
const lookEvery = 20 * time.Millisecond

// close frees what New opened.
func (e *Edge) close() {
	for _, ln := range append(e.listeners, e.adminLn) {
		if ln != nil {
			_ = ln.Close() // closed before, after Run
		}
	}
	if e.cache != nil {
		e.cache.Close()
	}
	if e.limits != nil {
		_ = e.limits.Close() // nothing is kept in it
	}
	if e.folder != nil {
		e.folder.close(e.cfg.Log)
	}
}
