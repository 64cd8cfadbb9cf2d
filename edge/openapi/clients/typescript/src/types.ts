/** A decimal number as the service writes it: plain notation, exact. A `number` does not hold it. */
export type Decimal = string;
/** RFC 3339, UTC, whole seconds, such as `2026-11-21T10:10:00Z`. */
export type Time = string;

/** An endpoint's parameters. `Answer.ignored` names what the endpoint did not use. */
export interface Query {
  /** Up to 100 values, as of `slug` and `symbol`. */
  id?: number[];
  slug?: string[];
  symbol?: string[];
  /** Slugs, of markets. */
  category?: string[];
  chain?: string[];
  /** Page mode; `size` up to 100. */
  page?: number;
  size?: number;
  /** Offset mode. */
  limit?: number;
  offset?: number;
  /** `rank`, `market_cap:desc`. */
  sort?: string;
  /** `links` of assets, `groups` of markets. */
  fields?: ("links" | "groups")[];
  /** Of trending. */
  by?: "gainers";
  /** Of history. */
  window?: "24h" | "7d" | "30d" | "90d" | "1y";
  /** The snapshot to answer from: `snapshotTime` of an earlier answer. */
  at?: Time | undefined;
}

/** One page of a listing; `total` are the rows that match in the snapshot that answered. */
export interface List<T> {
  items: T[];
  page: number;
  total: number;
  total_page: number;
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
  market_cap: Decimal | null;
  /** Of 24 hours. */
  volume: Decimal;
  percent_change: Record<Window, Decimal>;
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
    volume_24h: Decimal | null;
    markets_count: number | null;
    coins_count: number | null;
    data_time: Time | null;
  } | null;
}

/** Totals over active assets with a known market cap. */
export interface Global {
  total_market_cap: Decimal;
  total_volume_24h: Decimal;
  total_market_cap_change_percentage_24h: Decimal | null;
  data_time: Time;
}

/** The aggregate over a group's coins. */
export interface GroupMarket {
  market_cap: Decimal;
  volume_24h: Decimal;
  coins_count: number;
  /** 0 to 1: a part of the sum over all groups, in which a coin counts once for each group. */
  market_cap_share: Decimal;
  snapshot_time: Time;
  top_gainers: (Named & { symbol: string; logo: string })[];
}

export interface Category extends Named {
  market: GroupMarket;
}

export interface Chain extends Named {
  display_name: string;
  /** EIP-155; null for others. */
  evm_chain_id: number | null;
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

export type MessageKey =
  | "BAD_REQUEST" | "UNAUTHORIZED" | "NOT_FOUND" | "PATH_NOT_FOUND" | "METHOD_NOT_ALLOWED" | "REQUEST_TIMEOUT"
  | "SNAPSHOT_GONE" | "PAYLOAD_TOO_LARGE" | "TOO_MANY_REQUESTS" | "HEADERS_TOO_LARGE" | "INTERNAL_ERROR" | "SERVICE_UNAVAILABLE";
