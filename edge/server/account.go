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

// networkBits is the part of an IPv6 address that one customer may have.
const networkBits = 48

// account is what one client address holds (limit.Group); the sum of an IPv6 network,
// since who has one address of it may have them all; or the sum of all. When a resource
// runs out, the newest connection of the account that holds the most is closed, so that
// nobody can take a resource from others who hold less. All of it is by listener.mu.
type account struct {
	in    *account // the sum that it belongs to; nil: this is the sum of all
	name  netip.Prefix
	held  [resources]int64
	ranks [resources]int     // indices into in.parts
	parts [resources]ranking // accounts in this sum
	// conns are an address's connections: first those that hold none, last the one that
	// was the last to begin to hold some.
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

// accountOf returns the account of an address. One that holds nothing is dropped by hold.
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

// hold has the account of c's address hold n more of a resource for c, or -n less.
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

// moveTo has the account of another address hold what c holds.
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

// loser returns which connection gives way when c has taken some of a resource of which
// there is no more: the newest of the address that holds the most, in the network that
// does. Of those that hold as much as c's own, c's own gives way.
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

// share cuts off connections until there is enough of a resource, of which c has just
// taken some, and reports whether c may keep it.
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

// ofProxy reports that what c holds is for clients that are not known yet: the connection
// of a proxy, which has those of all its clients.
func (c *conn) ofProxy() bool { return c.proxied || c.forwards && !c.lent }

// lend counts c under the client of the request at hand, while that one is what it waits
// for, and reports whether the client may have that many connections.
func (l *listener) lend(c *conn) bool {
	if c.lent || !c.client.IsValid() {
		return true
	}
	l.moveTo(c, c.client)
	c.lent = true
	return l.sharePlaces(c)
}

// cut ends a connection: what waits on it fails, and so does what begins to. What it
// holds is free at once.
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

// charge has c hold n bytes, which are taken up while its peer is slow, in place of those
// it has held, and reports whether its address may; else it holds none.
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
		l.giveBack(c)
	}
	return ok
}

// discharge takes the charge back, if there is one.
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
