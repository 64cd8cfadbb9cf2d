package edge

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"math/rand/v2"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/edge/gecko"
	"example.com/marketdata/edge/snapshot"
	"example.com/marketdata/internal/lab/memstore"
	"example.com/marketdata/internal/lab/must"
	"example.com/marketdata/internal/lab/teststore"
	"github.com/getkin/kin-openapi/openapi3"
)

// coinWorld is a random market as its feed has it, and a plain reading of COINGECKO.md: with rationals,
// maps and encoding/json.
type coinWorld struct {
	at     time.Time
	times  []time.Time // of the snapshots, oldest first
	coins  []*worldCoin
	rates  map[string]*big.Rat
	groups map[string][]*worldCoin // of each category
}

type worldCoin struct {
	id                   int
	slug, symbol, name   string
	inactive             bool
	prices               map[time.Time]*big.Rat // none: no quote
	cap, volume          *big.Rat
	circulating, maximum *big.Rat
	platforms            map[string]string
	rank                 int
}

func (w *coinWorld) price(c *worldCoin) *big.Rat { return c.prices[w.at] }

// plain formats x, rounded half to even.
func plain(x *big.Rat, places int) json.Number {
	scale := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(places)), nil)
	scaled := new(big.Rat).Mul(x, new(big.Rat).SetInt(scale))
	q, r := new(big.Int).QuoRem(scaled.Num(), scaled.Denom(), new(big.Int))
	twice := new(big.Int).Abs(r)
	switch c := twice.Lsh(twice, 1).Cmp(scaled.Denom()); {
	case c > 0 || c == 0 && q.Bit(0) == 1:
		q.Add(q, big.NewInt(int64(scaled.Sign())))
	}
	text := new(big.Rat).SetFrac(q, scale).FloatString(places)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return json.Number(text)
}

func (w *coinWorld) in(code string, x *big.Rat, places int) any {
	if x == nil {
		return nil
	}
	return plain(new(big.Rat).Quo(x, w.rates[code]), places)
}

func randomRat(r *rand.Rand, digits, places int) *big.Rat {
	x, _ := new(big.Rat).SetString(fmt.Sprintf("%d.%0*d", r.Int64N(pow10(1+r.IntN(digits))), places,
		r.Int64N(pow10(places))))
	return x.Add(x, big.NewRat(1, pow10(places)))
}

func pow10(n int) int64 {
	p := int64(1)
	for range n {
		p *= 10
	}
	return p
}

func newCoinWorld(r *rand.Rand) *coinWorld {
	w := &coinWorld{at: teststore.Start, rates: map[string]*big.Rat{"usd": big.NewRat(1, 1)},
		groups: map[string][]*worldCoin{}}
	for _, code := range []string{"eur", "jpy", "btc", "xau"} {
		if r.IntN(4) > 0 {
			w.rates[code] = randomRat(r, 5, 9)
		}
	}
	for _, hours := range []int{300 * 24, 80 * 24, 29 * 24, 20 * 24, 6 * 24, 70, 30, 23, 5, 1} {
		if r.IntN(3) > 0 {
			w.times = append(w.times, w.at.Add(-time.Duration(hours)*time.Hour))
		}
	}
	w.times = append(w.times, w.at)
	for i := range 5 + r.IntN(40) {
		c := &worldCoin{id: 3*i + 1, slug: fmt.Sprintf("coin-%d", (i*17)%101), inactive: r.IntN(8) == 0,
			symbol: []string{"ABC", "abc", "X\"Y", "ÄB", fmt.Sprint("S", i)}[r.IntN(5)],
			name:   []string{"Same", "same", "A, \\ B", fmt.Sprint("Coin ", i)}[r.IntN(4)],
			prices: map[time.Time]*big.Rat{}, platforms: map[string]string{}}
		if r.IntN(6) > 0 {
			for _, t := range w.times {
				if t.Equal(w.at) || r.IntN(4) > 0 {
					c.prices[t] = randomRat(r, 6, 12)
				}
			}
			c.volume = randomRat(r, 9, 8)
			for _, x := range []**big.Rat{&c.cap, &c.circulating, &c.maximum} {
				if r.IntN(4) > 0 {
					*x = randomRat(r, 12, 4)
				}
			}
		}
		for range r.IntN(3) {
			platform := []string{"ethereum", "solana", "some-chain"}[r.IntN(3)]
			c.platforms[platform] = fmt.Sprintf("0x%040x", i*31+1)
			if platform == "solana" {
				c.platforms[platform] = fmt.Sprintf("So%dAn", i)
			}
		}
		w.coins = append(w.coins, c)
		if group := r.IntN(4); group < 3 && !c.inactive {
			slug := fmt.Sprint("group-", group)
			w.groups[slug] = append(w.groups[slug], c)
		}
	}
	n := 0
	for _, c := range w.sorted(func(c *worldCoin) *big.Rat {
		if c.inactive {
			return nil
		}
		return c.cap
	}, true) {
		if c.cap != nil && !c.inactive {
			n++
			c.rank = n
		}
	}
	return w
}

