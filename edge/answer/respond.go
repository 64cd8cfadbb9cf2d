package answer

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge/query"
	"example.com/marketdata/edge/server"
	"example.com/marketdata/edge/snapshot"
)

// Header names in their canonical form.
var (
	hdrSnapshotTime = []byte("X-Snapshot-Time")
	hdrETag         = []byte("ETag")
	hdrLastModified = []byte("Last-Modified")
	hdrCacheControl = []byte("Cache-Control")
	hdrCacheStatus  = []byte("Cache-Status")
	hdrNotFound     = []byte("X-Not-Found")
	hdrVary         = []byte("Vary")
)

var contentType = []byte("application/json")

// Freshness, by contract section 8.
const (
	minMaxAge = 5
	maxMaxAge = 600
)

// cacheControl holds the header's value by max-age, for each scope.
type cacheControl [maxMaxAge + 1][]byte

func newCacheControl(scope string) *cacheControl {
	var c cacheControl
	for n := minMaxAge; n <= maxMaxAge; n++ {
		c[n] = fmt.Appendf(nil, "%s, max-age=%d, stale-while-revalidate=60, stale-if-error=86400", scope, n)
	}
	return &c
}

// at returns the value for a snapshot, nil before the first one.
func (c *cacheControl) at(s *snapshot.Snapshot, now time.Time) []byte {
	if s == nil {
		return c[minMaxAge]
	}
	left := s.Time.Add(artifacts.Step).Sub(now)
	return c[min(max(int((left+time.Second-1)/time.Second), minMaxAge), maxMaxAge)]
}

var (
	statusMiss      = []byte("edge; fwd=miss")
	statusMissStale = []byte("edge; fwd=miss; detail=stale")
	statusHit       = []byte("edge; hit")
	statusHitStale  = []byte("edge; hit; detail=stale")
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
		if s, err = e.refresher.Pinned(r.Ctx, r.Pin); err != nil {
			return e.problem(err)
		}
	case s != nil && e.cfg.MaxStale > 0 && r.Now.Sub(s.Time) > e.cfg.MaxStale:
		return server.Unavailable
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
	if a := finished.get(w.key); a != nil {
		e.works.Put(w)
		a.hit()
		e.writeHeld(r, s, a, lastModified)
		return nil
	}
	defer e.free(w)
	err := w.compose(s, &r.Query, e.cfg.Wait)
	w.slot.composed(w)
	if err != nil {
		return e.problem(err)
	}
	if finished.fits(w) {
		if lo, _ := hash(w.key); e.asked.again(lo ^ s.Sequence) {
			finished.offer(w.key, w.body, w.notFound, r.Query.Endpoint, r.Ctx.URI().QueryString())
			w.slot.admitted.Add(1)
		}
	}
	e.writeFresh(r, s, w, lastModified)
	return nil
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
	if cap(w.body) > maxKeptBody {
		w.body = nil
	}
	w.view, w.shard = nil, nil
	e.works.Put(w)
}

// maxKeptBody is the largest buffer that is kept for the next answer, in bytes.
const maxKeptBody = 256 << 10

// head is the header of an answer with all of it that does not depend on the
// request: copying it costs a fraction of setting its fields one by one.
type head struct {
	fasthttp.ResponseHeader
	etag []byte
}

// newHead prepares a header. etag is nil where it is not known yet, and the
// coding is then identity.
func (e *Engine) newHead(s *snapshot.Snapshot, status int, c coding, etag, notFound, lastModified []byte, hit bool) *head {
	h := &head{etag: etag}
	h.SetNoDefaultContentType(true)
	h.SetStatusCode(status)
	if s != nil {
		h.SetCanonical(hdrSnapshotTime, s.TimeText)
	}
	if etag != nil {
		h.SetCanonical(hdrETag, etag)
	}
	if lastModified != nil {
		h.SetCanonical(hdrLastModified, lastModified)
	}
	h.SetCanonical(hdrVary, e.vary)
	if len(notFound) > 0 {
		h.SetCanonical(hdrNotFound, notFound)
	}
	if status == fasthttp.StatusNotModified {
		return h
	}
	h.SetContentTypeBytes(contentType)
	h.SetCanonical(hdrCacheStatus, cacheStatus(hit, false))
	if c != identity {
		h.SetContentEncodingBytes(codingNames[c])
	}
	return h
}

