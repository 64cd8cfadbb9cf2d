//go:build unix && !linux

package server

import "syscall"

func setUnread(fd int) error {
	return syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_SNDBUF, sendBuffer)
}

// unreadBytes returns the most that there may be, as there is no asking.
func unreadBytes(uintptr) int64 { return sendBuffer }
