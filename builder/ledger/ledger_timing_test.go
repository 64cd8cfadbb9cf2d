package ledger

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/market"
)

// BenchmarkBuild measures all that a build spends on the ledger: Load,
// AssignIDs, Past and Advance, behind a year of snapshots at every mark. The
// rows of the feed are in no order of id, one asset in twenty has no quote, one
// in a thousand is new in each window, and one in five hundred comes back
// somewhere in each zone.
func BenchmarkBuild(b *testing.B) {
	for _, assets := range []int{20_000, 1_000_000} {
		b.Run(fmt.Sprintf("assets=%d", assets), func(b *testing.B) {
			ctx := context.Background()
			s, f, T := benchmarkYear(b, assets)
			var written int64
			for b.Loop() {
				l, err := Load(ctx, s, f.ref)
				if err != nil {
					b.Fatal(err)
				}
				if err := l.AssignIDs(f.feed); err != nil {
					b.Fatal(err)
				}
				past, err := l.Past(ctx, f.feed, T)
				if err != nil {
					b.Fatal(err)
				}
				if len(past.Bases[7]) != len(f.feed.Quotes) {
					b.Fatal("bases are missing")
				}
				next, err := l.Advance(ctx, f.feed, f.res, T)
				if err != nil {
					b.Fatal(err)
				}
				written = int64(len(next.Root))
				for _, o := range next.Objects {
					written += int64(len(o))
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(assets), "ns/asset")
			b.ReportMetric(float64(written), "written-B")
		})
	}
}

// benchmarkFeed is a feed to build from, what is computed of it, and the root
// of the ledger before.
type benchmarkFeed struct {
	feed *market.Feed
	res  *market.Result
	ref  *artifacts.Ref
}

func benchmarkYear(b *testing.B, assets int) (*store, benchmarkFeed, time.Time) {
	T := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	random := rand.New(rand.NewPCG(5, 6))
	s := newStore()
	f := &market.Feed{}
	for _, i := range random.Perm(assets) {
		if i%20 != 0 {
			price := market.U128{Lo: random.Uint64N(1e9) * 1e6, Hi: uint64(i % 3)}
			f.Quotes = append(f.Quotes, market.Quote{Asset: len(f.Assets), Price: price, MarketCap: market.U128{Lo: uint64(i)}})
		}
		f.Assets = append(f.Assets, market.Asset{Key: fmt.Sprintf("asset-of-the-market-%d", i), ID: uint64(i + 1), Active: true})
	}
	l, err := Load(context.Background(), s, nil)
	if err == nil {
		err = l.AssignIDs(f)
	}
	if err != nil {
		b.Fatal(err)
	}
	rows, err := l.sorted(f)
	if err != nil {
		b.Fatal(err)
	}
	var put objects
	root := &Root{Format: artifacts.Format, IDs: map[string]idSegments{"assets": l.ids["assets"].store(&put)}}
	// A dozen different snapshots stand for the year's.
	var snapshots [][]artifacts.Ref
	for range 12 {
		var some []row
		for _, r := range rows {
			if random.IntN(1000) != 0 {
				some = append(some, r)
			}
		}
		snapshots = append(snapshots, putPrices(some, T, &put).Parts)
	}
	for i, t := range keptOfYear(T) {
		root.Prices = append(root.Prices, priceSet{Time: t, Parts: snapshots[i%len(snapshots)]})
	}
	for zone, count := range [zones]int{288, 2112, 276} {
		l.root.Returns[zone] = returnLog{}
		log := &l.root.Returns[zone]
		for i := range count {
			t := T.Add(-time.Duration(count-i) * map[int]time.Duration{recent: artifacts.Step, hourly: time.Hour, daily: day}[zone])
			var back []row
			for at := 0; ; {
				if at += 1 + random.IntN(1000*count); at >= len(rows) {
					break
				}
				back = append(back, rows[at])
			}
			*log, err = l.advanceReturns(context.Background(), zone, t, back, &put)
			if err != nil {
				b.Fatal(err)
			}
			for _, o := range put {
				s.put(o)
			}
			put = nil
		}
		root.Returns[zone] = *log
	}
	res := market.Compute(f, T, &market.Past{Bases: zeroBases(len(f.Quotes))}, &market.Settings{})
	ref := s.put(root.encode())
	return s, benchmarkFeed{f, res, &ref}, T
}

func zeroBases(n int) (bases [8][]market.U128) {
	for w := range bases {
		bases[w] = make([]market.U128, n)
	}
	return bases
}