// head returns the answer's prepared header for a coding, of 304 or of 200.
func (a *held) head(e *Engine, s *snapshot.Snapshot, c coding, notModified bool, lastModified []byte) *head {
	status, i := fasthttp.StatusOK, 0
	if notModified {
		status, i = fasthttp.StatusNotModified, 1
	}
	p := &a.heads[c][i]
	h := p.Load()
	if h == nil {
		h = e.newHead(s, status, c, appendETag(nil, a.digest, c), a.notFound, lastModified, true)
		p.Store(h) // whoever else makes one makes the same
	}
	return h
}

// writeHeld sends a finished answer, or 304 where the client has it already.
func (e *Engine) writeHeld(r *server.Request, s *snapshot.Snapshot, a *held, lastModified []byte) {
	c := identity
	if len(a.body) > minCoded && r.AcceptEncoding != nil {
		c = negotiate(r.AcceptEncoding)
	}
	h := a.head(e, s, c, false, lastModified)
	if notModified(r, h.etag, lastModified) {
		a.head(e, s, c, true, lastModified).CopyTo(&r.Ctx.Response.Header)
		r.Ctx.Response.Header.SetCanonical(hdrCacheControl, e.cacheControl.at(s, r.Now))
		return
	}
	h.CopyTo(&r.Ctx.Response.Header)
	e.setTimes(r, s, true)
	r.Ctx.Response.SetBodyRaw(a.code(c))
}

// setTimes sets what of the header depends on the clock.
func (e *Engine) setTimes(r *server.Request, s *snapshot.Snapshot, hit bool) {
	h := &r.Ctx.Response.Header
	h.SetCanonical(hdrCacheControl, e.cacheControl.at(s, r.Now))
	if s != nil && r.Now.Sub(s.Time) > snapshot.StaleAfter {
		h.SetCanonical(hdrCacheStatus, cacheStatus(hit, true))
	}
}

// writeFresh sends the answer that was just put together, or 304.
func (e *Engine) writeFresh(r *server.Request, s *snapshot.Snapshot, w *work, lastModified []byte) {
	c := identity
	if len(w.body) > minCoded && r.AcceptEncoding != nil {
		c = negotiate(r.AcceptEncoding)
	}
	w.etag = appendETag(w.etag[:0], digestOf(w.body), c)
	h := &r.Ctx.Response.Header
	not := notModified(r, w.etag, lastModified)
	e.freshHead(s, not, lastModified).CopyTo(h)
	h.SetCanonical(hdrETag, w.etag)
	if len(w.notFound) > 0 {
		h.SetCanonical(hdrNotFound, w.notFound)
	}
	if not {
		h.SetCanonical(hdrCacheControl, e.cacheControl.at(s, r.Now))
		return
	}
	e.setTimes(r, s, false)
	if c == identity {
		r.Ctx.Response.SetBody(w.body) // a copy: the buffer is another request's soon
		return
	}
	h.SetContentEncodingBytes(codingNames[c])
	r.Ctx.Response.SetBodyRaw(encode(nil, c, w.body))
}

// freshHead returns the prepared header of an answer that is not held.
func (e *Engine) freshHead(s *snapshot.Snapshot, notModified bool, lastModified []byte) *head {
	status, i := fasthttp.StatusOK, 0
	if notModified {
		status, i = fasthttp.StatusNotModified, 1
	}
	if a := attached(s); a != nil {
		return a.fresh[i]
	}
	return e.newHead(s, status, identity, nil, nil, lastModified, false)
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
	e.writeHeld(r, s, g.answer, g.lastModified)
	if !hit && r.Ctx.Response.StatusCode() == fasthttp.StatusOK {
		r.Ctx.Response.Header.SetCanonical(hdrCacheStatus, cacheStatus(false, r.Now.Sub(s.Time) > snapshot.StaleAfter))
	}
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
		answer:       newHeld(nil, b, nil, &heat{endpoint: query.Global}),
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
