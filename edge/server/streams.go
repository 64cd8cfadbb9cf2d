package server

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge/auth"
)

// Bounds and intervals of streams, from INTERFACE.md, "Events".
const (
	// DefaultMaxStreams is the default of Config.MaxStreams.
	DefaultMaxStreams = 10_000
	maxStreamsOfKey   = 8
	// commentEvery is the interval of comments on a quiet stream, in ticks. Comments keep proxies from
	// closing the stream, and show whether the peer is still there.
	commentEvery = 15
	// streamTick is the interval for checking keys and for sending pending bytes to slow peers.
	streamTick = time.Second
	// streamPatience is the number of ticks that a peer may go without receiving anything.
	streamPatience = 2 * commentEvery
)

// stream is an open event stream. It has no goroutine and no buffer: streams.run writes its messages without
// waiting for the peer.
type stream struct {
	conn    *conn
	key     artifacts.Digest
	keyID   string
	auth    bool   // the stream needs a valid key
	chunked bool   // false for HTTP/1.0
	number  uint64 // distributes comments over the ticks
	at      int    // the index in streams.open
	sent    []byte // the snapshot of the last event, or of Last-Event-ID
	left    []byte // the rest of a message that was sent in part
	waits   int    // the number of ticks in which the peer received nothing
}

// streams manages the open event streams.
type streams struct {
	current func() (t []byte, changes int, changed <-chan struct{}) // Config.Current
	keys    *auth.Keys
	max     int

	mu     sync.Mutex
	open   []*stream
	taken  int            // slots for streams whose head is being written
	ofKey  map[string]int // open streams and taken slots, by key
	swept  time.Time      // when all streams were last checked because no slot was free
	next   uint64
	ended  bool
	events uint64 // sent since the start
}

// The messages that are the same for all streams.
var (
	streamRetry   = []byte("retry: 2000\n\n")
	streamComment = []byte(":\n\n")
	streamBye     = []byte(": the edge is going away\n\n")
)

func eventOf(t []byte, changes int) []byte {
	event := fmt.Appendf(nil, "event: snapshot\nid: %s\ndata: {\"snapshot_time\":\"%s\"", t, t)
	if changes >= 0 {
		event = fmt.Appendf(event, `,"changes":%d`, changes)
	}
	return append(event, "}\n\n"...)
}

// frame returns a message in the form in which it is sent on s.
func (s *stream) frame(message []byte) []byte {
	if !s.chunked {
		return message
	}
	return fmt.Appendf(nil, "%x\r\n%s\r\n", len(message), message)
}

// admit takes a slot for a stream, except for a HEAD request. If no further stream is possible, it returns a
// problem.
func (s *streams) admit(keyID string, head bool) *problem {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.full() && time.Since(s.swept) >= streamTick {
		s.sweep(func(*stream) bool { return true })
		s.swept = time.Now()
	}
	switch {
	case s.ended || s.full():
		return tooManyStreams
	case keyID != "" && s.ofKey[keyID] >= maxStreamsOfKey:
		if s.sweep(func(st *stream) bool { return st.keyID == keyID }); s.ofKey[keyID] >= maxStreamsOfKey {
			return tooManyStreamsOfKey
		}
	}
	if !head {
		s.taken++
		s.ofKey[keyID]++
	}
	return nil
}

func (s *streams) full() bool { return len(s.open)+s.taken >= s.max }

// sweep ends those of the selected streams whose peers are gone. Otherwise, only the next comment would
// reveal this.
func (s *streams) sweep(selected func(*stream) bool) {
	for _, st := range slices.Backward(s.open) { // drop moves only streams that were already checked
		if selected(st) && st.conn.socket.gone() {
			s.drop(st)
		}
	}
}

// leave releases the slot of a connection that does not become a stream.
func (s *streams) leave(c *conn) {
	if c.stream == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken--
	s.free(c.stream.keyID)
	c.stream = nil
}