// sorted returns the quoted coins by a figure, those without last, ties by id.
func (w *coinWorld) sorted(figure func(*worldCoin) *big.Rat, desc bool) (list []*worldCoin) {
	for _, c := range w.coins {
		if w.price(c) != nil {
			list = append(list, c)
		}
	}
	slices.SortStableFunc(list, func(a, b *worldCoin) int {
		x, y := figure(a), figure(b)
		switch {
		case x == nil || y == nil:
			return cmp.Compare(boolInt(x == nil), boolInt(y == nil))
		case desc:
			return y.Cmp(x)
		}
		return x.Cmp(y)
	})
	return list
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

func optional(row map[string]any, name string, x *big.Rat) {
	if x != nil {
		row[name] = plain(x, 18)
	}
}

// feed returns the feed's rows at a time.
func (w *coinWorld) feed(at time.Time) teststore.Rows {
	rows := teststore.Rows{}
	for _, c := range w.coins {
		key := fmt.Sprint("k", c.id)
		platforms := map[string]string{}
		for name, address := range c.platforms {
			if name == "some-chain" {
				name, address = "Some Chain", strings.ToUpper(address[:2])+address[2:]
				address = "0x" + strings.ToUpper(address[2:])
			}
			platforms[name] = address
		}
		rows["assets"] = append(rows["assets"], map[string]any{"key": key, "id": c.id, "name": c.name,
			"symbol": c.symbol, "slug": c.slug, "active": !c.inactive, "platforms": platforms})
		if price := c.prices[at]; price != nil {
			row := map[string]any{"key": key}
			optional(row, "price", price)
			optional(row, "market_cap", c.cap)
			optional(row, "volume", c.volume)
			optional(row, "circulating_supply", c.circulating)
			optional(row, "max_supply", c.maximum)
			rows["quotes"] = append(rows["quotes"], row)
		}
	}
	for code, usd := range w.rates {
		rows["rates"] = append(rows["rates"], map[string]any{"code": code, "usd": plain(usd, 18)})
	}
	for slug, coins := range w.groups {
		var members []string
		for _, c := range coins {
			members = append(members, fmt.Sprint("k", c.id))
		}
		rows["categories"] = append(rows["categories"],
			map[string]any{"key": slug, "name": "Group " + slug, "slug": slug, "members": members})
	}
	return rows
}

// before is the earliest price in a window, or nil if there is none but the present one.
func (w *coinWorld) before(c *worldCoin, window time.Duration) *big.Rat {
	for _, t := range w.times {
		if p := c.prices[t]; p != nil && !t.Before(w.at.Add(-window)) && !t.Equal(w.at) {
			return p
		}
	}
	return nil
}

func (w *coinWorld) change(c *worldCoin, window time.Duration) (absolute, percent *big.Rat) {
	base := w.before(c, window)
	if base == nil {
		return new(big.Rat), new(big.Rat)
	}
	absolute = new(big.Rat).Sub(w.price(c), base)
	percent = new(big.Rat).Quo(absolute, base)
	return absolute, percent.Mul(percent, big.NewRat(100, 1))
}

// points are those of a window: the first of each of its intervals, and that of now.
func (w *coinWorld) points(c *worldCoin, length, step time.Duration) (times []time.Time) {
	var last time.Time
	for _, t := range w.times {
		begin := t.Truncate(step)
		if begin.Before(w.at.Add(-length)) || begin.Equal(last) && !t.Equal(w.at) {
			continue
		}
		last = begin
		if c.prices[t] != nil {
			times = append(times, t)
		}
	}
	return times
}

var chartWindows = []struct{ length, step time.Duration }{
	{24 * time.Hour, 10 * time.Minute}, {7 * 24 * time.Hour, time.Hour}, {30 * 24 * time.Hour, 4 * time.Hour},
	{90 * 24 * time.Hour, 12 * time.Hour}, {365 * 24 * time.Hour, 24 * time.Hour},
}

func (w *coinWorld) chart(c *worldCoin, code string, begin, end time.Time, places int) any {
	window := chartWindows[len(chartWindows)-1]
	for _, x := range slices.Backward(chartWindows) {
		if !begin.Before(w.at.Add(-x.length)) {
			window = x
		}
	}
	prices := []any{}
	for _, t := range w.points(c, window.length, window.step) {
		if !t.Before(begin) && !t.After(end) {
			prices = append(prices, []any{t.UnixMilli(), w.in(code, c.prices[t], places)})
		}
	}
	return map[string]any{"prices": prices, "market_caps": []any{}, "total_volumes": []any{}}
}

// question is a request with the answer of the model.
type coinQuestion struct {
	path, shape string
	status      int
	want        any
}

func (w *coinWorld) simple(r *rand.Rand, c *worldCoin, codes []string, flags url.Values) any {
	row := map[string]any{}
	if w.price(c) == nil {
		return row
	}
	places := 18
	if p := flags.Get("precision"); p != "" && p != "full" {
		places = int(p[0] - '0')
	}
	for _, code := range codes {
		row[code] = w.in(code, w.price(c), places)
		if flags.Has("include_market_cap") && c.cap != nil {
			row[code+"_market_cap"] = w.in(code, c.cap, 18)
		}
		if flags.Has("include_24hr_vol") {
			row[code+"_24h_vol"] = w.in(code, c.volume, 18)
		}
		if flags.Has("include_24hr_change") {
			row[code+"_24h_change"] = nil
			if _, percent := w.change(c, 24*time.Hour); code == "usd" {
				row[code+"_24h_change"] = plain(percent, 12)
			}
		}
	}
	if flags.Has("include_last_updated_at") {
		row["last_updated_at"] = w.at.Unix()
	}
	return row
}

func (w *coinWorld) askSimple(r *rand.Rand) coinQuestion {
	q, want := url.Values{}, map[string]any{}
	codes := w.codes(r)
	q.Set("vs_currencies", strings.ToUpper(strings.Join(codes, ",")))
	for _, flag := range []string{"include_market_cap", "include_24hr_vol", "include_24hr_change",
		"include_last_updated_at"} {
		if r.IntN(2) == 0 {
			q.Set(flag, "true")
		}
	}
	if r.IntN(2) == 0 {
		q.Set("precision", []string{"full", "0", "2", "9"}[r.IntN(4)])
	}
	var asked []string
	c := func() *worldCoin { return w.coins[r.IntN(len(w.coins))] }
	by := []string{"ids", "names", "symbols", "contract_addresses"}[r.IntN(4)]
	platform := []string{"ethereum", "some-chain", "solana"}[r.IntN(3)]
	for range 1 + r.IntN(6) {
		c := c()
		switch by {
		case "ids":
			asked = append(asked, c.slug, strings.ToUpper(c.slug), "nothing")
			want[c.slug] = w.simple(r, c, codes, q)
		case "contract_addresses":
			address := c.platforms[platform]
			asked = append(asked, "0x1")
			if address != "" {
				want[address] = w.simple(r, c, codes, q)
				asked = append(asked, address)
				if platform != "solana" {
					asked[len(asked)-1] = "0x" + strings.ToUpper(address[2:])
				}
			}
		default:
			text := func(c *worldCoin) string { return map[string]string{"names": c.name, "symbols": c.symbol}[by] }
			if strings.Contains(text(c), ",") {
				continue
			}
			asked = append(asked, text(c))
			best := w.best(func(o *worldCoin) bool { return strings.EqualFold(text(o), text(c)) })
			want[text(c)] = w.simple(r, best, codes, q)
		}
	}
	q.Set(by, cmp.Or(strings.Join(asked, ","), "-"))
	path := "simple/price?"
	if by == "contract_addresses" {
		path = "simple/token_price/" + platform + "?"
	}
	return coinQuestion{path + q.Encode(), "SimplePrice", 200, want}
}

// best returns the matching coin of the best rank.
func (w *coinWorld) best(match func(*worldCoin) bool) (best *worldCoin) {
	for _, c := range w.coins {
		if match(c) && (best == nil || c.rank > 0 && (best.rank == 0 || c.rank < best.rank)) {
			best = c
		}
	}
	return best
}

func (w *coinWorld) codes(r *rand.Rand) (codes []string) {
	for code := range w.rates {
		if r.IntN(2) == 0 {
			codes = append(codes, code)
		}
	}
	if len(codes) == 0 {
		return []string{"usd"}
	}
	return codes
}

func (w *coinWorld) askMarkets(r *rand.Rand) coinQuestion {
	code := w.codes(r)[0]
	q := url.Values{"vs_currency": {code}, "price_change_percentage": {"30d,200d"}, "sparkline": {"true"}}
	list := w.sorted(func(c *worldCoin) *big.Rat { return c.cap }, true)
	switch o := r.IntN(4); o {
	case 1:
		q.Set("order", "market_cap_asc")
		list = w.sorted(func(c *worldCoin) *big.Rat { return c.cap }, false)
	case 2:
		q.Set("order", "volume_desc")
		list = w.sorted(func(c *worldCoin) *big.Rat { return c.volume }, true)
	case 3:
		q.Set("order", "id_desc")
		slices.SortFunc(list, func(a, b *worldCoin) int { return strings.Compare(b.slug, a.slug) })
	}
	keep := func(match func(*worldCoin) bool) {
		list = slices.DeleteFunc(list, func(c *worldCoin) bool { return !match(c) })
	}
	switch c := w.coins[r.IntN(len(w.coins))]; r.IntN(4) {
	case 0:
		q.Set("category", "group-1")
		q.Set("ids", "nothing") // a category comes first
		keep(func(c *worldCoin) bool { return slices.Contains(w.groups["group-1"], c) })
	case 1:
		q.Set("ids", c.slug+",nothing")
		keep(func(o *worldCoin) bool { return c == o })
	case 2:
		q.Set("symbols", strings.ToLower(c.symbol))
		q.Set("include_tokens", "all")
		keep(func(o *worldCoin) bool { return strings.EqualFold(c.symbol, o.symbol) })
	}
	size, page := 1+r.IntN(20), 1+r.IntN(2)
	q.Set("per_page", fmt.Sprint(size))
	q.Set("page", fmt.Sprint(page))
	list = list[min(len(list), size*(page-1)):]
	want := []any{}
	for _, c := range list[:min(size, len(list))] {
		want = append(want, w.market(c, code))
	}
	return coinQuestion{"coins/markets?" + q.Encode(), "CoinsMarkets", 200, want}
}

func (w *coinWorld) market(c *worldCoin, code string) map[string]any {
	row := map[string]any{"id": c.slug, "symbol": c.symbol, "name": c.name, "last_updated": w.at.Format(time.RFC3339),
		"current_price": w.in(code, w.price(c), 18), "market_cap": w.in(code, c.cap, 18),
		"total_volume": w.in(code, c.volume, 18), "circulating_supply": w.in("usd", c.circulating, 18),
		"max_supply": w.in("usd", c.maximum, 18), "market_cap_rank": nil, "price_change_24h": nil,
		"price_change_percentage_24h": nil, "price_change_percentage_30d_in_currency": nil,
		"fully_diluted_valuation": nil}
	if c.rank > 0 {
		row["market_cap_rank"] = c.rank
	}
	if c.maximum != nil {
		row["fully_diluted_valuation"] = w.in(code, new(big.Rat).Mul(w.price(c), c.maximum), 18)
	}
	if code == "usd" {
		absolute, percent := w.change(c, 24*time.Hour)
		row["price_change_24h"], row["price_change_percentage_24h"] = plain(absolute, 18), plain(percent, 12)
		_, percent = w.change(c, 30*24*time.Hour)
		row["price_change_percentage_30d_in_currency"] = plain(percent, 12)
	}
	prices := []any{}
	for _, t := range w.points(c, chartWindows[1].length, chartWindows[1].step) {
		prices = append(prices, w.in(code, c.prices[t], 18))
	}
	row["sparkline_in_7d"] = map[string]any{"price": prices}
	return row
}

func (w *coinWorld) inAll(x *big.Rat) map[string]any {
	all := map[string]any{}
	for code := range w.rates {
		if x != nil {
			all[code] = w.in(code, x, 18)
		}
	}
	return all
}

func (w *coinWorld) askCoin(r *rand.Rand) coinQuestion {
	c, code := w.coins[r.IntN(len(w.coins))], w.codes(r)[0]
	path, contract := "coins/"+c.slug, "ethereum"
	if address := c.platforms[contract]; address != "" && r.IntN(2) == 0 {
		path = "coins/" + contract + "/contract/" + strings.Replace(strings.ToUpper(address), "0X", "0x", 1)
	}
	switch r.IntN(6) {
	case 0:
		return coinQuestion{"coins/nothing", "", 404, map[string]any{"error": "coin not found"}}
	case 1:
		n := []int{1, 2, 7, 30, 40, 365, 4000}[r.IntN(7)]
		return coinQuestion{fmt.Sprintf("%s/market_chart?vs_currency=%s&days=%d&precision=3", path, code, n),
			"CoinsMarketChart", 200, w.chart(c, code, w.at.AddDate(0, 0, -n), w.at, 3)}
	case 2:
		begin := w.at.Add(-time.Duration(r.IntN(400)) * 24 * time.Hour)
		end := begin.Add(time.Duration(r.IntN(100)) * 24 * time.Hour)
		return coinQuestion{fmt.Sprintf("%s/market_chart/range?vs_currency=%s&from=%d&to=%d", path, code, begin.Unix(),
			end.Unix()), "CoinsMarketChart", 200, w.chart(c, code, begin, end, 18)}
	case 3:
		at := w.times[r.IntN(len(w.times))].Truncate(24 * time.Hour)
		data := map[string]any{}
		first := w.chart(c, "usd", at, at.Add(24*time.Hour-time.Second), 18).(map[string]any)["prices"].([]any)
		if len(first) > 0 {
			price, _ := new(big.Rat).SetString(string(first[0].([]any)[1].(json.Number)))
			data["current_price"] = w.inAll(price)
		}
		return coinQuestion{"coins/" + c.slug + "/history?date=" + at.Format("02-01-2006"), "CoinsIdHistory", 200,
			map[string]any{"id": c.slug, "symbol": c.symbol, "name": c.name, "market_data": data}}
	}
	shape := "CoinsID"
	details := map[string]any{}
	var only any
	for name, address := range c.platforms {
		details[name] = map[string]any{"contract_address": address}
		if len(c.platforms) == 1 {
			only = name
		}
	}
	want := map[string]any{"id": c.slug, "symbol": c.symbol, "name": c.name, "web_slug": c.slug,
		"platforms": c.platforms, "detail_platforms": details, "asset_platform_id": only,
		"last_updated": w.at.Format(time.RFC3339), "links": map[string]any{}, "market_data": map[string]any{
			"current_price": w.inAll(w.price(c)), "market_cap": w.inAll(c.cap), "total_volume": w.inAll(c.volume)}}
	if strings.Contains(path, "contract") {
		shape = "CoinsContractAddress"
		want["contract_address"] = c.platforms[contract]
	}
	data := want["market_data"].(map[string]any)
	data["last_updated"] = want["last_updated"]
	if c.rank > 0 {
		want["market_cap_rank"], data["market_cap_rank"] = c.rank, c.rank
	}
	categories := []string{}
	for slug, coins := range w.groups {
		if w.price(c) != nil && slices.Contains(coins, c) { // groups stand with quotes
			categories = append(categories, "Group "+slug)
		}
	}
	want["categories"] = categories
	for name, x := range map[string]*big.Rat{"max_supply": c.maximum, "circulating_supply": c.circulating} {
		if x != nil {
			data[name] = plain(x, 18)
		}
	}
	if price := w.price(c); price != nil {
		if c.maximum != nil {
			data["fully_diluted_valuation"] = w.inAll(new(big.Rat).Mul(price, c.maximum))
		}
		absolute, _ := w.change(c, 24*time.Hour)
		data["price_change_24h"] = plain(absolute, 18)
		data["price_change_24h_in_currency"] = map[string]any{"usd": plain(absolute, 18)}
		for name, n := range map[string]int{"1h": 1, "24h": 24, "7d": 7 * 24, "30d": 30 * 24, "1y": 365 * 24} {
			_, percent := w.change(c, time.Duration(n)*time.Hour)
			data["price_change_percentage_"+name+"_in_currency"] = map[string]any{"usd": plain(percent, 12)}
			if name != "1h" {
				data["price_change_percentage_"+name] = plain(percent, 12)
			}
		}
	}
	return coinQuestion{path, shape, 200, want}
}

func (w *coinWorld) askRest(r *rand.Rand) coinQuestion {
	switch r.IntN(5) {
	case 0:
		rates := map[string]any{}
		for code, usd := range w.rates {
			if btc := w.rates["btc"]; btc != nil {
				rates[code] = map[string]any{"name": code, "unit": code, "type": "fiat",
					"value": plain(new(big.Rat).Quo(btc, usd), 18)}
			}
		}
		return coinQuestion{"exchange_rates", "ExchangeRates", 200, map[string]any{"rates": rates}}
	case 1:
		list := []any{}
		for _, c := range w.coins {
			list = append(list,
				map[string]any{"id": c.slug, "symbol": c.symbol, "name": c.name, "platforms": c.platforms})
		}
		return coinQuestion{"coins/list?include_platform=true", "CoinsList", 200, list}
	case 2:
		codes := []string{}
		for code := range w.rates {
			codes = append(codes, code)
		}
		slices.Sort(codes)
		return coinQuestion{"simple/supported_vs_currencies", "SupportedCurrencies", 200, codes}
	case 3:
		return coinQuestion{"coins/markets?vs_currency=abcd", "", 400, map[string]any{"error": "invalid vs_currency"}}
	}
	total, volume, active := new(big.Rat), new(big.Rat), 0
	for _, c := range w.coins {
		if !c.inactive {
			active++
			if c.cap != nil {
				total.Add(total, c.cap)
				volume.Add(volume, c.volume)
			}
		}
	}
	shares := map[string]any{}
	for rank := range 10 {
		c := w.best(func(c *worldCoin) bool { return c.rank == rank+1 })
		if c == nil {
			break
		}
		if symbol := strings.ToLower(c.symbol); shares[symbol] == nil {
			share := new(big.Rat).Quo(c.cap, total)
			shares[symbol] = plain(share.Mul(share, big.NewRat(100, 1)), 12)
		}
	}
	return coinQuestion{"global", "Global", 200, map[string]any{"data": map[string]any{
		"active_cryptocurrencies": active,
		"total_market_cap":        w.inAll(total), "total_volume": w.inAll(volume), "updated_at": w.at.Unix(),
		"market_cap_percentage": shares}}}
}

// covers says how got differs from want. What got has besides must say that something is not known.
func covers(path string, want, got any) error {
	switch want := want.(type) {
	case map[string]any:
		got, ok := got.(map[string]any)
		if !ok {
			return fmt.Errorf("%s: %v, want an object", path, got)
		}
		for name, v := range want {
			if err := covers(path+"/"+name, v, got[name]); err != nil {
				return err
			}
		}
		for name, v := range got {
			if _, ok := want[name]; !ok && !isUnknown(v) {
				return fmt.Errorf("%s/%s: %v, want nothing", path, name, v)
			}
		}
		return nil
	case []any:
		got, ok := got.([]any)
		if !ok || len(got) != len(want) {
			return fmt.Errorf("%s: %v, want %v", path, got, want)
		}
		for i := range want {
			if err := covers(fmt.Sprint(path, "/", i), want[i], got[i]); err != nil {
				return err
			}
		}
		return nil
	}
	if !reflect.DeepEqual(want, got) {
		return fmt.Errorf("%s: %v, want %v", path, got, want)
	}
	return nil
}

func isUnknown(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case map[string]any:
		for _, v := range v {
			if !isUnknown(v) {
				return false
			}
		}
		return true
	case []any:
		return len(v) == 0
	case string:
		return v == ""
	case json.Number:
		return v == "0"
	}
	return v == false
}

