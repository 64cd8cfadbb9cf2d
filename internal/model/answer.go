package model

import (
	"bytes"
	"cmp"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Question is one request.
type Question struct {
	Method string
	Target string   // path and query, as they stand in the request line
	Pins   []string // the values of the X-Snapshot-Time lines
}

// An Answer is what the service must say to a question.
type Answer struct {
	Status     int
	Code       int      // of the envelope, as is MessageKey; none of both on a 204
	MessageKey string   //
	Body       string   // the whole body of a 200
	Blame      []string // on a 400: one of these stands in the message

	SnapshotTime string // value of X-Snapshot-Time, "" for none
	NotFound     string // value of X-Not-Found, "" for none
	Ignored      string // value of X-Ignored, "" for none
	Modified     time.Time
}

const prefix = "/openapi/v1/"

func failure(status, code int, key string) Answer {
	return Answer{Status: status, Code: code, MessageKey: key}
}

func badRequest(blame []string) Answer {
	a := failure(400, 40000, "BAD_REQUEST")
	a.Blame = blame
	return a
}

// Answer is what the service says to a question, HEAD as it does to GET.
func (w *World) Answer(q Question) Answer {
	path, raw, _ := strings.Cut(q.Target, "?")
	switch q.Method {
	case "GET", "HEAD":
	case "OPTIONS":
		return Answer{Status: 204}
	default:
		return failure(405, 40500, "METHOD_NOT_ALLOWED")
	}
	endpoint, ours := strings.CutPrefix(path, prefix)
	l, isList := listings[endpoint]
	if !ours || !isList && endpoint != "trending" && endpoint != "global" {
		return failure(404, 40401, "PATH_NOT_FOUND")
	}

	// Parameters.
	var asked query
	if p := parseParameters(raw); isList {
		var bad []string
		if asked, bad = parseQuery(l, p); len(bad) > 0 {
			return badRequest(bad)
		}
	} else if endpoint == "trending" {
		by := strings.Trim(p["by"], " \t\n\v\f\r")
		if by != "" && Fold(by) != "gainers" {
			return badRequest([]string{"by"})
		}
	}

	// The snapshot: the newest, or the one that is pinned.
	s, failed := w.choose(q.Pins)
	if failed.Status != 0 {
		return failed
	}

	answer := Answer{Status: 200, MessageKey: "OK", Ignored: ignored(endpoint, raw)}
	if s != nil {
		answer.SnapshotTime = timestamp(s.Time)
		answer.Modified = s.Time
	}
	result := ""
	switch {
	case isList:
		result, answer.NotFound = s.list(endpoint, asked)
	case endpoint == "trending":
		var board []string
		if s != nil {
			board = s.board
		}
		result = object(field{"items", array(board)})
	case s == nil:
		return failure(404, 40400, "NOT_FOUND")
	default:
		result = s.globalResult(w.change)
		if w.change != nil && w.change.time.After(s.Time) {
			answer.Modified = w.change.time.Truncate(time.Second)
		}
	}
	answer.Body = object(
		field{"code", "0"},
		field{"message", quote("OK")},
		field{"message_key", quote("OK")},
		field{"result", result},
	)
	return answer
}

// choose is the snapshot that answers: the newest one without a pin, nil before
// the first; or why there is none.
func (w *World) choose(pins []string) (*Snapshot, Answer) {
	if len(pins) > 1 {
		return nil, badRequest([]string{"X-Snapshot-Time"})
	}
	if len(pins) == 0 || pins[0] == "" {
		return w.Newest(), Answer{}
	}
	const format = "2006-01-02T15:04:05Z"
	t, err := time.Parse(format, pins[0])
	if err != nil || t.Format(format) != pins[0] {
		return nil, badRequest([]string{"X-Snapshot-Time"})
	}
	for _, s := range w.retained {
		if s.Time.Equal(t) {
			return s, Answer{}
		}
	}
	if t.Minute()%10 != 0 || t.Second() != 0 {
		return nil, badRequest([]string{"X-Snapshot-Time"})
	}
	known := w.settings.Clock
	if newest := w.Newest(); newest != nil {
		if t.Before(newest.Time) || slices.ContainsFunc(w.withdrawn, t.Equal) {
			return nil, failure(410, 41000, "SNAPSHOT_GONE")
		}
		if newest.Time.After(known) {
			known = newest.Time
		}
	}
	if t.After(known.Add(12 * time.Minute)) {
		return nil, badRequest([]string{"X-Snapshot-Time"})
	}
	return nil, failure(503, 50300, "SERVICE_UNAVAILABLE")
}

// list is the result of an endpoint with pages, and its X-Not-Found.
func (s *Snapshot) list(endpoint string, q query) (result, notFound string) {
	var whole []row
	if s != nil {
		whole = s.ordered(endpoint, q.sort, q.descending)
	}
	matching := whole
	for _, f := range q.filters {
		matching = slices.DeleteFunc(slices.Clone(matching), func(r row) bool { return !f.matches(r) })
	}

	total := int64(len(matching))
	from, page := new(big.Int), q.page
	if q.offsetMode {
		from.SetInt64(q.offset)
		page = q.offset/q.size + 1
	} else {
		from.Mul(big.NewInt(q.page-1), big.NewInt(q.size)) // may be beyond 64 bits
	}
	items := []string{}
	if from.Cmp(big.NewInt(total)) < 0 {
		for _, r := range matching[from.Int64():min(from.Int64()+q.size, total)] {
			if q.links {
				items = append(items, r.withLinks)
			} else {
				items = append(items, r.json)
			}
		}
	}
	return object(
		field{"items", array(items)},
		field{"page", integer(page)},
		field{"total", integer(total)},
		field{"total_page", integer(max(1, (total+q.size-1)/q.size))},
	), s.missing(endpoint, q.filters)
}

// ordered is a whole listing in the order asked for.
func (s *Snapshot) ordered(collection, key string, descending bool) []row {
	name := fmt.Sprint(collection, key, descending)
	if rows, ok := s.orders[name]; ok {
		return rows
	}
	rows := slices.Clone(s.lists[collection])
	slices.SortFunc(rows, func(a, b row) int {
		var c int
		switch key {
		case "id":
			c = cmp.Compare(a.id, b.id)
		case "name":
			c = bytes.Compare([]byte(a.name), []byte(b.name))
		case "symbol":
			c = bytes.Compare([]byte(a.symbol), []byte(b.symbol))
		case "slug":
			c = bytes.Compare([]byte(a.slug), []byte(b.slug))
		case "market_cap":
			c = a.marketCap.Cmp(b.marketCap)
		case "volume", "volume_24h":
			c = compareNullable(a.volume, b.volume)
		case "rank":
			switch { // those without one stand last in both directions
			case a.rank == 0 && b.rank == 0:
				return cmp.Compare(a.id, b.id)
			case a.rank == 0:
				return 1
			case b.rank == 0:
				return -1
			}
			c = cmp.Compare(a.rank, b.rank)
		default:
			panic("model: unknown sort key " + key)
		}
		if descending {
			c = -c
		}
		return cmp.Or(c, cmp.Compare(a.id, b.id))
	})
	if s.orders == nil {
		s.orders = map[string][]row{}
	}
	s.orders[name] = rows
	return rows
}

// compareNullable compares amounts, null below all of them.
func compareNullable(a, b *big.Rat) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return -1
	case b == nil:
		return 1
	}
	return a.Cmp(b)
}

