package reply

import (
	"bytes"
	"runtime"

	coders "example.com/marketdata/edge/coding"
	"example.com/marketdata/edge/respcache"
)

// coding is a content coding of an answer.
type coding uint8

// The codings. zstd, gzip and br are in order of preference at equal weights.
const (
	identity coding = iota
	zstdCoding
	gzipCoding
	brCoding
	codings = iota
)

var _ = [1]struct{}{}[codings-respcache.Codings]

// codingNames contains the values of Content-Encoding, which are also the suffixes of ETags.
var codingNames = [codings][]byte{zstdCoding: []byte("zstd"), gzipCoding: []byte("gzip"), brCoding: []byte("br")}

// minCoded is the body length in bytes up to which answers are not compressed (INTERFACE.md, "Codings").
const minCoded = 1024

// negotiate chooses the coding for a value of Accept-Encoding, according to RFC 9110 and INTERFACE.md,
// "Codings". The highest weight wins. At equal weights, the order is zstd, gzip, br, identity. The weight
// of identity is 0 unless the header names it. negotiate ignores malformed elements.
func negotiate(list []byte) coding {
	const unnamed = -1
	weights := [codings]int{unnamed, unnamed, unnamed, unnamed}
	rest := unnamed // the weight of "*", which stands for gzip, because clients that send it often decode nothing else
	for more := true; more; {
		var element []byte
		element, list, more = bytes.Cut(list, comma)
		name, weight, ok := parseElement(element)
		if !ok {
			continue
		}
		if len(name) == 1 && name[0] == '*' {
			rest = weight
			continue
		}
		if c, ok := codingOf(name); ok {
			weights[c] = weight
		}
	}
	best, weight := identity, max(weights[identity], 0)
	for c := zstdCoding; c < codings; c++ {
		w := weights[c]
		if w == unnamed && c == gzipCoding {
			w = rest
		}
		// At equal weights a coding beats identity, and an earlier coding beats a later one.
		if w > weight || w == weight && w > 0 && best == identity {
			best, weight = c, w
		}
	}
	return best
}

var (
	comma     = []byte(",")
	semicolon = []byte(";")
)

// parseElement parses "name" or "name;q=0.5", with optional white space. The weight is in thousandths.
func parseElement(b []byte) (name []byte, weight int, ok bool) {
	name, parameter, has := bytes.Cut(b, semicolon)
	name = trimSpace(name)
	if len(name) == 0 {
		return nil, 0, false
	}
	if !has {
		return name, 1000, true
	}
	q := trimSpace(parameter)
	if len(q) < 3 || q[0]|0x20 != 'q' || q[1] != '=' {
		return nil, 0, false
	}
	weight, ok = parseWeight(q[2:])
	return name, weight, ok
}

// parseWeight parses a weight such as 0, 1, 0.999 or 1.000: one digit and up to three decimals.
func parseWeight(b []byte) (int, bool) {
	if len(b) > 5 || b[0] != '0' && b[0] != '1' || len(b) > 1 && b[1] != '.' {
		return 0, false
	}
	w := int(b[0]-'0') * 1000
	for i, scale := 2, 100; i < len(b); i, scale = i+1, scale/10 {
		if b[i] < '0' || b[i] > '9' {
			return 0, false
		}
		w += int(b[i]-'0') * scale
	}
	return w, w <= 1000
}

func trimSpace(b []byte) []byte { return bytes.Trim(b, " \t") }

func codingOf(name []byte) (coding, bool) {
	switch {
	case equalFold(name, "zstd"):
		return zstdCoding, true
	case equalFold(name, "br"):
		return brCoding, true
	case equalFold(name, "gzip"), equalFold(name, "x-gzip"):
		return gzipCoding, true
	case equalFold(name, "identity"):
		return identity, true
	}
	return 0, false
}

// equalFold reports whether b equals lower, a string in lower case, ignoring the case of ASCII letters.
func equalFold(b []byte, lower string) bool {
	if len(b) != len(lower) {
		return false
	}
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

// largeCodings bounds the number of large bodies that are compressed concurrently. Each keeps a core busy for
// a few milliseconds, and other requests need the cores, too.
var largeCodings = make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))

// encode compresses the body into w.coded. For a large body it first waits for its turn, within the time
// budget of the answer.
func (w *work) encode(c coding) error {
	if len(w.finder.Body) > coders.Large {
		if err := w.finder.Budget.Enter(largeCodings); err != nil {
			return err
		}
		defer func() { <-largeCodings }()
	}
	encoders := [codings]func(dst, body []byte) []byte{
		zstdCoding: coders.Zstd, gzipCoding: coders.Gzip, brCoding: coders.Brotli,
	}
	w.coded = encoders[c](w.coded[:0], w.finder.Body)
	return nil
}
