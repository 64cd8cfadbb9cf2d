// Updates mirrors of all collections for each line of its input, and then prints their state as a line of JSON.
import { createHash } from "node:crypto";
import { createInterface } from "node:readline";
import { Client, type Collection, type Mirror } from "../src/index.js";

/** Returns the SHA-256 of a text form of all of the mirror's items, ordered by id. */
function digest(mirror: Mirror): string {
  const sum = createHash("sha256");
  for (const e of [...mirror.items.values()].sort((a, b) => a.id - b.id)) {
    const links = Object.entries(e.links ?? {}).map(([name, value]) => `${name}=${value}`).sort().join("\t");
    sum.update([e.id, e.name, e.symbol ?? "", e.slug, e.logo ?? "", (e.explorers ?? []).join("\t"), links].join("\n") + "\n");
  }
  return sum.digest("hex");
}

const client = new Client(process.argv[2] ?? "", "", { retries: 0 });
const mirrors = (["assets", "categories", "chains", "exchanges"] satisfies Collection[]).map((collection) => client.mirror(collection));
for await (const _ of createInterface(process.stdin)) {
  const states: Record<string, object> = {};
  for (const mirror of mirrors) {
    const Failed = await mirror.update().then(() => false, () => true);
    states[mirror.collection] = { Time: mirror.time ?? "", Digest: digest(mirror), Failed };
  }
  console.log(JSON.stringify(states));
}
