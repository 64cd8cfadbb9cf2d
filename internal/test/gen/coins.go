package gen

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"example.com/marketdata/internal/model"
	"pgregory.net/rapid"
)

// platformNames are names of platforms. Some of them have the same id.
var platformNames = []string{
	"ethereum", "Ethereum", " ETHEREUM!", "binance-smart-chain", "Binance Smart Chain", "solana", "ǅ-日本", "ΣΑΣ", "σας",
	"\u212A", "a\"b\\", "--", "", "chat",
}

// platforms generates the contracts of an asset, including some on chains and, rarely, one that
// belongs to another asset.
func (m *market) platforms(d draw) []member {
	var all []member
	for range d.upTo(3) - d.upTo(2) {
		name := d.text(platformNames)
		if chains := m.here["chains"]; len(chains) > 0 && d.chance(40) {
			name = pick(d, chains).slug
		}
		m.next++
		n := m.next
		if d.chance(8) {
			n = d.between(1, n)
		}
		address := d.literal(fmt.Sprintf(pick(d, []string{"0x%040x", "0x%040X", "0xabCDEF%034x", "0x%039x", "0X%040x",
			"%040x", "So1%dana", "so1%dANA", "ibc/%d", "0x%039xg"}), n))
		if d.chance(3) {
			address = pick(d, odd)
		}
		all = append(all, member{name, address})
	}
	return all
}

// rateFile generates the rates file. Some rates are in US dollars, and others are the prices of
// assets.
func (m *market) rateFile(d draw) string {
	var rows [][]member
	for range d.upTo(5) {
		r := []member{{"code", d.literal(pick(d, []string{"eur", "gbp", "jpy", "btc", "eth", "xau", "usd", "sats", "0x",
			"EUR", "e", "abcdefghij", "abcdefghijk", "e-r"}))}}
		switch {
		case d.chance(60):
			r = append(r, member{"usd", d.decimal(price)})
		case d.chance(90):
			r = append(r, member{"asset", d.literal(m.member(d))})
		}
		r = d.optional(r, "name", d.literal(pick(d, []string{"", "Euro", "ß\n"})), `""`)
		r = d.optional(r, "unit", d.literal(pick(d, []string{"", "€", "\""})), `""`)
		r = d.optional(r, "type", pick(d, []string{`"crypto"`, `"fiat"`, `"commodity"`, `"Fiat"`}), `"fiat"`)
		rows = append(rows, r)
	}
	return m.lines(d, rows, nil)
}

// CoinQuestions generates valid and invalid requests below /api/v3/ to a service with the given
// snapshot.
func CoinQuestions(s *model.Snapshot) *rapid.Generator[string] { return coinQuestions(s, coinPaths) }

// CoinPastQuestions generates requests about the past of one coin.
func CoinPastQuestions(s *model.Snapshot) *rapid.Generator[string] {
	return coinQuestions(s, coinPasts)
}

func coinQuestions(s *model.Snapshot, paths []coinPath) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		d := draw{t}
		path, known := rapid.SampledFrom(paths).Draw(t, ""), d.knownToCoins(s)
		elements := strings.Split(path.path, "/")
		for i, e := range elements {
			if variable, ok := strings.CutPrefix(e, "{"); ok {
				elements[i] = d.segment(d.element(known[strings.TrimSuffix(variable, "}")]))
			}
		}
		var pairs []string
		for _, name := range strings.Fields(path.reads + " ids names symbols vs_currency x_cg_demo_api_key interval") {
			left := 50 // percent chance that the request leaves the parameter out
			if strings.Contains(path.needs, name) {
				left = 3
			} else if !strings.Contains(path.reads, name) {
				left = 99
			}
			if d.chance(left) {
				continue
			}
			pairs = append(pairs, d.pair(name, d.coinValue(s, known[name], name)))
			if d.chance(4) {
				pairs = append(pairs, d.pair(name, d.coinValue(s, known[name], name)))
			}
		}
		if shift := d.upTo(max(0, len(pairs)-1)); shift > 0 {
			pairs = append(pairs[shift:len(pairs):len(pairs)], pairs[:shift]...)
		}
		target := ascii(strings.Join(elements, "/"))
		if query := ascii(strings.Join(pairs, "&")); query != "" && len(query) <= maxQuery {
			target += "?" + query
		}
		return target
	})
}

const (
	priceFlags = " include_market_cap include_24hr_vol include_24hr_change include_last_updated_at precision"
	marketList = "vs_currency ids names symbols include_tokens category order per_page page sparkline" +
		" price_change_percentage precision"
)

// coinPath is a path below /api/v3/, with the parameters that it reads, and those that it usually
// needs for a 200.
type coinPath struct{ path, reads, needs string }

