// Mirror keeps a copy of the asset directory, and prints the number of assets for each new snapshot, until it
// has printed the number of lines given as its argument.
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
	assets := client.Mirror("assets")
	for _, err := range client.Events(ctx) {
		if err == nil {
			err = assets.Update(ctx)
		}
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(assets.Time.Format(time.RFC3339), len(assets.Items))
		if count--; count == 0 {
			return
		}
	}
}
