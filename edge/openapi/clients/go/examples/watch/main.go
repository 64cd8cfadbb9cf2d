// Watch prints the market's total with each new snapshot, until it has printed as many as its
// argument says.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strconv"
	"time"

	marketdata "example.com/marketdata/edge/openapi/clients/go"
)

func main() {
	ctx, count := context.Background(), -1 // for ever
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
	for at, err := range client.Events(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		total, err := client.Global(ctx, marketdata.GlobalQuery{At: at})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(at.Format(time.RFC3339), total.Result.TotalMarketCap)
		if count--; count == 0 {
			return
		}
	}
}
