// Package publish makes a snapshot the published one. It knows the order in
// which things must become durable, and nothing of what they hold.
//
// The argument, step by step. If the machine dies
//
//   - while objects are put, or before they are durable: nothing refers to
//     them. They are garbage that gc removes, or that the next build needs and
//     puts again, which is no conflict since equal keys mean equal bytes.
//   - while the manifest is put: the same, for the manifest.
//   - while the pointer is swapped: the store did it or did not. Either way the
//     pointer names a manifest all of whose objects are durable.
//   - while the log is written, in a signed store: the pointer has the leaf. The next publication
//     writes it before it moves the pointer (package transparency).
//
// So there is nothing to recover: the next build starts as every build does, at the pointer. Two
// publishers at once both do all of this, and the pointer's compare-and-swap lets one of them win;
// see [Head.Publish] for how an answer that was lost is told apart from a race that was lost.
package publish
