package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"example.com/marketdata/edge/limit"
	"example.com/marketdata/edge/shards"
	"example.com/marketdata/internal/redact"
)

// Observation describes an answer, for metrics.
type Observation struct {
	Route Route
	// Status is the status of the answer, with two exceptions: it is 499 if the client did not read the
	// answer to the end, and 500 if a download was cut off because a chunk was unavailable.
	Status int
	// Bytes is the length of the body, including for HEAD.
	Bytes int
	// Duration is the time from reading the request to having the answer ready.
	Duration time.Duration
	// KeyID is the id of the API key, or "" if the request had no valid key.
	KeyID string
	// Conn is the number of the connection. It selects the shard of a counter that is updated.
	Conn uint64
}

// statusCutOff is the status that logs and metrics show for an answer that the client did not read to the
// end, as in nginx.
const statusCutOff = 499

// observe logs and counts an answer. err is the reason why it was not written completely, or nil.
func (s *Server) observe(r *Request, err error) {
	status, took := r.Asked.Reply.Status, r.took
	switch {
	case err == nil:
	case errors.Is(err, shards.ErrUnavailable) && !errors.Is(err, context.Canceled): // the client did not cancel it
		status, r.fault = http.StatusInternalServerError, err
	default:
		status = statusCutOff
	}
	if s.cfg.Observe != nil {
		var conn uint64
		if r.conn != nil {
			conn = r.conn.number
		}
		s.cfg.Observe(Observation{
			Route: r.route, Status: status, Bytes: len(r.Asked.Reply.Body) + r.sent, Duration: took, KeyID: r.KeyID,
			Conn: conn,
		})
	}
	if level, ok := s.log.wants(r.route, status, took); ok {
		s.log.request(r, level, status, took, mask(s.clientOf(r)))
	}
}

// requestLog writes a bounded number of log lines. No line contains a key, a full address, or anything else
// that a client chose, except the request id and the trace id, which consist of safe characters.
type requestLog struct {
	log  *slog.Logger
	all  bool
	slow time.Duration
	// A few lines per second are enough for client errors. The service's own errors get as many as a person
	// can read.
	clientLimit, ownLimit   limit.Limit
	clientBucket, ownBucket limit.Bucket
}

func newRequestLog(cfg *Config) *requestLog {
	mustLimit := func(rate, burst int) limit.Limit {
		l, err := limit.New(rate, burst)
		if err != nil {
			panic("BUG: " + err.Error())
		}
		return l
	}
	return &requestLog{log: cfg.Logger, all: cfg.LogAll, slow: cfg.LogSlow, clientLimit: mustLimit(5, 20),
		ownLimit: mustLimit(50, 200)}
}

// wants reports whether an answer is logged, and at which level.
func (l *requestLog) wants(route Route, status int, took time.Duration) (slog.Level, bool) {
	switch {
	case l.log == nil:
		return 0, false
	case ownFault(route, status):
		return slog.LevelError, l.all || l.ownBucket.Take(l.ownLimit, limit.At(time.Now())).OK
	case l.slow > 0 && took >= l.slow && route != RouteNotYet:
		return slog.LevelWarn, l.all || l.ownBucket.Take(l.ownLimit, limit.At(time.Now())).OK
	case l.all:
		return slog.LevelInfo, true
	case status >= http.StatusBadRequest:
		return slog.LevelInfo, l.clientBucket.Take(l.clientLimit, limit.At(time.Now())).OK
	}
	return 0, false
}

func (l *requestLog) request(r *Request, level slog.Level, status int, took time.Duration, client string) {
	attrs := []slog.Attr{
		slog.String("request_id", redact.Text(string(r.ID))), traceID(r), slog.String("key_id", r.KeyID),
		slog.String("route", r.routeName()),
		slog.Int("status", status), slog.Int("bytes", len(r.Asked.Reply.Body)+r.sent), slog.Duration("duration", took),
		slog.String("client", client),
	}
	if r.fault != nil {
		attrs = append(attrs, slog.String("err", r.fault.Error()))
	}
	if !r.Asked.Snapshot.IsZero() {
		attrs = append(attrs, slog.Time("snapshot", r.Asked.Snapshot))
	}
	l.log.LogAttrs(context.Background(), level, "request", attrs...)
}

// traceID returns the attribute for a request's trace id. If there is none, the attribute is empty and
// handlers omit it.
func traceID(r *Request) slog.Attr {
	if r.TraceID == nil {
		return slog.Attr{}
	}
	return slog.String("trace_id", string(r.TraceID))
}

func (l *requestLog) panicked(r *Request, v any, stack []byte) {
	if l.log != nil && l.ownBucket.Take(l.ownLimit, limit.At(time.Now())).OK {
		l.log.Error("request handler panicked", "request_id", redact.Text(string(r.ID)),
			traceID(r), "route", r.routeName(), "panic", fmt.Sprintf("%.200v", v), "stack", string(stack))
	}
}

// brokenConn logs a panic that ended a connection.
func (l *requestLog) brokenConn(v any, stack []byte) {
	if l.log != nil && l.ownBucket.Take(l.ownLimit, limit.At(time.Now())).OK {
		l.log.Error("connection handler panicked", "panic", fmt.Sprintf("%.200v", v), "stack", string(stack))
	}
}
