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
	"runtime/debug"
	"time"

	"github.com/alecthomas/kong"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge"
	"example.com/marketdata/edge/server"
	"example.com/marketdata/internal/cmdline"
)

const description = `Serves the snapshots that a builder has published to an object store.

STORE is file:PATH, or s3://bucket/prefix?endpoint=URL&region=REGION with the usual AWS_… variables. An edge only reads it.

  edge --store file:./store
  edge --store 's3://market/live?endpoint=http://127.0.0.1:9000&region=us-east-1' --listen :8080 --cache-dir /var/cache/edge

Keys are made with: builder keys create --store STORE --name NAME.

Every flag is also an environment variable, --cache-size is EDGE_CACHE_SIZE, and may stand in a --config file: cache-size: 1GiB.

SIGTERM drains. Exit status: 0 done, 1 failed, 2 wrong usage.`

// healthTimeout bounds edge health: a probe that waits for longer is no answer.
const healthTimeout = 5 * time.Second

// trustKey is the public half of builder keygen's pair.
type trustKey artifacts.TrustKey

func (k *trustKey) UnmarshalText(b []byte) error {
	key, err := artifacts.ParseTrustKey(string(b))
	*k = trustKey(key)
	return err
}

type cli struct {
	Store     string          `placeholder:"STORE" help:"Where the snapshots are."`
	Listen    cmdline.Address `default:"127.0.0.1:8080" placeholder:"ADDR" help:"Public address (${default})."`
	Admin     cmdline.Address `default:"127.0.0.1:9090" placeholder:"ADDR" help:"Address of /livez, /readyz, /status, /metrics (${default}). Not for the public."`
	AdminHost []string        `placeholder:"NAME" help:"Name by which the --admin listener is asked, beside addresses and localhost. Repeatable."`
	Pprof     bool            `help:"Serve /debug/pprof/ on an --admin address that is not loopback, too."`

	Auth          string        `enum:"keys,off" default:"keys" help:"keys: every request needs an API key. off: everybody is let in; for local use only."`
	Insecure      bool          `help:"Allow --auth off on an address that is not loopback."`
	MaxKeyAge     time.Duration `default:"0" help:"Refuse keys when the store has not confirmed them for that long; 0: never."`
	KeyRequestURL string        `name:"key-request-url" placeholder:"URL" help:"Where people request keys; stands in the 401's message and the documentation."`
	BoardLogos    []string      `placeholder:"ORIGIN" help:"Origin that the market board may load logos from, such as https://static.coinpaprika.com; monograms stand for all others. Repeatable."`

	CacheSize    cmdline.Size  `default:"256MiB" help:"Memory for shards and finished answers together (${default})."`
	CacheDir     string        `placeholder:"DIR" help:"Folder for the disk copy, kept between runs: an edge that has one starts and answers while the store is away. Without: a temporary folder."`
	CacheDirSize cmdline.Size  `default:"0" help:"Bound of the disk copy; 0: none."`
	HistoryFetch cmdline.Size  `default:"1GiB" help:"How much of /history is fetched before it is asked for, once a snapshot is in force, the newest first and no more than --cache-dir-size leaves (${default}); 0: nothing."`
	Poll         time.Duration `default:"2s" help:"How often the store is asked for a newer snapshot (${default})."`
	FetchBudget  time.Duration `default:"60s" help:"How long a new snapshot may be fetched before it is taken over incomplete (${default})."`
	AcceptStore  []string      `placeholder:"ID" help:"Identity of another store that this edge may follow, after a restore or a copy. Repeatable."`
	TrustKey     []trustKey    `placeholder:"KEY" help:"Believe only what is signed by this key of builder keygen. Repeatable, for changing keys: any one suffices."`
	MaxStale     time.Duration `default:"0" help:"Answer 503 when the snapshot is older than that; 0: never."`

	MaxStreams     int            `default:"10000" help:"Most streams of /openapi/v1/events open at once (${default})."`
	CacheScope     string         `enum:"private,public" default:"private" help:"Scope in Cache-Control. public only behind a CDN that checks keys itself."`
	AllowOrigin    string         `default:"*" help:"Allowed origin of browsers' requests: * or one origin."`
	TrustedProxies []netip.Prefix `placeholder:"CIDR" help:"Proxies that are believed when X-Forwarded-For says whom they ask for. Repeatable."`
	ProxyProtocol  []netip.Prefix `placeholder:"CIDR" help:"Proxies whose connections begin with a PROXY protocol header, v1 or v2; only they are believed, and they must send it. Repeatable."`
	LimitStore     string         `placeholder:"URL" help:"Redis or Valkey through which edges share the limits of keys: redis://… Without: each edge limits by itself."`
	AddressRate    int            `default:"10" help:"Requests a second from one address without a valid key (${default})."`
	AddressBurst   int            `default:"50" help:"How many of them at once (${default})."`
	OpenRate       int            `default:"50" help:"Requests a second from one address for what needs no key: pages and their files, 404, 405, OPTIONS (${default}). --auth off sets no limits at all."`
	OpenBurst      int            `default:"200" help:"How many of them at once (${default})."`

	MaxConns           int           `default:"32768" help:"Open connections in all (${default})."`
	MaxConnsPerAddress int           `default:"0" help:"Open connections from one address (IPv6: one /64); 0: an eighth of all."`
	MaxWaiting         cmdline.Size  `default:"128MiB" help:"Memory for connections that are slow to send a request or to take an answer (${default}); one address may have an eighth of it."`
	ReadTimeout        time.Duration `default:"5s" help:"Time for a request to arrive (${default})."`
	WriteTimeout       time.Duration `default:"10s" help:"Time for an answer to be taken (${default})."`
	IdleTimeout        time.Duration `default:"75s" help:"Time a connection may be idle (${default})."`
	DrainWait          time.Duration `default:"5s" help:"After SIGTERM, serve on for that long with /readyz at 503 (${default})."`
	DrainTimeout       time.Duration `default:"15s" help:"After that, be done within (${default})."`

	AccessLog string        `enum:"some,all" default:"some" help:"some: faults, slow requests, a sample of refused ones. all: every request."`
	LogSlow   time.Duration `default:"500ms" help:"Requests that take longer are logged (${default}); 0: none."`

	Serve  serveCmd  `cmd:"" default:"1" help:"Serve until SIGTERM; what edge does without a command."`
	Health healthCmd `cmd:"" help:"Ask the edge that runs here, at --admin, whether it is ready: status 0 if so, else 1, with the reason."`

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
		Store: c.Store, Listen: string(c.Listen), Admin: string(c.Admin), AdminHosts: c.AdminHost, Pprof: c.Pprof,
		AuthOff: c.Auth == "off", Insecure: c.Insecure, MaxKeyAge: c.MaxKeyAge, BoardLogos: c.BoardLogos, LimitStore: c.LimitStore,
		CacheSize: max(int64(c.CacheSize), 1), CacheDir: c.CacheDir, CacheDirSize: int64(c.CacheDirSize), HistoryFetch: int64(c.HistoryFetch),
		Poll: c.Poll, FetchBudget: c.FetchBudget, AcceptStore: c.AcceptStore, Trust: trust, MaxStale: c.MaxStale, CacheScope: c.CacheScope,
		Server: server.Config{
			AddressRate: c.AddressRate, AddressBurst: c.AddressBurst, OpenRate: c.OpenRate, OpenBurst: c.OpenBurst, KeyRequestURL: c.KeyRequestURL, AllowOrigin: c.AllowOrigin,
			TrustedProxies: c.TrustedProxies, ProxyProtocol: c.ProxyProtocol, MaxConns: c.MaxConns, MaxConnsPerAddress: c.MaxConnsPerAddress, MaxStreams: c.MaxStreams, MaxWaitingBytes: int64(c.MaxWaiting),
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

// Run serves until ctx is done.
func (serveCmd) Run(ctx context.Context, c *cli, log *slog.Logger) error {
	if c.Store == "" {
		return cmdline.Wrong("missing flags: --store=STORE")
	}
	tuneCollector(int64(c.CacheSize))
	e, err := edge.New(ctx, c.config(log))
	if err != nil {
		return err
	}
	return e.Run(ctx)
}

// Run asks the edge of this machine for its readiness.
func (healthCmd) Run(ctx context.Context, c *cli) error {
	host, port, err := net.SplitHostPort(string(c.Admin))
	if err != nil || port == "0" {
		return cmdline.Wrong("--admin %q: want the address of the edge that is asked", c.Admin)
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		host = "localhost"
	}
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, port)+"/readyz", nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultTransport.RoundTrip(req)
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

// tuneCollector has the garbage collector run seldom, since requests wait for it
// and only a new snapshot leaves garbage, and has it work harder before the
// process takes half as much again as its caches, and what connections and
// indexes need. GOGC and GOMEMLIMIT set others.
func tuneCollector(caches int64) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(caches*3/2 + 160<<20)
	}
}
