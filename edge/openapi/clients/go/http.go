package marketdata

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	maxBody = 16 << 20         // bytes of an answer; a page of 100 rows is much smaller
	silence = 45 * time.Second // after which an event stream counts as dead; a live one sends a line every 15 s
	alive   = 10 * time.Second // a stream that still receives lines at this age works, even without an event
	spread  = 3 * time.Second  // over which clients spread their requests after an event
	backoff = time.Second      // the longest wait before the second attempt; 3 retries survive an outage of 3 s
)

type reply struct {
	status int
	header http.Header
	result json.RawMessage
}

// do sends a request until there is an answer, an error that another attempt would not correct, or no
// attempt left.
func (c *Client) do(ctx context.Context, target string, header http.Header) (*reply, error) {
	for attempt := 0; ; attempt++ {
		r, err := c.once(ctx, target, header)
		if err == nil {
			return r, nil
		}
		if err := c.pause(ctx, attempt, err); err != nil {
			return nil, err
		}
	}
}

// once makes a single attempt. A 304 answer has no result.
func (c *Client) once(ctx context.Context, target string, header http.Header) (*reply, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	res, err := c.send(ctx, target, header)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	r := &reply{status: res.StatusCode, header: res.Header}
	if res.StatusCode == http.StatusNotModified {
		return r, nil
	}
	r.result, err = read(res)
	return r, err
}

func (c *Client) send(ctx context.Context, target string, header http.Header) (*http.Response, error) {
	if c.base == "" {
		return nil, errors.New("marketdata: this Client was not made by New")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+target, nil)
	if err != nil {
		return nil, err
	}
	req.Header = header.Clone()
	req.Header.Set("X-Api-Key", c.key)
	req.Header.Set("User-Agent", c.agent)
	res, err := c.http.Do(req)
	if err != nil {
		return nil, &TransportError{err}
	}
	return res, nil
}

// read returns the result of an answer with status 200. For any other status, it returns an *APIError.
func read(res *http.Response) (json.RawMessage, error) {
	var envelope struct {
		Code    int             `json:"code"`
		Message string          `json:"message"`
		Key     MessageKey      `json:"message_key"`
		Result  json.RawMessage `json:"result"`
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxBody))
	if err == nil {
		err = json.Unmarshal(body, &envelope)
	}
	if res.StatusCode == http.StatusOK {
		if err != nil {
			return nil, &TransportError{fmt.Errorf("read the answer: %w", err)}
		}
		return envelope.Result, nil
	}
	e := &APIError{Status: res.StatusCode, Message: http.StatusText(res.StatusCode), Limit: limit(res.Header),
		RequestID: res.Header.Get("X-Request-Id")}
	if err == nil {
		e.Code, e.MessageKey, e.Message = envelope.Code, envelope.Key, envelope.Message
	}
	if seconds, err := strconv.ParseUint(res.Header.Get("Retry-After"), 10, 31); err == nil {
		e.RetryAfter = time.Duration(seconds) * time.Second
	}
	return nil, e
}

