package oracle_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/memstore"
	"example.com/marketdata/loadtest/internal/fakeapi"
	"example.com/marketdata/loadtest/oracle"
)

var t0 = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// The oracle's fold and the one that builder and edge share are written apart
// and must agree on every code point.
func TestFold(t *testing.T) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if s := string(r); oracle.Fold(s) != artifacts.Fold(s) {
			t.Fatalf("U+%04X folds to %+q here and %+q there", r, oracle.Fold(s), artifacts.Fold(s))
		}
	}
	for in, want := range map[string]string{"": "", "AbC": "abc", "\u212a": "k", "ſ": "s", "É": "É", "é": "É", "a\xffB\x80": "a\xffb\x80", "日本": "日本"} {
		if got := oracle.Fold(in); got != want {
			t.Errorf("Fold(%q) = %q, want %q", in, got, want)
		}
	}
}

// Each row is a rule of INTERFACE.md, "Parameters", or of the sections behind
// it.
func TestParse(t *testing.T) {
	const refused = -1
	many := strings.TrimSuffix(strings.Repeat("1,", 101), ",")
	for _, tc := range []struct {
		target             string
		size, page, offset int64 // size refused: a 400
		sort               string
		filters            string // as fmt prints them
	}{
		{"assets", 20, 1, 0, "id", "map[]"},
		{"assets?page=3&size=50", 50, 3, 100, "id", "map[]"},
		{"assets?page=&slug=", 20, 1, 0, "id", "map[]"},
		{"assets?limit=10&offset=25", 10, 3, 25, "id", "map[]"},
		{"assets?page=2&limit=10&offset=25", 20, 2, 20, "id", "map[]"},
		{"assets?size=50&limit=10", 10, 1, 0, "id", "map[]"},
		{"assets?size=0", 20, 1, 0, "id", "map[]"},
		{"assets?size=-5", 20, 1, 0, "id", "map[]"},
		{"assets?limit=0", 20, 1, 0, "id", "map[]"},
		{"assets?limit=10&size=500", refused, 0, 0, "", ""},
		{"assets?size=101", refused, 0, 0, "", ""},
		{"assets?page=0", refused, 0, 0, "", ""},
		{"assets?page=9223372036854775807", 20, 9223372036854775807, 1 << 53 * 20, "id", "map[]"},
		{"assets?page=9223372036854775808", refused, 0, 0, "", ""},
		{"assets?page=1.5", refused, 0, 0, "", ""},
		{"assets?page=1e3", refused, 0, 0, "", ""},
		{"assets?page=+1", refused, 0, 0, "", ""},
		{"assets?page=%2B1", refused, 0, 0, "", ""},
		{"assets?page=0x1", refused, 0, 0, "", ""},
		{"assets?page=-", refused, 0, 0, "", ""},
		{"assets?page=007", 20, 7, 120, "id", "map[]"},
		{"assets?offset=100000", 20, 5001, 100000, "id", "map[]"},
		{"assets?offset=100001", refused, 0, 0, "", ""},
		{"assets?offset=-1", refused, 0, 0, "", ""},
		{"assets?page=1&offset=-1", refused, 0, 0, "", ""},
		{"assets?page=1&limit=x", refused, 0, 0, "", ""},
		{"exchanges?limit=10&size=500", 10, 1, 0, "id", "map[]"},
		{"exchanges?page=1&limit=x&offset=-1", 20, 1, 0, "id", "map[]"},
		{"exchanges?size=0", refused, 0, 0, "", ""},
		{"exchanges?limit=-1", refused, 0, 0, "", ""},
		{"exchanges?size=101", refused, 0, 0, "", ""},
		{"categories", 20, 1, 0, "market_cap:desc", "map[]"},
		{"chains?sort=market_cap", 20, 1, 0, "market_cap", "map[]"},
		{"chains?sort=volume", refused, 0, 0, "", ""},
		{"chains?sort=display_name", refused, 0, 0, "", ""},
		{"exchanges?sort=symbol", refused, 0, 0, "", ""},
		{"quotes?sort=rank", refused, 0, 0, "", ""},
		{"assets?sort=rank:DESC", 20, 1, 0, "rank:desc", "map[]"},
		{"assets?sort=%C5%BFlug", 20, 1, 0, "slug", "map[]"}, // ſ folds to s
		{"assets?sort=name:", refused, 0, 0, "", ""},
		{"assets?sort=:asc", refused, 0, 0, "", ""},
		{"assets?sort=name:up", refused, 0, 0, "", ""},
		{"assets?sort=name:asc:", refused, 0, 0, "", ""},
		{"assets?sort=+name", refused, 0, 0, "", ""},
		{"assets?id=1,2,1", 20, 1, 0, "id", "map[id:[1 2]]"},
		{"assets?id=,7,,007", 20, 1, 0, "id", "map[id:[7]]"},
		{"assets?id=,", 20, 1, 0, "id", "map[id:[]]"},
		{"assets?id=a", refused, 0, 0, "", ""},
		{"assets?id=1.5", refused, 0, 0, "", ""},
		{"assets?id=-3", 20, 1, 0, "id", "map[id:[-3]]"},
		{"assets?id=" + many, refused, 0, 0, "", ""},
		{"assets?fields=" + many, refused, 0, 0, "", ""},
		{"quotes?fields=" + many, 20, 1, 0, "id", "map[]"},
		{"exchanges?symbol=" + many, 20, 1, 0, "id", "map[]"},
		{"quotes?symbol=" + many, refused, 0, 0, "", ""},
		{"quotes?symbol=BTC,btc,%E2%84%AA", 20, 1, 0, "id", "map[symbol:[btc k]]"},
		{"quotes?slug=a+b,c%26d,%zz,%4", 20, 1, 0, "id", "map[slug:[a b c&d %zz %4]]"},
		{"quotes?slug=a%2Cb", 20, 1, 0, "id", "map[slug:[a b]]"},
		{"quotes?slug=a&slug=b", 20, 1, 0, "id", "map[slug:[a]]"},
		{"quotes?slug=&slug=b", 20, 1, 0, "id", "map[]"},
		{"quotes?Slug=a", 20, 1, 0, "id", "map[]"},
		{"quotes?slug=a;size=7", 20, 1, 0, "id", "map[slug:[a;size=7]]"},
	} {
		t.Run(tc.target, func(t *testing.T) {
			path, raw, _ := strings.Cut(tc.target, "?")
			q, refusal := oracle.Parse(oracle.Prefix+path, raw)
			if tc.size == refused {
				if refusal == nil || refusal.Status != 400 || refusal.Code != 40000 {
					t.Fatalf("refusal %v, want a 400", refusal)
				}
				return
			}
			if refusal != nil {
				t.Fatalf("refused: %v", refusal)
			}
			sort := q.Sort
			if q.Desc {
				sort += ":desc"
			}
			if q.Size != tc.size || q.Page != tc.page || q.Offset != tc.offset || sort != tc.sort || fmt.Sprint(q.Filters) != tc.filters {
				t.Errorf("size %d, page %d, offset %d, sort %s, filters %v", q.Size, q.Page, q.Offset, sort, q.Filters)
			}
		})
	}
	for target, status := range map[string]int{
		"trending": 0, "trending?by=": 0, "trending?by=+%09Gainers%0D%0A": 0, "trending?by=searched": 400, "trending?by=%C2%A0gainers": 400, "trending?size=1000": 0,
		"global?page=0&id=x": 0, "assets/": 404, "Assets": 404, "asset%73": 404, "nothing": 404, "": 404,
	} {
		path, raw, _ := strings.Cut(target, "?")
		_, refusal := oracle.Parse(oracle.Prefix+path, raw)
		if got := 0; refusal == nil && status != got || refusal != nil && refusal.Status != status {
			t.Errorf("%q: %v, want %d", target, refusal, status)
		}
	}
}

