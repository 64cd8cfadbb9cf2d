// Package rawhttp is a corpus of what clients send to an HTTP/1 server, as exact bytes, with the
// answers that INTERFACE.md, "Framing" and "Order of work", requires of the edge. It serves tests
// of the edge's own server loop and of proxies in front of it.
//
// Each [Case] belongs to one area, the part of its name before the slash. The table of an area
// names the rule that it tests.
package rawhttp

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// Path is the path of most requests in the corpus. A server under test answers requests for it with
// 200 and for any other path with 404, except that OPTIONS may have any path.
const Path = "/openapi/v1/assets"

// Limits from INTERFACE.md, "Order of work" and "Framing".
const (
	maxHead  = 32 << 10
	maxLines = 100
)

// Case is everything that a client sends on one connection.
type Case struct {
	// Name is the area and the request, such as "lengths/signed".
	Name string
	// Raw holds the bytes that the client sends.
	Raw string
	// Methods lists the methods of the answered requests if they are not all GET. Answers to HEAD
	// have no body.
	Methods []string
	// Open means that the interface does not define the answer. Status and Closes then have no
	// meaning.
	Open bool
	// Status lists the statuses of all answers, in order.
	Status []int
	// Closes means that the server closes the connection after the last answer, without waiting for
	// another request.
	Closes bool
}

// Method returns the method of the i-th answered request.
func (c *Case) Method(i int) string {
	if i < len(c.Methods) {
		return c.Methods[i]
	}
	return "GET"
}

// entry is a row of the tables in corpus.go: one request and its statuses.
type entry struct {
	name   string
	raw    string
	status []int
}

// Cases returns the corpus. Another request follows every valid or invalid request on the same
// connection. After a valid request, the server must answer the second one, which it can do only if
// it has read the first one exactly to its end. After an invalid request, it must not.
func Cases() []Case {
	var cases []Case
	for _, t := range tables {
		for _, kind := range []struct {
			entries []entry
			status  int // by default
			next    string
			as      Case
		}{
			{t.taken, 200, next, Case{}}, {t.last, 200, next, Case{Closes: true}},
			{t.refused, 400, next, Case{Closes: true}},
			{t.open, 0, next, Case{Open: true}}, {t.late, 408, "", Case{Closes: true}},
		} {
			for _, e := range kind.entries {
				c := kind.as
				c.Name, c.Raw = t.area+"/"+e.name, e.raw+kind.next
				if !c.Open {
					if c.Status = e.status; c.Status == nil {
						c.Status = []int{kind.status}
					}
					if !c.Closes {
						c.Status = append(slices.Clip(c.Status), 200)
					}
				}
				if method, _, _ := strings.Cut(strings.TrimPrefix(e.raw, "\r\n"), " "); method == "HEAD" {
					c.Methods = []string{method}
				}
				cases = append(cases, c)
			}
		}
	}
	return append(cases, pipelines()...)
}

// Mutate returns raw with one to three changes that servers are known to handle differently.
func Mutate(r *rand.Rand, raw string) string {
	for range 1 + r.IntN(3) {
		raw = mutations[r.IntN(len(mutations))](r, raw)
	}
	return raw
}

var mutations = []func(*rand.Rand, string) string{
	func(r *rand.Rand, s string) string { return replaceOne(r, s, "\r\n", "\n") },
	func(r *rand.Rand, s string) string { return replaceOne(r, s, "\r\n", "\r") },
	func(r *rand.Rand, s string) string { return replaceOne(r, s, "\r\n", "\r\n ") },
	func(r *rand.Rand, s string) string { return replaceOne(r, s, "\r\n", "\r\n\r\n") },
	func(r *rand.Rand, s string) string { return replaceOne(r, s, ":", " :") },
	func(r *rand.Rand, s string) string { return replaceOne(r, s, ": ", ":\v") },
	func(r *rand.Rand, s string) string { return replaceOne(r, s, "HTTP/1.1", "HTTP/1.0") },
	func(r *rand.Rand, s string) string { // an extra byte
		i := r.IntN(len(s) + 1)
		return s[:i] + string(" \t\v\x00\r\n;,:\x80-+0f"[r.IntN(14)]) + s[i:]
	},
	func(r *rand.Rand, s string) string { // one byte fewer
		i := r.IntN(len(s))
		return s[:i] + s[i+1:]
	},
	func(r *rand.Rand, s string) string { // a duplicated line
		lines := strings.SplitAfter(s, "\r\n")
		i := r.IntN(len(lines))
		return strings.Join(lines[:i+1], "") + strings.Join(lines[i:], "")
	},
	func(r *rand.Rand, s string) string { // two lines swapped
		lines := strings.SplitAfter(s, "\r\n")
		if i := r.IntN(len(lines)); i > 0 {
			lines[i-1], lines[i] = lines[i], lines[i-1]
		}
		return strings.Join(lines, "")
	},
	func(r *rand.Rand, s string) string { // an extra header field
		field := []string{"Content-Length: 5", "Content-Length: 0", "Transfer-Encoding: chunked",
			"Transfer-Encoding: identity", "transfer-encoding:\tchunked", "Transfer-Encoding: x, chunked",
			"Content-Length: 5, 5", "Content-Length: +5", "Expect: 100-continue", "Connection: close, Content-Length",
			"Connection: Transfer-Encoding", "Upgrade: h2c", "Host: other.test"}
		return replaceOne(r, s, "\r\n", "\r\n"+field[r.IntN(len(field))]+"\r\n")
	},
}

// replaceOne replaces one occurrence of the string old, if there is any.
func replaceOne(r *rand.Rand, s, old, new string) string {
	n := strings.Count(s, old)
	if n == 0 {
		return s
	}
	parts := strings.SplitN(s, old, r.IntN(n)+2)
	last := len(parts) - 1
	return strings.Join(parts[:last], old) + new + parts[last]
}

// request returns a request without a body, or the head of one.
func request(line string, lines ...string) string {
	return line + "\r\nHost: edge.test\r\nX-Request-Id: first\r\n" + strings.Join(append(lines, ""), "\r\n") + "\r\n"
}

// get returns an HTTP/1.1 request with additional header lines.
func get(lines ...string) string { return request("GET "+Path+" HTTP/1.1", lines...) }

// old returns an HTTP/1.0 request.
func old(lines ...string) string { return request("GET "+Path+" HTTP/1.0", lines...) }

// bare returns a head that consists only of the given lines.
func bare(lines ...string) string { return strings.Join(append(lines, "", ""), "\r\n") }

// sized returns a head of n bytes.
func sized(n int, lines ...string) string {
	short := len(get(append(lines, "X-Long: ")...))
	return get(append(lines, "X-Long: "+letters(n-short))...)
}

// lined returns a head with n header lines.
func lined(n int, lines ...string) string {
	for i := len(lines) + 2; i < n; i++ {
		lines = append(lines, fmt.Sprintf("X-%d: v", i))
	}
	return get(lines...)
}

// coded returns a request with a chunked body and the given header lines.
func coded(lines ...string) string { return get(lines...) + "5\r\nhello\r\n0\r\n\r\n" }

func letters(n int) string { return strings.Repeat("a", n) }

// next is the following request.
const next = "GET " + Path + " HTTP/1.1\r\nHost: edge.test\r\nX-Request-Id: next\r\n\r\n"
