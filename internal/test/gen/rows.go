package gen

import (
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	"example.com/marketdata/internal/model"
	"pgregory.net/rapid"
)

// PastRows generates rows for an import into a store that has built builtFeeds. They are the rows of
// otherFeeds, and made-up rows at or near the times of all these feeds, in any order. Some keys do
// not belong to any asset.
func PastRows(otherFeeds, builtFeeds []Moment) *rapid.Generator[[]model.PastRow] {
	return rapid.Custom(func(t *rapid.T) (rows []model.PastRow) {
		d := draw{t}
		for _, m := range otherFeeds {
			of, _, err := model.RowsOf(m.Files)
			if err != nil {
				t.Fatalf("rows of a feed: %v", err)
			}
			rows = append(rows, of...)
		}
		around := slices.Concat(otherFeeds, builtFeeds)
		steps := []time.Duration{0, 0, 0, 10 * time.Minute, 30 * time.Minute, time.Hour, 5 * time.Hour, 24 * time.Hour,
			240 * time.Hour, 2400 * time.Hour, 24000 * time.Hour}
		figure := func() *big.Rat {
			if d.chance(20) {
				return nil
			}
			return big.NewRat(int64(d.upTo(1000)), 100)
		}
		for range d.upTo(60) {
			at := around[d.upTo(len(around)-1)].At
			for range d.upTo(3) {
				at = at.Add(-steps[d.upTo(len(steps)-1)])
			}
			at = at.Add(time.Duration(d.upTo(2*3600)) * time.Second)
			rows = append(rows, model.PastRow{Key: fmt.Sprint(d.upTo(13)), Time: at.Truncate(time.Second),
				Quoted: model.Quoted{Price: big.NewRat(int64(d.upTo(99999)), 1000), MarketCap: figure(),
					Volume: figure()}})
		}
		return rapid.Permutation(rows).Draw(t, "rows")
	})
}

// PastFile writes rows as a file of the given kind, csv or ndjson.
func PastFile(rows []model.PastRow, kind string) []byte {
	var b strings.Builder
	if kind == "csv" {
		b.WriteString("volume,price,time,key,market_cap\r\n")
	}
	for _, r := range rows {
		figure := func(x *big.Rat, places int) string {
			if x == nil {
				return ""
			}
			return x.FloatString(places)
		}
		price, marketCap, volume := figure(r.Price, 18), figure(r.MarketCap, 8), figure(r.Volume, 8)
		at := r.Time.UTC().Format(time.RFC3339)
		if kind == "csv" {
			fmt.Fprintf(&b, "%s,%s,%s,%q,%s\r\n", volume, price, at, r.Key, marketCap)
			continue
		}
		row := map[string]any{"key": r.Key, "time": at, "price": json.Number(price), "market_cap": nil}
		if marketCap != "" {
			row["market_cap"] = marketCap
		}
		if volume != "" {
			row["volume"] = json.Number(volume)
		}
		line, err := json.Marshal(row)
		if err != nil {
			panic("gen: a row: " + err.Error())
		}
		b.Write(append(line, '\n'))
	}
	return []byte(b.String())
}
