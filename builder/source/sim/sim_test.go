package sim

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"math/big"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/market"
	"example.com/marketdata/builder/source"
	"example.com/marketdata/internal/test/must"
	"pgregory.net/rapid"
)

var at = time.Date(2026, 11, 21, 7, 30, 0, 0, time.UTC)

var allFiles = []string{
	source.InfoFile, source.AssetsFile, source.QuotesFile, source.ExchangesFile, source.CategoriesFile,
	source.ChainsFile, source.RatesFile,
}

func filesAt(t testing.TB, assets int, seed uint64, when time.Time) *moment {
	t.Helper()
	files := must.Get(newMarket(assets, seed, true, nil).Files(t.Context(), when))(t)
	return files.(*moment)
}

func read(t testing.TB, files source.Files, name string) []byte {
	t.Helper()
	f := must.Get(files.Open(t.Context(), name))(t)
	defer f.Close()
	return must.Get(io.ReadAll(f))(t)
}

func TestOpen(t *testing.T) {
	for _, c := range []struct{ rest, want string }{
		{"", "sim:?assets=2000&seed=1"},
		{"?", "sim:?assets=2000&seed=1"},
		{"?assets=10", "sim:?assets=10&seed=1"}, {"?dirty=off", "sim:?assets=2000&seed=1"},
		{"?assets=10&dirty=on", "sim:?assets=10&seed=1&dirty=on"},
		{"?seed=0", "sim:?assets=2000&seed=0"},
		{"?seed=18446744073709551615&assets=2000000", "sim:?assets=2000000&seed=18446744073709551615"},
	} {
		src, err := Open(t.Context(), c.rest)
		if err != nil || src.String() != c.want {
			t.Errorf("%q: got %v, %v, want %s", c.rest, src, err, c.want)
		}
	}
	const taken = "; want sim:?assets=N&seed=S&dirty=on&past=year, all optional, N from 10 to 2000000, S a whole number from 0"
	for _, c := range []struct{ rest, want string }{
		{"assets=10", `unexpected "assets=10"`},
		{"?asset=10", `unknown parameter "asset"`},
		{"?assets=10&assets=10", "assets is given 2 times"},
		{"?assets=9", "assets=9 is out of range or no whole number"},
		{"?assets=2000001", "assets=2000001 is out of range"},
		{"?assets=1e3", "assets=1e3 is out of range or no whole number"},
		{"?assets=", "assets= is out of range or no whole number"},
		{"?dirty=1", "dirty=1 is neither on nor off"},
		{"?seed=-1", "seed=-1 is out of range or no whole number"},
		{"?seed=18446744073709551616", "seed=18446744073709551616 is out of range"},
		{"?seed=%zz", `query "seed=%zz"`},
	} {
		_, err := Open(t.Context(), c.rest)
		if err == nil || !strings.HasPrefix(err.Error(), c.want) || !strings.HasSuffix(err.Error(), taken) {
			t.Errorf("%q: got %v, want %s…%s", c.rest, err, c.want, taken)
		}
	}
}

// TestGolden detects changes to the market. A change to these digests changes every existing
// simulated market.
func TestGolden(t *testing.T) {
	for _, c := range []struct {
		assets int
		seed   uint64
		at     time.Time
		want   string
	}{
		{500, 1, at, "9dd69fc5ec9c3be7"},
		{500, 2, at.Add(-400 * 24 * time.Hour), "590c0519ec76b579"},
		{10, 1 << 63, time.Date(1950, 1, 1, 0, 0, 0, 0, time.UTC), "62b07043174ffdb6"},
	} {
		sum := sha256.New()
		files := filesAt(t, c.assets, c.seed, c.at)
		for _, name := range allFiles {
			sum.Write(read(t, files, name))
		}
		if got := hex.EncodeToString(sum.Sum(nil)[:8]); got != c.want {
			t.Errorf("%d assets, seed %d, %v: %s, want %s", c.assets, c.seed, c.at, got, c.want)
		}
	}
}

