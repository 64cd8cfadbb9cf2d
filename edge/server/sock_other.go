//go:build unix && !linux

package server

import (
	"errors"
	"syscall"
)

func setUnread(fd int) error {
	return syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_SNDBUF, sendBuffer)
}

// hungUp reports whether the peer has closed its side and all its bytes have been read.
func hungUp(fd uintptr) bool {
	var b [1]byte
	n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	return n == 0 && err == nil || err != nil && err != syscall.EAGAIN && err != syscall.EINTR
}

func setShared(int) error { return errors.New("sharing a port between processes requires Linux") }
