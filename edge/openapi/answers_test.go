package openapi_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge"
	"example.com/marketdata/edge/server"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/openapitest"
	"example.com/marketdata/internal/test/testserver"
	"example.com/marketdata/internal/test/teststore"
	"github.com/getkin/kin-openapi/openapi3"
	"go.uber.org/goleak"
)

var update = flag.Bool("update", false, "write the answers that the examples are")

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"))
}

func newChecker(t *testing.T) *openapitest.Checker {
	t.Helper()
	return must.Get(openapitest.New())(t)
}

// patience bounds the time that a test waits. Nothing should ever take that long.
const patience = 20 * time.Second

// question is a request.
type question struct {
	method, target string
	header         []string // "Name: value"
	body           string
	half           bool // send the request without the end of its head
}

// service is a running edge and a key for it. If the key is "", requests contain none.
type service struct{ base, key string }

// ask sends a request byte for byte.
func (s service) ask(t *testing.T, q question) openapitest.Answer {
	t.Helper()
	host := strings.TrimPrefix(s.base, "http://")
	conn, err := net.Dial("tcp", host)
	must.OK(t, err)
	defer conn.Close()
	must.OK(t, conn.SetDeadline(time.Now().Add(patience)))
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\n", q.method, q.target, host)
	if s.key != "" {
		fmt.Fprintf(&b, "X-Api-Key: %s\r\n", s.key)
	}
	for _, h := range q.header {
		b.WriteString(h + "\r\n")
	}
	if q.body != "" {
		fmt.Fprintf(&b, "Content-Length: %d\r\n", len(q.body))
	}
	if !q.half {
		b.WriteString("Connection: close\r\n\r\n" + q.body)
	}
	// An edge that rejects a large request may close the connection before the whole request has been sent.
	_, _ = io.WriteString(conn, b.String())
	r, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: q.method})
	if err != nil {
		t.Fatalf("%s %s: %v", q.method, q.target, err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", q.method, q.target, err)
	}
	return openapitest.Answer{Status: r.StatusCode, Header: r.Header, Body: body}
}

// ready waits for the service to have a snapshot and its keys.
func (s service) ready(t *testing.T) service {
	t.Helper()
	openapitest.Await(t, s.base, s.key)
	return s
}

// world contains the services that answer the requests of the examples and tests.
type world struct {
	open     service // needs no key; has the example market
	keyed    service // needs a key; has the same market
	limited  service // keyed with a key that allows one request
	stranger service // keyed without a key
	empty    service // has no snapshot
	broken   service // panics on each request
}

func newWorld(t *testing.T) *world {
	t.Helper()
	store := openapitest.Market(t)
	keyed, limited := teststore.Key(t, store, 1000, 1000).Key, teststore.Key(t, store, 1, 1).Key
	base := openapitest.Start(t, edge.Config{Reader: store, Server: server.Config{ReadTimeout: time.Second}})
	w := &world{
		open:     service{base: openapitest.Start(t, edge.Config{Reader: store, AuthOff: true})}.ready(t),
		keyed:    service{base, keyed}.ready(t),
		limited:  service{base, limited},
		stranger: service{base: base},
		empty:    service{base: openapitest.Start(t, edge.Config{Reader: memstore.New(), AuthOff: true})},
		broken:   service{base: startBroken(t)},
	}
	for a := w.empty.ask(t, question{method: "GET", target: "/openapi/v1/global"}); a.Status != 404; {
		a = w.empty.ask(t, question{method: "GET", target: "/openapi/v1/global"})
	}
	return w
}

func startBroken(t *testing.T) string {
	t.Helper()
	s, err := server.New(
		server.Config{Answer: func(*server.Request) error { panic("a fault") }, Logger: slog.New(slog.DiscardHandler)})
	must.OK(t, err)
	return "http://" + testserver.Serve(t, s.Serve, s.Drain)
}

const longAgo = "X-Snapshot-Time: 2026-11-01T00:00:00Z"

// soon returns a pin to the next snapshot.
func soon() string {
	newest := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	if now := time.Now().UTC(); now.After(newest) {
		newest = now.Truncate(artifacts.Step)
	}
	return "X-Snapshot-Time: " + newest.Add(artifacts.Step).Format(time.RFC3339)
}

