// Command edge serves published snapshots; see edge --help.
package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge"
	"example.com/marketdata/edge/server"
	"example.com/marketdata/internal/cmdline"
	"github.com/alecthomas/kong"
	"github.com/coreos/go-systemd/v22/daemon"
)

const description = `Serves the snapshots that a builder has published to an object store.

STORE is file:PATH, or s3://bucket/prefix?endpoint=URL&region=REGION with the usual AWS_… variables, of which AWS_SHARED_CREDENTIALS_FILE names a file that is read again when it changes. An edge only reads it.

  edge --store file:./store
  edge --store 's3://market/live?endpoint=http://127.0.0.1:9000&region=us-east-1' --listen :8080 --cache-dir /var/cache/edge

Keys are made with: builder keys create --store STORE --name NAME.

Every flag is also an environment variable, --cache-size is EDGE_CACHE_SIZE, and may stand in a --config file: cache-size: 1GiB. "edge help all" lists the flags that few need, too.

SIGTERM and SIGHUP drain. Exit status: 0 done, 1 failed, 2 wrong usage.`

// healthTimeout bounds how long the command "edge health" and the watchdog wait for an answer.
const healthTimeout = 5 * time.Second

// trustKey is the public key of a key pair that "builder keygen" generated.
type trustKey artifacts.TrustKey

func (k *trustKey) UnmarshalText(b []byte) error {
	key, err := artifacts.ParseTrustKey(string(b))
	*k = trustKey(key)
	return err
}

