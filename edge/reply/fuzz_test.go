package reply

import (
	"encoding/hex"
	"regexp"
	"strings"
	"testing"

	"example.com/marketdata/internal/model"
)

func FuzzNegotiate(f *testing.F) {
	for _, header := range []string{
		"gzip, deflate, br, zstd", "gzip;q=1.0, *;q=0", "*", "identity;q=0.5, br;q=0.5", "br;q=0.001,gzip; Q=0.002",
		"gzip;q=1.001", "x-gzip", "x-gzip;q=0.", "gzip;q=0.1234",
		"zstd;q=0, *;q=0.3", "gzip;level=1", "gzip;q=1;a=b", " \t,;,;q=1,gz ip,\xff", "gzip,gzip;q=0", "identity",
		"\u212a",
	} {
		f.Add(header)
	}
	f.Fuzz(func(t *testing.T, header string) {
		if strings.ContainsAny(header, "\r\n\x00") { // no header value contains them
			return
		}
		got, want := [...]string{"", "zstd", "gzip", "br"}[negotiate([]byte(header))],
			model.Coding([]string{header}, 1<<20)
		if got != want {
			t.Fatalf("%q: coding %q, want %q", header, got, want)
		}
	})
}

// modelTag matches the next element of If-None-Match.
var modelTag = regexp.MustCompile(`^[ \t,]*(?:W/)?"([^"]*)"[ \t]*(,|$)`)

// modelMatches is a second implementation of INTERFACE.md, "Conditional requests".
func modelMatches(header, digits string) bool {
	if strings.Trim(header, " \t") == "*" {
		return true
	}
	ours := map[string]bool{digits: true, digits + "-gzip": true, digits + "-br": true, digits + "-zstd": true}
	for {
		m := modelTag.FindStringSubmatch(header)
		if m == nil {
			// A tag counts even if the rest of the list is malformed.
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
		"*", " * ", `"` + digits + `"`, `W/"` + digits + `-gzip", "b"`, `"a",,W/"` + digits + `-zstd"`,
		`"a" "` + digits + `"`, `"` + digits + `-deflate"`, `"` + digits,
		`w/"` + digits + `"`, `"a";"` + digits + `"`, `"` + digits + `" x`, `"*"`, `*, "` + digits + `"`, "\t,\"\"",
	} {
		f.Add(header)
	}
	f.Fuzz(func(t *testing.T, header string) {
		if strings.ContainsAny(header, "\r\n\x00") {
			return
		}
		for c := range coding(codings) {
			want := modelMatches(header, digits)
			if got := matches([]byte(header), appendETag(nil, d, c), false); got != want {
				t.Fatalf("%q: %v, want %v", header, got, want)
			}
		}
	})
}
