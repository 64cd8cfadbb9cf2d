// Prints the market's total for each new snapshot, until it has printed the number of lines given as its argument.
import { Client } from "@marketdata/client";

let count = Number(process.argv[2] ?? Infinity);
const client = new Client(process.env.MARKETDATA_URL ?? "", process.env.MARKETDATA_KEY ?? "");
for await (const at of client.events()) {
  const total = await client.global({ at });
  console.log(at, total.result.totalMarketCap);
  if (--count <= 0) break;
}
