// Package process runs programs that end when this process does: servers for tests, and the service
// when it is tried out on one machine.
package process

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Process is a running program, or one that has ended.
type Process struct {
	cmd    *exec.Cmd
	tail   *tail
	exited chan struct{} // closed when the program has ended and err is set
	err    error
}

// Start starts cmd. Its output goes to cmd.Stdout, or is discarded if that is nil. On Linux the
// program is killed when this process dies, for whatever reason. It is in its own process group, so
// that this process decides what an interrupt from the terminal does. It runs as the user in
// cmd.SysProcAttr.Credential, if that is set.
func Start(cmd *exec.Cmd) (*Process, error) {
	if cmd.Stdout == nil {
		cmd.Stdout = io.Discard
	}
	p := &Process{cmd: cmd, tail: &tail{to: cmd.Stdout}, exited: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = p.tail, p.tail
	attr := attributes()
	if cmd.SysProcAttr != nil {
		attr.Credential = cmd.SysProcAttr.Credential
	}
	cmd.SysProcAttr = attr
	started := make(chan error, 1)
	go func() {
		// For Linux, the parent is the thread that started the program, so keep this thread for
		// as long as the program runs.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
			close(p.exited)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// Pid returns the process id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Exited returns a channel that is closed when the program has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Ended reports whether the program has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// Err returns the error with which the program ended, or nil for exit status 0. It may be called
// only after the program has ended.
func (p *Process) Err() error { return p.err }

// Tail returns the last 4 KiB of what the program printed.
func (p *Process) Tail() string { return p.tail.String() }

// terminate sends SIGTERM to the program and does not wait.
func (p *Process) terminate() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // An error means that the process has already ended.
}

// Stop asks the program to end, kills it if it is still running after the grace period, and returns
// when it has ended.
func (p *Process) Stop(grace time.Duration) {
	p.terminate()
	select {
	case <-p.exited:
	case <-time.After(grace):
		p.Kill()
	}
}

// Kill kills the program (SIGKILL) and returns when it has ended.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // An error means that the process has already ended.
	<-p.exited
}

const tailSize = 4 << 10

// tail forwards the output of a program and keeps the end of it.
type tail struct {
	to io.Writer

	mu sync.Mutex
	b  []byte
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, b...)
	t.b = t.b[max(0, len(t.b)-tailSize):]
	return t.to.Write(b)
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(bytes.ToValidUTF8(t.b, nil)))
}

// FullPipe returns a pipe that is full, so that writes to it block until something reads from it.
func FullPipe() (r, w *os.File, err error) {
	if r, w, err = os.Pipe(); err != nil {
		return nil, nil, err
	}
	if err = w.SetWriteDeadline(time.Now().Add(10 * time.Millisecond)); err == nil {
		_, err = w.Write(make([]byte, 1<<20)) // more than the capacity of a pipe
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = w.SetWriteDeadline(time.Time{})
	}
	return r, w, err
}

// FreeAddress returns an address, host:port, for a program that must be told where to listen. The
// port is free and stays free: the host is a loopback address that only this process uses, so that
// no test in another process takes the port in the meantime.
func FreeAddress() (string, error) {
	ln, err := net.Listen("tcp", net.JoinHostPort(loopback(os.Getpid()), "0"))
	if err != nil {
		return "", err
	}
	return ln.Addr().String(), ln.Close()
}
