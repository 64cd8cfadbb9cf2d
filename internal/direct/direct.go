// Package direct says which requests need no proxy.
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

// metadata are the addresses of Amazon's roles that are not link-local.
var metadata = []netip.Addr{netip.MustParseAddr("fd00:ec2::254"), netip.MustParseAddr("fd00:ec2::23")}

// Proxy is http.ProxyFromEnvironment, but for link-local addresses, those that give roles their
// credentials, and those of this machine: a proxy reaches others of that name. For http.Transport.
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
