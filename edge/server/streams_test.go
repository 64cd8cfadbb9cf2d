package server

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/internal/test/must"
	"pgregory.net/rapid"
)

// snapshots is the source of the current snapshot, which a test can change.
type snapshots struct {
	mu      sync.Mutex
	t       []byte
	changes int // one more than the number of changes, so that the zero value means unknown
	changed chan struct{}
}

func (s *snapshots) Current() ([]byte, int, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return s.t, s.changes - 1, s.changed
}

func (s *snapshots) set(t string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.t = []byte(t)
	if s.changed != nil {
		close(s.changed)
	}
	s.changed = make(chan struct{})
}

// events reads a stream.
type events struct {
	*client
	*http.Response
	lines *bufio.Reader
}

func openEvents(t *testing.T, addr string, headers ...string) *events {
	t.Helper()
	c := dial(t, addr).send(request("GET", eventsPath+"?page=0", headers...))
	res := must.Get(http.ReadResponse(c.r, &http.Request{Method: "GET"}))(t)
	return &events{c, res, bufio.NewReader(res.Body)}
}

// next returns the next message, without comments.
func (e *events) next() (string, error) {
	var b strings.Builder
	for {
		line, err := e.lines.ReadString('\n')
		switch {
		case err != nil:
			return b.String(), err
		case line == "\n" && b.Len() > 0:
			return b.String(), nil
		case line != "\n" && line[0] != ':':
			b.WriteString(line)
		}
	}
}

func (e *events) expect(want string) {
	e.t.Helper()
	if got, err := e.next(); got != want {
		e.t.Fatalf("%q %v, want %q", got, err, want)
	}
}

const retryMessage = "retry: 2000\n"

func eventMessage(t string) string {
	return fmt.Sprintf("event: snapshot\nid: %s\ndata: {\"snapshot_time\":\"%s\"}\n", t, t)
}

// TestEvents checks the rules of INTERFACE.md, "Events".
func TestEvents(t *testing.T) {
	const one, two, three = "2026-11-21T12:00:00Z", "2026-11-21T12:10:00Z", "2026-11-21T12:20:00Z"
	keys, text := newKeys(t, 100, 100)
	source := &snapshots{}
	s, addr := start(t, func(cfg *Config) { cfg.Keys, cfg.Current = keys, source.Current })
	key := "X-Api-Key: " + text

	early := openEvents(t, addr, key, "X-Snapshot-Time: nonsense", "Origin: null")
	h := early.Header
	if early.StatusCode != 200 || h.Get("Content-Type") != "text/event-stream" ||
		h.Get("Cache-Control") != "no-store" || h.Get("X-Request-Id") == "" ||
		h.Get("X-Accel-Buffering") != "no" || h.Get("RateLimit") == "" || h.Get("Access-Control-Allow-Origin") != "*" ||
		h.Get("X-Ignored")+h.Get("ETag")+h.Get("Vary")+h.Get("X-Snapshot-Time") != "" {
		t.Errorf("%d %v", early.StatusCode, h)
	}
	early.expect(retryMessage)
	back := openEvents(t, addr, key, "Last-Event-ID: "+one) // the client has received this event from another edge
	back.expect(retryMessage)
	source.set(one)
	early.expect(eventMessage(one))

	again := openEvents(t, addr, key, "Last-Event-ID: "+one)
	behind := openEvents(t, addr, key, "Last-Event-ID: 2026-11-21T11:50:00Z")
	again.expect(retryMessage)
	behind.expect(retryMessage)
	behind.expect(eventMessage(one))
	source.set(two)
	for _, e := range []*events{early, back, again, behind} {
		e.expect(eventMessage(two))
	}
	// HTTP/1.0 has no chunks.
	c := dial(t, addr).send("GET " + eventsPath + " HTTP/1.0\r\n" + key + "\r\n\r\n")
	old, err := http.ReadResponse(c.r, &http.Request{Method: "GET"})
	if err != nil || old.TransferEncoding != nil || !old.Close {
		t.Fatalf("HTTP/1.0: %v %+v", err, old)
	}
	oldest := &events{c, old, bufio.NewReader(old.Body)}
	oldest.expect(retryMessage)
	oldest.expect(eventMessage(two))
	// HEAD opens no stream.
	c = dial(t, addr).send(request("HEAD", eventsPath, key))
	if a := c.receive("HEAD"); a.StatusCode != 200 || a.Header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("HEAD: %d %v", a.StatusCode, a.Header)
	}
	c.send(request("GET", assets, key))
	if a := c.receive("GET"); a.StatusCode != 200 {
		t.Errorf("after HEAD: %d", a.StatusCode)
	}
	// Requests without a key, with another method, and with a pin in the path are refused.
	expect(t, 401, "UNAUTHORIZED", ask(t, addr, "GET", eventsPath))
	expect(t, 405, "METHOD_NOT_ALLOWED", ask(t, addr, "POST", eventsPath, key))
	expect(t, 404, "PATH_NOT_FOUND", ask(t, addr, "GET", "/at/20261121T120000Z"+eventsPath, key))
	// Revoking a key ends its streams.
	keys.Use(&artifacts.KeySet{}, time.Now())
	for _, e := range []*events{early, back, again, behind, oldest} {
		for err := error(nil); err == nil; {
			_, err = e.next()
		}
	}
	if n := s.Stats().Streams; n != 0 {
		t.Errorf("%d streams are left", n)
	}
}

