//go:build unix

package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"
)

const (
	// sendBuffer is what the kernel may keep of answers that a connection's peer
	// has not taken (of which it counts twice as much). Left to itself it keeps
	// 4 MiB, for a client that asks for large files and reads nothing. This much is
	// enough for 1 MB/s over a round trip of a tenth of a second.
	sendBuffer = 128 << 10
	// unsentBuffer is how much of that may be what was not sent yet, where the
	// kernel has such a bound: more would only wait there.
	unsentBuffer = 32 << 10
	// deadPeer is how long a peer may confirm nothing before the kernel ends the
	// connection: one whose link is down, and that nobody would otherwise miss for a
	// quarter of an hour.
	deadPeer = 40 * time.Second
)

// Listen listens for TCP connections on an address, host:port, for Serve.
func Listen(address string) (net.Listener, error) { return listen(address, setUnread) }

// ListenShared is Listen on a port that other processes of this user may share, by ListenShared; the
// kernel spreads connections over them. Linux only. A process that closes its socket resets the
// connections that wait in its queue, unless net.ipv4.tcp_migrate_req is 1; a socket of systemd (Adopt)
// never does.
func ListenShared(address string) (net.Listener, error) {
	return listen(address, func(fd int) error { return errors.Join(setUnread(fd), setShared(fd)) })
}

// Adopt prepares a listener for Serve that another process opened and keeps open: what
// this one does not accept, a successor will.
func Adopt(ln net.Listener) error {
	tcp, ok := ln.(*net.TCPListener)
	if !ok {
		return fmt.Errorf("%v is no TCP socket", ln.Addr())
	}
	return control(tcp, setUnread)
}

func listen(address string, set func(fd int) error) (net.Listener, error) {
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error { return onFile(c, set) }}
	config.SetMultipathTCP(false) // it has not all of these options
	return config.Listen(context.Background(), "tcp", address)
}

func control(ln *net.TCPListener, f func(fd int) error) error {
	raw, err := ln.SyscallConn()
	if err != nil {
		return err
	}
	return onFile(raw, f)
}

func onFile(c syscall.RawConn, f func(fd int) error) error {
	var of error
	if err := errors.Join(c.Control(func(fd uintptr) { of = f(int(fd)) }), of); err != nil {
		return fmt.Errorf("set options of the socket: %w", err)
	}
	return nil
}
