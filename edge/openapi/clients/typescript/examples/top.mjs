// Prints the largest assets by market cap: ten, or the number given as its argument.
import { Client } from "@marketdata/client";

let count = Number(process.argv[2] ?? 10);
const client = new Client(process.env.MARKETDATA_URL ?? "", process.env.MARKETDATA_KEY ?? "");
for await (const market of client.rows("markets", { sort: "market_cap:desc", size: Math.min(count, 100) })) {
  if (count-- <= 0) break;
  console.log(market.id, market.symbol, market.price, market.marketCap ?? "unknown");
}
