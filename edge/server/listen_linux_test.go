package server

import (
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
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

// TestShared: a server that leaves a port loses no connection to those that share it: neither one that
// waits to be accepted, nor one that comes before it has closed.
func TestShared(t *testing.T) {
	const early, late = 20, 20
	ln := must.Get(ListenShared("127.0.0.1:0"))(t).(shared)
	addr := ln.Addr().String()
	if ln, err := Listen(addr); err == nil {
		ln.Close()
		t.Error("a port that is shared is taken by one who does not share")
	}
	var waiting []*client
	for range early {
		waiting = append(waiting, dial(t, addr).send(request("GET", assets)))
	}
	other, otherServed := newServer(t, Config{}), make(chan error, 1)
	otherLn := must.Get(ListenShared(addr))(t)
	go func() { otherServed <- other.Serve(otherLn) }()

	s, served := newServer(t, Config{}), make(chan error, 1)
	left := ln.leave() // else the kernel moves them
	var asking sync.WaitGroup
	for range late {
		asking.Go(func() {
			if err := askOnce(addr); err != nil {
				t.Error(err)
			}
		})
	}
	if left {
		go func() { served <- s.Serve(ln) }()
		until(t, func() bool { return s.listener.Load() != nil })
		must.OK(t, s.Drain(t.Context()))
		must.OK(t, <-served)
		if got := s.listener.Load().number.Load(); got != early {
			t.Errorf("%d connections were accepted, want %d", got, early)
		}
	}
	_ = ln.Close()
	for _, c := range waiting {
		expect(t, 200, "", c.receive("GET"))
		c.Close()
	}
	asking.Wait()
	must.OK(t, other.Drain(t.Context()))
	must.OK(t, <-otherServed)
}

// askOnce asks on a connection of its own.
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

// TestAdopt: a listener that another process holds goes on taking connections when its server has
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
