// Prints the bytes of memory that each request leaks while the client's `signal` exists (nodejs/node 55351), for answers,
// errors and event streams. It needs --expose-gc.
import { getEventListeners } from "node:events";
import { Client } from "../src/index.js";

const { signal } = new AbortController();
const answers: [string, number, string][] = [
  ["application/json", 200, '{"result":{}}'], ["application/json", 400, "{}"], ["text/event-stream", 200, "id: 2026-11-21T12:00:00Z\n\n"],
];

async function heap(): Promise<number> {
  for (let i = 0; i < 3; i++) {
    globalThis.gc?.();
    await new Promise(setImmediate);
  }
  return process.memoryUsage().heapUsed;
}

for (const [type, status, body] of answers) {
  const client = new Client("http://host", "", { signal, fetch: async () => new Response(body, { status, headers: { "Content-Type": type } }) });
  const many = async (n: number) => {
    for (let i = 0; i < n; i++) {
      if (type === "application/json") await client.global().catch(() => undefined);
      else for await (const _ of client.events()) break;
    }
  };
  await many(5_000);
  const before = await heap();
  await many(20_000);
  console.log(Math.round((await heap() - before) / 20_000), getEventListeners(signal, "abort").length);
}
