/** An exact decimal number as the service sends it, in plain notation without an exponent. A `number` cannot represent it exactly. */
export type Decimal = string;
/** A time in RFC 3339, in UTC and whole seconds, such as `2026-11-21T10:10:00Z`. */
export type Time = string;

/** The time of the snapshot to answer from, such as `snapshotTime` of an earlier answer. */
export interface Pin {
  at?: Time | undefined;
}

/** The parameters of every listing. Lists may contain up to 100 values; an empty list matches nothing. */
interface Paged extends Pin {
  /** Page mode; `size` up to 100, or up to 20 for history and candles. */
  page?: number;
  size?: number;
  /** Offset mode. */
  limit?: number;
  offset?: number;
}

/** The parameters of every listing of items. */
interface Paging extends Paged {
  id?: readonly number[];
  slug?: readonly string[];
}

/** A sort key, with or without a direction. */
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

/** The parameters of the endpoints about the past. One of `id`, `slug` and `symbol` is required. */
type Told = Paging & { symbol?: readonly string[] } & ({ id: readonly number[] } | { slug: readonly string[] } | { symbol: readonly string[] });

/** The parameters of `history`. */
export type HistoryQuery = Told & {
  /** The default is `7d`. */
  window?: "24h" | "7d" | "30d" | "90d" | "1y" | "max";
};

/** The parameters of `candles`. */
export type CandlesQuery = Told & {
  /** The default is `1h`. */
  interval?: "1h" | "1d";
  /** The range in which candles begin, inclusive. The default is the newest 168 hours or 365 days. */
  from?: Time;
  to?: Time;
};

/** The parameters of `prices`. */
export type PricesQuery = Told & {
  /** Up to 100 times. Their number times the number of assets on a page is at most 1,000. */
  time: readonly Time[];
};

export type Collection = "assets" | "categories" | "chains" | "exchanges";

/** The parameters of `changes`. */
export interface ChangesQuery extends Paged {
  /** Only changes of later snapshots. The default is all available changes. */
  since?: Time;
  collection?: readonly Collection[];
  kind?: readonly Change["kind"][];
}

/** The parameters of `search` besides the words. */
export interface SearchQuery extends Pin {}

/** One page of a listing. `total` is the number of matching rows in the answer's snapshot. */
export interface Page<T> {
  items: T[];
  page: number;
  total: number;
  totalPage: number;
  /** The oldest time from which the changes are complete; for `changes` only. Null before the first snapshot. */
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

/** An entry of the directory. Unrelated assets may share a symbol, so join by `id`. */
export interface Asset extends Named {
  /** The rank by market cap, from 1; absent if there is none. */
  rank?: number;
  symbol: string;
  logo: string;
  explorers: string[];
  /** Only with `fields: ["links"]`. */
  links?: { website: string; whitepaper: string };
}

export type Window = "1h" | "6h" | "12h" | "24h" | "7d" | "30d" | "90d" | "1y";

/** An asset's market data, in US dollars. */
export interface Quote extends Named {
  symbol: string;
  logo: string;
  price: Decimal;
  /** Null if unknown. */
  marketCap: Decimal | null;
  /** The volume over 24 hours. */
  volume: Decimal;
  percentChange: Record<Window, Decimal>;
  /** The time from which changes over longer windows are measured; absent if a whole year is covered. */
  since?: Time;
}

/** A quote with its asset's rank. */
export interface Market extends Quote {
  /** The rank by market cap, from 1; absent if there is none. */
  rank?: number;
  /** The slugs of the groups; only with `fields: ["groups"]`. */
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

/** The files of a snapshot. `time` is the time of the snapshot, or null if there are no files. */
export interface Files {
  time: Time | null;
  items: File[];
}

/** A file that contains a whole collection. `url` is its path; the file at this path never changes. */
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
  /** Absent if there is none. */
  notice?: Notice;
}

/** A remark about all data in a snapshot. Show it together with the data. */
export interface Notice {
  text: string;
  /** "" if there is no link. */
  url: string;
}

/** The aggregate over a group's coins. */
export interface GroupMarket {
  marketCap: Decimal;
  volume24h: Decimal;
  coinsCount: number;
  /** The group's share of the sum over all groups, from 0 to 1. A coin counts once for each of its groups. */
  marketCapShare: Decimal;
  snapshotTime: Time;
  topGainers: (Named & { symbol: string; logo: string })[];
}

export interface Category extends Named {
  market: GroupMarket;
}

export interface Chain extends Named {
  displayName: string;
  /** The chain ID of EIP-155; null for chains without one. */
  evmChainId: number | null;
  logo: string;
  market: GroupMarket;
}

/** An asset's prices in a window, oldest point first. */
export interface History extends Named {
  symbol: string;
  window: string;
  interval: string;
  points: [Time, Decimal][];
}

/** An hour or day that begins at `time`. Market cap and volume come from its last snapshot; they are null if unknown. */
export type Candle = [
  time: Time, open: Decimal, high: Decimal, low: Decimal, close: Decimal, marketCap: Decimal | null, volume: Decimal | null,
];

/** An asset's candles, oldest first. */
export interface CandleSeries extends Named {
  symbol: string;
  interval: "1h" | "1d";
  candles: Candle[];
}

/** An asset's price at `time`, taken from the snapshot of `snapshotTime`. Other fields are null if the service has no data. */
export interface PriceAt {
  time: Time;
  snapshotTime: Time | null;
  price: Decimal | null;
  marketCap: Decimal | null;
  volume: Decimal | null;
}

/** An asset's prices, in the order of the requested times. */
export interface PriceSeries extends Named {
  symbol: string;
  prices: PriceAt[];
}

/** A change of a directory item. `name`, `symbol` and `slug` have their values after the change or, for a removed item, their last values. */
export interface Change extends Named {
  /** The time of the snapshot that shows the change. */
  time: Time;
  collection: Collection;
  kind: "added" | "back" | "changed" | "removed";
  /** For assets only. */
  symbol?: string;
  /** The changed fields, with their values if the service states them. Only for the kind `changed`. */
  fields?: { [name in "name" | "symbol" | "slug" | "logo"]?: { old: string; new: string } } & { [name in "active" | "links" | "platforms" | "members"]?: {} };
}

/** A directory item with the fields that `changes` covers. It has no figures, since those change with every snapshot. */
export interface Entry extends Named {
  /** For assets only. */
  symbol?: string;
  /** Absent for categories. */
  logo?: string;
  /** For assets only. */
  explorers?: string[];
  /** For assets and exchanges only. */
  links?: Record<string, string>;
}

export type MessageKey =
  | "BAD_REQUEST" | "UNAUTHORIZED" | "NOT_FOUND" | "PATH_NOT_FOUND" | "FILE_NOT_FOUND" | "METHOD_NOT_ALLOWED" | "REQUEST_TIMEOUT"
  | "SNAPSHOT_GONE" | "PRECONDITION_FAILED" | "PAYLOAD_TOO_LARGE" | "RANGE_NOT_SATISFIABLE" | "TOO_MANY_REQUESTS" | "HEADERS_TOO_LARGE" | "INTERNAL_ERROR" | "SERVICE_UNAVAILABLE";
