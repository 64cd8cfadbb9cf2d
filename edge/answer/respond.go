package answer

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"example.com/marketdata/artifacts"
	coders "example.com/marketdata/edge/coding"
	"example.com/marketdata/edge/limit"
	"example.com/marketdata/edge/query"
	"example.com/marketdata/edge/respcache"
	"example.com/marketdata/edge/snapshot"
)

// Header names in their canonical form.
const (
	hdrCacheStatus     = "Cache-Status"
	hdrContentEncoding = "Content-Encoding"
	hdrETag            = "ETag"
	hdrNotFound        = "X-Not-Found"
	hdrIgnored         = "X-Ignored"
)

var contentTypeLine = AppendLine(nil, "Content-Type", []byte("application/json"))

// Freshness, by INTERFACE.md, "Headers".
const (
	minMaxAge = 5
	maxMaxAge = 600
)

// cacheLines are the header lines for caches that do not depend on the answer:
// Cache-Control, by max-age, and Vary.
type cacheLines struct {
	ordinary [maxMaxAge + 1][]byte
	// pinned is for pins in a header where caches in front are shared, and cannot
	// tell such an answer from another.
	pinned [maxMaxAge + 1][]byte
	// path is for answers that are found by path and query alone: those of
	// a pin in the path, which never change but on /global.
	path   []byte
	global [maxMaxAge + 1][]byte
}

func newCacheLines(scope, allowOrigin string) *cacheLines {
	origin := ""
	if allowOrigin != "" && allowOrigin != "*" {
		origin = ", Origin"
	}
	const free = "Accept-Encoding"
	vary := free + ", X-Snapshot-Time"
	if scope == scopePublic {
		vary = free
	}
	var c cacheLines
	lines := func(control, vary string) []byte {
		return AppendLine(AppendLine(nil, "Cache-Control", []byte(control)), "Vary", []byte(vary+origin))
	}
	for n := minMaxAge; n <= maxMaxAge; n++ {
		fresh := fmt.Sprintf(", max-age=%d, stale-while-revalidate=60, stale-if-error=86400", n)
		c.ordinary[n], c.pinned[n], c.global[n] = lines(scope+fresh, vary), lines(scopePrivate+fresh, vary), lines(scope+fresh, free)
	}
	c.path = lines(scope+", max-age=86400, immutable", free)
	return &c
}

// of returns the lines for an answer to r from a snapshot, nil before the first one.
func (c *cacheLines) of(r *Request, s *snapshot.Snapshot) []byte {
	age := minMaxAge
	if s != nil {
		left := s.Time.Add(artifacts.Step).Sub(r.Now)
		age = min(max(int((left+time.Second-1)/time.Second), minMaxAge), maxMaxAge)
	}
	switch {
	case !r.Pinned:
		return c.ordinary[age]
	case !r.PinInPath:
		return c.pinned[age]
	case r.Query.Endpoint == query.Global: // the change of the total may change
		return c.global[age]
	}
	return c.path
}

