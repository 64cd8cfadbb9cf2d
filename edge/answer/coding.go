package answer

import (
	"bytes"
	"runtime"
	"sync"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"example.com/marketdata/edge/respcache"
)

// coding is a content coding of an answer.
type coding uint8

// The codings, the one preferred at equal weights first behind identity.
const (
	identity coding = iota
	zstdCoding
	gzipCoding
	brCoding
	codings = iota
)

var _ = [1]struct{}{}[codings-respcache.Codings]

// codingNames are the names of Content-Encoding and of the ends of ETags.
var codingNames = [codings][]byte{zstdCoding: []byte("zstd"), gzipCoding: []byte("gzip"), brCoding: []byte("br")}

// minCoded is the length in bytes above which a body is coded
// (INTERFACE.md, "Codings").
const minCoded = 1024

// negotiate chooses the coding for the value of Accept-Encoding, by RFC 9110
// and INTERFACE.md, "Codings": the highest weight wins; at equal weights zstd, gzip,
// br; an identity that is not named loses to any coding that is accepted. Elements that are malformed count as not there.
func negotiate(list []byte) coding {
	const unnamed = -1
	weights := [codings]int{unnamed, unnamed, unnamed, unnamed}
	rest := unnamed // of "*"
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
		if w == unnamed {
			w = rest
		}
		// At equal weights a coding beats identity, and an earlier one a later.
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

// parseElement reads "name" or "name;q=0.5" with optional white space; the
// weight is in thousandths.
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

// parseWeight reads 0, 1, 0.999 or 1.000: one digit and up to three behind a
// point.
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

// equalFold compares with lower-case ASCII.
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

// One fixed setting per coding, so that equal bodies give equal bytes on every
// edge, cached or not (INTERFACE.md, "Codings").
const (
	gzipLevel   = 6
	brotliLevel = 4
	zstdLevel   = zstd.SpeedDefault
	zstdWindow  = 128 << 10 // nearly every answer is shorter, and items of history resemble their neighbours
)

var (
	zstdEncoder = func() *zstd.Encoder {
		e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstdLevel), zstd.WithWindowSize(zstdWindow), zstd.WithEncoderCRC(false))
		if err != nil {
			panic("BUG: zstd: " + err.Error())
		}
		return e
	}()
	gzipWriters = sync.Pool{New: func() any {
		w, err := gzip.NewWriterLevel(nil, gzipLevel)
		if err != nil {
			panic("BUG: gzip: " + err.Error())
		}
		return w
	}}
	brotliWriters = sync.Pool{New: func() any { return brotli.NewWriterLevel(nil, brotliLevel) }}
)

// largeCodings bounds how many large bodies are coded at once: coding one keeps a core
// for some 10 ms, and requests for all else need another one.
var largeCodings = make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))

// encode appends body in coding c to dst.
func encode(dst []byte, c coding, body []byte) []byte {
	if c != identity && len(body) > zstdWindow {
		largeCodings <- struct{}{}
		defer func() { <-largeCodings }()
	}
	switch c {
	case zstdCoding:
		return zstdEncoder.EncodeAll(body, dst)
	case gzipCoding:
		w := gzipWriters.Get().(*gzip.Writer)
		defer gzipWriters.Put(w)
		sink := appender{dst}
		w.Reset(&sink)
		return finish(w, body, &sink)
	case brCoding:
		w := brotliWriters.Get().(*brotli.Writer)
		defer brotliWriters.Put(w)
		sink := appender{dst}
		w.Reset(&sink)
		return finish(w, body, &sink)
	}
	return append(dst, body...)
}

type appender struct{ b []byte }

func (a *appender) Write(p []byte) (int, error) {
	a.b = append(a.b, p...)
	return len(p), nil
}

func finish(w interface {
	Write([]byte) (int, error)
	Close() error
}, body []byte, sink *appender) []byte {
	if _, err := w.Write(body); err != nil {
		panic("BUG: coding into memory: " + err.Error())
	}
	if err := w.Close(); err != nil {
		panic("BUG: coding into memory: " + err.Error())
	}
	return sink.b
}
