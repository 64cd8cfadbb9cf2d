/**
 * A client for version 1 of the Market Data Service API. It needs only `fetch`.
 *
 *     const client = new Client("https://host", "mdk_live_…");
 *     for await (const row of client.rows("quotes", { size: 100 })) console.log(row.symbol, row.price);
 */
import type {
  Asset, AssetsQuery, CandleSeries, CandlesQuery, CategoriesQuery, Category, Chain, ChainsQuery, Collection, Change, ChangesQuery, Exchange, ExchangesQuery,
  File, Files, Global, GlobalQuery, History, HistoryQuery, Items, Market, MarketsQuery, MessageKey, Page, Pin, PriceSeries, PricesQuery, Quote, QuotesQuery,
  SearchQuery, Time, TrendingQuery,
} from "./types.js";

import { collections, Mirror } from "./mirror.js";

export type * from "./types.js";
export { Mirror } from "./mirror.js";

/** This client's version. The `User-Agent` header contains it. */
export const version = "1.0.0";

const silence = 45_000; // ms after which an event stream counts as dead; a live one sends a line every 15 s
const alive = 10_000; // ms after which any line, even without an event, shows that a stream works
const backoff = 1_000; // the longest wait before the second attempt, in ms; 3 retries survive an outage of 3 s
const maxLine = 65_536; // characters
const spread = 3_000; // ms over which clients spread their requests after an event
const zoned = /^\d{4}(-\d\d){2}T\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)$/; // RFC 3339, with or without seconds; Date.toISOString writes such times
const retried = [408, 429, 500, 502, 503, 504];

/** The state of the token bucket that the request was charged to. */
export interface RateLimit {
  /** Requests in a full bucket. An empty bucket is full after `window` seconds. */
  quota: number;
  window: number;
  /** Requests left; the bucket is full after `reset` seconds. */
  remaining: number;
  reset: number;
}

/** A result together with the information in the response headers. */
export interface Answer<T> {
  result: T;
  /** The time of the answer's snapshot; undefined before the first snapshot. */
  snapshotTime: Time | undefined;
  /** Values that match nothing, by filter (`id`, `slug`, …). */
  notFound: Record<string, string[]>;
  /** Names of parameters that had no effect on the answer. */
  ignored: string[];
  limit: RateLimit | undefined;
  requestId: string | undefined;
  /** Set by `refresh` if the service says that `result` has not changed. */
  unchanged: boolean;
  /** @internal */
  etag: string;
  /** @internal */
  request: Request;
}

interface Request {
  target: string;
  headers: Record<string, string>;
}

/** An answer that reports an error. It is an instance of a class below, or of `ApiError` itself if this client does not know its key. */
export class ApiError extends Error {
  override name = "ApiError";
  constructor(
    readonly status: number,
    /** The code of the envelope; 0 if an intermediary answered. */
    readonly code: number,
    /** "" if an intermediary answered. Later versions of the service may add keys. */
    readonly messageKey: MessageKey | (string & {}),
    message: string,
    /** In seconds. */
    readonly retryAfter: number | undefined,
    readonly limit: RateLimit | undefined,
    readonly requestId: string | undefined,
  ) {
    super(`${status} ${messageKey}: ${message} (request ${requestId})`);
  }
}

/** A parameter or the time of the snapshot is invalid; `message` names it. */
export class BadRequest extends ApiError {}
/** The request has no valid API key. */
export class Unauthorized extends ApiError {}
/** `global` was called before the first snapshot. */
export class NotFound extends ApiError {}
/** The service is older and lacks the endpoint. */
export class PathNotFound extends ApiError {}
/** There is no file with this name. */
export class FileNotFound extends ApiError {}
/** The method is not GET; this client never sends another one. */
export class MethodNotAllowed extends ApiError {}
/** The request did not arrive in time. */
export class RequestTimeout extends ApiError {}
/** The service no longer has the requested snapshot or the changes since then. Start the listing again. */
export class SnapshotGone extends ApiError {}
/** `download`: the file has since been replaced. */
export class PreconditionFailed extends ApiError {}
/** The request has a body; this client never sends one. */
export class PayloadTooLarge extends ApiError {}
/** The file ends before the requested range; `download` never requests such a range. */
export class RangeNotSatisfiable extends ApiError {}
/** The rate limit is exceeded. */
export class TooManyRequests extends ApiError {}
/** The request is larger than 32 KiB. Request fewer values at a time. */
export class HeadersTooLarge extends ApiError {}
/** The service has failed. */
export class InternalError extends ApiError {}
/** The service cannot answer at present. */
export class ServiceUnavailable extends ApiError {}

