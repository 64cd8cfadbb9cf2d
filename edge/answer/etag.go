package answer

import (
	"bytes"
	"encoding/binary"

	"github.com/zeebo/xxh3"
)

// digest is 128 bits of a body's XXH3. It is not against forgers: who can
// choose a body is the operator.
type digest [16]byte

func digestOf(body []byte) digest {
	h := xxh3.Hash128(body)
	var d digest
	binary.BigEndian.PutUint64(d[:8], h.Hi)
	binary.BigEndian.PutUint64(d[8:], h.Lo)
	return d
}

const hexDigits = "0123456789abcdef"

// digestDigits is the length of a digest in an ETag.
const digestDigits = 32

// appendETag appends the strong tag of a body in a coding (contract section 8):
// "<digest>", or "<digest>-gzip".
func appendETag(dst []byte, d digest, c coding) []byte {
	dst = append(dst, '"')
	for _, b := range d {
		dst = append(dst, hexDigits[b>>4], hexDigits[b&15])
	}
	if c != identity {
		dst = append(append(dst, '-'), codingNames[c]...)
	}
	return append(dst, '"')
}

// matches reports whether the lines of If-None-Match name the body with the
// given plain tag, by weak comparison and whatever the coding (contract
// section 8). tag is "<digest>" with its quotes. A malformed list matches
// nothing from where it is malformed on.
func matches(lines [][]byte, tag []byte) bool {
	for _, b := range lines {
		for {
			b = bytes.TrimLeft(b, " \t,")
			if len(b) == 0 {
				break
			}
			if b[0] == '*' {
				// It stands alone, or the list is malformed.
				if len(lines) == 1 && len(trimSpace(b[1:])) == 0 {
					return true
				}
				break
			}
			b = bytes.TrimPrefix(b, weakPrefix)
			if len(b) == 0 || b[0] != '"' {
				break
			}
			end := bytes.IndexByte(b[1:], '"')
			if end < 0 {
				break
			}
			opaque := b[1 : 1+end]
			if b = b[end+2:]; sameBody(opaque, tag[1:len(tag)-1]) {
				return true
			}
			if b = trimSpace(b); len(b) > 0 && b[0] != ',' {
				break
			}
		}
	}
	return false
}

var weakPrefix = []byte("W/")

// sameBody reports whether a tag, without its quotes, is the digest alone or
// with one of our codings.
func sameBody(opaque, digits []byte) bool {
	rest, ok := bytes.CutPrefix(opaque, digits[:digestDigits])
	if !ok {
		return false
	}
	if len(rest) == 0 {
		return true
	}
	if rest[0] != '-' {
		return false
	}
	for c := zstdCoding; c < codings; c++ {
		if bytes.Equal(rest[1:], codingNames[c]) {
			return true
		}
	}
	return false
}
