package reply

import (
	"bytes"
	"net/http"
	"time"

	"example.com/marketdata/edge/query"
)

// Precondition returns the status of an answer with this tag and time of modification, in the form of
// Last-Modified (nil: it has none): 200, 304, or 412, by the conditions of the request in the order of
// RFC 9110, 13.2.2. Range and If-Range come afterwards. final reports that no answer with an earlier
// time can follow, so that the client has what was modified before If-Modified-Since; otherwise a
// rollback may bring one, and the times must be equal.
func (r *Request) Precondition(etag, modified []byte, final bool) int {
	if r.IfMatch != nil {
		if !matches(r.IfMatch, etag, true) {
			return http.StatusPreconditionFailed
		}
	} else if order, ok := compareDates(modified, r.IfUnmodifiedSince, r.Now); ok && order > 0 {
		return http.StatusPreconditionFailed
	}
	has := false
	if r.IfNoneMatch != nil {
		has = matches(r.IfNoneMatch, etag, false)
	} else if order, ok := compareDates(modified, r.IfModifiedSince, r.Now); ok {
		has = order == 0 || final && order < 0
	}
	if has {
		return http.StatusNotModified
	}
	return http.StatusOK
}

// final reports whether the answer at the path never changes: the path names the snapshot, and the
// answer does not follow the change record.
func (r *Request) final() bool { return r.PinInPath && !r.asks(query.Global) }

// SameRange reports whether If-Range lets Range apply to an answer with this tag and time of
// modification: it is absent, or equals one of them (RFC 9110, 13.1.5).
func (r *Request) SameRange(etag, modified []byte) bool {
	if r.IfRange == nil || bytes.Equal(r.IfRange, etag) {
		return true
	}
	order, ok := compareDates(modified, r.IfRange, r.Now)
	return ok && order == 0
}

// compareDates compares two dates of headers. A date that is absent or malformed has no order
// (RFC 9110, 13.1.3 and 13.1.4).
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

// parseDate reads the three forms of RFC 9110, 5.6.7. A year of two digits is the latest that is at
// most 50 years ahead.
func parseDate(b []byte, now time.Time) (time.Time, bool) {
	t, err := http.ParseTime(string(b))
	if err != nil {
		return t, false
	}
	if comma := bytes.IndexByte(b, ','); comma > len("Mon") { // Monday: RFC 850
		if later := t.AddDate(100, 0, 0); !later.After(now.AddDate(50, 0, 0)) {
			t = later // net/http reads 69 to 99 as 1969 to 1999
		}
	}
	return t, true
}
