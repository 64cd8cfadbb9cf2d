package fakeapi

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"example.com/marketdata/artifacts"
)

// Key is the API key that the server takes.
const Key = "mdk_live_fake"

// The faults that a Server can be told to have.
const (
	PlusIsPlus        = "plus-is-plus"        // parsing: + is not a space
	ZeroIsRefused     = "zero-is-refused"     // parsing: size=0 is a 400
	LastCounts        = "last-counts"         // parsing: the last of a repeated parameter counts
	SizeClamped       = "size-clamped"        // parsing: size=500 is answered with 100 rows
	MatchesLower      = "matches-lower"       // matching: by lower case instead of the fold
	FiltersOr         = "filters-or"          // matching: filters are combined with OR
	NoNotFound        = "no-not-found"        // matching: X-Not-Found is left out
	NoIgnored         = "no-ignored"          // parsing: X-Ignored is left out
	TiesReversed      = "ties-reversed"       // order: ties by id descending in a descending order
	UnrankedFirst     = "unranked-first"      // order: assets without a rank stand first
	CaseMatters       = "case-matters"        // order: by the bytes of the text
	EscapesHTML       = "escapes-html"        // rendering: & is \u0026
	TrailingZero      = "trailing-zero"       // rendering: "0.250"
	KeyOrder          = "key-order"           // rendering: page before items
	WrongTotalPage    = "wrong-total-page"    // page arithmetic
	RepeatsRow        = "repeats-row"         // the last row of a page is on the next one too
	NoRequestID       = "no-request-id"       // one header less
	SameRequestID     = "same-request-id"     // the same one each time
	MixesSnapshots    = "mixes-snapshots"     // answers from the snapshot before, and says it is the newest
	StaleTag          = "stale-tag"           // an ETag that does not change with the body
	AlwaysNotModified = "always-not-modified" // a 304 to any condition
	TakesAnyKey       = "takes-any-key"
)

// Server answers from worlds. It is safe for concurrent use.
type Server struct {
	mu     sync.RWMutex
	worlds []*World // newest last
	fault  atomic.Value
	// Spoil, when set, may change the body of an answer, by its number.
	Spoil func(n uint64, body []byte) []byte
	n     atomic.Uint64
}

// NewServer returns a server that has the worlds, the newest last.
func NewServer(worlds ...*World) *Server { return &Server{worlds: worlds} }

// Swap makes w the newest snapshot.
func (s *Server) Swap(w *World) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.worlds = append(slices.Clip(s.worlds), w)
}

// Break gives the server a fault, "" none.
func (s *Server) Break(fault string) { s.fault.Store(fault) }

func (s *Server) has(fault string) bool { f, _ := s.fault.Load().(string); return f == fault }

var requestID = regexp.MustCompile(`^[A-Za-z0-9._:=+/-]{1,128}$`)

