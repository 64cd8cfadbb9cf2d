package server

import "testing"

// FuzzForwarded checks that parseForwarded returns a valid address or none, and that mask accepts the
// address.
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