// coinPaths lists all paths. Paths near the beginning are chosen more often.
var coinPaths = func() (all []coinPath) {
	for _, p := range [][3]string{
		{"simple/price", "vs_currencies ids include_tokens" + priceFlags, "vs_currencies ids"},
		{"simple/price", "vs_currencies names include_tokens" + priceFlags, "vs_currencies names"},
		{"simple/price", "vs_currencies symbols include_tokens" + priceFlags, "vs_currencies symbols"},
		{"simple/token_price/{platform}", "vs_currencies contract_addresses" + priceFlags,
			"vs_currencies contract_addresses"},
		{"coins/markets", marketList, "vs_currency"}, {"coins/markets", marketList, "vs_currency"},
		{"coins/{coin}", "market_data sparkline include_categories_details", ""},
		{"coins/{platform}/contract/{address}", "market_data sparkline include_categories_details", ""},
		{"coins/{coin}/market_chart", "vs_currency days interval precision", "vs_currency days"},
		{"coins/{coin}/market_chart/range", "vs_currency from to interval precision", "vs_currency from to"},
		{"coins/{coin}/ohlc", "vs_currency days interval precision", "vs_currency days"},
		{"coins/{coin}/ohlc/range", "vs_currency from to interval", "vs_currency from to interval"},
		{"coins/{coin}/history", "date", "date"}, {"search", "query", "query"}, {"exchanges", "per_page page", ""},
		{"coins/categories", "order", ""}, {"coins/list", "include_platform", ""},
		{"coins/{platform}/contract/{address}/market_chart", "vs_currency days interval precision", "vs_currency days"},
		{"coins/{platform}/contract/{address}/market_chart/range", "vs_currency from to interval precision",
			"vs_currency from to"},
		{"coins/categories/list"}, {"exchanges/list"}, {"search/trending"}, {"global"}, {"exchange_rates"},
		{"asset_platforms"}, {"simple/supported_vs_currencies"}, {"ping"}, {"coins"}, {"coins//history"},
		{"coins/{coin}/tickers"}, {"Coins/list"}, {"coins/list/"},
	} {
		all = append(all, coinPath{p[0], p[1], p[2]})
	}
	return all
}()

// coinPasts lists the paths that return a coin's past by its id.
var coinPasts = slices.DeleteFunc(slices.Clone(coinPaths), func(p coinPath) bool {
	return !strings.HasPrefix(p.path, "coins/{coin}/") || p.needs == ""
})

