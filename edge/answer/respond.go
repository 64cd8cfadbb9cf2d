package answer

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge/query"
	"example.com/marketdata/edge/server"
	"example.com/marketdata/edge/snapshot"
)

// Header names in their canonical form.
const (
	hdrETag            = "ETag"
	etagLine           = hdrETag + ": "
	lineEnd            = "\r\n"
	hdrCacheStatus     = "Cache-Status"
	hdrNotFound        = "X-Not-Found"
	hdrIgnored         = "X-Ignored"
	hdrContentEncoding = "Content-Encoding"
)

var contentType = []byte("application/json")

// Freshness, by contract section 8.
const (
	minMaxAge = 5
	maxMaxAge = 600
)

// cacheControl holds the header line by max-age.
type cacheControl [maxMaxAge + 1][]byte

func newCacheControl(scope string) *cacheControl {
	var c cacheControl
	for n := minMaxAge; n <= maxMaxAge; n++ {
		c[n] = server.AppendLine(nil, "Cache-Control", fmt.Appendf(nil, "%s, max-age=%d, stale-while-revalidate=60, stale-if-error=86400", scope, n))
	}
	return &c
}

// at returns the line for a snapshot, nil before the first one.
func (c *cacheControl) at(s *snapshot.Snapshot, now time.Time) []byte {
	if s == nil {
		return c[minMaxAge]
	}
	left := s.Time.Add(artifacts.Step).Sub(now)
	return c[min(max(int((left+time.Second-1)/time.Second), minMaxAge), maxMaxAge)]
}

// Header lines of Cache-Status.
var (
	statusMiss      = server.AppendLine(nil, hdrCacheStatus, []byte("edge; fwd=miss"))
	statusMissStale = server.AppendLine(nil, hdrCacheStatus, []byte("edge; fwd=miss; detail=stale"))
	statusHit       = server.AppendLine(nil, hdrCacheStatus, []byte("edge; hit"))
	statusHitStale  = server.AppendLine(nil, hdrCacheStatus, []byte("edge; hit; detail=stale"))
)

func cacheStatus(hit, stale bool) []byte {
	switch {
	case hit && stale:
		return statusHitStale
	case hit:
		return statusHit
	case stale:
		return statusMissStale
	}
	return statusMiss
}

// Answer implements server.Engine. It sets the headers of contract section 8
// that depend on the answer; CORS and the rate limit's are the server's. It
// allocates nothing where the answer is held, or is put together from shards in
// memory.
func (e *Engine) Answer(r *server.Request) *server.Problem {
	state := e.refresher.State()
	if state == nil {
		return server.Unavailable
	}
	s := state.Snapshot
	switch {
	case r.Pinned && (s == nil || !r.Pin.Equal(s.Time)):
		var err error
		if s, err = e.refresher.Pinned(r.Context, r.Pin); err != nil {
			return e.problem(err)
		}
	case s != nil && e.cfg.MaxStale > 0 && r.Now.Sub(s.Time) > e.cfg.MaxStale:
		return server.Unavailable
	}
	if len(r.Query.Ignored) > 0 {
		addIgnored(r)
	}
	if r.Query.Endpoint == query.Global {
		return e.answerGlobal(r, state, s)
	}
	var lastModified []byte
	if s != nil {
		r.Snapshot, lastModified = s.Time, s.LastModified
	}
	w := e.works.Get().(*work)
	w.key = r.Query.AppendKey(w.key[:0])
	finished := attached(s)
	lo, _ := hash(w.key)
	if a := finished.get(w.key, lo); a != nil {
		e.works.Put(w)
		e.writeHeld(r, s, a, lastModified, true)
		return nil
	}
	defer e.free(w)
	w.body = r.Room()
	err := w.compose(s, &r.Query, e.cfg.Wait)
	w.slot.composed(w)
	if err != nil {
		return e.problem(err)
	}
	tag := w.digest()
	if finished.fits(w) && finished.again(lo) {
		finished.offer(w.key, w.body, tag, w.notFound, r.Query.Endpoint, r.RawQuery)
		w.slot.admitted.Add(1)
	}
	e.writeFresh(r, s, w, tag, lastModified)
	return nil
}