func TestIgnored(t *testing.T) {
	long := strings.Repeat("x", 255)
	for target, want := range map[string]string{
		"assets?id=1&slug=a&symbol=k&fields=links&sort=id&page=1&size=2": "",
		"quotes?id=1&i%64=2&fields=links&%C3%A4+=1&Z":                    "Z,fields,id,%C3%A4%20",
		"quotes?page=1&limit=5&offset=&size=":                            "limit",
		"quotes?limit=5&size=7&page=":                                    "size",
		"quotes?page=&page=2&limit=5":                                    "page",
		"quotes?=1&&mdk_live_1=1&amdk%5Flive_=1&mdk_live=1":              "mdk_live",
		"quotes?" + long + "&y":                                          long,
		"quotes?" + long + "xx&y":                                        "",
		"trending?by=&page=1":                                            "page",
		"trending?by=&by=":                                               "by",
		"global?by=&id=":                                                 "by,id",
	} {
		path, raw, _ := strings.Cut(target, "?")
		if q, refusal := oracle.Parse(oracle.Prefix+path, raw); refusal != nil || q.Ignored != want {
			t.Errorf("%s: %v, X-Ignored %q, want %q", target, refusal, q.Ignored, want)
		}
	}
}

func load(t *testing.T, w *fakeapi.World) *oracle.Snapshot {
	t.Helper()
	store := memstore.New()
	if err := fakeapi.Publish(context.Background(), store, w); err != nil {
		t.Fatal(err)
	}
	m, err := oracle.FindManifest(context.Background(), store, w.Time)
	if err != nil {
		t.Fatal(err)
	}
	s, err := oracle.Load(context.Background(), store, m)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// randomTarget draws a request that may be right or wrong in many ways.
func randomTarget(r *rand.Rand, w *fakeapi.World) string {
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	list := pick("assets", "quotes", "exchanges", "categories", "chains", "trending", "global")
	var params []string
	add := func(name, value string) { params = append(params, name+"="+value) }
	row := func() *fakeapi.Row {
		rows := w.Lists["assets"]
		if len(w.Lists[list]) > 0 {
			rows = w.Lists[list]
		}
		return rows[r.IntN(len(rows))]
	}
	for range r.IntN(4) {
		switch r.IntN(8) {
		case 0:
			add("page", pick("1", "2", "3", "0", "", "-1", "99999999999999999999", "2x", "4611686018427387904"))
		case 1:
			add("size", pick("1", "7", "100", "101", "0", "-1", "", "5"))
		case 2:
			add("limit", pick("1", "13", "100", "101", "0", ""))
		case 3:
			add("offset", pick("0", "1", "19", "100000", "100001", "-1", ""))
		case 4:
			add("sort", pick("id", "name", "symbol", "slug", "rank", "volume", "market_cap", "volume_24h", "display_name")+pick("", ":asc", ":desc", ":DESC", ":"))
		case 5:
			add("id", fmt.Sprintf("%d,%d,,999999", row().ID, row().ID))
		case 6:
			add("slug", url.QueryEscape(strings.ToUpper(row().Slug)+","+row().Slug+",none such"))
		case 7:
			add("symbol", url.QueryEscape(row().Symbol+","+pick("k", "ſ", "s", "S", "btc", "missing&")))
		}
		if r.IntN(8) == 0 {
			add("fields", pick("links", "LINKS,x", "linkſ", "rank"))
		}
		if r.IntN(20) == 0 {
			add("by", pick("gainers", "searched"))
		}
	}
	return oracle.Prefix + list + "?" + strings.Join(params, "&")
}

// disagreement asks the server and the oracle the same and tells where they
// part.
func disagreement(t *testing.T, srv http.Handler, s *oracle.Snapshot, target string) string {
	t.Helper()
	req := httptest.NewRequest("GET", target, nil)
	req.Header.Set("X-Api-Key", fakeapi.Key)
	rec := httptest.NewRecorder()
	srv.ServeHTTP(rec, req)
	q, refusal := oracle.Parse(req.URL.EscapedPath(), req.URL.RawQuery)
	if refusal != nil {
		if rec.Code != refusal.Status {
			return fmt.Sprintf("%s: status %d, want %d: %s", target, rec.Code, refusal.Status, refusal.Why)
		}
		return ""
	}
	a := s.Answer(q, nil)
	if rec.Code != 200 || rec.Body.String() != string(a.Body) {
		return fmt.Sprintf("%s: status %d\ngot  %s\nwant %s", target, rec.Code, rec.Body, a.Body)
	}
	if got := rec.Header().Get("X-Ignored"); got != q.Ignored {
		return fmt.Sprintf("%s: X-Ignored %q, want %q", target, got, q.Ignored)
	}
	if got := rec.Header().Get("X-Not-Found"); got != a.NotFound {
		return fmt.Sprintf("%s: X-Not-Found %q, want %q", target, got, a.NotFound)
	}
	return ""
}

// A server that was written apart from the oracle agrees with it, and each
// fault planted in its parsing, matching, order or rendering is found.
func TestAgainstServer(t *testing.T) {
	w := fakeapi.NewWorld(t0, 130, 1)
	s := load(t, w)
	if len(s.Faults) > 0 {
		t.Fatal(s.Faults)
	}
	srv := fakeapi.NewServer(w)
	const n = 4000
	first := func() string {
		r := rand.New(rand.NewPCG(1, 2))
		for range n {
			if d := disagreement(t, srv, s, randomTarget(r, w)); d != "" {
				return d
			}
		}
		return ""
	}
	if d := first(); d != "" {
		t.Fatal(d)
	}
	for _, fault := range []string{
		fakeapi.PlusIsPlus, fakeapi.ZeroIsRefused, fakeapi.LastCounts, fakeapi.SizeClamped,
		fakeapi.MatchesLower, fakeapi.FiltersOr, fakeapi.NoNotFound, fakeapi.NoIgnored,
		fakeapi.TiesReversed, fakeapi.UnrankedFirst, fakeapi.CaseMatters,
		fakeapi.EscapesHTML, fakeapi.TrailingZero, fakeapi.KeyOrder, fakeapi.WrongTotalPage, fakeapi.RepeatsRow,
	} {
		srv.Break(fault)
		if first() == "" {
			t.Errorf("fault %q was not found in %d answers", fault, n)
		}
	}
}

// A row that breaks the interface by itself is a fault of the snapshot, even
// though every server that copies it agrees with the others.
func TestFaultsOfTheSnapshot(t *testing.T) {
	for name, change := range map[string]struct{ list, from, to string }{
		"exponent":          {"quotes", `"1y":"12.000000000001"`, `"1y":"1.2e1"`},
		"trailing zero":     {"exchanges", `"taker":"0.25"`, `"taker":"0.250"`},
		"minus zero":        {"quotes", `"6h":"-0.5"`, `"6h":"-0"`},
		"too many decimals": {"exchanges", `"taker":"0.25"`, `"taker":"0.123456789"`},
		"missing window":    {"quotes", `,"30d":"0"`, ``},
		"negative price":    {"quotes", `"price":"`, `"price":"-`},
	} {
		t.Run(name, func(t *testing.T) {
			w := fakeapi.NewWorld(t0, 40, 1)
			row := w.Lists[change.list][0]
			changed := strings.Replace(row.Text, change.from, change.to, 1)
			if changed == row.Text {
				t.Fatalf("no %q in %s", change.from, row.Text)
			}
			row.Text = changed
			if s := load(t, w); len(s.Faults) == 0 {
				t.Errorf("not found in %s", changed)
			}
		})
	}
	// Bytes that decode to the same but are not what the interface writes show
	// when the answer is compared.
	for name, change := range map[string][2]string{"white space": {`,"price"`, `, "price"`}, "escape": {`https://`, `https:\/\/`}} {
		w := fakeapi.NewWorld(t0, 40, 1)
		row := w.Lists["quotes"][0]
		changed := strings.Replace(row.Text, change[0], change[1], 1)
		if changed == row.Text || !json.Valid([]byte(changed)) {
			t.Fatalf("%s: %q is not in %s", name, change[0], row.Text)
		}
		row.Text = changed
		if disagreement(t, fakeapi.NewServer(w), load(t, w), oracle.Prefix+"quotes?id=1") == "" {
			t.Errorf("%s: not found in %s", name, changed)
		}
	}
}

func TestFindManifest(t *testing.T) {
	ctx, store := context.Background(), memstore.New()
	a, b := fakeapi.NewWorld(t0, 40, 1), fakeapi.NewWorld(t0.Add(10*time.Minute), 40, 1)
	if _, err := oracle.FindManifest(ctx, store, t0); !errors.Is(err, artifacts.ErrNotFound) {
		t.Errorf("empty store: %v", err)
	}
	if err := fakeapi.Publish(ctx, store, a, b); err != nil {
		t.Fatal(err)
	}
	for _, w := range []*fakeapi.World{a, b} {
		m, err := oracle.FindManifest(ctx, store, w.Time)
		if err != nil || !m.Time.Equal(w.Time) {
			t.Errorf("%v: %v", w.Time, err)
		}
	}
	if _, err := oracle.FindManifest(ctx, store, t0.Add(time.Hour)); !errors.Is(err, oracle.ErrNoSnapshot) {
		t.Errorf("unknown snapshot: %v", err)
	}
}

func TestChange(t *testing.T) {
	s := load(t, fakeapi.NewWorld(t0, 40, 1))
	for name, tc := range map[string]struct {
		c    *artifacts.Change
		want string
	}{
		"none":             {nil, ""},
		"good":             {&artifacts.Change{Database: "fake", Value: "-2.35"}, "-2.35"},
		"nine digits":      {&artifacts.Change{Database: "fake", Value: "123456789.5"}, "123456789.5"},
		"ten digits":       {&artifacts.Change{Database: "fake", Value: "1234567890"}, ""},
		"another database": {&artifacts.Change{Database: "other", Value: "1"}, ""},
		"no decimal":       {&artifacts.Change{Database: "fake", Value: "1e5"}, ""},
	} {
		got := s.Change(tc.c)
		if (got == nil) != (tc.want == "") || got != nil && *got != tc.want {
			t.Errorf("%s: %v, want %q", name, got, tc.want)
		}
	}
	store := memstore.New()
	if c, err := oracle.GetChange(context.Background(), store); c != nil || err != nil {
		t.Errorf("no record: %v, %v", c, err)
	}
	rec := &artifacts.Change{Format: artifacts.Format, Database: "fake", Time: t0, Value: "1.5"}
	if _, err := store.Swap(context.Background(), artifacts.ChangeKey, "", rec.Encode()); err != nil {
		t.Fatal(err)
	}
	c, err := oracle.GetChange(context.Background(), store)
	if err != nil || c == nil || c.Value != "1.5" {
		t.Errorf("record: %v, %v", c, err)
	}
	q, _ := oracle.Parse(oracle.Prefix+"global", "")
	if got := string(s.Answer(q, s.Change(c)).Body); !strings.Contains(got, `"total_market_cap_change_percentage_24h":"1.5","data_time":"2026-11-01T12:00:00Z"}}`) {
		t.Errorf("/global is %s", got)
	}
}

// FuzzParse: whatever is sent, the oracle decides, and within bounds.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"page=1&size=20", "id=1,2&sort=name:desc", "slug=%zz+%41&&=&", "page=9223372036854775807&size=100", "limit=1&offset=100000"} {
		f.Add("assets", s)
		f.Add("exchanges", s)
	}
	f.Fuzz(func(t *testing.T, endpoint, raw string) {
		q, refusal := oracle.Parse(oracle.Prefix+endpoint, raw)
		switch {
		case refusal != nil && q == nil && (refusal.Status == 400 || refusal.Status == 404):
		case refusal != nil || q == nil:
			t.Fatalf("query %v and refusal %v", q, refusal)
		case q.Endpoint != "global" && q.Endpoint != "trending" && (q.Size < 1 || q.Size > 100 || q.Offset < 0 || q.Page < 1):
			t.Fatalf("query %+v", q)
		}
	})
}
