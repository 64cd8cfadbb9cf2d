//go:build unix

package server

import (
	"net"
	"os"
	"syscall"
)

// Write writes p as net.Conn does, but a connection that must wait for its peer
// takes a slot meanwhile, or gives up when there is none: it holds a large
// buffer.
func (c *conn) Write(p []byte) (int, error) {
	w := &c.writer
	if w.raw == nil {
		return c.Conn.Write(p)
	}
	w.out, w.err = p, nil
	err := w.raw.Write(w.try)
	n := len(p) - len(w.out)
	w.out = nil
	if w.holds {
		w.holds = false
		c.listener.slow.release()
	}
	if err == nil {
		err = w.err
	}
	return n, err
}

// tryWrite writes what the socket takes, and reports whether it is done.
func (c *conn) tryWrite(fd uintptr) bool {
	w := &c.writer
	for len(w.out) > 0 {
		n, err := syscall.Write(int(fd), w.out)
		switch {
		case n > 0:
			w.out = w.out[n:]
		case err == syscall.EINTR:
		case err == syscall.EAGAIN:
			if !w.holds && !c.listener.slow.acquire() {
				w.err = errTooManySlow
				return true
			}
			w.holds = true
			return false
		default:
			w.err = os.NewSyscallError("write", err)
			return true
		}
	}
	return true
}

// prepareWriter looks whether the connection lets itself be written to
// directly.
func (c *conn) prepareWriter() {
	tcp, ok := c.Conn.(*net.TCPConn)
	if !ok {
		return
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return
	}
	c.writer.raw, c.writer.try = raw, c.tryWrite
}
