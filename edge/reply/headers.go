package reply

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"example.com/marketdata/artifacts"
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

var (
	contentTypeLine = AppendLine(nil, "Content-Type", []byte("application/json"))
	csvTypeLine     = AppendLine(nil, "Content-Type", []byte("text/csv; charset=utf-8; header=present"))
)

// The bounds of max-age, from INTERFACE.md, "Headers".
const (
	minMaxAge = 5
	maxMaxAge = 600
)

// cacheLines contains the header lines for caches, Cache-Control and Vary. The arrays are indexed by
// max-age, in seconds.
type cacheLines struct {
	ordinary [maxMaxAge + 1][]byte
	// pinned is for a pin in a header. Such answers need their own lines, because a shared cache cannot
	// distinguish them from the unpinned answers of the same URL.
	pinned [maxMaxAge + 1][]byte
	// path is for a pin in the path. Such answers depend only on path and query and never change, except
	// those of /global.
	path []byte
	// keyedPath is for a pin in the path and a key in the query. Shared caches do not check such a key.
	keyedPath []byte
	global    [maxMaxAge + 1][]byte
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
		c.ordinary[n], c.pinned[n] = lines(scope+fresh, vary), lines(scopePrivate+fresh, vary)
		c.global[n] = lines(scope+fresh, free)
	}
	const forADay = ", max-age=86400, immutable"
	c.path, c.keyedPath = lines(scope+forADay, free), lines(scopePrivate+forADay, free)
	return &c
}

// of returns the lines for an answer to r. s may be nil.
func (c *cacheLines) of(r *Request, s *snapshot.Snapshot) []byte {
	age := minMaxAge
	if s != nil {
		left := s.Time.Add(artifacts.Step).Sub(r.Now)
		age = min(max(int((left+time.Second-1)/time.Second), minMaxAge), maxMaxAge)
	}
	switch {
	case r.KeyInQuery && r.PinInPath:
		return c.keyedPath
	case !r.Pinned && !r.KeyInQuery:
		return c.ordinary[age]
	case !r.PinInPath:
		return c.pinned[age]
	case r.asks(query.Global): // the change record may change
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

// appendHead appends the header lines that depend on the answer and its coding, but not on the request.
func (w *work) appendHead(dst []byte, status int, c coding, etag []byte, source *respcache.Source) []byte {
	switch {
	case status == http.StatusOK && w.csv:
		dst = append(dst, csvTypeLine...)
	case status == http.StatusOK:
		dst = append(dst, contentTypeLine...)
	}
	if w.snapshot != nil {
		dst = appendLine(dst, "X-Snapshot-Time", w.snapshot.TimeText)
	}
	dst = appendLine(dst, hdrETag, etag)
	if w.modified != nil {
		dst = appendLine(dst, "Last-Modified", w.modified)
	}
	if len(source.NotFound) > 0 {
		dst = appendLine(dst, hdrNotFound, source.NotFound)
	}
	if w.csv {
		dst = append(strconv.AppendInt(append(dst, "X-Total: "...), int64(source.Total), 10), "\r\n"...)
	}
	if status == http.StatusOK && c != identity {
		dst = appendLine(dst, hdrContentEncoding, codingNames[c])
	}
	return dst
}

// writeHead sets the status and header lines of an answer that is not in the cache. Its tag is w.etag.
func (w *work) writeHead(r *Request, status int, c coding, source *respcache.Source) {
	r.Reply.Status = status
	r.Reply.Lines = w.appendHead(r.Reply.Lines, status, c, w.etag, source)
}

// addTimes adds the header lines that depend on the clock, on the pin, and on whether the answer was cached.
func (e *Engine) addTimes(r *Request, s *snapshot.Snapshot, hit bool) {
	r.Reply.AddLines(e.cacheLines.of(r, s))
	if r.Reply.Status == http.StatusOK {
		if e.cfg.CacheScope == scopePublic {
			var at []byte
			if s != nil {
				at = s.TimeText
			}
			r.Reply.Lines = AppendNames(r.Reply.Lines, at, r.name())
		}
		r.Reply.AddLines(cacheStatus(hit, s != nil && r.Now.Sub(s.Time) > snapshot.StaleAfter))
	}
}

// AppendNames appends header lines with the keys by which a cache can purge an answer: the time of its
// snapshot, unless snapshotTime is empty, and the name of its endpoint. It omits the punctuation of the time,
// which some caches reject.
func AppendNames(dst, snapshotTime []byte, name string) []byte {
	for _, header := range [...]struct{ name, separator string }{{"Surrogate-Key: ", " "}, {"Cache-Tag: ", ","}} {
		dst = append(dst, header.name...)
		if len(snapshotTime) > 0 {
			for _, c := range snapshotTime {
				if c != '-' && c != ':' {
					dst = append(dst, c)
				}
			}
			dst = append(dst, header.separator...)
		}
		dst = append(append(dst, name...), "\r\n"...)
	}
	return dst
}

// addIgnored adds a header with the names of the ignored parameters. They depend on how the query was
// written, so the cache does not contain this header.
func addIgnored(r *Request) {
	names := r.Query.Ignored
	if r.Other != nil {
		names = r.Other.Ignored()
	}
	if len(names) == 0 {
		return
	}
	var b [query.MaxIgnored]byte
	if value := names.Append(b[:0]); len(value) > 0 {
		r.Reply.Add(hdrIgnored, value)
	}
}
