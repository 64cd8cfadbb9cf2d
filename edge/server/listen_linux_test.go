package server

import (
	"net"
	"testing"

	"example.com/marketdata/internal/lab/must"
	"golang.org/x/sys/unix"
)

// TestListenOptions: connections have the bounds of the listener: on what the kernel keeps
// of unread answers, and on how long it waits for a peer that is out of reach.
func TestListenOptions(t *testing.T) {
	ln := must.Get(Listen("127.0.0.1:0"))(t)
	defer ln.Close()
	dial(t, ln.Addr().String())
	c := must.Get(ln.Accept())(t)
	defer c.Close()
	raw := must.Get(c.(*net.TCPConn).SyscallConn())(t)
	for name, o := range map[string]struct{ level, option, want int }{
		"SO_SNDBUF":         {unix.SOL_SOCKET, unix.SO_SNDBUF, 2 * sendBuffer},
		"TCP_NOTSENT_LOWAT": {unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, unsentBuffer},
		"TCP_USER_TIMEOUT":  {unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, 40_000},
	} {
		must.OK(t, raw.Control(func(fd uintptr) {
			if got, err := unix.GetsockoptInt(int(fd), o.level, o.option); got != o.want || err != nil {
				t.Errorf("%s is %d, %v; want %d", name, got, err, o.want)
			}
		}))
	}
}
