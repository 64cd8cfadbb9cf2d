package provider

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"example.com/marketdata/builder/source"
	"example.com/marketdata/internal/redact"
	"github.com/cenkalti/backoff/v5"
	"golang.org/x/time/rate"
)

// Limits for a request. A build has ten minutes for all its requests.
const (
	// maxBody is the maximum size of a decompressed response, in bytes.
	maxBody = 64 << 20
	// tryTime limits the duration of one try, from dialing to the last byte of the body.
	tryTime = time.Minute
	// tries is the maximum number of tries for a request. requestTime limits their total duration.
	tries       = 4
	requestTime = 3 * time.Minute
	// leastTime is the time reserved for a response. A request that has less time left is not sent.
	leastTime = 5 * time.Second
	// maxPause is the longest Retry-After for which a request waits.
	maxPause = 90 * time.Second
	// maxRedirects is the maximum number of redirects. They must stay on the same host.
	maxRedirects = 3
)

// userAgent identifies the program to providers.
const userAgent = "marketdata-builder/1 (read-only market data service)"

// client makes requests to one provider. It is safe for concurrent use.
type client struct {
	plan      Plan
	base      *url.URL
	transport http.RoundTripper
	limiter   *rate.Limiter
	quota     *quota // counts the calls
	log       *slog.Logger

	mu sync.Mutex
	// until is the time before which no request may be made (Retry-After). untilOptional is the
	// corresponding time for all requests except those for prices, which do not wait for other
	// requests.
	until, untilOptional time.Time
}

// newClient returns a client, or an error if the plan's base or key is invalid. The key is sent
// only over https, or to this machine, and never appears in an error or a log line. If transport is
// nil, the client uses the network.
func newClient(plan Plan, q *quota, transport http.RoundTripper, log *slog.Logger) (*client, error) {
	base, err := url.Parse(plan.Base)
	if err != nil {
		return nil, errors.New("base: not a URL")
	}
	switch {
	case base.Scheme != "https" && base.Scheme != "http" || base.Host == "":
		return nil, fmt.Errorf("base %.80q: want http://… or https://…", base.Redacted())
	case base.User != nil || base.RawQuery != "" || base.Fragment != "":
		return nil, fmt.Errorf("base %.80q: want scheme, host and path only", base.Redacted())
	case plan.Key != "" && base.Scheme != "https" && !source.ThisMachine(base):
		return nil, fmt.Errorf("base %s: the key is sent over https only", base)
	case strings.ContainsFunc(plan.Key, func(r rune) bool { return r <= ' ' || r > '~' }):
		return nil, errors.New("the key holds white space or characters that no key has")
	}
	base.Path = strings.TrimSuffix(base.Path, "/")
	if transport == nil {
		transport = source.Transport()
	}
	// The burst counts toward the calls of the first minute, so it reduces the rate.
	burst := max(1, min(plan.Burst, plan.PerMinute/2))
	limit := rate.Limit(float64(plan.PerMinute-burst+1) / 60)
	return &client{
		plan: plan, base: base, transport: transport, limiter: rate.NewLimiter(limit, burst), quota: q, log: log,
	}, nil
}

// errRedirect is not retried, since the next response would be the same.
var errRedirect = errors.New("redirected to another host, or too often")

// sameHost returns an error for a redirect to another host, so that the key and the request never
// leave the provider's host.
func sameHost(req *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects || req.URL.Host != via[0].URL.Host || req.URL.Scheme != via[0].URL.Scheme {
		return errRedirect
	}
	return nil
}

// request is one request to a provider.
type request struct {
	// path begins with a slash and is escaped.
	path  string
	query url.Values
	// headers are the validators of the cached page.
	headers headers
	call    call
	// check returns an error if body is not a valid answer. The client then retries the request.
	check func(body []byte) error
}

// statusError is the error for a response whose status does not indicate success.
type statusError struct {
	status  int
	message string // the beginning of the body, on one line
}

func (e *statusError) Error() string {
	if e.message == "" {
		return fmt.Sprintf("status %d", e.status)
	}
	return fmt.Sprintf("status %d: %s", e.status, e.message)
}

// mayPass reports whether the same request may succeed shortly afterwards.
func (e *statusError) mayPass() bool {
	switch e.status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return e.status >= 500
}

// pausedError means that the provider demands a pause longer than maxPause before the next request.
type pausedError struct{ until time.Time }

func (e *pausedError) Error() string {
	return fmt.Sprintf("the provider asks for a pause until %s (Retry-After)", e.until.UTC().Format(time.RFC3339))
}

// get makes a request, with retries; see the package comment. A nil body means that the cached
// answer is still valid. The error wraps an errNotSent, a *statusError, a *pausedError, or any
// other error of the last try.
func (c *client) get(ctx context.Context, req request) (body []byte, got headers, err error) {
	pace := backoff.NewExponentialBackOff()
	pace.InitialInterval, pace.Multiplier, pace.MaxInterval = time.Second, 2, 30*time.Second
	var last error
	body, err = backoff.Retry(ctx, func() (body []byte, err error) {
		if err := c.turn(ctx, req.call.value); err != nil && last == nil {
			return nil, backoff.Permanent(errNotSent{err})
		} else if err != nil {
			return nil, backoff.Permanent(fmt.Errorf("%w; not asked again: %w", last, err))
		}
		body, got, last = c.try(ctx, req)
		req.call.again = true
		return body, last
	},
		backoff.WithBackOff(pace), backoff.WithMaxTries(tries), backoff.WithMaxElapsedTime(requestTime),
		backoff.WithNotify(func(err error, wait time.Duration) {
			c.log.Debug("provider: asking again", "path", req.path, "wait", wait, "err", err)
		}))
	if err != nil {
		return nil, headers{}, fmt.Errorf("GET %s: %w", req.path, err)
	}
	return body, got, nil
}

