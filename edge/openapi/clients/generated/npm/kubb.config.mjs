import { defineConfig } from "@kubb/core";
import { pluginClient } from "@kubb/plugin-client";
import { pluginOas } from "@kubb/plugin-oas";
import { pluginTs } from "@kubb/plugin-ts";

export default defineConfig({
  input: { path: "openapi.json" },
  output: { path: "kubb", barrelType: false, format: false },
  plugins: [
    pluginOas({ generators: [] }), pluginTs({ output: { path: "types.ts", barrelType: false } }),
    pluginClient({ output: { path: "client.ts", barrelType: false }, client: "axios", bundle: true }),
  ],
});
