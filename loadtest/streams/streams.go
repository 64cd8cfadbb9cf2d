// Package streams opens event streams (INTERFACE.md, "Events") as browsers do, while a service is under load,
// and measures how late the events arrive.
package streams

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/loadtest/client"
	"example.com/marketdata/loadtest/engine"
	"example.com/marketdata/loadtest/oracle"
	"github.com/HdrHistogram/hdrhistogram-go"
)

// Config configures a Set.
type Config struct {
	// Endpoints and Keys are assigned to the streams in turn. Without keys, the requests have none.
	Endpoints []*client.Endpoint
	Keys      []string
	Count     int
	// Store provides the times at which snapshots should become current. It may be nil.
	Store artifacts.Reader
}

// Ended is the failure of a stream that the service ended properly, as it does when it drains. The other
// failures are those of package engine.
const Ended engine.Failure = "ended"

// Result contains the figures of the streams of a Set.
type Result struct {
	Count, Open int    // how many streams were requested, and how many were open at the end
	Opened      uint64 // how often streams were opened or reopened
	// Failures counts the reasons why streams ended or could not be opened. For an error status, the reason
	// includes its number. engine.FailWrong means that a stream violated INTERFACE.md; Wrong describes an
	// example.
	Failures map[engine.Failure]uint64
	Wrong    string
	Events   uint64
	// Missed counts the events that streams missed: events that other streams received for snapshots between
	// two successive snapshots of a stream.
	Missed uint64
	// Early counts the events that arrived before their snapshot should become current, by the local clock.
	// They count as 0 in Late.
	Early uint64
	// Late is the time from when a snapshot should become current until its event arrives. It is nil without
	// a store. Apart is the time since the first event for the snapshot arrived on any stream. Neither counts
	// events that only state the current snapshot when a stream opens.
	Late, Apart *hdrhistogram.Histogram
}

// Path is the path of event streams.
const Path = "/openapi/v1/events"

const (
	// silence is how long a stream may be silent. The service sends a comment every 15 s.
	silence = 40 * time.Second
	// opening bounds the number of streams that are being opened at a time, and openWithin bounds the time
	// that opening a stream may take.
	opening    = 128
	openWithin = 10 * time.Second
	pollEvery  = 200 * time.Millisecond
	// maxSnapshots bounds the number of snapshots that a Set distinguishes.
	maxSnapshots = 10_000
	retryMessage = "retry: 2000\n"
	retryAfter   = 2 * time.Second
)

// Set is a set of open streams.
type Set struct {
	cfg   Config
	stop  context.CancelFunc
	tasks sync.WaitGroup
	slots chan struct{}

	mu        sync.Mutex // guards all fields below
	out       Result
	first     map[string]time.Time   // when the first event for each snapshot arrived
	known     []string               // the same snapshots, oldest first
	due       map[string]time.Time   // when each snapshot should become current
	undecided map[string][]time.Time // when events arrived for snapshots that due does not contain yet
}

// Hold opens streams, and returns when each is open or has failed once. Until Close is called, the Set
// reopens streams that have ended.
func Hold(ctx context.Context, cfg Config) *Set {
	ctx, stop := context.WithCancel(ctx)
	s := &Set{
		cfg: cfg, stop: stop, slots: make(chan struct{}, opening), first: map[string]time.Time{},
		due: map[string]time.Time{}, undecided: map[string][]time.Time{},
		out: Result{Count: cfg.Count, Failures: map[engine.Failure]uint64{}, Apart: engine.NewHistogram()},
	}
	if cfg.Store != nil && cfg.Count > 0 {
		s.out.Late = engine.NewHistogram()
		s.poll(ctx)
		s.tasks.Go(func() {
			for wait(ctx, pollEvery) {
				s.poll(ctx)
			}
		})
	}
	var tried sync.WaitGroup
	tried.Add(cfg.Count)
	for i := range cfg.Count {
		st := &stream{set: s, endpoint: cfg.Endpoints[i%len(cfg.Endpoints)], tried: sync.OnceFunc(tried.Done)}
		if n := len(cfg.Keys); n > 0 {
			st.key = cfg.Keys[i%n]
		}
		s.tasks.Go(func() { st.run(ctx) })
	}
	tried.Wait()
	return s
}

