package reply

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"

	"github.com/zeebo/xxh3"
)

// digest identifies a body without its coding. It is the 128-bit XXH3 hash of the checksums of the rows and
// the bytes that follow them, or of the whole body (see work.digest). It does not have to resist forgery,
// because only the operator decides what bodies contain.
type digest [16]byte

func digestOf(b []byte) digest {
	h := xxh3.Hash128(b)
	var d digest
	binary.BigEndian.PutUint64(d[:8], h.Hi)
	binary.BigEndian.PutUint64(d[8:], h.Lo)
	return d
}

// appendETag appends the strong tag of a body in a coding, such as "<digest>" or "<digest>-gzip"
// (INTERFACE.md, "Headers").
func appendETag(dst []byte, d digest, c coding) []byte {
	dst = append(dst, '"')
	dst = hex.AppendEncode(dst, d[:])
	if c != identity {
		dst = append(append(dst, '-'), codingNames[c]...)
	}
	return append(dst, '"')
}

// matches reports whether a list of entity tags names the body with the given tag. With strong set, for
// If-Match, it uses strong comparison. Otherwise, for If-None-Match, it uses weak comparison and ignores
// codings (INTERFACE.md, "Conditional requests"). tag is quoted and consists of hexadecimal digits, followed
// by a hyphen and the coding, if any. If the list is malformed, matches ignores the rest of it.
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

// sameBody reports whether a tag without its quotes consists of the digest, alone or with one of our codings.
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
