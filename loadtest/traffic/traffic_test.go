package traffic_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"example.com/marketdata/internal/model"
	"example.com/marketdata/internal/test/faultedge"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/teststore"
	"example.com/marketdata/loadtest/check"
	"example.com/marketdata/loadtest/client"
	"example.com/marketdata/loadtest/engine"
	"example.com/marketdata/loadtest/traffic"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var t0 = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

func serve(t *testing.T, h http.Handler) *client.Endpoint {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return must.Get(client.ParseEndpoint(srv.URL, false))(t)
}

// market runs an edge with a snapshot of n assets.
func market(t *testing.T, n int) *faultedge.Edge {
	t.Helper()
	store := memstore.New()
	teststore.PublishAwkward(t, store, n, t0, 1)
	return faultedge.Start(t, store)
}

func readDirectory(t *testing.T, e *client.Endpoint, key string, rows int) *traffic.Directory {
	t.Helper()
	return must.Get(traffic.ReadDirectory(context.Background(), e, key, rows, nil))(t)
}

func TestReadDirectory(t *testing.T) {
	srv := market(t, 230)
	w := teststore.Read(t, srv.Store).Oracle(t, srv.Store)
	var n atomic.Int32
	e := serve(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if n.Add(1) == 3 { // refused because of the rate, so it is retried after this time
			rw.Header().Set("Retry-After", "1")
			rw.WriteHeader(429)
			return
		}
		srv.ServeHTTP(rw, r)
	}))
	d := readDirectory(t, e, srv.Key, 1000)
	for list, rows := range w.Lists {
		if list == "trending" || list == "quotes" || list == "markets" {
			continue
		}
		l := d.Lists[list]
		if l.Total != len(rows) || len(l.Entries) != len(rows) {
			t.Errorf("%s: %d entries of %d, want %d", list, len(l.Entries), l.Total, len(rows))
		}
	}
	if d.Lists["quotes"].Total != len(w.Lists["quotes"]) || d.Snapshot != t0.Format(model.TimeFormat) {
		t.Errorf("%d quotes of snapshot %s", d.Lists["quotes"].Total, d.Snapshot)
	}
	if first := d.Lists["assets"].Entries[0]; first.ID != fmt.Sprint(best(w).ID) {
		t.Errorf("the most popular asset is %v", first)
	}
	// The directory contains whole pages.
	if d = readDirectory(t, e, srv.Key, 150); len(d.Lists["assets"].Entries) != 200 || d.Lists["assets"].Total != 230 {
		t.Errorf("%d entries read of %d", len(d.Lists["assets"].Entries), d.Lists["assets"].Total)
	}
	if _, err := traffic.ReadDirectory(context.Background(), e, "wrong", 1000, nil); err == nil ||
		!strings.Contains(err.Error(), "401") {
		t.Errorf("wrong key: %v", err)
	}
}

func best(w *teststore.Oracle) model.Row {
	rows := w.Lists["assets"]
	return rows[slices.IndexFunc(rows, func(r model.Row) bool { return r.Rank == 1 })]
}

