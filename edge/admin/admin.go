// Package admin serves operators and orchestrators (edge/README.md, "Listeners") on a listener that must not be
// public:
//
//	/livez, /healthz   200 while the process runs
//	/readyz            200 if the edge can answer and is not draining, otherwise
//	                   503 with the reason
//	/status            the state of the edge, as JSON; see [Status]
//	/metrics           for Prometheus
//	/debug/pprof/      profiles, only for clients on this machine unless Pprof is set
//
// No key is necessary. Clients address the listener by an IP address, as localhost, or by one of Hosts. For
// any other host name it answers 421, so that a web page cannot reach it by pointing its own DNS name at
// this machine (DNS rebinding).
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
	// maxConns bounds the number of open connections.
	maxConns = 256
	// writeTimeout allows for a profile of the usual 30 seconds.
	writeTimeout = 2 * time.Minute
)

// Config configures a Server.
type Config struct {
	// NotReady returns the reason why the edge cannot answer, or "" if it can. Required.
	NotReady func() string
	// Status returns the state of the edge. Required.
	Status func() Status
	// Metrics serves /metrics. If it is nil, /metrics is 404.
	Metrics http.Handler
	// Pprof allows profiles for peers on other machines.
	Pprof bool
	// Hosts are the names by which clients reach the listener, without a port, besides localhost.
	Hosts []string
	// Logger receives the server's own errors. If it is nil, they are dropped.
	Logger *slog.Logger
}

// Values of Status.Status.
const (
	// Healthy means that a verified snapshot is in force and its source answers.
	Healthy = "healthy"
	// Degraded means that something is wrong, though the edge may still answer.
	Degraded = "degraded"
)

// Status is the answer of /status. All times are UTC.
type Status struct {
	// Status is Healthy or Degraded.
	Status string `json:"status"`
	// Reasons says why the edge is Degraded. It is empty if the edge is Healthy.
	Reasons []string `json:"reasons"`
	// State is the state of the snapshot: INITIALIZING before the first one, INTERRUPTED while the store does
	// not answer or the edge refuses its answers, otherwise VALID.
	State string `json:"state"`
	// Since is when the state began.
	Since time.Time `json:"since"`
	// LastError is the error of the last poll, or "" if it succeeded.
	LastError   string    `json:"last_error"`
	LastErrorAt time.Time `json:"last_error_at,omitzero"`
	// NotReady is the reason that /readyz gives, or "" if the edge is ready. The Server sets NotReady and
	// Draining.
	NotReady string `json:"not_ready"`
	Draining bool   `json:"draining"`
	// Sequence and SnapshotTime belong to the snapshot in force. They are zero until there is one.
	Sequence     uint64    `json:"sequence"`
	SnapshotTime time.Time `json:"snapshot_time,omitzero"`
	// AgeSeconds is the age of the snapshot in force, or 0 until there is one.
	AgeSeconds int64 `json:"age_seconds"`
	// Caches and Keys are reports from the caches and from authentication. Keys is null if authentication is
	// off.
	Caches any `json:"caches"`
	Keys   any `json:"keys"`
	// More is an additional report.
	More any `json:"more,omitempty"`
}

// Server serves the admin listener.
type Server struct {
	cfg      Config
	draining atomic.Bool
	http     http.Server
}

// New returns a Server. Serve starts it.
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
	// There is no handler for cmdline, because the command line may contain secrets.
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
	// Idle connections would use up maxConns and block health checks.
	s.http.SetKeepAlivesEnabled(false)
	if err := s.http.Serve(netutil.LimitListener(ln, maxConns)); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %v: %w", ln.Addr(), err)
	}
	return nil
}

// SetDraining makes /readyz answer 503 from now on.
func (s *Server) SetDraining() { s.draining.Store(true) }

// Close waits up to a second for answers in progress, and then closes all connections.
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
	_, _ = io.WriteString(w, text+"\n") // the client may have gone away
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

// named admits only requests for an IP address, localhost or one of Hosts. It also admits HTTP/1.0 requests
// without a Host: they come from health checks, since browsers always send a Host.
func (s *Server) named(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, _, err := net.SplitHostPort(r.Host)
		if err != nil { // no port
			name = strings.TrimSuffix(strings.TrimPrefix(r.Host, "["), "]")
		}
		_, err = netip.ParseAddr(name)
		if err != nil && r.Host != "" &&
			!slices.ContainsFunc(s.cfg.Hosts, func(ours string) bool { return strings.EqualFold(name, ours) }) {
			line(w, http.StatusMisdirectedRequest,
				"unknown host name: use an IP address, localhost, or a name given with --admin-host")
			return
		}
		h.ServeHTTP(w, r)
	})
}

// local admits only clients on this machine, unless Pprof is set.
func (s *Server) local(h http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		peer, err := netip.ParseAddrPort(r.RemoteAddr)
		if !s.cfg.Pprof && (err != nil || !peer.Addr().Unmap().IsLoopback()) {
			line(w, http.StatusForbidden, "profiles are only for clients on this machine; --pprof allows all")
			return
		}
		h(w, r)
	})
}

// faults forwards the lines of net/http's error log to our log.
type faults struct{ log *slog.Logger }

func (f faults) Write(p []byte) (int, error) {
	f.log.Warn("admin: connection", "err", string(p))
	return len(p), nil
}
