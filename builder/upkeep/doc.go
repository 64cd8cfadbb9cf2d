// Package upkeep maintains a store of snapshots. It implements verify, repair, backup, restore, gc,
// rollback and status.
package upkeep
