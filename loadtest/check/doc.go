// Package check judges answers under load.
//
// Cheap checks are made on every answer: status, request id, required
// headers. Everything else depends only on the request and the answer,
// so it is enough to examine each distinct answer once: every
// answer is hashed together with its request, its snapshot and its headers, and
// one whose hash was seen before costs no more than the hash. A new one is
// copied and examined later, by a goroutine that keeps most of its time free
// while the run lasts; when more is waiting than memory allows, the connection
// that received the answer examines it itself, so that none is left out.
//
// With an oracle the examination recomputes the answer from the snapshot that
// it names and compares the bytes. Without one it checks what the answer says
// by itself: envelope, page arithmetic, order, filters, and that no row stands
// at two places of one snapshot's listing.
package check
