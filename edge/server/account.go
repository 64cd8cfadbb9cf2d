package server

import (
	"container/heap"
	"container/list"
	"net/netip"
	"slices"
	"time"

	"example.com/marketdata/edge/limit"
)

// resource is something that connections share.
type resource int

const (
	places  resource = iota // open connections
	waiting                 // bytes for connections that wait for their peer

	resources
)

// networkBits is the length of the IPv6 prefix that one customer may have.
const networkBits = 48

// account counts what one client address holds (limit.Group), what an IPv6 network holds, since one
// customer may have all its addresses, or what all hold. When a resource runs out, the newest
// connection of the account that holds the most is closed, so nobody can take a resource from
// others who hold less. listener.mu guards all of it.
type account struct {
	in    *account // the sum that it belongs to; nil: this is the sum of all
	name  netip.Prefix
	held  [resources]int64
	ranks [resources]int     // indices into in.parts
	parts [resources]ranking // accounts in this sum
	// conns are an address's connections: first those that hold nothing, then the others in the
	// order in which they began to hold something.
	conns [resources]list.List
}

// ranking is a heap of accounts, the one that holds the most first.
type ranking struct {
	of   resource
	list []*account
}

func (r *ranking) Len() int           { return len(r.list) }
func (r *ranking) Less(i, j int) bool { return r.list[i].held[r.of] > r.list[j].held[r.of] }
func (r *ranking) Swap(i, j int) {
	r.list[i], r.list[j] = r.list[j], r.list[i]
	r.list[i].ranks[r.of], r.list[j].ranks[r.of] = i, j
}
func (r *ranking) Push(x any) {
	a := x.(*account)
	a.ranks[r.of] = len(r.list)
	r.list = append(r.list, a)
}
func (r *ranking) Pop() any {
	last := len(r.list) - 1
	a := r.list[last]
	r.list = slices.Delete(r.list, last, last+1)
	return a
}

// accountOf returns the account of an address. hold drops an account that holds nothing.
func (l *listener) accountOf(addr netip.Addr) *account {
	addr = limit.Group(addr)
	sum := &l.all
	if addr.Is6() {
		sum = l.accountIn(sum, netip.PrefixFrom(addr, networkBits).Masked())
	}
	return l.accountIn(sum, netip.PrefixFrom(addr, addr.BitLen()))
}

func (l *listener) accountIn(sum *account, name netip.Prefix) *account {
	a := l.accounts[name]
	if a == nil {
		a = &account{in: sum, name: name}
		l.accounts[name] = a
		for of := range resources {
			sum.parts[of].of = of
			heap.Push(&sum.parts[of], a)
		}
	}
	return a
}

// hold adds n, which may be negative, to what the account of c's address holds for c.
func (l *listener) hold(c *conn, of resource, n int64) {
	before, list := c.held[of], &c.account.conns[of]
	c.held[of] += n
	switch element := c.elements[of]; {
	case element == nil:
		c.elements[of] = list.PushBack(c)
	case before == 0:
		list.MoveToBack(element)
	case c.held[of] == 0:
		list.MoveToFront(element)
	}
	if before == 0 {
		l.holders[of]++
	}
	if c.held[of] == 0 {
		l.holders[of]--
	}
	for a := c.account; ; a = a.in {
		a.held[of] += n
		if a.in == nil {
			return
		}
		heap.Fix(&a.in.parts[of], a.ranks[of])
		if a.held == [resources]int64{} {
			for of := range resources {
				heap.Remove(&a.in.parts[of], a.ranks[of])
			}
			delete(l.accounts, a.name)
		}
	}
}

// moveTo moves what c holds to the account of another address.
func (l *listener) moveTo(c *conn, addr netip.Addr) {
	held := c.held
	l.holdNothing(c)
	c.account = l.accountOf(addr)
	for of, n := range held {
		if n > 0 {
			l.hold(c, resource(of), n)
		}
	}
}

// loser returns the connection that is closed when c has exhausted a resource: the newest of the
// address that holds the most, in the network that holds the most. c's own account loses ties.
func (l *listener) loser(c *conn, of resource) *conn {
	a := &l.all
	for len(a.parts[of].list) > 0 {
		most := a.parts[of].list[0]
		for own := c.account; own.in != nil; own = own.in {
			if own.in == a && own.held[of] >= most.held[of] {
				most = own
			}
		}
		a = most
	}
	return a.conns[of].Back().Value.(*conn)
}

// share closes connections until there is enough of a resource that c has just taken, and reports
// whether c may keep it.
func (l *listener) share(c *conn, of resource, all, one int64) bool {
	if c.account.held[of] > one && !c.ofProxy() {
		return false
	}
	for l.all.held[of] > all {
		loser := l.loser(c, of)
		if loser == c {
			return false
		}
		l.cut(loser)
	}
	return true
}

// ofProxy reports that c is a proxy's connection whose client is not known yet. A proxy may hold as
// much as all its clients.
func (c *conn) ofProxy() bool { return c.proxied || c.forwards && !c.lent }

// lend counts a proxy's connection under the client of its current request while it waits for that
// client, and reports whether the client may have that many connections.
func (l *listener) lend(c *conn) bool {
	if c.lent || !c.client.IsValid() {
		return true
	}
	l.moveTo(c, c.client)
	c.lent = true
	return l.sharePlaces(c)
}

// cut ends a connection: waiting on it fails from now on, and what it holds is free at once.
func (l *listener) cut(c *conn) {
	c.cut.Store(true)
	l.holdNothing(c)
	l.refused.Add(1)
	// Close would wait for a goroutine that may itself be about to cut off another.
	_ = c.Conn.SetDeadline(time.Unix(1, 0))
}

// holdNothing frees what a connection holds.
func (l *listener) holdNothing(c *conn) {
	for of, n := range c.held {
		if n > 0 {
			l.hold(c, resource(of), -n)
		}
		if c.elements[of] != nil {
			c.account.conns[of].Remove(c.elements[of])
			c.elements[of] = nil
		}
	}
}

// charge sets the bytes that c holds while its peer is slow to n, and reports whether its address
// may hold them; otherwise c holds none.
func (c *conn) charge(n int64) bool {
	l := c.listener
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.cut.Load() {
		return false
	}
	c.charged = true
	ok := l.lend(c)
	l.hold(c, waiting, n-c.held[waiting])
	if ok = ok && l.share(c, waiting, l.maxBytes, l.maxBytesOne); !ok {
		l.refused.Add(1)
		l.giveBack(c)
	}
	return ok
}

// discharge ends the charge, if there is one.
func (c *conn) discharge() {
	if !c.charged {
		return
	}
	l := c.listener
	l.mu.Lock()
	defer l.mu.Unlock()
	l.giveBack(c)
}

func (l *listener) giveBack(c *conn) {
	c.charged = false
	if c.held[waiting] > 0 { // else it was cut off
		l.hold(c, waiting, -c.held[waiting])
	}
	if c.lent {
		c.lent = false
		if !c.cut.Load() {
			l.moveTo(c, c.peer)
		}
	}
}
