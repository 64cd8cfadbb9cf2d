package server

import (
	"container/heap"
	"container/list"
	"net/netip"
)

// networkBits is the length of the IPv6 prefix that is counted as one owner, because one customer may have
// a prefix of that size.
const networkBits = 48

// owners counts connections by owner. If there are too many connections, the owner with the most
// connections loses its newest one. So nobody can take a connection away from an owner that has fewer. The
// listener's mutex guards the struct.
type owners struct {
	maxAll, maxOne int
	open           int
	named          map[netip.Prefix]*owner
	ranked         ranking
}

// owner is an owner of connections: an IPv4 address or an IPv6 network.
type owner struct {
	name  netip.Prefix
	rank  int       // its index in owners.ranked
	conns list.List // of *conn, newest last
	// exempt marks a proxy, whose connections belong to many clients. A proxy may have any number of
	// connections and never loses one.
	exempt bool
}

// ranking is a heap of owners, with the most connections at the top. It does not contain exempt owners.
type ranking []*owner

func (r ranking) Len() int           { return len(r) }
func (r ranking) Less(i, j int) bool { return r[i].conns.Len() > r[j].conns.Len() }
func (r ranking) Swap(i, j int) {
	r[i], r[j] = r[j], r[i]
	r[i].rank, r[j].rank = i, j
}
func (r *ranking) Push(x any) {
	o := x.(*owner)
	o.rank = len(*r)
	*r = append(*r, o)
}
func (r *ranking) Pop() any {
	last := len(*r) - 1
	o := (*r)[last]
	(*r)[last] = nil
	*r = (*r)[:last]
	return o
}

func ownerName(addr netip.Addr) netip.Prefix {
	if addr.Is6() {
		return netip.PrefixFrom(addr.WithZone(""), networkBits).Masked()
	}
	return netip.PrefixFrom(addr, addr.BitLen())
}

// take counts c against the owner of addr, and reports whether c may stay. If c displaces another connection,
// take returns that connection as loser. The loser is no longer counted, and the caller must close it.
func (p *owners) take(c *conn, addr netip.Addr, exempt bool) (loser *conn, ok bool) {
	name := ownerName(addr)
	o := p.named[name]
	if o == nil {
		o = &owner{name: name, exempt: exempt}
	}
	if !o.exempt && o.conns.Len() >= p.maxOne {
		return nil, false
	}
	if p.open >= p.maxAll {
		// In a tie, c is refused.
		if len(p.ranked) == 0 || p.ranked[0].conns.Len() <= o.conns.Len()+1 {
			return nil, false
		}
		loser = p.ranked[0].conns.Back().Value.(*conn)
		p.leave(loser)
	}
	if o.conns.Len() == 0 {
		p.named[name] = o
		if !o.exempt {
			heap.Push(&p.ranked, o)
		}
	}
	c.owner, c.inOwner = o, o.conns.PushBack(c)
	p.open++
	if !o.exempt {
		heap.Fix(&p.ranked, o.rank)
	}
	return loser, true
}

// leave stops counting c. It may be called several times.
func (p *owners) leave(c *conn) {
	o := c.owner
	if o == nil {
		return
	}
	o.conns.Remove(c.inOwner)
	c.owner, c.inOwner = nil, nil
	p.open--
	switch {
	case o.conns.Len() == 0:
		delete(p.named, o.name)
		if !o.exempt {
			heap.Remove(&p.ranked, o.rank)
		}
	case !o.exempt:
		heap.Fix(&p.ranked, o.rank)
	}
}
