package s3store

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

// readStall is how long a read may wait for its answer to begin, and then for each further byte. A
// connection that died in an outage must not block a fetch for longer than it takes to ask the
// store again. cellStall is the limit for cells. It is longer, because an edge accepts an answer
// about a cell that is up to ten seconds late (package follow), and asks again in the meantime.
const (
	readStall = 5 * time.Second
	cellStall = 15 * time.Second
)

// watch returns a context for one read. The context ends with DeadlineExceeded if maxStall passes
// without a call of progress, so callers recognize that the store is slow. stop releases the
// context.
func watch(ctx context.Context, maxStall time.Duration) (_ context.Context, progress, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(maxStall, func() {
		cancel(fmt.Errorf("no byte for %v: %w", maxStall, context.DeadlineExceeded))
	})
	return ctx, func() { timer.Reset(maxStall) }, func() { timer.Stop(); cancel(nil) }
}

// progressReader calls progress for each read that returns bytes.
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

// maxRest is the maximum number of bytes that are read from the body of any answer other than the
// answer to a successful GET.
const maxRest = 1 << 20

// bounded limits such answers to maxRest bytes. The client reads a body to its end before it closes
// it, however long the body is. If the body is longer than maxRest, the connection is closed.
type bounded struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := b.next.RoundTrip(r)
	if err != nil || r.Method == http.MethodGet && res.StatusCode < http.StatusMultipleChoices {
		return res, err // Readers of objects and lists have their own limits.
	}
	res.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(res.Body, maxRest), res.Body}
	return res, nil
}

// clock compares this machine's clock with the Date header of the answers that pass through it, and
// records until when the server asks clients to wait.
type clock struct {
	next  http.RoundTripper
	now   func() time.Time
	skew  atomic.Pointer[time.Duration] // according to the last answer with a Date header; nil if there was none
	until atomic.Pointer[time.Time]     // according to the last answer with Retry-After; nil if there was none
}

// pause returns how much longer the server asks clients to wait.
func (c *clock) pause() time.Duration {
	if t := c.until.Load(); t != nil {
		return max(0, t.Sub(c.now()))
	}
	return 0
}

// maxPause is the maximum pause that a Retry-After header can cause.
const maxPause = time.Hour

// retryAfter returns the time that a Retry-After header names, in seconds or as a date (RFC 9110,
// section 10.2.3). ok is false if there is no valid value.
func retryAfter(value string, now time.Time) (t time.Time, ok bool) {
	if n, err := strconv.ParseUint(value, 10, 31); err == nil {
		return now.Add(min(time.Duration(n)*time.Second, maxPause)), true
	}
	t, err := http.ParseTime(value)
	return t, err == nil && t.Before(now.Add(maxPause))
}

// RoundTrip implements http.RoundTripper.
func (c *clock) RoundTrip(r *http.Request) (*http.Response, error) {
	sent := c.now()
	res, err := c.next.RoundTrip(r)
	if err != nil {
		return res, err
	}
	if t, ok := retryAfter(res.Header.Get("Retry-After"), c.now()); ok {
		c.until.Store(&t)
	}
	// An answer from a cache has an old Date header and an Age header.
	if date, err := http.ParseTime(res.Header.Get("Date")); err == nil && res.Header.Get("Age") == "" {
		skew := skewOf(sent, c.now(), date)
		c.skew.Store(&skew)
	}
	return res, nil
}

// skewOf returns the smallest skew that is consistent with an answer. The request was sent at
// sentAt, the answer arrived at receivedAt, and in between the server's clock showed serverTime,
// which is in whole seconds. So a slow answer does not look like a wrong clock.
func skewOf(sentAt, receivedAt, serverTime time.Time) time.Duration {
	if least := sentAt.Sub(serverTime.Add(time.Second)); least > 0 {
		return least
	}
	return min(0, receivedAt.Sub(serverTime))
}

// ClockSkew implements artifacts.Clock.
func (s *Store) ClockSkew() (skew time.Duration, known bool) {
	if d := s.clock.skew.Load(); d != nil {
		return *d, true
	}
	return 0, false
}
