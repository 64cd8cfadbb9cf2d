package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"net/url"
	"slices"
	"strings"
	"time"

	"example.com/marketdata/internal/model"
	"example.com/marketdata/internal/test/must"
)

// said holds what a recorded feed says about an asset.
type said struct {
	at                       time.Time // of the feed's snapshot
	price, marketCap, volume *big.Rat
}

// comparePast compares the candles and prices of every asset with what it computes from the texts
// of the feeds, oldest first. The computation is plain, and shares no code with the builder, the
// edge or the model.
func (p *pair) comparePast(feeds []model.Files) {
	p.t.Helper()
	all := map[string][]said{} // by slug
	var times []time.Time
	// listed holds the slugs in the newest feed, because an asset that has left the directory has
	// left every list.
	listed := map[string]bool{}
	for _, files := range feeds {
		clear(listed)
		var info struct{ Time time.Time }
		must.OK(p.t, json.Unmarshal([]byte(files["feed.json"]), &info))
		at := info.Time.UTC().Truncate(10 * time.Minute)
		times = append(times, at)
		slugs := map[string]string{}
		eachLine(p, files["assets.ndjson"], func(row map[string]string) {
			slugs[row["key"]], listed[row["slug"]] = row["slug"], true
		})
		eachLine(p, files["quotes.ndjson"], func(row map[string]string) {
			slug := slugs[row["key"]]
			all[slug] = append(all[slug], said{at, number(row["price"], 18), number(row["market_cap"], 8),
				number(row["volume"], 8)})
		})
	}
	maps.DeleteFunc(all, func(slug string, _ []said) bool { return !listed[slug] })
	newest := times[len(times)-1]
	for interval, step := range map[string]time.Duration{"1h": time.Hour, "1d": 24 * time.Hour} {
		target := "candles?interval=" + interval + "&from=2026-07-01T00:00:00Z&size=20"
		p.eachBatch(all, 20, target, func(item map[string]any, of []said) {
			got := []string{}
			for _, c := range item["candles"].([]any) {
				got = append(got, texts(c.([]any)))
			}
			if want := candlesOf(of, step, newest); !slices.Equal(got, want) {
				p.t.Fatalf("%s candles of %s:\n%s\nwant\n%s", interval, item["slug"], strings.Join(got, "\n"),
					strings.Join(want, "\n"))
			}
		})
	}
	asked := make([]string, len(times))
	for i, at := range times {
		asked[i] = at.Add(time.Duration(i) * time.Second).Format(time.RFC3339)
	}
	p.eachBatch(all, 40, "prices?size=100&time="+strings.Join(asked, ","), func(item map[string]any, of []said) {
		for i, price := range item["prices"].([]any) {
			got := price.(map[string]any)
			at := slices.IndexFunc(of, func(s said) bool { return s.at.Equal(times[i]) })
			// Of the snapshots that are older than 48 hours, only the first one of each hour is
			// kept.
			first := i == 0 || !times[i-1].Truncate(time.Hour).Equal(times[i].Truncate(time.Hour))
			if newest.Sub(times[i]) >= 48*time.Hour && !first {
				continue
			}
			if at < 0 != (got["price"] == nil) || at >= 0 &&
				texts([]any{got["snapshot_time"], got["price"], got["market_cap"], got["volume"]}) !=
					texts([]any{times[i].Format(time.RFC3339), of[at].price, of[at].marketCap, of[at].volume}) {
				p.t.Fatalf("%s at %s: %v", item["slug"], asked[i], got)
			}
		}
	})
}

// candlesOf returns the candles of the intervals that have ended.
func candlesOf(of []said, step time.Duration, newest time.Time) (candles []string) {
	for i := 0; i < len(of); {
		begin, from := of[i].at.Truncate(step), i
		for i < len(of) && of[i].at.Truncate(step).Equal(begin) {
			i++
		}
		if newest.Before(begin.Add(step)) {
			break
		}
		some := of[from:i]
		byPrice := func(a, b said) int { return a.price.Cmp(b.price) }
		last := some[len(some)-1]
		candles = append(candles, texts([]any{begin.Format(time.RFC3339), some[0].price,
			slices.MaxFunc(some, byPrice).price, slices.MinFunc(some, byPrice).price, last.price, last.marketCap,
			last.volume}))
	}
	return candles
}