func TestTime(t *testing.T) {
	const want = `{"format":1,"database":"sim-10-7","time":"2026-11-21T07:30:00Z"}` + "\n"
	within := at.Add(9*time.Minute + 59*time.Second).In(time.FixedZone("", 3600))
	m := newMarket(10, 7, false, func() time.Time { return within })
	for _, when := range []time.Time{at, within, {}} { // the zero time means the present
		if files, err := m.Files(t.Context(), when); err != nil || string(read(t, files, source.InfoFile)) != want {
			t.Errorf("%v: got %v, %v, want %s", when, files, err, want)
		}
	}
	for _, year := range []int{0, 10_000} {
		if _, err := m.Files(t.Context(), time.Date(year, 12, 31, 0, 0, 0, 0, time.UTC)); err == nil ||
			!strings.Contains(err.Error(), "want 1 to 9999") {
			t.Errorf("year %d: got %v", year, err)
		}
	}
}

func TestFiles(t *testing.T) {
	files := filesAt(t, 1000, 1, at)
	for _, name := range []string{"", "quotes", "quotes.NDJSON", "../feed.json"} {
		if _, err := files.Open(t.Context(), name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q: got %v, want fs.ErrNotExist", name, err)
		}
	}
	for _, name := range allFiles {
		f := must.Get(files.Open(t.Context(), name))(t)
		if err := iotest.TestReader(f, read(t, filesAt(t, 1000, 1, at), name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	f := must.Get(files.Open(ctx, source.AssetsFile))(t)
	must.Get(f.Read(make([]byte, 1)))(t)
	cancel()
	if n, err := io.Copy(io.Discard, f); !errors.Is(err, context.Canceled) || n > 2*chunk {
		t.Errorf("canceled: read %d bytes more, %v", n, err)
	}
	ok(t, f.Close())
	if _, err := f.Read(make([]byte, 1)); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("closed: got %v, want fs.ErrClosed", err)
	}
}

// TestRead reads markets of any size, seed and time with the real reader, which must not set aside
// any row.
func TestRead(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		assets := rapid.OneOf(rapid.IntRange(10, 12), rapid.IntRange(10, 2000)).Draw(rt, "assets")
		dirty := rapid.Bool().Draw(rt, "dirty")
		m := newMarket(assets, rapid.Uint64().Draw(rt, "seed"), dirty, nil)
		when := time.Unix(rapid.Int64Range(yearOne+600, 253402300799).Draw(rt, "time"), 0)
		files, err := m.Files(t.Context(), when)
		ok(rt, err)
		feed, report, err := source.Read(t.Context(), files, source.ReadOptions{})
		ok(rt, err)
		for _, f := range report.Files {
			clean := !dirty && when.Year() > 1970 && when.Year() < 9999
			if f.Rejected != 0 || len(f.Rejections) != 0 || clean && len(f.Warnings) != 0 {
				rt.Errorf("%v: %+v", m, f)
			}
		}
		if len(feed.Assets) != assets || len(feed.Exchanges) != m.exchanges || len(feed.Categories) != m.categories ||
			len(feed.Chains) != m.chains {
			rt.Errorf("%v: %d assets, %d exchanges, %d categories, %d chains", m, len(feed.Assets), len(feed.Exchanges),
				len(feed.Categories), len(feed.Chains))
		}
		if q := len(feed.Quotes); q < min(settled, assets) || q < assets*85/100 {
			rt.Errorf("%v: %d quotes", m, q)
		}
		prices, err := files.(*moment).prices(t.Context())
		ok(rt, err)
		for i, a := range feed.Assets {
			feed.Assets[i] = market.Asset{Key: a.Key, Active: a.Active}
		}
		for i := range feed.Quotes {
			feed.Quotes[i].Supplies = prices.Quotes[i].Supplies
		}
		if !slices.Equal(prices.Quotes, feed.Quotes) || !reflect.DeepEqual(prices.Assets, feed.Assets) ||
			prices.Database != feed.Database || !prices.Time.Equal(feed.Time) {
			rt.Errorf("%v: the prices are not those of the files", m)
		}
		for _, q := range feed.Quotes {
			if q.Price == (market.U128{}) {
				rt.Errorf("%v: asset %d costs nothing", m, q.Asset)
			}
		}
	})
}

// TestLargest checks that no line of the largest market is too long for a feed.
func TestLargest(t *testing.T) {
	files := filesAt(t, maxAssets, 1, time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC))
	for line := range bytes.Lines(read(t, files, source.ChainsFile)) {
		if len(line) > source.MaxLine {
			t.Errorf("a line of %d bytes, of %d", len(line), source.MaxLine)
		}
	}
}

