// Package coding encodes bodies of answers in gzip, br and zstd.
//
// Each coding has one fixed setting, so equal bodies give equal bytes on every edge (INTERFACE.md,
// "Codings"): the fastest whose output is at most 1.10 times that of gzip −6. `make bench-edge CODINGS=1`
// compares them.
package coding

import (
	"sync"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/andybalholm/brotli/matchfinder"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// window is how far back zstd and br refer, in bytes. Nearly every answer is shorter, and items of
// history resemble their neighbours.
const window = 128 << 10

// Large is the length in bytes above which br and gzip encode a body in portions, each followed by a
// pause of the same duration: otherwise a core would not serve the network for some milliseconds.
// zstd takes half as long, and its library would allocate.
const Large = 128 << 10

// portion is some tenths of a millisecond of work. gzip collects two of them.
const portion = 32 << 10

// portions calls code with the portions of a large body in turn, and once with another body.
func portions(body []byte, code func(part []byte, last bool)) {
	if len(body) > Large {
		for len(body) > portion {
			began := time.Now()
			code(body[:portion], false)
			body = body[portion:]
			time.Sleep(time.Since(began))
		}
	}
	code(body, true)
}

var zstdEncoder = func() *zstd.Encoder {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(window),
		zstd.WithEncoderCRC(false))
	if err != nil {
		panic("BUG: zstd: " + err.Error())
	}
	return e
}()

// Zstd appends body in zstd to dst.
func Zstd(dst, body []byte) []byte { return zstdEncoder.EncodeAll(body, dst) }

type gzipCoder struct {
	w   *gzip.Writer
	out appender
}

// appender appends what is written to it.
type appender []byte

func (a *appender) Write(p []byte) (int, error) {
	*a = append(*a, p...)
	return len(p), nil
}

var gzipCoders = sync.Pool{New: func() any {
	w, err := gzip.NewWriterLevel(nil, gzip.BestSpeed)
	if err != nil {
		panic("BUG: gzip: " + err.Error())
	}
	return &gzipCoder{w: w}
}}

// Gzip appends body in gzip to dst.
func Gzip(dst, body []byte) []byte {
	c := gzipCoders.Get().(*gzipCoder)
	defer gzipCoders.Put(c)
	c.out = dst
	c.w.Reset(&c.out)
	portions(body, func(part []byte, last bool) {
		_, err := c.w.Write(part)
		if err == nil && last {
			err = c.w.Close()
		}
		if err != nil {
			panic("BUG: coding into memory: " + err.Error())
		}
	})
	dst, c.out = c.out, nil
	return dst
}

// brCoder uses the library's newer encoder at level 1: the older one's levels 0 and 1 take as long for
// more bytes, and its others longer.
type brCoder struct {
	matchfinder.ZFast
	brotli.Encoder
	matches []matchfinder.Match
}

var brCoders = sync.Pool{New: func() any { return &brCoder{ZFast: matchfinder.ZFast{MaxDistance: window}} }}

// Brotli appends body in br to dst.
func Brotli(dst, body []byte) []byte {
	c := brCoders.Get().(*brCoder)
	defer brCoders.Put(c)
	c.ZFast.Reset()
	c.Encoder.Reset()
	portions(body, func(part []byte, last bool) {
		c.matches = c.FindMatches(c.matches[:0], part)
		dst = c.Encode(dst, part, c.matches, last)
	})
	return dst
}
