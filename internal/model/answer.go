package model

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A Question is one request.
type Question struct {
	Method string
	Target string   // path and query of the request line
	Pins   []string // the values of the X-Snapshot-Time headers
}

// ContentType returns the Content-Type of an answer with status 200.
func (a Answer) ContentType() string {
	if a.CSV {
		return "text/csv; charset=utf-8; header=present"
	}
	return "application/json"
}

// An Answer is the answer that the service must give to a question.
type Answer struct {
	Status     int
	Code       int // in the envelope, as is MessageKey; both are zero for a 204
	MessageKey string
	Body       string   // the whole body, for a 200
	Blame      []string // for a 400: the message must contain one of these

	CSV          bool   // Body is a table
	Total        string // the value of X-Total, or "" if the header is absent
	SnapshotTime string // the value of X-Snapshot-Time, or "" if the header is absent
	NotFound     string // the value of X-Not-Found, or "" if the header is absent
	Ignored      string // the value of X-Ignored, or "" if the header is absent
	Modified     time.Time
}

func failure(status, code int, key string) Answer {
	return Answer{Status: status, Code: code, MessageKey: key}
}

func badRequest(blame ...string) Answer {
	a := failure(400, 40000, "BAD_REQUEST")
	a.Blame = blame
	return a
}

// Answer returns the answer to a question. It does not distinguish HEAD from GET.
func (w *World) Answer(q Question) Answer {
	switch q.Method {
	case "GET", "HEAD":
	case "OPTIONS":
		return Answer{Status: 204}
	default:
		return failure(405, 40500, "METHOD_NOT_ALLOWED")
	}
	asked, refusal := Parse(q.Target)
	if refusal != nil {
		return *refusal
	}
	s, refusal := w.choose(q.Pins)
	if refusal != nil {
		return *refusal
	}
	return s.Answer(asked, w.change)
}

// choose returns the snapshot that answers a request with the given pins. Without a pin, this is
// the newest one, or nil before the first snapshot. If no snapshot can answer, choose returns the
// error answer instead.
func (w *World) choose(pins []string) (*Snapshot, *Answer) {
	refused := func(a Answer) (*Snapshot, *Answer) { return nil, &a }
	if len(pins) == 0 || len(pins) == 1 && pins[0] == "" {
		return w.Newest(), nil
	}
	t, ok := ParsePin(pins[0])
	if len(pins) > 1 || !ok || !t.Equal(t.Truncate(10*time.Minute)) {
		return refused(badRequest("X-Snapshot-Time"))
	}
	for _, s := range w.retained {
		if s.Time.Equal(t) {
			return s, nil
		}
	}
	known := w.settings.Clock
	if newest := w.Newest(); newest != nil {
		if t.Before(newest.Time) || slices.ContainsFunc(w.withdrawn, t.Equal) {
			return refused(failure(410, 41000, "SNAPSHOT_GONE"))
		}
		if newest.Time.After(known) {
			known = newest.Time
		}
	}
	if t.After(known.Add(12 * time.Minute)) {
		return refused(badRequest("X-Snapshot-Time"))
	}
	return refused(failure(503, 50300, "SERVICE_UNAVAILABLE"))
}

// pinForm is the date-time of RFC 3339, section 5.6, except that the seconds are optional.
var pinForm = regexp.MustCompile(
	`^(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d)(:\d\d)?(\.\d+)?([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d)$`)

// ParsePin parses the time of a pin (INTERFACE.md, "Pinned paging").
func ParsePin(text string) (time.Time, bool) {
	part := pinForm.FindStringSubmatch(text)
	if part == nil || part[3] == "" && part[4] != "" || len(text) > 45 {
		return time.Time{}, false
	}
	t, err := time.Parse(time.RFC3339, part[1]+"T"+part[2]+cmp.Or(part[3], ":00")+part[4]+strings.ToUpper(part[5]))
	return t, err == nil
}

// Parse parses the path and the query of a request. If the service does not answer the request from
// a snapshot, Parse returns the answer instead.
func Parse(target string) (*Query, *Answer) {
	refused := func(a Answer) (*Query, *Answer) { return nil, &a }
	path, raw, _ := strings.Cut(target, "?")
	endpoint, ours := strings.CutPrefix(path, Prefix)
	endpoint, isTable := strings.CutSuffix(endpoint, csvSuffix)
	l, isList := listings[endpoint]
	if isTable && tables[endpoint].columns == "" {
		return refused(failure(404, 40401, "PATH_NOT_FOUND"))
	}
	if !ours || !isList && endpoint != trending && endpoint != search && endpoint != "global" {
		return refused(failure(404, 40401, "PATH_NOT_FOUND"))
	}
	q := &Query{Endpoint: endpoint, CSV: isTable, Ignored: ignored(endpoint, raw, isTable)}
	p := Parameters(raw, csv...)
	switch {
	case isList:
		if bad := q.parse(l, p); len(bad) > 0 {
			return refused(badRequest(bad...))
		}
	case endpoint == trending:
		by := strings.Trim(p["by"], " \t\n\v\f\r")
		if by != "" && Fold(by) != "gainers" {
			return refused(badRequest("by"))
		}
	case endpoint == search:
		q.Text = Fold(p["q"])
		if words := len(searchWords(q.Text)); len(p["q"]) > maxText || words == 0 || words > maxWords {
			return refused(badRequest("q"))
		}
	}
	return q, nil
}
