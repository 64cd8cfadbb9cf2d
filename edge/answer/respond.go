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

var cacheStatus = [2][2][]byte{
	{[]byte("edge; fwd=miss"), []byte("edge; fwd=miss; detail=stale")},
	{[]byte("edge; hit"), []byte("edge; hit; detail=stale")},
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
		a.hit()
		e.works.Put(w)
		e.write(r, s, a, true, lastModified)
		return nil
	}
	defer e.free(w)
	w.wait = e.cfg.Wait
	err := w.compose(s, &r.Query)
	e.Counters.Composed.Add(1)
	e.Counters.Shards.Add(int64(w.shards))
	e.Counters.Rows.Add(int64(w.rows))
	if err != nil {
		return e.problem(err)
	}
	if finished.fits(w) {
		if lo, _ := hash(w.key); e.asked.again(lo ^ s.Sequence) {
			e.Counters.Admitted.Add(1)
			e.write(r, s, finished.offer(w.key, w.body, w.notFound, r.Query.Endpoint, r.Ctx.URI().QueryString()), false, lastModified)
			return nil
		}
	}
	w.answer.set(w)
	e.write(r, s, &w.answer, false, lastModified)
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

// write sends a, or 304 where the client has it already.
func (e *Engine) write(r *server.Request, s *snapshot.Snapshot, a *held, hit bool, lastModified []byte) {
	h := &r.Ctx.Response.Header
	coded := identity
	if len(a.body) > minCoded && r.AcceptEncoding != nil {
		coded = negotiate(r.AcceptEncoding)
	}
	if s != nil {
		h.SetCanonical(hdrSnapshotTime, s.TimeText)
	}
	h.SetCanonical(hdrETag, a.etags[coded])
	if lastModified != nil {
		h.SetCanonical(hdrLastModified, lastModified)
	}
	h.SetCanonical(hdrCacheControl, e.cacheControl.at(s, r.Now))
	h.SetCanonical(hdrVary, e.vary)
	if len(a.notFound) > 0 {
		h.SetCanonical(hdrNotFound, a.notFound)
	}
	if notModified(r, a, lastModified) {
		r.Ctx.SetStatusCode(fasthttp.StatusNotModified)
		return
	}
	h.SetContentTypeBytes(contentType)
	stale := 0
	if s != nil && r.Now.Sub(s.Time) > snapshot.StaleAfter {
		stale = 1
	}
	status := 0
	if hit {
		status = 1
	}
	h.SetCanonical(hdrCacheStatus, cacheStatus[status][stale])
	switch {
	case coded != identity:
		h.SetContentEncodingBytes(codingNames[coded])
		if a.heat != nil {
			r.Ctx.Response.SetBodyRaw(a.code(coded))
		} else {
			r.Ctx.Response.SetBodyRaw(encode(nil, coded, a.body))
		}
	case a.heat != nil:
		r.Ctx.Response.SetBodyRaw(a.body)
	default:
		r.Ctx.Response.SetBody(a.body) // a copy: the buffer is another request's soon
	}
}

// notModified checks the conditions of the request (contract section 8).
func notModified(r *server.Request, a *held, lastModified []byte) bool {
	if r.IfNoneMatch != nil {
		return matches(r.IfNoneMatch, a.etags[identity])
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
	e.write(r, s, g.answer, hit, g.lastModified)
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
