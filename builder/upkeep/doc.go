// Package upkeep maintains a store of snapshots: verify, repair, backup, restore, gc,
// rollback and status.
package upkeep
