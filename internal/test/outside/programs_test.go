package outside_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/outside"
	"example.com/marketdata/internal/test/testedge"
	"example.com/marketdata/internal/test/teststore"
)

// past lists the midnights before the last snapshot for which the small world of TestPrograms has
// snapshots.
var past = func() (times []time.Time) {
	for days := -2; days <= 0; days++ {
		times = append(times, outside.Last.Truncate(24*time.Hour).AddDate(0, 0, days))
	}
	return times
}()

// asker sends requests to an edge as a program does.
type asker struct{ *testedge.Edge }

// ask decodes the answer to a request below /api/v3/, whose status must be 200.
func (e asker) ask(t *testing.T, target string, into any) {
	t.Helper()
	a := outside.Send(t, e.Edge, "GET /api/v3/"+target+" HTTP/1.1")
	decoder := json.NewDecoder(strings.NewReader(a.Body))
	decoder.UseNumber()
	if err := decoder.Decode(into); err != nil || a.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d %.400s: %v", target, a.StatusCode, a.Body, err)
	}
}

// TestPrograms repeats the requests of programs for CoinGecko, and reads the answers as these
// programs do according to their sources (COINGECKO.md, "Programs read by their source").
func TestPrograms(t *testing.T) {
	store := memstore.New()
	teststore.Publish(t, store, outside.World, outside.Last, teststore.Past(outside.World, past...))
	e := asker{testedge.Start(t, testedge.Config{Reader: store, Coins: true, AuthOff: true, CacheDir: t.TempDir()})}
	outside.Await(t, e.Edge)
	t.Run("Portfolio Performance", e.portfolioPerformance)
	t.Run("Blockbook", e.blockbook)
	t.Run("Chainlink", e.chainlink)
	t.Run("cointop", e.cointop)
	t.Run("goingecko", e.goingecko)
}

// portfolioPerformance takes the first coin whose symbol equals the ticker in lower case
// (CoinGeckoQuoteFeed, getCoinGeckoIdForTicker). In a chart (fromArray), it accepts a time only as
// digits. A null is a price of zero. A point at 00:00:00 is the close of the day before. Any other
// point belongs to its own day, and the last point of a day wins.
func (e asker) portfolioPerformance(t *testing.T) {
	var list []struct{ ID, Symbol, Name string }
	e.ask(t, "coins/list", &list)
	id := ""
	for _, c := range list {
		if c.Symbol == strings.ToLower("BTC") && id == "" {
			id = c.ID
		}
	}
	if id != "bitcoin" {
		t.Errorf("no coin has the ticker: %v", list)
	}
	var today map[string]map[string]json.Number
	if e.ask(t, "simple/price?ids=bitcoin&vs_currencies=EUR", &today); today["bitcoin"]["eur"] != "72" {
		t.Errorf("%v", today)
	}
	for currency, last := range map[string]string{"USD": "90", "BTC": "1", "EUR": "72"} {
		var c struct{ Prices [][2]*json.Number }
		e.ask(t, "coins/bitcoin/market_chart?vs_currency="+currency+"&days=365&interval=daily", &c)
		closes := map[string]string{}
		for _, p := range c.Prices {
			if p[1] == nil || *p[1] == "0" {
				t.Errorf("%s: a price of zero at %s", currency, *p[0])
				continue
			}
			at := time.UnixMilli(must.Get(p[0].Int64())(t)).UTC()
			if at.Equal(at.Truncate(24 * time.Hour)) {
				at = at.AddDate(0, 0, -1)
			}
			closes[at.Format(time.DateOnly)] = p[1].String()
		}
		if got := closes["2026-11-21"]; got != last {
			t.Errorf("%s: the latest price is %q, want %s: %v", currency, got, last, closes)
		}
		for _, midnight := range past {
			date := midnight.AddDate(0, 0, -1).Format(time.DateOnly)
			if want := map[string]string{"USD": "100", "BTC": "1"}[currency]; closes[date] != want {
				t.Errorf("%s: the close of %s is %q, want %q", currency, date, closes[date], want)
			}
		}
	}
}

