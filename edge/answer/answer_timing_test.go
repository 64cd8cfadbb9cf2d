package answer

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/artifacts/memstore"
	"example.com/marketdata/edge/internal/fixture"
	"example.com/marketdata/edge/query"
)

// BenchmarkAnswer measures the answering side alone: a cached page, and answers
// of the same length that are put together from shards in memory.
func BenchmarkAnswer(b *testing.B) {
	store := memstore.New()
	fixture.Publish(b, store, fixture.Feed(10_000, 1), fixture.Start, nil)
	rnd := rand.New(rand.NewPCG(1, 2))
	many := func(n int, of func() string) string {
		v := make([]string, n)
		for i := range v {
			v[i] = of()
		}
		return strings.Join(v, ",")
	}
	kinds := []struct {
		name   string
		memory int64
		raw    func() string
	}{
		{"cached", 64 << 20, func() string { return "page=3" }},
		{"page", 1, func() string { return fmt.Sprintf("offset=%d&limit=20", rnd.IntN(8000)) }},
		{"page by name desc", 1, func() string { return fmt.Sprintf("offset=%d&limit=20&sort=name:desc", rnd.IntN(8000)) }},
		{"20 ids", 1, func() string { return "id=" + many(20, func() string { return fmt.Sprint(rnd.IntN(20000)) }) }},
		{"20 slugs", 1, func() string {
			return "slug=" + many(20, func() string { return fmt.Sprintf("asset-%d", rnd.IntN(10000)) })
		}},
		{"8 symbols", 1, func() string { return "symbol=" + many(8, func() string { return fmt.Sprintf("S%d", rnd.IntN(3000)) }) }},
	}
	for _, k := range kinds {
		b.Run(k.name, func(b *testing.B) {
			r := newRig(b, store, 256<<20, k.memory)
			r.await(b, fixture.Start)
			raws := make([][]byte, 4096)
			for i := range raws {
				raws[i] = []byte(k.raw())
			}
			req := newRequest()
			req.Now = time.Now()
			var bytes int64
			do := func(raw []byte) {
				req.Reply.Clear()
				if err := req.Query.Parse(query.Quotes, raw); err != nil {
					b.Fatal(err)
				}
				if p := r.Answer(req); p != nil || req.Reply.Status != 200 {
					b.Fatalf("%s: %+v", raw, p)
				}
				bytes += int64(len(req.Reply.Body))
			}
			for range 4 {
				for _, raw := range raws {
					do(raw)
				}
				r.cache.Wait()
			}
			b.ReportAllocs()
			bytes = 0
			i := 0
			for b.Loop() {
				do(raws[i%len(raws)])
				i++
			}
			b.ReportMetric(float64(bytes)/float64(i), "B/answer")
		})
	}
}
