package main

import (
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"example.com/marketdata/internal/lab/must"
	"example.com/marketdata/internal/lab/process"
)

// asEdge, in the environment, makes the test binary the edge itself.
const asEdge = "TEST_AS_EDGE"

func TestMain(m *testing.M) {
	if os.Getenv(asEdge) != "" {
		main()
	}
	os.Exit(m.Run())
}

// edgeProcess is an edge of its own process.
func edgeProcess(t *testing.T, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), asEdge+"=1")
	return cmd
}

// TestDaemon: an edge serves and drains whatever becomes of the reader of its log: nobody reads (moby
// issue 22502, nerdctl issue 4591), or the reader ends (moby issue 19728, kapacitor issue 737). SIGHUP
// is as SIGTERM (beats issue 10704).
func TestDaemon(t *testing.T) {
	for name, c := range map[string]struct {
		gone bool
		end  syscall.Signal
	}{"nobody reads": {false, syscall.SIGTERM}, "the reader is gone": {true, syscall.SIGTERM},
		"nobody reads, hangup": {false, syscall.SIGHUP}, "hangup": {true, syscall.SIGHUP}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, w, err := process.FullPipe()
			must.OK(t, err)
			defer w.Close()
			defer r.Close()
			if c.gone {
				must.OK(t, r.Close())
			}
			admin := freeAddress(t, "127.0.0.1")
			cmd := edgeProcess(t, "--store", "file:"+t.TempDir(), "--listen", "127.0.0.1:0", "--admin", admin,
				"--drain-wait", "0s")
			cmd.Stderr = w
			must.OK(t, cmd.Start())
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			until(t, func() error { return get("http://" + admin + "/livez") })
			must.OK(t, cmd.Process.Signal(c.end))
			select {
			case err := <-ended:
				must.OK(t, err) // status 0
			case <-time.After(time.Minute):
				t.Error("it does not end")
			}
		})
	}
}

func get(url string) error {
	a, err := http.Get(url)
	if err == nil {
		a.Body.Close()
	}
	return err
}

func freeAddress(t *testing.T, host string) string {
	ln := must.Get(net.Listen("tcp", net.JoinHostPort(host, "0")))(t)
	defer ln.Close()
	return ln.Addr().String()
}

// until calls f until it returns nil.
func until(t *testing.T, f func() error) {
	t.Helper()
	err := errors.New("not called")
	for end := time.Now().Add(time.Minute); err != nil && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		err = f()
	}
	must.OK(t, err)
}