// addIgnored names the parameters that have no part in the answer. It depends on
// how the query was written, so it is made for each request and never held.
func addIgnored(r *server.Request) {
	var b [query.MaxIgnored]byte
	if names := r.Query.AppendIgnored(b[:0]); len(names) > 0 {
		r.Reply.Add(hdrIgnored, names)
	}
}

// problem turns an error into the answer that it is. What is wrong on this side
// is logged, at most once a second.
func (e *Engine) problem(err error) *server.Problem {
	if errors.Is(err, snapshot.ErrGone) {
		return server.SnapshotGone
	}
	if now := time.Now().Unix(); !errors.Is(err, snapshot.ErrLater) && e.logged.Swap(now) != now {
		e.cfg.Log.Warn("no answer", "err", err)
	}
	return server.Unavailable
}

func (e *Engine) free(w *work) {
	if cap(w.entries) > largeSort {
		w.entries = nil
	}
	w.body = nil // the request's
	w.view, w.shard = nil, nil
	e.works.Put(w)
}

// head is the header lines of an answer that do not depend on the request.
type head struct {
	lines []byte
	etag  []byte
}

// newHead prepares a header. etag is nil where it is not known yet, and the
// coding is then identity.
func (e *Engine) newHead(s *snapshot.Snapshot, status int, c coding, etag, notFound, lastModified []byte) *head {
	h := &head{etag: etag}
	add := func(name string, value []byte) { h.lines = server.AppendLine(h.lines, name, value) }
	if status == http.StatusOK {
		add("Content-Type", contentType)
	}
	if s != nil {
		add("X-Snapshot-Time", s.TimeText)
	}
	if etag != nil {
		add(hdrETag, etag)
	}
	if lastModified != nil {
		add("Last-Modified", lastModified)
	}
	add("Vary", e.vary)
	if len(notFound) > 0 {
		add(hdrNotFound, notFound)
	}
	if status == http.StatusOK && c != identity {
		add(hdrContentEncoding, codingNames[c])
	}
	return h
}

// head returns the answer's prepared header for a coding, of 304 or of 200.
func (a *held) head(e *Engine, s *snapshot.Snapshot, c coding, notModified bool, lastModified []byte) *head {
	status, i := http.StatusOK, 0
	if notModified {
		status, i = http.StatusNotModified, 1
	}
	p := &a.heads[c][i]
	h := p.Load()
	if h == nil {
		h = e.newHead(s, status, c, appendETag(nil, a.digest, c), a.notFound, lastModified)
		p.Store(h) // whoever else makes one makes the same
	}
	return h
}

// writeHeld sends a finished answer, or 304 where the client has it already.
func (e *Engine) writeHeld(r *server.Request, s *snapshot.Snapshot, a *held, lastModified []byte, hit bool) {
	c := identity
	if len(a.body) > minCoded && r.AcceptEncoding != nil {
		c = negotiate(r.AcceptEncoding)
	}
	h := a.head(e, s, c, false, lastModified)
	if notModified(r, h.etag, lastModified) {
		r.Reply.Status, r.Reply.Fixed = http.StatusNotModified, a.head(e, s, c, true, lastModified).lines
	} else {
		r.Reply.Fixed, r.Reply.Body = h.lines, a.code(c)
	}
	e.addTimes(r, s, hit)
}

// addTimes adds what of the header depends on the clock.
func (e *Engine) addTimes(r *server.Request, s *snapshot.Snapshot, hit bool) {
	r.Reply.AddLines(e.cacheControl.at(s, r.Now))
	if r.Reply.Status == http.StatusOK {
		r.Reply.AddLines(cacheStatus(hit, s != nil && r.Now.Sub(s.Time) > snapshot.StaleAfter))
	}
}

