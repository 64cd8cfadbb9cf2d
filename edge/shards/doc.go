// Package shards keeps what an edge needs of the object store on its own
// machine, in three layers:
//
//	memory  parsed shards, in ristretto, bounded in bytes
//	disk    whole objects under their digest, bounded in bytes
//	store   the object store, asked for what is on neither
//
// Every layer is only an accelerator for the next. ristretto may refuse or drop
// anything at any time (with a budget of one byte it keeps nothing), a file may
// be damaged, removed by a second edge that shares the folder, or impossible to
// write: each time the next layer is asked, and nothing is answered from bytes
// that were not verified.
//
// # What is verified when
//
// An object's SHA-256 is checked when it comes from the store, and once in the
// life of a process when it is found on disk. From then on each read of one
// shard checks its frame: the lengths that the index gives, zstd's checksum of
// the content, and the shard's own structure (artifacts.ParseEntry). Whatever
// fails is thrown away and fetched again, once.
//
// # Who waits for whom
//
// Equal loads are joined: however many requests miss the same shard, one reads
// it. A load runs on its own, within its own time; a request that waits leaves
// after Config.Wait, and gets ErrUnavailable. After a failed fetch the object is
// not asked for again for a moment (Config.Pause), so that a store in trouble is
// not asked once a request. One slow object does not delay requests for
// another: fetches run beside each other, Config.Fetches at most.
package shards
