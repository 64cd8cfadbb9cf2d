package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/process"
)

// asEdge is an environment variable that makes the test binary run as the edge.
const asEdge = "TEST_AS_EDGE"

func TestMain(m *testing.M) {
	if os.Getenv(asEdge) != "" {
		main()
	}
	os.Exit(m.Run())
}

// edgeProcess returns a command that runs an edge in a process of its own.
func edgeProcess(t *testing.T, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), asEdge+"=1")
	return cmd
}

// TestDaemon checks that an edge serves and drains even if nobody reads its log (moby issue 22502, nerdctl
// issue 4591) or the reader has exited (moby issue 19728, kapacitor issue 737). SIGHUP has the same effect as
// SIGTERM (beats issue 10704).
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
			admin := must.Get(process.FreeAddress())(t)
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
				must.OK(t, err) // exit status 0
			case <-time.After(time.Minute):
				t.Error("it does not end")
			}
		})
	}
}

func get(url string) error {
	a, err := (&http.Client{Timeout: time.Second}).Get(url)
	if err == nil {
		a.Body.Close()
	}
	return err
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

// TestSockets checks that an edge serves clients on every socket that systemd passes, except on the one named
// admin, which is the admin listener (systemd issue 8049; sd_listen_fds(3) for the variables).
func TestSockets(t *testing.T) {
	var plain net.ListenConfig
	plain.SetMultipathTCP(false) // as systemd does
	six := "127.0.0.3"
	if ln, err := net.Listen("tcp", "[::1]:0"); err == nil {
		six = "::1"
		ln.Close()
	}
	for names, want := range map[string]string{
		"edge.socket:edge.socket:admin": "", "a:admin:b:c": "", "public": "", "admin:admin": "want one",
	} {
		t.Run(names, func(t *testing.T) {
			t.Parallel()
			cmd := edgeProcess(t, "--store", "file:"+t.TempDir(), "--listen", "127.0.0.1:0",
				"--admin", "127.0.0.1:0", "--drain-wait", "0s")
			var public []string
			all := strings.Split(names, ":")
			for i, name := range all {
				host := []string{"127.0.0.1", six, "127.0.0.2"}[i%3]
				ln := must.Get(plain.Listen(t.Context(), "tcp", net.JoinHostPort(host, "0")))(t)
				defer ln.Close()
				f := must.Get(ln.(*net.TCPListener).File())(t)
				defer f.Close()
				cmd.ExtraFiles = append(cmd.ExtraFiles, f)
				if name != "admin" {
					public = append(public, ln.Addr().String())
				}
			}
			cmd.Env = append(cmd.Env, fmt.Sprintf("LISTEN_FDS=%d", len(all)), "LISTEN_FDNAMES="+names)
			cmd.Args = append([]string{"sh", "-c", `LISTEN_PID=$$ exec "$0" "$@"`}, cmd.Args...)
			cmd.Path = must.Get(exec.LookPath("sh"))(t)
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			must.OK(t, cmd.Start())
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			if want == "" {
				for _, address := range public {
					until(t, func() error { return get("http://" + address + "/openapi/v1/quotes") })
				}
				must.OK(t, cmd.Process.Signal(syscall.SIGTERM))
			}
			if err := <-ended; (err == nil) != (want == "") || !strings.Contains(stderr.String(), want) {
				t.Errorf("%v: %s", err, &stderr)
			}
		})
	}
}

// TestHealthWithProxy checks that edge health does not use a proxy from the environment to reach its own
// machine, at any of the machine's addresses (traefik issue 12455).
func TestHealthWithProxy(t *testing.T) {
	hosts := []string{"127.0.0.1"}
	for _, a := range must.Get(net.InterfaceAddrs())(t) {
		if ip := a.(*net.IPNet).IP; ip.IsGlobalUnicast() {
			hosts = append(hosts, ip.String())
		}
	}
	if name, err := os.Hostname(); err == nil {
		hosts = append(hosts, name)
	}
	for _, host := range hosts {
		ln, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
		if err != nil {
			continue // not an address of this machine after all
		}
		ready := &httptest.Server{Listener: ln, Config: &http.Server{
			Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}}
		ready.Start()
		defer ready.Close()
		_, port, _ := net.SplitHostPort(ln.Addr().String())
		for _, variable := range []string{"HTTP_PROXY", "http_proxy"} {
			cmd := edgeProcess(t, "health", "--admin", net.JoinHostPort(host, port))
			cmd.Env = append(cmd.Env, variable+"=http://127.0.0.1:1", "NO_PROXY=", "no_proxy=")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s at %s: %v: %s", variable, host, err, out)
			}
		}
	}
}