type cli struct {
	Store         string          `placeholder:"STORE" group:"Store and addresses:" help:"Where the snapshots are."`
	FallbackStore string          `protects:"" placeholder:"STORE" group:"Store and addresses:" help:"A copy of the store, read where the store does not answer: a replica, or what builder backup makes. It may be behind. The edge never takes older data from it, and takes nothing until the store, --cache-dir or --accept-store has identified the store."`
	Listen        cmdline.Address `default:"127.0.0.1:8080" group:"Store and addresses:" help:"Public address. Sockets that systemd passes replace it; one named admin replaces --admin."`
	ReusePort     bool            `group:"Store and addresses:" help:"Share --listen with other edges of the same user on this machine (Linux), for more than some 40 processors. An edge joins once it is ready. Each needs its own --admin and --cache-dir."`
	Admin         cmdline.Address `default:"127.0.0.1:9090" group:"Store and addresses:" help:"Address of /livez, /readyz, /status, /metrics. Not for the public."`
	AdminHost     []string        `placeholder:"NAME" group:"Store and addresses:" help:"Host name that the --admin listener accepts, besides IP addresses and localhost. Repeatable."`

	Auth          string        `enum:"keys,off" default:"keys" group:"Who is let in:" help:"keys: every request needs an API key. off: everybody is admitted; for local use only."`
	Insecure      bool          `hidden:"" group:"Who is let in:" help:"Allow --auth off on an address that is not loopback."`
	MaxKeyAge     time.Duration `default:"0s" group:"Who is let in:" help:"Refuse keys when the store has not confirmed them for that long; 0: never."`
	KeyRequestURL string        `name:"key-request-url" placeholder:"URL" group:"Who is let in:" help:"Where people request keys. The 401 and the documentation state it."`
	AllowOrigin   string        `default:"*" group:"Who is let in:" help:"Allowed origin of browsers' requests: * or one origin."`

	CacheSize    cmdline.Size `default:"256MiB" group:"Memory and disk:" help:"Memory for shards and finished answers together."`
	CacheDir     string       `protects:"" placeholder:"DIR" group:"Memory and disk:" help:"Folder for the disk copy, kept between runs, so that an edge can start and answer while the store is unreachable. No other edge may use it; one that tries exits with status 1. Without it, the edge uses a temporary folder, and removes those of edges that were killed."`
	CacheDirSize cmdline.Size `default:"0" group:"Memory and disk:" help:"Largest size of the disk copy; 0: no limit."`
	HistoryFetch cmdline.Size `hidden:"" default:"1GiB" group:"Memory and disk:" help:"How much of /history is fetched ahead, the newest first, as far as --cache-dir-size leaves room; 0: nothing."`

	Poll        time.Duration `hidden:"" default:"2s" group:"Freshness:" help:"Interval at which the edge asks the store for a newer snapshot."`
	FetchBudget time.Duration `hidden:"" default:"60s" group:"Freshness:" help:"How long a new snapshot may be fetched before it becomes current with objects missing."`
	MaxStale    time.Duration `default:"0s" group:"Freshness:" help:"Answer 503 when the snapshot is older than that; 0: never."`

	TrustKey    []trustKey `protects:"" placeholder:"KEY" group:"Trust in the store:" help:"Trust only what this key of builder keygen has signed. Repeatable, for changing keys: a signature of any one suffices."`
	AcceptStore []string   `placeholder:"ID" group:"Trust in the store:" help:"Identity of another store that this edge may follow, after a restore or a copy. Repeatable."`

	TrustedProxies []netip.Prefix `placeholder:"CIDR" group:"Behind proxies and a CDN:" help:"Proxies whose X-Forwarded-For is trusted. Repeatable."`
	ProxyProtocol  []netip.Prefix `placeholder:"CIDR" group:"Behind proxies and a CDN:" help:"Proxies whose connections begin with a PROXY protocol header, v1 or v2. They must send it, and others must not. Repeatable."`
	CacheScope     string         `enum:"private,public" default:"private" group:"Behind proxies and a CDN:" help:"Scope in Cache-Control. public only behind a CDN that checks keys itself."`

	LimitStore         string       `protects:"" placeholder:"URL" group:"Limits:" help:"Redis or Valkey through which edges share the limits of keys: redis://… Without it, each edge limits by itself."`
	AddressRate        int          `default:"10" group:"Limits:" help:"Requests a second from one address without a valid key."`
	AddressBurst       int          `hidden:"" default:"50" group:"Limits:" help:"Burst of --address-rate."`
	PublicRate         int          `hidden:"" former:"open-rate" default:"50" group:"Limits:" help:"Requests a second from one address that need no key: pages and their files, 404, 405, OPTIONS. With --auth off there are no limits."`
	PublicBurst        int          `hidden:"" former:"open-burst" default:"200" group:"Limits:" help:"Burst of --public-rate."`
	MaxConns           int          `default:"32768" group:"Limits:" help:"Open connections in total."`
	MaxConnsPerAddress int          `default:"0" group:"Limits:" help:"Open connections from one address (IPv6: one /48); 0: an eighth of --max-conns."`
	MaxStreams         int          `hidden:"" default:"10000" group:"Limits:" help:"Open streams of /openapi/v1/events."`
	MaxWaiting         cmdline.Size `default:"0B" hidden:"" help:"Has no effect since 1.1: --max-conns bounds memory."`

	ReadTimeout  time.Duration `hidden:"" default:"5s" group:"Times:" help:"Time for the head of a request to arrive."`
	WriteTimeout time.Duration `hidden:"" default:"10s" group:"Times:" help:"Time for a client to take each 64 KiB of an answer."`
	IdleTimeout  time.Duration `hidden:"" default:"120s" group:"Times:" help:"Time that a connection may be idle. Keep it longer than clients keep idle connections."`
	DrainWait    time.Duration `default:"5s" group:"Times:" help:"After SIGTERM, continue to serve for that long with /readyz at 503. An edge that was idle that long stops immediately."`
	DrainTimeout time.Duration `hidden:"" default:"15s" group:"Times:" help:"Time limit for draining after --drain-wait."`

	Coingecko  bool          `group:"Pages, logs, profiles:" help:"Enable the CoinGecko-compatible endpoints below /api/v3/; see COINGECKO.md."`
	BoardLogos []string      `placeholder:"ORIGIN" group:"Pages, logs, profiles:" help:"Origin that the market board may load logos from, such as https://static.coinpaprika.com. Other logos are replaced by monograms. Repeatable."`
	AccessLog  string        `enum:"some,all" default:"some" group:"Pages, logs, profiles:" help:"some: errors of the service, slow requests, a sample of refused ones. all: every request."`
	LogSlow    time.Duration `hidden:"" default:"500ms" group:"Pages, logs, profiles:" help:"Log requests that take longer; 0: never."`
	Pprof      bool          `hidden:"" group:"Pages, logs, profiles:" help:"Serve /debug/pprof/ to other machines, too."`

	Serve  serveCmd  `cmd:"" default:"1" daemon:"" help:"Serve until SIGTERM. This is the default command."`
	Health healthCmd `cmd:"" takes:"admin" help:"Ask the edge on this machine, at --admin, whether it is ready. Exit with status 0 if it is, or 1 with the reason."`

	cmdline.Flags
}

type (
	serveCmd  struct{}
	healthCmd struct{}
)

