// Keeps a copy of the asset directory, and prints the number of assets for each new snapshot, until it has
// printed the number of lines given as its argument.
import { Client } from "@marketdata/client";

let count = Number(process.argv[2] ?? Infinity);
const client = new Client(process.env.MARKETDATA_URL ?? "", process.env.MARKETDATA_KEY ?? "");
const assets = client.mirror("assets");
for await (const _ of client.events()) {
  await assets.update();
  console.log(assets.time, assets.items.size);
  if (--count <= 0) break;
}