// special returns the service and the request for an example that is not the answer to a simple GET to
// open.
func (w *world) special(name string) (service, question, bool) {
	get := question{method: "GET", target: "/openapi/v1/assets"}
	switch name {
	case "error-unauthorized":
		return w.stranger, get, true
	case "error-not-found":
		return w.empty, question{method: "GET", target: "/openapi/v1/global"}, true
	case "error-timeout":
		get.half = true
		return w.keyed, get, true
	case "error-gone":
		get.header = []string{longAgo}
		return w.open, get, true
	case "error-precondition":
		get.header = []string{`If-Match: "another"`}
		return w.open, get, true
	case "error-payload":
		get.body = strings.Repeat("x", 5000)
		return w.keyed, get, true
	case "error-too-many":
		return w.limited, get, true
	case "error-headers":
		get.header = []string{"X-Long: " + strings.Repeat("x", 70_000)}
		return w.keyed, get, true
	case "error-internal":
		return w.broken, get, true
	case "error-unavailable":
		get.header = []string{soon()}
		return w.open, get, true
	case "error-range":
		return w.open, question{method: "GET", target: "/openapi/v1/files/quotes.parquet",
			header: []string{"Range: bytes=999999999-"}}, true
	case "error-path":
		return w.open, question{method: "GET", target: "/openapi/v1/coins"}, true
	case "error-method":
		return w.open, question{method: "POST", target: "/openapi/v1/assets"}, true
	}
	return service{}, question{}, false
}

// TestExamples requests the answer that each example shows, and compares them. With -update, it writes the
// answers to the example files.
func TestExamples(t *testing.T) {
	w, c := newWorld(t), newChecker(t)
	source := must.Get(os.ReadFile("openapi.yaml"))(t)
	used := map[string]bool{}
	summary := ""
	for line := range strings.Lines(string(source)) {
		line = strings.TrimSpace(line)
		if rest, ok := strings.CutPrefix(line, "summary: "); ok {
			summary = rest
		}
		name, ok := strings.CutPrefix(line, "value: !example ")
		if !ok {
			continue
		}
		example, end := name+".json", "\n"
		if strings.HasSuffix(name, ".csv") {
			example, end = name, ""
		}
		used[example] = true
		from, q, ok := w.special(name)
		if !ok {
			method, target, ok := strings.Cut(summary, " ")
			if !ok || method != "GET" {
				t.Fatalf("%s: no request in %q", name, summary)
			}
			from, q = w.open, question{method: method, target: target}
		}
		a := from.ask(t, q)
		for from == w.limited && a.Status == 200 {
			a = from.ask(t, q)
		}
		if err := c.Check(q.method, q.target, a); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		file := filepath.Join("examples", example)
		if *update {
			must.OK(t, os.WriteFile(file, append(a.Body, end...), 0o644))
			continue
		}
		want := must.Get(os.ReadFile(file))(t)
		if strings.TrimSuffix(string(want), end) != string(a.Body) {
			t.Errorf("%s is no answer to %s %s any more; write it anew with -update\nexample %s\nanswer  %s", file,
				q.method,
				q.target, want, a.Body)
		}
	}
	stored := must.Get(filepath.Glob("examples/*"))(t)
	for _, file := range stored {
		if !used[filepath.Base(file)] {
			t.Errorf("%s is no example of the document", file)
		}
	}
}

var endpoints = []string{
	"assets", "quotes", "markets", "trending", "exchanges", "global", "categories", "chains", "history",
	"candles", "prices", "search", "markets.csv", "history.csv", "candles.csv", "prices.csv", "changes"}

// pinned is the prefix of a path with a pin to the newest snapshot.
const pinned = "/at/20261121T120000Z"

// asked returns a path with its required parameters.
func asked(path string) string {
	switch name := strings.TrimSuffix(path, ".csv"); {
	case strings.HasSuffix(name, "/history"), strings.HasSuffix(name, "/candles"):
		return path + "?id=1"
	case strings.HasSuffix(name, "/prices"):
		return path + "?id=1&time=0,1795262700"
	case strings.HasSuffix(path, "/search"):
		return path + "?q=bitcoin"
	}
	return path
}

