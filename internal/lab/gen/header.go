package gen

import (
	"strings"

	"pgregory.net/rapid"
)

// AcceptEncodings generates the Accept-Encoding lines of a request: none, one or two.
func AcceptEncodings() *rapid.Generator[[]string] {
	return rapid.Custom(func(t *rapid.T) []string {
		d := draw{t}
		if d.chance(15) {
			return []string{pick(d, []string{"", ",", "gzip,,br", " gzip ; q=0.5 , br;q=0.25 ", "x-unknown",
				"gzip;q=0.000, *;q=0.001", "identity;q=0, *;q=0", "gzip\t;\tq=1.000"})}
		}
		// A coding named twice means nothing.
		names := rapid.Permutation([]string{"gzip", "br", "zstd", "*", "identity", "deflate"}).Draw(t, "")
		var lines []string
		for range d.upTo(2) {
			var elements []string
			for range d.between(1, 3) {
				name := pick(d, []string{names[0], names[0], strings.ToUpper(names[0])})
				elements = append(elements,
					name+pick(d, []string{"", ";q=0.5", ";q=0", ";q=1", ";q=0.8", ";Q=0.25", " ; q=0.001", ";q=0.75"}))
				names = names[1:]
			}
			lines = append(lines, strings.Join(elements, pick(d, []string{", ", ",", " , "})))
		}
		return lines
	})
}

// Conditions are the conditional headers of a request, for a client that holds an answer with a tag
// and a time.
type Conditions struct {
	IfNoneMatch     []string
	IfModifiedSince string
	NotModified     bool // what follows from them, for whoever has that answer
}

// ConditionsOn generates conditions for an answer with an entity tag, without a coding's suffix,
// and a time of modification.
func ConditionsOn(tag, modified string) *rapid.Generator[Conditions] {
	return rapid.Custom(func(t *rapid.T) Conditions {
		d := draw{t}
		var c Conditions
		opaque := strings.Trim(tag, `"`)
		if d.chance(70) {
			held := pick(
				d, []string{tag, "W/" + tag, `"` + opaque + `-gzip"`, `"` + opaque + `-br"`, `W/"` + opaque + `-zstd"`})
			other := pick(d, []string{`"x"`, `""`, `W/"` + opaque + `x"`, opaque, `"` + strings.ToUpper(opaque) + `X"`,
				`"a,b"`, `"` + opaque + `-lzma"`})
			switch d.upTo(5) {
			case 0:
				c.IfNoneMatch, c.NotModified = []string{held}, true
			case 1:
				c.IfNoneMatch = []string{other}
			case 2:
				c.IfNoneMatch, c.NotModified = []string{"*"}, true
			case 3:
				c.IfNoneMatch, c.NotModified = []string{`"x", ` + held + `,"y"`}, true
			case 4:
				c.IfNoneMatch, c.NotModified = []string{`"x",W/"y" ,` + held}, true
			case 5:
				c.IfNoneMatch = []string{`"x" , W/"y"`}
			}
		}
		if d.chance(50) && modified != "" {
			c.IfModifiedSince = modified
			if !d.chance(60) {
				c.IfModifiedSince = pick(
					d, []string{"Thu, 01 Jan 1970 00:00:00 GMT", "Fri, 31 Dec 2100 00:00:00 GMT", "yesterday", "0"})
			}
			if len(c.IfNoneMatch) == 0 { // the other takes precedence
				c.NotModified = c.IfModifiedSince == modified
			}
		}
		return c
	})
}
