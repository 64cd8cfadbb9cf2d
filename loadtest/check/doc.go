// Package check judges answers under load.
//
// Every answer gets cheap checks of its status, request id and required headers. Everything else depends only
// on the request and the answer, so each distinct answer is examined once. For this a Checker hashes every
// answer together with its request, snapshot and headers. An answer whose hash is known costs only the hash.
// A new answer is copied, and a goroutine that rests most of the time during the run examines it later. If
// more answers wait than memory allows, the goroutine that received the answer examines it itself, so that no
// answer is left out.
//
// With an oracle, the examination computes the answer from the snapshot that the answer names, and compares
// the bytes. Without one, it checks the answer on its own: envelope, page arithmetic, order, filters, and
// that no row has two positions in a snapshot's listing.
package check