// targets returns valid and invalid requests to every endpoint.
func targets() []string {
	var all []string
	for _, endpoint := range endpoints {
		for _, query := range []string{
			"", "?", "?page=1&size=2", "?page=9223372036854775807", "?limit=1&offset=1", "?offset=100000", "?limit=-4",
			"?size=0", "?id=1,2,99", "?id=,",
			"?slug=bitcoin,none,caf%C3%A9,flowers-(all)", "?symbol=PTL,none", "?id=1&slug=none&symbol=none",
			"?sort=name:DESC", "?sort=id:desc&fields=links,groups,more",
			"?slug=salt-&-co", "?slug=salt-%26-co", "?slug=%ff%00", "?unknown=1",
			"?id=1&id[]=2&page=1&page=2&limit=1&a%2c+=",
			"?by=%20GAINERS%20", "?by=searched", "?size=101", "?size=500&limit=10", "?limit=101",
			"?page=0", "?page=x", "?offset=-1", "?offset=100001", "?sort=price", "?sort=volume", "?sort=symbol",
			"?sort=display_name", "?sort=name:up",
			"?id=1.5", "?id=" + strings.Repeat("1,", 100), "?slug=" + strings.Repeat(",", 100),
			"?fields=" + strings.Repeat("a,", 100),
			"?slug=" + url.QueryEscape(strings.Repeat("long ", 400)),
		} {
			all = append(all, "/openapi/v1/"+endpoint+query)
		}
	}
	return all
}

