// Watch prints the market's total for each new snapshot, until it has printed the number of lines
// given as its argument.
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
	ctx, count := context.Background(), -1 // forever
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
