package limit

import (
	"hash/maphash"
	"net/netip"
)

// addressBuckets is how many buckets all client addresses share: 4 MiB, of
// which only what is written to is resident.
const addressBuckets = 1 << 16

// Addresses limits client addresses. All addresses share a fixed number of
// buckets by a seeded hash; IPv6 addresses count by their /64, which is what
// one customer has. So nothing grows, nothing is evicted, and a flood of
// made-up addresses frees no offender: it can only empty buckets. The price is
// that strangers may share a bucket. Requests with a valid key never take from
// one.
type Addresses struct {
	limit   Limit
	seed    maphash.Seed
	buckets [addressBuckets]Bucket
}

// NewAddresses returns a table that holds each client address to l.
func NewAddresses(l Limit) *Addresses {
	return &Addresses{limit: l, seed: maphash.MakeSeed()}
}

// Limit returns the limit of each address.
func (a *Addresses) Limit() Limit { return a.limit }

// Take takes a token of addr's bucket; see Bucket.Take.
func (a *Addresses) Take(addr netip.Addr, now int64) Decision {
	return a.buckets[maphash.Comparable(a.seed, Group(addr))%addressBuckets].Take(a.limit, now)
}

// Group returns the address under which addr is counted: an IPv4 address
// itself, also when it is written as IPv6; of any other IPv6 address the
// first of its /64.
func Group(addr netip.Addr) netip.Addr {
	addr = addr.Unmap()
	if !addr.Is6() {
		return addr
	}
	bytes := addr.As16()
	clear(bytes[8:])
	return netip.AddrFrom16(bytes)
}
