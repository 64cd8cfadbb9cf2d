package rawhttp

import (
	"fmt"
	"slices"
	"strings"
)

// table holds the requests of one area.
type table struct {
	area, rule string
	taken      []entry // answered, and so is the request after it; 200 by default
	last       []entry // answered, after which the connection is closed
	refused    []entry // invalid requests: 400 by default, and the connection is closed
	late       []entry // never completed: 408, and the connection is closed
	open       []entry // cases for which the interface does not define the answer
}

var (
	s204, s404, s405, s413, s431 = []int{204}, []int{404}, []int{405}, []int{413}, []int{431}
)

var tables = []table{
	{
		area: "methods", rule: "a method is a token; GET and HEAD, OPTIONS anywhere, else 405",
		taken: []entry{
			{"GET", get(), nil},
			{"HEAD", request("HEAD " + Path + " HTTP/1.1"), nil},
			{"HEAD elsewhere", request("HEAD /x HTTP/1.1"), s404},
			{"OPTIONS", request("OPTIONS " + Path + " HTTP/1.1"), s204},
			{"OPTIONS *", request("OPTIONS * HTTP/1.1"), s204},
			{"POST", request("POST "+Path+" HTTP/1.1", "Content-Length: 0"), s405},
			{"DELETE without a length", request("DELETE " + Path + " HTTP/1.1"), s405},
			{"one of its own", request("PURGE " + Path + " HTTP/1.1"), s405},
			{"lower case", request("get " + Path + " HTTP/1.1"), s405},
		},
		last: []entry{
			{"POST with a body", request("POST "+Path+" HTTP/1.1", "Content-Length: 5") + "hello", s405},
			{"POST in chunks", request("POST "+Path+" HTTP/1.1", "Transfer-Encoding: chunked") + "0\r\n\r\n", s405},
			{"OPTIONS with a body", request("OPTIONS * HTTP/1.1", "Content-Length: 5") + "hello", s413},
		},
		refused: []entry{
			{"no token", request("G@T " + Path + " HTTP/1.1"), nil},
			{"none", request(" " + Path + " HTTP/1.1"), nil},
			{"NUL", request("GE\x00T " + Path + " HTTP/1.1"), nil},
			{"not ASCII", request("G\xc3\x89T " + Path + " HTTP/1.1"), nil},
			{"alone", bare("GET"), nil},
			{"binary", bare("\x00\x01\x02"), nil},
		},
		open: []entry{{"CONNECT", request("CONNECT edge.test:443 HTTP/1.1"), nil},
			{"GET *", request("GET * HTTP/1.1"), nil}, {"very long", request(letters(2000) + " / HTTP/1.1"), nil}},
	},
	{
		area: "versions", rule: "HTTP/1.0 and HTTP/1.1 and no other major",
		taken: []entry{{"1.0, kept", old("Connection: keep-alive"), nil}},
		last:  []entry{{"1.0", old(), nil}, {"1.0 without Host", bare("GET " + Path + " HTTP/1.0"), nil}},
		refused: []entry{
			{"none", request("GET " + Path), nil},
			{"0.9", request("GET " + Path + " HTTP/0.9"), nil},
			{"2.0", request("GET " + Path + " HTTP/2.0"), nil},
			{"9.9", request("GET " + Path + " HTTP/9.9"), nil},
			{"preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", nil},
			{"lower case", request("GET " + Path + " http/1.1"), nil},
			{"other protocol", request("GET " + Path + " HTCPCP/1.0"), nil},
			{"no minor", request("GET " + Path + " HTTP/1"), nil},
			{"blank after it", request("GET " + Path + " HTTP/1.1 "), nil},
			{"tabs between", request("GET\t" + Path + "\tHTTP/1.1"), nil},
		},
		open: []entry{
			{"1.2", request("GET " + Path + " HTTP/1.2"), nil}, {"1.10", request("GET " + Path + " HTTP/1.10"), nil}},
	},
	{
		area: "targets", rule: "a path, or the absolute form; visible ASCII",
		taken: []entry{
			{"query", request("GET " + Path + "?page=1&x=%zz HTTP/1.1"), nil},
			{"URL in the query", request("GET " + Path + "?x=http://a/b HTTP/1.1"), nil},
			{"absolute", request("GET http://other.test" + Path + " HTTP/1.1"), nil},
			{"absolute, TLS", request("GET HTTPS://other.test:443" + Path + "?page=2 HTTP/1.1"), nil},
			{"other path", request("GET /x HTTP/1.1"), s404},
			{"escaped letter", request("GET /openapi/v1/%61ssets HTTP/1.1"), s404},
			{"dots", request("GET /x/../openapi/v1/assets HTTP/1.1"), s404},
			{"slashes", request("GET /" + Path + " HTTP/1.1"), s404},
		},
		refused: []entry{
			{"none", request("GET  HTTP/1.1"), nil},
			{"relative", request("GET openapi HTTP/1.1"), nil},
			{"blank", request("GET /a b HTTP/1.1"), nil},
			{"control byte", request("GET /\x01 HTTP/1.1"), nil},
			{"NUL", request("GET " + Path + "?\x00 HTTP/1.1"), nil},
			{"DEL", request("GET /\x7f HTTP/1.1"), nil},
			{"CR", request("GET /\r HTTP/1.1"), nil},
			{"tab", request("GET /a\tb HTTP/1.1"), nil},
			{"not ASCII", request("GET /caf\xc3\xa9 HTTP/1.1"), nil},
			{"not ASCII in the query", request("GET " + Path + "?slug=caf\xc3\xa9 HTTP/1.1"), nil},
			{"high bytes", request("GET /\xff\xfe HTTP/1.1"), nil},
			{"0x80", request("GET " + Path + "?\x80 HTTP/1.1"), nil},
		},
		open: []entry{
			{"fragment", request("GET " + Path + "#x HTTP/1.1"), nil},
			{"other scheme", request("GET ftp://a/b HTTP/1.1"), nil},
			{"authority", request("GET edge.test:80 HTTP/1.1"), nil},
		},
	},
	{
		area: "hosts", rule: "one Host in HTTP/1.1, at most one in HTTP/1.0",
		taken: []entry{
			{"port", bare("GET "+Path+" HTTP/1.1", "Host: edge.test:8080"), nil},
			{"IPv6", bare("GET "+Path+" HTTP/1.1", "host: [::1]:80"), nil},
			{"last", bare("GET "+Path+" HTTP/1.1", "X-A: b", "HOST: edge.test"), nil},
		},
		refused: []entry{
			{"none", bare("GET "+Path+" HTTP/1.1", "X-A: b"), nil},
			{"no headers", bare("GET " + Path + " HTTP/1.1"), nil},
			{"two", get("Host: other.test"), nil},
			{"two alike", get("host: edge.test"), nil},
			{"two in HTTP/1.0", old("Host: other.test"), nil},
			{"blank within", bare("GET "+Path+" HTTP/1.1", "Host: a b"), nil},
			{"none, absolute", bare("GET http://other.test" + Path + " HTTP/1.1"), nil},
		},
		open: []entry{
			{"empty", bare("GET "+Path+" HTTP/1.1", "Host:"), nil},
			{"list", bare("GET "+Path+" HTTP/1.1", "Host: a,b"), nil}, {"slash", bare(
				"GET "+Path+" HTTP/1.1", "Host: a/b"), nil}, {"user", bare("GET "+Path+" HTTP/1.1", "Host: u@a"), nil}},
	},
	{
		area: "lines", rule: "lines end in CR LF, have a name and a colon, no blank before it, no continuation, no CR, LF or NUL within",
		taken: []entry{
			{"no blank after the colon", get("X-A:b"), nil},
			{"blanks around", get("X-A: \t b \t "), nil},
			{"empty value", get("X-A:", "X-B: "), nil},
			{"colons", get("X-A: b:c: d"), nil},
			{"tab within", get("X-A: b\tc"), nil},
			{"not ASCII", get("X-A: caf\xc3\xa9"), nil},
			{"long name", get("X-" + letters(1000) + ": b"), nil},
			{"odd token", get("!#$%&'*+-.^_`|~9: b"), nil},
			{"one twice", get("X-A: b", "X-A: c"), nil},
		},
		refused: []entry{
			{"no colon", get("X-A"), nil},
			{"blank before the colon", get("X-A : b"), nil},
			{"tab before the colon", get("X-A\t: b"), nil},
			{"blank before the colon of a length", get("Content-Length : 5") + "hello", nil},
			{"no name", get(": b"), nil},
			{"blank in the name", get("X A: b"), nil},
			{"NUL in the name", get("X\x00A: b"), nil},
			{"high byte in the name", get("X-\xc3\xa9: b"), nil},
			{"parenthesis in the name", get("X(A): b"), nil},
			{"NUL in a value", get("X-A: a\x00b"), nil},
			{"CR in a value", get("X-A: a\rb"), nil},
			{"CR CR LF", get("X-A: a\r"), nil},
			{"folded", get("X-A: a\r\n b"), nil},
			{"folded with a tab", get("Content-Length:\r\n\t5") + "hello", nil},
			{"folded first", "GET " + Path + " HTTP/1.1\r\n Host: edge.test\r\n\r\n", nil},
			{"blank line", get("X-A: a\r\n "), nil},
			{"LF", "GET " + Path + " HTTP/1.1\nHost: edge.test\n\n", nil},
			{"LF after the request line", "GET " + Path + " HTTP/1.1\nHost: edge.test\r\n\r\n", nil},
			{"LF between", get("X-A: b\nX-B: c"), nil},
			{"LF before a length", get("X-A: b\nContent-Length: 5") + "hello", nil},
			{"LF before the end", "GET " + Path + " HTTP/1.1\r\nHost: edge.test\n\r\n", nil},
			{"LF at the end", "GET " + Path + " HTTP/1.1\r\nHost: edge.test\r\n\n", nil},
			{"CR between", get("X-A: b\rX-B: c"), nil},
			{"CR at the end", "GET " + Path + " HTTP/1.1\r\nHost: edge.test\r\r", nil},
		},
		open: []entry{
			{"control byte in a value", get("X-A: a\x01b"), nil}, {"DEL in a value", get("X-A: a\x7fb"), nil}},
	},
	{
		area: "head", rule: "32,768 bytes from the first through the empty line, 100 header lines; 431 before any 400",
		taken: []entry{
			{"32,768 bytes", sized(maxHead), nil},
			{"32,768 bytes and an empty line among them", "\r\n" + sized(maxHead-2), nil},
			{"request line of 32,000 bytes", request("GET " + Path + "?" + letters(32000) + " HTTP/1.1"), nil},
			{"100 lines", lined(maxLines), nil},
			{"3,000 bytes", sized(3000), nil},
		},
		refused: []entry{
			{"32,769 bytes", sized(maxHead + 1), s431},
			{"32,769 bytes with the empty line before", "\r\n" + sized(maxHead-1), s431},
			{"32,769 bytes, not HTTP", sized(maxHead+1, "X-A : b"), s431},
			{"request line of 33,000 bytes", request("GET /" + letters(33000) + " HTTP/1.1"), s431},
			{"no end", "GET " + Path + " HTTP/1.1\r\nX-Long: " + letters(33000), s431},
			{"no line", letters(33000), s431},
			{"101 lines", lined(maxLines + 1), s431},
			{"101 lines, not HTTP", lined(maxLines+1, "X-A : b"), s431},
			{"101 lines, no Host",
				bare(append([]string{"GET / HTTP/1.1"}, slices.Repeat([]string{"X-A: b"}, maxLines+1)...)...), s431},
			{"1,000 lines", get(slices.Repeat([]string{"A:b"}, 1000)...), s431},
		},
		late: []entry{{"101 lines, no end", strings.TrimSuffix(lined(maxLines+1), "\r\n"), s431},
			{"100 lines, no end", strings.TrimSuffix(lined(maxLines), "\r\n"), nil}},
	},
	{
		area: "empty lines", rule: "at most one stands before the request line",
		taken: []entry{{"one", "\r\n" + get(), nil},
			{"one before HEAD", "\r\n" + request("HEAD "+Path+" HTTP/1.1"), nil}, {"one after", get() + "\r\n", nil}},
		refused: []entry{
			{"two", "\r\n\r\n" + get(), nil}, {"three", "\r\n\r\n\r\n" + get(), nil}, {"LF", "\n" + get(), nil},
			{"CR", "\r" + get(), nil}, {"blank", " \r\n" + get(), nil},
			{"one, then a blank", "\r\n " + get(), nil}, {"one, then LF", "\r\n\n" + get(), nil},
		},
	},
	{
		area: "lengths", rule: "one Content-Length, digits only; above 0: 413",
		taken: []entry{
			{"0", get("Content-Length: 0"), nil},
			{"0 between blanks", get("content-length: \t0 "), nil},
			{"00", get("Content-Length: 00"), nil},
		},
		refused: []entry{
			{"5", get("content-length: 5") + "hello", s413},
			{"leading zeros", get("Content-Length: 00005") + "hello", s413},
			{"body like a request", get(fmt.Sprintf("Content-Length: %d", len(next))) + next, s413},
			{"half", get("Content-Length: 10") + "hello", s413},
			{"HTTP/1.0, kept", old("Connection: keep-alive", "Content-Length: 5") + "hello", s413},
			{"HEAD", request("HEAD "+Path+" HTTP/1.1", "Content-Length: 5") + "hello", s413},
			{"an expectation", get("Expect: 100-continue", "Content-Length: 5"), s413},
			{"32,768 bytes before a body", sized(maxHead, "Content-Length: 4096") + letters(4096), s413},
			{"18 digits", get("Content-Length: 100000000000000000"), s413},
			{"20 digits", get("Content-Length: 99999999999999999999"), nil},
			{"2^64 + 5", get("Content-Length: 18446744073709551621") + "hello", nil},
			{"plus", get("Content-Length: +5") + "hello", nil},
			{"minus", get("Content-Length: -5") + "hello", nil},
			{"minus zero", get("Content-Length: -0"), nil},
			{"hexadecimal", get("Content-Length: 0x5") + "hello", nil},
			{"letters", get("Content-Length: five") + "hello", nil},
			{"exponent", get("Content-Length: 5e0") + "hello", nil},
			{"point", get("Content-Length: 5.0") + "hello", nil},
			{"underscore", get("Content-Length: 0_5") + "hello", nil},
			{"blank within", get("Content-Length: 5 5") + "hello", nil},
			{"semicolon", get("Content-Length: 5;") + "hello", nil},
			{"empty", get("Content-Length:"), nil},
			{"vertical tab", get("Content-Length: \v5") + "hello", nil},
			{"list", get("Content-Length: 5,5") + "hello", nil},
			{"list with a blank", get("Content-Length: 5, 5") + "hello", nil},
			{"two", get("Content-Length: 5", "Content-Length: 6") + "hello", nil},
			{"two alike", get("Content-Length: 5", "content-length: 5") + "hello", nil},
			{"two of zero", get("Content-Length: 0", "Content-Length: 0"), nil},
			{"two in HTTP/1.0", old("Content-Length: 5", "Content-Length: 5") + "hello", nil},
			{"other digits", get("Content-Length: \xd9\xa5") + "hello", nil},
		},
	},
	{
		area: "codings", rule: "any Transfer-Encoding: 413, unless a Content-Length is wrong",
		taken: []entry{
			{"another field", get("Transfer_Encoding: chunked"), nil},
			{"TE", get("TE: trailers"), nil},
			{"an expectation", get("Expect: 100-continue"), nil},
			{"an unknown expectation", get("Expect: 200-ok"), nil},
		},
		refused: []entry{
			{"chunked", coded("Transfer-Encoding: chunked"), s413},
			{"upper case", coded("TRANSFER-ENCODING: CHUNKED"), s413},
			{"HEAD", request("HEAD "+Path+" HTTP/1.1", "Transfer-Encoding: chunked") + "0\r\n\r\n", s413},
			{"identity", get("Transfer-Encoding: identity"), s413},
			{"empty", coded("Transfer-Encoding:"), s413},
			{"gzip, chunked", coded("Transfer-Encoding: gzip, chunked"), s413},
			{"longer", coded("Transfer-Encoding: xchunked"), s413},
			{"high byte", coded("Transfer-Encoding: \xa0chunked"), s413},
			{"twice", coded("Transfer-Encoding: chunked", "Transfer-Encoding: identity"), s413},
			{"length and chunked", coded("Content-Length: 5", "Transfer-Encoding: chunked"), s413},
			{"chunked and length 0", coded("Transfer-Encoding: chunked", "Content-Length: 0"), s413},
			{"chunked and a bad length", coded("Transfer-Encoding: chunked", "Content-Length: x"), nil},
			{"chunked and two lengths", coded("Transfer-Encoding: chunked", "Content-Length: 5",
				"Content-Length: 5"), nil},
			{"HTTP/1.0", old("Transfer-Encoding: chunked") + "0\r\n\r\n", s413},
			{"HTTP/1.0, kept", old("Connection: keep-alive", "Transfer-Encoding: chunked") + "0\r\n\r\n", s413},
			{"chunks without end", coded("Transfer-Encoding: chunked") + "5", s413},
			{"vertical tab", coded("Transfer-Encoding: \vchunked"), nil},
			{"blank before the colon", coded("Transfer-Encoding : chunked"), nil},
			{"folded", coded("Transfer-Encoding:\r\n chunked"), nil},
			{"behind LF", coded("X-A: b\nTransfer-Encoding: chunked"), nil},
		},
	},
	{
		area: "Connection", rule: "may stand in several lines; close in any of them closes",
		taken: []entry{
			{"keep-alive", get("Connection: keep-alive"), nil},
			{"other tokens", get("Connection: x-a, upgrade", "Upgrade: h2c"), nil},
			{"nearly close", get("Connection: closed, xclose"), nil},
			{"close elsewhere", get("Proxy-Connection: close", "X-Connection: close"), nil},
			{"empty", get("Connection:"), nil},
			{"WebSocket", get("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13"), nil},
			{"HTTP/1.0, keep-alive", old("Connection: Keep-Alive"), nil},
			{"HTTP/1.0, keep-alive and others", old("Connection: x-a, keep-alive"), nil},
			{"HTTP/1.0, keep-alive and another line", old("Connection: keep-alive", "Connection: x-a"), nil},
			{"HTTP/1.0, another line and keep-alive", old("Connection: x-a", "Connection: keep-alive"), nil},
		},
		last: []entry{
			{"close", get("Connection: close"), nil},
			{"close in capitals", get("connection: CLOSE"), nil},
			{"close in a list", get("Connection: x-a,\tClose , x-b"), nil},
			{"close, empty elements", get("Connection: ,,close,,"), nil},
			{"close, then keep-alive", get("Connection: close", "Connection: keep-alive"), nil},
			{"keep-alive, then close", get("Connection: keep-alive", "Connection: close"), nil},
			{"close and others in one", get("Connection: keep-alive, close"), nil},
			{"close in the last of many",
				get(append(slices.Repeat([]string{"Connection: x-a"}, 50), "Connection: close")...), nil},
			{"close in the first of many",
				get(append([]string{"Connection: close"}, slices.Repeat([]string{"Connection: x-a"}, 50)...)...), nil},
			{"close of HEAD", request("HEAD "+Path+" HTTP/1.1", "Connection: close"), nil},
			{"close of POST", request("POST "+Path+" HTTP/1.1", "Connection: close", "Content-Length: 0"), s405},
			{"HTTP/1.0, other tokens", old("Connection: x-a"), nil},
			{"HTTP/1.0, both", old("Connection: keep-alive, close"), nil},
			{"HTTP/1.0, both in lines", old("Connection: keep-alive", "Connection: close"), nil},
		},
	},
	{
		area: "late", rule: "a request that was begun and never completed: 408, and closed",
		late: []entry{
			{"one byte", "G", nil}, {"method", "GET ", nil}, {"half a request line", "GET /openapi", nil}, {
				"request line", "GET / HTTP/1.1\r\n", nil}, {"half a line", "GET / HTTP/1.1\r\nHost: x\r\nX-A: b", nil},
			{"all but the end", "GET / HTTP/1.1\r\nHost: x\r\n", nil}, {"all but the last byte", strings.TrimSuffix(
				get(), "\n"), nil}, {"10,000 bytes", "GET / HTTP/1.1\r\nHost: x\r\nX-A: " + letters(10000), nil},
			{"32,767 bytes", sized(maxHead)[:maxHead-1], nil}, {"behind an empty line", "\r\nGET", nil},
			{"behind another", get() + "GET /", []int{200, 408}},
		},
		open: []entry{{"TLS", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", nil}},
	},
}

// pipelines returns cases that send many requests without waiting for answers. They are answered in
// order, up to the first one that is rejected or closes the connection.
func pipelines() []Case {
	type one struct {
		method, raw string
		status      []int
	}
	marked := func(i int, line string, lines ...string) string {
		return line + "\r\n" + strings.Join(append(
			append([]string{"Host: edge.test", fmt.Sprintf("X-Request-Id: id-%d", i)}, lines...), ""), "\r\n") + "\r\n"
	}
	kinds := []func(i int) one{
		func(i int) one { return one{"GET", marked(i, "GET "+Path+" HTTP/1.1"), []int{200}} },
		func(i int) one { return one{"HEAD", marked(i, "HEAD "+Path+" HTTP/1.1"), []int{200}} },
		func(i int) one {
			return one{"POST", marked(i, "POST "+Path+" HTTP/1.1", "Content-Length: 0"), []int{405}}
		},
		func(i int) one { return one{"GET", "\r\n" + marked(i, "GET /x HTTP/1.1"), []int{404}} },
		func(i int) one { return one{"OPTIONS", marked(i, "OPTIONS * HTTP/1.1"), []int{204}} },
		func(i int) one {
			return one{"GET", marked(i, "GET "+Path+" HTTP/1.0", "Connection: keep-alive"), []int{200}}
		},
		func(i int) one {
			return one{"GET", marked(i, "GET "+Path+" HTTP/1.1", "Expect: 100-continue"), []int{200}}
		},
	}
	var cases []Case
	// pipeline adds a case of n requests. firstKind is the index of the first request's kind; the
	// following kinds take turns. If breakAt is the index of a request, lastRequest replaces that
	// request, and the connection ends there.
	pipeline := func(name string, n, firstKind, breakAt int, lastRequest one) {
		c := Case{Name: "pipelines/" + name}
		for i := range n {
			o := kinds[(firstKind+i)%len(kinds)](i)
			if i == breakAt {
				o = lastRequest
			}
			c.Raw += o.raw
			if c.Closes {
				continue
			}
			c.Status = append(c.Status, o.status...)
			c.Methods = append(c.Methods, o.method)
			c.Closes = i == breakAt
		}
		cases = append(cases, c)
	}
	for n := 2; n <= 20; n += 3 {
		pipeline(fmt.Sprintf("%d of all kinds", n), n, n, -1, one{})
	}
	ends := []struct {
		name string
		one
	}{
		{"close", one{"GET", get("Connection: x-a", "Connection: close"), []int{200}}},
		{"HTTP/1.0", one{"HEAD", request("HEAD " + Path + " HTTP/1.0"), []int{200}}},
		{"not HTTP", one{"GET", get("X-A : b"), []int{400}}},
		{"two lengths", one{"GET", get("Content-Length: 5", "Content-Length: 0") + "hello", []int{400}}},
		{"chunks", one{"GET", coded("Transfer-Encoding: chunked"), []int{413}}},
		{"two empty lines", one{"GET", "\r\n\r\n" + get(), []int{400}}},
		{"a body", one{"GET", get("Content-Length: 4097") + letters(4097), []int{413}}},
		{"101 lines", one{"GET", lined(maxLines + 1), []int{431}}},
		{"a large head", one{"GET", sized(maxHead + 1), []int{431}}},
	}
	for i, e := range ends {
		pipeline(e.name+" in the middle", 6, i, 3, e.one)
		if len(e.raw) < maxHead { // tests take time quadratic in a case's length
			pipeline(e.name+" at the end", 3, i+4, 2, e.one)
		}
	}
	large := func(name string, raws ...string) {
		c := Case{Name: "pipelines/" + name, Raw: strings.Join(raws, "")}
		for range raws {
			c.Status = append(c.Status, 200)
		}
		cases = append(cases, c)
	}
	// A read may end within the following request.
	large("a head of 32,768 bytes in the middle", get(), "\r\n"+sized(maxHead-2), get())
	large("heads of 6,000 bytes", sized(6000), sized(6000), sized(6000))
	return cases
}
