package testserver

import (
	"bytes"
	"io"
	"os/exec"
	"runtime"
	"strings"
	"sync"
)

// process is a running program.
type process struct {
	cmd    *exec.Cmd
	tail   *tail
	exited chan struct{} // closed when the program has ended and err is set
	err    error
}

// launch starts cmd. Where the system can do it, the program dies with this
// process, however that dies.
func launch(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, tail: &tail{to: cmd.Stdout}, exited: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = p.tail, p.tail
	dieWithParent(cmd)
	started := make(chan error, 1)
	go func() {
		// To Linux the parent is the thread that started the program: keep it
		// for as long as the program runs.
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

// stop kills the program and returns when it is gone.
func (p *process) stop() {
	p.cmd.Process.Kill() // an error says that it is gone already
	<-p.exited
}

const tailSize = 4 << 10

// tail passes on what a program prints and keeps the last of it.
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
