// A client as somebody would write it, against a running edge at BASE_URL with
// the key API_KEY. It exits with 0 when everything was as the types say.
import assert from "node:assert/strict";
import createClient from "openapi-fetch";
import type { components, paths } from "./generated/api.js";

const baseUrl = process.env["BASE_URL"] ?? "";
const apiKey = process.env["API_KEY"] ?? "";

const client = createClient<paths>({
  baseUrl,
  headers: { "X-Api-Key": apiKey },
  // openapi-fetch does not read styles from the types: lists are one parameter, with commas.
  querySerializer: { array: { style: "form", explode: false } },
});

type Asset = components["schemas"]["Asset"];
type Quote = components["schemas"]["Quote"];

// Every endpoint, with the fields that their types promise.
{
  const { data, response } = await client.GET("/openapi/v1/assets", { params: { query: { sort: "rank", size: 2, fields: ["links"] } } });
  assert.ok(data);
  const ok: 0 = data.code;
  assert.equal(ok, 0);
  const first: Asset | undefined = data.result.items[0];
  assert.ok(first);
  const rank: number | undefined = first.rank;
  assert.equal(rank, 1);
  assert.equal(typeof first.links?.website, "string");
  assert.match(response.headers.get("X-Snapshot-Time") ?? "", /Z$/);
}
{
  const { data } = await client.GET("/openapi/v1/quotes", { params: { query: { id: [1, 12], slug: ["bitcoin", "petal-classic"] } } });
  assert.equal(data?.result.total, 2);
  for (const quote of data.result.items satisfies Quote[]) {
    const price: string = quote.price;
    const cap: string | null = quote.market_cap;
    assert.match(price, /^[0-9.]+$/);
    assert.ok(cap === null || cap !== "0");
    assert.match(quote.percent_change["24h"], /^-?[0-9.]+$/);
  }
}
{
  const { data } = await client.GET("/openapi/v1/trending", { params: { query: { by: "gainers" } } });
  assert.ok(data && data.result.items.length > 0);
  // @ts-expect-error: the board has no pages
  assert.equal(data.result.total, undefined);
}
{
  const { data } = await client.GET("/openapi/v1/exchanges", { params: { query: { sort: "volume:desc" } } });
  const volume: string | null | undefined = data?.result.items[0]?.market?.volume_24h;
  assert.equal(typeof volume, "string");
  assert.equal(data?.result.items.at(-1)?.market, null);
}
{
  const { data } = await client.GET("/openapi/v1/global");
  const change: string | null | undefined = data?.result.total_market_cap_change_percentage_24h;
  assert.ok(change === null || typeof change === "string");
}
{
  const { data } = await client.GET("/openapi/v1/categories");
  assert.ok(data && data.result.items.every((group) => group.market.top_gainers.length <= 3));
}
{
  // A slug with a reserved character comes out right.
  const { data } = await client.GET("/openapi/v1/assets", { params: { query: { slug: ["salt-&-co"] } } });
  assert.equal(data?.result.items[0]?.slug, "salt-&-co");
  const { data: chains } = await client.GET("/openapi/v1/chains", { params: { query: { sort: "name:asc" } } });
  const chain: number | null | undefined = chains?.result.items[0]?.evm_chain_id;
  assert.equal(chain, null);
}

// A list is one parameter: of a repeated one the first counts, and X-Ignored says so.
{
  const repeated = await client.GET("/openapi/v1/assets", {
    params: { query: { id: [1, 2], page: 1, limit: 1 } }, querySerializer: { array: { style: "form", explode: true } },
  });
  assert.equal(repeated.data?.result.total, 1);
  assert.equal(repeated.response.headers.get("X-Ignored"), "id,limit");
  const once = await client.GET("/openapi/v1/assets", { params: { query: { id: [1, 2] } } });
  assert.equal(once.data?.result.total, 2);
  assert.equal(once.response.headers.get("X-Ignored"), null);
}

// A whole listing, page by page, pinned to one snapshot.
{
  const seen: number[] = [];
  let pin: string | undefined;
  for (let page = 1, pages = 1; page <= pages; page++) {
    const { data, response } = await client.GET("/openapi/v1/assets", {
      params: { query: { page, size: 2 }, ...(pin === undefined ? {} : { header: { "X-Snapshot-Time": pin } }) },
    });
    assert.ok(data);
    pin = response.headers.get("X-Snapshot-Time") ?? undefined;
    pages = data.result.total_page;
    seen.push(...data.result.items.map((item) => item.id));
  }
  assert.deepEqual(seen, [1, 2, 5, 7, 9, 12, 14]);
}

// A conditional request.
{
  const { response } = await client.GET("/openapi/v1/global");
  const again = await client.GET("/openapi/v1/global", { params: { header: { "If-None-Match": response.headers.get("ETag") ?? "" } } });
  assert.equal(again.response.status, 304);
}

// Errors, told apart by their code.
{
  const { data, error, response } = await client.GET("/openapi/v1/quotes", { params: { query: { size: 500 } } });
  assert.equal(data, undefined);
  assert.equal(response.status, 400);
  assert.ok(error);
  if (error.code === 40000) {
    const key: "BAD_REQUEST" = error.message_key;
    assert.equal(key, "BAD_REQUEST");
    assert.match(error.message, /^size:/);
  } else {
    assert.fail(error.message);
  }
}
{
  const stranger = createClient<paths>({ baseUrl });
  const { error, response } = await stranger.GET("/openapi/v1/global");
  assert.equal(response.status, 401);
  assert.equal(error?.message_key, "UNAUTHORIZED");
}
{
  const { error } = await client.GET("/openapi/v1/assets", { params: { header: { "X-Snapshot-Time": "2020-01-01T00:00:00Z" } } });
  assert.equal(error?.message_key, "SNAPSHOT_GONE");
}

// What the types refuse.
export async function refused(): Promise<void> {
  // @ts-expect-error: no such path
  await client.GET("/openapi/v1/coins");
  // @ts-expect-error: quotes do not sort by price
  await client.GET("/openapi/v1/quotes", { params: { query: { sort: "price" } } });
  // @ts-expect-error: a number
  await client.GET("/openapi/v1/quotes", { params: { query: { page: "1" } } });
  // @ts-expect-error: the only board there is
  await client.GET("/openapi/v1/trending", { params: { query: { by: "searched" } } });
}

console.log("the client works");
