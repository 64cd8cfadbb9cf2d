// Ogen calls every operation with the client that ogen generates from the document.
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

	"example.com/marketdata/edge/openapi/clients/generated/ogen/api"
	"github.com/ogen-go/ogen/ogenerrors"
)

// key is the source of the API key.
type key struct{}

func (key) ApiKey(context.Context, api.OperationName) (api.ApiKey, error) {
	return api.ApiKey{APIKey: os.Getenv("MARKETDATA_KEY")}, nil
}

// QueryKey skips the key for spreadsheets, which is sent in the query.
func (key) QueryKey(context.Context, api.OperationName) (api.QueryKey, error) {
	return api.QueryKey{}, ogenerrors.ErrSkipClientSecurity
}

var (
	ctx    = context.Background()
	time   = os.Getenv("MARKETDATA_TIME")
	times  = []string{"2026-11-21T12:05:00Z", "1577836800"}
	client = get(api.NewClient(os.Getenv("MARKETDATA_URL"), key{}, api.WithClient(transport{})))
)

var changed = []api.ChangeCollectionItem{api.ChangeCollectionItemAssets, api.ChangeCollectionItemChains}

// The range of candles.
var from, to = "2025-12-01T00:00:00Z", "1795219200"

func get[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}

// show prints a result as ogen encodes it. Only pointers have the encoding methods.
func show[T any](operation string, result T) {
	fmt.Printf("%s\n", get(json.Marshal(map[string]any{"operation": operation, "result": &result})))
}

func digest(r io.Reader) string {
	sum := sha256.New()
	get(io.Copy(sum, r))
	return hex.EncodeToString(sum.Sum(nil))
}

// transport ends a stream after its first event, because ogen's clients read a body to its end.
type transport struct{}

func (transport) Do(r *http.Request) (*http.Response, error) {
	response, err := http.DefaultClient.Do(r)
	if err == nil && response.Header.Get("Content-Type") == "text/event-stream" {
		defer response.Body.Close()
		response.Body = io.NopCloser(strings.NewReader(event(response.Body)))
	}
	return response, err
}

// event returns the data of the first event in a stream.
func event(stream io.Reader) string {
	lines := bufio.NewScanner(stream)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "data: ") {
	}
	return lines.Text()
}

