package main

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/process"
)

// TestDaemon checks that a builder publishes and stops cleanly even if nothing reads its log (see
// moby issue 22502 and nerdctl issue 4591) or the reader exits (see moby issue 19728 and kapacitor
// issue 737). SIGHUP must have the same effect as SIGTERM (see beats issue 10704).
func TestDaemon(t *testing.T) {
	for name, c := range map[string]struct {
		gone bool
		end  syscall.Signal
	}{"nobody reads": {false, syscall.SIGTERM}, "the reader is gone": {true, syscall.SIGTERM},
		"nobody reads, hangup": {false, syscall.SIGHUP}, "interrupt": {true, syscall.SIGINT}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, address := t.TempDir(), must.Get(process.FreeAddress())(t)
			r, w := fullPipe(t)
			if c.gone {
				must.OK(t, r.Close())
			}
			cmd := builderProcess(t.Context(), "run", "--source", simulated, "--store", "file:"+store, "--metrics",
				address)
			cmd.Stderr = w
			must.OK(t, cmd.Start())
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			until(t, func() error { _, err := os.Stat(filepath.Join(store, "current")); return err })
			until(t, func() error {
				a, err := http.Get("http://" + address + "/livez")
				if err == nil {
					a.Body.Close()
				}
				return err
			})
			must.OK(t, cmd.Process.Signal(c.end))
			select {
			case err := <-ended:
				must.OK(t, err) // the exit status is 0
			case <-time.After(time.Minute):
				t.Error("it does not end")
			}
		})
	}
}

func fullPipe(t *testing.T) (r, w *os.File) {
	r, w, err := process.FullPipe()
	must.OK(t, err)
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

// until calls f until it returns nil. It fails the test after a minute.
func until(t *testing.T, f func() error) {
	t.Helper()
	err := errors.New("not called")
	for end := time.Now().Add(time.Minute); err != nil && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		err = f()
	}
	must.OK(t, err)
}
