package server

import (
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"
)

// TestOwners checks three rules for random connections. There are never more connections than allowed. Only
// the owner with the most connections can lose one, its newest, and only to an address that then has no more
// than that owner had. A connection is refused only if these rules require it.
func TestOwners(t *testing.T) {
	addresses := []netip.Addr{}
	for _, a := range []string{"192.0.2.1", "192.0.2.2", "192.0.2.3", "2001:db8:1:1::1", "2001:db8:1:2::1",
		"2001:db8:2::1", "10.0.0.1", "10.0.0.1", "10.0.0.1", "10.0.0.1"} {
		addresses = append(addresses, netip.MustParseAddr(a))
	}
	proxy := addresses[len(addresses)-1]
	rapid.Check(t, func(t *rapid.T) {
		const all, one = 12, 6
		p := owners{maxAll: all, maxOne: one, named: map[netip.Prefix]*owner{}}
		// The model is the list of connections with their owners, oldest first. Each IPv6 /48 network is an
		// owner.
		type entry struct {
			c     *conn
			owner string
		}
		var open []entry
		ownerOf := func(a netip.Addr) string {
			if a.Is4() {
				return a.String()
			}
			return strings.Join(strings.Split(a.StringExpanded(), ":")[:3], ":")
		}
		count := func(owner string) (n int) {
			for _, e := range open {
				if e.owner == owner {
					n++
				}
			}
			return n
		}
		most := func() (n int) {
			for _, e := range open {
				if e.owner != proxy.String() {
					n = max(n, count(e.owner))
				}
			}
			return n
		}
		for range rapid.IntRange(20, 80).Draw(t, "steps") {
			if len(open) > 0 && rapid.IntRange(0, 3).Draw(t, "leave") == 0 {
				i := rapid.IntRange(0, len(open)-1).Draw(t, "who")
				p.leave(open[i].c)
				p.leave(open[i].c) // a second call has no effect
				open = slices.Delete(open, i, i+1)
				continue
			}
			a := rapid.SampledFrom(addresses).Draw(t, "address")
			owner, c := ownerOf(a), &conn{}
			had, top := count(owner), most()
			loser, ok := p.take(c, a, a == proxy)
			may := (a == proxy || had < one) && (len(open) < all || top > had+1)
			if ok != may || loser != nil && len(open) < all || ok && loser == nil && len(open) == all {
				t.Fatalf("%v has %d of %d places, at most %d: taken %t, loser %v", a, had, len(open), top, ok, loser)
			}
			if loser != nil {
				i := slices.IndexFunc(open, func(e entry) bool { return e.c == loser })
				lost := open[i].owner
				newer := slices.ContainsFunc(open[i+1:], func(e entry) bool { return e.owner == lost })
				if count(lost) != top || newer || lost == proxy.String() {
					t.Fatalf("%s lost a place, with %d of at most %d, newer ones %t", lost, count(lost), top, newer)
				}
				open = slices.Delete(open, i, i+1)
			}
			if ok {
				open = append(open, entry{c, owner})
			}
			if p.open != len(open) || len(open) > all {
				t.Fatalf("%d places, want %d", p.open, len(open))
			}
		}
		for _, e := range open {
			p.leave(e.c)
		}
		if p.open != 0 || len(p.named) != 0 || len(p.ranked) != 0 {
			t.Fatalf("left over: %+v", p)
		}
	})
}

// TestPipelinesYield checks that many pipelines on one processor yield to other goroutines after a few
// answers, before the scheduler preempts them.
func TestPipelinesYield(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const pipelines, requests = 20, 200
	var answers atomic.Int64
	s := newServer(t, Config{Answer: func(r *Request) error { answers.Add(1); return stub(r) }})
	l := newListener(nil, &s.cfg)
	for range pipelines {
		in := &segments{left: [][]byte{[]byte(strings.Repeat(request("GET", assets), requests))}, discard: true}
		go s.serveConn(l.admit(in))
	}
	most := int64(0)
	for before := int64(0); before < pipelines*requests; before = answers.Load() {
		runtime.Gosched()
		most = max(most, answers.Load()-before)
	}
	// Each pipeline may send one answer before it first yields.
	if most > 2*pipelines {
		t.Errorf("%d answers between two turns of another", most)
	}
	<-l.noneLeft()
}