// Every built-in scenario sends only requests that a correct server answers as expected, and sends requests
// of every kind that it lists.
func TestScenarios(t *testing.T) {
	srv := market(t, 230)
	if len(traffic.Scenarios()) < 3 {
		t.Fatalf("scenarios: %v", traffic.Scenarios())
	}
	for _, name := range traffic.Scenarios() {
		t.Run(name, func(t *testing.T) {
			s := must.Get(traffic.LoadScenario(name))(t)
			if s.Name != name || s.Description == "" {
				t.Errorf("name %q, description %q", s.Name, s.Description)
			}
			e := serve(t, srv)
			c := check.New(check.Config{Share: 1, Store: srv.Store})
			m := must.Get(traffic.NewMix(s, readDirectory(t, e, srv.Key, 1000), 1, []string{srv.Key}, c))(t)
			conn, session := client.New(e), m.Session()
			defer conn.Close()
			statuses, classes := map[int]int{}, map[int]int{}
			const n = 1000
			for i := range uint64(n) {
				req := session.Request(i, e)
				class := req.Class
				resp, err := conn.Do(context.Background(), req.Bytes, req.Head)
				if err != nil {
					t.Fatalf("%s: %v", req.Bytes, err)
				}
				status := resp.Status
				if v := session.Answer(resp); v != engine.OK {
					t.Fatalf("verdict %v: status %d to %s", v, status, req.Bytes)
				}
				statuses[status]++
				classes[class]++
			}
			if rep := c.Finish(context.Background(), nil); len(rep.Findings) > 0 {
				t.Fatalf("%s: %v", rep.Findings[0].Kind, rep.Findings[0].Examples)
			}
			if len(classes) != len(m.Classes()) {
				t.Errorf("requests of %d classes of %v", len(classes), m.Classes())
			}
			if s.Conditional > 0 && statuses[304] < n/50 {
				t.Errorf("statuses %v with a conditional share of %v", statuses, s.Conditional)
			}
			refused := float64(statuses[400]+statuses[401]+statuses[404]+statuses[429]) / n
			if want := s.BadKey + s.BadParameter; math.Abs(refused-want) > 0.05 || (want > 0) != (refused > 0) {
				t.Errorf("%.3f were refused, want %.3f", refused, want)
			}
		})
	}
}

// The same seed gives the same requests, regardless of the connections that send them.
func TestSeed(t *testing.T) {
	srv := market(t, 100)
	e := serve(t, srv)
	d := readDirectory(t, e, srv.Key, 1000)
	s := must.Get(traffic.LoadScenario("mixed"))(t)
	c := check.New(check.Config{Share: 1})
	defer c.Finish(context.Background(), nil)
	requests := func(seed uint64, order []int) map[int]string {
		m := must.Get(traffic.NewMix(s, d, seed, []string{"k1", "k2"}, c))(t)
		session, all := m.Session(), map[int]string{}
		for _, i := range order {
			all[i] = string(session.Request(uint64(i), e).Bytes)
		}
		return all
	}
	order := rand.New(rand.NewPCG(1, 1)).Perm(500)
	a, other := requests(7, order), requests(8, order)
	order2 := rand.New(rand.NewPCG(2, 2)).Perm(500)
	differ := 0
	for i, req := range requests(7, order2) {
		if a[i] != req {
			t.Fatalf("request %d is %q, and %q in another order", i, a[i], req)
		}
		if other[i] != req {
			differ++
		}
		if _, err := http.ReadRequest(bufio.NewReader(strings.NewReader(req))); err != nil {
			t.Fatalf("%q: %v", req, err)
		}
		if strings.Contains(req, fmt.Sprintf("X-Api-Key: k%d\r\n", 2-i%2)) {
			t.Fatalf("request %d has the other key: %q", i, req)
		}
	}
	if differ < 400 {
		t.Errorf("%d of 500 requests differ with another seed", differ)
	}
}

// Popularity follows Zipf's law with the exponent that was set.
func TestZipf(t *testing.T) {
	srv := market(t, 100)
	e := serve(t, srv)
	d := readDirectory(t, e, srv.Key, 1000)
	for _, exponent := range []float64{0, 0.8, 1.07, 2} {
		c := check.New(check.Config{})
		m := must.Get(traffic.NewMix(&traffic.Scenario{
			Zipf: exponent, Mix: []traffic.Kind{{Endpoint: "assets", By: "id", Weight: 1, Values: 1}},
		}, d, 1, nil, c))(t)
		const n = 50_000
		count := map[string]float64{}
		session := m.Session()
		for i := range uint64(n) {
			req := session.Request(i, e).Bytes
			_, rest, _ := bytes.Cut(req, []byte("id="))
			id, _, _ := bytes.Cut(rest, []byte(" "))
			count[string(id)]++
		}
		sum := 0.0
		for i := range d.Lists["assets"].Entries {
			sum += math.Pow(float64(i+1), -exponent)
		}
		for _, i := range []int{0, 1, 9} {
			want := n * math.Pow(float64(i+1), -exponent) / sum
			if got := count[d.Lists["assets"].Entries[i].ID]; math.Abs(got-want) > 5*math.Sqrt(want)+1 {
				t.Errorf("exponent %v: row %d asked %v times, want about %.0f", exponent, i+1, got, want)
			}
		}
		c.Finish(context.Background(), nil)
	}
}

