// Package dirstore keeps an artifacts.Store in a folder, without a server. Any number of processes
// on one machine (or on a network file system with POSIX locks) may share it.
//
// # Layout
//
// The object with key objects/ab/cd is the file objects/ab/cd: the store can be
// looked at with ls, copied with cp -r and removed with rm -r. Beside them,
// under names that no key can have, stand .lock and .tmp. A folder may be a symbolic link, its first
// one also to another disk, on which it has a .tmp of its own.
//
// # How a write happens
//
// Put writes a whole file in .tmp and links it to its place, which succeeds only where nothing is:
// readers see the whole object or none, and the first of two writers wins. Put does not wait for
// the disk. Sync does, once for all: it makes every file put since the last Sync durable, and the
// folders on the way to it. (Sixteen fsyncs at a time: on ext4 2,500 objects take some 0.5 s so,
// 1.3 s one by one, and 0.3 s with Linux' syncfs, which would also wait for everything else on the
// file system and does not reach through FUSE.)
//
// Swap holds an exclusive flock on .lock, compares, writes a file in .tmp, fsyncs it, renames it
// over the old one and fsyncs the folder. The kernel drops the lock of a process that dies.
//
// # After a power cut
//
// What was put and not synced may be gone, empty, short or full of zeros. The published snapshot
// does not reach such an object, but the next build may put the same bytes under the same key
// again. Put therefore compares contents, and replaces an object whose key says that it is broken:
// the keys of artifacts.ObjectKey and artifacts.ManifestKey are digests of the contents. So does
// every store, whatever has broken it.
//
// # Versions
//
// A version is a hash (XXH3, 128 bits) of the contents, so equal bytes have equal versions, as on
// S3: a swap from A to B and back to A cannot be told from no swap. Who needs the difference puts a
// sequence number or a nonce in. GetIf reads and hashes the object: the moving objects are small,
// and a quicker look at inode, size and times could be wrong, since inode numbers are given out
// again and times are as coarse as the kernel's tick.
//
// # Needs
//
// A file system with hard links, flock and fsync. A folder that is not there is an error of its
// own, never artifacts.ErrNotFound; a mount point whose file system is not mounted looks like an
// empty store. A call that waits for a disk does not notice that its context is done.
package dirstore
