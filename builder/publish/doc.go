// Package publish publishes a snapshot. It knows the order in which objects, manifest, pointer and
// log must become durable, but nothing about their contents.
//
// A publication that dies halfway leaves nothing to recover. If the machine dies
//
//   - while objects are being put, or before they are durable: nothing refers to them yet. Either gc
//     removes them, or the next build needs them and puts them again. That is no conflict, since equal
//     keys mean equal bytes.
//   - while the manifest is being put: the same holds for the manifest.
//   - while the pointer is being swapped: the swap either takes effect or does not. Either way, the
//     pointer names a manifest whose objects are all durable.
//   - while the log is being written, in a signed store: the pointer contains the leaf. The next
//     publication writes the leaf to the log before it moves the pointer (package transparency).
//
// So the next build starts at the pointer, as every build does. If two publishers run at the same
// time, both go through all these steps, and the compare-and-swap of the pointer lets only one of
// them win. [Head.Publish] describes how a publisher distinguishes a lost response from a lost
// race.
package publish
