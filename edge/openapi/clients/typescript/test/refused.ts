// Calls that the service would reject, or whose parameters it would ignore, must not compile. This file is compiled, not run.
import { Client, type HistoryQuery } from "../src/index.js";

export async function refused(client: Client): Promise<void> {
  // @ts-expect-error no asset is named
  await client.history({});
  // @ts-expect-error likewise
  await client.history({ window: "1y" });
  // @ts-expect-error likewise
  client.rows("history");
  // @ts-expect-error likewise
  client.pages("history", { size: 5 });
  // @ts-expect-error no such window
  await client.history({ id: [1], window: "2y" });
  // @ts-expect-error history cannot be sorted
  await client.history({ id: [1], sort: "id" });
  // @ts-expect-error no asset is named
  await client.candles({ interval: "1d" });
  // @ts-expect-error no such interval
  await client.candles({ id: [1], interval: "4h" });
  // @ts-expect-error time is required
  await client.prices({ id: [1] });
  // @ts-expect-error time is a list
  await client.prices({ id: [1], time: "2026-11-21T10:00:00Z" });
  // @ts-expect-error quotes change with every snapshot
  client.mirror("quotes");
  // @ts-expect-error no such kind
  await client.changes({ kind: ["new"] });
  // @ts-expect-error changes have no filter by id
  await client.changes({ id: [1] });
  // @ts-expect-error the parameter is id
  await client.quotes({ ids: [1] });
  // @ts-expect-error id is a list
  await client.quotes({ id: 1 });
  // @ts-expect-error quotes cannot be sorted by price
  await client.quotes({ sort: "price" });
  // @ts-expect-error no such direction
  await client.markets({ sort: "price:down" });
  // @ts-expect-error only markets can be filtered by category
  await client.assets({ category: ["layer-1"] });
  // @ts-expect-error exchanges have no symbols
  await client.exchanges({ symbol: ["BTC"] });
  // @ts-expect-error no such board
  await client.trending({ by: "losers" });
  // @ts-expect-error the result has no pages
  await client.trending({ page: 2 });
  // @ts-expect-error totals have no rows
  await client.global({ id: [1] });
  // @ts-expect-error words are required
  await client.search();
  // @ts-expect-error trending has no pages
  client.rows("trending");
  // @ts-expect-error the base URL is required
  new Client();
  // @ts-expect-error the argument is the name of a listing, not a method
  client.rows(client.markets);
  // @ts-expect-error the option is retries
  new Client("https://host", "", { retry: 1 });

  // Correct calls compile.
  const one: HistoryQuery = { slug: ["bitcoin"], window: "30d", page: 2 };
  await client.history(one);
  client.rows("history", { symbol: ["BTC"], id: [1] });
  client.rows("candles", { slug: ["bitcoin"], interval: "1d", from: "2026-01-01T00:00:00Z" });
  client.pages("prices", { id: [1], time: ["2026-11-21T10:00:00Z"] });
  client.rows("markets", { sort: "percent_change.24h:desc", fields: ["groups"], chain: ["ethereum"] });
  client.rows("changes", { since: "2026-11-21T10:00:00Z", collection: ["assets"], kind: ["added", "back"] });
  client.pages("assets");
}
