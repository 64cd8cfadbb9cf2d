// Package server serves the edge's public listener: connections, framing, the order of work,
// limits, static files and streams of events. Config.Answer finds the answers (package reply).
//
// # Life of a request
//
// The listener (listener.go) admits or refuses a connection. It counts connections in all and by
// client address; a trusted proxy states that address in a PROXY protocol header (proxied.go). An
// idle connection holds no buffer. With the first byte of a request it takes one of 32 KiB, which
// has room for a whole head (conn.go lists the states of a connection and what each holds). Each
// line of a head is scanned once, as it arrives (head.go). When the head is complete, the loop
// (serve.go) has fasthttp parse it and reads past a body. What is not HTTP, too late or too large is
// answered, and the connection closed.
//
// The handler (handler.go) follows INTERFACE.md, "Order of work": method, path, key, rate limit,
// parameters, pinned snapshot, answer. The first step that fails answers with a problem
// (problem.go), whose body was made beforehand. Every answer then gets its common headers
// (headers.go).
//
// An answer is a [reply.Reply]: header lines made beforehand, a few made for the request, and a
// body. Head and body are written at once; a body that was composed in the request's buffers is not
// copied. When a client is slow, nothing is kept that belongs to a cache.
//
// Neither a refusal for key or rate nor an answer, unless it enters a cache, allocates memory or takes
// a lock.
//
// # What is bounded
//
// Connections, in all and by address; the time for a head, a body, an answer and idleness; the size
// of a head (32 KiB and 100 lines), of a body, a trailer section and chunk extensions (4 KiB each);
// the memory for connections that wait for their peer, including the kernel's for unread answers, in
// all and by address (account.go decides who gives way when it runs out); log lines a second.
package server
