// Package shards caches the objects that an edge needs, in three layers:
//
//	memory  parsed shards, in ristretto, bounded in bytes
//	disk    whole objects under their digest, bounded in bytes
//	store   the object store
//
// Each layer only speeds up access to the next one. Ristretto may reject or drop anything at any time, and
// with a budget of one byte it keeps nothing. A file may be damaged, unwritable, or removed by a second
// edge that uses the same folder. In all these cases, the cache asks the next layer. It never returns
// unverified bytes.
//
// # What is verified when
//
// The cache checks the SHA-256 of an object when it receives the object from the store, and once per process
// when it finds the object on disk. After that each read of a shard checks its frame: the lengths in the
// index, zstd's checksum, and the structure of the shard (artifacts.ParseEntry). If a check fails, the cache
// discards the data and tries once to fetch the object again.
//
// # Who waits for whom
//
// Concurrent loads of the same shard are joined, so a single load serves all requests that miss it. A load
// has its own time limit. A waiting request gives up after Config.Wait with ErrUnavailable. For
// Config.Pause after a failed fetch, Shard does not request the object again, so that a failing store
// does not receive a fetch for every request. A slow object does not delay others, because up to
// Config.Fetches fetches run concurrently.
package shards
