package query

import (
	"bytes"
	"slices"

	"example.com/marketdata/artifacts"
)

const (
	// MaxIgnored is the longest value of X-Ignored, in bytes (INTERFACE.md, "Ignored parameters").
	MaxIgnored = 256
	// maxNames is the largest number of names that fit into X-Ignored. Each has at least one byte, and each
	// but the last is followed by a comma.
	maxNames = (MaxIgnored + 1) / 2
)

var keyPrefix = []byte(artifacts.KeyPrefix)

// Names contains the decoded names of ignored parameters, sorted as bytes, without duplicates. It keeps
// only the first maxNames names, because X-Ignored has no room for more.
type Names [][]byte

// Add adds a name and reports whether it did. It does not add a name that is in the list already, that
// contains the prefix of an API key, or that sorts after all names of a full list. The caller must not
// change the name afterwards. Whatever a client sends, adding a name costs only about eight comparisons,
// and the list stays short.
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

// Append appends the value of X-Ignored to dst. If it appends nothing, the header must be omitted.
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
