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

	"github.com/cenkalti/backoff/v5"
	"golang.org/x/time/rate"

	"example.com/marketdata/builder/source"
	"example.com/marketdata/internal/outside"
)

// Bounds of a request. A build has ten minutes for all of them.
const (
	// maxBody bounds an answer, in bytes, after decompression.
	maxBody = 64 << 20
	// tryTime bounds one try, from dialling to the body's last byte.
	tryTime = time.Minute
	// tries bounds how often a request is made, and requestTime how long it is
	// tried for.
	tries       = 4
	requestTime = 3 * time.Minute
	// maxPause is the longest Retry-After that is waited for.
	maxPause = 90 * time.Second
	// maxRedirects bounds redirects, all of them to the same host.
	maxRedirects = 3
)

// userAgent says to providers who is asking.
const userAgent = "marketdata-builder/1 (read-only market data service)"

// ClientConfig says how a provider is to be asked.
type ClientConfig struct {
	// Base is what stands before the paths of requests, such as
	// https://api.coinpaprika.com/v1.
	Base string
	// KeyHeader and Key name the account; both empty without one. KeyPrefix stands
	// before the key, such as "Bearer ". The key is sent over https only, or to this
	// machine, and never appears in an error or a log line.
	KeyHeader, KeyPrefix, Key string
	// PerMinute is how many requests are made in a minute, and Burst how many of
	// them at once; no more than half of them are.
	PerMinute, Burst int
	// quota counts the calls; nil: they are not counted.
	quota *quota
	// Transport is for tests; nil: a transport of the client's own.
	Transport http.RoundTripper
	Log       *slog.Logger
}

// Client asks one provider. It is safe for concurrent use.
type Client struct {
	ClientConfig
	base    *url.URL
	http    *http.Client
	limiter *rate.Limiter

	mu sync.Mutex
	// until is when to ask again (Retry-After), untilOptional when to ask for anything
	// but prices: what is told about that holds no prices back.
	until, untilOptional time.Time
}

// NewClient returns a client, or an error that says what of cfg is wrong.
func NewClient(cfg ClientConfig) (*Client, error) {
	base, err := url.Parse(cfg.Base)
	if err != nil {
		return nil, errors.New("base: not a URL")
	}
	switch {
	case base.Scheme != "https" && base.Scheme != "http" || base.Host == "":
		return nil, fmt.Errorf("base %.80q: want http://… or https://…", base.Redacted())
	case base.User != nil || base.RawQuery != "" || base.Fragment != "":
		return nil, fmt.Errorf("base %.80q: want scheme, host and path only", base.Redacted())
	case cfg.Key != "" && base.Scheme != "https" && !source.ThisMachine(base):
		return nil, fmt.Errorf("base %s: the key is sent over https only", base)
	case strings.ContainsFunc(cfg.Key, func(r rune) bool { return r <= ' ' || r > '~' }):
		return nil, errors.New("the key holds white space or characters that no key has")
	}
	base.Path = strings.TrimSuffix(base.Path, "/")
	transport := cfg.Transport
	if transport == nil {
		transport = source.Transport()
	}
	if cfg.quota != nil {
		transport = &counter{transport, cfg.quota}
	}
	// The burst is a part of the first minute's calls, and not added to them.
	burst := max(1, min(cfg.Burst, cfg.PerMinute/2))
	return &Client{
		ClientConfig: cfg, base: base,
		http:    &http.Client{Transport: transport, CheckRedirect: sameHost},
		limiter: rate.NewLimiter(rate.Limit(float64(cfg.PerMinute-burst+1)/60), burst),
	}, nil
}

// errRedirect is final: asking again would be answered in the same way.
var errRedirect = errors.New("redirected to another host, or too often")

// sameHost keeps the key, and the request, with the provider.
func sameHost(req *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects || req.URL.Host != via[0].URL.Host || req.URL.Scheme != via[0].URL.Scheme {
		return errRedirect
	}
	return nil
}

// request is one question to a provider.
type request struct {
	// Path begins with a slash and is escaped.
	Path  string
	Query url.Values
	// ETag and LastModified are those of the cached answer.
	ETag, LastModified string
	call
	// Check says whether a body is what was asked for. One that is not is asked
	// for again.
	Check func(body []byte) error
}

// response is a provider's answer.
type response struct {
	// NotModified: the cached answer is still right; there is no Body.
	NotModified        bool
	Body               []byte
	ETag, LastModified string
	Link               string
}

// StatusError is an answer with a status that is none of success.
type StatusError struct {
	Status int
	// Message is how the body begins, on one line.
	Message string
}

func (e *StatusError) Error() string {
	if e.Message == "" {
		return fmt.Sprintf("status %d", e.Status)
	}
	return fmt.Sprintf("status %d: %s", e.Status, e.Message)
}

