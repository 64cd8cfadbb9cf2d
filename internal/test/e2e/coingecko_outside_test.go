package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/internal/model"
	"example.com/marketdata/internal/model/coingecko"
	"example.com/marketdata/internal/test/must"
)

// The tests in this file list the requests that third-party programs send below /api/v3/, and the
// answers that they must get. The right values come from outside: reports of users of such
// programs, CoinGecko's recorded answers, and arithmetic.

// smallCoins is a market of four coins. The coin "quiet" has no price.
func smallCoins(at time.Time, btc, eth string) model.Files {
	files := model.Files{"feed.json": fmt.Sprintf(`{"format":1,"database":"t","time":%q}`, at.Format(time.RFC3339)),
		"assets.ndjson": `{"key":"btc","id":1,"name":"Bitcoin","symbol":"BTC","slug":"bitcoin","logo":"https://l.test/b.png"}
{"key":"eth","id":2,"name":"Ether","symbol":"ETH","slug":"ethereum","platforms":{"Ethereum":"0xAb"}}
{"key":"flat","id":3,"name":"Flat","symbol":"ΣΑΣ","slug":"flat"}
{"key":"quiet","id":4,"name":"Quiet","symbol":"QUIET","slug":"quiet"}`,
		"quotes.ndjson": `{"key":"btc","price":` + btc + `,"market_cap":1000,"volume":50}
{"key":"flat","price":100,"market_cap":800}`,
		"rates.ndjson": `{"code":"eur","usd":"1.25"}
{"code":"btc","asset":"btc"}`,
		"chains.ndjson": `{"key":"e","name":"Ethereum","slug":"ethereum"}`}
	if eth != "" {
		files["quotes.ndjson"] += `
{"key":"eth","price":` + eth + `,"market_cap":900}`
	}
	return files
}

// The times of the small market's snapshots.
var (
	marketBegins = time.Date(2026, 11, 21, 10, 10, 0, 0, time.UTC)
	marketNow    = marketBegins.Add(10 * time.Minute)
)

func smallPair(t *testing.T) *pair {
	p := newPair(t, model.Defaults(), poll)
	p.build(smallCoins(marketBegins, "100", "100"), time.Time{})
	p.build(smallCoins(marketNow, "90", "110"), time.Time{})
	return p
}

// get requests a path below /api/v3/.
func (p *pair) get(t *testing.T, target string) *response {
	t.Helper()
	return must.Get(p.send(http.MethodGet, coingecko.Prefix+target))(t)
}

// at returns the value at a path of names and indexes in a JSON answer.
func (r *response) at(t *testing.T, path ...any) any {
	t.Helper()
	v := must.Get(strictJSON(r.body))(t)
	for _, step := range path {
		switch at := v.(type) {
		case map[string]any:
			inner, ok := at[step.(string)]
			if !ok {
				return "no member " + step.(string)
			}
			v = inner
		case []any:
			v = at[step.(int)]
		default:
			return fmt.Sprintf("%v has no %v", v, step)
		}
	}
	return v
}

// TestCoinGeckoSymbols: symbols are in lower case, as in all recorded bodies, except in /search and
// /search/trending (portfolio-performance 2515 compares them with the symbols in /coins/list).
func TestCoinGeckoSymbols(t *testing.T) {
	p := smallPair(t)
	for target, path := range map[string][]any{
		"coins/list": {0, "symbol"}, "coins/list?include_platform=true": {0, "symbol"},
		"coins/markets?vs_currency=usd": {0, "symbol"}, "coins/bitcoin": {"symbol"},
		"coins/bitcoin/history?date=21-11-2026": {"symbol"},
	} {
		if got := p.get(t, target).at(t, path...); got != "btc" {
			t.Errorf("%s: %v", target, got)
		}
	}
	for target, want := range map[string]string{"coins/ethereum/contract/0xAb": "eth", "coins/flat": "σασ"} {
		if got := p.get(t, target).at(t, "symbol"); got != want {
			t.Errorf("%s: %v, want %s", target, got, want)
		}
	}
	if got := p.get(t, "search?query=btc").at(t, "coins", 0, "symbol"); got != "BTC" {
		t.Errorf("search: %v", got)
	}
}

