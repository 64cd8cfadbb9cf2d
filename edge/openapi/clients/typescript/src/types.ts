/** A decimal number as the service writes it: plain notation, exact. A `number` does not hold it. */
export type Decimal = string;
/** RFC 3339, UTC, whole seconds, such as `2026-11-21T10:10:00Z`. */
export type Time = string;

/** The snapshot to answer from: `snapshotTime` of an earlier answer. */
export interface Pin {
  at?: Time | undefined;
}

/** What every listing takes. Lists have up to 100 values; an empty one matches nothing. */
interface Paged extends Pin {
  /** Page mode; `size` up to 100, of history and candles up to 20. */
  page?: number;
  size?: number;
  /** Offset mode. */
  limit?: number;
  offset?: number;
}

/** What every listing of items takes. */
interface Paging extends Paged {
  id?: readonly number[];
  slug?: readonly string[];
}

/** Keys to sort by: ascending unless `:desc` follows. */
export type Sort<Key extends string> = Key | `${Key}:asc` | `${Key}:desc`;

/** The parameters of `assets`. */
export interface AssetsQuery extends Paging {
  symbol?: readonly string[];
  sort?: Sort<"id" | "name" | "symbol" | "slug" | "rank">;
  fields?: readonly "links"[];
}

/** The parameters of `quotes`. */
export interface QuotesQuery extends Paging {
  symbol?: readonly string[];
  sort?: Sort<"id" | "name" | "symbol" | "slug">;
}

/** The parameters of `markets`. */
export interface MarketsQuery extends Paging {
  symbol?: readonly string[];
  /** Slugs. */
  category?: readonly string[];
  chain?: readonly string[];
  sort?: Sort<
    | "rank" | "market_cap" | "volume" | "price" | "percent_change.1h" | "percent_change.24h" | "percent_change.7d"
    | "percent_change.30d" | "id" | "name" | "symbol" | "slug">;
  fields?: readonly "groups"[];
}

/** The parameters of `trending`. */
export interface TrendingQuery extends Pin {
  by?: "gainers";
}

/** The parameters of `exchanges`. */
export interface ExchangesQuery extends Paging {
  sort?: Sort<"id" | "name" | "slug" | "volume">;
}

/** The parameters of `global`. */
export interface GlobalQuery extends Pin {}

/** The parameters of `categories`. */
export interface CategoriesQuery extends Paging {
  sort?: Sort<"id" | "name" | "slug" | "market_cap" | "volume_24h">;
}

/** The parameters of `chains`. */
export interface ChainsQuery extends CategoriesQuery {}

/** What endpoints of the past take, which need to be told the assets. */
type Told = Paging & { symbol?: readonly string[] } & ({ id: readonly number[] } | { slug: readonly string[] } | { symbol: readonly string[] });

/** The parameters of `history`. */
export type HistoryQuery = Told & {
  /** `7d` unless given. */
  window?: "24h" | "7d" | "30d" | "90d" | "1y" | "max";
};

/** The parameters of `candles`. */
export type CandlesQuery = Told & {
  /** `1h` unless given. */
  interval?: "1h" | "1d";
  /** When candles begin, both included; the newest 168 hours or 365 days unless given. */
  from?: Time;
  to?: Time;
};

/** The parameters of `prices`. */
export type PricesQuery = Told & {
  /** Up to 100; with the assets of a page up to 1,000 prices. */
  time: readonly Time[];
};

export type Collection = "assets" | "categories" | "chains" | "exchanges";

/** The parameters of `changes`. */
export interface ChangesQuery extends Paged {
  /** Changes of later snapshots only; all that are held unless given. */
  since?: Time;
  collection?: readonly Collection[];
  kind?: readonly Change["kind"][];
}

/** The parameters of `search` beside the words. */
export interface SearchQuery extends Pin {}

/** One page of a listing; `total` are the rows that match in the snapshot that answered. */
export interface Page<T> {
  items: T[];
  page: number;
  total: number;
  totalPage: number;
  /** Of `changes` alone: the oldest time from which the changes are complete. Null before the first snapshot. */
  since?: Time | null;
}

/** A result without pages. */
export interface Items<T> {
  items: T[];
}

interface Named {
  id: number;
  name: string;
  slug: string;
}

/** An entry of the directory. Symbols are shared by unrelated assets: join by `id`. */
export interface Asset extends Named {
  /** By market cap, from 1; absent when there is none. */
  rank?: number;
  symbol: string;
  logo: string;
  explorers: string[];
  /** With `fields: ["links"]` only. */
  links?: { website: string; whitepaper: string };
}

export type Window = "1h" | "6h" | "12h" | "24h" | "7d" | "30d" | "90d" | "1y";

