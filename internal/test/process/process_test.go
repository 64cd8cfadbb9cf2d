package process

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/internal/test/must"
)

// run starts a shell script, and returns after it has printed a line.
func run(t *testing.T, script string) (*Process, *bytes.Buffer) {
	t.Helper()
	out := &bytes.Buffer{}
	first := make(chan struct{})
	cmd := exec.Command("sh", "-c", script)
	cmd.Stdout = &notify{to: out, first: first}
	p := must.Get(Start(cmd))(t)
	t.Cleanup(p.Kill)
	select {
	case <-first:
	case <-time.After(time.Minute):
		t.Fatal("it prints nothing")
	}
	return p, out
}

// notify closes first at the first write.
type notify struct {
	to    *bytes.Buffer
	first chan struct{}
}

func (n *notify) Write(b []byte) (int, error) {
	if n.to.Len() == 0 {
		close(n.first)
	}
	return n.to.Write(b)
}

func TestStop(t *testing.T) {
	for name, tc := range map[string]struct {
		script string
		end    func(*Process)
		err    string // "" means exit status 0
	}{
		"ends by itself": {script: "echo up", end: func(p *Process) { <-p.Exited() }},
		"ends when asked": {script: "trap 'echo bye >&2; exit 0' TERM; echo up; while :; do sleep 0.01; done",
			end: func(p *Process) { p.Stop(time.Minute) }},
		"does not end": {script: "trap '' TERM; echo up; while :; do sleep 0.01; done",
			end: func(p *Process) { p.Stop(time.Millisecond) }, err: "signal: killed"},
		"is killed": {script: "echo up; exec sleep 1000", end: (*Process).Kill, err: "signal: killed"},
		"is stopped twice": {script: "echo up; exec sleep 1000",
			end: func(p *Process) { p.Kill(); p.Stop(time.Minute); p.Kill() }, err: "signal: killed"},
		"fails":            {script: "echo up; exit 4", end: func(p *Process) { <-p.Exited() }, err: "exit status 4"},
		"prints very much": {script: "seq 100000; echo last", end: func(p *Process) { <-p.Exited() }},
	} {
		t.Run(name, func(t *testing.T) {
			p, out := run(t, tc.script)
			tc.end(p)
			<-p.Exited()
			if err := p.Err(); (err == nil) != (tc.err == "") || err != nil && err.Error() != tc.err {
				t.Errorf("ended with %v, want %q", err, tc.err)
			}
			// All output of both streams is forwarded, and its end is kept.
			if tail := p.Tail(); len(tail) > tailSize || !strings.HasSuffix(strings.TrimSpace(out.String()), tail) ||
				tail == "" {
				t.Errorf("kept %q of %d bytes", tail, out.Len())
			}
		})
	}
}
