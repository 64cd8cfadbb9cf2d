// Package builder makes snapshots: it reads a feed, brings the ledger up to the
// feed's time, computes, renders, and publishes (see Builder.Build for the
// story in one function). It also holds what else is done to a store of
// snapshots: the change job, the rollback, the deletion of garbage, and the
// loop that runs them by the clock.
//
// README.md tells the life of a build and why it cannot go wrong halfway.
package builder
