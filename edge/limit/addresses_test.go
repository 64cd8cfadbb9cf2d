package limit

import (
	"encoding/binary"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"example.com/marketdata/internal/test/must"
)

func TestGroup(t *testing.T) {
	for in, want := range map[string]string{
		"192.0.2.7": "192.0.2.7", "::ffff:192.0.2.7": "192.0.2.7", "2001:db8:1:2:3:4:5:6": "2001:db8:1:2::",
		"2001:db8:1:2::":  "2001:db8:1:2::",
		"2001:db8:1:3::1": "2001:db8:1:3::", "fe80::1%eth0": "fe80::",
	} {
		if got := Group(netip.MustParseAddr(in)); got != netip.MustParseAddr(want) {
			t.Errorf("Group(%s) = %s, want %s", in, got, want)
		}
	}
	if got := Group(netip.Addr{}); got.IsValid() {
		t.Errorf("Group of no address = %s", got)
	}
}

// TestFlood checks that millions of forged addresses cost no memory and reset no bucket.
func TestFlood(t *testing.T) {
	n := 10_000_000
	if testing.Short() {
		n = 500_000
	}
	a := NewAddresses(must.Get(New(1, 5))(t))
	offender := netip.MustParseAddr("192.0.2.1")
	for a.Take(offender, 0).OK {
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range n {
		var b [16]byte
		b[0] = 0x20
		binary.BigEndian.PutUint64(b[4:], uint64(i))
		a.Take(netip.AddrFrom16(b), 0)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 1<<20 {
		t.Errorf("%d addresses took %d bytes", n, grown)
	}
	if allocated := after.Mallocs - before.Mallocs; allocated > uint64(n)/100 {
		t.Errorf("%d addresses took %d allocations", n, allocated)
	}
	if a.Take(offender, int64(time.Second)-1).OK {
		t.Error("the flood gave the offender a token")
	}
	if !a.Take(offender, int64(time.Second)).OK {
		t.Error("the offender's token did not come back in time")
	}
}
