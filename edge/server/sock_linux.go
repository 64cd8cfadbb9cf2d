package server

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// setUnread bounds the bytes that the kernel keeps for a slow peer, and how long it keeps them. Connections
// inherit these options from their listener.
func setUnread(fd int) error {
	return errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, sendBuffer),
		unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, unsentBuffer),
		unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(deadPeer/time.Millisecond)),
	)
}

// hungUp reports whether the peer has closed its side, even if some of its bytes are still unread.
func hungUp(fd uintptr) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
	n, err := unix.Poll(fds, 0)
	return n == 1 && err == nil
}

func setShared(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) }