// writeFresh sends the answer that was just put together, or 304.
func (e *Engine) writeFresh(r *server.Request, s *snapshot.Snapshot, w *work, tag digest, lastModified []byte) {
	c := identity
	if len(w.body) > minCoded && r.AcceptEncoding != nil {
		c = negotiate(r.AcceptEncoding)
	}
	w.etag = append(appendETag(append(w.etag[:0], etagLine...), tag, c), lineEnd...)
	not := notModified(r, w.etag[len(etagLine):len(w.etag)-len(lineEnd)], lastModified)
	r.Reply.Fixed = e.freshHead(s, not, lastModified).lines
	r.Reply.AddLines(w.etag)
	if len(w.notFound) > 0 {
		r.Reply.Add(hdrNotFound, w.notFound)
	}
	switch {
	case not:
		r.Reply.Status = http.StatusNotModified
	case c == identity:
		r.Reply.Body = w.body
	default:
		r.Reply.Add(hdrContentEncoding, codingNames[c])
		r.Reply.Body = encode(nil, c, w.body)
	}
	e.addTimes(r, s, false)
}

// freshHead returns the prepared header of an answer that is not held.
func (e *Engine) freshHead(s *snapshot.Snapshot, notModified bool, lastModified []byte) *head {
	status, i := http.StatusOK, 0
	if notModified {
		status, i = http.StatusNotModified, 1
	}
	if a := attached(s); a != nil {
		return a.fresh[i]
	}
	return e.newHead(s, status, identity, nil, nil, lastModified)
}

// notModified checks the conditions of the request (contract section 8).
func notModified(r *server.Request, etag, lastModified []byte) bool {
	if r.IfNoneMatch != nil {
		return matches(r.IfNoneMatch, etag)
	}
	return r.IfModifiedSince != nil && bytes.Equal(r.IfModifiedSince, lastModified)
}

// globalAnswer is the answer of /global, made once a state.
type globalAnswer struct {
	state        *snapshot.State
	answer       *held
	lastModified []byte
}

func (e *Engine) answerGlobal(r *server.Request, state *snapshot.State, s *snapshot.Snapshot) *server.Problem {
	if s == nil {
		return server.NotFound
	}
	r.Snapshot = s.Time
	g := e.global.Load()
	hit := g != nil && g.state == state && s == state.Snapshot
	if !hit {
		g = newGlobal(state, s)
		if s == state.Snapshot {
			e.global.Store(g)
		}
	}
	e.writeHeld(r, s, g.answer, g.lastModified, hit)
	return nil
}

// newGlobal renders /global: the totals of s, and the change record in force.
func newGlobal(state *snapshot.State, s *snapshot.Snapshot) *globalAnswer {
	b := append([]byte(nil), bodyHead...)
	b = append(b, `{"total_market_cap":"`...)
	b = append(b, s.Global.TotalMarketCap...)
	b = append(b, `","total_volume_24h":"`...)
	b = append(b, s.Global.TotalVolume24h...)
	b = append(b, `","total_market_cap_change_percentage_24h":`...)
	modified := s.Time
	if c := state.Change; c != nil {
		if c.Time.After(modified) {
			modified = c.Time
		}
	}
	if c := state.Change; c != nil && c.Database == s.Database && fits(c.Value) {
		b = strconv.AppendQuote(b, c.Value) // digits, a minus, a point
	} else {
		b = append(b, "null"...)
	}
	b = append(b, `,"data_time":"`...)
	b = append(b, s.TimeText...)
	b = append(b, `"}}`...)
	return &globalAnswer{
		state:        state,
		answer:       newHeld(nil, b, digestOf(b), nil, &heat{endpoint: query.Global}),
		lastModified: modified.UTC().AppendFormat(nil, http.TimeFormat),
	}
}

// maxChangeDigits is how many integer digits of the total's change are
// answered; above it is null (contract section 6).
const maxChangeDigits = 9

func fits(value string) bool {
	digits := 0
	for _, c := range []byte(value) {
		if c == '.' {
			break
		}
		if c != '-' {
			digits++
		}
	}
	return digits <= maxChangeDigits
}
