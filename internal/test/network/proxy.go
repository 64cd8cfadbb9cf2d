// Package network provides networks for tests. A [Proxy] between a client and a server causes
// faults on demand; it is a toxiproxy server with one proxy that runs in this process. A
// [Transport] connects an HTTP client to a handler in this process.
package network

import (
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
	"github.com/rs/zerolog/log"
)

// Fault is a network fault in the direction from the server to the client.
type Fault struct {
	Name string
	// Loses means that clients never receive more than a few bytes. The other faults only delay
	// data.
	Loses bool

	toxic, attributes string // names in toxiproxy; an empty toxic closes the port
}

var (
	// BlackHole never answers.
	BlackHole = Fault{"black hole", true, "timeout", `{"timeout":0}`}
	// Down refuses connections.
	Down = Fault{"down", true, "", ""}
)

// Faults lists all faults.
var Faults = []Fault{
	{"latency", false, "latency", `{"latency":150,"jitter":100}`}, // delays all data; the values are in milliseconds
	// limits each connection to a rate in KB per second
	{"bandwidth", false, "bandwidth", `{"rate":200}`},
	// sends a few bytes at a time, with pauses between them
	{"slices", false, "slicer", `{"average_size":500,"size_variation":400,"delay":50}`},
	// ends connections with RST instead of an answer
	{"reset", true, "reset_peer", `{"timeout":5}`},
	{"truncation", true, "limit_data", `{"bytes":1500}`}, // closes each connection after 1,500 bytes
	// sends nothing for 100 milliseconds and then ends the connection
	{"cut-off", true, "timeout", `{"timeout":100}`},
	BlackHole, Down,
}

// Leaks lists functions whose goroutines toxiproxy leaves behind when a connection ends in the
// middle of its data, for goleak.IgnoreAnyFunction.
var Leaks = []string{
	"github.com/Shopify/toxiproxy/v2.(*ToxicLink).read",
	"github.com/Shopify/toxiproxy/v2.(*ToxicLink).write",
	"github.com/Shopify/toxiproxy/v2/toxics.(*ToxicStub).Run",
}

// Proxy forwards connections to one server. Its methods are safe for concurrent use.
type Proxy struct {
	server   *toxiproxy.ApiServer
	upstream string

	mu     sync.Mutex
	listen string
	proxy  *toxiproxy.Proxy // nil while the port is closed
}

// quiet silences the messages of toxiproxy's toxics, which go to zerolog's global logger.
var quiet = sync.OnceFunc(func() { log.Logger = zerolog.Nop() })

// Start starts a proxy without a fault on a free port of 127.0.0.1. upstream is the host and port
// of the server. Close stops the proxy.
func Start(upstream string) (*Proxy, error) {
	quiet()
	p := &Proxy{
		server:   toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop()),
		upstream: upstream, listen: "127.0.0.1:0",
	}
	if err := p.Heal(); err != nil {
		return nil, err
	}
	return p, nil
}

// Addr returns the address of the proxy. It stays the same under every fault.
func (p *Proxy) Addr() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.listen
}

// Set closes all connections and applies the fault to new ones.
//
// It also recreates the proxy, because toxiproxy may hang when it removes a toxic from a connection
// whose client has gone.
func (p *Proxy) Set(f Fault) error {
	var toxic string
	if f.toxic != "" {
		toxic = fmt.Sprintf(`{"type":%q,"stream":"downstream","attributes":%s}`, f.toxic, f.attributes)
	}
	if err := p.set(toxic, f.toxic != ""); err != nil {
		return fmt.Errorf("fault %s: %w", f.Name, err)
	}
	return nil
}

// Heal closes all connections and removes the fault.
func (p *Proxy) Heal() error { return p.set("", true) }

func (p *Proxy) set(toxic string, up bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.proxy != nil {
		p.proxy.Stop()
		p.proxy = nil
	}
	if !up {
		return nil
	}
	next := toxiproxy.NewProxy(p.server, "proxy", p.listen, p.upstream)
	if toxic != "" {
		if _, err := next.Toxics.AddToxicJson(strings.NewReader(toxic)); err != nil {
			return err
		}
	}
	if err := next.Start(); err != nil {
		return err
	}
	p.proxy, p.listen = next, next.Listen
	return nil
}

// Close closes all connections and stops the proxy.
func (p *Proxy) Close() error { return p.set("", false) }

// Front returns a handler that forwards requests to the server at baseURL, except those that
// intercept answers itself. Forwarded requests keep their Host, which signatures cover.
func Front(baseURL string, intercept func(w http.ResponseWriter, r *http.Request) (done bool)) (http.Handler, error) {
	u, err := url.Parse(baseURL)
	if err != nil {
		return nil, err
	}
	next := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(u)
		r.Out.Host = r.In.Host
	}}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !intercept(w, r) {
			next.ServeHTTP(w, r)
		}
	}), nil
}
