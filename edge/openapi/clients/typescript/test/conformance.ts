// Runs the cases of a file with this client and prints what came of each as a line of JSON. The test in the
// folder above starts the servers, and says in the file where they are.
import { readFileSync } from "node:fs";
import { ApiError, Client, SnapshotGone, TransportError, type Answer, type Lists, type Query } from "../src/index.js";

interface Case {
  name: string;
  base: string;
  key: string;
  call: keyof Lists | "trending" | "global" | "search" | "events";
  mode?: "pages" | "rows" | "refresh";
  take?: number;
  retries?: number;
  query?: Query & { q?: string };
}

async function run(c: Case): Promise<object> {
  const waits: number[] = [];
  const out: Record<string, unknown> = { case: c.name, waits };
  const client = new Client(c.base, c.key, {
    ...(c.retries === undefined ? {} : { retries: c.retries }),
    sleep: async (ms) => { waits.push(ms / 1000); },
  });
  const { q, ...query } = c.query ?? {};
  const ask = (): Promise<Answer<unknown>> => c.call === "search" ? client.search(q ?? "", query) : client[c.call as "quotes"](query);
  try {
    if (c.call === "events") {
      const events: string[] = [];
      out["events"] = events;
      for await (const at of client.events()) if (events.push(at) === c.take) break;
    } else if (c.mode === "pages") {
      const pages = [];
      for await (const page of client.pages(c.call as keyof Lists, query)) pages.push(page);
      out["snapshots"] = pages.map((page) => page.snapshotTime ?? null);
      out["ids"] = pages.flatMap((page) => page.result.items.map((row) => row.id));
    } else if (c.mode === "rows") {
      const ids: number[] = [];
      for await (const row of client.rows(c.call as keyof Lists, query)) ids.push(row.id);
      out["ids"] = ids;
    } else {
      let answer = await ask();
      if (c.mode === "refresh") answer = await client.refresh(answer);
      const { result, snapshotTime, unchanged, notFound, ignored, limit } = answer;
      Object.assign(out, { result, snapshot_time: snapshotTime ?? null, unchanged, not_found: notFound, ignored, limit: limit ?? null });
    }
  } catch (error) {
    if (error instanceof ApiError) {
      const { messageKey, status, code, retryAfter, limit } = error;
      out["error"] = { key: messageKey, status, code, retry_after: retryAfter ?? 0, gone: error instanceof SnapshotGone };
      out["limit"] = limit ?? null;
    } else if (error instanceof TransportError) {
      out["error"] = { key: "TRANSPORT" };
    } else {
      throw error;
    }
  }
  return out;
}

for (const c of JSON.parse(readFileSync(process.argv[2] ?? "", "utf8")) as Case[]) console.log(JSON.stringify(await run(c)));
