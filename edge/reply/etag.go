package reply

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"

	"github.com/zeebo/xxh3"
)

// digest identifies a plain body: 128 bits of XXH3, over the checksums of its rows and what follows
// them (see work.digest), or over all of /global. It need not resist forgery: only the operator
// chooses bodies.
type digest [16]byte

func digestOf(b []byte) digest {
	h := xxh3.Hash128(b)
	var d digest
	binary.BigEndian.PutUint64(d[:8], h.Hi)
	binary.BigEndian.PutUint64(d[8:], h.Lo)
	return d
}

// appendETag appends the strong tag of a body in a coding
// (INTERFACE.md, "Headers"): "<digest>", or "<digest>-gzip".
func appendETag(dst []byte, d digest, c coding) []byte {
	dst = append(dst, '"')
	dst = hex.AppendEncode(dst, d[:])
	if c != identity {
		dst = append(append(dst, '-'), codingNames[c]...)
	}
	return append(dst, '"')
}

// matches reports whether the list of If-Match (strong) or If-None-Match names the body with the given
// tag: by strong comparison, or by weak comparison and ignoring the codings (INTERFACE.md,
// "Conditional requests"). tag is quoted: hexadecimal digits, and the coding behind a hyphen unless it
// is plain. The malformed rest of a list matches nothing.
func matches(list, tag []byte, strong bool) bool {
	digits, _, _ := bytes.Cut(tag[1:len(tag)-1], []byte{'-'})
	if star := trimSpace(list); len(star) == 1 && star[0] == '*' {
		return true
	}
	for {
		var weak bool
		list, weak = bytes.CutPrefix(bytes.TrimLeft(list, " \t,"), weakPrefix)
		if len(list) == 0 || list[0] != '"' {
			return false
		}
		end := bytes.IndexByte(list[1:], '"')
		if end < 0 {
			return false
		}
		if strong && !weak && bytes.Equal(list[:end+2], tag) || !strong && sameBody(list[1:1+end], digits) {
			return true
		}
		list = trimSpace(list[end+2:])
		if len(list) == 0 || list[0] != ',' {
			return false
		}
	}
}

var weakPrefix = []byte("W/")

// sameBody reports whether a tag without its quotes is the digest, alone or with one of our codings.
func sameBody(opaque, digits []byte) bool {
	rest, ok := bytes.CutPrefix(opaque, digits)
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
