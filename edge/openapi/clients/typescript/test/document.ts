// This file compiles only if this client's types are those of a client generated from the OpenAPI document. It is not run.
import type { components, paths } from "../generated/api.js";
import type { Asset, Category, Chain, Change, Client, Exchange, Global, MessageKey, PriceAt, Quote } from "../src/index.js";

type Schemas = components["schemas"];
/** Compiles if each of two types is assignable to the other. */
type Same<A extends B, B extends C, C = A> = [A, B, C];
/** The name as this client writes it, such as marketCap for market_cap. */
type Camel<S> = S extends `${infer A}_${infer B}` ? `${A}${Capitalize<Camel<B>>}` : S & string;
type Camels<T> = T extends readonly unknown[] | string | number | null ? (T extends readonly (infer E extends object)[] ? Camels<E>[] : T)
  : { [N in keyof T as Camel<N>]: Camels<T[N]> };
export type Checks = [
  Same<Asset, Camels<Schemas["Asset"]>>,
  Same<Quote, Camels<Schemas["Quote"]>>,
  Same<Exchange, Camels<Schemas["Exchange"]>>,
  Same<Global, Camels<Schemas["Global"]>>,
  Same<Category, Camels<Schemas["Category"]>>,
  Same<Chain, Camels<Schemas["Chain"]>>,
  Same<PriceAt, Camels<Schemas["PriceAt"]>>,
  Same<Change, Camels<Schemas["DirectoryChange"]>>,
  Same<MessageKey, Schemas["Error"]["message_key"]>,
];

/** Each method takes the parameters of the document, with the same sort keys, windows, intervals, collections and kinds. It takes `at` instead of the header. */
type Endpoint = "assets" | "quotes" | "markets" | "trending" | "exchanges" | "global" | "categories" | "chains" | "history" | "candles" | "prices" | "changes";
type Documented<E extends Endpoint> = paths[`/openapi/v1/${E}`]["get"]["parameters"] extends { query?: infer Q } ? NonNullable<Q> : never;
type Taken<E extends Endpoint> = NonNullable<Parameters<Client[E]>[0]>;
type Keys<T> = T extends unknown ? Exclude<keyof T, "at"> : never;
type Values<T, N extends string> = T extends { [K in N]?: infer V } ? NonNullable<V> : never;
type Equal<A, B> = [A] extends [B] ? ([B] extends [A] ? true : never) : never;
type Alike = { [E in Endpoint]: [
  Equal<Keys<Documented<E>>, Keys<Taken<E>>>, Equal<Values<Documented<E>, "sort">, Values<Taken<E>, "sort">>,
  Equal<Values<Documented<E>, "window">, Values<Taken<E>, "window">>, Equal<Values<Documented<E>, "interval">, Values<Taken<E>, "interval">>,
  Equal<Values<Documented<E>, "collection">, Values<Taken<E>, "collection">>, Equal<Values<Documented<E>, "kind">, Values<Taken<E>, "kind">>,
] };
export const alike: Record<Endpoint, [true, true, true, true, true, true]> = {} as Alike;
