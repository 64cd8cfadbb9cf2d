package limit

import (
	"hash/maphash"
	"net/netip"
)

// addressBuckets is the number of buckets for all client addresses. They occupy 4 MiB of address space; the
// system allocates only the pages that are used.
const addressBuckets = 1 << 16

// Addresses limits the requests of each client address. A seeded hash maps all addresses to a fixed number
// of buckets. IPv6 addresses with the same /64 prefix count as one, because one customer usually has a
// whole /64. So the table never grows and never evicts, and a flood of forged addresses can only empty
// buckets, never reset one. The price is that unrelated clients may share a bucket. Requests with a valid
// key take no tokens from these buckets.
type Addresses struct {
	limit   Limit
	seed    maphash.Seed
	buckets [addressBuckets]Bucket
}

// NewAddresses returns a table that limits each client address to l.
func NewAddresses(l Limit) *Addresses {
	return &Addresses{limit: l, seed: maphash.MakeSeed()}
}

// Limit returns the limit of each address.
func (a *Addresses) Limit() Limit { return a.limit }

// Take takes a token from the bucket of addr; see Bucket.Take.
func (a *Addresses) Take(addr netip.Addr, now int64) Decision {
	return a.buckets[maphash.Comparable(a.seed, Group(addr))%addressBuckets].Take(a.limit, now)
}

// Group returns the address under which addr is counted. For an IPv4 address, including one mapped to IPv6,
// this is the IPv4 address itself. For any other IPv6 address, it is the first address of its /64.
func Group(addr netip.Addr) netip.Addr {
	addr = addr.Unmap()
	if !addr.Is6() {
		return addr
	}
	bytes := addr.As16()
	clear(bytes[8:])
	return netip.AddrFrom16(bytes)
}
