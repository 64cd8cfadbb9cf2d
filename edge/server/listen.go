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
func Listen(address string) (net.Listener, error) {
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var set error
		err := c.Control(func(fd uintptr) { set = setUnread(int(fd)) })
		if err = errors.Join(err, set); err != nil {
			return fmt.Errorf("bound what the kernel keeps of unread answers: %w", err)
		}
		return nil
	}}
	config.SetMultipathTCP(false) // it has not all of these options
	return config.Listen(context.Background(), "tcp", address)
}
