// Package coingecko implements the part of CoinGecko's public API that a snapshot can answer (COINGECKO.md).
// It parses requests below /api/v3/, finds rows with package rows, and composes JSON. Package reply caches,
// tags, compresses and sends these answers like all others.
//
// The rows of a snapshot are already JSON. So strings are copied unchanged, and decimals become JSON numbers
// with the same digits. Computed values use integer arithmetic and are rounded once, half to even. Once its
// buffers have grown, the package allocates only for whole collections, /global, and pages with more than 128
// KiB of rows.
package coingecko