// TestEventsOfKey checks that a key has at most eight streams, and that the slot of a stream whose client is
// gone is free immediately.
func TestEventsOfKey(t *testing.T) {
	keys, text := newKeys(t, 100, 100)
	s, addr := start(t, func(cfg *Config) { cfg.Keys, cfg.Current = keys, new(snapshots).Current })
	key := "X-Api-Key: " + text
	var open []*events
	for len(open) < maxStreamsOfKey {
		e := openEvents(t, addr, key)
		e.expect(retryMessage) // now the stream is counted
		open = append(open, e)
	}
	a := ask(t, addr, "GET", eventsPath, key)
	expect(t, 429, "TOO_MANY_REQUESTS", a)
	if after := a.Header.Get("Retry-After"); after != "15" {
		t.Errorf("Retry-After: %s", after)
	}
	if stats := s.Stats(); stats.Streams != maxStreamsOfKey {
		t.Errorf("%+v", stats)
	}
	open[0].Conn.Close()
	if e := openEvents(t, addr, key); e.StatusCode != 200 {
		t.Errorf("in place of one that is gone: %d", e.StatusCode)
	}
}

// TestEventsPlaces checks that a stream takes its slot before its head is written, so that only one of two
// concurrent requests gets the last slot, and releases the slot if no stream results.
func TestEventsPlaces(t *testing.T) {
	s := &streams{current: new(snapshots).Current, max: maxStreamsOfKey + 1, ofKey: map[string]int{}}
	var taken []*conn
	take := func(keyID string) *problem {
		p := s.admit(keyID, false)
		if p == nil {
			taken = append(taken, &conn{stream: &stream{keyID: keyID}})
		}
		return p
	}
	for range maxStreamsOfKey {
		if p := take("a"); p != nil {
			t.Fatal(p)
		}
	}
	if p := take("a"); p != tooManyStreamsOfKey {
		t.Errorf("one more of a key: %v", p)
	}
	for range 2 {
		if p := s.admit("b", true); p != nil {
			t.Errorf("HEAD: %v", p)
		}
	}
	if p := take("b"); p != nil {
		t.Errorf("of another key: %v", p)
	}
	if p := take("c"); p != tooManyStreams {
		t.Errorf("one more in all: %v", p)
	}
	s.leave(taken[0])
	s.leave(taken[0]) // closing the connection repeats the call
	if p := take("a"); p != nil {
		t.Errorf("in place of one that left: %v", p)
	}
	s.ended = true
	for _, c := range taken[1:] {
		if s.adopt(c.stream) {
			t.Error("adopted at the end")
		}
	}
	if len(s.ofKey) != 0 || s.taken != 0 {
		t.Errorf("left: %v, %d", s.ofKey, s.taken)
	}
}

