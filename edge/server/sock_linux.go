package server

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/net/bpf"
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

// hungUp reports that the peer has closed its side, whatever of it is still unread.
func hungUp(fd uintptr) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
	n, err := unix.Poll(fds, 0)
	return n == 1 && err == nil
}

func setShared(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) }

// migrates reports whether the kernel moves what waits for a socket that is closed to others that
// share its port (since 5.14).
func migrates() bool {
	b, err := os.ReadFile("/proc/sys/net/ipv4/tcp_migrate_req")
	return err == nil && string(bytes.TrimSpace(b)) == "1"
}

// dropSYN has a listening socket ignore attempts to connect.
func dropSYN(fd int) error {
	const flags, syn, ack = 13, 0x02, 0x10 // of the TCP header, where the filter's view begins
	program, err := bpf.Assemble([]bpf.Instruction{
		bpf.LoadAbsolute{Off: flags, Size: 1},
		bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: syn | ack},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: syn, SkipTrue: 1},
		bpf.RetConstant{Val: 1 << 18}, // longer than any packet
		bpf.RetConstant{Val: 0},
	})
	if err != nil {
		return err
	}
	filter := make([]unix.SockFilter, len(program))
	for i, in := range program {
		filter[i] = unix.SockFilter{Code: in.Op, Jt: in.Jt, Jf: in.Jf, K: in.K}
	}
	return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
		&unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]})
}

// handshaking reports whether a client of a local port has not confirmed the answer to its SYN yet;
// or that this is not known.
func handshaking(port int) bool {
	const synReceived = "03"
	local := fmt.Sprintf(":%04X", port)
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		b, err := os.ReadFile(table)
		if err != nil && !errors.Is(err, os.ErrNotExist) { // there is none without IPv6
			return true
		}
		for line := range bytes.Lines(b) {
			if f := strings.Fields(string(line)); len(f) > 3 && strings.HasSuffix(f[1], local) && f[3] == synReceived {
				return true
			}
		}
	}
	return false
}

// pending reports whether connections wait for Accept.
func pending(fd int) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	return n == 1 && err == nil
}