// prices returns the prices of a market by asset, in units of 1e-18 dollars.
func prices(t *testing.T, assets int, when time.Time) map[string]float64 {
	t.Helper()
	feed, _, err := source.Read(t.Context(), filesAt(t, assets, 1, when), source.ReadOptions{})
	ok(t, err)
	out := map[string]float64{}
	for _, q := range feed.Quotes {
		out[feed.Assets[q.Asset].Key] = float64(q.Price.Hi)*(1<<64) + float64(q.Price.Lo)
	}
	return out
}

// moves returns the factors, all at least 1, by which the prices at two moments differ, in
// ascending order.
func moves(a, b map[string]float64) (factors []float64) {
	for key, p := range a {
		if q, ok := b[key]; ok {
			factors = append(factors, max(p/q, q/p))
		}
	}
	slices.Sort(factors)
	return factors
}

// TestPricesMove checks that prices move a little in ten minutes, never so much within a day that a
// guard rail would stop the build, and noticeably over every window up to a year.
func TestPricesMove(t *testing.T) {
	for month := range 12 {
		when := at.AddDate(0, -month, 0)
		if month == 0 { // a time at which a period begins on every scale
			when = time.Unix(600<<16*45, 0)
		}
		now := prices(t, 1000, when)
		for _, c := range []struct {
			age       time.Duration
			low, most float64 // the lowest factor for the median price, and the highest for any price
		}{
			{artifacts.Step, 1.0001, 1.2}, {time.Hour, 1.001, 1.5}, {24 * time.Hour, 1.01, 3},
			{7 * 24 * time.Hour, 1.02, 50}, {365 * 24 * time.Hour, 1.1, 5000},
		} {
			f := moves(now, prices(t, 1000, when.Add(-c.age)))
			if len(f) < 600 || f[len(f)/2] < c.low || f[len(f)-1] > c.most {
				t.Errorf("%v and %v before: %d prices moved by %.4f (median) to %.4f, want %v to %v", when, c.age,
					len(f), f[len(f)/2], f[len(f)-1], c.low, c.most)
			}
		}
	}
}

// TestSupplies checks that the market cap is the price times the circulating supply, that the total
// and the maximum supply are not lower than that supply, and that supplies never change. All rates
// change except the dollar's.
func TestSupplies(t *testing.T) {
	read := func(when time.Time) (map[string]market.Quote, map[string]market.U128) {
		feed, _, err := source.Read(t.Context(), filesAt(t, 1000, 1, when), source.ReadOptions{})
		ok(t, err)
		quotes, rates := map[string]market.Quote{}, map[string]market.U128{}
		for _, q := range feed.Quotes {
			quotes[feed.Assets[q.Asset].Key] = q
		}
		for _, r := range feed.Rates {
			rates[r.Code] = r.USD
		}
		return quotes, rates
	}
	float := func(u market.U128, unit float64) float64 { return (float64(u.Hi)*(1<<64) + float64(u.Lo)) / unit }
	now, rates := read(at)
	before, ratesBefore := read(at.Add(-24 * time.Hour))
	checked := 0
	for key, q := range now {
		coins, total, most := q.Supplies[0], q.Supplies[1], q.Supplies[2]
		if was, ok := before[key]; ok && was.Supplies != q.Supplies {
			t.Errorf("%s: supplies %v, a day before %v", key, q.Supplies, was.Supplies)
		}
		below := func(a, b market.U128) bool { return !a.IsZero() && !b.IsZero() && a.Cmp(b) < 0 }
		if below(total, coins) || below(most, coins) || below(most, total) {
			t.Errorf("%s: supplies %v", key, q.Supplies)
		}
		if !coins.IsZero() && !q.MarketCap.IsZero() {
			checked++
			ratio := float(coins, 1e8) * float(q.Price, 1e18) / float(q.MarketCap, 1e8)
			if ratio < 0.999 || ratio > 1.001 {
				t.Errorf("%s: coins at their price are %v times the cap", key, ratio)
			}
		}
	}
	if checked < 500 {
		t.Errorf("%d supplies", checked)
	}
	if len(rates) != len(currencies)+len(coinRates)+1 || rates["btc"] != now["sim-0"].Price {
		t.Errorf("rates %v", rates)
	}
	for code, r := range rates {
		if (r == ratesBefore[code]) != (code == market.USD) {
			t.Errorf("%s: %v, a day before %v", code, r, ratesBefore[code])
		}
	}
}

