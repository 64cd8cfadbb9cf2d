// Package builder makes snapshots: it reads a feed, brings the ledger up to the
// feed's time, computes, renders, and publishes (build.go has the steps). It
// also has what else is done to a store of snapshots: the change job, the
// rollback, the deletion of garbage, and the loop that runs them by the clock.
//
// README.md describes the steps of a build, and why one that dies halfway does
// no harm.
package builder