func (s *streams) free(keyID string) {
	if s.ofKey[keyID]--; s.ofKey[keyID] == 0 {
		delete(s.ofKey, keyID)
	}
}

// adopt takes over a connection whose head was written, and reports whether it did. The stream begins with
// the current snapshot, unless there is none or Last-Event-ID names it.
func (s *streams) adopt(st *stream) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken--
	if s.ended {
		s.free(st.keyID)
		return false
	}
	st.conn.enter(streaming)
	st.at, st.number = len(s.open), s.next
	s.next++
	s.open = append(s.open, st)
	t, changes, _ := s.current()
	s.write(st, st.frame(streamRetry))
	s.tell(st, t, changes)
	return true
}

// tell sends an event for the snapshot with time t to st, unless st has already received it. changeCount is
// the number of changes in the snapshot. A slow peer gets the newest event after it has caught up.
func (s *streams) tell(st *stream, t []byte, changeCount int) {
	if t == nil || len(st.left) > 0 || st.conn == nil || bytes.Equal(st.sent, t) {
		return
	}
	st.sent = t
	s.events++
	s.write(st, st.frame(eventOf(t, changeCount)))
}

// write sends as much as the peer accepts without waiting, and keeps the rest. If the peer is gone, it ends
// the stream.
func (s *streams) write(st *stream, b []byte) {
	if st.conn == nil {
		return
	}
	left, err := st.conn.socket.writeNow(b)
	if err != nil {
		s.drop(st)
		return
	}
	if len(left) == len(b) {
		st.waits++
	} else {
		st.waits = 0
	}
	st.left = bytes.Clone(left)
}

// drop ends a stream.
func (s *streams) drop(st *stream) {
	c := st.conn
	if c == nil {
		return
	}
	st.conn = nil
	last := len(s.open) - 1
	s.open[st.at] = s.open[last]
	s.open[st.at].at = st.at
	s.open[last] = nil
	s.open = s.open[:last]
	s.free(st.keyID)
	_ = c.Close()
}

// run sends events until done is closed.
func (s *streams) run(done <-chan struct{}) {
	ticker := time.NewTicker(streamTick)
	defer ticker.Stop()
	for tick := uint64(0); ; {
		t, changes, changed := s.current()
		s.each(func(st *stream) { s.tell(st, t, changes) })
		select {
		case <-changed:
		case now := <-ticker.C:
			tick++
			s.each(func(st *stream) { s.look(st, tick, now); s.tell(st, t, changes) })
		case <-done:
			return
		}
	}
}

// look does the periodic work for a stream.
func (s *streams) look(st *stream, tick uint64, now time.Time) {
	switch {
	case st.auth && !s.keys.InForce(st.key, now), st.waits > streamPatience:
		s.drop(st)
	case len(st.left) > 0:
		s.write(st, st.left)
	case (tick+st.number)%commentEvery == 0:
		if st.conn.socket.gone() {
			s.drop(st)
			return
		}
		s.write(st, st.frame(streamComment))
	}
}

// each calls f for each stream that is open now and is still open when its turn comes. It works in portions,
// so that requests are served in between.
func (s *streams) each(f func(*stream)) {
	const portion = 64
	s.mu.Lock()
	open := slices.Clone(s.open)
	s.mu.Unlock()
	for some := range slices.Chunk(open, portion) {
		s.mu.Lock()
		for _, st := range some {
			if st.conn != nil {
				f(st)
			}
		}
		s.mu.Unlock()
		runtime.Gosched()
	}
}

// end ends all streams with a last comment, and admits no further streams.
func (s *streams) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	for len(s.open) > 0 {
		st := s.open[len(s.open)-1]
		bye := st.frame(streamBye)
		if st.chunked {
			bye = append(bye, "0\r\n\r\n"...)
		}
		if len(st.left) == 0 {
			s.write(st, bye)
		}
		s.drop(st)
	}
}

// stats returns the number of open streams and the number of events sent.
func (s *streams) stats() (open int, events uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open), s.events
}
