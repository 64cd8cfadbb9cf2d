// Package builder builds snapshots. It reads a feed, brings the ledger up to the feed's
// time, computes, renders and publishes (build.go lists the steps); it runs this by the
// clock, under a lease. Package upkeep maintains the store that results.
//
// README.md describes the steps of a build, and why one that dies halfway does no harm.
package builder