const errors: Record<MessageKey, typeof ApiError> = {
  BAD_REQUEST: BadRequest, UNAUTHORIZED: Unauthorized, NOT_FOUND: NotFound, PATH_NOT_FOUND: PathNotFound,
  FILE_NOT_FOUND: FileNotFound, PRECONDITION_FAILED: PreconditionFailed, METHOD_NOT_ALLOWED: MethodNotAllowed, REQUEST_TIMEOUT: RequestTimeout, SNAPSHOT_GONE: SnapshotGone,
  PAYLOAD_TOO_LARGE: PayloadTooLarge, RANGE_NOT_SATISFIABLE: RangeNotSatisfiable, TOO_MANY_REQUESTS: TooManyRequests, HEADERS_TOO_LARGE: HeadersTooLarge,
  INTERNAL_ERROR: InternalError, SERVICE_UNAVAILABLE: ServiceUnavailable,
};

/** No complete answer from the service arrived. `cause`, if set, says why. */
export class TransportError extends Error {
  override name = "TransportError";
}

export interface Options {
  /** The time limit for one attempt, including reading the body, in milliseconds. The default is 10,000. */
  timeout?: number;
  /** How many times a failed request may be repeated. The default is 3. */
  retries?: number;
  /**
   * The longest wait between two attempts, in milliseconds, not counting `Retry-After`. If an error's `Retry-After`
   * is longer, the error is thrown immediately. The default is 30,000.
   */
  maxWait?: number;
  /** The name of a program, such as `board/2.1`, to put before this client's name in the `User-Agent` header. Browsers send their own. */
  userAgent?: string;
  /** Replaces the function that waits between attempts, for tests. */
  sleep?: (ms: number) => Promise<void>;
  /** Aborts all requests and waits of the client. */
  signal?: AbortSignal;
  /** Replaces the global `fetch`, for example to use a proxy or your own certificates. */
  fetch?: typeof fetch;
}

/** The listings that `pages` and `rows` can read, with the types of their rows and parameters. */
export interface Lists {
  assets: [Asset, AssetsQuery];
  quotes: [Quote, QuotesQuery];
  markets: [Market, MarketsQuery];
  exchanges: [Exchange, ExchangesQuery];
  categories: [Category, CategoriesQuery];
  chains: [Chain, ChainsQuery];
  history: [History, HistoryQuery];
  candles: [CandleSeries, CandlesQuery];
  prices: [PriceSeries, PricesQuery];
  changes: [Change, ChangesQuery];
}

/** The query may be left out unless it has a required parameter. */
type Rest<Q> = {} extends Q ? [query?: Q] : [query: Q];

const paged = ["at", "page", "size", "limit", "offset"];
const paging = [...paged, "id", "slug"];
/** The parameters that each endpoint reads, to check calls from JavaScript. */
const parameters: Record<string, readonly string[]> = {
  assets: [...paging, "symbol", "sort", "fields"], quotes: [...paging, "symbol", "sort"],
  markets: [...paging, "symbol", "category", "chain", "sort", "fields"], trending: ["at", "by"],
  exchanges: [...paging, "sort"], global: ["at"], categories: [...paging, "sort"], chains: [...paging, "sort"],
  history: [...paging, "symbol", "window"], search: ["at"],
  candles: [...paging, "symbol", "interval", "from", "to"], prices: [...paging, "symbol", "time"],
  changes: [...paged, "since", "collection", "kind"],
};
const lists = Object.keys(parameters).filter((name) => parameters[name]?.includes("page"));
const optionNames = ["timeout", "retries", "maxWait", "userAgent", "sleep", "signal", "fetch"];

/** An incremental SHA-256. */
export interface Hash {
  update(bytes: Uint8Array): unknown;
  digest(encoding: "hex"): string;
}

/** Sends requests to one service. */
export class Client {
  readonly #base: string;
  readonly #headers: Record<string, string>;
  readonly #options: Options & { timeout: number; retries: number; maxWait: number };