// pause waits before the next attempt. It returns err if there should be no further attempt.
func (c *Client) pause(ctx context.Context, attempt int, err error) error {
	wait := jitter(min(backoff<<min(attempt, 10), c.maxWait))
	var e *APIError
	var broken *TransportError
	if errors.As(err, &e) {
		if !slices.Contains([]int{408, 429, 500, 502, 503, 504}, e.Status) {
			return err
		}
		if e.RetryAfter > c.maxWait {
			return err
		}
		wait += e.RetryAfter // plus a random time, so that not all clients come back at the same time
	} else if !errors.As(err, &broken) {
		return err // no request was sent
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if attempt >= c.retries {
		return err
	}
	return c.wait(ctx, wait)
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Events yields the time of the current snapshot, and then of each new snapshot that becomes current. It
// connects again when a stream ends. It ends with an error when too many streams in a row fail, or end
// early without an event. It yields each event except the first after a random delay of at most three
// seconds, so that not all clients send requests at the same time. The next request may still reach an edge
// that does not have the new snapshot yet. To read from that snapshot, set the query's At to the event's
// time.
func (c *Client) Events(ctx context.Context) iter.Seq2[time.Time, error] {
	return func(yield func(time.Time, error) bool) {
		var last string
		again := 2 * time.Second
		for attempt := 0; ; attempt++ {
			works, opened := false, time.Now()
			err := c.stream(ctx, last, func(line string) error {
				works = works || time.Since(opened) > alive
				if ms, ok := strings.CutPrefix(line, "retry:"); ok {
					if n, err := strconv.Atoi(strings.TrimSpace(ms)); err == nil && n > 0 {
						again = min(time.Duration(n)*time.Millisecond, c.maxWait)
					}
				}
				id, ok := strings.CutPrefix(line, "id:")
				id = strings.TrimSpace(id)
				at, err := time.Parse(time.RFC3339, id)
				if !ok || err != nil || id == last {
					return nil
				}
				if last != "" {
					if err := c.wait(ctx, rand.N(spread)); err != nil {
						return err
					}
				}
				last, works = id, true
				if !yield(at, nil) {
					return errStop
				}
				return nil
			})
			switch {
			case errors.Is(err, errStop):
				return
			case works && errors.As(err, new(*TransportError)):
				attempt = -1
				err = c.wait(ctx, jitter(again))
			default:
				err = c.pause(ctx, attempt, err)
			}
			if err != nil {
				yield(time.Time{}, err)
				return
			}
		}
	}
}

var errStop = errors.New("no more events are wanted")

// stream passes on each line of one event stream, and returns the error that ended the stream.
func (c *Client) stream(ctx context.Context, last string, line func(string) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	timer := time.AfterFunc(silence, cancel)
	defer timer.Stop()
	header := http.Header{"Accept": {"text/event-stream"}}
	if last != "" {
		header.Set("Last-Event-ID", last)
	}
	res, err := c.send(ctx, "/openapi/v1/events", header)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		_, err := read(res)
		return err
	}
	if kind := res.Header.Get("Content-Type"); !strings.HasPrefix(kind, "text/event-stream") {
		return &TransportError{fmt.Errorf("%s in place of events", kind)}
	}
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		timer.Reset(silence)
		if err := line(lines.Text()); err != nil {
			return err
		}
	}
	return &TransportError{fmt.Errorf("the stream of events ended: %w", cmp.Or(lines.Err(), io.EOF))}
}

var limits = regexp.MustCompile(`^"[^"]*";[qr]=(\d+);[wt]=(\d+)$`)

func limit(header http.Header) *RateLimit {
	policy, state := limits.FindStringSubmatch(header.Get("RateLimit-Policy")),
		limits.FindStringSubmatch(header.Get("RateLimit"))
	if policy == nil || state == nil {
		return nil
	}
	var n [4]int
	for i, text := range []string{policy[1], policy[2], state[1], state[2]} {
		n[i], _ = strconv.Atoi(text)
	}
	return &RateLimit{n[0], n[1], n[2], n[3]}
}

// notFound parses the value of X-Not-Found, such as id=5,9&slug=foo.
func notFound(header string) map[string][]string {
	if header == "" {
		return nil
	}
	m := map[string][]string{}
	for _, filter := range strings.Split(header, "&") {
		name, values, _ := strings.Cut(filter, "=")
		m[name] = list(values)
	}
	return m
}

// list parses comma-separated, percent-encoded values, such as the value page,size of X-Ignored.
func list(values string) []string {
	parts := strings.Split(values, ",")
	for i, part := range parts {
		if text, err := url.PathUnescape(part); err == nil {
			parts[i] = text
		}
	}
	return parts
}

// jitter returns a random duration between d/2 and d.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2) }