// blockbook requests prices in all currencies (CurrentTickers). From a daily chart it keeps the
// points at whole days that are not zero (getHistoricalTicker). From a finer chart with at least
// two points it keeps all points except the last (getHighGranularityTickers).
func (e asker) blockbook(t *testing.T) {
	var currencies []string
	e.ask(t, "simple/supported_vs_currencies", &currencies)
	var now map[string]map[string]float32
	e.ask(t, "simple/price?ids=bitcoin&vs_currencies="+strings.Join(currencies, "%2C"), &now)
	if len(now["bitcoin"]) != len(currencies) || len(currencies) != 3 {
		t.Errorf("%v in %v", now, currencies)
	}
	days := 0
	var c struct{ Prices [][2]float64 }
	e.ask(t, "coins/bitcoin/market_chart?days=365&interval=daily&vs_currency=usd", &c)
	for _, p := range c.Prices {
		if int64(p[0]/1000)%(24*3600) == 0 && p[1] != 0 {
			days++
		}
	}
	e.ask(t, "coins/bitcoin/market_chart?days=1&vs_currency=usd", &c)
	if days != len(past) || len(c.Prices) < 2 {
		t.Errorf("%d days of %d, %d points of the last day", days, len(past), len(c.Prices))
	}
	var list []struct {
		ID        string
		Platforms map[string]string
	}
	e.ask(t, "coins/list?include_platform=true", &list)
	if list[2].Platforms["ethereum"] != strings.ToLower(outside.Tether) {
		t.Errorf("platforms %v", list)
	}
}

// chainlink sends names in any letter case, and looks them up in lower case. It treats zero as no
// data (constructEntry).
func (e asker) chainlink(t *testing.T) {
	var now map[string]map[string]float64
	e.ask(t, "simple/price?ids=bitcoin,flat&vs_currencies=USD,EUR&precision=full&x_cg_pro_api_key=", &now)
	if now["bitcoin"]["usd"] != 90 || now["flat"]["eur"] != 80 {
		t.Errorf("%v", now)
	}
	var total struct {
		Data struct {
			Caps   map[string]float64 `json:"total_market_cap"`
			Shares map[string]float64 `json:"market_cap_percentage"`
			At     int64              `json:"updated_at"`
		}
	}
	e.ask(t, "global?x_cg_pro_api_key=", &total)
	if total.Data.Caps["usd"] != 2700 || total.Data.Shares["btc"] == 0 || total.Data.At != outside.Last.Unix() {
		t.Errorf("%v", total)
	}
}

// cointop fails completely if a single member has a type other than in its struct. It asks for
// days=0 when its chart is shorter than a day.
func (e asker) cointop(t *testing.T) {
	type sparkline struct{ Price []float64 }
	var coins []struct {
		ID, Symbol, Image string
		Rank              int16      `json:"market_cap_rank"`
		Supply            float64    `json:"total_supply"`
		ROI               struct{}   `json:"roi"`
		Hour              *float64   `json:"price_change_percentage_1h_in_currency"`
		Sparkline         *sparkline `json:"sparkline_in_7d"`
		Updated           string     `json:"last_updated"`
	}
	e.ask(t, "coins/markets?order=market_cap_desc&page=1&per_page=100&price_change_percentage=1h%2C24h%2C7d%2C30d%2C1y"+
		"&sparkline=true&vs_currency=usd", &coins)
	if len(coins) != 3 || coins[0].Rank != 1 {
		t.Errorf("%+v", coins)
	}
	must.Get(time.Parse(time.RFC3339, coins[0].Updated))(t)
	var none []struct{}
	if e.ask(t, "coins/markets?page=2&vs_currency=usd", &none); len(none) != 0 {
		t.Errorf("%d coins on page 2", len(none))
	}
	var c struct{ Prices, Market_Caps, Total_Volumes *[][2]float32 }
	e.ask(t, "coins/bitcoin/market_chart?days=0&vs_currency=usd", &c)
}

// goingecko also fails completely in this case, and has structs for all members.
func (e asker) goingecko(t *testing.T) {
	var coin struct {
		Description struct{ EN string }
		Image       struct{ Thumb, Small, Large string }
		Links       struct {
			Homepage []string
			Repos    struct{ Github []string } `json:"repos_url"`
		}
		MarketData struct {
			Price map[string]float64 `json:"current_price"`
			Dates map[string]string  `json:"ath_date"`
		} `json:"market_data"`
		Tickers []struct{}
	}
	for _, id := range []string{"bitcoin", "quiet"} {
		e.ask(t, "coins/"+id+"?localization=true&tickers=true&market_data=true&community_data=true"+
			"&developer_data=true&sparkline=false", &coin)
	}
	var then struct {
		MarketData struct {
			Price map[string]float64 `json:"current_price"`
		} `json:"market_data"`
	}
	e.ask(t, "coins/bitcoin/history?date=21-11-2026&localization=false", &then)
	if then.MarketData.Price["usd"] != 100 {
		t.Errorf("%v", then)
	}
}
