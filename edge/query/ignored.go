package query

import (
	"bytes"
	"slices"

	"example.com/marketdata/artifacts"
)

const (
	// MaxIgnored bounds the value of X-Ignored, in bytes
	// (INTERFACE.md, "Ignored parameters").
	MaxIgnored = 256
	// maxNames is how many names fit into it: each has at least one byte, and
	// all but the last one a comma behind it.
	maxNames = (MaxIgnored + 1) / 2
)

var keyPrefix = []byte(artifacts.KeyPrefix)

// ignore adds the name of a parameter that has no part in the answer to
// q.Ignored, and reports whether it did. Only the names that come first are
// kept: whatever a client sends, a name costs a comparison with eight others at
// most, and the list stays short.
func (q *Query) ignore(name []byte) bool {
	at, found := slices.BinarySearchFunc(q.Ignored, name, bytes.Compare)
	if found || at == maxNames || bytes.Contains(name, keyPrefix) {
		return false
	}
	if len(q.Ignored) == maxNames {
		q.Ignored = q.Ignored[:maxNames-1]
	}
	q.Ignored = slices.Insert(q.Ignored, at, name)
	return true
}

// AppendIgnored appends the value of X-Ignored to dst, which is nothing where
// the header is absent.
func (q *Query) AppendIgnored(dst []byte) []byte {
	room := MaxIgnored
	for i, name := range q.Ignored {
		separator := min(i, 1)
		if room -= separator + escapedLen(name); room < 0 {
			break
		}
		dst = append(dst, ","[:separator]...)
		dst = AppendEscaped(dst, name)
	}
	return dst
}