// TestAnswers requests answers of every kind, and checks each against the document. At the end, it reports
// everything in the document that no answer contained, because that would be untested.
func TestAnswers(t *testing.T) {
	w, c := newWorld(t), newChecker(t)
	seen := newSeen(c)
	check := func(s service, q question, want ...int) openapitest.Answer {
		t.Helper()
		a := s.ask(t, q)
		if len(want) > 0 && !slices.Contains(want, a.Status) {
			t.Errorf("%s %s: %d, want %v: %s", q.method, q.target, a.Status, want, a.Body)
		}
		if err := c.Check(q.method, q.target, a); err != nil {
			t.Errorf("%v\nheader %v\nbody %s", err, a.Header, a.Body)
		}
		seen.answer(t, q, a)
		return a
	}
	for _, target := range targets() {
		get := question{method: "GET", target: target}
		a := check(w.open, get, 200, 400)
		check(w.empty, get, 200, 400, 404)
		below := check(w.open, question{method: "GET", target: pinned + target}, a.Status)
		if !bytes.Equal(below.Body, a.Body) {
			t.Errorf("%s:\n%s\nbelow /at/:\n%s", target, a.Body, below.Body)
		}
		check(w.keyed, question{method: "HEAD", target: target,
			header: []string{"Origin: https://board.example", "X-Request-Id: mine"}}, a.Status)
		if a.Status != 200 {
			continue
		}
		check(w.keyed,
			question{method: "GET", target: target, header: []string{"If-None-Match: " + a.Header.Get("ETag")}}, 304)
		check(w.keyed, question{method: "GET", target: target,
			header: []string{"If-Modified-Since: " + a.Header.Get("Last-Modified")}}, 304)
		check(w.keyed, question{method: "GET", target: pinned + target,
			header: []string{"If-None-Match: " + a.Header.Get("ETag")}}, 304)
		for _, header := range []string{"X-Snapshot-Time: 2026-11-21T11:50:00Z", "X-Snapshot-Time:"} {
			check(w.keyed, question{method: "GET", target: target, header: []string{header}}, 200)
		}
	}
	for _, window := range []string{"24h", "7d", "30d", "90d", "1y"} {
		check(w.keyed, question{method: "GET", target: "/openapi/v1/history?slug=bitcoin,petal&window=" + window}, 200)
	}
	for _, q := range []string{"petal", "BTC+", "p+cla", "none", "%ff"} {
		check(w.keyed, question{method: "GET", target: "/openapi/v1/search?q=" + q}, 200)
	}
	check(w.keyed, question{method: "HEAD", target: "/openapi/v1/events"}, 200)
	for _, endpoint := range endpoints {
		target := asked("/openapi/v1/" + endpoint)
		get := func(header ...string) question { return question{method: "GET", target: target, header: header} }
		check(w.keyed, get(longAgo), 410)
		check(w.open, get("X-Snapshot-Time: yesterday"), 400)
		check(w.open, get("X-Snapshot-Time: 2026-11-21T11:55:00Z"), 400)
		check(w.open, get("X-Snapshot-Time: 9999-01-01T00:00:00Z"), 400)
		check(w.open, get("X-Snapshot-Time: 2026-11-21T11:50:00Z", "X-Snapshot-Time: 2026-11-21T11:50:00Z"), 400)
		check(w.broken, get(), 500)
		check(w.broken, get("Origin: https://board.example"), 500)
		check(w.stranger, get(), 401)
		check(w.stranger, get("X-Api-Key: "+w.keyed.key, "X-Api-Key: "+w.keyed.key), 401)
		for check(w.limited, get(), 200, 429).Status != 429 {
			// Its bucket may have gained the token again.
		}
		for at, status := range map[string]int{"20261121T115000Z": 200, "20261121T115500Z": 400,
			"20260229T000000Z": 400, "99990101T000000Z": 400, "20200101T000000Z": 410, "2026-11-21T11:50:00Z": 200,
			"2026-11-21T12%3A50:00.0%2B01:00": 200, "yesterday": 404} {
			check(w.keyed, question{method: "GET", target: "/at/" + at + target}, status)
		}
		check(w.keyed, question{method: "GET", target: pinned + target,
			header: []string{"X-Snapshot-Time: 2026-11-21T12:00:00Z"}}, 400)
		check(w.keyed, question{method: "POST", target: target}, 405)
		check(w.keyed, question{method: "DELETE", target: target}, 405)
		check(w.keyed, question{method: "GET", target: target, body: strings.Repeat("x", 5000)}, 413)
		check(w.keyed, get("X-Long: "+strings.Repeat("x", 70_000)), 431)
		check(w.keyed, get(`If-Match: "another"`), 412)
		check(w.open, question{method: "GET", target: "/openapi/v1/" + endpoint + "/"}, 404)
	}
	for _, prefix := range []string{"", pinned} {
		list := prefix + "/openapi/v1/files"
		ask := func(target, header string, want int) openapitest.Answer {
			t.Helper()
			q := question{method: "GET", target: target, header: []string{"Origin: https://board.example"}}
			if header != "" {
				q.header = append(q.header, header)
			}
			return check(w.keyed, q, want)
		}
		ask(list, "If-None-Match: "+ask(list, "", 200).Header.Get("ETag"), 304)
		for _, name := range []string{"quotes.parquet", "quotes.ndjson.zst", "prices/2026-11-20.parquet",
			artifacts.FilesJSON} {
			file := list + "/" + name
			ask(file, "If-None-Match: "+ask(file, "", 200).Header.Get("ETag"), 304)
			ask(file, "Range: bytes=0-9", 206)
			ask(file, "Range: bytes=999999999-", 416)
			ask(file, `If-Match: "another"`, 412)
			check(w.stranger, question{method: "GET", target: file}, 401)
		}
		ask(list+"/none.parquet", "", 404)
	}
	check(w.empty, question{method: "GET", target: "/openapi/v1/files"}, 200)
	check(w.keyed, get503(), 503)
	check(w.empty, question{method: "GET", target: pinned + "/openapi/v1/global"}, 503)
	check(w.keyed, question{method: "GET", target: "/at/" + strings.NewReplacer("-", "", ":", "").Replace(
		strings.TrimPrefix(soon(), "X-Snapshot-Time: ")) + "/openapi/v1/chains"}, 503)
	check(w.keyed, question{method: "GET", target: "/openapi/v1/global", half: true}, 408)
	// Send many requests without a key from one address.
	for a := (openapitest.Answer{}); a.Status != 429; {
		a = check(w.stranger, question{method: "GET", target: "/openapi/v1/quotes"}, 401, 429)
	}
	unchanged := service{
		base: openapitest.Start(t, edge.Config{Reader: openapitest.Unchanged(t), AuthOff: true})}.ready(t)
	check(unchanged, question{method: "GET", target: "/openapi/v1/global"}, 200)
	noticed := memstore.New()
	teststore.Simulate(t, noticed, "?assets=10", time.Now().Truncate(artifacts.Step))
	young := service{base: openapitest.Start(t, edge.Config{Reader: noticed, AuthOff: true})}.ready(t)
	for _, name := range []string{"global", "quotes", "markets"} {
		check(young, question{method: "GET", target: "/openapi/v1/" + name}, 200)
	}
	// Check an edge that allows one origin, the codings, and a cached answer.
	const board = "https://board.example"
	var one service
	for _, cfg := range []edge.Config{{CacheScope: "public"}, {
		CacheScope: "public", Server: server.Config{AllowOrigin: board}}, {Server: server.Config{AllowOrigin: board}}} {
		cfg.Reader, cfg.AuthOff = openapitest.Market(t), true
		one = service{base: openapitest.Start(t, cfg)}.ready(t)
		for _, prefix := range []string{"", pinned} {
			check(one, question{method: "GET", target: prefix + "/openapi/v1/chains",
				header: []string{"Origin: " + board}}, 200)
		}
		check(one, question{method: "GET", target: "/openapi/v1/chains?size=x", header: []string{"Origin: " + board}},
			400)
	}
	for _, coding := range []string{"zstd", "br", "gzip"} {
		for range 3 {
			a := one.ask(t,
				question{method: "HEAD", target: "/openapi/v1/quotes", header: []string{"Accept-Encoding: " + coding}})
			if a.Header.Get("Content-Encoding") != coding {
				t.Errorf("%s: coded as %q", coding, a.Header.Get("Content-Encoding"))
			}
			must.OK(t, c.Check("HEAD", "/openapi/v1/quotes", a))
			seen.answer(t, question{method: "HEAD", target: "/openapi/v1/quotes"}, a)
		}
	}
	// Look for headers that only some answers of a status have.
	for name, statuses := range map[string][]string{
		"access-control-expose-headers": {"200", "400", "500"},
		"ratelimit":                     {"200", "304", "400", "401", "410", "429", "503"},
		"ratelimit-policy":              {"200", "304", "400", "401", "410", "429", "503"},
	} {
		for _, status := range statuses {
			if !seen.headers[status+" "+name] {
				t.Errorf("no answer of status %s had the header %s", status, name)
			}
		}
	}
	seen.report(t)
}