// TestCoinGeckoTolerance: requests from tutorials and older programs get a 200 that names what the
// edge did not understand. A 400 is for requests whose meaning cannot be guessed.
func TestCoinGeckoTolerance(t *testing.T) {
	p := smallPair(t)
	const list, chart = "coins/markets?vs_currency=usd&", "coins/bitcoin/market_chart?vs_currency=usd&"
	for target, ignored := range map[string]string{
		list + "order=gecko_desc": "order", list + "order=gecko_asc": "order", list + "order=market_cap_rank": "order",
		list + "order=price_desc": "order", list + "per_page=500": "", list + "page=0": "",
		list + "price_change_percentage=200d/": "price_change_percentage",
		chart + "days=1&interval=minutely":     "interval", chart + "days=0.042": "", chart + "days=90.0": "",
		chart + "days=1&interval=5m": "interval", // snapshots are ten minutes apart
		// These are not from reports: additions of pycoingecko, of spreadsheets and of curious
		// people.
		list + "sparkline=yes&locale=en&page=1&page=2&x_cg_pro_key=k": "locale,page,sparkline",
		list + "per_page=0&precision=99&order=ID_ASC":                 "", chart + "days=-1&precision=two": "precision",
		"simple/price?ids=bitcoin&vs_currencies=usd&symbols=eth&include_24hr_vol=maybe": "include_24hr_vol,symbols",
	} {
		got := p.get(t, target)
		if got.status != 200 || got.header.Get("X-Ignored") != ignored {
			t.Errorf("%s: %d, X-Ignored %q, want %q", target, got.status, got.header.Get("X-Ignored"), ignored)
		}
	}
	for target, names := range map[string]string{
		"coins/markets": "vs_currency", "simple/price?ids=bitcoin&vs_currencies=none": "vs_currency",
		"coins/bitcoin/market_chart/range?vs_currency=usd&from=now&to=1": "from", "simple/price?vs_currencies=usd": "ids",
	} {
		if got := p.get(t, target); got.status != 400 || !strings.Contains(got.body, `{"error":"`) ||
			!strings.Contains(got.body, names) {
			t.Errorf("%s: %d %s", target, got.status, got.body)
		}
	}
	for _, target := range []string{"coins/bitcoin/tickers", "onchain/networks", "news", "nfts/list", "exchanges/x"} {
		if got := p.get(t, target); got.status != 404 || !strings.HasPrefix(got.body, `{"error":"`) ||
			!strings.Contains(got.body, "/api/v3/openapi.json") {
			t.Errorf("%s: %d %s", target, got.status, got.body)
		}
	}
}

// TestCoinGeckoTimes: the edge accepts as times the output of JavaScript's getTime()/1000 and
// toISOString(), of Python's timestamp() and isoformat(), and the date that mvines/sys 20 sends.
func TestCoinGeckoTimes(t *testing.T) {
	p := smallPair(t)
	begin, end := marketBegins.Unix(), marketNow.Unix()
	for _, times := range [][2]string{
		{fmt.Sprint(begin, ".0"), fmt.Sprint(end, ".999")}, {"2026-11-21T10:10:00.000Z", "2026-11-21T10:20:00Z"},
		{"2026-11-21T11:10:00%2B01:00", "2026-11-21T05:20:00-05:00"},
		// These are not from reports: a zone whose + became a blank, Python's str(datetime), and
		// days.
		{"2026-11-21T11:10:00+01:00", "2026-11-21+10:20:00.000001"}, {"21-11-2026", "2026-11-22"},
	} {
		got := p.get(t, "coins/bitcoin/market_chart/range?vs_currency=usd&from="+times[0]+"&to="+times[1])
		want := fmt.Sprintf(`{"prices":[[%d,100],[%d,90]],`, begin*1000, end*1000)
		if got.status != 200 || !strings.HasPrefix(got.body, want) {
			t.Errorf("%v: %d %s, want %s", times, got.status, got.body, want)
		}
	}
	for _, times := range [][2]string{
		{fmt.Sprint(begin, "000"), fmt.Sprint(end)}, {fmt.Sprint(begin), fmt.Sprint(end, "000.5")},
	} {
		got := p.get(t, "coins/bitcoin/market_chart/range?vs_currency=usd&from="+times[0]+"&to="+times[1])
		if got.status != 400 || !strings.Contains(got.body, "milliseconds") {
			t.Errorf("%v: %d %s", times, got.status, got.body)
		}
	}
	for _, date := range []string{"1795219200", "21-11-2026", "2026-11-21T23:59:59Z", "2026-11-22T00:30%2B01:00"} {
		if got := p.get(t, "coins/bitcoin/history?date="+date); got.status != 200 ||
			got.at(t, "market_data", "current_price", "usd") != json.Number("100") {
			t.Errorf("%s: %d %s", date, got.status, got.body)
		}
	}
	// Answers have milliseconds, because XChange 1460 reads them with a pattern that requires
	// milliseconds.
	for target, path := range map[string][]any{
		"coins/markets?vs_currency=usd": {0, "last_updated"}, "coins/bitcoin": {"last_updated"},
		"coins/flat": {"market_data", "last_updated"},
	} {
		if got := p.get(t, target).at(t, path...); got != "2026-11-21T10:20:00.000Z" {
			t.Errorf("%s: %v", target, got)
		}
	}
}

