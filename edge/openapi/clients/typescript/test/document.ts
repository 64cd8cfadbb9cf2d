// What a client made from the OpenAPI document would see is what this client says. It is compiled, not run.
import type { components, paths } from "../generated/api.js";
import type { Asset, Category, Chain, Exchange, Global, MessageKey, Query, Quote } from "../src/index.js";

type Schemas = components["schemas"];
/** Compiles when each type may stand for the other. */
type Same<A extends B, B extends C, C = A> = [A, B, C];
export type Checks = [
  Same<Asset, Schemas["Asset"]>,
  Same<Quote, Schemas["Quote"]>,
  Same<Exchange, Schemas["Exchange"]>,
  Same<Global, Schemas["Global"]>,
  Same<Category, Schemas["Category"]>,
  Same<Chain, Schemas["Chain"]>,
  Same<MessageKey, Schemas["Error"]["message_key"]>,
];

/** Every parameter that the document has is one of Query's, but that which search() takes. */
type Parameters = { [P in keyof paths]: paths[P] extends { get: { parameters: { query?: infer Q } } } ? (Q extends object ? keyof Q : never) : never }[keyof paths];
export type Known = Exclude<Parameters, "q"> extends keyof Query ? true : never;
export const known: Known = true;
