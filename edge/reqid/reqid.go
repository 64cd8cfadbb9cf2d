// Package reqid generates and checks the values of X-Request-Id (INTERFACE.md, "Request ids"), and parses the
// values of traceparent. An edge keeps the id that a client sends if it is safe in a header and in a log
// line.
package reqid

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
)

const (
	// maxLength is the length of the longest client id that an edge keeps, in bytes.
	maxLength = 128
	// Length is the length of a generated id, in bytes.
	Length = 32
)

// Valid reports whether an edge keeps an id that a client sends. The id must consist of 1 to maxLength
// characters from A-Z a-z 0-9 . _ : = + / -.
func Valid(id []byte) bool {
	if len(id) < 1 || len(id) > maxLength {
		return false
	}
	for _, c := range id {
		if !allowed[c] {
			return false
		}
	}
	return true
}

var allowed = func() (set [256]bool) {
	for _, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:=+/-") {
		set[c] = true
	}
	return set
}()

// Append appends a new id to dst. It consists of 128 random bits as 32 hexadecimal digits, so it is unique
// across edges and restarts. Append takes no lock and makes no system call, because the runtime has a ChaCha8
// generator for each thread.
func Append(dst []byte) []byte {
	var bits [Length / 2]byte
	binary.NativeEndian.PutUint64(bits[:8], rand.Uint64())
	binary.NativeEndian.PutUint64(bits[8:], rand.Uint64())
	return hex.AppendEncode(dst, bits[:])
}

// TraceID returns the trace id in a value of traceparent (W3C Trace Context): 32 lower-case hexadecimal
// digits, which are a subslice of value. It returns nil if value is invalid. For later versions of the
// format, it reads only the fields of version 00.
func TraceID(value []byte) []byte {
	const form = "00-00000000000000000000000000000000-0000000000000000-00"
	if len(value) < len(form) || string(value[:2]) == "ff" ||
		len(value) > len(form) && (string(value[:2]) == form[:2] || value[len(form)] != '-') {
		return nil
	}
	for i, c := range []byte(form) {
		if b := value[i]; c == '-' && b != '-' || c == '0' && !(b >= '0' && b <= '9' || b >= 'a' && b <= 'f') {
			return nil
		}
	}
	id, parent := value[3:35], value[36:52]
	if string(id) == form[3:35] || string(parent) == form[36:52] {
		return nil
	}
	return id
}