// segment encodes a string as a path element. A plus sign is literal there.
func (d draw) segment(text string) string {
	all := d.chance(20)
	var b strings.Builder
	for _, c := range []byte(text) {
		if all || c <= ' ' || c >= 0x7f || strings.IndexByte("/?#%\\", c) >= 0 || text == "." || text == ".." {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// knownToCoins returns values of parameters and path elements below /api/v3/ that match something
// on one platform.
func (d draw) knownToCoins(s *model.Snapshot) map[string][]string {
	platform := d.element(slices.Sorted(maps.Keys(s.Coins.Chains)))
	_, ids, symbols := s.Known("assets")
	_, categories, _ := s.Known("categories")
	known := map[string][]string{"ids": ids, "coin": ids, "symbols": symbols, "category": categories,
		"platform": {platform}, "vs_currency": {"usd", "USD"}}
	for i, text := range s.Texts() {
		if i%3 == 0 {
			known["names"] = append(known["names"], text)
		}
	}
	for _, r := range s.Coins.Rates {
		known["vs_currency"] = append(known["vs_currency"], r.Code, strings.ToUpper(r.Code))
	}
	for _, on := range s.Coins.On {
		if address, ok := on[platform]; ok {
			known["address"] = append(known["address"], address)
		}
	}
	slices.Sort(known["address"])
	known["contract_addresses"], known["vs_currencies"] = known["address"], known["vs_currency"]
	return known
}

// coinValue returns an encoded value for a parameter below /api/v3/.
func (d draw) coinValue(s *model.Snapshot, known []string, name string) string {
	if d.chance(2) {
		return ""
	}
	var times []int64
	for _, p := range s.Series["1y"].Points(pick(d, append(assetIDs(s), 0))) {
		times = append(times, p.Time.Unix())
	}
	at := pick(d, append(times, s.Time.Unix())) + int64(pick(d, []int{0, 0, -1, 1, -86400, 600, 86400 * 7}))
	if d.chance(20) {
		at = s.Time.Unix() - int64(d.upTo(400*24*3600))
	}
	switch name {
	case "ids", "names", "symbols", "contract_addresses":
		if d.chance(2) {
			return strings.Repeat("a,", d.between(497, 500)) + d.encode(pick(d, append(known, "b")))
		}
		return d.coinList(known)
	case "category":
		return d.encode(d.element(known))
	case "vs_currency", "vs_currencies":
		if d.chance(5) {
			return d.encode(pick(d, []string{"abcd", ",", " ", "usd,", "us", "U\u017fD", "usd\x00", "usd,none"}))
		}
		if name == "vs_currency" && !d.chance(3) {
			return d.encode(d.element(known))
		}
		return d.coinList(known)
	case "precision":
		return d.encode(d.often([]string{"full", "2", "0", "18", "9", "FULL", "007"},
			[]string{"19", "-1", "x", "2.0", " 2", "-0", "2.", "99999999999999999999"}))
	case "order":
		return d.encode(d.often([]string{"market_cap_desc", "market_cap_asc", "volume_desc", "volume_asc", "id_asc",
			"id_desc", "name_asc", "name_desc", "market_cap_change_24h_asc", "ID_ASC"},
			[]string{"gecko_desc", "market_cap_rank", "price_desc", ",", "id_asc ", " "}))
	case "per_page", "page":
		return d.encode(d.often([]string{"1", "2", "3", "7", "20", "100", "250", "03"},
			[]string{"0", "-1", "251", "500", "9223372036854775807", "9223372036854775808", "1e1", " 1", "1.9", "x"}))
	case "price_change_percentage":
		return d.coinList([]string{"1h", "24h", "7d", "14d", "30d", "200d", "1y", "24H", "200d/"})
	case "days":
		return d.encode(d.often([]string{"1", "max", "2", "3", "7", "8", "30", "31", "91", "365", "366", "MAX",
			"99999999999", "0.042", "90.0", "0.041666666666666664", "0", "1.5"},
			[]string{"-1", "-0.5", ".5", "x", "9223372036854775808", " max"}))
	case "interval":
		return d.encode(d.often([]string{"daily", "hourly", "5m", "Daily"},
			[]string{"minutely", "1d", "daily,", "daily "}))
	case "from", "to":
		return d.time(at)
	case "date":
		return d.time(at)
	case "include_tokens":
		return d.encode(d.often([]string{"all", "top", "ALL"}, []string{"some", "all,top"}))
	case "query":
		return d.encode(d.typed(s))
	}
	return d.encode(d.often([]string{"true", "false", "1", "0", "TRUE"}, []string{"yes", "2", "true ", "\x00"}))
}

// time formats a time as client programs do, or rarely returns something else.
func (d draw) time(at int64) string {
	t := time.Unix(at, 0).UTC()
	zoned := t.In(time.FixedZone("", pick(d, []int{0, 3600, -5 * 3600, 20700})))
	text := d.often([]string{strconv.FormatInt(at, 10), strconv.FormatInt(at, 10) + ".999", "0", "999999999999",
		t.Format("2006-01-02"), t.Format("02-01-2006"), t.Format("2006-01-02T15:04"), t.Format("2006-01-02T15:04:05"),
		t.Format("2006-01-02 15:04:05.000000"), zoned.Format(time.RFC3339), zoned.Format("2006-01-02t15:04Z07:00"),
		t.Format("2006-01-02T15:04:05.000z"), "1969-12-31", "29-02-2024", "01-01-0000", "-1"},
		[]string{"x", strconv.FormatInt(at, 10) + "000", "-1795219200000", "9223372036854775808", "2025-01",
			"2025-1-01", "1-1-2025", "30-02-2025", "01-13-2025", "01-01-99999", "\xff", "01-01-2025 ", "1.", "1e9",
			"2025-06-01T24:00", "2025-06-01T10:00:60Z", "2025-06-01T1:00", "2025-06-01T10:00.5", "2025-06-01T10:00+2",
			"2025-06-01X10:00", "2025-06-01T10:00:00+02:00:00"})
	if d.chance(10) {
		return strings.ReplaceAll(text, " ", "+") // Not encoded: the + in a zone offset is then decoded as a space.
	}
	return d.encode(text)
}

func assetIDs(s *model.Snapshot) []int64 {
	ids, _, _ := s.Known("assets")
	return ids
}

// often draws a value: usually a good one, and rarely a bad one.
func (d draw) often(good, bad []string) string {
	if d.chance(4) {
		return pick(d, bad)
	}
	return pick(d, good)
}

// coinList returns a list of known texts, mixed with unknown ones, repeats, blanks and empty
// elements.
func (d draw) coinList(known []string) string {
	var list []string
	for range d.between(1, 6) {
		list = append(list, d.element(known))
		if d.chance(5) {
			list = append(list, list[0])
		}
	}
	return d.encode(strings.Join(list, ","))
}

// element usually returns one of the known texts.
func (d draw) element(known []string) string {
	text := "nothing"
	if len(known) > 0 {
		text = known[rapid.Uint64().Draw(d.t, "")%uint64(len(known))]
	}
	switch {
	case d.chance(3):
		return pick(d, []string{"nothing", "", " ", "\xff", "0x1", "\u00a0"})
	case d.chance(6):
		return d.refold(text)
	case d.chance(3):
		return pick(d, []string{" ", "\t", "\u2003"}) + text + pick(d, []string{"", " "})
	}
	return text
}
