package server

import (
	"bytes"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"example.com/marketdata/internal/test/must"
	"github.com/pires/go-proxyproto"
)

// loopbackProxies makes every peer in a test a proxy.
var loopbackProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

// proxyV2 returns a header of version 2 with the given parts.
func proxyV2(command, family byte, block string) string {
	return "\r\n\r\n\x00\r\nQUIT\n" + string([]byte{command, family, byte(len(block) >> 8), byte(len(block))}) + block
}

const (
	block4 = "\xc0\x00\x02\x07\x7f\x00\x00\x01\x12\x34\x01\xbb"
	net6   = "\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" // 2001:db8::/120
	in6    = "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff"             // ::ffff:0:0/96
	ports  = "\x12\x34\x01\xbb"
	block6 = net6 + "\x01" + net6 + "\x02" + ports
	mapped = in6 + "\xc0\x00\x02\x08" + in6 + "\x7f\x00\x00\x01" + ports
)

// TestProxyProtocol checks that the header's address counts as the client's for the whole connection, in
// whatever pieces the requests arrive.
func TestProxyProtocol(t *testing.T) {
	peers := make(chan netip.Addr, 4) // one for each request of a case
	_, addr := start(t, func(cfg *Config) {
		cfg.ProxyProtocol = loopbackProxies
		cfg.Answer = func(r *Request) error { peers <- r.peer; return stub(r) }
	})
	for name, c := range map[string]struct{ header, peer string }{
		"v1, IPv4":         {"PROXY TCP4 192.0.2.7 127.0.0.1 4660 443\r\n", "192.0.2.7"},
		"v1, IPv6":         {"PROXY TCP6 2001:db8::1 2001:db8::2 4660 443\r\n", "2001:db8::1"},
		"v1, IPv4 as IPv6": {"PROXY TCP6 ::ffff:192.0.2.7 ::1 4660 443\r\n", "192.0.2.7"},
		"v1, longest": {"PROXY UNKNOWN " + strings.Repeat("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff ",
			2) + "65535 65535\r\n", "127.0.0.1"},
		"v1, the proxy itself": {"PROXY UNKNOWN\r\n", "127.0.0.1"},
		"v2, IPv4":             {proxyV2('\x21', '\x11', block4), "192.0.2.7"},
		"v2, IPv6":             {proxyV2('\x21', '\x21', block6), "2001:db8::1"},
		"v2, IPv4 as IPv6":     {proxyV2('\x21', '\x21', mapped), "192.0.2.8"},
		"v2, with more":        {proxyV2('\x21', '\x11', block4+"\x04\x00\x03abc"), "192.0.2.7"},
		"v2, longest": {proxyV2('\x21', '\x11', block4+"\x04\x0f\xf1"+strings.Repeat("x", 4096-12-3)),
			"192.0.2.7"},
		"v2, the proxy itself":  {proxyV2('\x20', '\x11', block4), "127.0.0.1"},
		"v2, not even a family": {proxyV2('\x20', '\x00', ""), "127.0.0.1"},
		"v2, of another network": {proxyV2('\x21', '\x31', strings.Repeat("/run/x"+strings.Repeat("\x00", 102), 2)),
			"127.0.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			whole := dial(t, addr).send(c.header + request("GET", assets) + request("GET", assets))
			parts := dial(t, addr).send(c.header).send(request("GET", assets)).send(request("GET",
				assets)[:30]).send(request("GET", assets)[30:])
			for _, c := range []*client{whole, parts} {
				for range 2 {
					expect(t, 200, "", c.receive("GET"))
				}
			}
			for range 4 {
				if got := <-peers; got.String() != c.peer {
					t.Errorf("the client is %v, want %s", got, c.peer)
				}
			}
		})
	}
}

