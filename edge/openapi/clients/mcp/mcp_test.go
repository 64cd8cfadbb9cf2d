package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge"
	marketdata "example.com/marketdata/edge/openapi/clients/go"
	"example.com/marketdata/internal/test/buildtest"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/openapitest"
	"example.com/marketdata/internal/test/teststore"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// now is the time of the newest snapshot of simulated.
var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// toolNames lists the tools in the order of the SDK's list.
var toolNames = []string{"changes", "global", "history", "markets", "price_at", "quotes", "search",
	"verify_proof"}

// of starts an edge on a store, and returns a service that queries it.
func of(t *testing.T, store artifacts.Store) *service {
	t.Helper()
	key := teststore.Key(t, store, 1000, 1000).Key
	base := openapitest.Start(t, edge.Config{Reader: store})
	openapitest.Await(t, base, key)
	return at(t, base, key)
}

// at returns a service that queries the edge at a base URL.
func at(t *testing.T, base, key string) *service {
	t.Helper()
	return &service{base: base, key: key, log: slog.New(slog.DiscardHandler),
		trust:  artifacts.Trust{buildtest.SignKey.Trust()},
		client: must.Get(marketdata.New(base, key, marketdata.Retries(0)))(t)}
}

// simulated returns a service for a simulated market with a year of history and signed files. Its last
// asset is new.
func simulated(t *testing.T) *service {
	t.Helper()
	store := buildtest.Signed(memstore.New())
	signed := teststore.SignFiles(buildtest.SignKey)
	teststore.SimulateYear(t, store, "?assets=199&seed=1", now.Add(-10*time.Minute), signed)
	teststore.SimulateYear(t, store, "?assets=200&seed=1", now, signed)
	teststore.Change(t, store, now.Add(90*time.Second))
	return of(t, store)
}

// connect returns a session of the SDK's client with an in-memory server.
func connect(t *testing.T, s *service) *mcp.ClientSession {
	t.Helper()
	ours, theirs := mcp.NewInMemoryTransports()
	must.Get(s.server("1.0.0").Connect(t.Context(), ours, nil))(t)
	return dial(t, theirs)
}

func dial(t *testing.T, transport mcp.Transport) *mcp.ClientSession {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session := must.Get(client.Connect(t.Context(), transport, nil))(t)
	t.Cleanup(func() { _ = session.Close() })
	return session
}

type arguments = map[string]any

// result is the answer of a tool: either a failure, or the other fields.
type result struct {
	Snapshot   string
	Notice     *marketdata.Notice
	Page       int
	TotalPages int `json:"total_pages"`
	NotFound   map[string][]string
	Remarks    []string
	Items      []map[string]any
	failure    string
	text       string
}

// ask calls a tool.
func ask(t *testing.T, session *mcp.ClientSession, tool string, args arguments) (r result) {
	t.Helper()
	got := must.Get(session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: args}))(t)
	r.text = got.Content[0].(*mcp.TextContent).Text
	if got.IsError {
		return result{failure: r.text, text: r.text}
	}
	if structured := must.Get(json.Marshal(got.StructuredContent))(t); !sameJSON(t, structured, []byte(r.text)) {
		t.Errorf("%s: the structured answer\n%s\nis not the text\n%s", tool, structured, r.text)
	}
	must.OK(t, json.Unmarshal([]byte(r.text), &r))
	onlyTexts(t, tool, "", decoded(t, []byte(r.text)))
	return r
}

func decoded(t *testing.T, b []byte) (v any) {
	t.Helper()
	must.OK(t, json.Unmarshal(b, &v))
	return v
}

func sameJSON(t *testing.T, a, b []byte) bool { return reflect.DeepEqual(decoded(t, a), decoded(t, b)) }

// onlyTexts checks that no figure is a JSON number.
func onlyTexts(t *testing.T, tool, name string, v any) {
	t.Helper()
	switch v := v.(type) {
	case map[string]any:
		for name, v := range v {
			onlyTexts(t, tool, name, v)
		}
	case []any:
		for _, v := range v {
			onlyTexts(t, tool, name, v)
		}
	case float64:
		if !slices.Contains([]string{"id", "rank", "page", "total", "total_pages"}, name) {
			t.Errorf("%s: %s is the number %v", tool, name, v)
		}
	}
}