// exact decodes JSON with numbers as they were sent.
func exact(t *testing.T, b []byte) (v any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	must.OK(t, d.Decode(&v))
	return v
}

// ask requests a path below gecko.Prefix.
func (e *Edge) ask(t *testing.T, path string, header ...string) (*http.Response, []byte) {
	t.Helper()
	r := must.Get(http.NewRequest(http.MethodGet, "http://"+e.Addr().String()+gecko.Prefix+path, nil))(t)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	answer := must.Get(http.DefaultClient.Do(r))(t)
	defer answer.Body.Close()
	return answer, must.Get(io.ReadAll(answer.Body))(t)
}

// coinShapes loads the published shapes.
func coinShapes(t *testing.T) openapi3.Schemas {
	t.Helper()
	doc := must.Get(openapi3.NewLoader().LoadFromData(gecko.Document))(t)
	must.OK(t, doc.Validate(context.Background(), openapi3.DisableExamplesValidation()))
	return doc.Components.Schemas
}

func checkShape(t *testing.T, schemas openapi3.Schemas, shape, path string, body []byte) {
	t.Helper()
	var v any
	must.OK(t, json.Unmarshal(body, &v))
	if err := schemas[shape].Value.VisitJSON(v, openapi3.VisitAsResponse()); err != nil {
		t.Errorf("%s: %v\n%.2000s", path, err, body)
	}
}

