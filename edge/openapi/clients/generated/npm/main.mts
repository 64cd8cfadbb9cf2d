// Sends the same requests with the client that a generator creates from the document. The first argument is the name of
// the generator. The clients name functions after the document's operations, but their calling conventions differ.
import { createHash } from "node:crypto";

const { MARKETDATA_URL: baseUrl = "", MARKETDATA_KEY: key = "", MARKETDATA_PIN: pin = "", MARKETDATA_DAY: day = "" } = process.env;
const headers = { "X-Api-Key": key };

interface Client {
  /** Returns the result of an operation, from the snapshot of the time `at` if it is given. */
  ask(operation: string, query: Record<string, unknown>, at?: string): Promise<any>;
  bytes(operation: string, name: string): Promise<Blob | ArrayBuffer>;
}

const pinned = (at?: string): Record<string, string> => at ? { "X-Snapshot-Time": at } : {};

const generators: Record<string, () => Promise<Client>> = {
  "hey-api": async () => {
    const sdk: any = await import("./hey/sdk.gen.js");
    const { client }: any = await import("./hey/client.gen.js");
    client.setConfig({ baseUrl, headers, throwOnError: true });
    return {
      ask: async (operation, query, at) => (await sdk[operation]({ query, headers: pinned(at) })).data.result,
      bytes: async (operation, name) => (await sdk[operation]({ path: { name } })).data,
    };
  },
  "orval": async () => {
    const { default: axios }: any = await import("axios");
    Object.assign(axios.defaults, { baseURL: baseUrl, headers: { common: headers } });
    const api: any = await import("./orval/api.js");
    return {
      ask: async (operation, query, at) => (await api[operation](query, { headers: pinned(at) })).data.result,
      bytes: async (operation, name) => (await api[operation](name, { responseType: "arraybuffer" })).data,
    };
  },
  "kubb": async () => {
    const api: any = await import("./kubb/client.js");
    const config = { baseURL: baseUrl, headers };
    return {
      ask: async (operation, query, at) => (await api[operation](query, pinned(at), config)).result,
      bytes: (operation, name) => api[operation](name, {}, { ...config, responseType: "arraybuffer" }),
    };
  },
  "swagger-typescript-api": async () => {
    const { Api }: any = await import("./sta/api.js");
    const { openapi } = new Api({ baseUrl, baseApiParams: { headers } });
    return {
      ask: async (operation, query, at) => (await openapi[operation](query, { headers: pinned(at), format: "json" })).data.result,
      bytes: async (operation, name) => (await openapi[operation](name, { format: "blob" })).data,
    };
  },
  "openapi-client-axios": async () => {
    const { OpenAPIClientAxios }: any = await import("openapi-client-axios");
    const client = await new OpenAPIClientAxios({ definition: "openapi.json", axiosConfigDefaults: { baseURL: baseUrl, headers } }).init();
    return {
      ask: async (operation, query, at) => (await client[operation]({ ...query, ...pinned(at) })).data.result,
      bytes: async (operation, name) => (await client[operation]({ name }, null, { responseType: "arraybuffer" })).data,
    };
  },
  "swagger-js": async () => {
    const { default: SwaggerClient }: any = await import("swagger-client");
    const { readFileSync } = await import("node:fs");
    const spec = { ...JSON.parse(readFileSync("openapi.json", "utf8")), servers: [{ url: baseUrl }] };
    const client = await new SwaggerClient({ spec, authorizations: { ApiKey: key } });
    const call = (operationId: string, parameters: object) => client.execute({ operationId, parameters });
    return {
      ask: async (operation, query, at) => (await call(operation, { ...query, ...pinned(at) })).body.result,
      bytes: async (operation, name) => (await call(operation, { name })).data,
    };
  },
};

const client = await generators[process.argv[2] ?? ""]!();

async function digest(operation: string, name: string): Promise<string> {
  const got = await client.bytes(operation, name);
  const bytes = got instanceof Blob ? await got.arrayBuffer() : got;
  return createHash("sha256").update(new Uint8Array(bytes)).digest("hex");
}

const ids = (list: { items: { id: number }[] }) => list.items.map(({ id }) => id);
for (const [task, result] of Object.entries({
  ids: ids(await client.ask("listQuotes", { id: [1, 9] })),
  page: ids(await client.ask("listAssets", { page: 2, size: 3 })),
  pinned: (await client.ask("listQuotes", { slug: ["bitcoin"] }, pin)).items[0].price,
  group: ids(await client.ask("listMarkets", { category: ["layer-1"], sort: "id" })),
  chain: (await client.ask("listChains", { slug: ["palm-chain"] })).items[0].evm_chain_id,
  file: await digest("getFile", "quotes.parquet"),
  day: await digest("getPrices", day),
})) console.log(JSON.stringify({ operation: task, result }));