// direct queries the edge itself, and returns the items of the answer without the fields that tools leave
// out.
func direct(t *testing.T, s *service, target string) (items []any) {
	t.Helper()
	req := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, s.base+target, nil))(t)
	req.Header.Set("X-Api-Key", s.key)
	res := must.Get(http.DefaultClient.Do(req))(t)
	defer res.Body.Close()
	var envelope struct{ Result map[string]any }
	must.OK(t, json.NewDecoder(res.Body).Decode(&envelope))
	items, ok := envelope.Result["items"].([]any)
	if !ok {
		items = []any{envelope.Result}
	}
	for _, item := range items {
		for _, name := range []string{"logo", "explorers", "notice", "window"} {
			delete(item.(map[string]any), name)
		}
	}
	return items
}

// TestAnswers compares the answers of tools with those of the edge.
func TestAnswers(t *testing.T) {
	s := simulated(t)
	session := connect(t, s)
	bitcoin := []string{"bitcoin"}
	for _, c := range []struct {
		tool   string
		args   arguments
		target string
	}{
		{"search", arguments{"words": "bitc"}, "/openapi/v1/search?q=bitc"},
		{"quotes", arguments{"id": []int{3, 1}, "size": 100}, "/openapi/v1/markets?id=1,3"},
		{"quotes", arguments{"symbol": []string{"btc"}}, "/openapi/v1/markets?symbol=btc"},
		{"markets", arguments{}, "/openapi/v1/markets"},
		{"markets", arguments{"sort": "percent_change.24h", "direction": "asc", "page": 3, "size": 7},
			"/openapi/v1/markets?sort=percent_change.24h:asc&page=3&size=7"},
		{"markets", arguments{"direction": "desc", "size": 2}, "/openapi/v1/markets?sort=rank:desc&size=2"},
		{"history", arguments{"slug": bitcoin}, "/openapi/v1/history?slug=bitcoin"},
		{"history", arguments{"slug": bitcoin, "window": "1y"}, "/openapi/v1/history?slug=bitcoin&window=1y"},
		{"history", arguments{"slug": bitcoin, "kind": "candles", "interval": "1d", "from": "2026-11-10",
			"to": "2026-11-14T02:00:00+02:00"},
			"/openapi/v1/candles?slug=bitcoin&interval=1d&from=2026-11-10T00:00:00Z&to=2026-11-14T00:00:00Z"},
		{"price_at", arguments{"slug": bitcoin, "time": []string{"2026-03-01", "2026-11-20T10:15:00+01:00"}},
			"/openapi/v1/prices?slug=bitcoin&time=2026-03-01T00:00:00Z,2026-11-20T09:15:00Z"},
		{"global", arguments{}, "/openapi/v1/global"},
		{"changes", arguments{"since": "2026-11-21T12:50:00+01:00", "size": 2},
			"/openapi/v1/changes?since=2026-11-21T11:50:00Z&size=2"},
		{"changes", arguments{"collection": []string{"chains", "assets"}, "kind": []string{"added", "removed"}},
			"/openapi/v1/changes?collection=assets,chains&kind=added,removed"},
	} {
		got, want := ask(t, session, c.tool, c.args), direct(t, s, c.target)
		var items []any
		for _, item := range got.Items {
			delete(item, "not_covered") // TestCoverage checks it
			items = append(items, item)
		}
		if len(want) == 0 || !reflect.DeepEqual(items, want) {
			t.Errorf("%s %v:\n%s\nwant\n%v", c.tool, c.args, got.text, want)
		}
		if got.Snapshot != "2026-11-21T12:00:00Z" || got.Notice == nil ||
			got.Notice.Text != "Simulated market: these prices are invented" {
			t.Errorf("%s: snapshot %s, notice %v", c.tool, got.Snapshot, got.Notice)
		}
	}
}

