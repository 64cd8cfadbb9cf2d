// Package model is an independent and plain model of the service, written from
// the text of the documents alone (edge/INTERFACE.md and builder/FEED.md). It is
// the one place that says what must be answered: [Parse] reads a request into a
// [Query], and [Snapshot.Answer] answers it.
//
// The rows of a [Snapshot] have two suppliers. A [World] makes them from a feed in tests of any package:
// [World.Build], [World.Change] and [World.Rollback] are what the builder does
// to the service, [World.Answer] is what an edge says about it, and the property
// tests of internal/test/e2e compare both to the last byte. The load tester's oracle
// reads them with [ReadRow] from the shards of a store. Its checks without an
// oracle read them from the answers, and its fake service answers with this
// package, or with a fault.
//
// The package shares no code with the packages it judges, not even the folding
// of text or the arithmetic. It favours the obvious over the fast: numbers are
// rationals ([math/big.Rat]), state is maps and slices that are copied and
// sorted anew. Only whole listings in order and the rows by what filters ask for
// are kept, because the load tester asks thousands of questions of one snapshot.
//
// Authentication, rate limits and the framing of HTTP are not modelled.
package model
