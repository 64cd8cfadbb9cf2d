package server

import (
	"regexp"
	"testing"
	"time"
)

var pinForm = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$`)

// FuzzTime: a pin is read exactly as the standard library reads its form.
func FuzzTime(f *testing.F) {
	for _, s := range []string{"2026-11-21T12:10:00Z", "2024-02-29T00:00:00Z", "2023-02-29T00:00:00Z",
		"0000-01-01T00:00:00Z", "2026-11-21T24:00:00Z", "2026-11-21T12:10:00.5Z", ""} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		got, ok := parseTime(b)
		want, err := time.Parse("2006-01-02T15:04:05Z", string(b))
		wantOK := err == nil && pinForm.Match(b) && len(b) == len("2006-01-02T15:04:05Z")
		if ok != wantOK || ok && !got.Equal(want) {
			t.Errorf("%q: %v %v, want %v %v", b, got, ok, want, wantOK)
		}
	})
}

// FuzzForwarded: what is read as an address is one, and masks to less than it.
func FuzzForwarded(f *testing.F) {
	for _, s := range []string{"192.0.2.1", "192.0.2.1:80", "[2001:db8::1]:443", "::ffff:1.2.3.4", "fe80::1%eth0",
		"unknown", "[", "[]:", "192.0.2.1:9999999999999999999", "[::1]:65536", "1.2.3.9999999999999999999"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		addr, ok := parseForwarded(b)
		if ok != addr.IsValid() || ok && (addr.Zone() != "" || addr.Is4In6() || mask(addr) == "unknown") {
			t.Errorf("%q: %v", b, addr)
		}
	})
}
