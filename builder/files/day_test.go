package files

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/dirstore"
	"example.com/marketdata/builder/ledger"
	"example.com/marketdata/builder/market"
	"example.com/marketdata/internal/test/must"
)

// fullDay returns a ledger on disk with a price for each asset in each snapshot of a day. Some of
// the snapshots have the same prices.
func fullDay(tb testing.TB, assets int, day time.Time) (artifacts.Store, *ledger.Ledger) {
	const different = 6
	s := must.Get(dirstore.Open(tb.TempDir(), dirstore.Options{}))(tb)
	put := func(b []byte) (ref artifacts.Ref) {
		ref = artifacts.RefOf(b)
		must.OK(tb, s.Put(tb.Context(), artifacts.ObjectKey(ref.Digest), b))
		return ref
	}
	dice := rand.New(rand.NewPCG(1, 2))
	feed := &market.Feed{Assets: make([]market.Asset, assets), Quotes: make([]market.Quote, assets)}
	for i := range feed.Assets {
		feed.Assets[i].Key = fmt.Sprint("coin-", i)
		feed.Quotes[i] = market.Quote{Asset: i, Price: market.U128{Lo: dice.Uint64N(1 << 50)}}
	}
	var at *artifacts.Ref
	for i := range different {
		l := must.Get(ledger.Load(tb.Context(), s, at))(tb)
		must.OK(tb, l.AssignIDs(feed))
		for q := range feed.Quotes {
			p := &feed.Quotes[q].Price
			p.Lo += dice.Uint64N(p.Lo/50 + 1)
		}
		t := day.Add(time.Duration(i) * artifacts.Step)
		past := must.Get(l.Past(tb.Context(), feed, t))(tb)
		next := must.Get(l.Advance(tb.Context(), feed, market.Compute(feed, t, past, &market.Settings{}), t))(tb)
		for _, b := range next.Objects {
			put(b)
		}
		ref := put(next.Root)
		at = &ref
	}
	root := must.Get(ledger.ReadRoot(tb.Context(), s, *at))(tb)
	for i := different; i < int(24*time.Hour/artifacts.Step); i++ {
		p := root.Prices[i%different]
		p.Time = day.Add(time.Duration(i) * artifacts.Step)
		root.Prices = append(root.Prices, p)
	}
	ref := put(artifacts.Compress(nil, must.Get(json.Marshal(root))(tb)))
	return s, must.Get(ledger.Load(tb.Context(), s, &ref))(tb)
}

// memory returns one of this process's memory figures in MiB, or 0 if the system does not report
// it.
func memory(name string) (mib float64) {
	b, _ := os.ReadFile("/proc/self/status")
	_, rest, _ := strings.Cut(string(b), name+":")
	_, _ = fmt.Sscan(rest, &mib)
	return mib / 1024
}

// BenchmarkDay writes the prices of a day in which every snapshot has a price for every asset, and
// reports by how much that increases the process's memory.
func BenchmarkDay(b *testing.B) {
	for _, assets := range []int{20_000, 1_000_000} {
		b.Run(fmt.Sprint(assets), func(b *testing.B) {
			of := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
			s, prior := fullDay(b, assets, of)
			w := &Writer{Result: &market.Result{T: of.Add(day)}}
			w.Put = func(ctx context.Context, data []byte) (artifacts.Ref, error) {
				ref := artifacts.RefOf(data)
				return ref, s.Put(ctx, artifacts.FileKey(ref.Digest), data)
			}
			debug.FreeOSMemory()
			_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) // resets the peak
			before := memory("VmRSS")
			for b.Loop() {
				w.list.Items = nil
				must.OK(b, w.days(b.Context(), prior))
			}
			f := w.list.Items[0]
			if want := int64(assets) * 144; f.Rows != want {
				b.Fatalf("%d rows, want %d", f.Rows, want)
			}
			b.ReportMetric(memory("VmHWM")-before, "MiB-more")
			b.ReportMetric(float64(f.Bytes)/1e6, "MB")
		})
	}
}
