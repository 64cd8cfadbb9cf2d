// Package builder builds snapshots. For each snapshot it reads a feed, adds the feed to the ledger,
// computes the figures, renders the rows and publishes the result; build.go lists the steps. A
// [Loop] does this every ten minutes, while the builder holds the [Lease]. Package upkeep maintains
// the resulting store.
//
// README.md describes the steps of a build and explains why a build that dies halfway does no harm.
package builder
