// Runs the test cases in a file with this client, and prints the result of each as a line of JSON. The test in the
// folder clients starts the servers and writes their URLs into the file.
import { readFileSync } from "node:fs";
import { ApiError, Client, SnapshotGone, TransportError, type Answer, type Lists, type MarketsQuery } from "../src/index.js";

interface Case {
  name: string;
  base: string;
  key: string;
  call: keyof Lists | "trending" | "global" | "search" | "events";
  mode?: "pages" | "rows" | "refresh";
  take?: number;
  retries?: number;
  words?: string;
  query?: MarketsQuery; // or the query of another endpoint
}

/** Converts a value to the form that it has in the service's JSON. */
function plain(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(plain);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, v]) => [name.replace(/(?<=[a-z])(?=[A-Z0-9])/g, "_").toLowerCase(), plain(v)]));
}

async function run(c: Case): Promise<object> {
  const waits: number[] = [];
  const out: Record<string, unknown> = { case: c.name, waits };
  const query = c.query ?? {};
  try {
    const client = new Client(c.base, c.key, {
      ...(c.retries === undefined ? {} : { retries: c.retries }),
      userAgent: "conformance/1", sleep: async (ms) => { waits.push(ms / 1000); },
    });
    const ask = (): Promise<Answer<unknown>> => c.call === "search" ? client.search(c.words ?? "", query) : client[c.call as "markets"](query);
    if (c.call === "events") {
      const events: string[] = [];
      out["events"] = events;
      for await (const at of client.events()) if (events.push(at) === c.take) break;
    } else if (c.mode === "pages") {
      const pages = [];
      for await (const page of client.pages(c.call as "markets", query)) pages.push(page);
      out["snapshots"] = pages.map((page) => page.snapshotTime ?? null);
      out["ids"] = pages.flatMap((page) => page.result.items.map((row) => row.id));
    } else if (c.mode === "rows") {
      const ids: number[] = [];
      for await (const row of client.rows(c.call as "markets", query)) ids.push(row.id);
      out["ids"] = ids;
    } else {
      let answer = await ask();
      if (c.mode === "refresh") answer = await client.refresh(answer);
      const { result, snapshotTime, unchanged, notFound, ignored, limit } = answer;
      Object.assign(out, { result: plain(result), snapshot_time: snapshotTime ?? null, unchanged, not_found: notFound, ignored, limit: limit ?? null });
    }
  } catch (error) {
    if (error instanceof ApiError) {
      const { messageKey, status, code, retryAfter, limit } = error;
      out["error"] = { key: messageKey, status, code, retry_after: retryAfter ?? 0, gone: error instanceof SnapshotGone };
      out["limit"] = limit ?? null;
    } else if (error instanceof TransportError) {
      out["error"] = { key: "TRANSPORT" };
    } else if (error instanceof TypeError) {
      out["error"] = { key: "INVALID" };
    } else {
      throw error;
    }
  }
  return out;
}

for (const c of JSON.parse(readFileSync(process.argv[2] ?? "", "utf8")) as Case[]) console.log(JSON.stringify(await run(c)));
