package main

import (
	"bufio"
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/dirstore"
	"example.com/marketdata/builder/ledger"
	"example.com/marketdata/builder/publish"
	"example.com/marketdata/internal/test/buildtest"
	"example.com/marketdata/internal/test/must"
)

// TestLease starts two builders on a new store and kills the one that has the lease in a step of
// its first build. Until then the other one must not build. Then it must take over and publish the
// mark's snapshot. When it stops, it must give the lease back. A test of package builder does the
// same on a simulated clock, for days.
func TestLease(t *testing.T) {
	for range max(1, killsOf()/20) {
		root := filepath.Join(t.TempDir(), "store")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		key := signKeyFile(t)
		holder, other := startRun(ctx, t, root, "--sign-key", key), startRun(ctx, t, root, "--sign-key", key)
		for held := false; !held; {
			select {
			case line, ok := <-holder.lines:
				held = !ok || holder.saw(line, gotLease)
			case line, ok := <-other.lines:
				if held = !ok || other.saw(line, gotLease); held {
					holder, other = other, holder
				}
			}
		}
		stage := stages[rand.IntN(len(stages)-1)]
		if stage != stages[0] {
			holder.until(t, "msg=build step="+stage)
		}
		ok(t, holder.cmd.Process.Kill())
		other.until(t, gotLease)
		if log := other.log.String(); strings.Contains(log, "msg=build ") {
			t.Errorf("two builders worked; the second says\n%s", log)
		}
		store := must.Get(dirstore.Open(root, dirstore.Options{}))(t)
		for published := false; !published; {
			head := must.Get(publish.ReadHead(ctx, store))(t)
			if published = head.Pointer != nil; !published {
				other.until(t, "")
				continue
			}
			buildtest.SameLog(t, store, []string{buildtest.Leaf(head.Pointer)}, true)
		}
		if report, err := artifacts.Check(ctx, store, ledger.Refs, nil); err != nil || len(report.Problems) > 0 {
			t.Errorf("killed in %s: %v, %q", stage, err, report.Problems)
		}
		ok(t, other.cmd.Process.Signal(syscall.SIGTERM))
		must.OK(t, other.wait())
		_ = holder.wait() // an error, since it was killed
		if lease, _, err := store.Get(ctx, artifacts.LeaseKey, 1<<10); err != nil ||
			!strings.Contains(string(lease), `"owner":""`) {
			t.Errorf("the lease was not given back: %s, %v", lease, err)
		}
		cancel()
	}
}

// gotLease is part of the line that a builder logs when it gets the lease.
const gotLease = `msg="got the lease"`

// runProcess is a builder that runs in its own process.
type runProcess struct {
	cmd   *exec.Cmd
	lines chan string // of its log; closed at the log's end
	log   strings.Builder
}

// startRun starts builder run on a folder. more are further flags.
func startRun(ctx context.Context, t *testing.T, root string, more ...string) *runProcess {
	t.Helper()
	if err := os.MkdirAll(root, 0o755); err != nil { // run does not make the folder
		t.Fatal(err)
	}
	cmd := builderProcess(ctx, append([]string{"run", "--source", simulated, "--store", "file:" + root}, more...)...)
	cmd.Env = append(cmd.Env, builderLease+"=6s")
	return startProcess(t, cmd)
}

func startProcess(t *testing.T, cmd *exec.Cmd) *runProcess {
	t.Helper()
	p := &runProcess{cmd: cmd, lines: make(chan string, 1000)}
	log := must.Get(cmd.StderrPipe())(t)
	ok(t, cmd.Start())
	go func() {
		defer close(p.lines)
		for s := bufio.NewScanner(log); s.Scan(); {
			p.lines <- s.Text()
		}
	}()
	return p
}

// saw records a line and reports whether it contains part.
func (p *runProcess) saw(line, part string) bool {
	p.log.WriteString(line + "\n")
	return strings.Contains(line, part)
}

// until reads the log up to the first line that contains part. If no line contains it, the test fails.
func (p *runProcess) until(t *testing.T, part string) {
	t.Helper()
	if !p.reach(part) {
		t.Fatalf("the log ended without %q:\n%s", part, p.log.String())
	}
}

// reach is like until, but returns false if the process exits first.
func (p *runProcess) reach(part string) bool {
	for line := range p.lines {
		if p.saw(line, part) {
			return true
		}
	}
	return false
}

// wait reads the log to its end, and waits for the process to exit.
func (p *runProcess) wait() error {
	for p.reach("") {
	}
	return p.cmd.Wait()
}
