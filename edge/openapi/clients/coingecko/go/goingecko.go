package main

import (
	"context"
	"net/http"

	"github.com/JulianToledano/goingecko/v3/api"
	"github.com/JulianToledano/goingecko/v3/api/categories"
	"github.com/JulianToledano/goingecko/v3/api/coins"
	"github.com/JulianToledano/goingecko/v3/api/contract"
	"github.com/JulianToledano/goingecko/v3/api/exchanges"
	"github.com/JulianToledano/goingecko/v3/api/simple"
)

func goingecko(through *http.Client, key, coin, category, platform, address string) {
	client, ctx := api.NewDemoApiClient(key, through), context.Background()
	show(client.Ping(ctx))
	show(client.SimplePrice(ctx, coin, "usd,eur", true, simple.WithIncludeDayVolumeOption(true),
		simple.WithIncludeDayChangeOption(true), simple.WithIncludeLastTimeUpdatedAtOption(true),
		simple.WithPrecisionOption("full")))
	show(client.SimpleTokenPrice(ctx, platform, address, "usd,eur", simple.WithIncludeMarketCapOption(true)))
	show(client.SimpleSupportedVsCurrency(ctx))
	show(client.ExchangeRates(ctx))
	show(client.AssetPlatforms(ctx))
	show(client.CoinsList(ctx, coins.WithIncludePlatform(true)))
	show(client.CoinsMarket(ctx, "eur", coins.WithOrder("volume_desc"), coins.WithPerPage(50), coins.WithPage(2),
		coins.WithSparkline(true), coins.WithPriceChangePercentage([]string{"1h", "24h", "7d", "1y"})))
	show(client.CoinsMarket(ctx, "usd", coins.WithIDs([]string{coin})))
	show(client.CoinsMarket(ctx, "usd", coins.WithCategory(category)))
	show(client.CoinsId(ctx, coin, coins.WithTickers(false), coins.WithMarketData(true)))
	show(client.CoinsIdMarketChart(ctx, coin, "usd", "7", coins.WithIntervalIdMarketChart("daily")))
	show(client.CoinsIdMarketChartRange(ctx, coin, "usd", "1795046400", "1795199400"))
	show(client.CoinsIdHistory(ctx, coin, "20-11-2026"))
	show(client.ContractInfo(ctx, platform, address))
	show(client.ContractMarketChart(ctx, platform, address, "eur", "7", contract.WithPrecisionOption("2")))
	show(client.ContractMarketChartRange(ctx, platform, address, "usd", "1795046400", "1795199400"))
	show(client.CategoriesList(ctx))
	show(client.Categories(ctx, categories.WithOrderOption("name_asc")))
	show(client.Exchanges(ctx, exchanges.WithPerPageExchagesOption(5), exchanges.WithPageExchagesOption(2)))
	show(client.ExchangesList(ctx))
	show(client.Search(ctx, "co"))
	show(client.Trending(ctx))
	show(client.Global(ctx))
}
