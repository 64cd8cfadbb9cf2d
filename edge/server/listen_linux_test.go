package server

import (
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"example.com/marketdata/internal/test/must"
	"golang.org/x/sys/unix"
)

// TestListenOptions checks that connections inherit the listener's bounds on what the kernel keeps of unread
// answers and on how long it waits for an unreachable peer.
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

// TestShared checks that two servers can share a port, and that a server that does not share cannot listen on
// it.
func TestShared(t *testing.T) {
	ln := must.Get(ListenShared("127.0.0.1:0"))(t)
	addr := ln.Addr().String()
	if ln, err := Listen(addr); err == nil {
		ln.Close()
		t.Error("a port that is shared is taken by one who does not share")
	}
	lns := []net.Listener{ln, must.Get(ListenShared(addr))(t)}
	var servers []*Server
	var served sync.WaitGroup
	for _, ln := range lns {
		s := newServer(t, Config{})
		servers = append(servers, s)
		served.Go(func() {
			if err := s.Serve(ln); err != nil {
				t.Error(err)
			}
		})
	}
	until(t, func() bool { return servers[0].listener.Load() != nil && servers[1].listener.Load() != nil })
	for servers[0].listener.Load().number.Load() == 0 || servers[1].listener.Load().number.Load() == 0 {
		must.OK(t, askOnce(addr))
	}
	for _, s := range servers {
		must.OK(t, s.Drain(t.Context()))
	}
	served.Wait()
}

// askOnce sends a request on a new connection.
func askOnce(addr string) error {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = io.WriteString(c, request("GET", assets, "Connection: close"))
	b, readErr := io.ReadAll(c)
	if err != nil || readErr != nil || !strings.HasSuffix(string(b), string(stubBody)) {
		return fmt.Errorf("%q, %v, %v", b, err, readErr)
	}
	return nil
}

// TestAdopt checks that a listener that another process holds still accepts connections after its server has
// drained.
func TestAdopt(t *testing.T) {
	held := must.Get(Listen("127.0.0.1:0"))(t).(*net.TCPListener)
	defer held.Close()
	var between *client
	for range 2 {
		file := must.Get(held.File())(t)
		ln := must.Get(net.FileListener(file))(t)
		must.OK(t, file.Close())
		must.OK(t, Adopt(ln))
		s, served := newServer(t, Config{}), make(chan error, 1)
		go func() { served <- s.Serve(ln) }()
		must.OK(t, askOnce(held.Addr().String()))
		if between != nil {
			expect(t, 200, "", between.receive("GET"))
			between.Close()
		}
		must.OK(t, s.Drain(t.Context()))
		must.OK(t, <-served)
		between = dial(t, held.Addr().String()).send(request("GET", assets))
	}
	unixLn := must.Get(net.Listen("unix", t.TempDir()+"/socket"))(t)
	defer unixLn.Close()
	if err := Adopt(unixLn); err == nil {
		t.Error("a socket that is no TCP socket is taken")
	}
}