// TestEvents reads the event stream that the document shows as an example, and sends requests that are
// rejected.
func TestEvents(t *testing.T) {
	w, c := newWorld(t), newChecker(t)
	const target = "/openapi/v1/events"
	for method, asked := range map[string]map[int]service{
		"HEAD": {200: w.keyed, 401: w.stranger}, "POST": {405: w.keyed}} {
		for status, s := range asked {
			a := s.ask(t, question{method: method, target: target, header: []string{"Origin: https://board.example"}})
			if err := c.Check(method, target, a); a.Status != status || err != nil {
				t.Errorf("%s: %d, want %d, %v", method, a.Status, status, err)
			}
		}
	}
	ctx, leave := context.WithTimeout(t.Context(), patience)
	defer leave()
	request := must.Get(http.NewRequestWithContext(ctx, "GET", w.keyed.base+target, nil))(t)
	request.Header.Set("X-Api-Key", w.keyed.key)
	response := must.Get(http.DefaultClient.Do(request))(t)
	defer response.Body.Close()
	stream := c.Doc.Paths.Value(target).Get.Responses.Status(200).Value.Content
	want := stream["text/event-stream"].Examples["events"].Value.Value.(string)
	got := make([]byte, len(want))
	if _, err := io.ReadFull(response.Body, got); err != nil || string(got) != want ||
		stream[response.Header.Get("Content-Type")] == nil {
		t.Errorf("%q, %v, %v", got, response.Header, err)
	}
}

func get503() question {
	return question{method: "GET", target: "/openapi/v1/assets", header: []string{soon()}}
}

// seen records which parts of the document occurred in answers.
type seen struct {
	c        *openapitest.Checker
	statuses map[string]bool // by status
	headers  map[string]bool // by status and name
	values   map[string]bool // by schema, property and JSON type
	enums    map[string]bool // values of headers, by name and value
}

