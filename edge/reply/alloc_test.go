//go:build !race

package reply

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/edge/query"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/teststore"
)

// TestNoAllocations checks that answering allocates nothing, whether the answer is cached, composed,
// compressed or not modified.
func TestNoAllocations(t *testing.T) {
	store := memstore.New()
	f := teststore.NewFeed(5000, 1)
	teststore.Publish(t, store, f.History(100), teststore.Start)
	coded := []string{"page=3", "id=1,5,9", "sort=name:desc&page=4&size=100"}
	for _, c := range []struct {
		name            string
		memory          int64 // for cached answers
		raws            []string
		encoding, match []byte
		status          int
	}{
		{"cached", 64 << 20, []string{"page=3"}, nil, nil, 200},
		{"cached, parameters ignored", 64 << 20, []string{"page=3&limit=2&id=&id=&utm%5Fsource=x"}, nil, nil, 200},
		{"cached in gzip", 64 << 20, []string{"page=3"}, []byte("gzip, deflate"), nil, 200},
		{"cached, not modified", 64 << 20, []string{"page=3"}, nil, []byte("*"), 304},
		{"put together", 1, []string{
			"page=3", "sort=name:desc&page=4&size=100", "id=1,3,5,7", "slug=asset-1,asset-9&sort=name",
			"symbol=common&sort=name:desc", "symbol=common&id=1,21", "id=2,4&slug=no",
		}, nil, nil, 200},
		{"put together in zstd", 1, coded, []byte("zstd"), nil, 200},
		{"put together in gzip", 1, coded, []byte("gzip"), nil, 200},
		{"put together in br", 1, coded, []byte("br"), nil, 200},
		{"put together, not modified", 1, []string{"page=3"}, nil, []byte("*"), 304},
		{"history, cached", 64 << 20, []string{"id=1&window=1y"}, nil, nil, 200},
		{"history, put together in zstd", 1, []string{"symbol=common&size=20&window=1y"}, []byte("zstd"), nil, 200},
		{"history, put together in gzip", 1, []string{"symbol=common&size=20&window=1y"}, []byte("gzip"), nil, 200},
		{"history, put together", 1, []string{
			"id=1&window=1y", "id=1,5,9,13,17,21,25,29,33,37,41,45,49,53,57,61,65,69,73,77&window=1Y",
			"symbol=common&page=2&size=5&window=24h", "slug=asset-0,no",
		}, nil, nil, 200},
		{"table, put together", 1, []string{"page=3&size=100", "sort=name:desc&fields=groups", "id=1,3,5,7"}, nil,
			nil, 200},
		{"table, cached", 64 << 20, []string{"page=3&size=100"}, []byte("zstd"), nil, 200},
		{"search, put together", 1, []string{"q=S160", "q=asset+B12", "q=c7+ass+asset-47", "q=asset-77+comm",
			"q=%C3%89", "q=none"}, nil, nil, 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, store, 256<<20, c.memory)
			r.Await(t, teststore.Start)
			e := query.Quotes
			switch name, _, _ := strings.Cut(c.name, ","); name {
			case "history":
				e = query.History
			case "search":
				e = query.Search
			case "table":
				e = query.Markets
			}
			req := newRequest()
			req.Now, req.AcceptEncoding, req.IfNoneMatch = time.Now(), c.encoding, c.match
			raws := make([][]byte, len(c.raws))
			for i := range raws {
				raws[i] = []byte(c.raws[i])
			}
			do := func() {
				for _, raw := range raws {
					req.Reply.Clear()
					parse := req.Query.Parse
					if e == query.Markets {
						parse = req.Query.ParseCSV
					}
					if err := parse(e, raw); err != nil {
						t.Fatal(err)
					}
					if p := r.Answer(req); p != nil || req.Reply.Status != c.status {
						t.Fatalf("%s: %+v, status %d", raw, p, req.Reply.Status)
					}
				}
			}
			for i := range 200 { // until shards and answers are cached and buffers have grown
				do()
				if i%50 == 0 {
					r.Cache.Wait()
				}
			}
			r.Freeze() // because polls allocate
			before := r.Totals().Composed
			if n := testing.AllocsPerRun(200, do); n != 0 {
				t.Errorf("%v allocations", n)
			}
			composed := r.Totals().Composed - before
			if want := c.memory == 1; (composed > 0) != want {
				t.Errorf("%s: %d answers put together", fmt.Sprint(c.raws), composed)
			}
		})
	}
}