// TestCoinGeckoUnknown: a coin without a logo or a price has every member, with the value null or
// "" (rotki and l2beat read image.small and description.en without checking that they exist).
func TestCoinGeckoUnknown(t *testing.T) {
	p := smallPair(t)
	for _, c := range []struct {
		target string
		path   []any
		want   any
	}{
		{"coins/ethereum", []any{"image", "small"}, ""}, {"coins/ethereum", []any{"description", "en"}, ""},
		{"coins/ethereum", []any{"market_data", "circulating_supply"}, nil},
		{"coins/quiet", []any{"last_updated"}, nil}, {"coins/quiet", []any{"market_data", "last_updated"}, nil},
		{"coins/quiet", []any{"market_data", "total_supply"}, nil},
		{"coins/quiet", []any{"localization", "en"}, "Quiet"},
		{"coins/quiet", []any{"market_data", "price_change_percentage_24h"}, nil},
		{"coins/quiet", []any{"community_data", "reddit_subscribers"}, nil},
		{"coins/quiet/history?date=21-11-2026", []any{"image", "thumb"}, ""},
		{"asset_platforms", []any{0, "image", "small"}, ""},
		{"simple/price?ids=flat&vs_currencies=usd&include_24hr_change=true", []any{"flat", "usd_24h_change"}, nil},
	} {
		if got := p.get(t, c.target).at(t, c.path...); got != c.want {
			t.Errorf("%s: %v is %v, want %v", c.target, c.path, got, c.want)
		}
	}
}

// TestCoinGeckoNotFound: a request with ids of another source, or with misspelled names, categories
// or contracts, gets a 200 that leaves them out and names them.
func TestCoinGeckoNotFound(t *testing.T) {
	p := smallPair(t)
	for target, missed := range map[string]string{
		"simple/price?ids=bitcoin&vs_currencies=usd": "", "simple/price?ids=quiet&vs_currencies=usd": "",
		"simple/price?ids=btc-bitcoin,bitcoin,eth+ereum&vs_currencies=usd":     "ids=btc-bitcoin,eth%20ereum",
		"simple/price?names=Bitcoin,Bit&vs_currencies=usd":                     "names=Bit",
		"simple/price?symbols=XYZ,btc&include_tokens=all&vs_currencies=usd":    "symbols=xyz",
		"simple/token_price/ethereum?contract_addresses=0x1&vs_currencies=usd": "contract_addresses=0x1",
		"coins/markets?vs_currency=usd&ids=bitcoin,none":                       "ids=none",
		"coins/markets?vs_currency=usd&category=no+such&ids=none":              "category=no%20such",
		"coins/markets?vs_currency=usd":                                        "", "global": "",
	} {
		for range 2 { // the second one is from the cache
			if got := p.get(t, target); got.status != 200 || got.header.Get("X-Not-Found") != missed {
				t.Errorf("%s: %d, X-Not-Found %q, want %q", target, got.status, got.header.Get("X-Not-Found"), missed)
			}
		}
	}
}