// eachBatch requests n assets at a time and calls f with the item of each asset.
func (p *pair) eachBatch(all map[string][]said, n int, target string, f func(item map[string]any, of []said)) {
	p.t.Helper()
	seen := 0
	slugs := make([]string, 0, len(all))
	for slug := range all {
		slugs = append(slugs, slug)
	}
	slices.Sort(slugs)
	for batch := range slices.Chunk(slugs, n) {
		for i, slug := range batch {
			batch[i] = url.QueryEscape(slug)
		}
		r := must.Get(p.send("GET", model.Prefix+target+"&slug="+strings.Join(batch, ",")))(p.t)
		var body struct {
			Result struct{ Items []map[string]any }
		}
		if r.status != 200 {
			p.t.Fatalf("%s: %d %s", target, r.status, r.body)
		}
		must.OK(p.t, json.Unmarshal([]byte(r.body), &body))
		for _, item := range body.Result.Items {
			seen++
			f(item, all[item["slug"].(string)])
		}
	}
	if seen != len(all) {
		p.t.Errorf("%s: %d of %d assets", target, seen, len(all))
	}
}

// texts formats values so that equal values have equal texts. Numbers, whether from an answer or
// computed, become fractions.
func texts(values []any) string {
	var b strings.Builder
	for i, v := range values {
		switch v := v.(type) {
		case nil:
			b.WriteString("null ")
		case *big.Rat:
			if v == nil {
				b.WriteString("null ")
				continue
			}
			b.WriteString(v.RatString() + " ")
		case string:
			if x, ok := new(big.Rat).SetString(v); ok && i > 0 {
				v = x.RatString()
			}
			b.WriteString(v + " ")
		}
	}
	return b.String()
}

// number returns a decimal, rounded half to even, or nil if there is none or if it is a market cap
// of zero.
func number(text string, places int) *big.Rat {
	x, ok := new(big.Rat).SetString(text)
	if !ok {
		return nil
	}
	scale := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(places)), nil)
	scaled := new(big.Rat).Mul(x, new(big.Rat).SetInt(scale))
	twice := new(big.Int).Lsh(scaled.Num(), 1)
	twice.Add(twice, scaled.Denom())
	rounded, rest := new(big.Int).DivMod(twice, new(big.Int).Lsh(scaled.Denom(), 1), new(big.Int))
	if rest.Sign() == 0 && rounded.Bit(0) == 1 {
		rounded.Sub(rounded, big.NewInt(1))
	}
	return new(big.Rat).SetFrac(rounded, scale)
}

// eachLine calls f with the members of each line that are strings or numbers.
func eachLine(p *pair, text string, f func(row map[string]string)) {
	p.t.Helper()
	lines := bufio.NewScanner(strings.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if len(strings.TrimSpace(lines.Text())) == 0 {
			continue
		}
		var raw map[string]json.RawMessage
		must.OK(p.t, json.Unmarshal(lines.Bytes(), &raw))
		row := map[string]string{}
		for name, v := range raw {
			var s string
			if json.Unmarshal(v, &s) != nil {
				s = fmt.Sprint(string(v))
			}
			row[name] = s
		}
		f(row)
	}
	must.OK(p.t, lines.Err())
}

// candlesStay fails the test if a candle differs from the first answer that contained it. served
// holds the candles answered so far, by asset, interval and time.
func (p *pair) candlesStay(served map[string]string) {
	p.t.Helper()
	var body struct {
		Result struct {
			Items []struct {
				ID       int
				Interval string
				Candles  [][]*string
			}
		}
	}
	for _, interval := range []string{"1h", "1d"} {
		target := model.Prefix + "candles?size=20&id=1,2,3,4,5,6,7,8,9,10,11,12&interval=" + interval
		r := must.Get(p.send("GET", target))(p.t)
		if must.OK(p.t, json.Unmarshal([]byte(r.body), &body)); r.status != 200 {
			p.t.Fatalf("candles: %d %s", r.status, r.body)
		}
		for _, item := range body.Result.Items {
			for _, c := range item.Candles {
				of, text := fmt.Sprint(item.ID, " ", item.Interval, " ", *c[0]), must.Get(json.Marshal(c))(p.t)
				if was, had := served[of]; had && was != string(text) {
					p.t.Fatalf("the candle %s is %s, and was %s", of, text, was)
				}
				served[of] = string(text)
			}
		}
	}
}
