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
	// handshakeTime bounds how long a listener that leaves a shared port waits for the handshakes
	// under way: longer than most round trips, and shorter than the second after which clients
	// repeat a SYN that it dropped. It looks every handshakeLook.
	handshakeTime = 250 * time.Millisecond
	handshakeLook = 10 * time.Millisecond
)

// Listen listens for TCP connections on an address, host:port, for Serve.
func Listen(address string) (net.Listener, error) { return listen(address, setUnread) }

// shared is a listener on a port that other processes may listen on, too.
type shared struct{ *net.TCPListener }

// ListenShared is Listen on a port that other processes of this user may share, by ListenShared; the
// kernel spreads connections over them. Drain loses none of this process' share. Linux only.
func ListenShared(address string) (net.Listener, error) {
	ln, err := listen(address, func(fd int) error { return errors.Join(setUnread(fd), setShared(fd)) })
	if err != nil {
		return nil, err
	}
	return shared{ln.(*net.TCPListener)}, nil
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

// leave has the kernel give this listener no more connections, without losing one: Accept returns
// those whose handshake has begun, and then os.ErrDeadlineExceeded. It reports false where Close alone
// loses none, or where it can do nothing.
//
// A socket that is closed resets what waits in its queue, and handshakes that have not ended. Nothing
// takes it out of the kernel's choice before. So it drops each SYN instead, and the client, which
// repeats it after a second, gets another process. net.ipv4.tcp_migrate_req=1 spares clients that: the
// kernel then moves the queue and the handshakes to the other processes.
func (ln shared) leave() bool {
	if migrates() || control(ln.TCPListener, dropSYN) != nil {
		return false
	}
	end := time.Now().Add(handshakeTime)
	// At first a SYN that came before may still be on its way through the kernel.
	time.Sleep(handshakeLook)
	for port := ln.Addr().(*net.TCPAddr).Port; handshaking(port) && time.Now().Before(end); {
		time.Sleep(handshakeLook)
	}
	return ln.SetDeadline(time.Now()) == nil
}

// more reports that connections wait although the deadline is over, and gives Accept time for them.
func (ln shared) more() (some bool) {
	err := control(ln.TCPListener, func(fd int) error { some = pending(fd); return nil })
	return err == nil && some && ln.SetDeadline(time.Now().Add(handshakeLook)) == nil
}
