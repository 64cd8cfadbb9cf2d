// Package shards keeps the objects that an edge needs on its own machine, in three layers:
//
//	memory  parsed shards, in ristretto, bounded in bytes
//	disk    whole objects under their digest, bounded in bytes
//	store   the object store
//
// Each layer only speeds up the next. Ristretto may reject or drop anything at any time, and
// with a budget of one byte it keeps nothing. A file may be damaged, not writable, or
// removed by a second edge that shares the folder. Then the cache asks the next layer. It
// never returns unverified bytes.
//
// # What is verified when
//
// The cache checks an object's SHA-256 when the object comes from the store, and once in a
// process when it finds the object on disk. After that each read of a shard checks its
// frame: the lengths from the index, zstd's checksum, and the shard's structure
// (artifacts.ParseEntry). It discards what fails, and fetches it again once.
//
// # Who waits for whom
//
// Equal loads are joined: one request reads a shard that many requests miss. A load has its
// own time limit; a waiting request leaves after Config.Wait with ErrUnavailable. For
// Config.Pause after a failed fetch, Shard does not request the object again, so that a
// store in trouble does not get a fetch for every request. One slow object does not delay
// others: up to Config.Fetches fetches run at once.
package shards
