// Calls every operation with the types that openapi-typescript generates from the document.
import { createHash } from "node:crypto";
import createClient from "openapi-fetch";
import type { paths } from "./api.js";

const client = createClient<paths>({
  baseUrl: process.env.MARKETDATA_URL!,
  headers: { "X-Api-Key": process.env.MARKETDATA_KEY! },
  querySerializer: { array: { style: "form", explode: false } },
});
const path = { time: process.env.MARKETDATA_TIME! };

type Query<P extends keyof paths> = NonNullable<paths[P]["get"]["parameters"]["query"]>;

function print(operation: string, result: unknown) {
  console.log(JSON.stringify({ operation, result }));
}

function show(operation: string, { data, error }: { data?: { result: unknown }; error?: { message: string } }) {
  if (!data) throw new Error(`${operation}: ${error?.message}`);
  print(operation, data.result);
}

const assets = { slug: ["bitcoin", "petal"], fields: ["links"] } satisfies Query<"/openapi/v1/assets">;
show("listAssets", await client.GET("/openapi/v1/assets", { params: { query: assets } }));
show("listAssetsAt", await client.GET("/at/{time}/openapi/v1/assets", { params: { path, query: assets } }));

const quotes = { id: [1, 9, 12], sort: "name:desc" } satisfies Query<"/openapi/v1/quotes">;
show("listQuotes", await client.GET("/openapi/v1/quotes", { params: { query: quotes } }));
show("listQuotesAt", await client.GET("/at/{time}/openapi/v1/quotes", { params: { path, query: quotes } }));

const markets = {
  category: ["layer-1"], sort: "percent_change.24h:desc", page: 2, size: 2, fields: ["groups"],
} satisfies Query<"/openapi/v1/markets">;
show("listMarkets", await client.GET("/openapi/v1/markets", { params: { query: markets } }));
show("listMarketsAt", await client.GET("/at/{time}/openapi/v1/markets", { params: { path, query: markets } }));

const trending = { by: "gainers" } satisfies Query<"/openapi/v1/trending">;
show("listTrending", await client.GET("/openapi/v1/trending", { params: { query: trending } }));
show("listTrendingAt", await client.GET("/at/{time}/openapi/v1/trending", { params: { path, query: trending } }));

const exchanges = { limit: 2, offset: 1, sort: "volume:desc" } satisfies Query<"/openapi/v1/exchanges">;
show("listExchanges", await client.GET("/openapi/v1/exchanges", { params: { query: exchanges } }));
show("listExchangesAt", await client.GET("/at/{time}/openapi/v1/exchanges", { params: { path, query: exchanges } }));

show("getGlobal", await client.GET("/openapi/v1/global"));
show("getGlobalAt", await client.GET("/at/{time}/openapi/v1/global", { params: { path } }));

const categories = { page: 2, size: 2, sort: "name" } satisfies Query<"/openapi/v1/categories">;
show("listCategories", await client.GET("/openapi/v1/categories", { params: { query: categories } }));
show("listCategoriesAt", await client.GET("/at/{time}/openapi/v1/categories", { params: { path, query: categories } }));

const chains = { slug: ["ethereum-chain", "palm-chain"] } satisfies Query<"/openapi/v1/chains">;
show("listChains", await client.GET("/openapi/v1/chains", { params: { query: chains } }));
show("listChainsAt", await client.GET("/at/{time}/openapi/v1/chains", { params: { path, query: chains } }));

const history = { symbol: ["BTC", "PTL"], window: "1y", page: 2, size: 2 } satisfies Query<"/openapi/v1/history">;
show("listHistory", await client.GET("/openapi/v1/history", { params: { query: history } }));
show("listHistoryAt", await client.GET("/at/{time}/openapi/v1/history", { params: { path, query: history } }));

const candles = {
  symbol: ["BTC", "PTL"], interval: "1d", from: "2025-12-01T00:00:00Z", to: "1795219200", page: 2, size: 2,
} satisfies Query<"/openapi/v1/candles">;
show("listCandles", await client.GET("/openapi/v1/candles", { params: { query: candles } }));
show("listCandlesAt", await client.GET("/at/{time}/openapi/v1/candles", { params: { path, query: candles } }));

const prices = { id: [1, 9], time: ["2026-11-21T12:05:00Z", "1577836800"] } satisfies Query<"/openapi/v1/prices">;
show("listPrices", await client.GET("/openapi/v1/prices", { params: { query: prices } }));
show("listPricesAt", await client.GET("/at/{time}/openapi/v1/prices", { params: { path, query: prices } }));

const changes = { collection: ["assets", "chains"], limit: 3 } satisfies Query<"/openapi/v1/changes">;
show("listChanges", await client.GET("/openapi/v1/changes", { params: { query: changes } }));
show("listChangesAt", await client.GET("/at/{time}/openapi/v1/changes", { params: { path, query: changes } }));

const search = { q: "petal cl" } satisfies Query<"/openapi/v1/search">;
show("searchAssets", await client.GET("/openapi/v1/search", { params: { query: search } }));
show("searchAssetsAt", await client.GET("/at/{time}/openapi/v1/search", { params: { path, query: search } }));

const headers = { "X-Snapshot-Time": process.env.MARKETDATA_PIN! };
const { data: earlier } = await client.GET("/openapi/v1/quotes", { params: { query: { slug: ["bitcoin"] }, header: headers } });
print("pinned", earlier?.result.items[0]?.price);

const digest = (file: unknown) => createHash("sha256").update(new Uint8Array(file as ArrayBuffer)).digest("hex");
const as = { parseAs: "arrayBuffer" } as const;
print("file", digest((await client.GET("/openapi/v1/files/{name}", { params: { path: { name: "quotes.parquet" } }, ...as })).data));
const day = { name: process.env.MARKETDATA_DAY! };
print("day", digest((await client.GET("/openapi/v1/files/prices/{name}", { params: { path: day }, ...as })).data));

const events = await client.GET("/openapi/v1/events", { parseAs: "stream" });
let stream = "";
for await (const bytes of events.data as unknown as AsyncIterable<Uint8Array>) {
  stream += new TextDecoder().decode(bytes);
  if (stream.includes("data: ")) break;
}
print("followSnapshots", /data: .*/.exec(stream)?.[0]);

const gone = await client.GET("/at/{time}/openapi/v1/quotes", { params: { path: { time: "20200101T000000Z" } } });
print("gone", gone.error?.message_key);
