// Command marketdata-mcp lets assistants query an edge over the Model Context Protocol; see
// marketdata-mcp --help.
package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"example.com/marketdata/artifacts"
	marketdata "example.com/marketdata/edge/openapi/clients/go"
	"example.com/marketdata/internal/buildinfo"
	"example.com/marketdata/internal/cmdline"
	"example.com/marketdata/internal/secret"
	"github.com/alecthomas/kong"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/net/netutil"
)

const name = "marketdata-mcp"

const description = `Lets assistants ask a market data service: prices, rankings, the past. It speaks the Model Context Protocol on standard input and output, and only reads.

An assistant starts it, once its configuration names it:

  {"mcpServers": {"marketdata": {"command": "marketdata-mcp",
    "env": {"MARKETDATA_URL": "https://host", "MARKETDATA_KEY": "mdk_live_…"}}}}

MARKETDATA_KEY is the API key. It is no flag, since other users of the machine see flags.

Exit status: 0 done, 1 failed, 2 wrong usage.`

const (
	maxMessage = 64 << 10 // bytes per message; a message with 100 slugs and 100 times is much smaller
	maxConns   = 64
)

type cli struct {
	URL      string   `name:"url" env:"MARKETDATA_URL" placeholder:"URL" help:"Base URL of the service, https://host, without /openapi/v1; also MARKETDATA_URL."`
	TrustKey []string `env:"MARKETDATA_TRUST_KEY" placeholder:"KEY" help:"Key of the operator, mdtrust_…, which verify_proof trusts; also MARKETDATA_TRUST_KEY. Repeatable, for changing keys: any one suffices."`
	Listen   string   `placeholder:"ADDRESS" help:"Serve streamable HTTP at http://ADDRESS/mcp in place of standard input and output. A loopback address, such as 127.0.0.1:8090: whoever reaches it asks with your key."`

	Serve serveCmd `cmd:"" default:"1" help:"Serve until standard input ends, or SIGTERM; what marketdata-mcp does without a command."`

	cmdline.Flags
}

type serveCmd struct{}

func main() { program().Main() }

// program returns the program with its command line.
func program() cmdline.Program {
	var c cli
	return cmdline.Program{
		Name: name, Description: description, CLI: &c,
		Run: func(_ context.Context, parsed *kong.Context, log *slog.Logger) error { return parsed.Run(&c, log) },
	}
}

// Run serves until the client leaves or ctx is done.
func (serveCmd) Run(ctx context.Context, c *cli, log *slog.Logger) error {
	if c.URL == "" {
		return cmdline.Wrong("missing flags: --url=URL, or the variable MARKETDATA_URL")
	}
	version, _ := buildinfo.Read()
	s := &service{base: strings.TrimRight(c.URL, "/"), key: secret.Env("MARKETDATA_KEY"), log: log}
	var err error
	if s.client, err = marketdata.New(c.URL, s.key, marketdata.UserAgent(name+"/"+version), marketdata.Retries(2),
		marketdata.MaxWait(maxWait)); err != nil {
		return cmdline.Wrong("MARKETDATA_URL or MARKETDATA_KEY: %w", err)
	}
	for _, text := range c.TrustKey {
		key, err := artifacts.ParseTrustKey(text)
		if err != nil {
			return cmdline.Wrong("--trust-key: %w", err)
		}
		s.trust = append(s.trust, key)
	}
	server := s.server(version)
	if c.Listen == "" {
		return cmdline.Uninterrupted(ctx, server.Run(ctx, &mcp.StdioTransport{MaxLineLength: maxMessage}))
	}
	return listen(ctx, c.Listen, server, log)
}

// listen serves HTTP on a loopback address until ctx is done.
func listen(ctx context.Context, addr string, server *mcp.Server, log *slog.Logger) error {
	host, port, err := net.SplitHostPort(addr)
	if host == "localhost" {
		host = "127.0.0.1"
	}
	if ip, notIP := netip.ParseAddr(host); err != nil || notIP != nil || !ip.IsLoopback() {
		return cmdline.Wrong("--listen %q: want a loopback address with a port, such as 127.0.0.1:8090: whoever reaches it asks with your key", addr)
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return err
	}
	log.Info("listening", "url", "http://"+l.Addr().String()+"/mcp")
	h := &http.Server{Handler: handler(server), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 20 * time.Second,
		WriteTimeout: 2 * callTime, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10}
	defer context.AfterFunc(ctx, func() {
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = h.Shutdown(within) // requests that take longer end with the process
	})()
	if err := h.Serve(netutil.LimitListener(l, maxConns)); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// handler serves /mcp without sessions, so that clients leave no state behind. The SDK rejects requests
// whose Host is not this machine. CrossOriginProtection rejects browser requests from pages of another
// origin.
func handler(server *mcp.Server) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/mcp", mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true, MaxRequestBodyBytes: maxMessage}))
	return http.NewCrossOriginProtection().Handler(mux)
}