// Close ends the streams and returns their result.
func (s *Set) Close() *Result {
	s.stop()
	s.tasks.Wait()
	return &s.out
}

// wait waits for d, and returns false if ctx is done first.
func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// poll records when the published snapshot should become current. It ignores errors, because the next poll
// tries again.
func (s *Set) poll(ctx context.Context) {
	p, err := oracle.Published(ctx, s.cfg.Store)
	if err != nil {
		return
	}
	due, id := p.Published, p.Time.Format(time.RFC3339)
	if p.ActivateAt.After(due) {
		due = p.ActivateAt
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.due[id]; ok || len(s.due) == maxSnapshots {
		return
	}
	s.due[id] = due
	for _, at := range s.undecided[id] {
		s.late(at.Sub(due))
	}
	delete(s.undecided, id)
}

// late records how late an event was. The caller must hold mu.
func (s *Set) late(d time.Duration) {
	if d < 0 {
		s.out.Early++
	}
	engine.Record(s.out.Late, d)
}

// stream is an event stream. Only one goroutine reads it.
type stream struct {
	set      *Set
	endpoint *client.Endpoint
	key      string
	tried    func()
	last     string // the snapshot of the last event
	newest   string // events for this snapshot and older ones do not count as missed
}

// failure is the reason why a stream ended or could not be opened.
type failure struct {
	engine.Failure
	detail string
	after  time.Duration // how long to wait before the next attempt
}

func (f *failure) Error() string { return string(f.Failure) + ": " + f.detail }

func wrong(format string, args ...any) error {
	return &failure{engine.FailWrong, fmt.Sprintf(format, args...), retryAfter}
}

func (st *stream) run(ctx context.Context) {
	s := st.set
	for {
		err := st.hold(ctx)
		if ctx.Err() != nil {
			st.tried()
			return
		}
		f := &failure{engine.FailClosed, "", retryAfter}
		errors.As(err, &f)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			f.Failure = engine.FailTimeout
		}
		s.mu.Lock()
		s.out.Failures[f.Failure]++
		if f.Failure == engine.FailWrong && s.out.Wrong == "" {
			s.out.Wrong = f.detail
		}
		s.mu.Unlock()
		st.tried() // after recording the failure, since Hold may now return and Close be called
		if !wait(ctx, f.after) {
			return
		}
	}
}

// hold opens the stream and reads it until it ends.
func (st *stream) hold(ctx context.Context) error {
	s := st.set
	select {
	case s.slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	release := sync.OnceFunc(func() { <-s.slots })
	defer release()
	limit := time.Now().Add(openWithin)
	nc, err := st.endpoint.Dial(ctx, limit)
	if err != nil {
		return &failure{engine.FailConnect, err.Error(), retryAfter}
	}
	defer nc.Close()
	defer context.AfterFunc(ctx, func() { nc.Close() })()
	if err := nc.SetDeadline(limit); err != nil {
		return err
	}
	var req bytes.Buffer
	fmt.Fprintf(&req, "GET %s%s HTTP/1.1\r\nHost: %s\r\nAccept: text/event-stream\r\n%s", st.endpoint.Prefix, Path,
		st.endpoint.Host, st.endpoint.Header)
	if st.key != "" {
		fmt.Fprintf(&req, "X-Api-Key: %s\r\n", st.key)
	}
	if st.last != "" {
		fmt.Fprintf(&req, "Last-Event-ID: %s\r\n", st.last)
	}
	req.WriteString("\r\n")
	if _, err := nc.Write(req.Bytes()); err != nil {
		return err
	}
	// The buffers are small, since there may be ten thousand streams.
	res, err := http.ReadResponse(bufio.NewReaderSize(nc, 512), nil)
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		f := &failure{engine.Failure(fmt.Sprintf("%s %d", engine.FailStatus, res.StatusCode)), "", retryAfter}
		if n, err := strconv.Atoi(res.Header.Get("Retry-After")); err == nil && n > 0 {
			f.after = time.Duration(n) * time.Second
		}
		return f
	}
	if t := res.Header.Get("Content-Type"); t != "text/event-stream" {
		return wrong("Content-Type is %q", t)
	}
	s.mu.Lock()
	s.out.Opened++
	s.out.Open++
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if ctx.Err() == nil {
			s.out.Open--
		}
	}()
	release()
	st.tried()
	body := bufio.NewReaderSize(res.Body, 256)
	for n := 0; ; n++ {
		message, err := next(body, func() error { return nc.SetReadDeadline(time.Now().Add(silence)) })
		at := time.Now()
		switch {
		case err != nil:
			return err
		case n == 0 && message != retryMessage:
			return wrong("it begins with %q, not with %q", message, retryMessage)
		case n > 0:
			if err := st.event(message, at); err != nil {
				return err
			}
		}
	}
}