// TestProxyProtocolRefused checks that a proxy's connection without a header is refused, and so is a header
// from a peer that is not a proxy.
func TestProxyProtocolRefused(t *testing.T) {
	s, trusting := start(t, func(cfg *Config) {
		cfg.ProxyProtocol, cfg.ReadTimeout = loopbackProxies,
			200*time.Millisecond
	})
	_, others := start(t, func(cfg *Config) { cfg.ProxyProtocol = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")} })
	const good = "PROXY TCP4 192.0.2.7 127.0.0.1 4660 443\r\n"
	rest := request("GET", assets)
	for name, c := range map[string]struct {
		addr, raw string
		status    int
		key       string
	}{
		"none":           {trusting, rest, 400, "BAD_REQUEST"},
		"something else": {trusting, "\x16\x03\x01\x02\x00", 400, "BAD_REQUEST"},
		"two":            {trusting, good + good + rest, 400, "BAD_REQUEST"},
		"lower case":     {trusting, strings.ToLower(good) + rest, 400, "BAD_REQUEST"},
		"no family":      {trusting, "PROXY\r\n" + rest, 400, "BAD_REQUEST"},
		"other family":   {trusting, strings.Replace(good, "TCP4", "UDP4", 1) + rest, 400, "BAD_REQUEST"},
		"address of family 6": {trusting, strings.Replace(good, "192.0.2.7", "2001:db8::1", 1) + rest, 400,
			"BAD_REQUEST"},
		"no address":        {trusting, "PROXY TCP4 a b 1 2\r\n" + rest, 400, "BAD_REQUEST"},
		"port over 65535":   {trusting, strings.Replace(good, "4660", "65536", 1) + rest, 400, "BAD_REQUEST"},
		"bare LF":           {trusting, strings.Replace(good, "\r", "", 1) + rest, 400, "BAD_REQUEST"},
		"line without end":  {trusting, "PROXY UNKNOWN " + strings.Repeat("x", 100_000), 400, "BAD_REQUEST"},
		"v1 in two pieces":  {trusting, "PROXY TCP4 192.0.2.7", 400, "BAD_REQUEST"},
		"v2 of version 3":   {trusting, proxyV2('\x31', '\x11', block4) + rest, 400, "BAD_REQUEST"},
		"v2, other command": {trusting, proxyV2('\x22', '\x11', block4) + rest, 400, "BAD_REQUEST"},
		"v2, other family":  {trusting, proxyV2('\x21', '\x13', block4) + rest, 400, "BAD_REQUEST"},
		"v2, too short":     {trusting, proxyV2('\x21', '\x11', block4[:11]) + rest, 400, "BAD_REQUEST"},
		"v2, too long": {trusting, proxyV2('\x21', '\x11', block4+strings.Repeat("x", 4097-12)), 400,
			"BAD_REQUEST"},
		"half of v2":      {trusting, proxyV2('\x21', '\x11', block4)[:20], 408, "REQUEST_TIMEOUT"},
		"a letter":        {trusting, "P", 408, "REQUEST_TIMEOUT"},
		"half a request":  {trusting, good + "GET /", 408, "REQUEST_TIMEOUT"},
		"v1 from anybody": {others, good + rest, 400, "BAD_REQUEST"},
		"v2 from anybody": {others, proxyV2('\x21', '\x11', block4) + rest, 400, "BAD_REQUEST"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := dial(t, c.addr)
			sent := make(chan struct{})
			go func() { defer close(sent); io.WriteString(conn.Conn, c.raw) }()
			expect(t, c.status, c.key, conn.receive("GET"))
			conn.closed()
			conn.Close()
			<-sent
		})
	}
	t.Run("silence", func(t *testing.T) {
		t.Parallel()
		dial(t, trusting).closed()
		dial(t, trusting).send(good).closed()
		until(t, func() bool { return s.Stats().Open == 0 })
	})
	// A peer that is not a proxy needs no header.
	expect(t, 200, "", ask(t, others, "GET", assets))
}

// TestProxiedConnections checks that connections through a proxy count against their clients, not against the
// proxy, and in the total.
func TestProxiedConnections(t *testing.T) {
	s, addr := start(t, func(cfg *Config) {
		cfg.ProxyProtocol, cfg.MaxConns, cfg.MaxConnsPerAddress = loopbackProxies,
			5, 2
	})
	from := func(address string) *client {
		return dial(t, addr).send("PROXY TCP4 " + address + " 127.0.0.1 4660 443\r\n" + request("GET", assets))
	}
	var open []*client
	for _, address := range []string{"192.0.2.1", "192.0.2.1", "192.0.2.2"} {
		c := from(address)
		expect(t, 200, "", c.receive("GET"))
		open = append(open, c)
	}
	c := from("192.0.2.1")
	expect(t, 503, "SERVICE_UNAVAILABLE", c.receive("GET"))
	c.closed()
	until(t, func() bool { return s.Stats().Open == 3 })
	// A connection whose header has not arrived yet counts in the total.
	open = append(open, dial(t, addr), dial(t, addr))
	until(t, func() bool { return s.Stats().Open == 5 })
	expect(t, 503, "SERVICE_UNAVAILABLE", dial(t, addr).receive("GET"))
	if got := s.Stats().Refused; got != 2 {
		t.Errorf("%d refused, want 2", got)
	}
	for _, c := range open {
		c.Close()
	}
	until(t, func() bool { return s.Stats().Open == 0 })
	l := s.listener.Load()
	l.mu.Lock()
	if len(l.owners.named) != 0 {
		t.Errorf("left over: %v", l.owners.named)
	}
	l.mu.Unlock()
	c = from("192.0.2.1")
	expect(t, 200, "", c.receive("GET"))
}

// peerConn is a script with the address of a proxy.
type peerConn struct{ *script }

func (peerConn) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// FuzzProxyHeader checks that, whatever a proxy sends, the connection is refused or counts against the client
// in the header, and that the bytes after the header are read unchanged.
func FuzzProxyHeader(f *testing.F) {
	for _, header := range []string{
		"PROXY TCP4 192.0.2.7 127.0.0.1 4660 443\r\n", "PROXY TCP6 ::1 ::1 0 65535\r\n", "PROXY UNKNOWN x\r\n",
		"PROXY TCP4 192.0.2.7 127.0.0.1 9999999999999999999 443\r\n", "PROXY TCP4 192.0.2.7 127.0.0.1 65536 443\r\n",
		"PROXY ", "GET /",
		proxyV2('\x21', '\x11', block4), proxyV2('\x21', '\x21', block6+"\x04\x00\x00"), proxyV2('\x20', '\x00', ""),
		proxyV2('\x21', '\x31', strings.Repeat("a", 216)), "\r\n\r\n\x00\r\nQUIT\n",
	} {
		f.Add([]byte(header), []byte(request("GET", assets)))
	}
	cfg := must.Get(Config{Answer: stub, ProxyProtocol: loopbackProxies}.withDefaults())(f)
	f.Fuzz(func(t *testing.T, header, rest []byte) {
		l := newListener(nil, &cfg)
		var in io.Reader = io.MultiReader(bytes.NewReader(header), bytes.NewReader(rest))
		if len(rest)%2 == 1 {
			in = iotest.HalfReader(in)
		}
		c := l.admit(peerConn{&script{in: in}})
		err := c.readProxied()
		if err != nil {
			return
		}
		if !c.peer.IsValid() || c.peer.Is4In6() || c.peer.Zone() != "" {
			t.Errorf("counted under %v", c.peer)
		}
		if l.owners.named[ownerName(c.peer)] != c.owner || c.owner.conns.Len() != 1 || l.owners.open != 1 {
			t.Errorf("%v has %d places of %d", c.peer, c.owner.conns.Len(), l.owners.open)
		}
		after, err := io.ReadAll(c.takeInput())
		all := slices.Concat(header, rest)
		if err != nil || !bytes.HasSuffix(all, after) {
			t.Fatalf("%d bytes follow that were not sent, %v", len(after), err)
		}
		sent := all[:len(all)-len(after)]
		if n := len(sent); n < 8 || n > 16+4096 || sent[0] == 'P' &&
			(n > 107 || !bytes.HasSuffix(sent, []byte("\r\n"))) {
			t.Errorf("%d bytes were taken for a header: %.120q", n, sent)
		}
		if sent[0] == 'P' && !bytes.HasPrefix(sent, []byte("PROXY UNKNOWN")) {
			fields := strings.Fields(string(sent))
			if want, err := netip.ParseAddr(fields[2]); err != nil || want.Unmap() != c.peer {
				t.Errorf("%q: the client is %v", sent, c.peer)
			}
		}
		if sent[0] == '\r' && sent[12] == byte(proxyproto.PROXY) && sent[13] == byte(proxyproto.TCPv4) &&
			!bytes.Equal(c.peer.AsSlice(), sent[16:20]) {
			t.Errorf("%q: the client is %v", sent, c.peer)
		}
	})
}

// TestForwardedConnections checks that a proxy that states its clients in X-Forwarded-For may have any number
// of connections, and loses none to other addresses.
func TestForwardedConnections(t *testing.T) {
	s, addr := start(t, func(cfg *Config) {
		cfg.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
		cfg.MaxConns, cfg.MaxConnsPerAddress = 8, 2
	})
	from := func(address string) *client { return dialFrom(t, address, addr).send(request("GET", assets)) }
	var open []*client
	for range 7 {
		c := from("127.0.0.1")
		expect(t, 200, "", c.receive("GET"))
		open = append(open, c)
	}
	expect(t, 200, "", from("127.0.0.2").receive("GET"))
	for _, other := range []string{"127.0.0.1", "127.0.0.2", "127.0.0.3"} { // all connections are in use
		expect(t, 503, "SERVICE_UNAVAILABLE", from(other).receive("GET"))
	}
	for _, c := range open {
		expect(t, 200, "", c.send(request("GET", assets)).receive("GET"))
	}
	if got := s.Stats(); got.Open != 8 || got.Refused != 3 {
		t.Errorf("stats %+v", got)
	}
}
