// Writes the prices of the three largest assets as CSV, for 30 days or for the window given as its argument.
import { Client } from "@marketdata/client";

const window = /** @type {"24h" | "7d" | "30d" | "90d" | "1y"} */ (process.argv[2] ?? "30d");
const client = new Client(process.env.MARKETDATA_URL ?? "", process.env.MARKETDATA_KEY ?? "");
const largest = await client.markets({ size: 3 });
const id = largest.result.items.map((market) => market.id);
const history = await client.history({ id, window, at: largest.snapshotTime });
/** @param {(string | number)[]} cells */
const row = (...cells) => console.log(cells.map((cell) => (/[",\n]/.test(String(cell)) ? `"${String(cell).replaceAll('"', '""')}"` : cell)).join(","));
row("id", "symbol", "time", "price");
for (const asset of history.result.items) for (const [time, price] of asset.points) row(asset.id, asset.symbol, time, price);
