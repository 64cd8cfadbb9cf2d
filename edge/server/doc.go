// Package server serves the edge's public listener: connections, framing, the order of work,
// limits, static files and streams of events. Config.Answer finds the answers (package reply).
//
// # Life of a request
//
// The listener (listener.go) admits or refuses a connection. It counts connections in all and by
// client address (owners.go); a trusted proxy states that address in a PROXY protocol header
// (proxied.go). An idle connection holds no buffer. With the first byte of a request it takes one of
// 2 KiB, and one of 32 KiB if the head is longer. Each line of a head is scanned once, as it arrives
// (head.go). When the head is complete, the loop (serve.go) has fasthttp parse it; socket.go is
// how it reads and writes with and without waiting. What is not HTTP,
// too late or too large, or has a body, is answered, and the connection closed.
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
//	what                                  bound                          protects
//	connections, in all, of one address   MaxConns, MaxConnsPerAddress   descriptors and memory
//	a head                                32 KiB, 100 lines              memory
//	a body                                none is read                   the meaning of what follows
//	the time for a head                   ReadTimeout                    connections
//	the time for 64 KiB of an answer      WriteTimeout                   connections and buffers
//	the time between two requests         IdleTimeout                    connections
//	unread bytes in the kernel            128 KiB a connection           memory (listen.go)
//	refusals under way                    64                             goroutines
//	streams, in all, of one key           MaxStreams, 8                  memory
//	log lines a second                    a few for clients' errors      disks
package server