func TestParseScenarioRefuses(t *testing.T) {
	const mix = "mix: [{endpoint: quotes, weight: 1}]\n"
	must.Get(traffic.ParseScenario([]byte(mix)))(t)
	for _, s := range []string{
		"", "mix: []", "mix: [{endpoint: coins, weight: 1}]", "mix: [{endpoint: quotes, weight: -1}]",
		"mix: [{endpoint: quotes}]",
		"mix: [{endpoint: exchanges, weight: 1, by: symbol}]", "mix: [{endpoint: global, weight: 1, sizes: [5]}]",
		"mix: [{endpoint: quotes, weight: 1, sizes: [101]}]",
		"mix: [{endpoint: quotes, weight: 1, values: 101}]", "mix: [{endpoint: quotes, weight: 1, deep: 2}]",
		"mix: [{endpoint: quotes, weight: 1, sorts: ['a b']}]",
		"mix: [{endpoint: history, weight: 1}]", "mix: [{endpoint: history, weight: 1, by: id, sizes: [21]}]",
		"mix: [{endpoint: history, weight: 1, by: id, windows: [1w]}]",
		"mix: [{endpoint: history, weight: 1, by: id, sorts: [id]}]",
		"mix: [{endpoint: candles, weight: 1, by: id, intervals: [5m]}]", "mix: [{endpoint: candles, weight: 1}]",
		"mix: [{endpoint: quotes, weight: 1, csv: true}]",
		"mix: [{endpoint: candles, weight: 1, by: id, values: 21}]",
		"mix: [{endpoint: prices, weight: 1, by: id, times: 101}]",
		"mix: [{endpoint: prices, weight: 1, by: id, values: 100, times: 11}]",
		"mix: [{endpoint: quotes, weight: 1, times: 1}]", "mix: [{endpoint: quotes, weight: 1, intervals: [1h]}]",
		"mix: [{endpoint: quotes, weight: 1, windows: [7d]}]", "mix: [{endpoint: search, weight: 1}]",
		"mix: [{endpoint: search, weight: 1, by: q, values: 2}]",
		"mix: [{endpoint: search, weight: 1, by: q, sizes: [1]}]",
		mix + "zipf: -1", mix + "zipf: .nan", mix + "conditional: 1.5", mix + "compressed: 0.5",
		mix + "bad_key: 0.6\nbad_parameter: 0.6", mix + "speling: 1",
		mix + `codings: ["a\r\nb"]`,
	} {
		if _, err := traffic.ParseScenario([]byte(s)); err == nil {
			t.Errorf("%q was taken", s)
		}
	}
	if _, err := traffic.LoadScenario("none"); err == nil || !strings.Contains(err.Error(), "mixed") {
		t.Errorf("unknown scenario: %v", err)
	}
	file := filepath.Join(t.TempDir(), "mine.yaml")
	must.OK(t, os.WriteFile(file, []byte(mix), 0o600))
	if s, err := traffic.LoadScenario(file); err != nil || s.Name != "mine" {
		t.Errorf("file: %v, %v", s, err)
	}
}

func TestMixRefuses(t *testing.T) {
	s := &traffic.Scenario{Mix: []traffic.Kind{{Endpoint: "chains", By: "slug", Weight: 1, Values: 1}}}
	if _, err := traffic.NewMix(s, &traffic.Directory{}, 1, nil, nil); err == nil {
		t.Error("chains by slug of a service without chains")
	}
}