// TestPinned checks that a call with the time of an earlier answer returns the same answer, although a
// newer snapshot has other figures.
func TestPinned(t *testing.T) {
	store, feed := memstore.New(), teststore.NewFeed(50, 1)
	teststore.Publish(t, store, feed, now)
	s := of(t, store)
	session := connect(t, s)
	calls := map[string]arguments{"search": {"words": "a"}, "changes": {}, "quotes": {"id": []int{1, 2, 3}},
		"markets": {}, "global": {}, "history": {"id": []int{1}},
		"price_at": {"id": []int{1}, "time": []string{"2026-11-21T12:10:00Z"}}}
	first := map[string]result{}
	for tool, args := range calls {
		first[tool] = ask(t, session, tool, args)
		if first[tool].Notice != nil {
			t.Errorf("%s: a notice of a market without one", tool)
		}
	}
	teststore.Publish(t, store, feed, now.Add(10*time.Minute))
	for ask(t, session, "global", arguments{}).Snapshot == first["global"].Snapshot {
		if t.Context().Err() != nil {
			t.Fatal("the edge does not take the second snapshot")
		}
	}
	for tool, args := range calls {
		if newest := ask(t, session, tool, args); newest.text == first[tool].text {
			t.Errorf("%s: the newest answer is the first: %s", tool, newest.text)
		}
		pinned := maps.Clone(args)
		pinned["snapshot"] = first[tool].Snapshot
		if got := ask(t, session, tool, pinned); got.text != first[tool].text || got.Snapshot == "" {
			t.Errorf("%s: pinned\n%s\nwant\n%s", tool, got.text, first[tool].text)
		}
	}
}

// TestCoverage checks that answers name the windows that prices do not fully cover, and the time from which
// prices are kept.
func TestCoverage(t *testing.T) {
	store := memstore.New()
	teststore.Simulate(t, store, "?assets=30&seed=1", now.Add(-8*day), now.Add(-7*day), now.Add(-time.Hour), now)
	session := connect(t, of(t, store))
	for tool, args := range map[string]arguments{"quotes": {"slug": []string{"bitcoin"}}, "markets": {"size": 1}} {
		got := ask(t, session, tool, args)
		item := got.Items[0]
		if said := fmt.Sprint(item["not_covered"], " since ", item["since"]); len(got.Remarks) != 1 ||
			said != "[30d 90d 1y] since 2026-11-13T12:00:00Z" {
			t.Errorf("%s: %s", tool, got.text)
		}
	}
	for _, c := range []struct {
		tool string
		args arguments
		want string // part of the remark
	}{
		{"history", arguments{"window": "7d"}, ""},
		{"history", arguments{"window": "max"}, ""},
		{"history", arguments{"window": "30d"}, "available from 2026-11-13T12:00:00Z"},
		{"history", arguments{"kind": "candles", "interval": "1d", "from": "2026-01-01"},
			"available from 2026-11-13T00:00:00Z"},
		{"history", arguments{"kind": "candles", "interval": "1d", "from": "2026-11-13"}, ""},
		{"history", arguments{"kind": "candles", "from": "2026-11-15", "to": "2026-11-16"}, "no prices are available"},
		{"price_at", arguments{"time": []string{"2026-11-21T12:00:00Z"}}, ""},
		{"price_at", arguments{"time": []string{"2026-11-21T12:00:00Z", "2009-01-03"}}, "whose price is null"},
	} {
		c.args["slug"] = []string{"bitcoin"}
		got := ask(t, session, c.tool, c.args)
		if said := strings.Join(got.Remarks, "\n"); !strings.Contains(said, c.want) || (said == "") != (c.want == "") {
			t.Errorf("%s %v: remarks %q, want %q", c.tool, c.args, said, c.want)
		}
	}
}

// TestBounds checks that an answer that is too large is cut, and that its remark leads to the rest. It also
// checks that calls beyond the limit of concurrent calls fail.
func TestBounds(t *testing.T) {
	session := connect(t, simulated(t))
	var ids []int
	for id := range 20 {
		ids = append(ids, id+1)
	}
	args := arguments{"id": ids, "window": "1y"}
	whole, cut := ask(t, session, "history", args), 0
	if len(whole.Remarks) != 1 || len(whole.text) > maxItems+1000 {
		t.Fatalf("%d bytes, remarks %q", len(whole.text), whole.Remarks)
	}
	must.Get(fmt.Sscanf(whole.Remarks[0], "Only %d of", &cut))(t)
	if len(whole.Items) != cut || !strings.Contains(whole.Remarks[0], fmt.Sprintf("size %d ", cut)) {
		t.Error(whole.Remarks[0])
	}
	args["size"], args["snapshot"] = cut, whole.Snapshot
	var seen []any
	for page := 1; page == 1 || page <= whole.TotalPages; page++ {
		args["page"] = page
		whole = ask(t, session, "history", args)
		for _, item := range whole.Items {
			seen = append(seen, item["id"])
		}
		if whole.Remarks != nil {
			t.Error(whole.Remarks)
		}
	}
	if len(seen) < 18 || len(seen) != len(slices.Compact(slices.Clone(seen))) { // some assets have no price
		t.Errorf("the pages have %v", seen)
	}
	for range cap(places) {
		places <- struct{}{}
	}
	if got := ask(t, session, "global", arguments{}); !strings.Contains(got.failure, "too many calls") {
		t.Error(got.text)
	}
	for range cap(places) {
		<-places
	}
	if got := ask(t, session, "global", arguments{}); got.failure != "" {
		t.Error(got.failure)
	}
}

