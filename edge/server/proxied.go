package server

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/pires/go-proxyproto"
)

var (
	errNoProxyHeader = errors.New("the connection of a proxy does not begin with a PROXY protocol header")
	errTooManyConns  = errors.New("too many connections")
)

// readProxied reads the PROXY protocol header, version 1 or 2, at the beginning of a connection from one of
// Config.ProxyProtocol, and counts the connection against the address in it. The protocol forbids guessing
// whether there is a header, so a connection without one is refused.
//
// A header of version 1 has at most 107 bytes and arrives in one piece. A header of version 2 has at most 4
// KiB after its first 16 bytes. The whole header must arrive within Config.ReadTimeout, and the first byte of
// a request must follow within the same time.
func (c *conn) readProxied() error {
	if !contains(c.listener.proxies, c.peer) {
		return nil
	}
	c.takeInput()
	if err := c.readHeadBy(); err != nil {
		return errGone
	}
	var header *proxyproto.Header
	_, err := c.in.Peek(1)
	if err != nil {
		err = errGone // the connection sent nothing
	} else if header, err = proxyproto.Read(c.in); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("%w: %w", errNoProxyHeader, err)
	}
	if err == nil {
		c.peer = proxiedPeer(header, c.peer)
		if !c.listener.assign(c, c.peer) {
			err = errTooManyConns
		}
	}
	if c.buffered() == 0 {
		c.giveInput()
	}
	c.now = time.Now()
	return err
}

// proxiedPeer returns the address of the client on whose behalf the proxy at peer connects. It is peer itself
// if the header says so or contains no TCP address.
func proxiedPeer(header *proxyproto.Header, peer netip.Addr) netip.Addr {
	source, ok := header.SourceAddr.(*net.TCPAddr)
	if !ok || header.Command.IsLocal() {
		return peer
	}
	return source.AddrPort().Addr().Unmap()
}
