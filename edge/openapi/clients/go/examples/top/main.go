// Top prints the largest assets by market cap: ten, or the number given as its argument.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strconv"

	marketdata "example.com/marketdata/edge/openapi/clients/go"
)

func main() {
	count := 10
	if len(os.Args) > 1 {
		n, err := strconv.Atoi(os.Args[1])
		if err != nil {
			log.Fatal(err)
		}
		count = n
	}
	client, err := marketdata.New(os.Getenv("MARKETDATA_URL"), os.Getenv("MARKETDATA_KEY"))
	if err != nil {
		log.Fatal(err)
	}
	query := marketdata.MarketsQuery{Sort: "market_cap:desc", Size: min(count, 100)}
	for market, err := range marketdata.Rows(context.Background(), client.Markets, query) {
		if err != nil {
			log.Fatal(err)
		}
		if count--; count < 0 {
			break
		}
		marketCap := "unknown"
		if market.MarketCap != nil {
			marketCap = string(*market.MarketCap)
		}
		fmt.Println(market.ID, market.Symbol, market.Price, marketCap)
	}
}