// TestCoinGeckoCharts: the lists have equal lengths (tosunthex 24). Daily points have the time at
// which the day begins (pycoingecko 59). A past price in another currency is never divided by the
// present rate: the price of bitcoin in bitcoin is 1. The change over a day is not 0 for a coin
// that was first seen an hour ago.
func TestCoinGeckoCharts(t *testing.T) {
	p := newPair(t, model.Defaults(), poll)
	at := func(days int, clock time.Duration) time.Time {
		return time.Date(2026, 11, 18+days, 0, 0, 0, 0, time.UTC).Add(clock)
	}
	p.build(smallCoins(at(0, 20*time.Minute), "100", "25"), time.Time{})
	p.build(smallCoins(at(1, 10*time.Minute), "50", "25"), time.Time{})
	p.build(smallCoins(at(2, 9*time.Hour), "80", ""), time.Time{})
	p.build(smallCoins(at(2, 9*time.Hour+10*time.Minute), "80", "20"), time.Time{})
	now := at(2, 10*time.Hour+10*time.Minute)
	p.build(smallCoins(now, "90", "45"), time.Time{})
	ms := func(days int, clock time.Duration) int64 { return at(days, clock).UnixMilli() }
	const chart = "/market_chart?days=30&interval=daily&vs_currency="
	for target, want := range map[string]string{
		"coins/bitcoin" + chart + "usd": fmt.Sprintf(`{"prices":[[%[1]d,100],[%[2]d,50],[%[3]d,80],[%[4]d,90]],`+
			`"market_caps":[[%[1]d,1000],[%[2]d,1000],[%[3]d,1000],[%[4]d,1000]],`+
			`"total_volumes":[[%[1]d,50],[%[2]d,50],[%[3]d,50],[%[4]d,50]]}`,
			ms(0, 0), ms(1, 0), ms(2, 0), now.UnixMilli()),
		"coins/ethereum" + chart + "btc": fmt.Sprintf(`{"prices":[[%d,0.25],[%d,0.5],[%d,0.5]],"market_caps":`,
			ms(0, 0), ms(1, 0), now.UnixMilli()),
		"coins/bitcoin" + chart + "btc": fmt.Sprintf(`{"prices":[[%d,1],[%d,1],[%d,1],[%d,1]],"market_caps":`,
			ms(0, 0), ms(1, 0), ms(2, 0), now.UnixMilli()),
		// Programs store a null as a price of zero (Portfolio Performance, Blockbook).
		"coins/bitcoin" + chart + "eur": fmt.Sprintf(`{"prices":[[%d,72]],"market_caps":`, now.UnixMilli()),
	} {
		if got := p.get(t, target); !strings.HasPrefix(got.body, want) {
			t.Errorf("%s:\n got %s\nwant %s", target, got.body, want)
		}
	}
	for target, want := range map[string]string{
		"coins/bitcoin/history?date=18-11-2026":  `"market_data":{"current_price":{"btc":1,"usd":100},`,
		"coins/ethereum/history?date=19-11-2026": `"market_data":{"current_price":{"btc":0.5,"usd":25},`,
		"coins/ethereum/history?date=17-11-2026": `"market_data":{"current_price":{},"market_cap":{},"total_volume":{}}`,
	} {
		if got := p.get(t, target); !strings.Contains(got.body, want) {
			t.Errorf("%s: %s, want %s", target, got.body, want)
		}
	}
	// Ether was missing for a day and came back an hour ago, so the base of its 24-hour change is
	// an hour old.
	const changes = "coins/markets?vs_currency=usd&order=id_asc&price_change_percentage=1h,24h,30d"
	rows := p.get(t, changes)
	for row, want := range [][3]any{{json.Number("12.5"), nil, nil}, {json.Number("125"), nil, nil}} {
		for i, name := range []string{"1h", "24h", "30d"} {
			if got := rows.at(t, row, "price_change_percentage_"+name+"_in_currency"); got != want[i] {
				t.Errorf("coin %d over %s: %v, want %v", row, name, got, want[i])
			}
		}
	}
	p.build(smallCoins(at(3, 9*time.Hour), "180", "45"), time.Time{})
	prices := p.get(t, "simple/price?ids=bitcoin,ethereum&vs_currencies=usd,btc&include_24hr_change=true")
	for _, c := range []struct {
		coin, name string
		want       any
	}{
		{"bitcoin", "usd_24h_change", json.Number("125")}, {"bitcoin", "btc_24h_change", nil},
		{"ethereum", "usd_24h_change", json.Number("125")},
	} {
		if got := prices.at(t, c.coin, c.name); got != c.want {
			t.Errorf("%s of %s: %v, want %v", c.name, c.coin, got, c.want)
		}
	}
}

