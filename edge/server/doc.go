// Package server is the shell of the edge: everything about a request but
// finding the rows of its answer, which is an [Engine]'s.
//
// # Life of a request
//
// A connection is admitted or turned away by the listener (listener.go), which
// counts connections in all and by client address, which a proxy of ours says
// in a PROXY protocol header (proxied.go). While it is idle it holds no buffer;
// with the first byte of a request it takes one of 16 KiB, in which a whole head
// has room (conn.go, which lists the states of a connection and what each
// holds). The lines of a head are looked at once, as they come (head.go);
// when it is complete the loop (serve.go) lets fasthttp parse it and reads past
// a body. What is not HTTP, too late or too large is answered, and the
// connection closed.
//
// The handler (handler.go) is the order of work of
// INTERFACE.md, "Order of work", top to bottom: request id, method, path, key,
// rate limit, parameters, pinned snapshot, answer. The first step that fails
// answers with a [Problem] (problem.go), whose body was made beforehand.
// Whatever answers, the handler adds the headers that every answer carries
// (headers.go).
//
// An answer is an [reply.Reply]: header lines that were made beforehand, a
// few that were not, and a body. Head and body are written at once, a body that
// was put together in [Request.Room] without being copied. Of what the client is
// slow to take, nothing is kept that belongs to a cache.
//
// Nothing in this is allocated or locked for a request that is answered, nor
// for one that is refused for its key or its rate.
//
// # What is bounded
//
// Connections, in all and by address; the time for a head, a body, an answer
// and idleness; the size of a head (16 KiB and 100 lines), of a body, a trailer
// section and chunk extensions (4 KiB each); the memory for
// connections that wait for their peer, with what the kernel keeps of unread answers,
// in all and by address (account.go says who gives way when it runs out); log lines a
// second.
package server