func (c *cli) config(log *slog.Logger) edge.Config {
	var trust artifacts.Trust
	for _, k := range c.TrustKey {
		trust = append(trust, artifacts.TrustKey(k))
	}
	return edge.Config{
		Store: c.Store, FallbackStore: c.FallbackStore,
		Listen: string(c.Listen), Admin: string(c.Admin), AdminHosts: c.AdminHost, Pprof: c.Pprof,
		ReusePort: c.ReusePort,
		Coins:     c.Coingecko,
		AuthOff:   c.Auth == "off", Insecure: c.Insecure, MaxKeyAge: c.MaxKeyAge, BoardLogos: c.BoardLogos,
		LimitStore: c.LimitStore,
		CacheSize:  max(int64(c.CacheSize), 1), CacheDir: c.CacheDir, CacheDirSize: int64(c.CacheDirSize),
		HistoryFetch: int64(c.HistoryFetch),
		Poll:         c.Poll, FetchBudget: c.FetchBudget, AcceptStore: c.AcceptStore, Trust: trust,
		MaxStale:   c.MaxStale,
		CacheScope: c.CacheScope,
		Server: server.Config{
			AddressRate: c.AddressRate, AddressBurst: c.AddressBurst, OpenRate: c.PublicRate, OpenBurst: c.PublicBurst,
			KeyRequestURL: c.KeyRequestURL, AllowOrigin: c.AllowOrigin,
			TrustedProxies: c.TrustedProxies, ProxyProtocol: c.ProxyProtocol, MaxConns: c.MaxConns,
			MaxConnsPerAddress: c.MaxConnsPerAddress, MaxStreams: c.MaxStreams,
			ReadTimeout: c.ReadTimeout, WriteTimeout: c.WriteTimeout, IdleTimeout: c.IdleTimeout,
			LogAll: c.AccessLog == "all", LogSlow: c.LogSlow,
		},
		DrainWait: c.DrainWait, DrainTimeout: c.DrainTimeout, Log: log,
	}
}

func main() { program().Main() }

// program returns the program with its command line.
func program() cmdline.Program {
	var c cli
	return cmdline.Program{
		Name: "edge", Description: description, CLI: &c, Usage: edge.ErrUsage,
		Run: func(_ context.Context, parsed *kong.Context, log *slog.Logger) error {
			return parsed.Run(&c, log)
		},
	}
}

// sameFolder reports whether two paths name the same folder, however they are spelled. It returns false if b
// is empty.
func sameFolder(a, b string) bool {
	x, err := os.Stat(a)
	y, err2 := os.Stat(b)
	return b != "" && (filepath.Clean(a) == filepath.Clean(b) || err == nil && err2 == nil && os.SameFile(x, y))
}

// Run serves until ctx is done.
func (serveCmd) Run(ctx context.Context, c *cli, log *slog.Logger) error {
	if c.Store == "" {
		return cmdline.Wrong("missing flags: --store=STORE")
	}
	for _, store := range []string{c.Store, c.FallbackStore} {
		if folder, is := strings.CutPrefix(store, "file:"); is && sameFolder(folder, c.CacheDir) {
			return cmdline.Wrong(
				"--cache-dir %s is the folder of %s, which an edge only reads: want a folder of its own", c.CacheDir, store)
		}
	}
	if c.FallbackStore == c.Store {
		return cmdline.Wrong("--fallback-store %s is the store itself: want a copy, which is not away with it", c.Store)
	}
	tuneCollector(int64(c.CacheSize))
	cfg := c.config(log)
	var err error
	if cfg.PublicSockets, cfg.AdminSocket, err = passedSockets(); err != nil {
		return err
	}
	cfg.OnReady = func() { tellSystemd(log, daemon.SdNotifyReady) }
	cfg.OnDrain = func() { tellSystemd(log, daemon.SdNotifyStopping) }
	e, err := edge.New(ctx, cfg)
	if err != nil {
		return err
	}
	alive, ended := context.WithCancel(context.WithoutCancel(ctx))
	defer ended()
	go feedWatchdog(alive, e.AdminAddr().String(), log)
	return e.Run(ctx)
}

// Run asks the edge on this machine whether it is ready.
func (healthCmd) Run(ctx context.Context, c *cli) error {
	if _, port, err := net.SplitHostPort(string(c.Admin)); err != nil || port == "0" {
		return cmdline.Wrong("--admin %q: want the address of the edge that is asked", c.Admin)
	}
	return ask(ctx, string(c.Admin), "/readyz")
}

// ask sends a GET request to an admin listener on this machine, and returns an error unless the answer is
// 200.
func ask(ctx context.Context, admin, path string) error {
	host, port, err := net.SplitHostPort(admin)
	if err != nil {
		return err
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		host = "localhost"
	}
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, port)+path, nil)
	if err != nil {
		return err
	}
	// A zero Transport uses no proxy, since the edge runs on this machine.
	answer, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		return fmt.Errorf("%s: %w", req.URL, err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 1000))
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", req.URL, answer.Status, bytes.TrimSpace(text))
	}
	return err
}

// tuneCollector makes the garbage collector run rarely, because it delays requests, and because garbage comes
// mainly from new snapshots. The collector works harder when memory approaches 1.5 times the caches plus 160
// MiB for connections and indexes. The environment variables GOGC and GOMEMLIMIT take precedence.
func tuneCollector(caches int64) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(caches*3/2 + 160<<20)
	}
}
