// Package admin serves what operators and orchestrators ask of an edge
// (INTERFACE.md, "Listeners"), on a listener of its own that is not for the
// public:
//
//	/livez, /healthz   200: the process lives
//	/readyz            200 when the edge can answer and is not draining, else
//	                   503 with the reason in a line
//	/status            the state of the edge, as JSON; see [Status]
//	/metrics           for Prometheus
//	/debug/pprof/      profiles; for peers on this machine, unless all are let in
//
// There are no keys here. Whoever reaches the listener may ask everything, by an
// address, as localhost, or by a name that was given: a page in a browser beside
// the edge that has its own name point here (DNS rebinding) is answered 421.
package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/net/netutil"
)

const (
	// maxConns bounds the open connections.
	maxConns = 256
	// writeTimeout leaves room for a profile of the usual 30 seconds.
	writeTimeout = 2 * time.Minute
)

// Config says what an admin Server serves.
type Config struct {
	// NotReady returns why the edge cannot answer, in a line, or "" when it
	// can. Required.
	NotReady func() string
	// Status returns the state of the edge. Required.
	Status func() Status
	// Metrics serves /metrics; nil: there are none.
	Metrics http.Handler
	// Pprof lets peers on other machines have profiles, too.
	Pprof bool
	// Hosts are the names, without a port, by which the listener is asked beside
	// localhost and addresses.
	Hosts []string
	// Logger gets faults of the server itself; nil: they are dropped.
	Logger *slog.Logger
}

// The values of Status.Status.
const (
	// Healthy: a verified snapshot is in force, and what it comes from answers.
	Healthy = "healthy"
	// Degraded: something is not as it should be, though answers may go on.
	Degraded = "degraded"
)

// Status is the answer of /status. Times are UTC.
type Status struct {
	// Status is Healthy or Degraded.
	Status string `json:"status"`
	// Reasons say why it is Degraded, in words; empty when it is not.
	Reasons []string `json:"reasons"`
	// State is of the snapshot: VALID, INITIALIZING before there is one,
	// INTERRUPTED while the store is away or gives what is refused.
	State string `json:"state"`
	// Since is when the state began.
	Since time.Time `json:"since"`
	// LastError is what the last try failed with; "": it succeeded.
	LastError   string    `json:"last_error"`
	LastErrorAt time.Time `json:"last_error_at,omitzero"`
	// NotReady is what /readyz says; "": it is ready. The Server fills it in,
	// and Draining.
	NotReady string `json:"not_ready"`
	Draining bool   `json:"draining"`
	// Sequence and SnapshotTime are those of the snapshot in force; zero before
	// there is one.
	Sequence     uint64    `json:"sequence"`
	SnapshotTime time.Time `json:"snapshot_time,omitzero"`
	// AgeSeconds is how long ago SnapshotTime was; 0 before there is one.
	AgeSeconds int64 `json:"age_seconds"`
	// Caches and Keys are what the parts themselves say; Keys is null without
	// authentication.
	Caches any `json:"caches"`
	Keys   any `json:"keys"`
	// More is whatever else there is to say.
	More any `json:"more,omitempty"`
}

// Server serves the admin listener.
type Server struct {
	cfg      Config
	draining atomic.Bool
	http     http.Server
}

