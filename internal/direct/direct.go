// Package direct decides which requests must bypass the HTTP proxy.
package direct

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
)

// metadata are Amazon's metadata addresses that are not link-local.
var metadata = []netip.Addr{netip.MustParseAddr("fd00:ec2::254"), netip.MustParseAddr("fd00:ec2::23")}

// Proxy is like http.ProxyFromEnvironment, except that it returns no proxy for link-local
// addresses, Amazon's metadata addresses and this machine's own addresses. Through a proxy, such an
// address would reach another machine. Proxy can be used in http.Transport.
func Proxy(r *http.Request) (*url.URL, error) {
	if to(r.URL.Hostname()) {
		return nil, nil
	}
	return http.ProxyFromEnvironment(r)
}

func to(host string) bool {
	addr, err := netip.ParseAddr(host)
	if err != nil {
		name, err := os.Hostname()
		return err == nil && strings.EqualFold(host, name)
	}
	addr = addr.Unmap().WithZone("")
	return addr.IsLoopback() || addr.IsUnspecified() || addr.IsLinkLocalUnicast() || slices.Contains(metadata, addr) ||
		ours(addr)
}

// ours reports whether an interface of this machine has the address.
func ours(addr netip.Addr) bool {
	all, err := net.InterfaceAddrs()
	return err == nil && slices.ContainsFunc(all, func(a net.Addr) bool {
		p, err := netip.ParsePrefix(a.String())
		return err == nil && p.Addr().WithZone("") == addr
	})
}