// Header lines of Cache-Status.
var (
	statusMiss      = AppendLine(nil, hdrCacheStatus, []byte("edge; fwd=miss"))
	statusMissStale = AppendLine(nil, hdrCacheStatus, []byte("edge; fwd=miss; detail=stale"))
	statusHit       = AppendLine(nil, hdrCacheStatus, []byte("edge; hit"))
	statusHitStale  = AppendLine(nil, hdrCacheStatus, []byte("edge; hit; detail=stale"))
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

// Answer answers a request whose parameters are in order: it sets r.Reply, or
// returns ErrNoSnapshot, ErrUnavailable, ErrNoView or one of the errors of package snapshot
// for pins, and what it set on r.Reply is then of no meaning. It is called by many
// goroutines at once, and keeps neither r nor anything in it. It sets the headers of INTERFACE.md, "Headers"
// that depend on the answer; CORS and the rate limit's are the server's. It
// allocates nothing where the answer is in the response cache, or is put together
// from shards in memory.
func (e *Engine) Answer(r *Request) error {
	state := e.refresher.State()
	var s *snapshot.Snapshot
	if state != nil {
		s = state.Snapshot
	}
	switch {
	case r.Pinned && (s == nil || !r.Pin.Equal(s.Time)):
		var err error
		if s, err = e.refresher.Pinned(r.Context, r.Pin); err != nil {
			return e.failure(err)
		}
		state = e.refresher.State() // it may have come while the request waited
	case state == nil:
		return ErrUnavailable
	case s != nil && e.cfg.MaxStale > 0 && r.Now.Sub(s.Time) > e.cfg.MaxStale:
		return ErrUnavailable
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
	defer e.free(w)
	w.key = r.Query.AppendKey(w.key[:0])
	var cache *respcache.Cache
	if s != nil {
		cache = s.Responses()
	}
	entry := cache.Get(w.key)
	if entry != nil && e.writeEntry(r, w, s, entry) {
		w.counters.hits.Add(1)
		return nil
	}
	w.body, w.request = r.Buffers.Body(), r
	var err error
	if entry == nil && r.Query.CanLoosen() {
		if entry, err = e.loosened(r, w, s, cache); err != nil {
			return e.failure(err)
		}
		if entry != nil && e.writeEntry(r, w, s, entry) {
			w.counters.hits.Add(1)
			return nil
		}
	}
	err = w.compose(s, &r.Query, e.cfg.Wait)
	w.counters.composed(w)
	if err != nil {
		return e.failure(err)
	}
	tag := w.digest()
	c, err := e.writeFresh(r, s, w, tag, lastModified)
	if err != nil {
		return e.failure(err)
	}
	// Coding costs more than all the rest: what is coded is cached at once.
	if entry != nil || cache.AskedBefore(w.key) || c != identity && cache.HasRoom(w.key, len(w.coded)+entryOverhead) {
		e.admit(cache, s, w, entry, respcache.Source{Endpoint: r.Query.Endpoint, RawQuery: r.RawQuery, NotFound: w.notFound, Digest: tag, Length: len(w.body)}, c)
	}
	if c != identity {
		r.Reply.Body = append(w.body[:0], w.coded...) // where the plain one was, which nobody needs any more
	}
	return nil
}

// loosened looks once more for a finished answer, to the words of q alone.
func (e *Engine) loosened(r *Request, w *work, s *snapshot.Snapshot, cache *respcache.Cache) (*respcache.Entry, error) {
	w.reset()
	w.budget = snapshot.Budget{Wait: e.cfg.Wait}
	err := w.loosen(s, &r.Query)
	w.settle()
	if err != nil || !r.Query.Loose {
		return nil, err
	}
	w.key = r.Query.AppendKey(w.key[:0])
	return cache.Get(w.key), nil
}

// entryOverhead is about how many bytes a cached answer takes beside its body.
const entryOverhead = 1 << 10

// addIgnored names the parameters that have no part in the answer. It depends on
// how the query was written, so it is made for each request and never cached.
func addIgnored(r *Request) {
	var b [query.MaxIgnored]byte
	if names := r.Query.AppendIgnored(b[:0]); len(names) > 0 {
		r.Reply.Add(hdrIgnored, names)
	}
}

// failure returns what Answer does of an error. What is wrong on this side is
// logged, at most once a second.
func (e *Engine) failure(err error) error {
	switch {
	case errors.Is(err, snapshot.ErrGone), errors.Is(err, snapshot.ErrUneven), errors.Is(err, snapshot.ErrAhead), errors.Is(err, snapshot.ErrLater),
		errors.Is(err, ErrNoView), errors.Is(err, ErrLimited):
		return err
	}
	if now := time.Now().Unix(); e.logged.Swap(now) != now {
		e.cfg.Log.Warn("answer unavailable", "err", err)
	}
	return ErrUnavailable
}

func (e *Engine) free(w *work) {
	if cap(w.entries) > largeSort {
		w.entries = nil
	}
	if cap(w.met.ids) > largeMet {
		w.met = metTable{}
	}
	if cap(w.coded) > 2*coders.Large {
		w.coded = nil
	}
	if w.large {
		w.leavePlace(limit.LargeBody)
		w.large = false
	}
	w.body, w.request = nil, nil
	w.leave()
	e.works.Put(w)
}

// appendHead appends the header lines of an answer that do not depend on the
// request. etag is the tag in that coding.
func (e *Engine) appendHead(dst []byte, s *snapshot.Snapshot, status int, c coding, etag, notFound, lastModified []byte) []byte {
	if status == http.StatusOK {
		dst = append(dst, contentTypeLine...)
	}
	if s != nil {
		dst = appendLine(dst, "X-Snapshot-Time", s.TimeText)
	}
	dst = appendLine(dst, hdrETag, etag)
	if lastModified != nil {
		dst = appendLine(dst, "Last-Modified", lastModified)
	}
	if len(notFound) > 0 {
		dst = appendLine(dst, hdrNotFound, notFound)
	}
	if status == http.StatusOK && c != identity {
		dst = appendLine(dst, hdrContentEncoding, codingNames[c])
	}
	return dst
}

// newResponse makes what is sent of a body in coding c.
func (e *Engine) newResponse(s *snapshot.Snapshot, body []byte, tag digest, c coding, notFound, lastModified []byte) *respcache.Response {
	etag := appendETag(nil, tag, c)
	return respcache.NewResponse(body,
		e.appendHead(nil, s, http.StatusOK, c, etag, notFound, lastModified),
		e.appendHead(nil, s, http.StatusNotModified, c, etag, notFound, lastModified),
		etag, lastModified)
}

// admit puts the answer that w has composed, and coded, into the cache: as a new entry,
// or beside the other codings of one. It returns the entry.
func (e *Engine) admit(cache *respcache.Cache, s *snapshot.Snapshot, w *work, entry *respcache.Entry, source respcache.Source, c coding) *respcache.Entry {
	body := w.body
	if c != identity {
		body = w.coded
	}
	response := e.newResponse(s, body, source.Digest, c, source.NotFound, s.LastModified)
	if entry == nil {
		entry = cache.Put(respcache.NewEntry(w.key, source, int(c), response))
	}
	cache.Add(entry, int(c), response) // to one that another goroutine has put
	return entry
}

// writeEntry sends a finished answer, or 304 where the client has it already, and
// reports whether entry has what that takes.
func (e *Engine) writeEntry(r *Request, w *work, s *snapshot.Snapshot, entry *respcache.Entry) bool {
	c := chooseCoding(r, entry.Length)
	if response := entry.Response(int(c)); response == nil {
		// There is no need of a body that is not sent.
		if w.etag = appendETag(w.etag[:0], entry.Digest, c); !notModified(r, w.etag, s.LastModified) {
			return false
		}
		e.writeHead(r, w, s, http.StatusNotModified, c, entry.NotFound, s.LastModified)
	} else if notModified(r, response.ETag, response.LastModified) {
		r.Reply.Status, r.Reply.Fixed = http.StatusNotModified, response.NotModified
	} else {
		r.Reply.Fixed, r.Reply.Body = response.OK, response.Body
	}
	e.addTimes(r, s, true)
	return true
}

// addTimes adds what of the header depends on the clock, and on how the snapshot was
// asked for.
func (e *Engine) addTimes(r *Request, s *snapshot.Snapshot, hit bool) {
	r.Reply.AddLines(e.cacheLines.of(r, s))
	if r.Reply.Status == http.StatusOK {
		if e.cfg.CacheScope == scopePublic {
			r.Reply.Lines = appendNames(r.Reply.Lines, s, r.Query.Endpoint)
		}
		r.Reply.AddLines(cacheStatus(hit, s != nil && r.Now.Sub(s.Time) > snapshot.StaleAfter))
	}
}

// appendNames appends the names by which a cache in front can drop an answer: its
// snapshot's time, without the marks that some caches do not take, and its endpoint.
func appendNames(dst []byte, s *snapshot.Snapshot, e query.Endpoint) []byte {
	for _, header := range [...]struct{ name, separator string }{{"Surrogate-Key: ", " "}, {"Cache-Tag: ", ","}} {
		dst = append(dst, header.name...)
		if s != nil {
			for _, c := range s.TimeText {
				if c != '-' && c != ':' {
					dst = append(dst, c)
				}
			}
			dst = append(dst, header.separator...)
		}
		dst = append(append(dst, e.Name()...), "\r\n"...)
	}
	return dst
}

// writeFresh sends the answer that was just put together, or 304. It returns the coding
// that it has made of the body, in w.coded.
func (e *Engine) writeFresh(r *Request, s *snapshot.Snapshot, w *work, tag digest, lastModified []byte) (made coding, err error) {
	c := chooseCoding(r, len(w.body))
	w.etag = appendETag(w.etag[:0], tag, c)
	if notModified(r, w.etag, lastModified) {
		r.charge(len(w.body))
		e.writeHead(r, w, s, http.StatusNotModified, c, w.notFound, lastModified)
	} else if e.writeHead(r, w, s, http.StatusOK, c, w.notFound, lastModified); c == identity {
		r.charge(len(w.body))
		r.Reply.Body = w.body
	} else {
		// Before it is coded: what waits for that has taken its tokens.
		r.charge(2 * len(w.body))
		r.Reply.Body, made = w.body, c
		if err := w.encode(c); err != nil {
			return identity, err
		}
	}
	e.addTimes(r, s, false)
	return made, nil
}

// charge charges the request for bytes that are composed and encoded. Only bodies of
// /history are long enough for it.
func (r *Request) charge(bytes int) {
	if r.Query.Endpoint == query.History {
		r.Bill.Bytes(bytes)
	}
}

// writeHead sets the status, and the header of an answer that is not cached and
// whose tag is w.etag.
func (e *Engine) writeHead(r *Request, w *work, s *snapshot.Snapshot, status int, c coding, notFound, lastModified []byte) {
	w.head = e.appendHead(w.head[:0], s, status, c, w.etag, notFound, lastModified)
	r.Reply.Status = status
	r.Reply.AddLines(w.head)
}

// chooseCoding returns the coding that a body of that length is sent in.
func chooseCoding(r *Request, length int) coding {
	if length > minCoded && r.AcceptEncoding != nil {
		return negotiate(r.AcceptEncoding)
	}
	return identity
}

// notModified checks the conditions of the request
// (INTERFACE.md, "Conditional requests").
func notModified(r *Request, etag, lastModified []byte) bool {
	if r.IfNoneMatch != nil {
		return Matches(r.IfNoneMatch, etag)
	}
	return r.IfModifiedSince != nil && bytes.Equal(r.IfModifiedSince, lastModified)
}

// answerGlobal answers /global, which is made once a state, and for each request
// that pins another snapshot.
func (e *Engine) answerGlobal(r *Request, state *snapshot.State, s *snapshot.Snapshot) error {
	if s == nil {
		return ErrNoSnapshot
	}
	r.Snapshot = s.Time
	current := s == state.Snapshot
	w := e.works.Get().(*work)
	defer e.free(w)
	if current {
		if entry := state.Global.Load(); entry != nil && e.writeEntry(r, w, s, entry) {
			return nil
		}
	}
	modified := s.LastModified
	if c := state.Change; c != nil && c.Time.After(s.Time) {
		modified = c.Time.UTC().AppendFormat(nil, http.TimeFormat)
	}
	w.body, w.notFound = appendGlobal(r.Buffers.Body(), state, s), w.notFound[:0]
	tag := digestOf(w.body)
	if current {
		// Another goroutine makes the same.
		state.Global.Store(respcache.NewEntry(nil, respcache.Source{Endpoint: query.Global, Digest: tag, Length: len(w.body)}, int(identity), e.newResponse(s, w.body, tag, identity, nil, modified)))
	}
	_, err := e.writeFresh(r, s, w, tag, modified)
	return err
}

// appendGlobal renders /global: the totals of s, and the change record in force.
// The body is shorter than those that are coded.
func appendGlobal(b []byte, state *snapshot.State, s *snapshot.Snapshot) []byte {
	b = append(b, bodyStart...)
	b = append(b, `{"total_market_cap":"`...)
	b = append(b, s.Global.TotalMarketCap...)
	b = append(b, `","total_volume_24h":"`...)
	b = append(b, s.Global.TotalVolume24h...)
	b = append(b, `","total_market_cap_change_percentage_24h":`...)
	if c := state.Change; c != nil && c.Database == s.Database && fits(c.Value) {
		b = strconv.AppendQuote(b, c.Value) // digits, a minus, a point
	} else {
		b = append(b, "null"...)
	}
	b = append(b, `,"data_time":"`...)
	b = append(b, s.TimeText...)
	return append(b, `"}}`...)
}

// maxChangeDigits is how many integer digits of the total's change are
// answered; above it is null (INTERFACE.md, "Global").
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