type problem struct {
	status, code int
	key          string
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n := s.n.Add(1)
	h := w.Header()
	if id := r.Header.Get("X-Request-Id"); requestID.MatchString(id) {
		h.Set("X-Request-Id", id)
	} else if s.has(SameRequestID) {
		h.Set("X-Request-Id", "01234567890123456789")
	} else if !s.has(NoRequestID) {
		h.Set("X-Request-Id", fmt.Sprintf("%020d", n))
	}
	body, snapshot, notFound, p := s.answer(r)
	h.Set("Content-Type", "application/json")
	if p != nil {
		h.Set("Cache-Control", "no-store")
		w.WriteHeader(p.status)
		fmt.Fprintf(w, `{"code":%d,"message":"no","message_key":%q,"result":{}}`, p.code, p.key)
		return
	}
	if s.Spoil != nil {
		body = s.Spoil(n, body)
	}
	h.Set("X-Snapshot-Time", snapshot)
	if notFound != "" && !s.has(NoNotFound) {
		h.Set("X-Not-Found", notFound)
	}
	if names := ignored(strings.TrimPrefix(r.URL.Path, "/openapi/v1/"), r.URL.Query()); names != "" && !s.has(NoIgnored) {
		h.Set("X-Ignored", names)
	}
	sum := sha256.Sum256(body)
	tag := hex.EncodeToString(sum[:16])
	if s.has(StaleTag) {
		tag = "stale" + strings.ReplaceAll(r.URL.Path, "/", "-")
	}
	coding := ""
	if len(body) > 1024 && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		coding = "-gzip"
		var z bytes.Buffer
		zw := gzip.NewWriter(&z)
		zw.Write(body)
		zw.Close()
		body = z.Bytes()
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("ETag", `"`+tag+coding+`"`)
	if c := r.Header.Get("If-None-Match"); c != "" && (c == h.Get("ETag") || s.has(AlwaysNotModified)) {
		h.Del("Content-Encoding")
		h.Del("Content-Type")
		w.WriteHeader(304)
		return
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if r.Method != http.MethodHead {
		w.Write(body)
	}
}

func (s *Server) answer(r *http.Request) (body []byte, snapshot, notFound string, p *problem) {
	list, ok := strings.CutPrefix(r.URL.EscapedPath(), "/openapi/v1/")
	if !ok || !slices.Contains([]string{"assets", "quotes", "trending", "exchanges", "global", "categories", "chains"}, list) {
		return nil, "", "", &problem{404, 40401, "PATH_NOT_FOUND"}
	}
	if r.Header.Get("X-Api-Key") != Key && !s.has(TakesAnyKey) {
		return nil, "", "", &problem{401, 40100, "UNAUTHORIZED"}
	}
	q, ok := s.parse(list, r.URL.RawQuery)
	if !ok {
		return nil, "", "", &problem{400, 40000, "BAD_REQUEST"}
	}
	s.mu.RLock()
	worlds := s.worlds
	s.mu.RUnlock()
	w := worlds[len(worlds)-1]
	snapshot = w.Time.Format(TimeFormat)
	if pin := r.Header.Get("X-Snapshot-Time"); pin != "" {
		i := slices.IndexFunc(worlds, func(w *World) bool { return w.Time.Format(TimeFormat) == pin })
		if t, err := time.Parse(TimeFormat, pin); err != nil || !t.Equal(t.Truncate(10*time.Minute)) {
			return nil, "", "", &problem{400, 40000, "BAD_REQUEST"}
		}
		if i < 0 {
			return nil, "", "", &problem{410, 41000, "SNAPSHOT_GONE"}
		}
		w, snapshot = worlds[i], pin
	} else if s.has(MixesSnapshots) && len(worlds) > 1 {
		w = worlds[len(worlds)-2]
	}
	result, notFound := s.result(w, list, q)
	text := `{"code":0,"message":"OK","message_key":"OK","result":` + result + "}"
	if s.has(EscapesHTML) {
		text = strings.ReplaceAll(text, "&", `\u0026`)
	}
	if s.has(TrailingZero) {
		text = strings.ReplaceAll(text, `"0.25"`, `"0.250"`)
	}
	return []byte(text), snapshot, notFound, nil
}

type query struct {
	filters            map[string][]string
	page, offset, size int
	key                string
	desc, links        bool
}

var sorts = map[string]string{
	"assets": "id name symbol slug rank", "quotes": "id name symbol slug", "exchanges": "id name slug volume",
	"categories": "id name slug market_cap volume_24h", "chains": "id name slug market_cap volume_24h",
}

func (s *Server) parse(list, raw string) (*query, bool) {
	q := &query{filters: map[string][]string{}, page: 1}
	if s.has(PlusIsPlus) {
		raw = strings.ReplaceAll(raw, "+", "%2B")
	}
	form := map[string]string{}
	for _, pair := range strings.Split(raw, "&") {
		name, value, _ := strings.Cut(pair, "=")
		value, err := url.QueryUnescape(value)
		if err != nil {
			return nil, false // tests of odd escapes are the oracle's own
		}
		if _, ok := form[name]; !ok || s.has(LastCounts) {
			form[name] = value
		}
	}
	if list == "global" {
		return q, true
	}
	if list == "trending" {
		by := strings.ToLower(strings.TrimSpace(form["by"]))
		return q, by == "" || by == "gainers"
	}
	for _, name := range []string{"id", "slug", "symbol"} {
		if form[name] == "" || name == "symbol" && list != "assets" && list != "quotes" {
			continue
		}
		values := strings.Split(form[name], ",")
		if len(values) > 100 {
			return nil, false
		}
		q.filters[name] = []string{}
		for _, v := range values {
			if name == "id" && v != "" {
				n, err := strconv.ParseInt(v, 10, 64)
				if err != nil || v[0] == '+' {
					return nil, false
				}
				v = strconv.FormatInt(n, 10)
			}
			if v != "" {
				q.filters[name] = append(q.filters[name], s.fold(v))
			}
		}
	}
	ok := true
	number := func(name string, missing int) int {
		if form[name] == "" {
			return missing
		}
		n, err := strconv.Atoi(form[name])
		ok = ok && err == nil && form[name][0] != '+'
		return n
	}
	byPage := form["page"] != "" || form["limit"] == "" && form["offset"] == ""
	bound := func(n int) int {
		switch {
		case n > 100 && s.has(SizeClamped):
			return 100
		case n > 100, n < 1 && (list == "exchanges" || s.has(ZeroIsRefused)):
			ok = false
		case n < 1:
			return 20
		}
		return n
	}
	if byPage || list != "exchanges" {
		q.size = bound(number("size", 20))
	}
	if !byPage || list != "exchanges" {
		limit, offset := bound(number("limit", 20)), number("offset", 0)
		ok = ok && offset >= 0 && offset <= 100000
		if !byPage && ok {
			q.size, q.offset, q.page = limit, offset, offset/limit+1
		}
	}
	if byPage {
		q.page = number("page", 1)
		ok = ok && q.page >= 1
		q.offset = min(q.page-1, 1<<40) * q.size
	}
	ok = ok && (list != "assets" || strings.Count(form["fields"], ",") < 100)
	q.links = list == "assets" && slices.Contains(strings.Split(s.fold(form["fields"]), ","), "links")
	key, direction, directed := strings.Cut(s.fold(form["sort"]), ":")
	q.key, q.desc = key, direction == "desc"
	switch {
	case form["sort"] == "" && sorts[list][3:7] == "name" && strings.Contains(sorts[list], "market_cap"):
		q.key, q.desc = "market_cap", true
	case form["sort"] == "":
		q.key = "id"
	case !slices.Contains(strings.Fields(sorts[list]), key), directed && direction != "asc" && direction != "desc":
		ok = false
	}
	return q, ok
}

// ignored lists the parameters that have no part in the answer, as X-Ignored
// does where they are few.
func ignored(list string, form url.Values) string {
	reads := map[string]string{"global": "", "trending": "by", "assets": "id slug sort page size limit offset symbol fields", "quotes": "id slug sort page size limit offset symbol"}
	known, ok := reads[list]
	if !ok {
		known = "id slug sort page size limit offset"
	}
	other := []string{"page", "size"}
	if form.Get("page") != "" || form.Get("limit") == "" && form.Get("offset") == "" {
		other = []string{"limit", "offset"}
	}
	var names []string
	for name, values := range form {
		if len(values) > 1 || !slices.Contains(strings.Fields(known), name) || slices.Contains(other, name) && values[0] != "" {
			names = append(names, url.QueryEscape(name))
		}
	}
	slices.Sort(names)
	return strings.Join(names, ",")
}

// fold is the shared one of builder and edge, which the oracle does not use.
func (s *Server) fold(v string) string {
	if s.has(MatchesLower) {
		return strings.ToLower(v)
	}
	return artifacts.Fold(v)
}

func (s *Server) result(w *World, list string, q *query) (result, notFound string) {
	rows := append([]*Row(nil), w.Lists[list]...)
	switch list {
	case "global":
		return fmt.Sprintf(`{"total_market_cap":%q,"total_volume_24h":%q,"total_market_cap_change_percentage_24h":null,"data_time":%q}`,
			w.Totals.TotalMarketCap, w.Totals.TotalVolume24h, w.Time.Format(TimeFormat)), ""
	case "trending":
		return `{"items":[` + s.join(rows, false) + `]}`, ""
	}
	value := func(r *Row, name string) string {
		switch name {
		case "id":
			return strconv.FormatUint(r.ID, 10)
		case "slug":
			return s.fold(r.Slug)
		}
		return s.fold(r.Symbol)
	}
	var missing []string
	for _, name := range []string{"id", "slug", "symbol"} {
		values, ok := q.filters[name]
		if !ok {
			continue
		}
		if m := absent(w.Lists[list], values, func(r *Row) string { return value(r, name) }, name == "id"); m != "" {
			missing = append(missing, name+"="+m)
		}
	}
	rows = slices.DeleteFunc(rows, func(r *Row) bool {
		passed := 0
		for name, values := range q.filters {
			if slices.Contains(values, value(r, name)) {
				passed++
			}
		}
		if s.has(FiltersOr) && len(q.filters) > 0 {
			return passed == 0
		}
		return passed < len(q.filters)
	})
	s.sort(rows, q)
	total := len(rows)
	pages := max(1, (total+q.size-1)/q.size)
	if s.has(WrongTotalPage) {
		pages = total/q.size + 1
	}
	from := min(q.offset, total)
	to := min(from+q.size, total)
	if s.has(RepeatsRow) && from > 0 {
		from--
		to = max(from, to-1)
	}
	items := `"items":[` + s.join(rows[from:to], q.links) + `]`
	if s.has(KeyOrder) {
		return fmt.Sprintf(`{"page":%d,%s,"total":%d,"total_page":%d}`, q.page, items, total, pages), strings.Join(missing, "&")
	}
	return fmt.Sprintf(`{%s,"page":%d,"total":%d,"total_page":%d}`, items, q.page, total, pages), strings.Join(missing, "&")
}

// absent returns the values that no row has, as X-Not-Found lists them.
func absent(rows []*Row, values []string, value func(*Row) string, number bool) string {
	have := map[string]bool{}
	for _, r := range rows {
		have[value(r)] = true
	}
	values = slices.DeleteFunc(slices.Clone(values), func(v string) bool { return have[v] })
	sort.Slice(values, func(i, j int) bool {
		if number && len(values[i]) != len(values[j]) {
			return len(values[i]) < len(values[j]) // none is negative in the tests
		}
		return values[i] < values[j]
	})
	values = slices.Compact(values)
	for i, v := range values {
		values[i] = strings.ReplaceAll(url.QueryEscape(v), "+", "%20")
	}
	return strings.Join(values, ",")
}

func (s *Server) sort(rows []*Row, q *query) {
	less := map[string]func(a, b *Row) int{
		"id":         func(a, b *Row) int { return int(a.ID) - int(b.ID) },
		"rank":       func(a, b *Row) int { return a.Rank - b.Rank },
		"name":       func(a, b *Row) int { return strings.Compare(s.fold(a.Name), s.fold(b.Name)) },
		"symbol":     func(a, b *Row) int { return strings.Compare(s.fold(a.Symbol), s.fold(b.Symbol)) },
		"slug":       func(a, b *Row) int { return strings.Compare(s.fold(a.Slug), s.fold(b.Slug)) },
		"market_cap": func(a, b *Row) int { return int(a.Cap - b.Cap) },
		"volume_24h": func(a, b *Row) int { return int(a.Volume - b.Volume) },
		"volume": func(a, b *Row) int {
			if a.NoVolume || b.NoVolume {
				return map[bool]int{true: 1}[b.NoVolume] - map[bool]int{true: 1}[a.NoVolume]
			}
			return int(a.Volume - b.Volume)
		},
	}[q.key]
	if s.has(CaseMatters) && q.key == "name" {
		less = func(a, b *Row) int { return strings.Compare(a.Name, b.Name) }
	}
	sort.SliceStable(rows, func(i, j int) bool { // rows come ascending by id
		a, b := rows[i], rows[j]
		if q.key == "rank" && (a.Rank == 0) != (b.Rank == 0) && !s.has(UnrankedFirst) {
			return b.Rank == 0
		}
		d := less(a, b)
		if q.desc {
			if d == 0 && s.has(TiesReversed) {
				return a.ID > b.ID
			}
			d = -d
		}
		return d < 0
	})
}

func (s *Server) join(rows []*Row, links bool) string {
	var parts []string
	for _, r := range rows {
		t := r.Text
		if links {
			t = t[:len(t)-1] + r.Tail
		}
		parts = append(parts, t)
	}
	return strings.Join(parts, ",")
}