// next returns the next message of a stream, without the empty line after it. It skips comments. It calls
// checkAlive before each line.
func next(r *bufio.Reader, checkAlive func() error) (string, error) {
	var message strings.Builder
	for {
		if err := checkAlive(); err != nil {
			return "", err
		}
		line, err := r.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull), message.Len() > 1000:
			return "", wrong("a line or message is too long: %q…", message.String()+string(line))
		case err == io.EOF && len(line) == 0:
			return "", &failure{Ended, "", retryAfter}
		case err != nil:
			return "", err
		case len(line) > 1 && line[0] != ':':
			message.Write(line)
		case len(line) == 1 && message.Len() > 0:
			return message.String(), nil
		}
	}
}

// eventData matches the rest of an event's data, after the snapshot time. Snapshots made by older builders do
// not state the number of changes.
var eventData = regexp.MustCompile(`^(,"changes":(0|[1-9][0-9]*))?\}\n$`)

// event checks and records an event that arrived at the given time.
func (st *stream) event(message string, at time.Time) error {
	id, _, _ := strings.Cut(strings.TrimPrefix(message, "event: snapshot\nid: "), "\n")
	rest, ok := strings.CutPrefix(message, fmt.Sprintf("event: snapshot\nid: %s\ndata: {\"snapshot_time\":%q", id, id))
	if t, err := time.Parse(time.RFC3339, id); err != nil || t.UTC().Format(time.RFC3339) != id ||
		!ok || !eventData.MatchString(rest) {
		return wrong("it says %q", message)
	}
	if id == st.last {
		return wrong("it tells of %s, which was the last already", id)
	}
	s := st.set
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out.Events++
	first, ok := s.first[id]
	if !ok && len(s.first) < maxSnapshots {
		first = at
		s.first[id] = at
		i, _ := slices.BinarySearch(s.known, id)
		s.known = slices.Insert(s.known, i, id)
	}
	switch {
	case st.last == "":
		// The snapshot may have been current for some time. Events that arrived on other streams before this
		// one opened do not count as missed.
		st.newest = max(id, s.known[len(s.known)-1])
	case id > st.newest: // otherwise the service rolled back to it
		from, _ := slices.BinarySearch(s.known, st.newest)
		to, _ := slices.BinarySearch(s.known, id)
		s.out.Missed += uint64(max(0, to-from-1))
		st.newest = id
		engine.Record(s.out.Apart, at.Sub(first))
		if s.out.Late == nil {
			break
		}
		if due, ok := s.due[id]; ok {
			s.late(at.Sub(due))
		} else if len(s.undecided) < maxSnapshots {
			s.undecided[id] = append(s.undecided[id], at)
		}
	}
	st.last = id
	return nil
}
