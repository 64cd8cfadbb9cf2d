// Package coding compresses the bodies of answers with gzip, brotli and zstd.
//
// Each coding has one fixed setting, so equal bodies compress to equal bytes on every edge (INTERFACE.md,
// "Codings"). It is the fastest setting whose output is at most 1.10 times as long as the output of gzip -6.
// edge/CODINGS.md compares the settings.
package coding

import (
	"sync"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/andybalholm/brotli/matchfinder"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// window is the distance over which zstd and brotli find repetitions, in bytes. Nearly every answer is
// shorter, and neighboring history items resemble each other.
const window = 128 << 10

// Large is the length in bytes above which brotli and gzip compress a body in portions. After each portion
// the goroutine sleeps as long as the portion took, since it would otherwise keep a core from serving the
// network for several milliseconds. zstd compresses every body in one piece, because it takes half as long,
// and because compressing in portions would make its library allocate.
const Large = 128 << 10

// portion is the length of one portion in bytes. Compressing it takes a few tenths of a millisecond. gzip collects
// two portions before it compresses them.
const portion = 32 << 10

// portions calls compress with each portion of a large body in turn. It passes any other body in one piece.
func portions(body []byte, compress func(part []byte, last bool)) {
	if len(body) > Large {
		for len(body) > portion {
			began := time.Now()
			compress(body[:portion], false)
			body = body[portion:]
			time.Sleep(time.Since(began))
		}
	}
	compress(body, true)
}

var zstdEncoder = func() *zstd.Encoder {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(window),
		zstd.WithEncoderCRC(false))
	if err != nil {
		panic("BUG: zstd: " + err.Error())
	}
	return e
}()

// Zstd appends body, compressed with zstd, to dst.
func Zstd(dst, body []byte) []byte { return zstdEncoder.EncodeAll(body, dst) }

type gzipCoder struct {
	w   *gzip.Writer
	out appender
}

// appender is an io.Writer that appends to a slice.
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

// Gzip appends body, compressed with gzip, to dst.
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

// brCoder uses the library's newer encoder at level 1. Levels 0 and 1 of the older encoder take as long and
// produce more bytes; its other levels take longer.
type brCoder struct {
	matchfinder.ZFast
	brotli.Encoder
	matches []matchfinder.Match
}

var brCoders = sync.Pool{New: func() any { return &brCoder{ZFast: matchfinder.ZFast{MaxDistance: window}} }}

// Brotli appends body, compressed with brotli, to dst.
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