// TestCoinGecko compares answers about random markets with the model, and with the published shapes.
func TestCoinGecko(t *testing.T) {
	schemas := coinShapes(t)
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 16))
		w := newCoinWorld(r)
		mem := memstore.New()
		feed := teststore.Moments(w.feed)
		teststore.Publish(t, mem, feed, w.at, teststore.Past(feed, w.times[:len(w.times)-1]...))
		e, stop := start(t, mem, func(cfg *Config) {
			cfg.Coins, cfg.Poll, cfg.HistoryFetch = true, time.Minute, 1<<30
		})
		until(t, "a whole snapshot", func() bool { return e.current() != nil && e.refresher.Status().Missing == 0 })
		for range 150 {
			asks := []func(*rand.Rand) coinQuestion{w.askSimple, w.askSimple, w.askMarkets, w.askCoin, w.askCoin,
				w.askRest}
			q := asks[r.IntN(len(asks))](r)
			answer, body := e.ask(t, q.path)
			if answer.StatusCode != q.status {
				t.Fatalf("seed %d: %s: %d %s", seed, q.path, answer.StatusCode, body)
			}
			if q.shape != "" {
				checkShape(t, schemas, q.shape, q.path, body)
			}
			want := exact(t, must.Get(json.Marshal(q.want))(t))
			if err := covers("", want, exact(t, body)); err != nil {
				t.Fatalf("seed %d: %s: %v\n%.3000s", seed, q.path, err, body)
			}
		}
		for path, shape := range map[string]string{"search?query=coin": "Search", "search/trending": "TrendingSearch",
			"exchanges": "Exchanges", "exchanges/list": "ExchangesList", "asset_platforms": "AssetPlatforms",
			"coins/categories": "Categories", "coins/categories/list": "CategoriesList", "ping": "PingServer"} {
			answer, body := e.ask(t, path)
			if answer.StatusCode != http.StatusOK {
				t.Errorf("%s: %d %s", path, answer.StatusCode, body)
			}
			checkShape(t, schemas, shape, path, body)
		}
		must.OK(t, stop())
	}
}

