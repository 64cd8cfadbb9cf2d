// Package server implements the public listener of an edge: connections, framing, order of work, limits,
// static files and event streams. Config.Answer, which package reply implements, composes the answers.
//
// # Life cycle of a request
//
// The listener (listener.go) admits or refuses a connection. It counts connections in total and by client
// address (owners.go). Trusted proxies state that address in a PROXY protocol header (proxied.go). An idle
// connection has no buffer. The first byte of a request allocates a buffer of 2 KiB. A head that does not fit
// into it gets one of 32 KiB. The server scans each line of a head once, as it arrives (head.go). When the
// head is complete, the loop (serve.go) lets fasthttp parse it. socket.go reads and writes, with and without
// waiting. If a request is not HTTP, too late or too large, or has a body, the server answers with an error
// and closes the connection.
//
// The handler (handler.go) follows INTERFACE.md, "Order of work": method, path, key, rate limit, parameters,
// pinned snapshot, answer. The first step that fails answers with a problem (problem.go), whose body was
// prepared at startup. Then the handler adds the headers that all answers share (headers.go).
//
// An answer is a [reply.Reply]. It consists of header lines that were prepared earlier, of a few header lines
// for this request, and of a body. Head and body are written together. A body that was composed in the
// request's buffers is not copied again. While a slow client receives an answer from a cache, the request
// occupies no buffer.
//
// Neither an answer nor a refusal because of the key or rate limit allocates memory or takes a lock, unless
// the answer enters a cache.
//
// # What is bounded
//
//	what                                  bound                          protects
//	connections, total and per address    MaxConns, MaxConnsPerAddress   descriptors and memory
//	a head                                32 KiB, 100 lines              memory
//	a body                                none is read                   the framing of the next request
//	the time for a head                   ReadTimeout                    connections
//	the time for 64 KiB of an answer      WriteTimeout                   connections and buffers
//	the time between two requests         IdleTimeout                    connections
//	unread bytes in the kernel            128 KiB per connection         memory (listen.go)
//	refusals under way                    64                             goroutines
//	streams, total and per key            MaxStreams, 8                  memory
//	log lines per second                  a few for clients' errors      disks
package server
