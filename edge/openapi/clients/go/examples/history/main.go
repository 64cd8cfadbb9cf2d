// History writes the prices of the three largest assets as CSV, for 30 days or for the window given
// as its argument.
package main

import (
	"context"
	"encoding/csv"
	"log"
	"os"
	"strconv"
	"time"

	marketdata "example.com/marketdata/edge/openapi/clients/go"
)

func main() {
	ctx, window := context.Background(), "30d"
	if len(os.Args) > 1 {
		window = os.Args[1]
	}
	client, err := marketdata.New(os.Getenv("MARKETDATA_URL"), os.Getenv("MARKETDATA_KEY"))
	if err != nil {
		log.Fatal(err)
	}
	largest, err := client.Markets(ctx, marketdata.MarketsQuery{Size: 3})
	if err != nil {
		log.Fatal(err)
	}
	ids := []int64{} // not nil, so that the query matches nothing if there are no assets
	for _, market := range largest.Result.Items {
		ids = append(ids, market.ID)
	}
	history, err := client.History(ctx, marketdata.HistoryQuery{ID: ids, Window: window, At: largest.SnapshotTime})
	if err != nil {
		log.Fatal(err)
	}
	file := csv.NewWriter(os.Stdout)
	_ = file.Write([]string{"id", "symbol", "time", "price"})
	for _, asset := range history.Result.Items {
		id := strconv.FormatInt(asset.ID, 10)
		for _, point := range asset.Points {
			_ = file.Write([]string{id, asset.Symbol, point.Time.Format(time.RFC3339), string(point.Price)})
		}
	}
	if file.Flush(); file.Error() != nil {
		log.Fatal(file.Error())
	}
}
