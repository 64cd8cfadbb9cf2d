package answer

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge/query"
	"example.com/marketdata/edge/snapshot"
)

// Header names in their canonical form.
var (
	hdrSnapshotTime = []byte("X-Snapshot-Time")
	hdrETag         = []byte("Etag")
	hdrLastModified = []byte("Last-Modified")
	hdrCacheControl = []byte("Cache-Control")
	hdrCacheStatus  = []byte("Cache-Status")
	hdrNotFound     = []byte("X-Not-Found")
)

const (
	ifNoneMatch     = "If-None-Match"
	ifModifiedSince = "If-Modified-Since"
	acceptEncoding  = "Accept-Encoding"
)

var contentType = []byte("application/json")

// Freshness, by contract section 8.
const (
	minMaxAge  = 5
	maxMaxAge  = 600
	staleAfter = 20 * time.Minute
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

// Answer writes the answer to q into ctx, from the snapshot of pin where that
// is not zero. When there is none it writes nothing and says why. It sets the
// headers of contract section 8 that depend on the answer; Vary, CORS and the
// rate limit's are the server's. It allocates nothing where the answer is held,
// or is put together from shards in memory.
func (e *Engine) Answer(ctx *fasthttp.RequestCtx, q *query.Query, pin, now time.Time) Failure {
	state := e.refresher.State()
	if state == nil {
		return Unavailable
	}
	s := state.Snapshot
	switch {
	case !pin.IsZero() && (s == nil || !pin.Equal(s.Time)):
		var err error
		if s, err = e.pinned(ctx, pin); err != nil {
			return failure(err)
		}
	case s != nil && e.cfg.MaxStale > 0 && now.Sub(s.Time) > e.cfg.MaxStale:
		return Unavailable
	}
	if q.Endpoint == query.Global {
		return e.answerGlobal(ctx, state, s, now)
	}
	lastModified := []byte(nil)
	if s != nil {
		lastModified = s.LastModified
	}
	w := e.works.Get().(*work)
	defer e.free(w)
	w.key = q.AppendKey(w.key[:0])
	finished := attached(s)
	if a := finished.get(w.key); a != nil {
		a.hit()
		e.write(ctx, s, a, true, lastModified, now)
		return OK
	}
	w.deadline = now.Add(e.cfg.Wait)
	err := w.compose(s, q)
	e.Counters.Composed.Add(1)
	e.Counters.Shards.Add(int64(w.shards))
	e.Counters.Rows.Add(int64(w.rows))
	if err != nil {
		return failure(err)
	}
	if finished != nil {
		if lo, _ := hash(w.key); e.asked.again(lo ^ s.Sequence) {
			e.Counters.Admitted.Add(1)
			e.write(ctx, s, finished.offer(w.key, w.body, w.notFound, q.Endpoint, ctx.URI().QueryString()), false, lastModified, now)
			return OK
		}
	}
	w.answer.set(w)
	e.write(ctx, s, &w.answer, false, lastModified, now)
	return OK
}

// pinned takes the snapshot of t from the refresher. It is apart from Answer so
// that its slow path costs the fast one nothing.
func (e *Engine) pinned(ctx context.Context, t time.Time) (*snapshot.Snapshot, error) {
	return e.refresher.Pinned(ctx, t)
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
func (e *Engine) write(ctx *fasthttp.RequestCtx, s *snapshot.Snapshot, a *held, hit bool, lastModified []byte, now time.Time) {
	h := &ctx.Response.Header
	coded := identity
	if len(a.body) > minCoded {
		if lines := ctx.Request.Header.PeekAll(acceptEncoding); len(lines) > 0 {
			coded = negotiate(lines)
		}
	}
	if s != nil {
		h.SetCanonical(hdrSnapshotTime, s.TimeText)
	}
	h.SetCanonical(hdrETag, a.etags[coded])
	if lastModified != nil {
		h.SetCanonical(hdrLastModified, lastModified)
	}
	h.SetCanonical(hdrCacheControl, e.cacheControl.at(s, now))
	if len(a.notFound) > 0 {
		h.SetCanonical(hdrNotFound, a.notFound)
	}
	if notModified(ctx, a, lastModified) {
		ctx.SetStatusCode(fasthttp.StatusNotModified)
		return
	}
	h.SetContentTypeBytes(contentType)
	stale := 0
	if s != nil && now.Sub(s.Time) > staleAfter {
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
			ctx.Response.SetBodyRaw(a.code(coded))
		} else {
			ctx.Response.SetBody(encode(nil, coded, a.body))
		}
	case a.heat != nil:
		ctx.Response.SetBodyRaw(a.body)
	default:
		ctx.Response.SetBody(a.body) // a copy: the buffer is another request's soon
	}
}

// notModified checks the conditions of the request (contract section 8).
func notModified(ctx *fasthttp.RequestCtx, a *held, lastModified []byte) bool {
	if lines := ctx.Request.Header.PeekAll(ifNoneMatch); len(lines) > 0 {
		return matches(lines, a.etags[identity])
	}
	since := ctx.Request.Header.Peek(ifModifiedSince)
	return len(since) > 0 && bytes.Equal(since, lastModified)
}

// globalAnswer is the answer of /global, made once a state.
type globalAnswer struct {
	state        *snapshot.State
	answer       *held
	lastModified []byte
}

func (e *Engine) answerGlobal(ctx *fasthttp.RequestCtx, state *snapshot.State, s *snapshot.Snapshot, now time.Time) Failure {
	if s == nil {
		return NotFound
	}
	g := e.global.Load()
	hit := g != nil && g.state == state && s == state.Snapshot
	if !hit {
		g = newGlobal(state, s)
		if s == state.Snapshot {
			e.global.Store(g)
		}
	}
	e.write(ctx, s, g.answer, hit, g.lastModified, now)
	return OK
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
