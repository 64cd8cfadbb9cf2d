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

// readStall bounds how long a read waits for its answer to begin, and then for each
// further byte: a connection that died in an outage must not hold a fetch for longer than the
// store needs to be asked again. cellStall is the same for cells: an edge believes a slow answer
// about a cell for ten seconds (package follow), and asks again meanwhile.
const (
	readStall = 5 * time.Second
	cellStall = 15 * time.Second
)

// watch returns a context for one read, which ends with a DeadlineExceeded when progress is not called
// for stall, and a stop that frees it: to its callers the store is slow.
func watch(ctx context.Context, stall time.Duration) (_ context.Context, progress, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(stall, func() {
		cancel(fmt.Errorf("no byte for %v: %w", stall, context.DeadlineExceeded))
	})
	return ctx, func() { timer.Reset(stall) }, func() { timer.Stop(); cancel(nil) }
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

// clock compares this machine's clock with the Date of the answers that pass through it, and notes
// until when the server wants no requests.
type clock struct {
	next  http.RoundTripper
	now   func() time.Time
	skew  atomic.Pointer[time.Duration] // by the last answer that had a Date; nil: none had
	until atomic.Pointer[time.Time]     // by the last answer with Retry-After; nil: none had
}

// pause returns how long the server wants no requests.
func (c *clock) pause() time.Duration {
	if t := c.until.Load(); t != nil {
		return max(0, t.Sub(c.now()))
	}
	return 0
}

// maxPause bounds the Retry-After that is believed.
const maxPause = time.Hour

// retryAfter returns the time that an answer's Retry-After names, in seconds or as a date (RFC 9110,
// 10.2.3); ok is false without one.
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
