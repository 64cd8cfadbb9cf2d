package coding

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

var decoders = map[string]struct {
	code   func(dst, body []byte) []byte
	decode func(io.Reader) (io.Reader, error)
}{
	"gzip": {Gzip, func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) }},
	"br":   {Brotli, func(r io.Reader) (io.Reader, error) { return brotli.NewReader(r), nil }},
	"zstd": {Zstd, func(r io.Reader) (io.Reader, error) { return zstd.NewReader(r, zstd.WithDecoderConcurrency(1)) }},
}

// FuzzCodings checks that compressed bodies decode to the body, that the bytes depend only on the body and
// not on earlier bodies, and that they are appended to dst.
func FuzzCodings(f *testing.F) {
	rnd := rand.New(rand.NewPCG(1, 1))
	random := make([]byte, 100<<10)
	for i := range random {
		random[i] = byte(rnd.Uint32())
	}
	var rows []byte
	for i := range 5000 {
		rows = fmt.Appendf(rows, `{"id":%d,"name":"Coin %d","price":"%d.%d"},`, i, i%40, rnd.Uint32()>>rnd.IntN(30),
			rnd.Uint32())
	}
	for _, body := range [][]byte{
		{0}, []byte("ab"), []byte("abcabcabcabcabcabc"), random[:1000], random, rows[:1025], rows[:6000], rows,
		bytes.Repeat([]byte("a"), 5000), bytes.Repeat([]byte("ab"), 1000), append(bytes.Clone(random), random...),
		append(append(bytes.Clone(rows[:300]), random[:32<<10]...), rows[:300]...),
	} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if len(body) == 0 {
			return // empty bodies are never compressed
		}
		for name, c := range decoders {
			coded := c.code(nil, body)
			r, err := c.decode(bytes.NewReader(coded))
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, body) {
				t.Fatalf("%s: %d bytes for %d, %v", name, len(got), len(body), err)
			}
			c.code(nil, rows[:6000])
			if again := c.code([]byte("before"), body); string(again) != "before"+string(coded) {
				t.Fatalf("%s: a body was coded in two ways", name)
			}
		}
	})
}