// TestCoinGeckoKeys checks that a key counts wherever programs send it, that one in the query reaches
// neither tag nor cache, and how errors look.
func TestCoinGeckoKeys(t *testing.T) {
	mem := memstore.New()
	teststore.Publish(t, mem, teststore.NewFeed(50, 1), teststore.Start)
	key, other := teststore.Key(t, mem, 100, 1000).Key, teststore.Key(t, mem, 1, 1).Key
	var logged bytes.Buffer
	e, stop := start(t, mem, func(cfg *Config) {
		cfg.Coins, cfg.AuthOff, cfg.Server.LogAll = true, false, true
		cfg.Log = slog.New(slog.NewJSONHandler(&logged, nil))
	})
	until(t, "a snapshot and keys", func() bool { return e.current() != nil && e.notReady() == "" })
	const target = "simple/price?ids=asset-9&vs_currencies=usd"
	var tag string
	for _, in := range []string{"X-Api-Key", "x-cg-demo-api-key", "X-Cg-Pro-Api-Key", "x_cg_demo_api_key",
		"x_cg_pro_api_key", "x%5fcg_demo_api_key"} {
		var answer *http.Response
		var body []byte
		if strings.Contains(in, "_") {
			answer, body = e.ask(t, target+"&"+in+"="+key)
		} else {
			answer, body = e.ask(t, target, in, key)
		}
		if answer.StatusCode != http.StatusOK {
			t.Fatalf("key in %s: %d %s", in, answer.StatusCode, body)
		}
		if got := answer.Header.Get("ETag"); tag != "" && got != tag {
			t.Errorf("key in %s: tag %s, was %s", in, got, tag)
		} else {
			tag = got
		}
		if in == "x_cg_demo_api_key" && !strings.HasPrefix(answer.Header.Get("Cache-Status"), "edge; hit") {
			t.Errorf("key in %s: %q", in, answer.Header.Get("Cache-Status"))
		}
	}
	for _, c := range []struct {
		path   string
		header []string
		status int
		body   string
	}{
		{"ping", nil, 200, gecko.Ping},
		{target, nil, 401, `{"status":{"error_code":401,"error_message":"`},
		{target + "&x_cg_demo_api_key=" + other, []string{"X-Api-Key", key}, 401, `{"status":{"error_code":401`},
		{target + "&x_cg_demo_api_key=" + key, []string{"X-Api-Key", key, "x-cg-demo-api-key", key}, 200,
			`{"asset-9":{`},
		{"coins/nothing", []string{"X-Api-Key", key}, 404, `{"error":"coin not found"}`},
		{"nothing", nil, 404, `{"error":"`},
		{target + "x", []string{"X-Api-Key", key}, 400, `{"error":"invalid vs_currency"}`},
		{target, []string{"X-Api-Key", key, "X-Snapshot-Time", "now"}, 400, `{"error":"X-Snapshot-Time: `},
		{target, []string{"X-Api-Key", other}, 200, `{"asset-9":{`},
		{target, []string{"X-Api-Key", other}, 429, `{"status":{"error_code":429`},
		{target, []string{"X-Api-Key", key, "If-None-Match", tag}, 304, ""},
	} {
		answer, body := e.ask(t, c.path, c.header...)
		if answer.StatusCode != c.status || !strings.HasPrefix(string(body), c.body) {
			t.Errorf("%s %v: %d %s", c.path, c.header, answer.StatusCode, body)
		}
	}
	for _, want := range []string{"edge; fwd=miss", "edge; hit"} { // a whole collection is kept at once
		answer, _ := e.ask(t, "coins/list", "X-Api-Key", key)
		if got := answer.Header.Get("Cache-Status"); !strings.HasPrefix(got, want) {
			t.Errorf("coins/list: %q, want %q", got, want)
		}
	}
	must.OK(t, stop())
	const route = `"route":"coingecko_simple_price"`
	if strings.Contains(logged.String(), key) || !strings.Contains(logged.String(), route) {
		t.Errorf("the log has the key, or not the route:\n%s", logged.String())
	}
}

// TestCoinGeckoIsSeparate checks that without the flag there is nothing, and that the edge reads nothing
// for it.
func TestCoinGeckoIsSeparate(t *testing.T) {
	mem := memstore.New()
	teststore.Publish(t, mem, teststore.NewFeed(50, 1), teststore.Start)
	e, _ := start(t, mem, nil)
	until(t, "a snapshot", func() bool { return e.current() != nil })
	for _, path := range []string{"ping", "openapi.json", "coins/list", "simple/price?ids=a&vs_currencies=usd"} {
		answer, body := e.ask(t, path)
		if answer.StatusCode != http.StatusNotFound || !strings.Contains(string(body), `"PATH_NOT_FOUND"`) {
			t.Errorf("%s: %d %s", path, answer.StatusCode, body)
		}
	}
	for v := range snapshot.Leaders + 1 {
		if e.current().CoinView(v) != nil {
			t.Errorf("the snapshot has view %d", v)
		}
	}
}