func newSeen(c *openapitest.Checker) *seen {
	return &seen{c, map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}}
}

func (s *seen) answer(t *testing.T, q question, a openapitest.Answer) {
	t.Helper()
	status := fmt.Sprint(a.Status)
	s.statuses[status] = true
	for name, values := range a.Header {
		s.headers[status+" "+strings.ToLower(name)] = true
		s.enums[strings.ToLower(name)+" "+values[0]] = true
	}
	path, _, _ := strings.Cut(q.target, "?")
	operation, _ := s.c.Operation(path)
	if q.method != "GET" || operation == nil || a.Status == 304 {
		return
	}
	ref := operation.Responses.Status(a.Status)
	if ref == nil {
		return
	}
	schema := ref.Value.Content.Get(a.Header.Get("Content-Type")).Schema
	if schema == nil || schema.Value.Format == "binary" || strings.HasPrefix(a.Header.Get("Content-Type"), "text/csv") {
		return
	}
	var body any
	if err := json.Unmarshal(a.Body, &body); err != nil {
		t.Errorf("%s: %v", q.target, err)
		return
	}
	s.walk("", ref.Value.Content.Get("application/json").Schema, body)
}

// walk marks the properties of value that its schema has.
func (s *seen) walk(name string, ref *openapi3.SchemaRef, value any) {
	if at, ok := strings.CutPrefix(ref.Ref, "#/components/schemas/"); ok {
		name = at
	}
	switch value := value.(type) {
	case map[string]any:
		schema := ref
		for _, each := range ref.Value.OneOf { // ExchangeMarket or null
			if each.Value.Properties != nil {
				schema = each
				name = strings.TrimPrefix(each.Ref, "#/components/schemas/")
			}
		}
		for key, v := range value {
			property := schema.Value.Properties[key]
			if property == nil {
				continue // Check has reported it
			}
			kind := "some"
			if v == nil {
				kind = "null"
			}
			s.values[name+"."+key+" "+kind] = true
			s.walk(name+"."+key, property, v)
		}
	case []any:
		for _, v := range value {
			s.walk(name+"[]", ref.Value.Items, v)
		}
	}
}

// report reports what occurred in no answer.
func (s *seen) report(t *testing.T) {
	t.Helper()
	for _, path := range s.c.Doc.Paths.InMatchingOrder() {
		for status, response := range s.c.Doc.Paths.Value(path).Get.Responses.Map() {
			codes := []string{status}
			if status == "default" {
				codes = []string{"404", "405"}
			}
			for name, header := range response.Value.Headers {
				if name == "Access-Control-Expose-Headers" || strings.HasPrefix(name, "RateLimit") {
					continue // TestAnswers checks them itself
				}
				if !slices.ContainsFunc(
					codes, func(code string) bool { return s.headers[code+" "+strings.ToLower(name)] }) {
					t.Errorf("no answer of status %s had the header %s", status, name)
				}
				for _, value := range header.Value.Schema.Value.Enum {
					if name != "Cache-Status" && !s.enums[strings.ToLower(name)+" "+fmt.Sprint(value)] {
						t.Errorf("no answer had %s: %v", name, value)
					}
				}
			}
			if status != "default" && !s.statuses[status] {
				t.Errorf("no answer had the status %s", status)
			}
		}
	}
	for name, ref := range s.c.Doc.Components.Schemas {
		s.reportSchema(t, name, ref)
	}
}

func (s *seen) reportSchema(t *testing.T, name string, ref *openapi3.SchemaRef) {
	t.Helper()
	for key, property := range ref.Value.Properties {
		if slices.Contains([]string{"PathNotFound", "MethodNotAllowed", "PreconditionFailed"}, name) {
			continue // part of the default response; TestExamples checks them
		}
		if !s.values[name+"."+key+" some"] {
			t.Errorf("no answer had %s.%s", name, key)
		}
		nullable := property.Value.Type != nil && property.Value.Type.Includes("null") || len(property.Value.OneOf) > 0
		if nullable && !s.values[name+"."+key+" null"] {
			t.Errorf("no answer had %s.%s null", name, key)
		}
		if property.Ref == "" && property.Value.Properties != nil {
			s.reportSchema(t, name+"."+key, property)
		}
	}
}