func (f filter) matches(r row) bool {
	switch f.name {
	case "id":
		return f.ids[r.id]
	case "slug":
		return f.values[r.slug]
	}
	return f.values[r.symbol]
}

// has tells whether any row of a listing has the value, folded, of the filter.
func (s *Snapshot) has(collection, filter, value string) bool {
	if s == nil {
		return false
	}
	name := collection + " " + filter
	if s.values[name] == nil {
		if s.values == nil {
			s.values = map[string]map[string]bool{}
		}
		s.values[name] = map[string]bool{}
		for _, r := range s.lists[collection] {
			s.values[name][map[string]string{"id": integer(r.id), "slug": r.slug, "symbol": r.symbol}[filter]] = true
		}
	}
	return s.values[name][value]
}

// maxNotFound is where X-Not-Found is cut, in bytes.
const maxNotFound = 1024

// missing writes X-Not-Found: the values of each filter that match nothing in
// the whole listing.
func (s *Snapshot) missing(collection string, filters []filter) string {
	header := ""
	for _, f := range filters { // in the order id, slug, symbol
		var values []string
		var ids []int64
		for id := range f.ids {
			ids = append(ids, id)
		}
		slices.Sort(ids)
		for _, id := range ids {
			values = append(values, integer(id))
		}
		for v := range f.values {
			values = append(values, v)
		}
		if f.name != "id" {
			slices.Sort(values)
		}
		first := true
		for _, v := range values {
			if s.has(collection, f.name, v) {
				continue
			}
			lead := ","
			if first {
				first = false
				if lead = "&"; header == "" {
					lead = ""
				}
				lead += f.name + "="
			}
			if len(header)+len(lead)+len(percentEncode(v)) > maxNotFound {
				return header
			}
			header += lead + percentEncode(v)
		}
	}
	return header
}

// percentEncode encodes all but the unreserved characters of RFC 3986.
func percentEncode(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._~", c) >= 0 {
			b.WriteByte(c)
		} else {
			b.WriteString("%" + strings.ToUpper(strconv.FormatInt(int64(c)+0x100, 16)[1:]))
		}
	}
	return b.String()
}
