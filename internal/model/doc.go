// Package model is an independent, slow and plain model of the service: the
// feed, the computing of snapshots and the answers, each written from the text
// of the documents alone (edge/INTERFACE.md and builder/FEED.md).
// Tests set the real builder and the real edge beside it and compare every
// answer to the last byte.
//
// The package shares no code with the packages it judges, not even the folding
// of text or the arithmetic. It favours the obvious over the fast: numbers are
// rationals ([math/big.Rat]), state is maps and slices that are copied and
// sorted anew, JSON is put together from strings. A [World] is the state of the
// service; [World.Build], [World.Change] and [World.Rollback] are what the
// builder does to it, and [World.Answer] is what an edge says about it.
//
// Authentication, rate limits and the framing of HTTP are not modelled.
package model
