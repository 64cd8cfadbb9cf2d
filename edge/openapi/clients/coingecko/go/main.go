// Command go calls all that go-gecko offers and COINGECKO.md lists, and prints each answer as a line of JSON.
package main

import (
	"encoding/json"
	"log"
	"net/http"
	"net/url"
	"os"

	gecko "github.com/superoo7/go-gecko/v3"
)

// redirect sends what goes to api.coingecko.com to base, with a key: the client knows neither.
type redirect struct {
	base *url.URL
	key  string
}

func (r redirect) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.URL.Scheme, req.URL.Host = r.base.Scheme, r.base.Host
	req.Header.Set("x-cg-demo-api-key", r.key)
	return http.DefaultTransport.RoundTrip(req)
}

func show(answer any, err error) {
	if err != nil {
		log.Fatal(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(answer); err != nil {
		log.Fatal(err)
	}
}

func main() {
	base, err := url.Parse(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	coin := os.Args[3]
	client := gecko.NewClient(&http.Client{Transport: redirect{base, os.Args[2]}})
	show(client.Ping())
	show(client.SimplePrice([]string{coin}, []string{"usd", "eur"}))
	show(client.SimpleSupportedVSCurrencies())
	show(client.ExchangeRates())
	show(client.CoinsList())
	show(client.CoinsMarket("eur", []string{coin}, "market_cap_asc", 50, 1, true, []string{"1h", "24h", "7d", "1y"}))
	// Without the sparkline, which is an object here and a list in the published shape.
	show(client.CoinsID(coin, false, false, true, false, false, false))
	show(client.CoinsIDMarketChart(coin, "usd", "7"))
	show(client.CoinsIDHistory(coin, "20-11-2026", false))
	show(client.Global())
}
