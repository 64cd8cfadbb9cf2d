package teststore

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder"
	"example.com/marketdata/builder/market"
	"example.com/marketdata/builder/source"
)

// Rows holds the rows of a market by the names of the feed's files: the rows of assets.ndjson are
// under "assets", and so on.
type Rows map[string][]map[string]any

// Files implements Content.
func (r Rows) Files(at time.Time) source.Memory {
	files := source.Memory{source.InfoFile: source.Info("example", at)}
	for name, rows := range r {
		var text []byte
		for _, row := range rows {
			line, err := json.Marshal(row)
			if err != nil {
				panic(err)
			}
			text = append(append(text, line...), '\n')
		}
		files[name+".ndjson"] = text
	}
	return files
}

// Moments is a market that changes: it returns the rows at a given time.
type Moments func(at time.Time) Rows

// Files implements Content.
func (m Moments) Files(at time.Time) source.Memory { return m(at).Files(at) }

// Asset is an asset of a Feed. An asset whose Price is 0 has no quote. Amounts are in the smallest
// units of the feed.
type Asset struct {
	ID                       uint64
	Name, Symbol, Slug       string
	Price, MarketCap, Volume uint64
	Active                   bool
}

// Feed is a market with any number of assets.
type Feed struct {
	Assets []Asset

	history int // number of assets with history points
	past    []Asset
}

// NewFeed returns a market of n assets. One in ten has the ticker COMMON, one in seven has no
// quote, and ids have gaps. Prices depend on seed.
func NewFeed(n int, seed uint64) *Feed {
	f := &Feed{}
	for i := range n {
		a := Asset{
			ID: uint64(2*i + 1), Name: fmt.Sprintf("Asset %c%d", 'A'+(i*7)%26, i%1000), Symbol: "S" + strconv.Itoa(i/3),
			Slug: fmt.Sprintf("asset-%d", (i*7919)%n), Active: i%11 != 0,
		}
		if i%10 == 0 {
			a.Symbol = "Common"
		}
		if i%7 != 0 {
			x := uint64(i+1) * 0x9E3779B97F4A7C15 * (seed | 1)
			a.Price, a.MarketCap, a.Volume = x>>20+1, x>>8, x>>12
		}
		f.Assets = append(f.Assets, a)
	}
	return f
}

// Files implements Content.
func (f *Feed) Files(at time.Time) source.Memory {
	var assets, quotes, exchanges, categories, chains strings.Builder
	for i := range f.Assets {
		a := &f.Assets[i]
		fmt.Fprintf(&assets, `{"key":"k%d","id":%[1]d,"name":%s,"symbol":%s,"slug":%s,`+
			`"logo":"https://logo.example/%[1]d.png","explorers":["https://explorer.example/%[1]d"],"website":"https://site.example/","active":%[5]t}`+"\n",
			a.ID, quoted(a.Name), quoted(a.Symbol), quoted(a.Slug), a.Active)
		if a.Price != 0 {
			fmt.Fprintf(&quotes, `{"key":"k%d","price":%s,"market_cap":%s,"volume":%s}`+"\n", a.ID,
				market.AppendDecimal(nil, market.U128{Lo: a.Price}, 18),
				market.AppendDecimal(nil, market.U128{Lo: a.MarketCap}, 8),
				market.AppendDecimal(nil, market.U128{Lo: a.Volume}, 8))
		}
	}
	n := len(f.Assets)
	for i := range max(n/20, 3) {
		fmt.Fprintf(
			&exchanges, `{"key":"e%d","id":%d,"name":"Exchange %d","slug":"exchange-%d"}`+"\n", i, i+1, i%17, i%13)
	}
	for i := range max(n/100, 3) {
		var members []string
		for a := i; a < n; a += 50 {
			members = append(members, `"k`+strconv.FormatUint(f.Assets[a].ID, 10)+`"`)
		}
		group := fmt.Sprintf(`{"key":"g%d","id":%d,"name":"Group %[1]d","slug":"group-%[1]d","members":[%[3]s]`, i, i+1,
			strings.Join(members, ","))
		fmt.Fprintf(&categories, "%s}\n", group)
		fmt.Fprintf(&chains, `%s,"display_name":"Group %d"}`+"\n", group, i)
	}
	return source.Memory{
		source.InfoFile: source.Info("fixture", at), source.AssetsFile: []byte(assets.String()),
		source.QuotesFile: []byte(quotes.String()), source.ExchangesFile: []byte(exchanges.String()),
		source.CategoriesFile: []byte(categories.String()), source.ChainsFile: []byte(chains.String()),
	}
}

// quoted returns text as a JSON string.
func quoted(text string) []byte {
	b, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return b
}

// History gives up to n assets a year of history before the store's first snapshot: the assets at even
// indexes that have a price. It makes them the largest assets, and returns f. The history also contains
// two assets that f does not have. Some prices are missing, and one asset in nine has points only in
// the last hours.
func (f *Feed) History(n int) *Feed {
	f.history, f.past = 0, []Asset{{ID: 2}, {ID: 1 << 40}}
	for i := 0; i < min(2*n, len(f.Assets)); i += 2 {
		a := &f.Assets[i]
		if a.Price != 0 {
			a.MarketCap |= 1 << 60
			f.history++
		}
		if a.Price != 0 || i == 0 {
			f.past = append(f.past, *a)
		}
	}
	return f
}

// past returns feeds that contain the given assets, at many times in the year before the given time.
func past(assets []Asset, at time.Time) (feeds []builder.PastFeed) {
	chance := func(seed, t uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, t)) }
	times := map[time.Time]bool{}
	for i := range artifacts.HistoryWindows {
		w := &artifacts.HistoryWindows[i]
		sparse := 16
		if i == len(artifacts.HistoryWindows)-1 { // The answers for this window are the largest.
			sparse = 2
		}
		for t := w.First(at); t.Before(at); t = t.Add(w.Step) {
			if chance(1, uint64(t.Unix())).IntN(sparse) == 0 {
				times[t] = true
			}
		}
		times[w.First(at).Add(-w.Step)] = true // before the window
	}
	for _, t := range slices.SortedFunc(maps.Keys(times), time.Time.Compare) {
		f := &Feed{}
		for i, a := range assets {
			r := chance(a.ID, uint64(t.Unix()))
			a.Name, a.Symbol, a.Slug = fmt.Sprintf("Past %d", a.ID), "PAST", fmt.Sprintf("past-%d", a.ID)
			a.Price, a.MarketCap, a.Volume = uint64(1+r.Int64N(1e17)), 1<<61-uint64(i), 1
			switch {
			case a.ID%9 == 0 && at.Sub(t) > 5*time.Hour, i > 2 && r.IntN(16) == 0:
				a.Price = 0
			case r.IntN(12) == 0:
				a.Price = a.Price / 1e15 * 1e15
			}
			f.Assets = append(f.Assets, a)
		}
		feeds = append(feeds, builder.PastFeed{Name: t.String(), Time: t, Files: f.Files(t)})
	}
	return feeds
}
