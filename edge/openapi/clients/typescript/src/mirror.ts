import { SnapshotGone, type Client } from "./index.js";
import type { Collection, Entry, Time } from "./types.js";

export const collections: readonly Collection[] = ["assets", "categories", "chains", "exchanges"];

/** Returns the fields of an item that `changes` covers. */
function entry({ id, name, symbol, slug, logo, explorers, links }: Entry): Entry {
  const all = { id, name, symbol, slug, logo, explorers, links };
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined)) as unknown as Entry;
}

/** A copy of the directory of a collection. Use `Client.mirror` to create one; it is empty at first. Only one `update` may run at a time. */
export class Mirror {
  /** The time of the snapshot that `items` reflects; undefined before the first `update`. */
  time: Time | undefined;
  /** The items by id. */
  items = new Map<number, Entry>();
  readonly #client: Client;

  /** @internal */
  constructor(client: Client, readonly collection: Collection) { this.#client = client; }

  /**
   * Brings the mirror up to date with the current snapshot. `items` then equals the whole listing of that snapshot.
   * Requests the changes since `time`, and reads the changed items again. Reads the whole listing if the service no
   * longer has the changes, has withdrawn the snapshot of `time`, or has more changes than the mirror has items. After
   * an error, the mirror is unchanged.
   */
  async update(): Promise<void> {
    try {
      if (this.time !== undefined && await this.#follow(this.time)) return;
    } catch (error) {
      if (!(error instanceof SnapshotGone)) throw error;
    }
    let at: Time | undefined;
    const items = new Map<number, Entry>();
    for await (const page of this.#client.pages(this.collection as "assets", this.#query)) {
      at = page.snapshotTime;
      for (const item of page.result.items) items.set(item.id, entry(item));
    }
    this.time = at;
    this.items = items;
  }

  /** Updates the mirror by applying changes. Returns false if they do not lead to the current snapshot. */
  async #follow(since: Time): Promise<boolean> {
    let at: Time | undefined;
    const changed = new Set<number>();
    for await (const page of this.#client.pages("changes", { since, collection: [this.collection], size: 100 })) {
      at = page.snapshotTime;
      if (at === undefined || at < since || page.result.total > this.items.size) return false;
      for (const change of page.result.items) changed.add(change.id);
    }
    const ids = [...changed];
    const entries: Entry[] = []; // the changed items that are still listed
    for (let first = 0; first < ids.length; first += 100) {
      const answer = await this.#client[this.collection as "assets"]({ ...this.#query, id: ids.slice(first, first + 100), at });
      entries.push(...answer.result.items.map(entry));
    }
    for (const id of ids) this.items.delete(id);
    for (const item of entries) this.items.set(item.id, item);
    this.time = at;
    return true;
  }

  get #query() {
    return { size: 100, ...(this.collection === "assets" && { fields: ["links"] as const }) };
  }
}