// TestAssetsComeAndGo checks that assets vanish for good, come back, and lose their quotes for a
// while, that an asset with the same key has the same row, and that the largest assets stay.
func TestAssetsComeAndGo(t *testing.T) {
	const n = 2000
	seen, quotes := map[string]string{}, map[string]int{}
	var before map[string]bool
	returned := 0
	for i := range 30 {
		files := filesAt(t, n, 1, at.Add(time.Duration(i)*12*time.Hour))
		now := map[string]bool{}
		for line := range bytes.Lines(read(t, files, source.AssetsFile)) {
			var row assetRow
			ok(t, json.Unmarshal(line, &row))
			was, ok := seen[row.Key]
			if ok && was != string(line) {
				t.Fatalf("%s became %s", was, line)
			}
			if ok && !before[row.Key] {
				returned++
			}
			seen[row.Key], now[row.Key] = string(line), true
		}
		for key := range prices(t, n, at.Add(time.Duration(i)*12*time.Hour)) {
			quotes[key]++
		}
		before = now
	}
	now := prices(t, n, at.AddDate(1, 0, 0))
	stayed, sometimes := 0, 0
	for key := range seen {
		if _, ok := now[key]; ok {
			stayed++
		}
		if q := quotes[key]; q > 0 && q < 30 {
			sometimes++
		}
	}
	if len(seen) < n+20 || len(seen) > n+150 || returned < 10 || sometimes < 50 || stayed < n*60/100 ||
		stayed > n*85/100 {
		t.Errorf("%d assets in two weeks, %d returns, %d sometimes quoted, %d there after a year", len(seen), returned,
			sometimes, stayed)
	}
	for i := range settled {
		if key := "sim-" + strconv.FormatInt(int64(i), 36); quotes[key] != 30 || now[key] == 0 {
			t.Errorf("%s is not always there", key)
		}
	}
}

// TestLargestStay checks that no market, whatever its size, loses one of its ten largest assets or
// its price, so that the guard rails never stop a build for this reason.
func TestLargestStay(t *testing.T) {
	for _, assets := range []int{10, 200, 400, 2000} {
		for seed := range uint64(5) {
			for month := range 12 {
				m := newMarket(assets, seed, true, nil)
				files := must.Get(m.Files(t.Context(), at.AddDate(0, -month, int(seed))))(t)
				feed, _, err := source.Read(t.Context(), files, source.ReadOptions{})
				ok(t, err)
				slices.SortStableFunc(feed.Quotes, func(a, b market.Quote) int { return b.MarketCap.Cmp(a.MarketCap) })
				for _, q := range feed.Quotes[:10] {
					key := feed.Assets[q.Asset].Key
					place, err := strconv.ParseInt(strings.TrimPrefix(key, "sim-"), 36, 64)
					if err != nil || place >= int64(settled) {
						t.Errorf("%v, %d months before: %s is among the ten largest", m, month, key)
					}
				}
			}
		}
	}
}

// TestReal checks that the best-known assets exist, at plausible prices.
func TestReal(t *testing.T) {
	feed, _, err := source.Read(t.Context(), filesAt(t, 2000, 1, at), source.ReadOptions{})
	ok(t, err)
	for i, want := range []string{"bitcoin BTC Bitcoin", "ethereum ETH Ethereum", "tether USDT Tether"} {
		if a := feed.Assets[i]; a.Slug+" "+a.Symbol+" "+a.Name != want {
			t.Errorf("asset %d: %q, want %q", i, a.Slug+" "+a.Symbol+" "+a.Name, want)
		}
	}
	slugs := map[string]bool{}
	for i, r := range reals {
		if slugs[r.slug] || r.supplies[1] > 0 && r.supplies[1] < r.supplies[0] ||
			r.supplies[2] > 0 && r.supplies[2] < r.supplies[1] {
			t.Errorf("%+v: a second one, or its supplies fall", r)
		}
		slugs[r.slug] = true
		for chain := range r.contracts {
			if !slices.ContainsFunc(realChains[:], func(c realChain) bool { return c.slug == chain }) {
				t.Errorf("%s: no chain %s", r.slug, chain)
			}
		}
		text := string(market.AppendDecimal(nil, feed.Quotes[i].Price, market.PriceDecimals))
		price, _ := new(big.Rat).SetString(text)
		first := new(big.Rat).SetInt(new(big.Int).SetUint64(r.digits))
		first.Quo(first, new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(-r.exp)), nil)))
		if f, _ := price.Quo(price, first).Float64(); f < 0.3 || f > 3 {
			t.Errorf("%s: the price is %v times the one in real.tsv", r.slug, f)
		}
	}
}

var ok = must.OK
