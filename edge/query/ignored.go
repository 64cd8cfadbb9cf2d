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

// Names are those of parameters that have no part in an answer, decoded, sorted
// as bytes, without repeats: as many of the first ones as X-Ignored can name.
type Names [][]byte

// Add adds a name, which is kept, and reports whether it did. Only the names that
// come first are kept: whatever a client sends, a name costs a comparison with
// eight others at most, and the list stays short.
func (n *Names) Add(name []byte) bool {
	at, found := slices.BinarySearchFunc(*n, name, bytes.Compare)
	if found || at == maxNames || bytes.Contains(name, keyPrefix) {
		return false
	}
	if len(*n) == maxNames {
		*n = (*n)[:maxNames-1]
	}
	*n = slices.Insert(*n, at, name)
	return true
}

// Append appends the value of X-Ignored to dst, which is nothing where the header
// is absent.
func (n Names) Append(dst []byte) []byte {
	room := MaxIgnored
	for i, name := range n {
		separator := min(i, 1)
		if room -= separator + escapedLen(name); room < 0 {
			break
		}
		dst = append(dst, ","[:separator]...)
		dst = AppendEscaped(dst, name)
	}
	return dst
}
