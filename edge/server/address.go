package server

import (
	"bytes"
	"net/netip"
	"slices"
)

// clientOf returns the address of the client: the peer's address, which a PROXY protocol header may replace.
// If the peer is a trusted proxy, the client's address is the one in X-Forwarded-For.
func (s *Server) clientOf(r *Request) netip.Addr {
	if !r.client.IsValid() {
		r.client = s.findClient(r)
	}
	return r.client
}

func (s *Server) findClient(r *Request) netip.Addr {
	addr := r.peer
	if !s.trusts(addr) {
		return addr
	}
	// Each proxy appends the address of its peer. So the last address that is not a trusted proxy is the
	// client, and the addresses before it may be forged.
	for _, line := range slices.Backward(r.http().Header.PeekAll("X-Forwarded-For")) {
		for len(line) > 0 {
			element := line
			if i := bytes.LastIndexByte(line, ','); i >= 0 {
				line, element = line[:i], line[i+1:]
			} else {
				line = nil
			}
			next, ok := parseForwarded(bytes.Trim(element, " \t"))
			if !ok {
				return addr
			}
			if addr = next; !s.trusts(addr) {
				return addr
			}
		}
	}
	return addr
}

func (s *Server) trusts(addr netip.Addr) bool { return contains(s.trusted, addr) }

func contains(prefixes []netip.Prefix, addr netip.Addr) bool {
	for _, p := range prefixes {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}

// parseForwarded parses an address in the forms that proxies use: with or without a port, and IPv6 with or
// without brackets.
func parseForwarded(b []byte) (netip.Addr, bool) {
	const longest = len("[ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255]:65535")
	if len(b) > longest {
		return netip.Addr{}, false
	}
	text := string(b)
	if addr, err := netip.ParseAddr(text); err == nil {
		return addr.Unmap().WithZone(""), true
	}
	if ap, err := netip.ParseAddrPort(text); err == nil {
		return ap.Addr().Unmap().WithZone(""), true
	}
	if len(b) > 2 && b[0] == '[' && b[len(b)-1] == ']' {
		if addr, err := netip.ParseAddr(text[1 : len(text)-1]); err == nil {
			return addr.Unmap().WithZone(""), true
		}
	}
	return netip.Addr{}, false
}

// mask returns the part of a client's address that may appear in logs: the /24 of IPv4, and the /48 of IPv6.
func mask(addr netip.Addr) string {
	bits := 48
	if addr = addr.Unmap(); addr.Is4() {
		bits = 24
	}
	p, err := addr.Prefix(bits)
	if err != nil || !p.IsValid() {
		return "unknown"
	}
	return p.String()
}
