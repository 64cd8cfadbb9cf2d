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
	// sendBuffer is the size of the kernel's send buffer for a connection; the kernel doubles it to allow for
	// its own bookkeeping. By default the kernel would keep up to 4 MiB for a client that requests large
	// files and reads nothing. This size is enough for 1 MB/s with a round-trip time of 100 ms.
	sendBuffer = 128 << 10
	// unsentBuffer bounds the unsent part of the send buffer, if the system supports that. More data would
	// only wait in the buffer.
	unsentBuffer = 32 << 10
	// deadPeer is the time after which the kernel ends a connection whose peer acknowledges nothing. Without
	// it, a connection over a broken link would last a quarter of an hour.
	deadPeer = 40 * time.Second
)

// Listen listens at a TCP address of the form host:port. Pass the result to Serve.
func Listen(address string) (net.Listener, error) { return listen(address, setUnread) }

// ListenShared is like Listen, but other processes of this user may listen at the same address with
// ListenShared. The kernel distributes connections over them (Linux only). If a process closes its socket,
// the kernel resets the connections that wait in its queue, unless net.ipv4.tcp_migrate_req is 1. This cannot
// happen with a socket that systemd opened (see Adopt).
func ListenShared(address string) (net.Listener, error) {
	return listen(address, func(fd int) error { return errors.Join(setUnread(fd), setShared(fd)) })
}

// Adopt prepares a listener for Serve that another process has opened and keeps open. The next process to
// serve accepts the connections that this one leaves.
func Adopt(ln net.Listener) error {
	tcp, ok := ln.(*net.TCPListener)
	if !ok {
		return fmt.Errorf("%v is not a TCP socket", ln.Addr())
	}
	return control(tcp, setUnread)
}

func listen(address string, set func(fd int) error) (net.Listener, error) {
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error { return onFile(c, set) }}
	config.SetMultipathTCP(false) // MPTCP lacks some of these options
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
