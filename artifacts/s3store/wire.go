package s3store

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

// readStall bounds how long a read waits for its answer to begin, and then for each
// further byte. It is as long as an edge waits for the pointer: a connection that died in an
// outage must not hold a fetch for longer than the store needs to be asked again.
const readStall = 5 * time.Second

// errStalled is a DeadlineExceeded: to its callers the store is slow.
var errStalled = fmt.Errorf("no byte for %v: %w", readStall, context.DeadlineExceeded)

// watch returns a context for one read, which ends with errStalled when progress
// is not called for readStall, and a stop that frees it.
func watch(ctx context.Context) (_ context.Context, progress, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(readStall, func() { cancel(errStalled) })
	return ctx, func() { timer.Reset(readStall) }, func() { timer.Stop(); cancel(nil) }
}

// progressReader calls progress for each read that gives bytes.
type progressReader struct {
	io.Reader
	progress func()
}

func (r progressReader) Read(b []byte) (n int, err error) {
	if n, err = r.Reader.Read(b); n > 0 {
		r.progress()
	}
	return n, err
}

// maxRest bounds the bytes of an answer that says whether a request was done.
const maxRest = 1 << 20

// bounded ends such answers behind maxRest bytes: the client reads a body to its end before
// it closes it, however long that is. What is left then goes with the connection.
type bounded struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := b.next.RoundTrip(r)
	if err != nil || r.Method == http.MethodGet && res.StatusCode < http.StatusMultipleChoices {
		return res, err // what an object or a list holds has bounds of its own
	}
	res.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(res.Body, maxRest), res.Body}
	return res, nil
}

// clock compares this machine's clock with the Date of the answers that pass through it.
type clock struct {
	next http.RoundTripper
	now  func() time.Time
	skew atomic.Pointer[time.Duration] // by the last answer that had a Date; nil: none had
}

// RoundTrip implements http.RoundTripper.
func (c *clock) RoundTrip(r *http.Request) (*http.Response, error) {
	sent := c.now()
	res, err := c.next.RoundTrip(r)
	if err != nil {
		return res, err
	}
	// A cache on the way gives an answer of the past, with its age.
	if date, err := http.ParseTime(res.Header.Get("Date")); err == nil && res.Header.Get("Age") == "" {
		skew := skewOf(sent, c.now(), date)
		c.skew.Store(&skew)
	}
	return res, nil
}

// skewOf returns the least skew with which a server whose clock said date, in whole
// seconds, answered between sent and received: a slow answer is no wrong clock.
func skewOf(sent, received, date time.Time) time.Duration {
	if least := sent.Sub(date.Add(time.Second)); least > 0 {
		return least
	}
	return min(0, received.Sub(date))
}

// ClockSkew implements artifacts.Clock.
func (s *Store) ClockSkew() (skew time.Duration, known bool) {
	if d := s.clock.skew.Load(); d != nil {
		return *d, true
	}
	return 0, false
}
