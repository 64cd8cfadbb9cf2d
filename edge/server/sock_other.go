//go:build unix && !linux

package server

import (
	"errors"
	"syscall"
)

func setUnread(fd int) error {
	return syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_SNDBUF, sendBuffer)
}

// unreadBytes returns the most that there may be, as there is no asking.
func unreadBytes(uintptr) int64 { return sendBuffer }

func setShared(int) error  { return errors.New("processes share a port on Linux only") }
func migrates() bool       { return false }
func dropSYN(int) error    { return errors.ErrUnsupported }
func handshaking(int) bool { return true }
func pending(int) bool     { return false }