// TestCoinGeckoPast: candles have the time at which their interval ends, as CoinGecko's do.
// Four-hour candles are combined from hourly ones. In bitcoin, the highest price is a price at one
// moment, not a quotient of two highest prices. Charts and histories reach back to the first day
// that is kept, and include market caps and volumes.
func TestCoinGeckoPast(t *testing.T) {
	p := newPair(t, model.Defaults(), poll)
	at := func(text string) time.Time { return must.Get(time.Parse("2006-01-02T15:04", text))(t) }
	build := func(text, btc, eth, marketCap string) {
		files := smallCoins(at(text), btc, eth)
		files["quotes.ndjson"] = strings.Replace(files["quotes.ndjson"], "1000", marketCap, 1)
		p.build(files, time.Time{})
	}
	fill := regexp.MustCompile(`[0-9]{4}-[0-9-]+T[0-9:]{5}`)
	wants := func(answers map[string]string) {
		t.Helper()
		for target, want := range answers {
			want = fill.ReplaceAllStringFunc(want, func(text string) string { return fmt.Sprint(at(text).UnixMilli()) })
			if got := p.get(t, target); !strings.Contains(got.body, want) {
				t.Errorf("%s:\n got %s\nwant %s", target, got.body, want)
			}
		}
	}
	build("2024-11-01T00:10", "10", "5", "3000")
	build("2026-11-18T04:00", "100", "25", "1000")
	build("2026-11-18T04:10", "50", "25", "1000")
	build("2026-11-18T04:50", "80", "10", "1000")
	build("2026-11-18T05:00", "120", "", "null")
	build("2026-11-18T07:50", "60", "30", "1000")
	build("2026-11-18T08:00", "70", "35", "1000")
	const ether, bitcoin = "coins/ethereum/ohlc?vs_currency=", "coins/bitcoin/ohlc?vs_currency="
	wants(map[string]string{
		bitcoin + "usd&days=1": "[[2026-11-18T05:00,100,100,50,80],[2026-11-18T06:00,120,120,120,120]," +
			"[2026-11-18T08:00,60,60,60,60]]",
		bitcoin + "usd&days=7":                    "[[2026-11-18T08:00,100,120,50,60]]",
		bitcoin + "usd&days=0.125":                "[[2026-11-18T06:00,120,120,120,120],[2026-11-18T08:00,60,60,60,60]]",
		bitcoin + "usd&days=max":                  "[[2024-11-02T00:00,10,10,10,10]]",
		ether + "btc&days=1":                      "[[2026-11-18T05:00,0.25,0.5,0.125,0.125],[2026-11-18T08:00,0.5,0.5,0.5,0.5]]",
		ether + "btc&days=30&precision=1":         "[[2026-11-18T08:00,0.2,0.5,0.1,0.5]]",
		ether + "eur&days=1":                      "[]",
		"coins/quiet/ohlc?vs_currency=usd&days=1": "[]",
	})
	build("2026-11-19T00:00", "90", "30", "1500")
	const span = "/range?vs_currency=usd&from=2026-11-18T05:00&to=2026-11-18T06:00"
	wants(map[string]string{
		bitcoin + "usd&days=90": "[[2026-11-19T00:00,100,120,50,70]]",
		ether + "btc&days=max":  "[[2026-11-19T00:00,0.25,0.5,0.125,0.5]]",
		"coins/bitcoin/ohlc" + span + "&interval=hourly": "[[2026-11-18T05:00,100,100,50,80]," +
			"[2026-11-18T06:00,120,120,120,120]]",
		"coins/bitcoin/ohlc" + span + "&interval=daily": "[]",
		"coins/bitcoin/ohlc" + span:                     "Missing parameter interval",
		"coins/bitcoin/ohlc" + span + "&interval=5m":    "interval: it takes hourly or daily",
		"coins/nothing/ohlc" + span + "&interval=daily": "coin not found",
		"coins/bitcoin/market_chart?vs_currency=usd&days=max": `{"prices":[[2024-11-01T00:10,10],` +
			`[2026-11-18T04:00,100],[2026-11-19T00:00,90]],"market_caps":[[2024-11-01T00:10,3000],` +
			`[2026-11-18T04:00,1000],[2026-11-19T00:00,1500]],"total_volumes":[[2024-11-01T00:10,50],` +
			`[2026-11-18T04:00,50],[2026-11-19T00:00,50]]}`,
		"coins/ethereum/market_chart?vs_currency=btc&days=800&interval=daily": `{"prices":[[2024-11-01T00:00,0.5],` +
			`[2026-11-18T00:00,0.25],[2026-11-19T00:00,0.333333333333333333]],"market_caps":[[2024-11-01T00:00,90],` +
			`[2026-11-18T00:00,9],[2026-11-19T00:00,10]]`,
		"coins/bitcoin/market_chart/range?vs_currency=usd&from=2026-11-18T04:55&to=2026-11-18T07:00": `{"prices":` +
			`[[2026-11-18T05:00,120]],"market_caps":[[2026-11-18T05:00,null]],"total_volumes":[[2026-11-18T05:00,50]]}`,
		"coins/bitcoin/history?date=01-11-2024": `"current_price":{"btc":1,"usd":10},"market_cap":{"btc":300,` +
			`"usd":3000},"total_volume":{"btc":5,"usd":50}}`,
		"coins/bitcoin/history?date=02-11-2024": `"current_price":{},"market_cap":{},"total_volume":{}}`,
	})
	// Hourly charts have hourly points even beyond a week, and whatever is kept from more than 90
	// days ago.
	const hours = `{"prices":[[2026-11-18T04:00,100],[2026-11-18T05:00,120],[2026-11-18T07:50,60],[2026-11-18T08:00,70],` +
		`[2026-11-19T00:00,90]],"market_caps":[[2026-11-18T04:00,1000],[2026-11-18T05:00,null],`
	const chart = "coins/bitcoin/market_chart?interval=hourly&vs_currency=usd&days="
	wants(map[string]string{
		chart + "7": hours, chart + "8": hours, chart + "30": hours, chart + "90": hours,
		chart + "max": `{"prices":[[2024-11-01T00:10,10],` + hours[len(`{"prices":[`):strings.Index(hours, `,"market`)],
		"coins/bitcoin/market_chart/range?vs_currency=usd&from=2026-11-10&to=2026-11-18T06:00&interval=hourly": `{"prices":` +
			`[[2026-11-18T04:00,100],[2026-11-18T05:00,120]],`,
		"coins/ethereum/market_chart?vs_currency=btc&days=30&interval=hourly": `{"prices":[[2026-11-18T04:00,0.25],` +
			`[2026-11-18T07:50,0.5],[2026-11-18T08:00,0.5],[2026-11-19T00:00,0.333333333333333333]]`,
	})
	build("2026-11-20T04:30", "80", "20", "1000") // snapshots are kept for 48 hours
	wants(map[string]string{
		"coins/ethereum/ohlc/range?vs_currency=btc&from=2026-11-18&to=2030-01-01&interval=hourly": "[" +
			"[2026-11-18T08:00,0.5,0.5,0.5,0.5],[2026-11-18T09:00,0.5,0.5,0.5,0.5]," +
			"[2026-11-19T01:00,0.333333333333333333,0.333333333333333333,0.333333333333333333,0.333333333333333333]]",
		"coins/bitcoin/ohlc/range?vs_currency=btc&from=2026-11-18&to=2026-11-18T06:00&interval=hourly": "[" +
			"[2026-11-18T06:00,1,1,1,1]]",
		"coins/bitcoin/market_chart/range?vs_currency=usd&from=2024-11-01T00:05:00&to=2024-11-02": `{"prices":` +
			`[[2024-11-01T00:10,10]]`,
	})
	build("2027-02-16T04:30", "80", "40", "1000") // hours are kept for 90 days
	wants(map[string]string{bitcoin + "usd&days=max&interval=hourly": "[[2026-11-18T06:00,120,120,120,120]," +
		"[2026-11-18T08:00,60,60,60,60],[2026-11-18T09:00,70,70,70,70],[2026-11-19T01:00,90,90,90,90]," +
		"[2026-11-20T05:00,80,80,80,80]]"})
}
