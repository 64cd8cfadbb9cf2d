package main

import (
	"net/http"

	gecko "github.com/superoo7/go-gecko/v3"
)

func goGecko(through *http.Client, coin string) {
	client := gecko.NewClient(through)
	show(client.Ping())
	show(client.SimplePrice([]string{coin}, []string{"usd", "eur"}))
	show(client.SimpleSupportedVSCurrencies())
	show(client.ExchangeRates())
	show(client.CoinsList())
	show(client.CoinsMarket("eur", []string{coin}, "market_cap_asc", 50, 1, true, []string{"1h", "24h", "7d", "1y"}))
	// The sparkline is left out, because this client expects an object where the published format has a list.
	show(client.CoinsID(coin, false, false, true, false, false, false))
	show(client.CoinsIDMarketChart(coin, "usd", "7"))
	show(client.CoinsIDHistory(coin, "20-11-2026", false))
	show(client.Global())
}