// TestErrors checks that each failure is a tool error that says what to do.
func TestErrors(t *testing.T) {
	store := memstore.New()
	teststore.Publish(t, store, teststore.NewFeed(30, 1), now)
	s := of(t, store)
	empty := memstore.New()
	young := at(t, openapitest.Start(t, edge.Config{Reader: empty, AuthOff: true}), "")
	broken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "3")
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	gone := httptest.NewServer(nil)
	gone.Close()
	defer broken.Close()
	narrow := at(t, s.base, teststore.Key(t, store, 1, 1).Key)
	openapitest.Await(t, s.base, teststore.Key(t, store, 100, 100).Key)
	one := arguments{"id": []int{1}}
	many := make([]int, 101)
	for _, c := range []struct {
		s    *service
		tool string
		args arguments
		want string
	}{
		{s, "quotes", arguments{"id": []int{1}, "snapshot": "yesterday"}, `"yesterday" is no time: want 2026`},
		{s, "quotes", arguments{"id": []int{1}, "snapshot": "2026-11-21T12:05:00Z"}, "Correct it and ask again"},
		{s, "quotes", arguments{"id": []int{1}, "snapshot": "2026-11-20T12:00:00Z"},
			"Ask again without the argument snapshot"},
		{s, "quotes", arguments{"slugs": []string{"bitcoin"}}, `unexpected additional properties ["slugs"]`},
		{s, "quotes", arguments{"id": many}, "maxItems"},
		{s, "quotes", arguments{"slug": []string{strings.Repeat("a", 201)}}, "maxLength"},
		{s, "markets", arguments{"sort": "beauty"}, "any of: [rank market_cap"},
		{s, "markets", arguments{"size": 1000}, "refuses an argument: size"},
		{s, "history", arguments{}, "name at least one asset"},
		{s, "price_at", one, `missing properties: ["time"]`},
		{s, "verify_proof", arguments{"id": 1}, "publishes no files"},
		{s, "changes", arguments{"since": "2026-01-01"}, "no longer kept. Ask again without since"},
		{s, "changes", arguments{"snapshot": "2026-11-20T12:00:00Z"}, "Ask again without the argument snapshot"},
		{s, "changes", arguments{"kind": []string{"new"}}, "any of: [added back"},
		{at(t, s.base, "mdk_live_wrong"), "quotes", one, "the user must set MARKETDATA_KEY"},
		{narrow, "quotes", one, "Wait 1 seconds"}, // the second request, which reads the notice, is limited
		{at(t, broken.URL, ""), "quotes", one, "Ask again once, and tell the user if it fails again. Wait 3 seconds"},
		{at(t, gone.URL, ""), "quotes", one, "the user must check MARKETDATA_URL"},
		{young, "global", arguments{}, "has not published a snapshot yet"},
	} {
		if got := ask(t, connect(t, c.s), c.tool, c.args); !strings.Contains(got.failure, c.want) {
			t.Errorf("%s %v: %q, want %q", c.tool, c.args, got.text, c.want)
		}
	}
	got := ask(t, connect(t, young), "markets", arguments{})
	if got.Snapshot != "" || len(got.Items) != 0 || !strings.Contains(strings.Join(got.Remarks, ""), "ten minutes") {
		t.Errorf("before the first snapshot: %s", got.text)
	}
}

// TestKeyStaysSecret checks that neither answers nor errors nor the log contain the key, even if an
// assistant sends it.
func TestKeyStaysSecret(t *testing.T) {
	store := memstore.New()
	teststore.Publish(t, store, teststore.NewFeed(30, 1), now)
	s := of(t, store)
	var log bytes.Buffer
	s.log = slog.New(slog.NewTextHandler(&log, nil))
	session := connect(t, s)
	ask(t, session, "markets", arguments{"size": 1000})
	for _, c := range []struct {
		tool string
		args arguments
	}{
		{"search", arguments{"words": s.key}}, {"quotes", arguments{"slug": []string{s.key}}},
		{"quotes", arguments{"snapshot": s.key}}, {"quotes", arguments{s.key: 1}}, {"quotes", arguments{"id": s.key}},
		{"markets", arguments{"sort": s.key}}, {"price_at", arguments{"time": []string{s.key}}}, {s.key, nil},
	} {
		got, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: c.tool, Arguments: c.args})
		if text := fmt.Sprint(string(must.Get(json.Marshal(got))(t)), err); strings.Contains(text, s.key) {
			t.Errorf("%s %v: %s", c.tool, c.args, text)
		}
	}
	if log.Len() == 0 || strings.Contains(log.String(), s.key) {
		t.Errorf("the log: %s", &log)
	}
}

