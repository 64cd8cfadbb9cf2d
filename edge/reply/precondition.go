package reply

import (
	"bytes"
	"net/http"
	"time"

	"example.com/marketdata/edge/query"
)

// Precondition evaluates the conditions of a request in the order of RFC 9110, 13.2.2, and returns the status
// 200, 304 or 412. lastModified is the value of Last-Modified, or nil if there is none. The caller evaluates
// Range and If-Range afterwards. immutable means that the answer can never change, so any If-Modified-Since
// that is not earlier than lastModified results in 304. Otherwise the times must be equal, because a rollback
// may bring back an earlier answer.
func (r *Request) Precondition(etag, lastModified []byte, immutable bool) int {
	if r.IfMatch != nil {
		if !matches(r.IfMatch, etag, true) {
			return http.StatusPreconditionFailed
		}
	} else if order, ok := compareDates(lastModified, r.IfUnmodifiedSince, r.Now); ok && order > 0 {
		return http.StatusPreconditionFailed
	}
	has := false
	if r.IfNoneMatch != nil {
		has = matches(r.IfNoneMatch, etag, false)
	} else if order, ok := compareDates(lastModified, r.IfModifiedSince, r.Now); ok {
		has = order == 0 || immutable && order < 0
	}
	if has {
		return http.StatusNotModified
	}
	return http.StatusOK
}

// final reports whether the answer to this request never changes, because the path names the snapshot and the
// answer does not depend on the change record.
func (r *Request) final() bool { return r.PinInPath && !r.asks(query.Global) }

// SameRange reports whether Range applies to an answer with this tag and modification time. It does if
// If-Range is absent or equals one of them (RFC 9110, 13.1.5).
func (r *Request) SameRange(etag, modified []byte) bool {
	if r.IfRange == nil || bytes.Equal(r.IfRange, etag) {
		return true
	}
	order, ok := compareDates(modified, r.IfRange, r.Now)
	return ok && order == 0
}

// compareDates compares two HTTP dates. ok is false if one of them is absent or malformed (RFC 9110, 13.1.3
// and 13.1.4).
func compareDates(a, b []byte, now time.Time) (order int, ok bool) {
	if a == nil || b == nil {
		return 0, false
	}
	if bytes.Equal(a, b) {
		return 0, true
	}
	at, aok := parseDate(a, now)
	bt, bok := parseDate(b, now)
	return at.Compare(bt), aok && bok
}

// parseDate parses a date in one of the three formats of RFC 9110, 5.6.7. For a two-digit year, it chooses
// the latest year that is at most 50 years in the future.
func parseDate(b []byte, now time.Time) (time.Time, bool) {
	t, err := http.ParseTime(string(b))
	if err != nil {
		return t, false
	}
	if comma := bytes.IndexByte(b, ','); comma > len("Mon") { // RFC 850 writes out the weekday
		if later := t.AddDate(100, 0, 0); !later.After(now.AddDate(50, 0, 0)) {
			t = later // net/http interprets 69 to 99 as 1969 to 1999
		}
	}
	return t, true
}
