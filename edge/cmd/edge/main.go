// Command edge serves published snapshots; see edge --help.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"github.com/dustin/go-humanize"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge"
	"example.com/marketdata/edge/server"
	"example.com/marketdata/internal/buildinfo"
	"example.com/marketdata/internal/logs"
)

const description = `Serves the snapshots that a builder has published to an object store.

STORE is file:PATH, or s3://bucket/prefix?endpoint=URL&region=REGION with the usual AWS_… variables. An edge only reads it.

  edge --store file:./store
  edge --store 's3://market/live?endpoint=http://127.0.0.1:9000&region=us-east-1' --listen :8080 --cache-dir /var/cache/edge

Keys are made with: builder keys create --store STORE --name NAME.
Every flag is also an environment variable: --cache-size is EDGE_CACHE_SIZE.
SIGTERM drains. Exit status: 0 done, 1 failed, 2 wrong usage.`

// size is a number of bytes: 256MiB, 1GB, 1048576.
type size int64

func (s *size) UnmarshalText(b []byte) error {
	n, err := humanize.ParseBytes(string(b))
	if err != nil || n > 1<<50 {
		return fmt.Errorf("%q: want a number of bytes such as 256MiB", b)
	}
	*s = size(n)
	return nil
}

// trustKey is the public half of builder keygen's pair.
type trustKey artifacts.TrustKey

func (k *trustKey) UnmarshalText(b []byte) error {
	key, err := artifacts.ParseTrustKey(string(b))
	*k = trustKey(key)
	return err
}

type cli struct {
	Store     string   `required:"" placeholder:"STORE" help:"Where the snapshots are."`
	Listen    string   `default:"127.0.0.1:8080" placeholder:"ADDR" help:"Public address (${default})."`
	Admin     string   `default:"127.0.0.1:9090" placeholder:"ADDR" help:"Address of /livez, /readyz, /status, /metrics (${default}). Not for the public."`
	AdminHost []string `placeholder:"NAME" help:"Name by which the --admin listener is asked, beside addresses and localhost. Repeatable."`
	Pprof     bool     `help:"Serve /debug/pprof/ on an --admin address that is not loopback, too."`

	Auth          string        `enum:"keys,off" default:"keys" help:"keys: every request needs an API key. off: everybody is let in; for local use only."`
	Insecure      bool          `help:"Allow --auth off on an address that is not loopback."`
	MaxKeyAge     time.Duration `default:"0" help:"Refuse keys when the store has not confirmed them for that long; 0: never."`
	KeyRequestURL string        `name:"key-request-url" placeholder:"URL" help:"Where people request keys; stands in the 401's message and the documentation."`
	BoardLogos    []string      `placeholder:"ORIGIN" help:"Origin that the market board may load logos from, such as https://static.coinpaprika.com; monograms stand for all others. Repeatable."`

	CacheSize    size          `default:"256MiB" help:"Memory for shards and finished answers together (${default})."`
	CacheDir     string        `placeholder:"DIR" help:"Folder for the disk copy, kept between runs: an edge that has one starts and answers while the store is away. Without: a temporary folder."`
	CacheDirSize size          `default:"0" help:"Bound of the disk copy; 0: none."`
	HistoryFetch size          `default:"1GiB" help:"How much of /history is fetched before it is asked for, once a snapshot is in force, the newest first and no more than --cache-dir-size leaves (${default}); 0: nothing."`
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
	MaxWaiting         size          `default:"128MiB" help:"Memory for connections that are slow to send a request or to take an answer (${default}); one address may have an eighth of it."`
	ReadTimeout        time.Duration `default:"5s" help:"Time for a request to arrive (${default})."`
	WriteTimeout       time.Duration `default:"10s" help:"Time for an answer to be taken (${default})."`
	IdleTimeout        time.Duration `default:"75s" help:"Time a connection may be idle (${default})."`
	DrainWait          time.Duration `default:"5s" help:"After SIGTERM, serve on for that long with /readyz at 503 (${default})."`
	DrainTimeout       time.Duration `default:"15s" help:"After that, be done within (${default})."`

	AccessLog string        `enum:"some,all" default:"some" help:"some: faults, slow requests, a sample of refused ones. all: every request."`
	LogSlow   time.Duration `default:"500ms" help:"Requests that take longer are logged (${default}); 0: none."`
	logs.Flags

	Version kong.VersionFlag `env:"-" help:"Print the version and exit."`
}

func (c *cli) config(log *slog.Logger) edge.Config {
	var trust artifacts.Trust
	for _, k := range c.TrustKey {
		trust = append(trust, artifacts.TrustKey(k))
	}
	return edge.Config{
		Store: c.Store, Listen: c.Listen, Admin: c.Admin, AdminHosts: c.AdminHost, Pprof: c.Pprof,
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

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run parses the command line, serves until ctx is done, and returns the exit
// status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var c cli
	exited := false
	parser := kong.Must(&c, kong.Name("edge"), kong.Description(description), kong.DefaultEnvars("EDGE"),
		kong.Writers(stdout, stderr), kong.Exit(func(int) { exited = true }),
		kong.ConfigureHelp(kong.HelpOptions{WrapUpperBound: 110}), kong.Vars{"version": buildinfo.Version("edge")})
	_, err := parser.Parse(args)
	if exited {
		return 0
	}
	if err != nil {
		fmt.Fprintf(stderr, "edge: %v\nTry: edge --help\n", err)
		return 2
	}
	tuneCollector(int64(c.CacheSize))
	e, err := edge.New(ctx, c.config(c.Logger(stderr)))
	if err == nil {
		err = e.Run(ctx)
	}
	switch {
	case err == nil:
		return 0
	case errors.Is(err, edge.ErrUsage):
		fmt.Fprintf(stderr, "edge: %v\n", err)
		return 2
	}
	fmt.Fprintf(stderr, "edge: %v\n", err)
	return 1
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