// TestProof checks that a row is proved only if a trusted key has signed the list of files, and that the
// row equals the edge's answer.
func TestProof(t *testing.T) {
	s := simulated(t)
	got := ask(t, connect(t, s), "verify_proof", arguments{"id": 1})
	row := decoded(t, []byte(got.Items[0]["row"].(string))).(map[string]any)
	delete(row, "logo")
	if want := direct(t, s, "/openapi/v1/markets?size=1")[0]; !reflect.DeepEqual(row, want) ||
		got.Snapshot != "2026-11-21T12:00:00Z" || !strings.HasPrefix(got.Remarks[0], "Proved") {
		t.Errorf("%s\nwant\n%v", got.text, want)
	}
	spoil := func(name string, change func([]byte) []byte) *service {
		front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			target := s.base + strings.Replace(r.URL.RequestURI(), "/at/20261121T110000Z/", "/at/20261121T120000Z/", 1)
			req := must.Get(http.NewRequestWithContext(r.Context(), r.Method, target, nil))(t)
			req.Header.Set("X-Api-Key", r.Header.Get("X-Api-Key"))
			res := must.Get(http.DefaultClient.Do(req))(t)
			defer res.Body.Close()
			var b bytes.Buffer
			must.Get(b.ReadFrom(res.Body))(t)
			w.WriteHeader(res.StatusCode)
			if strings.HasSuffix(r.URL.Path, name) {
				b = *bytes.NewBuffer(change(b.Bytes()))
			}
			_, _ = w.Write(b.Bytes())
		}))
		t.Cleanup(front.Close)
		return at(t, front.URL, s.key)
	}
	other, nobody := at(t, s.base, s.key), at(t, s.base, s.key)
	other.trust, nobody.trust = artifacts.Trust{buildtest.Key(2).Trust()}, nil
	flip := func(b []byte) []byte { b[len(b)/2] ^= 1; return b }
	longer := func(b []byte) []byte { return append(b, 0) }
	large := func([]byte) []byte { return make([]byte, 5<<20) }
	for name, c := range map[string]struct {
		s    *service
		args arguments
		want string
	}{
		"another key":   {other, arguments{"id": 1}, "NOT proved"},
		"no key":        {nobody, arguments{"id": 1}, "MARKETDATA_TRUST_KEY"},
		"another file":  {spoil("/quotes.ndjson.zst", flip), arguments{"id": 1}, "NOT proved"},
		"a longer file": {spoil("/quotes.ndjson.zst", longer), arguments{"id": 1}, "NOT proved"},
		"another list":  {spoil("/files.json", flip), arguments{"id": 1}, "NOT proved"},
		"another time": {spoil("/nothing", flip), arguments{"id": 1, "snapshot": "2026-11-21T11:00:00Z"},
			"NOT proved"},
		"too large":     {spoil("/files.json", large), arguments{"id": 1}, "is larger"},
		"no such asset": {s, arguments{"id": 99999}, "no asset with id 99999"},
		"no such time": {s, arguments{"id": 1, "snapshot": "2026-11-21T11:40:00Z"},
			"the snapshot of 2026-11-21T11:40:00Z has no files"},
	} {
		if got := ask(t, connect(t, c.s), "verify_proof", c.args); !strings.Contains(got.failure, c.want) {
			t.Errorf("%s: %s, want %q", name, got.text, c.want)
		}
	}
}

