package server

import (
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"example.com/marketdata/internal/lab/must"
	"pgregory.net/rapid"
)

// sharing is a listener whose connections take and give back what they like.
type sharing struct {
	l     *listener
	conns []*conn
}

// held returns what the connections hold whose addresses are in p.
func (m *sharing) held(of resource, p netip.Prefix) (sum int64) {
	for _, c := range m.conns {
		if p.Contains(c.peer) {
			sum += c.held[of]
		}
	}
	return sum
}

// sums returns the network and the address that c counts under.
func sums(c *conn) [2]netip.Prefix {
	network, address := 32, 32
	if c.peer.Is6() {
		network, address = networkBits, 64
	}
	return [2]netip.Prefix{netip.PrefixFrom(c.peer, network).Masked(), netip.PrefixFrom(c.peer, address).Masked()}
}

// take has c take some of a resource by f, and checks that nobody gives way to it of whom
// less was held.
func (m *sharing) take(t *rapid.T, c *conn, of resource, f func()) {
	type holding struct {
		own  int64
		sums [2]int64
	}
	before := map[*conn]holding{}
	for _, other := range m.conns {
		lost := sums(other)
		before[other] = holding{other.held[of], [2]int64{m.held(of, lost[0]), m.held(of, lost[1])}}
	}
	f()
	for other, had := range before {
		if other == c || other.held[of] == had.own {
			continue
		}
		own, lost := sums(c), sums(other)
		for i, p := range lost {
			if p == own[i] {
				continue
			}
			if had.sums[i] < m.held(of, own[i]) {
				t.Fatalf("%v gave way to %v, which holds more", other.peer, c.peer)
			}
			break
		}
	}
}

// refused checks that c, which got nothing, would have had to hold as much as anybody, or
// more than one may: its network and its address would hold n more.
func (m *sharing) refused(t *rapid.T, c *conn, of resource, n, one int64) {
	own := sums(c)
	if m.held(of, own[1])+n > one {
		return
	}
	for _, other := range m.conns {
		if network := sums(other)[0]; network != own[0] && m.held(of, network) > m.held(of, own[0])+n {
			t.Fatalf("%v was refused, though %v holds more", c.peer, network)
		}
	}
}

func (m *sharing) draw(t *rapid.T) *conn {
	if len(m.conns) == 0 {
		t.Skip()
	}
	return rapid.SampledFrom(m.conns).Draw(t, "conn")
}

// Check compares the accounts with what the connections hold.
func (m *sharing) Check(t *rapid.T) {
	for of, most := range [resources]int64{int64(m.l.maxAll), m.l.maxBytes} {
		sum := int64(0)
		for _, c := range m.conns {
			sum += c.held[of]
		}
		if sum > most || sum != m.l.all.held[of] {
			t.Fatalf("resource %d: %d of %d are held, %d are counted", of, sum, most, m.l.all.held[of])
		}
	}
	for name, a := range m.l.accounts {
		if name.Bits() == 128 { // a /64 by its first address
			name = netip.PrefixFrom(name.Addr(), 64)
		}
		for of := range resources {
			if want := m.held(of, name); a.held[of] != want {
				t.Fatalf("%v holds %d, its connections %d", name, a.held[of], want)
			}
		}
	}
}

func (m *sharing) Admit(t *rapid.T) {
	address := rapid.SampledFrom([]string{
		"192.0.2.1", "192.0.2.2", "192.0.2.3", "2001:db8:1:1::1", "2001:db8:1:2::1", "2001:db8:1:3::1",
		"2001:db8:2::1", "2001:db8:2::2",
	}).Draw(t, "address")
	c := &conn{Conn: &script{}, listener: m.l, peer: netip.MustParseAddr(address)}
	m.conns = append(m.conns, c)
	m.take(t, c, places, func() {
		m.l.mu.Lock()
		defer m.l.mu.Unlock()
		c.account = m.l.accountOf(c.peer)
		m.l.hold(c, places, 1)
		if !m.l.sharePlaces(c) {
			m.l.holdNothing(c)
			m.conns = m.conns[:len(m.conns)-1]
			m.refused(t, c, places, 1, int64(m.l.maxOne))
		}
	})
}

func (m *sharing) Charge(t *rapid.T) {
	c := m.draw(t)
	m.take(t, c, waiting, func() {
		n, cut, refused := rapid.Int64Range(1, 40).Draw(t, "bytes"), c.cut.Load(), m.l.refused.Load()
		if c.charge(n) {
			return
		}
		if c.held[waiting] != 0 {
			t.Fatal("charged without room")
		}
		if !cut {
			if m.l.refused.Load() == refused {
				t.Fatal("refused, and not counted")
			}
			m.refused(t, c, waiting, n, m.l.maxBytesOne)
		}
	})
}

func (m *sharing) Discharge(t *rapid.T) { m.draw(t).discharge() }

func (m *sharing) Leave(t *rapid.T) {
	c := m.draw(t)
	m.l.leave(c)
	m.conns = slices.DeleteFunc(m.conns, func(other *conn) bool { return other == c })
}

// TestShare: whatever addresses do, no more is held than there is, each account holds
// what its connections do, and nobody loses anything to a connection whose address or
// network would then hold more.
func TestShare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{Answer: stub, MaxConns: 12, MaxConnsPerAddress: 6, MaxWaitingBytes: 100}
		cfg = must.Get(cfg.withDefaults())(t)
		m := &sharing{l: newListener(nil, &cfg)}
		m.l.maxBytesOne = 60
		t.Repeat(rapid.StateMachineActions(m))
		for _, c := range m.conns {
			m.l.leave(c)
		}
		if len(m.l.accounts) != 0 || m.l.all.held != [resources]int64{} || m.l.holders != [resources]int{} {
			t.Fatalf("left over: %v %v %v", m.l.accounts, m.l.all.held, m.l.holders)
		}
	})
}

// TestPipelinesYield: many pipelines leave one processor to others after a few answers,
// not once the scheduler takes it from them.
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
	// Each has an answer before its first turn.
	if most > 2*pipelines {
		t.Errorf("%d answers between two turns of another", most)
	}
	<-l.noneLeft()
}
