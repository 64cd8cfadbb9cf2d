package fakeapi

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"example.com/marketdata/internal/model"
)

// Key is the API key that the server takes.
const Key = "mdk_live_fake"

// The faults that a Server can be told to have.
const (
	ZeroIsRefused     = "zero-is-refused"     // parsing: size=0 is a 400
	SizeClamped       = "size-clamped"        // parsing: size=500 is answered with 100 rows
	MatchesLower      = "matches-lower"       // matching: by lower case instead of the fold
	FiltersOr         = "filters-or"          // matching: filters are combined with OR
	NoNotFound        = "no-not-found"        // matching: X-Not-Found is left out
	NoIgnored         = "no-ignored"          // parsing: X-Ignored is left out
	TiesReversed      = "ties-reversed"       // order: ties by id descending in a descending order
	UnrankedFirst     = "unranked-first"      // order: assets without a rank come first
	CaseMatters       = "case-matters"        // order: by the bytes of the text
	EscapesHTML       = "escapes-html"        // rendering: & is \u0026
	TrailingZero      = "trailing-zero"       // rendering: "0.250"
	KeyOrder          = "key-order"           // rendering: page before items
	WrongTotalPage    = "wrong-total-page"    // page arithmetic
	RepeatsRow        = "repeats-row"         // the last row of a page is on the next one too
	NoRequestID       = "no-request-id"       // one header less
	SameRequestID     = "same-request-id"     // the same one each time
	MixesSnapshots    = "mixes-snapshots"     // answers from the snapshot before, and says it is the newest
	OwnPointTwice     = "own-point-twice"     // history: the newest point of an asset is there twice
	NoOwnPoint        = "no-own-point"        // history: the newest point is left out, of assets that have others
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

// NewServer returns a server of the worlds, the newest last.
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

var atPath = regexp.MustCompile(`^/at/(\d{4})(\d\d)(\d\dT\d\d)(\d\d)(\d\dZ)(/.*)$`)

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if m := atPath.FindStringSubmatch(r.URL.Path); m != nil {
		r = r.Clone(r.Context())
		r.Header.Set("X-Snapshot-Time", fmt.Sprintf("%s-%s-%s:%s:%s", m[1], m[2], m[3], m[4], m[5]))
		r.URL.Path, r.URL.RawPath = m[6], ""
	}
	n := s.n.Add(1)
	h := w.Header()
	if id := r.Header.Get("X-Request-Id"); requestID.MatchString(id) {
		h.Set("X-Request-Id", id)
	} else if s.has(SameRequestID) {
		h.Set("X-Request-Id", "01234567890123456789")
	} else if !s.has(NoRequestID) {
		h.Set("X-Request-Id", fmt.Sprintf("%020d", n))
	}
	a := s.answer(r)
	h.Set("Content-Type", "application/json")
	if a.Status != 200 {
		h.Set("Cache-Control", "no-store")
		w.WriteHeader(a.Status)
		fmt.Fprintf(w, `{"code":%d,"message":"no","message_key":%q,"result":{}}`, a.Code, a.MessageKey)
		return
	}
	body := []byte(a.Body)
	if s.Spoil != nil {
		body = s.Spoil(n, body)
	}
	h.Set("X-Snapshot-Time", a.SnapshotTime)
	if a.NotFound != "" && !s.has(NoNotFound) {
		h.Set("X-Not-Found", a.NotFound)
	}
	if a.Ignored != "" && !s.has(NoIgnored) {
		h.Set("X-Ignored", a.Ignored)
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

// answer is what the model answers, or with a fault something else.
func (s *Server) answer(r *http.Request) model.Answer {
	refuse := func(status, code int, key string) model.Answer {
		return model.Answer{Status: status, Code: code, MessageKey: key}
	}
	raw := s.misread(r.URL.RawQuery)
	q, refusal := model.Parse(r.URL.EscapedPath() + "?" + raw)
	switch {
	case refusal != nil && refusal.Status == 404:
		return *refusal
	case r.Header.Get("X-Api-Key") != Key && !s.has(TakesAnyKey):
		return refuse(401, 40100, "UNAUTHORIZED")
	case refusal != nil:
		return *refusal
	case s.has(ZeroIsRefused) && zeroSize.MatchString(raw):
		return refuse(400, 40000, "BAD_REQUEST")
	}
	s.mu.RLock()
	worlds := s.worlds
	s.mu.RUnlock()
	w := worlds[len(worlds)-1]
	snapshot := w.Time.Format(model.TimeFormat)
	if pin := r.Header.Get("X-Snapshot-Time"); pin != "" {
		if !model.IsSnapshotTime(pin) {
			return refuse(400, 40000, "BAD_REQUEST")
		}
		i := slices.IndexFunc(worlds, func(w *World) bool { return w.Time.Format(model.TimeFormat) == pin })
		if i < 0 {
			return refuse(410, 41000, "SNAPSHOT_GONE")
		}
		w, snapshot = worlds[i], pin
	} else if s.has(MixesSnapshots) && len(worlds) > 1 {
		w = worlds[len(worlds)-2]
	}
	if s.has(RepeatsRow) && q.Offset > 0 {
		q.Offset--
	}
	a := s.reordered(w.Snapshot, q).Answer(q, nil)
	if s.has(FiltersOr) && len(q.Filters) > 0 {
		a.Body = w.Answer(either(w.Snapshot, q), nil).Body
	}
	a.Body, a.SnapshotTime = s.miswritten(a.Body, q), snapshot
	return a
}

var (
	zeroSize  = regexp.MustCompile(`(^|&)(size|limit)=(0|-[0-9]+)(&|$)`)
	largeSize = regexp.MustCompile(`(size|limit)=[1-9][0-9]{2,}`)
	longS     = strings.NewReplacer("%C5%BF", "%3F", "ſ", "%3F")
	items     = regexp.MustCompile(`("items":\[.*\]),("page":[0-9]+)`)
	newest    = regexp.MustCompile(`(,\["[^"]*","[^"]*"\])\]\}`)
	totals    = regexp.MustCompile(`"total":([0-9]+),"total_page":[0-9]+`)
)

// misread is a query as a server with a fault in its parsing reads it.
func (s *Server) misread(raw string) string {
	switch {
	case s.has(SizeClamped):
		return largeSize.ReplaceAllString(raw, "$1=100")
	case s.has(MatchesLower): // which leaves ſ as it is: it finds no s
		return longS.Replace(raw)
	}
	return raw
}

// reordered is the snapshot as a server with a fault in its sorting has it.
func (s *Server) reordered(w *model.Snapshot, q *model.Query) *model.Snapshot {
	byID := q.Sort == "id" || len(q.Filters) > 0 && q.Filters[0].Name == "id"
	if q.Window != "" || !s.has(UnrankedFirst) && !s.has(CaseMatters) && (!s.has(TiesReversed) || !q.Desc || byID) {
		return w
	}
	rows := slices.Clone(w.Lists[q.Listing()])
	for i := range rows {
		r := &rows[i]
		switch {
		case s.has(UnrankedFirst) && r.Rank == 0:
			r.Rank = -1
		case s.has(CaseMatters):
			if err := json.Unmarshal([]byte(r.JSON), &struct{ Name *string }{&r.Name}); err != nil {
				panic(err)
			}
		case s.has(TiesReversed):
			r.ID = -r.ID
		}
	}
	return &model.Snapshot{Time: w.Time, Lists: map[string][]model.Row{q.Listing(): rows},
		TotalMarketCap: w.TotalMarketCap, TotalVolume: w.TotalVolume}
}

// either is a query for the rows that pass any of q's filters.
func either(w *model.Snapshot, q *model.Query) *model.Query {
	ids := model.Filter{Name: "id"}
	listing := q.Endpoint
	if q.Window != "" {
		listing = "assets"
	}
	for _, r := range w.Lists[listing] {
		if slices.ContainsFunc(q.Filters, func(f model.Filter) bool { return f.Matches(&r) }) {
			ids.Values = append(ids.Values, strconv.FormatInt(r.ID, 10))
		}
	}
	other := *q
	other.Filters = []model.Filter{ids}
	return &other
}

// miswritten is a body as a server with a fault in its rendering writes it.
func (s *Server) miswritten(body string, q *model.Query) string {
	switch {
	case s.has(EscapesHTML):
		return strings.ReplaceAll(body, "&", `\u0026`)
	case s.has(TrailingZero):
		return strings.ReplaceAll(body, `"0.25"`, `"0.250"`)
	case s.has(KeyOrder):
		return items.ReplaceAllString(body, "$2,$1")
	case s.has(OwnPointTwice):
		return newest.ReplaceAllString(body, "$1$1]}")
	case s.has(NoOwnPoint):
		return newest.ReplaceAllString(body, "]}")
	case s.has(WrongTotalPage):
		return totals.ReplaceAllStringFunc(body, func(text string) string {
			total, _ := strconv.ParseInt(totals.FindStringSubmatch(text)[1], 10, 64)
			return fmt.Sprintf(`"total":%d,"total_page":%d`, total, total/q.Size+1)
		})
	}
	return body
}
