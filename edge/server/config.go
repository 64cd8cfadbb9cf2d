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

// DefaultMaxConns is the default of Config.MaxConns.
const DefaultMaxConns = 32 << 10

// Config configures a Server. Except for Answer, the zero value of each field selects a default that
// is suitable for the internet.
type Config struct {
	// Answer, like reply.Engine, answers a request whose key, rate and parameters have been checked. Required.
	Answer func(*Request) error
	// Keys is the key set in force. If it is nil, the server admits everyone without limits, which is
	// suitable for local use only.
	Keys *auth.Keys
	// AddressRate and AddressBurst limit each client address for requests without a valid key: the
	// requests per second, and the size of a burst; 0 means 10 and 50.
	AddressRate, AddressBurst int
	// OpenRate and OpenBurst limit each client address for requests that need no key: files, 404, 405 and
	// OPTIONS (INTERFACE.md, "Rate limits"); 0 means 50 and 200.
	OpenRate, OpenBurst int
	// KeyRequestURL is the URL at which people can request keys. The 401 states it.
	KeyRequestURL string
	// AllowOrigin is the value of Access-Control-Allow-Origin; "" means "*".
	AllowOrigin string
	// SharedCaches means that shared caches may keep successful answers and send them to other clients. So
	// these answers do not state any one client's limit.
	SharedCaches bool
	// TrustedProxies contains the addresses of proxies whose X-Forwarded-For is trusted. Only MaxConns
	// bounds their connections, since they serve many clients.
	TrustedProxies []netip.Prefix
	// ProxyProtocol contains the addresses of proxies that begin each connection with a PROXY protocol
	// header, version 1 or 2, which states the client's address. The server refuses connections from
	// these proxies without the header, and connections from other peers with it.
	ProxyProtocol []netip.Prefix
	// Current returns the time of the current snapshot in the form of X-Snapshot-Time, and the number of its
	// changes. The time is nil before the first snapshot, and the number is negative if it is unknown. The
	// channel is closed when there may be another snapshot. The streams of /events send these values. If
	// Current is nil, there is no /events.
	Current func() (t []byte, changes int, changed <-chan struct{})
	// Feed returns the newest changes of the current snapshot as an Atom feed, or nil if they are
	// unavailable. It returns the same file as long as the snapshot is current. If Feed is nil, the feed's
	// path does not exist.
	Feed func() *StaticFile
	// Notice returns the notice of the current snapshot as JSON for /notice.json, or nil if there is none. If
	// Notice is nil, that path does not exist.
	Notice func() []byte
	// MaxStreams bounds the number of open /events streams; 0 means DefaultMaxStreams.
	MaxStreams int
	// Files finds the files of snapshots. If it is nil, the paths of files do not exist.
	Files *files.Files
	// Dialect is an additional API below its own prefix. It may be nil.
	Dialect *Dialect
	// Off contains, by path prefix, the 404 messages for paths that the operator has not enabled.
	Off map[string]string
	// KeyHeaders lists the headers, in lower case, in which requests to Dialect may send their key,
	// besides X-Api-Key. A preflight allows them for every path.
	KeyHeaders []string
	// Static contains the files at other public paths, by path.
	Static map[string]StaticFile

	// MaxConns and MaxConnsPerAddress bound the number of open connections, in total and from one address
	// (IPv6: one /48); 0 means DefaultMaxConns, and an eighth of MaxConns. MaxConns must be less than the
	// number of files that the process may open. When all connections are in use, the address with the most
	// connections loses its newest one to any address with fewer connections.
	MaxConns, MaxConnsPerAddress int
	// ReadTimeout bounds the time from the first byte of a request's head to the last, and the time to the
	// first byte of a new connection; 0 means 5 seconds.
	ReadTimeout time.Duration
	// WriteTimeout bounds the time that a client takes to receive each 64 KiB of an answer; 0 means 10
	// seconds.
	WriteTimeout time.Duration
	// IdleTimeout is how long a connection may be idle between two requests; 0 means 120 seconds. It must be
	// longer than clients keep idle connections (90 seconds in many libraries), because a request is lost if
	// the server closes the connection at the same time. For the same reason, answers state this time, less
	// keepAliveSlack.
	IdleTimeout time.Duration

	// Logger receives the log lines of requests. It may be nil.
	Logger *slog.Logger
	// LogAll logs every request. LogSlow is the duration from which requests are logged as slow; 0 means
	// never. Without LogAll, the server logs its own errors (status 500 and above), slow requests, and a
	// sample of other errors, and it limits the number of lines per second.
	LogAll  bool
	LogSlow time.Duration
	// Observe receives every answer, for metrics. It may be nil. The server calls it after writing the
	// answer, concurrently from the goroutines that serve connections. So it should be fast and must not
	// write to memory that other connections write to.
	Observe func(Observation)
}

// withDefaults returns the configuration with its defaults, or an error if it is invalid.
func (cfg Config) withDefaults() (Config, error) {
	if cfg.Answer == nil {
		return cfg, errors.New("server: Answer is required")
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

// plainURL reports whether s is a URL that needs no escaping in a header or in a JSON string.
func plainURL(s string) bool {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return false
	}
	return !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' })
}
