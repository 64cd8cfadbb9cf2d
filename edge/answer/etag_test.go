package answer

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/memstore"
	"example.com/marketdata/edge/internal/fixture"
	"example.com/marketdata/edge/query"
)

// TestTagsTellBodiesApart: equal bodies and no others have equal tags
// (INTERFACE.md, "Headers"), whichever way an answer was found, cached or not, on
// two edges, one of which holds nothing, and over two snapshots that share most
// rows.
func TestTagsTellBodiesApart(t *testing.T) {
	store := memstore.New()
	f := fixture.Feed(400, 1)
	first := fixture.Publish(t, store, f, fixture.Start, nil)
	holds, forgets := newRig(t, store, 64<<20, 64<<20), newRig(t, store, 1, 1)
	bodies, tags := map[string]string{}, map[string]string{} // by each other
	questions := map[string]bool{}
	seen := 0
	check := func(r *rig, e query.Endpoint, raw string) {
		t.Helper()
		req := newRequest()
		if p := ask(t, r, req, e, raw); p != nil {
			t.Fatalf("%s?%s: %+v", e, raw, p)
		}
		body, tag := string(req.Reply.Body), header(&req.Reply, "ETag")
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
	one := func(of ...string) string { return of[rnd.IntN(len(of))] }
	for _, at := range []int{0, 1} {
		if at == 1 {
			f.Quotes[17].Price.Lo++ // one row of quotes, and none of assets
			fixture.Publish(t, store, f, fixture.Start.Add(artifacts.Step), first)
		}
		for _, r := range []*rig{holds, forgets} {
			r.await(t, fixture.Start.Add(time.Duration(at)*artifacts.Step))
		}
		for range 6000 {
			e := query.Endpoint(rnd.IntN(int(query.Endpoints)))
			if e == query.Global {
				continue
			}
			raw := ""
			switch id := 1 + 2*rnd.IntN(8); rnd.IntN(4) {
			case 0: // few rows in few ways
				raw = fmt.Sprintf("id=%d,%d", id, id+2)
			case 1:
				raw = fmt.Sprintf("slug=asset-%d,asset-%d", rnd.IntN(3), rnd.IntN(3))
			default:
				size := 1 + rnd.IntN(3)
				raw = one(fmt.Sprintf("page=%d&size=%d", 1+rnd.IntN(8), size), fmt.Sprintf("offset=%d&limit=%d", rnd.IntN(8), size))
			}
			if sorts := e.SortKeys(); len(sorts) > 0 && rnd.IntN(3) > 0 {
				raw += "&sort=" + sorts[rnd.IntN(len(sorts))].Name() + one("", ":asc", ":desc")
			}
			raw += one("", "", "&fields=links")
			check(holds, e, raw)
			check(forgets, e, raw)
		}
	}
	if seen < 1000 || len(bodies) < 300 {
		t.Errorf("%d bodies, %d found in another way: that says little", len(bodies), seen)
	}
}
