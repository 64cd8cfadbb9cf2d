// Package model is an independent, plain model of the service, written only from the text of the
// documents (edge/INTERFACE.md and builder/FEED.md). It is the one place that defines the right
// answers: [Parse] parses a request into a [Query], and [Snapshot.Answer] answers it.
//
// The rows of a [Snapshot] come from one of two sources:
//
//   - Tests of any package use a [World], which makes them from a feed. [World.Build],
//     [World.Change] and [World.Rollback] do what the builder does, and [World.Answer] returns what
//     an edge must answer. The property tests of internal/test/e2e compare both programs with it to
//     the last byte.
//   - The load tester's oracle uses [ReadRow] to read them from the shards of a store. Its checks
//     without an oracle read them from the answers, and its fake service uses this package to
//     answer, correctly or with a deliberate fault.
//
// The package shares no code with the packages that it judges, not even the folding of text or the
// arithmetic. It prefers the obvious to the fast: numbers are rationals ([math/big.Rat]), and state
// is in maps and slices that are copied and sorted each time. It caches only sorted listings and
// the rows by filter values, because the load tester asks thousands of questions about one
// snapshot.
//
// The model does not include authentication, rate limits or HTTP framing.
package model
