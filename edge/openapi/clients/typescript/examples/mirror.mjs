// Keeps a copy of the directory of assets, and prints with each new snapshot how many there are, until it has
// printed as many lines as its argument says.
import { Client } from "@marketdata/client";

let count = Number(process.argv[2] ?? Infinity);
const client = new Client(process.env.MARKETDATA_URL ?? "", process.env.MARKETDATA_KEY ?? "");
const assets = client.mirror("assets");
for await (const _ of client.events()) {
  await assets.update();
  console.log(assets.time, assets.items.size);
  if (--count <= 0) break;
}
