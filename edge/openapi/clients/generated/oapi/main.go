// Oapi calls every operation with the client that oapi-codegen generates from the document.
package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strings"

	"example.com/marketdata/edge/openapi/clients/generated/oapi/api"
)

var (
	ctx    = context.Background()
	time   = os.Getenv("MARKETDATA_TIME")
	times  = []string{"2026-11-21T12:05:00Z", "1577836800"}
	client = get(api.NewClientWithResponses(os.Getenv("MARKETDATA_URL"), api.WithRequestEditorFn(
		func(_ context.Context, r *http.Request) error {
			r.Header.Set("X-Api-Key", os.Getenv("MARKETDATA_KEY"))
			return nil
		})))
)

var changed = []string{"assets", "chains"}

// The range of candles.
var from, to = "2025-12-01T00:00:00Z", "1795219200"

func get[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}

func show(operation string, result any) {
	fmt.Printf("%s\n", get(json.Marshal(map[string]any{"operation": operation, "result": result})))
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// event returns the data of the first event in a stream.
func event(stream io.Reader) string {
	lines := bufio.NewScanner(stream)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "data: ") {
	}
	return lines.Text()
}

func main() {
	show("listAssets", get(client.ListAssetsWithResponse(ctx, &api.ListAssetsParams{
		Slug: &[]string{"bitcoin", "petal"}, Fields: &[]string{"links"},
	})).JSON200.Result)
	show("listAssetsAt", get(client.ListAssetsAtWithResponse(ctx, time, &api.ListAssetsAtParams{
		Slug: &[]string{"bitcoin", "petal"}, Fields: &[]string{"links"},
	})).JSON200.Result)
	show("listQuotes", get(client.ListQuotesWithResponse(ctx, &api.ListQuotesParams{
		Id: &[]int64{1, 9, 12}, Sort: new(api.ListQuotesParamsSortNameDesc),
	})).JSON200.Result)
	show("listQuotesAt", get(client.ListQuotesAtWithResponse(ctx, time, &api.ListQuotesAtParams{
		Id: &[]int64{1, 9, 12}, Sort: new(api.ListQuotesAtParamsSortNameDesc),
	})).JSON200.Result)
	show("listMarkets", get(client.ListMarketsWithResponse(ctx, &api.ListMarketsParams{
		Category: &[]string{"layer-1"}, Sort: new(api.ListMarketsParamsSortPercentChange24hDesc),
		Page: new(int64(2)), Size: new(int64(2)), Fields: &[]string{"groups"},
	})).JSON200.Result)
	show("listMarketsAt", get(client.ListMarketsAtWithResponse(ctx, time, &api.ListMarketsAtParams{
		Category: &[]string{"layer-1"}, Sort: new(api.ListMarketsAtParamsSortPercentChange24hDesc),
		Page: new(int64(2)), Size: new(int64(2)), Fields: &[]string{"groups"},
	})).JSON200.Result)
	show("listTrending", get(client.ListTrendingWithResponse(ctx, &api.ListTrendingParams{
		By: new(api.ListTrendingParamsByGainers),
	})).JSON200.Result)
	show("listTrendingAt", get(client.ListTrendingAtWithResponse(ctx, time, &api.ListTrendingAtParams{
		By: new(api.ListTrendingAtParamsByGainers),
	})).JSON200.Result)
	show("listExchanges", get(client.ListExchangesWithResponse(ctx, &api.ListExchangesParams{
		Limit: new(int64(2)), Offset: new(int64(1)), Sort: new(api.ListExchangesParamsSortVolumeDesc),
	})).JSON200.Result)
	show("listExchangesAt", get(client.ListExchangesAtWithResponse(ctx, time, &api.ListExchangesAtParams{
		Limit: new(int64(2)), Offset: new(int64(1)), Sort: new(api.ListExchangesAtParamsSortVolumeDesc),
	})).JSON200.Result)
	show("getGlobal", get(client.GetGlobalWithResponse(ctx, &api.GetGlobalParams{})).JSON200.Result)
	show("getGlobalAt", get(client.GetGlobalAtWithResponse(ctx, time, &api.GetGlobalAtParams{})).JSON200.Result)
	show("listCategories", get(client.ListCategoriesWithResponse(ctx, &api.ListCategoriesParams{
		Page: new(int64(2)), Size: new(int64(2)), Sort: new(api.ListCategoriesParamsSortName),
	})).JSON200.Result)
	show("listCategoriesAt", get(client.ListCategoriesAtWithResponse(ctx, time, &api.ListCategoriesAtParams{
		Page: new(int64(2)), Size: new(int64(2)), Sort: new(api.ListCategoriesAtParamsSortName),
	})).JSON200.Result)
	show("listChains", get(client.ListChainsWithResponse(ctx, &api.ListChainsParams{
		Slug: &[]string{"ethereum-chain", "palm-chain"},
	})).JSON200.Result)
	show("listChainsAt", get(client.ListChainsAtWithResponse(ctx, time, &api.ListChainsAtParams{
		Slug: &[]string{"ethereum-chain", "palm-chain"},
	})).JSON200.Result)
	show("listHistory", get(client.ListHistoryWithResponse(ctx, &api.ListHistoryParams{
		Symbol: &[]string{"BTC", "PTL"}, Window: new(api.ListHistoryParamsWindowN1y), Page: new(int64(2)),
		Size: new(int64(2)),
	})).JSON200.Result)
	show("listHistoryAt", get(client.ListHistoryAtWithResponse(ctx, time, &api.ListHistoryAtParams{
		Symbol: &[]string{"BTC", "PTL"}, Window: new(api.ListHistoryAtParamsWindowN1y), Page: new(int64(2)),
		Size: new(int64(2)),
	})).JSON200.Result)
	show("listCandles", get(client.ListCandlesWithResponse(ctx, &api.ListCandlesParams{
		Symbol: &[]string{"BTC", "PTL"}, Interval: new(api.ListCandlesParamsIntervalN1d), Page: new(int64(2)),
		Size: new(int64(2)), From: new(from), To: new(to),
	})).JSON200.Result)
	show("listCandlesAt", get(client.ListCandlesAtWithResponse(ctx, time, &api.ListCandlesAtParams{
		Symbol: &[]string{"BTC", "PTL"}, Interval: new(api.ListCandlesAtParamsIntervalN1d), Page: new(int64(2)),
		Size: new(int64(2)), From: new(from), To: new(to),
	})).JSON200.Result)
	show("listPrices", get(client.ListPricesWithResponse(ctx, &api.ListPricesParams{
		Id: &[]int64{1, 9}, Time: times,
	})).JSON200.Result)
	show("listPricesAt", get(client.ListPricesAtWithResponse(ctx, time, &api.ListPricesAtParams{
		Id: &[]int64{1, 9}, Time: times,
	})).JSON200.Result)
	show("listChanges", get(client.ListChangesWithResponse(ctx, &api.ListChangesParams{
		Collection: &changed, Limit: new(int64(3)),
	})).JSON200.Result)
	show("listChangesAt", get(client.ListChangesAtWithResponse(ctx, time, &api.ListChangesAtParams{
		Collection: &changed, Limit: new(int64(3)),
	})).JSON200.Result)
	show("searchAssets", get(client.SearchAssetsWithResponse(ctx, &api.SearchAssetsParams{
		Q: "petal cl",
	})).JSON200.Result)
	show("searchAssetsAt", get(client.SearchAssetsAtWithResponse(ctx, time, &api.SearchAssetsAtParams{
		Q: "petal cl",
	})).JSON200.Result)

	show("pinned", get(client.ListQuotesWithResponse(ctx, &api.ListQuotesParams{
		Slug: &[]string{"bitcoin"}, XSnapshotTime: new(os.Getenv("MARKETDATA_PIN")),
	})).JSON200.Result.Items[0].Price)
	show("file", digest(get(client.GetFileWithResponse(ctx, "quotes.parquet", nil)).Body))
	show("day", digest(get(client.GetPricesWithResponse(ctx, os.Getenv("MARKETDATA_DAY"), nil)).Body))

	events := get(client.FollowSnapshots(ctx, nil))
	defer events.Body.Close()
	show("followSnapshots", event(events.Body))
	show("gone", get(client.ListQuotesAtWithResponse(ctx, "20200101T000000Z", nil)).JSON410.MessageKey)
}
