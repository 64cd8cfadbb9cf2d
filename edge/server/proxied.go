package server

import (
	"bufio"
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

// readProxied reads the PROXY protocol header, version 1 or 2, that the
// connection of a proxy of ours begins with, and counts the connection under
// the address in it. The protocol wants no guessing whether there is a header:
// without one nothing is answered but that.
//
// A header of version 1 has at most 107 bytes and comes in one piece; one of
// version 2 has at most 4 KiB behind its first 16 bytes. All of it arrives
// within ReadTimeout, and then as much again is for the first byte of a
// request.
func (c *conn) readProxied() {
	c.proxied = false
	if c.err = c.readBy(time.Now().Add(c.listener.readTimeout)); c.err != nil {
		return
	}
	r := bufio.NewReaderSize(c.Conn, smallHead)
	if _, c.err = r.Peek(1); c.err != nil {
		return // nothing came: the connection is closed without a word
	}
	header, err := proxyproto.Read(r)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
	case err != nil:
		err = fmt.Errorf("%w: %w", errNoProxyHeader, err)
	case !c.listener.count(c, proxiedPeer(header, c.peer)):
		err = errTooManyConns
	}
	if err != nil {
		// Nothing is answered before there is the first byte of a request.
		c.small[0] = 'P'
		c.ahead, c.err = c.small[:1], err
		return
	}
	rest, _ := r.Peek(r.Buffered()) // r holds no more than c.small
	c.ahead = c.small[:copy(c.small[:], rest)]
}

// proxiedPeer returns for whom a proxy at peer connects: for itself, when the
// header says so or gives no address of TCP.
func proxiedPeer(header *proxyproto.Header, peer netip.Addr) netip.Addr {
	source, ok := header.SourceAddr.(*net.TCPAddr)
	if !ok || header.Command.IsLocal() {
		return peer
	}
	return source.AddrPort().Addr().Unmap()
}
