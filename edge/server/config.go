package server

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"example.com/marketdata/edge/auth"
	"example.com/marketdata/edge/files"
)

// DefaultMaxConns is Config.MaxConns where it is 0.
const DefaultMaxConns = 32 << 10

// Config says how a Server serves. The zero value of every field but Answer is
// a default that is fit for the internet.
type Config struct {
	// Answer answers a request whose key, rate and parameters are in order, as
	// reply.Engine does. Required.
	Answer func(*Request) error
	// Keys is the key set in force; nil lets everybody in, without the limits
	// below, and is for local use only.
	Keys *auth.Keys
	// AddressRate and AddressBurst limit each client address that sends no
	// valid key, in requests a second and at once; 0: 10 and 50.
	AddressRate, AddressBurst int
	// OpenRate and OpenBurst limit each client address for what needs no key:
	// files, 404, 405 and OPTIONS (INTERFACE.md, "Rate limits"); 0: 50 and 200.
	OpenRate, OpenBurst int
	// KeyRequestURL is where keys are requested, for the 401's message.
	KeyRequestURL string
	// AllowOrigin is the value of Access-Control-Allow-Origin; "": "*".
	AllowOrigin string
	// SharedCaches: caches in front may keep successful answers and send them to other clients.
	// These answers then do not state the limit of one client.
	SharedCaches bool
	// TrustedProxies are the addresses of proxies whose X-Forwarded-For is believed. Their
	// connections are those of many clients: MaxConns alone bounds them. None by default.
	TrustedProxies []netip.Prefix
	// ProxyProtocol are the addresses of proxies whose connections begin with a PROXY protocol
	// header, version 1 or 2, which states the client. Such a connection without the header is
	// refused; from other addresses the header is not HTTP. None by default.
	ProxyProtocol []netip.Prefix
	// Current returns the time of the current snapshot as in X-Snapshot-Time, nil before
	// the first one, and a channel that is closed when it may be another. The streams of
	// /events send it, with the number of changes that the snapshot has, if that is not negative; nil:
	// there is no such path.
	Current func() (t []byte, changes int, changed <-chan struct{})
	// Feed returns the newest changes of the current snapshot as a file, the same as long as that is
	// current; nil while there are none to be had. A nil function: there is no such path.
	Feed func() *StaticFile
	// Notice returns the notice of the current snapshot as JSON, nil where it has none, for
	// /notice.json. A nil function: there is no such path.
	Notice func() []byte
	// MaxStreams bounds the open streams of /events; 0: DefaultMaxStreams.
	MaxStreams int
	// Files finds the files of snapshots; nil: there is no such path.
	Files *files.Files
	// Dialect is what else is answered below a prefix of its own; nil: nothing is.
	Dialect *Dialect
	// Off are prefixes of paths that the operator has not enabled, and what their 404 says.
	Off map[string]string
	// KeyHeaders are headers, in lower case, in which requests to Dialect may have their key, beside X-Api-Key.
	// A preflight allows them for every path.
	KeyHeaders []string
	// Static are the files of other public paths, by path.
	Static map[string]StaticFile

	// MaxConns and MaxConnsPerAddress bound the open connections, in all and from one address
	// (IPv6: one /48); 0: DefaultMaxConns, and an eighth of MaxConns. Keep MaxConns below the
	// number of files that the process may open. When all are open, the address that has the most
	// loses its newest to one that has fewer.
	MaxConns, MaxConnsPerAddress int
	// ReadTimeout is the time for the head of a request, from its first byte; and for the first
	// byte of a new connection. 0: 5 seconds.
	ReadTimeout time.Duration
	// WriteTimeout is the time for a client to take each 64 KiB of an answer; 0: 10 seconds.
	WriteTimeout time.Duration
	// IdleTimeout is how long a connection may be idle between two requests;
	// 0: 120 seconds. It must be longer than clients keep connections that they do not use, 90
	// seconds in many libraries: a request that crosses the server's close is lost. So answers
	// also tell how long it is, less keepAliveSlack.
	IdleTimeout time.Duration

	// Logger gets the log lines of requests; nil: there are none.
	Logger *slog.Logger
	// LogAll logs every request, LogSlow those that take longer; 0: none is slow. Without LogAll,
	// faults (500 and above), some of the other errors and slow requests are logged, up to a
	// number of lines a second.
	LogAll  bool
	LogSlow time.Duration
	// Observe gets every answer, for metrics; may be nil. It is called after the answer was
	// written, on the goroutine that answers, by many at once: it must be quick, and best
	// writes to memory that no other connection's answers write to.
	Observe func(Observation)
}

// withDefaults returns the configuration with its defaults, or an error if it is invalid.
func (cfg Config) withDefaults() (Config, error) {
	if cfg.Answer == nil {
		return cfg, errors.New("server: nothing answers")
	}
	for _, n := range []struct {
		name  string
		value *int
		or    int
	}{
		{"--address-rate", &cfg.AddressRate, 10}, {"--address-burst", &cfg.AddressBurst, 50},
		{"--public-rate", &cfg.OpenRate, 50}, {"--public-burst", &cfg.OpenBurst, 200},
		{"--max-conns", &cfg.MaxConns, DefaultMaxConns}, {"--max-streams", &cfg.MaxStreams, DefaultMaxStreams},
	} {
		if *n.value < 0 {
			return cfg, fmt.Errorf("%s is %d; it takes a number above 0, or 0 for %d", n.name, *n.value, n.or)
		}
		if *n.value == 0 {
			*n.value = n.or
		}
	}
	if cfg.MaxConnsPerAddress < 0 {
		return cfg, fmt.Errorf("--max-conns-per-address is %d; "+
			"it takes a number above 0, or 0 for an eighth of --max-conns", cfg.MaxConnsPerAddress)
	}
	if cfg.MaxConnsPerAddress == 0 {
		cfg.MaxConnsPerAddress = max(1, cfg.MaxConns/8)
	}
	for _, d := range []struct {
		name  string
		value *time.Duration
		or    time.Duration
	}{
		{"ReadTimeout", &cfg.ReadTimeout, 5 * time.Second}, {"WriteTimeout", &cfg.WriteTimeout, 10 * time.Second},
		{"IdleTimeout", &cfg.IdleTimeout, 120 * time.Second},
	} {
		if *d.value < 0 {
			return cfg, fmt.Errorf("%s is %v; it takes a duration above 0, or 0 for %v", d.name, *d.value, d.or)
		}
		if *d.value == 0 {
			*d.value = d.or
		}
	}
	if cfg.AllowOrigin == "" {
		cfg.AllowOrigin = "*"
	}
	if cfg.AllowOrigin != "*" && !plainURL(cfg.AllowOrigin) {
		return cfg, fmt.Errorf("server: allowed origin %q: want * or one origin such as https://example.org",
			cfg.AllowOrigin)
	}
	if cfg.KeyRequestURL != "" && !plainURL(cfg.KeyRequestURL) {
		return cfg, fmt.Errorf("server: key request URL %q: want an absolute http or https URL, percent-encoded",
			cfg.KeyRequestURL)
	}
	return cfg, nil
}

// plainURL reports a URL that needs no escaping in a header or a JSON string.
func plainURL(s string) bool {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return false
	}
	return !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' })
}