// turn waits until a request of this value may be made.
func (c *client) turn(ctx context.Context, value Value) error {
	c.mu.Lock()
	until := c.until
	if value > Tickers && c.untilOptional.After(until) {
		until = c.untilOptional
	}
	c.mu.Unlock()
	if pause := time.Until(until); pause > maxPause {
		return &pausedError{until}
	} else if pause > 0 {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if end, ok := ctx.Deadline(); ok && time.Until(end) < c.timeOf(1) {
		return errNoTime
	}
	return c.limiter.Wait(ctx)
}

// timeOf returns the minimum time that n requests take.
func (c *client) timeOf(n int) time.Duration {
	wait := (float64(n) - c.limiter.Tokens()) / float64(c.limiter.Limit())
	return max(0, time.Duration(wait*float64(time.Second))) + leastTime
}

// try makes a request without retries. It returns a backoff.PermanentError if a retry cannot help.
func (c *client) try(ctx context.Context, req request) (body []byte, got headers, err error) {
	ctx, cancel := context.WithTimeout(ctx, tryTime)
	defer cancel()
	u := *c.base
	u.RawPath, u.RawQuery = "", req.query.Encode()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.JoinPath(req.path).String(), nil)
	if err != nil {
		return nil, got, backoff.Permanent(err)
	}
	for name, value := range map[string]string{
		"Accept": "application/json", "User-Agent": userAgent,
		"If-None-Match": req.headers.ETag, "If-Modified-Since": req.headers.LastModified,
	} {
		if value != "" {
			r.Header.Set(name, value)
		}
	}
	if c.plan.Key != "" {
		r.Header.Set(c.plan.KeyHeader, c.plan.KeyPrefix+c.plan.Key)
	}
	// Count every call that the client makes for this request, including redirects.
	asker := http.Client{Transport: &counter{c.transport, c.quota, req.call}, CheckRedirect: sameHost}
	res, err := asker.Do(r)
	if err != nil {
		return nil, got, c.transportError(err)
	}
	defer res.Body.Close()
	switch {
	case res.StatusCode == http.StatusNotModified && req.headers != (headers{}):
		return nil, req.headers, nil
	case res.StatusCode != http.StatusOK:
		return nil, got, c.statusError(res, req.call.value)
	}
	if body, err = io.ReadAll(io.LimitReader(res.Body, maxBody+1)); err != nil {
		return nil, got, fmt.Errorf("read body: %w", err)
	}
	if len(body) > maxBody {
		return nil, got, backoff.Permanent(fmt.Errorf("body of more than %d bytes", maxBody))
	}
	if err := req.check(body); err != nil {
		return nil, got, fmt.Errorf("the answer is not what was asked for: %w", err)
	}
	return body, headers{res.Header.Get("ETag"), res.Header.Get("Last-Modified")}, nil
}

// transportError removes the URL from an error of net/http, since the caller names the path.
func (c *client) transportError(err error) error {
	if errors.Is(err, errRedirect) {
		return backoff.Permanent(errRedirect)
	}
	if unsent := (errNotSent{}); errors.As(err, &unsent) {
		return backoff.Permanent(unsent)
	}
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	var dns *net.DNSError
	if errors.As(err, &dns) && dns.IsNotFound {
		return fmt.Errorf("no such host: %s", dns.Name)
	}
	return redact.Error(err, c.plan.Key) // net/http quotes answers that are not HTTP
}

// maxMessage limits how much of an error response's body is read, in bytes. Far less is quoted, so
// a key that is cut off at the end is never quoted.
const maxMessage = 64 << 10

func (c *client) statusError(res *http.Response, value Value) error {
	b, _ := io.ReadAll(io.LimitReader(res.Body, maxMessage)) // a truncated message is fine
	err := &statusError{res.StatusCode, redact.Text(string(b), c.plan.Key)}
	if !err.mayPass() {
		return backoff.Permanent(err)
	}
	if pause, ok := retryAfter(res.Header, time.Now()); ok {
		c.mu.Lock()
		last := &c.until
		if value > Tickers {
			last = &c.untilOptional
		}
		if until := time.Now().Add(pause); until.After(*last) {
			*last = until
		}
		c.mu.Unlock()
	}
	return err
}

// maxRetryAfter is the longest pause that the client respects. If Retry-After demands a longer one,
// the client pauses only for maxRetryAfter.
const maxRetryAfter = 24 * time.Hour

// retryAfter parses Retry-After (RFC 9110, section 10.2.3), which is a number of seconds or a date.
func retryAfter(h http.Header, now time.Time) (pause time.Duration, ok bool) {
	text := h.Get("Retry-After")
	if seconds, err := strconv.ParseUint(text, 10, 32); err == nil {
		return min(time.Duration(seconds)*time.Second, maxRetryAfter), true
	}
	if at, err := http.ParseTime(text); err == nil {
		return min(max(0, at.Sub(now)), maxRetryAfter), true
	}
	return 0, false
}
