// Calls the endpoints that COINGECKO.md lists with CoinGecko's own client, and prints each answer as a line of JSON.
import Coingecko from "@coingecko/coingecko-typescript";

const [baseURL, demoAPIKey, coin, name, symbol, category, platform, address] =
  process.argv.slice(2) as [string, string, string, string, string, string, string, string];
const client = new Coingecko({ baseURL, demoAPIKey, maxRetries: 0 });
const { coins, simple } = client;
const figures = {
  include_market_cap: true, include_24hr_vol: true, include_24hr_change: true, include_last_updated_at: true, precision: "full",
} as const;
const vs_currencies = "usd,eur";
const chart = { vs_currency: "eur", days: "7", interval: "daily", precision: "2" } as const;
const range = { vs_currency: "usd", from: "2026-11-19", to: "2026-11-20T18:30", interval: "hourly", precision: "18" } as const;

for (const call of [
  () => client.ping.get(),
  () => simple.price.get({ ids: coin, vs_currencies, ...figures }),
  () => simple.price.get({ names: name, vs_currencies }),
  () => simple.price.get({ symbols: symbol, include_tokens: "all", vs_currencies }),
  () => simple.tokenPrice.getID(platform, { contract_addresses: address, vs_currencies, ...figures }),
  () => simple.supportedVsCurrencies.get(),
  () => client.exchangeRates.get(),
  () => client.assetPlatforms.get(),
  () => coins.list.get({ include_platform: true }),
  () => coins.markets.get({
    vs_currency: "eur", order: "volume_desc", per_page: 50, page: 2, sparkline: true, precision: "4",
    price_change_percentage: "1h,24h,7d,14d,30d,200d,1y",
  }),
  () => coins.markets.get({ vs_currency: "usd", ids: coin }),
  () => coins.markets.get({ vs_currency: "usd", names: name }),
  () => coins.markets.get({ vs_currency: "usd", symbols: symbol, include_tokens: "all" }),
  () => coins.markets.get({ vs_currency: "usd", category }),
  () => coins.getID(coin, { market_data: true, sparkline: true, include_categories_details: true }),
  () => coins.marketChart.get(coin, chart),
  () => coins.marketChart.getRange(coin, range),
  () => coins.ohlc.get(coin, { vs_currency: "usd", days: "7", interval: "hourly", precision: "full" }),
  () => coins.ohlc.getRange(coin, { vs_currency: "usd", from: "2026-11-19", to: "2026-11-20", interval: "daily" }),
  () => coins.history.get(coin, { date: "2026-11-20" }),
  () => coins.contract.get(address, { id: platform }),
  () => coins.contract.marketChart.get(address, { id: platform, ...chart }),
  () => coins.contract.marketChart.getRange(address, { id: platform, ...range }),
  () => coins.categories.get({ order: "name_asc" }),
  () => coins.categories.getList(),
  () => client.exchanges.get({ per_page: 5, page: 2 }),
  () => client.exchanges.getList(),
  () => client.search.get({ query: "co" }),
  () => client.search.trending.get(),
  () => client.global.get(),
]) {
  console.log(JSON.stringify(await call()));
}