// New returns a Server that is ready for Serve.
func New(cfg Config) (*Server, error) {
	if cfg.NotReady == nil || cfg.Status == nil {
		return nil, errors.New("admin: NotReady and Status are required")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	for _, name := range cfg.Hosts {
		if name == "" || strings.ContainsAny(name, ":/ ") {
			return nil, fmt.Errorf("admin: host %q: want a name without a port", name)
		}
	}
	cfg.Hosts = append([]string{"localhost"}, cfg.Hosts...)
	s := &Server{cfg: cfg}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", alive)
	mux.HandleFunc("GET /healthz", alive)
	mux.HandleFunc("GET /readyz", s.ready)
	mux.HandleFunc("GET /status", s.status)
	if cfg.Metrics != nil {
		mux.Handle("GET /metrics", cfg.Metrics)
	}
	// Not cmdline: secrets may stand on the command line.
	mux.Handle("/debug/pprof/", s.local(pprof.Index))
	mux.Handle("/debug/pprof/profile", s.local(pprof.Profile))
	mux.Handle("/debug/pprof/symbol", s.local(pprof.Symbol))
	mux.Handle("/debug/pprof/trace", s.local(pprof.Trace))
	s.http = http.Server{
		Handler: s.named(mux), ReadTimeout: 5 * time.Second, WriteTimeout: writeTimeout, IdleTimeout: time.Minute,
		MaxHeaderBytes: 16 << 10,
		ErrorLog:       log.New(faults{cfg.Logger}, "", 0),
	}
	return s, nil
}

// Serve serves the connections of ln until Close, and then returns nil.
func (s *Server) Serve(ln net.Listener) error {
	// Idle connections would keep probes out.
	s.http.SetKeepAlivesEnabled(false)
	if err := s.http.Serve(netutil.LimitListener(ln, maxConns)); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %v: %w", ln.Addr(), err)
	}
	return nil
}

// SetDraining makes /readyz say from now on that the edge is going.
func (s *Server) SetDraining() { s.draining.Store(true) }

// Close ends serving: it waits a moment for answers that are being written, and
// closes all connections.
func (s *Server) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if s.http.Shutdown(ctx) != nil {
		_ = s.http.Close()
	}
}

func alive(w http.ResponseWriter, _ *http.Request) { line(w, http.StatusOK, "ok") }

func (s *Server) notReady() string {
	if s.draining.Load() {
		return "draining"
	}
	return strings.Join(strings.Fields(s.cfg.NotReady()), " ")
}

func (s *Server) ready(w http.ResponseWriter, _ *http.Request) {
	if reason := s.notReady(); reason != "" {
		line(w, http.StatusServiceUnavailable, reason)
		return
	}
	line(w, http.StatusOK, "ready")
}

func line(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text+"\n") // a prober that went away
}

func (s *Server) status(w http.ResponseWriter, _ *http.Request) {
	status := s.cfg.Status()
	status.NotReady, status.Draining = s.notReady(), s.draining.Load()
	b, err := json.MarshalIndent(status, "", "  ")
	if err != nil {
		s.cfg.Logger.Error("admin: status cannot be written", "err", err)
		line(w, http.StatusInternalServerError, "status cannot be written")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(append(b, '\n'))
}

// named lets only requests through that are for an address, localhost or one of
// Hosts. A request without a Host, of HTTP/1.0, is of a health check: browsers
// send one.
func (s *Server) named(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, _, err := net.SplitHostPort(r.Host)
		if err != nil { // there is no port
			name = strings.TrimSuffix(strings.TrimPrefix(r.Host, "["), "]")
		}
		_, err = netip.ParseAddr(name)
		if err != nil && r.Host != "" &&
			!slices.ContainsFunc(s.cfg.Hosts, func(ours string) bool { return strings.EqualFold(name, ours) }) {
			line(w, http.StatusMisdirectedRequest,
				"this listener is asked by an address, as localhost, or by a name given with --admin-host")
			return
		}
		h.ServeHTTP(w, r)
	})
}

// local lets only peers on this machine through, unless all are let in.
func (s *Server) local(h http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		peer, err := netip.ParseAddrPort(r.RemoteAddr)
		if !s.cfg.Pprof && (err != nil || !peer.Addr().Unmap().IsLoopback()) {
			line(w, http.StatusForbidden, "profiles are for peers on this machine; --pprof lets all in")
			return
		}
		h(w, r)
	})
}

// faults hands the lines of net/http's own log on.
type faults struct{ log *slog.Logger }

func (f faults) Write(p []byte) (int, error) {
	f.log.Warn("admin: connection", "err", string(p))
	return len(p), nil
}
