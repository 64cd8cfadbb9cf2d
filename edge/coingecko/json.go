package coingecko

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"

	"example.com/marketdata/artifacts"
)

// The rows of a snapshot are JSON in a known form. Their strings are escaped as INTERFACE.md, "Envelope"
// describes, so a quoted key never occurs inside a string, and each value that these functions extract is
// valid JSON.

// The keys of members in rows, with the preceding comma.
const (
	slugKey   = `,"slug":`
	nameKey   = `,"name":`
	symbolKey = `,"symbol":`
	logoKey   = `,"logo":` // the figures follow it
	priceKey  = `,"price":`
	capKey    = `,"market_cap":`
	volumeKey = `,"volume":`
	dayKey    = `,"24h":`
)

// after returns the part of row that follows key, or nil if row does not contain key.
func after(row []byte, key string) []byte {
	if i := bytes.Index(row, []byte(key)); i >= 0 {
		return row[i+len(key):]
	}
	return nil
}

// textAt returns the quoted JSON string at the beginning of b, or an empty quoted string if there is none.
func textAt(b []byte) []byte {
	if len(b) == 0 || b[0] != '"' {
		return []byte(`""`)
	}
	for i := 1; ; i++ {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return []byte(`""`)
		}
		i += n
		slashes := 0
		for b[i-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return b[:i+1]
		}
	}
}

// textOf returns the quoted JSON string that follows key.
func textOf(row []byte, key string) []byte { return textAt(after(row, key)) }

// digitsOf returns the decimal or number that follows key, without quotes, or nil if it is null or missing.
func digitsOf(row []byte, key string) []byte { return digitsAt(after(row, key)) }

func digitsAt(b []byte) []byte {
	if len(b) > 0 && b[0] == '"' {
		b = b[1:]
	}
	n := 0
	for n < len(b) && (b[n] >= '0' && b[n] <= '9' || b[n] == '.' || b[n] == '-') {
		n++
	}
	if n == 0 {
		return nil
	}
	return b[:n]
}

// wholeAt returns the whole number at the beginning of b.
func wholeAt(b []byte) (n uint64) {
	for _, d := range digitsAt(b) {
		n = 10*n + uint64(d-'0')
	}
	return n
}

// nextText skips the first byte of b, which is a bracket, brace, comma or colon, and cuts off the JSON string
// that follows it. It returns nil if there is none.
func nextText(b []byte) (text, rest []byte) {
	if len(b) < 2 || b[1] != '"' {
		return nil, b
	}
	text = textAt(b[1:])
	return text, b[1+len(text):]
}

// unescaped returns the text of a JSON string from the snapshot. Few strings contain escapes.
func unescaped(raw []byte) []byte {
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1]
	}
	var text string
	_ = json.Unmarshal(raw, &text) // it is a valid JSON string
	return []byte(text)
}

// isText reports whether the JSON string raw, which comes from the snapshot, represents the string in text.
func isText(raw, text []byte, buf *[]byte) bool {
	if !utf8.Valid(text) {
		return false
	}
	*buf = artifacts.AppendString((*buf)[:0], text)
	return bytes.Equal(raw, *buf)
}
