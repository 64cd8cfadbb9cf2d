// Package coingecko answers the part of CoinGecko's public API that a snapshot can answer, for programs
// that are written for it (COINGECKO.md). It parses what stands below /api/v3/, finds rows with
// package rows, and composes JSON. Package reply caches, tags, codes and sends it like every answer.
//
// Rows are JSON already: texts are copied as they stand, decimals become numbers, digit by digit. What
// is computed is computed with integers and rounded once, half to even. Once memory has grown, answers
// allocate nothing, but for whole collections, /global, and pages with more than 128 KiB of rows.
package coingecko