// TestEventsEach checks that each visits every stream once, whichever streams the function ends.
func TestEventsEach(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := must.Get(Config{Answer: stub}.withDefaults())(t)
		l := newListener(nil, &cfg)
		s := &streams{current: new(snapshots).Current, max: 1000, ofKey: map[string]int{}}
		ends := rapid.SliceOfN(rapid.Bool(), 100, 200).Draw(t, "ends") // enough for several portions
		for i := range ends {
			s.admit(fmt.Sprint(i), false)
			s.adopt(&stream{conn: l.admit(&script{}), keyID: fmt.Sprint(i)})
		}
		seen := map[*stream]int{}
		s.each(func(st *stream) {
			seen[st]++
			if ends[st.number] {
				s.drop(st)
			}
		})
		for st, n := range seen {
			if n != 1 || (st.conn == nil) != ends[st.number] {
				t.Fatalf("stream %d of %d: seen %d times", st.number, len(ends), n)
			}
		}
		if len(seen) != len(ends) {
			t.Fatalf("%d of %d streams were seen", len(seen), len(ends))
		}
		s.each(s.drop)
		if len(l.conns) != 0 || len(s.open) != 0 || len(s.ofKey) != 0 {
			t.Fatalf("left: %d connections, %d streams", len(l.conns), len(s.open))
		}
	})
}

// TestEventsEnd checks the last message of streams when an edge drains, and the answer of an edge with no
// free slot.
func TestEventsEnd(t *testing.T) {
	source := &snapshots{t: []byte("2026-11-21T12:00:00Z")}
	s, addr := start(t, func(cfg *Config) { cfg.Current, cfg.MaxStreams = source.Current, 10 })
	var open []*events
	for range 10 {
		e := openEvents(t, addr)
		e.expect(retryMessage)
		open = append(open, e)
	}
	expect(t, 503, "SERVICE_UNAVAILABLE", ask(t, addr, "GET", eventsPath))
	s.streams.mu.Lock()
	s.streams.swept = time.Time{} // as if a second had passed
	s.streams.mu.Unlock()
	open[0].Conn.Close()
	open[0] = openEvents(t, addr)
	open[0].expect(retryMessage)
	must.OK(t, s.Drain(context.Background()))
	for _, e := range open {
		rest, err := io.ReadAll(e.lines)
		if err != nil || !bytes.HasSuffix(rest, streamBye) {
			t.Errorf("%q %v", rest, err)
		}
	}
}

// TestEventsSlow checks that a peer that does not read does not delay others, and that it receives whole
// messages, the newest last, when it reads again.
func TestEventsSlow(t *testing.T) {
	source := &snapshots{}
	s, addr := start(t, func(cfg *Config) { cfg.Current = source.Current })
	slow, quick := openEvents(t, addr), openEvents(t, addr)
	slow.expect(retryMessage)
	quick.expect(retryMessage)
	full := func() bool {
		s.streams.mu.Lock()
		defer s.streams.mu.Unlock()
		for _, st := range s.streams.open {
			if len(st.left) > 0 {
				return true
			}
		}
		return false
	}
	n := 0
	for ; !full(); n++ {
		name := fmt.Sprint(n)
		source.set(name)
		quick.expect(eventMessage(name))
	}
	last := fmt.Sprint(n)
	source.set(last)
	quick.expect(eventMessage(last))
	for {
		got := must.Get(slow.next())(t)
		var id string
		if _, err := fmt.Sscanf(got, "event: snapshot\nid: %s\n", &id); err != nil || got != eventMessage(id) {
			t.Fatalf("%q: %v", got, err)
		}
		if id == last {
			break
		}
	}
	slow.Conn.Close()
	quick.Conn.Close()
	if err := s.Drain(context.Background()); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestEventsGone checks that a stream whose peer has closed its side ends at its next comment, which is
// within the 15 seconds of Retry-After, and that other streams continue.
func TestEventsGone(t *testing.T) {
	s, addr := start(t, func(cfg *Config) { cfg.Current = new(snapshots).Current })
	stays, goes := openEvents(t, addr), openEvents(t, addr)
	stays.expect(retryMessage)
	goes.expect(retryMessage)
	must.OK(t, goes.Conn.(*net.TCPConn).CloseWrite())
	for s.Stats().Streams == 2 {
		s.streams.each(func(st *stream) { s.streams.look(st, commentEvery-st.number%commentEvery, time.Now()) })
	}
	// Without this check, the stream would end only when the socket accepts no more comments.
	if rest, err := io.ReadAll(goes.lines); len(rest) > 1000 || err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%d bytes, %v", len(rest), err)
	}
	if n := s.Stats().Streams; n != 1 {
		t.Errorf("%d streams, want the one that stays", n)
	}
}