// mayPass reports whether the same request may succeed a little later.
func (e *StatusError) mayPass() bool {
	switch e.Status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return e.Status >= 500
}

// pausedError says that the provider asked for a longer pause than maxPause.
type pausedError struct{ Until time.Time }

func (e *pausedError) Error() string {
	return fmt.Sprintf("the provider asks to be left alone until %s (Retry-After)", e.Until.UTC().Format(time.RFC3339))
}

// get makes a request, with retries; see the package's comment. The error is
// a *StatusError, a *pausedError, a *quotaError, or says what else went wrong last.
func (c *Client) get(ctx context.Context, req request) (*response, error) {
	pace := backoff.NewExponentialBackOff()
	pace.InitialInterval, pace.Multiplier, pace.MaxInterval = time.Second, 2, 30*time.Second
	res, err := backoff.Retry(ctx, func() (*response, error) {
		if err := c.turn(ctx, req.value); err != nil {
			return nil, backoff.Permanent(err)
		}
		res, err := c.try(ctx, req)
		req.again = true
		return res, err
	},
		backoff.WithBackOff(pace), backoff.WithMaxTries(tries), backoff.WithMaxElapsedTime(requestTime),
		backoff.WithNotify(func(err error, wait time.Duration) {
			c.Log.Debug("provider: asking again", "path", req.Path, "wait", wait, "err", err)
		}))
	if err != nil {
		return nil, fmt.Errorf("GET %s: %w", req.Path, err)
	}
	return res, nil
}

// turn waits until a request of a value may be made.
func (c *Client) turn(ctx context.Context, value Value) error {
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
	return c.limiter.Wait(ctx)
}

// try makes a request once. An error that asking again cannot help is a
// backoff.PermanentError.
func (c *Client) try(ctx context.Context, req request) (*response, error) {
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, call{}, req.call), tryTime)
	defer cancel()
	u := *c.base
	u.RawPath, u.RawQuery = "", req.Query.Encode()
	target := u.JoinPath(req.Path)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return nil, backoff.Permanent(err)
	}
	r.Header.Set("Accept", "application/json")
	r.Header.Set("User-Agent", userAgent)
	if c.Key != "" {
		r.Header.Set(c.KeyHeader, c.KeyPrefix+c.Key)
	}
	if req.ETag != "" {
		r.Header.Set("If-None-Match", req.ETag)
	}
	if req.LastModified != "" {
		r.Header.Set("If-Modified-Since", req.LastModified)
	}
	res, err := c.http.Do(r)
	if err != nil {
		return nil, c.transportError(err)
	}
	defer res.Body.Close()
	switch {
	case res.StatusCode == http.StatusNotModified && (req.ETag != "" || req.LastModified != ""):
		return &response{NotModified: true, ETag: req.ETag, LastModified: req.LastModified}, nil
	case res.StatusCode != http.StatusOK:
		return nil, c.statusError(res, req.value)
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxBody+1))
	if err != nil {
		return nil, fmt.Errorf("read body: %w", err)
	}
	if len(body) > maxBody {
		return nil, backoff.Permanent(fmt.Errorf("body of more than %d bytes", maxBody))
	}
	if err := req.Check(body); err != nil {
		return nil, fmt.Errorf("the answer is not what was asked for: %w", err)
	}
	return &response{Body: body, ETag: res.Header.Get("ETag"), LastModified: res.Header.Get("Last-Modified"), Link: strings.Join(res.Header.Values("Link"), ", ")}, nil
}

// transportError takes the URL out of an error of net/http: the caller names
// the path.
func (c *Client) transportError(err error) error {
	if errors.Is(err, errRedirect) {
		return backoff.Permanent(errRedirect)
	}
	if spent := (*quotaError)(nil); errors.As(err, &spent) {
		return backoff.Permanent(spent)
	}
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	var dns *net.DNSError
	if errors.As(err, &dns) && dns.IsNotFound {
		return fmt.Errorf("no such host: %s", dns.Name)
	}
	return outside.Error(err, c.Key) // net/http quotes what is no HTTP
}

// maxMessage bounds what is read of an error's body, in bytes: far more than is
// quoted, so that no part of a key at its end is.
const maxMessage = 64 << 10

func (c *Client) statusError(res *http.Response, value Value) error {
	b, _ := io.ReadAll(io.LimitReader(res.Body, maxMessage)) // a message that breaks off is fine
	err := &StatusError{res.StatusCode, outside.Text(string(b), c.Key)}
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

// maxRetryAfter bounds what is believed of a Retry-After.
const maxRetryAfter = 24 * time.Hour

// retryAfter reads Retry-After (RFC 9110, section 10.2.3): seconds or a date.
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
