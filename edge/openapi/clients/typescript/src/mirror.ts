import { SnapshotGone, type Client } from "./index.js";
import type { Collection, Entry, Time } from "./types.js";

export const collections: readonly Collection[] = ["assets", "categories", "chains", "exchanges"];

/** The parts of an item that `changes` follows. */
function entry({ id, name, symbol, slug, logo, explorers, links }: Entry): Entry {
  const all = { id, name, symbol, slug, logo, explorers, links };
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined)) as unknown as Entry;
}

/** A copy of the directory of a collection, at first empty; `Client.mirror` makes one. One `update` runs at a time. */
export class Mirror {
  /** Of the snapshot that `items` are of; undefined before the first `update`. */
  time: Time | undefined;
  /** By id. */
  items = new Map<number, Entry>();
  readonly #client: Client;

  /** @internal */
  constructor(client: Client, readonly collection: Collection) { this.#client = client; }

  /**
   * Brings the mirror to a snapshot that is current: `items` are then what the whole listing of that snapshot has. It
   * asks for the changes since `time`, and reads again what changed. If the service does not hold the changes, has taken
   * the snapshot of `time` back, or has more changes than the mirror has items, it reads the whole listing. After an
   * error the mirror is as it was.
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

  /** Brings the mirror forward by the changes; false: they do not lead to the current snapshot. */
  async #follow(since: Time): Promise<boolean> {
    let at: Time | undefined;
    const changed = new Set<number>();
    for await (const page of this.#client.pages("changes", { since, collection: [this.collection], size: 100 })) {
      at = page.snapshotTime;
      if (at === undefined || at < since || page.result.total > this.items.size) return false;
      for (const change of page.result.items) changed.add(change.id);
    }
    const ids = [...changed];
    const entries: Entry[] = []; // those that are still listed
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
