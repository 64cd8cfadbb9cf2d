package gen

import (
	"strings"

	"pgregory.net/rapid"
)

// AcceptEncodings generates the Accept-Encoding headers of a request: none, one or two.
func AcceptEncodings() *rapid.Generator[[]string] {
	return rapid.Custom(func(t *rapid.T) []string {
		d := draw{t}
		if d.chance(15) {
			return []string{pick(d, []string{"", ",", "gzip,,br", " gzip ; q=0.5 , br;q=0.25 ", "x-unknown",
				"gzip;q=0.000, *;q=0.001", "identity;q=0, *;q=0", "gzip\t;\tq=1.000"})}
		}
		// Each coding appears once, because the result of a repeated one is undefined.
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

// Conditions contains the conditional headers of a request from a client that already has an answer
// with an entity tag and a time.
type Conditions struct {
	IfMatch, IfNoneMatch               []string
	IfUnmodifiedSince, IfModifiedSince string
	Status                             int // the status that replaces a 200: 304, 412, or 0 for none
}

// ConditionsOn generates conditions for an answer. tag is its entity tag without the suffix of a
// coding, modified is its time of modification, and coding is the coding of the answer to the
// request, or "" for none.
func ConditionsOn(tag, modified, coding string) *rapid.Generator[Conditions] {
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
				c.IfNoneMatch, c.Status = []string{held}, 304
			case 1:
				c.IfNoneMatch = []string{other}
			case 2:
				c.IfNoneMatch, c.Status = []string{"*"}, 304
			case 3:
				c.IfNoneMatch, c.Status = []string{`"x", ` + held + `,"y"`}, 304
			case 4:
				c.IfNoneMatch, c.Status = []string{`"x",W/"y" ,` + held}, 304
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
			if len(c.IfNoneMatch) == 0 && c.IfModifiedSince == modified { // If-None-Match takes precedence.
				c.Status = 304
			}
		}
		// RFC 9110, section 13.2.2: these conditions come first, and use strong comparison.
		strong, other := tag, `"`+opaque+`-gzip"`
		if coding != "" {
			strong, other = `"`+opaque+"-"+coding+`"`, tag
		}
		if d.chance(20) {
			c.IfMatch = []string{pick(d, []string{strong, "*", `W/"y", "x,", ` + strong})}
		} else if d.chance(10) {
			c.IfMatch, c.Status = []string{pick(d, []string{"W/" + strong, `"x"`, opaque, other})}, 412
		}
		if d.chance(20) {
			c.IfUnmodifiedSince = pick(d, []string{modified, "Fri, 31 Dec 2100 00:00:00 GMT", "yesterday"})
		} else if d.chance(10) {
			c.IfUnmodifiedSince = pick(d, []string{"Thu, 01 Jan 1970 00:00:00 GMT", "Thu Jan  1 00:00:00 1970"})
			if len(c.IfMatch) == 0 && modified != "" {
				c.Status = 412
			}
		}
		return c
	})
}
