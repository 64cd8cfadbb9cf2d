// Package edge serves published snapshots. An edge follows the pointer in an object store, keeps a copy of
// the snapshot, and answers all endpoints from this copy. README.md walks through the life cycles of a
// request and a snapshot.
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

// Config configures an Edge. If a field is zero, New uses the default that the field's comment states.
type Config struct {
	// Coins enables the CoinGecko-compatible endpoints; see package coingecko.
	Coins bool

	// Store is the URL of the object store. If Reader is set, the edge reads Reader instead.
	Store  string
	Reader artifacts.Reader
	// FallbackStore is the URL of a copy of the store that the edge reads when the store does not answer;
	// see package fallback. If it is empty, there is no copy.
	FallbackStore string

	// Listen is the public address. Admin is the address of the admin listener.
	Listen, Admin string
	// PublicSockets and AdminSocket, if set, replace these addresses. Another process, such as systemd, keeps
	// the sockets open, so clients can connect while one edge stops and the next one starts.
	PublicSockets []net.Listener
	AdminSocket   net.Listener
	// ReusePort lets other edges that run as the same user listen at the same address (Linux only). The edge
	// starts to listen when it is ready. When it closes its socket, Linux moves the waiting connections to
	// another edge only if net.ipv4.tcp_migrate_req is 1.
	ReusePort bool
	// AdminHosts are the host names that the admin listener accepts, besides IP addresses and localhost.
	AdminHosts []string
	// AuthOff admits everyone. Listen must then be a loopback address, unless Insecure is set.
	AuthOff, Insecure bool
	// BoardLogos are the origins from which the market board may load logos.
	BoardLogos []string
	// Pprof allows other machines to request profiles too.
	Pprof bool

	// CacheSize bounds the combined memory for shards and finished answers, in bytes (256 MiB).
	CacheSize int64
	// CacheDir is the folder for the disk copy. No other edge may use it. If it is empty, the edge creates
	// a temporary folder and removes it at exit.
	CacheDir string
	// CacheDirSize bounds the disk copy, in bytes; 0 means no bound.
	CacheDirSize int64
	// HistoryFetch bounds the bytes of /history that the edge prefetches; 0 means none. History uses only the
	// part of CacheDirSize that the snapshot leaves free.
	HistoryFetch int64

	// Poll is the interval at which the edge reads the pointer (2 s).
	Poll time.Duration
	// FetchBudget is the time for fetching a new snapshot; see snapshot.Config (60 s).
	FetchBudget time.Duration
	// AcceptStore lists the identities of other stores that the edge may follow; see floor.Open.
	AcceptStore []string
	// Trust contains the keys that may sign the pointer, the change record and the key set. If it is empty,
	// the edge requires no signature.
	Trust artifacts.Trust
	// MaxStale is the snapshot age above which the edge answers 503; 0 means no limit.
	MaxStale time.Duration
	// MaxKeyAge is how long the edge accepts keys after the store last confirmed them; 0 means forever.
	MaxKeyAge time.Duration
	// CacheScope is the first directive of Cache-Control: private or public.
	CacheScope string

	// LimitStore is the URL of the Redis or Valkey server through which edges share the limits of keys; see
	// package redisstore. If it is empty, each edge applies the limits by itself.
	LimitStore string

	// OnReady is called when the edge first becomes ready, and OnDrain when it begins to drain. Either
	// may be nil.
	OnReady, OnDrain func()

	// Server configures the public listener. New sets Answer, Current, Keys, Static, Observe and Logger, and
	// lowers MaxConns to what the process's open-file limit allows.
	Server server.Config

	// DrainWait is how long the edge continues to serve after it was asked to stop, while /readyz answers 503.
	// An edge that received no request during the last DrainWait does not wait. DrainTimeout bounds the time
	// from the end of that wait to the exit (15 s).
	DrainWait, DrainTimeout time.Duration

	// Now is the clock that decides when snapshots become current and which pins are in the future
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
	limits    *limit.Shared // nil if limits are not shared
	floor     *floor.Floor
	fallback  *fallback.Reader // nil if there is no fallback store
	public    *server.Server
	admin     *admin.Server
	metrics   *metrics.Metrics
	listeners []net.Listener // with ReusePort, empty until servePublic opens the public one
	adminLn   net.Listener
	folder    *folder
	began     time.Time
	atom      feedOf
	ready     atomic.Bool // the edge has been ready once; see unready
	listening atomic.Bool // the edge listens at the public address
}

// ErrUsage marks configuration errors.
var ErrUsage = errors.New("usage")

// complete sets the defaults and checks that the fields fit together.
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

// New opens the store, the cache folder and the listeners. It does not serve until Run.
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
	// A quarter of the memory is for finished answers. During a swap two snapshots share it.
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

// openReader opens the store and the fallback store, if any, and makes cells read them. Opening contacts no
// server; it fails only if an address is invalid.
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

// listen opens the listeners that were not passed to the process. With ReusePort, it does not open the
// public listener, because the kernel would assign connections to it before the edge can answer.
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

// open listens at the public address.
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

// loopback reports whether only this machine can reach addr.
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

// Addr and AdminAddr return the addresses at which the edge listens. With ReusePort, Addr must not be called;
// the address is Config.Listen.
func (e *Edge) Addr() net.Addr      { return e.listeners[0].Addr() }
func (e *Edge) AdminAddr() net.Addr { return e.adminLn.Addr() }

// Run serves until ctx is done, and then drains: /readyz answers 503, and the edge continues to serve
// requests for DrainWait, unless it is idle. Then it closes each connection as soon as the current answer is
// sent, within DrainTimeout. Run then returns nil, or an error if it could not serve. It may be called once.
func (e *Edge) Run(ctx context.Context) error {
	// The refresher and the admin listener continue while the edge drains.
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
	// Until the disk copy is loaded, clients wait in the socket's queue. Otherwise a restarted edge would
	// answer 503 to requests that it can answer a moment later.
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

// await waits until reason returns an empty string. It returns false if ctx is done first.
func (e *Edge) await(ctx context.Context, reason func() string) bool {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for reason() != "" {
		select {
		case <-ctx.Done():
			return false
		case <-ticker.C:
		}
	}
	return true
}

// serveOn serves for DrainWait, so that load balancers notice that the edge is not ready. It returns as
// soon as the last request was DrainWait ago, even if that request came before the call, because then no load
// balancer uses the edge. If a listener fails, it returns the error immediately.
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

// lookEvery is the interval at which await and serveOn check their conditions.
const lookEvery = 20 * time.Millisecond

// close releases what New opened.
func (e *Edge) close() {
	for _, ln := range append(e.listeners, e.adminLn) {
		if ln != nil {
			_ = ln.Close() // after Run it is already closed
		}
	}
	if e.cache != nil {
		e.cache.Close()
	}
	if e.limits != nil {
		_ = e.limits.Close() // it has no unsaved state
	}
	if e.folder != nil {
		e.folder.close(e.cfg.Log)
	}
}