func TestTargets(t *testing.T) {
	dir := t.TempDir()
	must.OK(t, os.WriteFile(filepath.Join(dir, "body.json"), []byte(`{"a":1}`), 0o600))
	const text = `# three in a row
GET http://old.example/a?b=c%20d
GET /plain
HEAD http://old.example

POST http://old.example/post
Content-Type: application/json
X-Api-Key: own
@body.json
`
	targets := must.Get(traffic.ParseTargets(strings.NewReader(text), dir))(t)
	if base, err := traffic.Base(targets); base != "http://old.example" || err != nil {
		t.Errorf("base %q, %v", base, err)
	}
	var got []string
	e := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var b bytes.Buffer
		b.ReadFrom(r.Body)
		got = append(got, fmt.Sprintf(
			"%s %s %s %s %s", r.Method, r.RequestURI, r.Header.Get("Content-Type"), r.Header.Get("X-Api-Key"), &b))
	}))
	c := check.New(check.Config{Share: 1})
	defer c.Finish(context.Background(), nil)
	src := traffic.NewTargets(targets, []string{"key"}, c)
	conn, session := client.New(e), src.Session()
	defer conn.Close()
	for i := range uint64(5) {
		req := session.Request(i, e)
		resp := must.Get(conn.Do(context.Background(), req.Bytes, req.Head))(t)
		if v := session.Answer(resp); v != engine.OK {
			t.Errorf("verdict %v", v)
		}
	}
	want := []string{"GET /a?b=c%20d  key ", "GET /plain  key ", "HEAD /  key ",
		`POST /post application/json own {"a":1}`, "GET /a?b=c%20d  key "}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("sent %q, want %q", got, want)
	}
	if classes := src.Classes(); fmt.Sprint(classes) != "[/a /plain HEAD / POST /post]" {
		t.Errorf("classes %q", classes)
	}
	for _, bad := range []string{"", "# nothing", "GET", "GET nowhere", "Header: x", "@file", "GET /a\n@missing",
		"get /a", "GET /a\nno colon here"} {
		if _, err := traffic.ParseTargets(strings.NewReader(bad), dir); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
	two := must.Get(traffic.ParseTargets(strings.NewReader("GET http://a/\nGET http://b/"), dir))(t)
	if _, err := traffic.Base(two); err == nil {
		t.Error("two bases were taken")
	}
	var many strings.Builder
	for i := range 40 {
		fmt.Fprintf(&many, "GET /%d\n", i)
	}
	forty := must.Get(traffic.ParseTargets(strings.NewReader(many.String()), dir))(t)
	if classes := traffic.NewTargets(forty, nil, c).Classes(); len(classes) != 16 || classes[15] != "others" {
		t.Errorf("%d classes: %q", len(classes), classes)
	}
}

func FuzzTargets(f *testing.F) {
	f.Add("GET http://a.example/b\nA: b\n\nPOST /c\n# d\n")
	f.Add("GET ?x\nGET http://h?q#f\n")
	f.Fuzz(func(t *testing.T, s string) {
		targets, err := traffic.ParseTargets(strings.NewReader(strings.ReplaceAll(s, "@", "")), t.TempDir())
		if err != nil {
			return
		}
		for _, target := range targets {
			if target.Path[0] != '/' || strings.ContainsAny(target.Path+strings.Join(target.Header, ""), "\r\n") {
				t.Fatalf("target %+q", target)
			}
		}
	})
}

func FuzzScenario(f *testing.F) {
	f.Add([]byte("mix: [{endpoint: quotes, weight: 1, by: id}]\nzipf: 1"))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := traffic.ParseScenario(b)
		if err != nil {
			return
		}
		c := check.New(check.Config{})
		defer c.Finish(context.Background(), nil)
		rows := &traffic.List{
			Total: 3, Entries: []traffic.Entry{{ID: "1", Slug: "a", Symbol: "A"}, {ID: "2"}, {ID: "3"}}}
		d := &traffic.Directory{Lists: map[string]*traffic.List{
			"assets": rows, "exchanges": rows, "categories": rows, "chains": rows, "quotes": rows}}
		m := must.Get(traffic.NewMix(s, d, 1, nil, c))(t)
		session := m.Session()
		for i := range uint64(20) {
			if req := session.Request(i, &client.Endpoint{Host: "h"}); !bytes.HasSuffix(req.Bytes, []byte("\r\n\r\n")) {
				t.Fatalf("request %q", req.Bytes)
			}
		}
	})
}