  /**
   * `baseUrl` is the URL of the service, such as `https://host`, without `/openapi/v1`. `key` may be empty if the
   * service requires none. Throws a `TypeError` for an invalid value.
   */
  constructor(baseUrl: string, key: string, options: Options = {}) {
    const o = { timeout: 10_000, retries: 3, maxWait: 30_000, ...options };
    for (const name of Object.keys(o)) check(optionNames.includes(name), `there is no option ${name}: there are ${optionNames.join(", ")}`);
    // No message repeats a URL, because it may be a misplaced key.
    check(URL.canParse(baseUrl) && /^https?:\/\/[^/]/i.test(baseUrl), "baseUrl must be like https://host or http://127.0.0.1:8080");
    check(!/[?#]/.test(baseUrl) && !new URL(baseUrl).username, "baseUrl must have no user, query or fragment");
    this.#base = baseUrl.replace(/\/+$/, "");
    check(!this.#base.endsWith("/openapi/v1"), "baseUrl must not end in /openapi/v1, which the client adds");
    check(typeof key === "string", "key must be a string, empty if the service needs none");
    check(!/[^!-~]/.test(key), "key must not have blanks, line breaks or characters outside ASCII");
    check(!/[^ -~]/.test(o.userAgent ?? ""), "userAgent must be visible ASCII, such as board/2.1");
    check(o.timeout > 0 && o.maxWait > 0 && o.retries >= 0, "timeout and maxWait must be more than 0, retries at least 0");
    this.#options = o;
    this.#headers = { "X-Api-Key": key };
    // Browsers send their own, and some would send a preflight request for another one.
    if (!("location" in globalThis)) this.#headers["User-Agent"] = `${o.userAgent ?? ""} marketdata-typescript/${version}`.trim();
  }

  /** Lists the directory of assets. */
  assets(query?: AssetsQuery): Promise<Answer<Page<Asset>>> { return this.#ask("assets", query); }
  /** Lists the assets that have a price. */
  quotes(query?: QuotesQuery): Promise<Answer<Page<Quote>>> { return this.#ask("quotes", query); }
  /** Lists the same quotes as `quotes` with their ranks, and can sort by any figure. */
  markets(query?: MarketsQuery): Promise<Answer<Page<Market>>> { return this.#ask("markets", query); }
  /** Returns up to 20 assets, ordered by their 24-hour price change. */
  trending(query?: TrendingQuery): Promise<Answer<Items<Quote>>> { return this.#ask("trending", query); }
  /** Lists exchanges. */
  exchanges(query?: ExchangesQuery): Promise<Answer<Page<Exchange>>> { return this.#ask("exchanges", query); }
  /** Returns the market's totals. Throws `NotFound` before the first snapshot. */
  global(query?: GlobalQuery): Promise<Answer<Global>> { return this.#ask("global", query); }
  /** Lists groups of assets. */
  categories(query?: CategoriesQuery): Promise<Answer<Page<Category>>> { return this.#ask("categories", query); }
  /** Lists blockchains. */
  chains(query?: ChainsQuery): Promise<Answer<Page<Chain>>> { return this.#ask("chains", query); }
  /** Lists the prices over `query.window` for the assets that `query` names. */
  history(query: HistoryQuery): Promise<Answer<Page<History>>> { return this.#ask("history", query); }
  /** Lists hourly or daily open, high, low and close prices for the assets that `query` names. */
  candles(query: CandlesQuery): Promise<Answer<Page<CandleSeries>>> { return this.#ask("candles", query); }
  /** Lists the prices, at the times in `query.time`, of the assets that `query` names. */
  prices(query: PricesQuery): Promise<Answer<Page<PriceSeries>>> { return this.#ask("prices", query); }
  /** Lists what changed in the directory, newest first. `SnapshotGone` means that the service no longer has the changes since that time. In that case, read the listings again. */
  changes(query?: ChangesQuery): Promise<Answer<Page<Change>>> { return this.#ask("changes", query); }
  /** Returns up to 20 assets. Each of `words` must begin a word of the name, the symbol or the slug. */
  async search(words: string, query?: SearchQuery): Promise<Answer<Items<Asset>>> {
    check(typeof words === "string", "words must be a string");
    return this.#ask("search", query, { q: words });
  }

  /** Lists the newest files. */
  files(): Promise<Answer<Files>> { return this.#ask("files"); }

  /**
   * Yields a file's bytes, starting at offset `from`. If an answer breaks off, continues with another request. After
   * the last bytes, throws a `TransportError` if the digest of `hash` is not the file's. `hash` is a SHA-256, such as
   * Node's `createHash("sha256")`, to which the caller has already added the bytes before `from`.
   */
  async *download(file: File, hash: Hash, from = 0): AsyncGenerator<Uint8Array, void, undefined> {
    let at = from;
    for (let attempt = 0; at < file.bytes; attempt++) {
      const deadline = this.#deadline(this.#options.timeout);
      let failure: unknown;
      try {
        // The tag ensures that bytes of another file are never appended.
        const headers: Record<string, string> = at > 0 ? { Range: `bytes=${at}-`, "If-Match": `"${file.sha256}"` } : {};
        const response = await this.#send(file.url, headers, deadline.signal);
        if (response.status >= 300) throw await failed(response);
        if (response.status !== (at > 0 ? 206 : 200)) throw new TransportError(`status ${response.status} in place of a part of the file`);
        for (const reader = response.body!.getReader(); at < file.bytes;) {
          const { done, value } = await reader.read();
          if (done) throw new TransportError(`${file.name} ended early`);
          deadline.pause(); // the caller may be slow to process the bytes
          attempt = 0;
          at += value.length;
          hash.update(value);
          yield value;
          deadline.restart();
        }
      } catch (error) {
        failure = error instanceof ApiError || error instanceof TransportError ? error : new TransportError(`${file.name}: ${reason(error)}`);
      } finally {
        deadline.end();
      }
      if (failure !== undefined) await this.#sleep(this.#wait(failure, attempt));
    }
    const digest = hash.digest("hex");
    if (at !== file.bytes || digest !== file.sha256) throw new TransportError(`${file.name} has digest ${digest}, want ${file.sha256}`);
  }

  /** Returns an empty copy of a collection. Its first `update` reads the collection. */
  mirror(collection: Collection): Mirror {
    check(collections.includes(collection), `there is no mirror of ${collection}, only of ${collections.join(", ")}`);
    return new Mirror(this, collection);
  }

  /** Sends the request again. If nothing has changed, the service sends only headers, and the new answer has the same `result`. */
  refresh<T>(answer: Answer<T>): Promise<Answer<T>> { return this.#fetch(answer.request, answer); }

  /**
   * Reads a whole listing page by page. All pages are from the snapshot of the first answer, whatever is published
   * meanwhile. `SnapshotGone` means that reading took longer than the service keeps snapshots. In that case, start
   * again.
   */
  async *pages<N extends keyof Lists>(
    list: N, ...rest: Rest<Lists[N][1]>
  ): AsyncGenerator<Answer<Page<Lists[N][0]>>, void, undefined> {
    check(lists.includes(list), `the first argument names a list: ${lists.join(", ")}`);
    const query = rest[0] as QuotesQuery | undefined;
    let at = query?.at;
    for (let page = query?.page ?? 1, last = page; page <= last; page++) {
      const answer = await this.#ask<Page<Lists[N][0]>>(list, { ...query, page, at } as QuotesQuery);
      yield answer;
      at = answer.snapshotTime;
      last = answer.result.totalPage;
    }
  }

  /** Like `pages`, but yields row by row. */
  async *rows<N extends keyof Lists>(list: N, ...query: Rest<Lists[N][1]>): AsyncGenerator<Lists[N][0], void, undefined> {
    for await (const page of this.pages(list, ...query)) yield* page.result.items;
  }

  /**
   * Yields the time of the current snapshot, and then of each new snapshot that becomes current. Yields each event
   * except the first after a random delay of at most three seconds, so that not all clients send requests at the same
   * time. Pass the time as `at` in the next request, because it may reach an edge that does not have the new snapshot
   * yet. Connects again when a stream ends. Throws if too many streams in a row fail, or end early without an event.
   */
  async *events(): AsyncGenerator<Time, void, undefined> {
    let last = "";
    let again = 2_000;
    for (let attempt = 0; ; attempt++) {
      let failure: unknown = new TransportError("the stream of events ended without one");
      let works = false;
      const opened = performance.now();
      const deadline = this.#deadline(silence);
      try {
        const headers = { Accept: "text/event-stream", ...(last && { "Last-Event-ID": last }) };
        const response = await this.#send("/openapi/v1/events", headers, deadline.signal);
        if (response.status !== 200) throw await failed(response);
        if (!response.headers.get("Content-Type")?.startsWith("text/event-stream")) throw new TransportError("no stream of events");
        for await (const line of lines(response)) {
          deadline.restart();
          works ||= performance.now() - opened > alive;
          const retry = /^retry: ?(\d+)$/.exec(line)?.[1];
          if (retry) again = Math.min(Number(retry), this.#options.maxWait);
          const id = /^id: ?(.+)$/.exec(line)?.[1];
          if (!id || id === last) continue;
          deadline.pause(); // the caller may be slow to process the event
          works = true;
          if (last) await this.#sleep(Math.random() * spread);
          last = id;
          yield id;
        }
      } catch (error) {
        if (error instanceof ApiError || error instanceof TransportError) failure = error; // any other error means that the stream has ended
      } finally {
        deadline.end();
      }
      if (works) attempt = -1;
      await this.#sleep(works ? jitter(again) : this.#wait(failure, attempt));
    }
  }

  async #ask<T>(endpoint: string, query: Pin & Partial<Pick<CandlesQuery, "from" | "to"> & Pick<PricesQuery, "time"> & Pick<ChangesQuery, "since">> = {}, more: Record<string, string> = {}): Promise<Answer<T>> {
    const { at, ...values } = query;
    const search = new URLSearchParams(more);
    for (const [name, value] of Object.entries(values)) {
      check(parameters[endpoint]?.includes(name), `${endpoint} takes no ${name}: it takes ${parameters[endpoint]?.join(", ")}`);
      // An empty list, or a list of one empty value, matches nothing, but "" would match everything.
      if (value !== undefined) search.set(name, Array.isArray(value) ? String(value) || "," : String(value));
    }
    for (const time of [values.from, values.to, values.since, ...(values.time ?? [])]) {
      check(time === undefined || zoned.test(time), "from, to, since and each of time must be like 2026-11-21T10:10:00Z, with Z or another zone");
    }
    check(at === undefined || /^\d{4}(-\d\d){2}T\d\d(:\d\d){2}Z$/.test(at), "at must be like 2026-11-21T10:10:00Z");
    const target = `/openapi/v1/${endpoint}${search.size > 0 ? `?${search}` : ""}`;
    return this.#fetch<T>({ target, headers: at === undefined ? {} : { "X-Snapshot-Time": at } });
  }

  async #fetch<T>(request: Request, before?: Answer<T>): Promise<Answer<T>> {
    for (let attempt = 0; ; attempt++) {
      try {
        return await this.#once(request, before);
      } catch (error) {
        await this.#sleep(this.#wait(error, attempt));
      }
    }
  }

  async #once<T>(request: Request, before?: Answer<T>): Promise<Answer<T>> {
    const headers = { ...request.headers, ...(before && { "If-None-Match": before.etag }) };
    const deadline = this.#deadline(this.#options.timeout);
    try {
      return await this.#answer(request, before, await this.#send(request.target, headers, deadline.signal));
    } finally {
      deadline.end();
    }
  }

  async #answer<T>(request: Request, before: Answer<T> | undefined, response: Response): Promise<Answer<T>> {
    const unchanged = before !== undefined && response.status === 304;
    if (!unchanged && response.status !== 200) throw await failed(response);
    const h = (name: string) => response.headers.get(name) ?? undefined;
    return {
      result: unchanged ? before.result : await resultOf<T>(response),
      unchanged, request, etag: h("ETag") ?? "", snapshotTime: h("X-Snapshot-Time"), requestId: h("X-Request-Id"), limit: limitOf(response),
      notFound: Object.fromEntries((h("X-Not-Found")?.split("&") ?? []).map((filter) => {
        const at = filter.indexOf("=");
        return [filter.slice(0, at), listOf(filter.slice(at + 1))];
      })),
      ignored: listOf(h("X-Ignored")),
    };
  }

  /**
   * Returns a signal that is aborted after `ms` or when the option `signal` is aborted, until `end` is called.
   * `AbortSignal.any` would leak memory for each request if the option `signal` outlives it (nodejs/node 55351).
   */
  #deadline(ms: number) {
    const { signal } = this.#options;
    const dead = new AbortController();
    const abort = () => dead.abort(signal?.reason);
    if (signal?.aborted) abort();
    signal?.addEventListener("abort", abort);
    const start = () => setTimeout(() => dead.abort(new DOMException(`nothing arrived for ${ms} ms`, "TimeoutError")), ms);
    let timer = start();
    const pause = () => clearTimeout(timer);
    return {
      signal: dead.signal,
      pause,
      restart: () => { pause(); timer = start(); },
      end: () => { pause(); signal?.removeEventListener("abort", abort); dead.abort(); },
    };
  }

  /** Sends one request. It does not follow redirects, because they could send the key to another server. */
  async #send(target: string, headers: Record<string, string>, signal: AbortSignal): Promise<Response> {
    const send = this.#options.fetch ?? fetch;
    try {
      return await send(this.#base + target, {
        headers: { ...this.#headers, ...headers }, signal, redirect: "manual", cache: "no-store",
      });
    } catch (cause) {
      throw new TransportError(`GET ${target}: ${reason(cause)}`, { cause });
    }
  }

  /** Returns the milliseconds to wait before the next attempt, or throws `error` if there should be none. */
  #wait(error: unknown, attempt: number): number {
    this.#options.signal?.throwIfAborted();
    const api = error instanceof ApiError ? error : undefined;
    if ((!api && !(error instanceof TransportError)) || (api && !retried.includes(api.status)) || attempt >= this.#options.retries) throw error;
    const after = (api?.retryAfter ?? 0) * 1000;
    if (after > this.#options.maxWait) throw error;
    return after + jitter(Math.min(backoff * 2 ** Math.min(attempt, 10), this.#options.maxWait)); // random, so that not all clients come back at the same time
  }

  async #sleep(ms: number): Promise<void> {
    if (this.#options.sleep) return this.#options.sleep(ms);
    const { signal } = this.#options;
    signal?.throwIfAborted();
    await new Promise<void>((resolve) => {
      const done = () => { clearTimeout(timer); signal?.removeEventListener("abort", done); resolve(); };
      const timer = setTimeout(done, ms);
      signal?.addEventListener("abort", done);
    });
    signal?.throwIfAborted();
  }
}

/** Returns the message of the innermost error, because the message of fetch is only "fetch failed". */
function reason(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error.cause instanceof Error) return reason(error.cause);
  return error.message || ("code" in error ? String(error.code) : error.name); // if connecting to several addresses failed, only the code is set
}

async function resultOf<T>(response: Response): Promise<T> {
  try {
    const { result } = (await response.json()) as { result?: unknown };
    if (result === undefined) throw new TypeError("no result");
    return camel(result) as T;
  } catch (cause) {
    throw new TransportError("read the answer", { cause });
  }
}

async function failed(response: Response): Promise<ApiError> {
  const envelope = (await response.json().catch(() => null)) as { code?: number; message?: string; message_key?: string } | null;
  const key = envelope?.message_key ?? "";
  const after = response.headers.get("Retry-After") ?? "";
  return new (errors[key as MessageKey] ?? ApiError)(
    response.status, envelope?.code ?? 0, key, envelope?.message ?? response.statusText,
    /^\d{1,9}$/.test(after) ? Number(after) : undefined, limitOf(response), response.headers.get("X-Request-Id") ?? undefined,
  );
}

/** Converts names such as `market_cap` to `marketCap`, at any depth. */
function camel(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(camel);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, v]) => [name.replace(/_(.)/g, (_, c: string) => c.toUpperCase()), camel(v)]));
}

function check(ok: boolean | undefined, problem: string): void {
  if (!ok) throw new TypeError(problem);
}

async function* lines(response: Response): AsyncGenerator<string, void, undefined> {
  if (!response.body) return;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const whole = (rest + value).split(/\r?\n/);
      rest = whole.pop() ?? "";
      if (rest.length > maxLine) throw new TransportError(`a line of the stream of events has more than ${maxLine} characters`);
      yield* whole;
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

function limitOf(response: Response): RateLimit | undefined {
  const read = (name: string) => /;[qr]=(\d+);[wt]=(\d+)$/.exec(response.headers.get(name) ?? "")?.slice(1).map(Number);
  const [quota, window] = read("RateLimit-Policy") ?? [];
  const [remaining, reset] = read("RateLimit") ?? [];
  if (quota === undefined || window === undefined || remaining === undefined || reset === undefined) return undefined;
  return { quota, window, remaining, reset };
}

/** Parses comma-separated, percent-encoded values. */
function listOf(values: string | undefined): string[] {
  return values === undefined ? [] : values.split(",").map(decodeURIComponent);
}

function jitter(ms: number): number {
  return (ms / 2) * (1 + Math.random());
}
