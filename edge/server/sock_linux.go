package server

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// setUnread sets how much the kernel holds of what a peer has not taken, and for how long.
// Connections inherit these options from their listener.
func setUnread(fd int) error {
	return errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, sendBuffer),
		unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, unsentBuffer),
		unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(deadPeer/time.Millisecond)),
	)
}

// unreadBytes returns how much memory the kernel uses for bytes that a socket's peer has not
// acknowledged: up to 1.4 times their number, if they were written in small pieces.
func unreadBytes(fd uintptr) int64 {
	n, err := unix.IoctlGetInt(int(fd), unix.TIOCOUTQ) // SIOCOUTQ, as it is called for sockets
	if err != nil {
		return 0
	}
	return int64(n) + int64(n)/2
}
