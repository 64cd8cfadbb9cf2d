#!/usr/bin/env bash
# Packs the self-contained bundle of @scalar/api-reference for embedding. Name
# the version here and in ../web.go, run it (it needs node and npm), and run the tests.
set -euo pipefail
cd "$(dirname "$0")"
version=1.72.1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
npm pack --silent --pack-destination "$work" "@scalar/api-reference@$version" >/dev/null
tar -xzf "$work"/*.tgz -C "$work" package/dist/browser/standalone.js
node -e '
const { readFileSync, writeFileSync } = require("node:fs");
const { brotliCompressSync, constants: c } = require("node:zlib");
const text = readFileSync(process.argv[1]);
writeFileSync("standalone.js.br", brotliCompressSync(text, {
  params: { [c.BROTLI_PARAM_QUALITY]: 11, [c.BROTLI_PARAM_LGWIN]: 24, [c.BROTLI_PARAM_SIZE_HINT]: text.length },
}));' "$work/package/dist/browser/standalone.js"
sha256sum "$work/package/dist/browser/standalone.js" | cut -d' ' -f1 > standalone.js.sha256
ls -l standalone.js.br
