package gecko

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// The rows of a snapshot are JSON of a known form: texts are escaped as INTERFACE.md, "Envelope"
// says, so a key with its quotes stands nowhere in a text. What is cut out here is JSON again.

// after returns what stands in row behind key, `,"name":`, and row if it is not there.
func after(row []byte, key string) []byte {
	if i := bytes.Index(row, []byte(key)); i >= 0 {
		return row[i+len(key):]
	}
	return nil
}

// textAt returns the JSON string that b begins with, with its quotes; "" if there is none.
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

// text returns the JSON string behind key, with its quotes.
func textOf(row []byte, key string) []byte { return textAt(after(row, key)) }

// digitsOf returns the decimal or number behind key, without quotes; nil: it is null or missing.
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

// elementsAt calls do for each element of the array of texts that b begins with.
func elementsAt(b []byte, do func(text []byte)) {
	for len(b) > 1 && b[0] != ']' && b[1] == '"' {
		text := textAt(b[1:])
		do(text)
		b = b[1+len(text):]
	}
}

// appendText appends text as a JSON string, escaped as the snapshot's are. Text that is not valid
// UTF-8 stands in no snapshot.
func appendText(dst, text []byte) []byte {
	dst = append(dst, '"')
	for _, c := range text {
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c >= ' ':
			dst = append(dst, c)
		default:
			const short, digits = "btn\x00fr", "0123456789abcdef"
			if c >= '\b' && c <= '\r' && c != '\v' {
				dst = append(dst, '\\', short[c-'\b'])
			} else {
				dst = append(dst, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
			}
		}
	}
	return append(dst, '"')
}

// unescaped returns the text of a JSON string of the snapshot. Few have escapes.
func unescaped(raw []byte) []byte {
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1]
	}
	var text string
	_ = json.Unmarshal(raw, &text) // it is one
	return []byte(text)
}

// isText reports whether raw, a JSON string of the snapshot, is text.
func isText(raw, text []byte, buf *[]byte) bool {
	if !utf8.Valid(text) {
		return false
	}
	*buf = appendText((*buf)[:0], text)
	return bytes.Equal(raw, *buf)
}
