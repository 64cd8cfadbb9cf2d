#!/usr/bin/env bash
# Downloads the packages that the pages and their tests embed from npm. To update one, change its version here
# and, for Scalar and uPlot, in web.go; run this script, which needs node and npm; and run the tests.
set -euo pipefail
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# take copies files of a package to a folder: take NAME@VERSION FOLDER FILE...
take() {
  npm pack --silent --pack-destination "$work" "$1" >/dev/null
  tar -xzf "$work"/*.tgz -C "$work"
  rm "$work"/*.tgz
  for file in "${@:3}"; do cp "$work/package/$file" "$2/$(basename "$file")"; done
  rm -r "$work/package"
}

# packed replaces a large file with its brotli form and its digest. The tests check the form against the digest.
packed() {
  node -e '
const { readFileSync, writeFileSync } = require("node:fs");
const { brotliCompressSync, constants: c } = require("node:zlib");
const text = readFileSync(process.argv[1]);
writeFileSync(process.argv[1] + ".br", brotliCompressSync(text, {
  params: { [c.BROTLI_PARAM_QUALITY]: 11, [c.BROTLI_PARAM_LGWIN]: 24, [c.BROTLI_PARAM_SIZE_HINT]: text.length },
}));' "$1"
  sha256sum "$1" | cut -d' ' -f1 > "$1.sha256"
  rm "$1"
}

take @scalar/api-reference@1.72.1 scalar dist/browser/standalone.js
packed scalar/standalone.js
take uplot@1.6.32 uplot dist/uPlot.iife.min.js dist/uPlot.min.css LICENSE
take axe-core@4.14.1 axe axe.min.js LICENSE LICENSE-3RD-PARTY.txt
packed axe/axe.min.js
ls -l scalar uplot axe
