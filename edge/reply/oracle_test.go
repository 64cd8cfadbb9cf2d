package reply

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge/query"
	"example.com/marketdata/internal/model"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/teststore"
)

// TestAgainstOracle sends requests to two engines, one of which caches nothing, with two snapshots that
// share most rows. It compares bodies and X-Not-Found with what the oracle reads in the snapshot. Two
// answers must have equal tags if and only if their bodies are equal (INTERFACE.md, "Headers"), whether or
// not they were cached.
func TestAgainstOracle(t *testing.T) {
	store := memstore.New()
	f := teststore.NewFeed(1500, 1)
	for i, name := range []string{"Doge & Co", "Éclair", "\"Doge\" & Co", "doge & co", "x\u0000y", "Dogé"} {
		f.Assets[300+i].Name = name
	}
	first := teststore.Publish(t, store, f.History(750), teststore.Start)
	caches, none := newRig(t, store, 64<<20, 64<<20), newRig(t, store, 1, 1)
	var want *teststore.Oracle
	bodies, tags := map[string]string{}, map[string]string{} // the bodies by tag, and the tags by body
	questions := map[string]bool{}
	seen := 0
	check := func(r *rig, e query.Endpoint, raw string) {
		t.Helper()
		req := newRequest()
		if p := ask(t, r, req, e, raw); p != nil {
			t.Fatalf("%s?%s: %+v", e, raw, p)
		}
		body, tag := string(req.Reply.Body), header(&req.Reply, "ETag")
		q, refusal := model.Parse(model.Prefix + e.Name() + "?" + raw)
		if refusal != nil {
			t.Fatalf("%s?%s: the model refuses %+v", e, raw, refusal)
		}
		if right := want.Answer(q, nil); body != right.Body || header(&req.Reply, "X-Not-Found") != right.NotFound {
			t.Fatalf("%s?%s: %s, not found %q; want %s, %q", e, raw, body, header(&req.Reply, "X-Not-Found"),
				right.Body, right.NotFound)
		}
		if was, ok := bodies[tag]; ok && was != body {
			t.Fatalf("%s?%s: two bodies have the tag %s:\n%s\n%s", e, raw, tag, was, body)
		}
		if was, ok := tags[body]; ok && was != tag {
			t.Fatalf("%s?%s: one body has the tags %s and %s:\n%s", e, raw, was, tag, body)
		} else if ok && !questions[e.Name()+raw] {
			seen++
		}
		bodies[tag], tags[body], questions[e.Name()+raw] = body, tag, true
	}
	rnd := rand.New(rand.NewPCG(1, 1))
	for at := range 2 {
		p := first
		if at == 1 {
			f.Assets[20].Price++ // changes one row of quotes, and no row of assets
			next := teststore.Start.Add(artifacts.Step)
			p = teststore.Publish(t, store, f.History(750), next)
		}
		want = p.Oracle(t, store)
		for _, r := range []*rig{caches, none} {
			r.Await(t, teststore.Start.Add(time.Duration(at)*artifacts.Step))
		}
		for range 2500 {
			e := query.Endpoint(rnd.IntN(int(query.Endpoints)))
			if e == query.Global {
				continue
			}
			raw := question(rnd, e)
			check(caches, e, raw)
			check(none, e, raw)
		}
	}
	if seen < 300 || len(bodies) < 300 {
		t.Errorf("%d bodies, %d found in another way: that says little", len(bodies), seen)
	}
}

// question returns a random query string for an endpoint. Many of them ask for the same answer in different
// ways.
func question(rnd *rand.Rand, e query.Endpoint) string {
	one := func(of ...string) string { return of[rnd.IntN(len(of))] }
	odd := []string{"id=9,5,2,-3,4,2", "slug=Zed,asset-1,a%26b", "symbol=%E2%82%BF&id=2", "symbol=,common",
		"slug=" + strings.Repeat("x", 600) + "a,b", "id=,", "symbol=,", "id=-4,0"}
	raw := ""
	switch id := 1 + 2*rnd.IntN(8); rnd.IntN(6) {
	case 0: // a few rows, in a few ways
		raw = fmt.Sprintf("id=%d,%d", id, id+2)
	case 1:
		raw = fmt.Sprintf("slug=asset-%d,ASSET-%d", rnd.IntN(3), rnd.IntN(3))
	case 2:
		raw = one(odd...)
	case 3: // filters with common rows
		raw = "symbol=common,s3,none&size=" + one("3", "9", "100") + one("", "&id=1,21,41,43,99999,7",
			"&slug=asset-0,asset-5,asset-77", "&page=2", "&slug=zzz")
	default:
		size := one("1", "2", "3", "33", "100")
		raw = one(fmt.Sprintf("page=%d&size=%s", 1+rnd.IntN(30), size),
			fmt.Sprintf("offset=%d&limit=%s", rnd.IntN(1520), size))
	}
	if sorts := e.SortKeys(); len(sorts) > 0 && rnd.IntN(3) > 0 {
		raw += "&sort=" + sorts[rnd.IntN(len(sorts))].Name() + one("", ":asc", ":desc")
	}
	raw += one("", "", "&fields=links")
	if e.OfThePast() {
		if !strings.Contains(raw, "id=") && !strings.Contains(raw, "slug=") &&
			!strings.Contains(raw, "symbol=") {
			raw += one("&symbol=common", "&symbol=s5,s6,s7", "&slug=asset-3,asset-8,asset-5")
		}
		raw = strings.ReplaceAll(strings.ReplaceAll(raw, "=33", "=20"), "=100", "=19") + "&time=0&window=" + one("",
			"24H", "7d", "30d", "90d", "1y")
	}
	if e == query.Search {
		raw = "q=" + teststore.SearchText(rnd)
	}
	return raw
}