// TestProofOfOldFiles checks a proof from files of a snapshot that is no longer retained, because files are
// kept longer.
func TestProofOfOldFiles(t *testing.T) {
	store := buildtest.Signed(memstore.New())
	rows := teststore.Rows{"assets": {{"key": "b", "id": 1, "name": "Bitcoin", "symbol": "BTC", "slug": "bitcoin"}},
		"quotes": {{"key": "b", "price": "2.5"}}, "exchanges": {}, "categories": {}, "chains": {}}
	teststore.Publish(t, store, rows, now, teststore.Files(), teststore.SignFiles(buildtest.SignKey))
	teststore.Publish(t, store, rows, now.Add(3*time.Hour))
	teststore.Publish(t, store, rows, now.Add(4*time.Hour))
	session := connect(t, of(t, store))
	got := ask(t, session, "verify_proof", arguments{"id": 1})
	if got.Snapshot != "2026-11-21T12:00:00Z" || !strings.Contains(fmt.Sprint(got.Items), `"price":"2.5"`) {
		t.Error(got.text)
	}
	gone := ask(t, session, "global", arguments{"snapshot": got.Snapshot})
	if !strings.Contains(gone.failure, "no longer retained") {
		t.Error(gone.text)
	}
}

// TestTools checks that each tool describes what it does and what its arguments are, and is marked as
// read-only.
func TestTools(t *testing.T) {
	session := connect(t, at(t, "http://127.0.0.1:1", ""))
	if text := session.InitializeResult().Instructions; !strings.Contains(text, "snapshot") {
		t.Errorf("instructions: %s", text)
	}
	var names []string
	for tool, err := range session.Tools(t.Context(), nil) {
		must.OK(t, err)
		names = append(names, tool.Name)
		a := tool.Annotations
		if tool.Title == "" || tool.Description == "" || !a.ReadOnlyHint || !a.IdempotentHint || *a.OpenWorldHint {
			t.Errorf("%s: %+v", tool.Name, a)
		}
		input, output := tool.InputSchema.(map[string]any), tool.OutputSchema.(map[string]any)
		if b := string(must.Get(json.Marshal(output))(t)); strings.Contains(b, `["null","array"]`) ||
			strings.Contains(b, `["null","object"]`) {
			t.Errorf("%s: a list or an object may be null, which few clients understand: %s", tool.Name, b)
		}
		properties := input["properties"].(map[string]any)
		if properties["snapshot"] == nil || output["properties"].(map[string]any)["snapshot"] == nil {
			t.Errorf("%s has no snapshot: %v, %v", tool.Name, input, output)
		}
		for name, p := range properties {
			p := p.(map[string]any)
			if p["description"] == nil || p["type"] == "array" && p["maxItems"] == nil ||
				p["type"] == "string" && p["maxLength"] == nil && p["enum"] == nil {
				t.Errorf("%s: %s is %v", tool.Name, name, p)
			}
		}
	}
	if !slices.Equal(names, toolNames) || len(names) > 8 {
		t.Errorf("tools %q", names)
	}
}

// TestHTTP checks that the server listens only on loopback addresses, and rejects requests from pages of
// other origins or with another host name.
func TestHTTP(t *testing.T) {
	s := at(t, "http://127.0.0.1:1", "")
	server := httptest.NewServer(handler(s.server("1.0.0")))
	defer server.Close()
	session := dial(t, &mcp.StreamableClientTransport{Endpoint: server.URL + "/mcp"})
	if got := ask(t, session, "global", arguments{}); !strings.Contains(got.failure, "cannot be reached") {
		t.Error(got.text)
	}
	const call = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	for name, c := range map[string]struct {
		path, host, origin string
		body               string
		want               int
	}{
		"plain":        {"/mcp", "", "", call, http.StatusOK},
		"other path":   {"/", "", "", call, http.StatusNotFound},
		"other host":   {"/mcp", "evil.example", "", call, http.StatusForbidden},
		"other origin": {"/mcp", "", "http://evil.example", call, http.StatusForbidden},
		"too large":    {"/mcp", "", "", call + strings.Repeat(" ", maxMessage), http.StatusRequestEntityTooLarge},
	} {
		req := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+c.path,
			strings.NewReader(c.body)))(t)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		if req.Host = c.host; c.origin != "" {
			req.Header.Set("Origin", c.origin)
		}
		res := must.Get(http.DefaultClient.Do(req))(t)
		if _ = res.Body.Close(); res.StatusCode != c.want {
			t.Errorf("%s: %d, want %d", name, res.StatusCode, c.want)
		}
	}
	for _, addr := range []string{":8090", "0.0.0.0:8090", "[::]:8090", "192.0.2.1:8090", "host.example:8090",
		"127.0.0.1"} {
		err := listen(t.Context(), addr, s.server("1.0.0"), s.log)
		if err == nil || !strings.Contains(err.Error(), "want a loopback address") {
			t.Errorf("--listen %s: %v", addr, err)
		}
	}
}
