package answer

import (
	"encoding/hex"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// modelElement is an element of Accept-Encoding that is well formed.
var modelElement = regexp.MustCompile(`^[ \t]*([^;]*[^; \t])[ \t]*(?:;[ \t]*[qQ]=(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)[ \t]*)?$`)

// modelNegotiate is INTERFACE.md, "Codings", read once more.
func modelNegotiate(header string) coding {
	weights := map[string]float64{}
	for element := range strings.SplitSeq(header, ",") {
		m := modelElement.FindStringSubmatch(element)
		if m == nil {
			continue
		}
		name, weight := strings.ToLower(m[1]), 1.0
		if name == "x-gzip" {
			name = "gzip"
		}
		if m[2] != "" {
			weight, _ = strconv.ParseFloat(strings.TrimSuffix(m[2], "."), 64) // the pattern leaves no errors
		}
		weights[name] = weight
	}
	best, highest := identity, 0.0
	for i, name := range []string{"zstd", "gzip", "br"} {
		weight, named := weights[name]
		if !named {
			weight = weights["*"]
		}
		if weight > highest {
			best, highest = coding(i+1), weight
		}
	}
	if weights["identity"] > highest {
		return identity
	}
	return best
}

func FuzzNegotiate(f *testing.F) {
	for _, header := range []string{
		"gzip, deflate, br, zstd", "gzip;q=1.0, *;q=0", "*", "identity;q=0.5, br;q=0.5", "br;q=0.001,gzip; Q=0.002", "gzip;q=1.001", "x-gzip;q=0.", "gzip;q=0.1234",
		"zstd;q=0, *;q=0.3", "gzip;level=1", "gzip;q=1;a=b", " \t,;,;q=1,gz ip,\xff", "gzip,gzip;q=0", "identity", "\u212a",
	} {
		f.Add(header)
	}
	f.Fuzz(func(t *testing.T, header string) {
		// Header values have no other white space, and names are ASCII.
		if strings.ContainsAny(header, "\r\n\x00") || strings.ToLower(header) != asciiLower(header) {
			return
		}
		if got, want := negotiate([]byte(header)), modelNegotiate(header); got != want {
			t.Fatalf("%q: coding %d, want %d", header, got, want)
		}
	})
}

func asciiLower(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}

// modelTag is the next element of If-None-Match.
var modelTag = regexp.MustCompile(`^[ \t,]*(?:W/)?"([^"]*)"[ \t]*(,|$)`)

// modelMatches is INTERFACE.md, "Conditional requests", read once more.
func modelMatches(header, digits string) bool {
	if strings.Trim(header, " \t") == "*" {
		return true
	}
	ours := map[string]bool{digits: true, digits + "-gzip": true, digits + "-br": true, digits + "-zstd": true}
	for {
		m := modelTag.FindStringSubmatch(header)
		if m == nil {
			// A tag counts although what follows it is malformed.
			cut := regexp.MustCompile(`^[ \t,]*(?:W/)?"([^"]*)"`).FindStringSubmatch(header)
			return cut != nil && ours[cut[1]]
		}
		if ours[m[1]] {
			return true
		}
		header = header[len(m[0]):]
	}
}

func FuzzMatches(f *testing.F) {
	d := digest{0x12, 0xab}
	digits := hex.EncodeToString(d[:])
	for _, header := range []string{
		"*", " * ", `"` + digits + `"`, `W/"` + digits + `-gzip", "b"`, `"a",,W/"` + digits + `-zstd"`, `"a" "` + digits + `"`, `"` + digits + `-deflate"`, `"` + digits,
		`w/"` + digits + `"`, `"a";"` + digits + `"`, `"` + digits + `" x`, `"*"`, `*, "` + digits + `"`, "\t,\"\"",
	} {
		f.Add(header)
	}
	f.Fuzz(func(t *testing.T, header string) {
		if strings.ContainsAny(header, "\r\n\x00") {
			return
		}
		for c := range coding(codings) {
			if got, want := Matches([]byte(header), appendETag(nil, d, c)), modelMatches(header, digits); got != want {
				t.Fatalf("%q: %v, want %v", header, got, want)
			}
		}
	})
}
