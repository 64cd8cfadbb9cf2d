// Package oracle computes what the market-data service must answer, from the
// snapshot in the object store and edge/INTERFACE.md.
//
// It shares with the service the reading of artifacts (pointer, manifest,
// objects, shards) and nothing else: parsing of parameters, matching, order and
// rendering are written here once more, plainly and slowly, so that a mistake
// in the service is not made here too. In particular it takes no row's bytes
// for granted: each row is decoded and written again.
package oracle
