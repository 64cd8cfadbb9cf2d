//go:build unix

package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
)

// sendBuffer is what the kernel may keep of answers that a connection's peer
// has not taken (of which it counts twice as much). Left to itself it keeps
// 4 MiB, for a client that asks for large files and reads nothing: memory that no
// account sees. This much is enough for 1 MB/s over a round trip of a tenth of a
// second.
const sendBuffer = 128 << 10

// Listen listens for TCP connections on an address, host:port, for Serve.
func Listen(address string) (net.Listener, error) {
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var set error
		// Connections have the buffer of the listener that accepted them.
		err := c.Control(func(fd uintptr) {
			set = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_SNDBUF, sendBuffer)
		})
		if err = errors.Join(err, set); err != nil {
			return fmt.Errorf("set the send buffer: %w", err)
		}
		return nil
	}}
	return config.Listen(context.Background(), "tcp", address)
}