/** An asset's market data, in US dollars. */
export interface Quote extends Named {
  symbol: string;
  logo: string;
  price: Decimal;
  /** Null when unknown. */
  marketCap: Decimal | null;
  /** Of 24 hours. */
  volume: Decimal;
  percentChange: Record<Window, Decimal>;
  /** From when changes over longer windows count; left out where a whole year is covered. */
  since?: Time;
}

/** A quote with its asset's rank. */
export interface Market extends Quote {
  /** By market cap, from 1; absent when there is none. */
  rank?: number;
  /** With `fields: ["groups"]` only: slugs. */
  groups?: { categories: string[]; chains: string[] };
}

/** A trading venue. Slugs of exchanges are not unique. */
export interface Exchange extends Named {
  logo: string;
  links: Record<"website" | "twitter" | "telegram" | "reddit" | "facebook" | "chat", string>;
  fees: { maker: Decimal; taker: Decimal };
  market: {
    volume24h: Decimal | null;
    marketsCount: number | null;
    coinsCount: number | null;
    dataTime: Time | null;
  } | null;
}

/** The files of the snapshot of a time; null when there are none. */
export interface Files {
  time: Time | null;
  items: File[];
}

/** A whole collection as a file; `url` is its path, where it never changes. */
export interface File {
  name: string;
  bytes: number;
  rows: number;
  sha256: string;
  mediaType: string;
  url: string;
}

/** Totals over active assets with a known market cap. */
export interface Global {
  totalMarketCap: Decimal;
  totalVolume24h: Decimal;
  totalMarketCapChangePercentage24h: Decimal | null;
  dataTime: Time;
  /** Left out where there is none. */
  notice?: Notice;
}

/** A remark on all data of a snapshot: show it with the data. */
export interface Notice {
  text: string;
  /** Empty if it leads nowhere. */
  url: string;
}

/** The aggregate over a group's coins. */
export interface GroupMarket {
  marketCap: Decimal;
  volume24h: Decimal;
  coinsCount: number;
  /** 0 to 1: a part of the sum over all groups, in which a coin counts once for each group. */
  marketCapShare: Decimal;
  snapshotTime: Time;
  topGainers: (Named & { symbol: string; logo: string })[];
}

export interface Category extends Named {
  market: GroupMarket;
}

export interface Chain extends Named {
  displayName: string;
  /** EIP-155; null for others. */
  evmChainId: number | null;
  logo: string;
  market: GroupMarket;
}

/** The course of an asset's price in a window, oldest point first. */
export interface History extends Named {
  symbol: string;
  window: string;
  interval: string;
  points: [Time, Decimal][];
}

/** An hour or day that begins at `time`; market cap and volume are those of its last snapshot, null when unknown. */
export type Candle = [
  time: Time, open: Decimal, high: Decimal, low: Decimal, close: Decimal, marketCap: Decimal | null, volume: Decimal | null,
];

/** An asset's candles, oldest first. */
export interface CandleSeries extends Named {
  symbol: string;
  interval: "1h" | "1d";
  candles: Candle[];
}

/** What an asset was worth at `time`, by the snapshot of `snapshotTime`; null where the service had no data. */
export interface PriceAt {
  time: Time;
  snapshotTime: Time | null;
  price: Decimal | null;
  marketCap: Decimal | null;
  volume: Decimal | null;
}

/** An asset's prices, in the order of the times that were asked for. */
export interface PriceSeries extends Named {
  symbol: string;
  prices: PriceAt[];
}

/** A change of an item of the directory. Names and slug are as the change left them; those of a removed item are as they were. */
export interface Change extends Named {
  /** Of the snapshot that shows the change. */
  time: Time;
  collection: Collection;
  kind: "added" | "back" | "changed" | "removed";
  /** Of assets only. */
  symbol?: string;
  /** Of kind `changed` only: the fields that changed, with their values where the service tells them. */
  fields?: { [name in "name" | "symbol" | "slug" | "logo"]?: { old: string; new: string } } & { [name in "active" | "links" | "platforms" | "members"]?: {} };
}

/** An item of the directory as `changes` follows it, without figures, which change with every snapshot. */
export interface Entry extends Named {
  /** Of assets only. */
  symbol?: string;
  /** Of all but categories. */
  logo?: string;
  /** Of assets only. */
  explorers?: string[];
  /** Of assets and exchanges only. */
  links?: Record<string, string>;
}

export type MessageKey =
  | "BAD_REQUEST" | "UNAUTHORIZED" | "NOT_FOUND" | "PATH_NOT_FOUND" | "FILE_NOT_FOUND" | "METHOD_NOT_ALLOWED" | "REQUEST_TIMEOUT"
  | "SNAPSHOT_GONE" | "PRECONDITION_FAILED" | "PAYLOAD_TOO_LARGE" | "RANGE_NOT_SATISFIABLE" | "TOO_MANY_REQUESTS" | "HEADERS_TOO_LARGE" | "INTERNAL_ERROR" | "SERVICE_UNAVAILABLE";