func main() {
	show("listAssets", get(client.ListAssets(ctx, api.ListAssetsParams{
		Slug: []string{"bitcoin", "petal"}, Fields: []string{"links"},
	})).(*api.AssetsAnswerHeaders).Response.Result)
	show("listAssetsAt", get(client.ListAssetsAt(ctx, api.ListAssetsAtParams{
		PathTime: time, Slug: []string{"bitcoin", "petal"}, Fields: []string{"links"},
	})).(*api.AssetsAnswerHeaders).Response.Result)
	show("listQuotes", get(client.ListQuotes(ctx, api.ListQuotesParams{
		ID: []int64{1, 9, 12}, Sort: api.NewOptQuoteSort(api.QuoteSortNameDesc),
	})).(*api.QuotesAnswerHeaders).Response.Result)
	show("listQuotesAt", get(client.ListQuotesAt(ctx, api.ListQuotesAtParams{
		PathTime: time, ID: []int64{1, 9, 12}, Sort: api.NewOptQuoteSort(api.QuoteSortNameDesc),
	})).(*api.QuotesAnswerHeaders).Response.Result)
	show("listMarkets", get(client.ListMarkets(ctx, api.ListMarketsParams{
		Category: []string{"layer-1"}, Sort: api.NewOptMarketSort(api.MarketSortPercentChange24hDesc),
		Page: api.NewOptInt64(2), Size: api.NewOptInt64(2), Fields: []string{"groups"},
	})).(*api.MarketsAnswerHeaders).Response.Result)
	show("listMarketsAt", get(client.ListMarketsAt(ctx, api.ListMarketsAtParams{
		PathTime: time, Category: []string{"layer-1"},
		Sort: api.NewOptMarketSort(api.MarketSortPercentChange24hDesc), Page: api.NewOptInt64(2),
		Size: api.NewOptInt64(2), Fields: []string{"groups"},
	})).(*api.MarketsAnswerHeaders).Response.Result)
	show("listTrending", get(client.ListTrending(ctx, api.ListTrendingParams{
		By: api.NewOptBoard(api.BoardGainers),
	})).(*api.TrendingAnswerHeaders).Response.Result)
	show("listTrendingAt", get(client.ListTrendingAt(ctx, api.ListTrendingAtParams{
		PathTime: time, By: api.NewOptBoard(api.BoardGainers),
	})).(*api.TrendingAnswerHeaders).Response.Result)
	show("listExchanges", get(client.ListExchanges(ctx, api.ListExchangesParams{
		Limit: api.NewOptInt64(2), Offset: api.NewOptInt64(1),
		Sort: api.NewOptExchangeSort(api.ExchangeSortVolumeDesc),
	})).(*api.ExchangesAnswerHeaders).Response.Result)
	show("listExchangesAt", get(client.ListExchangesAt(ctx, api.ListExchangesAtParams{
		PathTime: time, Limit: api.NewOptInt64(2), Offset: api.NewOptInt64(1),
		Sort: api.NewOptExchangeSort(api.ExchangeSortVolumeDesc),
	})).(*api.ExchangesAnswerHeaders).Response.Result)
	show("getGlobal", get(client.GetGlobal(ctx, api.GetGlobalParams{})).(*api.GlobalAnswerHeaders).Response.Result)
	show("getGlobalAt", get(client.GetGlobalAt(ctx, api.GetGlobalAtParams{
		PathTime: time,
	})).(*api.GlobalAnswerHeaders).Response.Result)
	show("listCategories", get(client.ListCategories(ctx, api.ListCategoriesParams{
		Page: api.NewOptInt64(2), Size: api.NewOptInt64(2), Sort: api.NewOptGroupSort(api.GroupSortName),
	})).(*api.CategoriesAnswerHeaders).Response.Result)
	show("listCategoriesAt", get(client.ListCategoriesAt(ctx, api.ListCategoriesAtParams{
		PathTime: time, Page: api.NewOptInt64(2), Size: api.NewOptInt64(2),
		Sort: api.NewOptGroupSort(api.GroupSortName),
	})).(*api.CategoriesAnswerHeaders).Response.Result)
	show("listChains", get(client.ListChains(ctx, api.ListChainsParams{
		Slug: []string{"ethereum-chain", "palm-chain"},
	})).(*api.ChainsAnswerHeaders).Response.Result)
	show("listChainsAt", get(client.ListChainsAt(ctx, api.ListChainsAtParams{
		PathTime: time, Slug: []string{"ethereum-chain", "palm-chain"},
	})).(*api.ChainsAnswerHeaders).Response.Result)
	show("listHistory", get(client.ListHistory(ctx, api.ListHistoryParams{
		Symbol: []string{"BTC", "PTL"}, Window: api.NewOptWindow(api.Window1y), Page: api.NewOptInt64(2),
		Size: api.NewOptInt64(2),
	})).(*api.HistoryAnswerHeaders).Response.Result)
	show("listHistoryAt", get(client.ListHistoryAt(ctx, api.ListHistoryAtParams{
		PathTime: time, Symbol: []string{"BTC", "PTL"}, Window: api.NewOptWindow(api.Window1y),
		Page: api.NewOptInt64(2), Size: api.NewOptInt64(2),
	})).(*api.HistoryAnswerHeaders).Response.Result)
	show("listCandles", get(client.ListCandles(ctx, api.ListCandlesParams{
		Symbol: []string{"BTC", "PTL"}, Interval: api.NewOptInterval(api.Interval1d), Page: api.NewOptInt64(2),
		Size: api.NewOptInt64(2), From: api.NewOptString(from), To: api.NewOptString(to),
	})).(*api.CandlesAnswerHeaders).Response.Result)
	show("listCandlesAt", get(client.ListCandlesAt(ctx, api.ListCandlesAtParams{
		PathTime: time, Symbol: []string{"BTC", "PTL"}, Interval: api.NewOptInterval(api.Interval1d),
		Page: api.NewOptInt64(2), Size: api.NewOptInt64(2), From: api.NewOptString(from), To: api.NewOptString(to),
	})).(*api.CandlesAnswerHeaders).Response.Result)
	show("listPrices", get(client.ListPrices(ctx, api.ListPricesParams{
		ID: []int64{1, 9}, QueryTime: times,
	})).(*api.PricesAnswerHeaders).Response.Result)
	show("listPricesAt", get(client.ListPricesAt(ctx, api.ListPricesAtParams{
		PathTime: time, ID: []int64{1, 9}, QueryTime: times,
	})).(*api.PricesAnswerHeaders).Response.Result)
	show("listChanges", get(client.ListChanges(ctx, api.ListChangesParams{
		Collection: changed, Limit: api.NewOptInt64(3),
	})).(*api.ChangesAnswerHeaders).Response.Result)
	show("listChangesAt", get(client.ListChangesAt(ctx, api.ListChangesAtParams{
		PathTime: time, Collection: changed, Limit: api.NewOptInt64(3),
	})).(*api.ChangesAnswerHeaders).Response.Result)
	show("searchAssets", get(client.SearchAssets(ctx, api.SearchAssetsParams{
		Q: "petal cl",
	})).(*api.SearchAnswerHeaders).Response.Result)
	show("searchAssetsAt", get(client.SearchAssetsAt(ctx, api.SearchAssetsAtParams{
		PathTime: time, Q: "petal cl",
	})).(*api.SearchAnswerHeaders).Response.Result)

	show("pinned", get(client.ListQuotes(ctx, api.ListQuotesParams{
		Slug: []string{"bitcoin"}, XSnapshotTime: api.NewOptString(os.Getenv("MARKETDATA_PIN")),
	})).(*api.QuotesAnswerHeaders).Response.Result.Items[0].Price)
	file := get(client.GetFile(ctx, api.GetFileParams{Name: "quotes.parquet"}))
	show("file", digest(file.(*api.GetFileOKApplicationVndApacheParquetHeaders).Response))
	day := get(client.GetPrices(ctx, api.GetPricesParams{Name: os.Getenv("MARKETDATA_DAY")}))
	show("day", digest(day.(*api.GetPricesOKHeaders).Response))

	events := get(client.FollowSnapshots(ctx, api.FollowSnapshotsParams{})).(*api.FollowSnapshotsOKHeaders)
	show("followSnapshots", string(get(io.ReadAll(events.Response))))
	gone := get(client.ListQuotesAt(ctx, api.ListQuotesAtParams{PathTime: "20200101T000000Z"}))
	show("gone", gone.(*api.SnapshotGoneHeaders).Response.MessageKey)
}
