package cmdline_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"example.com/marketdata/internal/test/local"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/testserver"
	"golang.org/x/sync/errgroup"
)

var update = flag.Bool("update", false, "write testdata/mistakes.txt anew")

// setup is a script that creates the files that the mistakes need.
const setup = `
builder build --source 'sim:?assets=30&seed=1' --time 2026-11-21T07:20:00Z --store file:store
builder keys create --store file:store --name one >key
builder feed --source 'sim:?assets=30&seed=1' --time 2026-11-21T07:20:00Z --out feed
cp -r feed norows && for f in norows/*.ndjson; do : >$f; done
cp -r feed broken && sed -i 's/"key"/key/' broken/assets.ndjson
cp -r feed typo && sed -i 's/"market_cap"/"marketcap"/; 3s/"key":"sim-2"/"key":"sim_2"/' typo/quotes.ndjson
mkdir array csv && cp feed/feed.json array && (echo [; sed '$!s/$/,/' feed/assets.ndjson; echo ]) >array/assets.ndjson
printf 'Key,name\n1,Apple\n' >csv/assets.csv
mkdir empty noread nowrite && chmod 000 noread && chmod 555 nowrite
: >empty.key; echo not-a-key >wrong.key; builder keygen sign.key >trust.key; builder keygen secret.key >/dev/null && chmod 000 secret.key
builder build --source 'sim:?assets=30&seed=1' --time 2026-11-21T07:20:00Z --store file:signed --sign-key sign.key
printf 'lisen: :8080\n' >typo.yaml; printf 'store: file:store\ncache-size: 64\n' >size.yaml; printf '\tstore' >tab.yaml
`

// build builds programs of the project into a folder that all users can read.
func build(t *testing.T, packages ...string) string {
	t.Helper()
	bin := t.TempDir()
	for _, p := range packages {
		name := path.Base(p)
		if strings.Contains(p, "/bench/") {
			name = "bench-" + name // as make does
		}
		cmd := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(bin, name), p)
		cmd.Dir = "../.."
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	return bin
}

// TestMistakes runs the command after each $ of testdata/mistakes.txt in a shell, with the built
// programs, a MinIO server and the files of setup. It compares the output and the exit status with
// the text below the command. A line that begins with "until TEXT:" is for a program that keeps
// running: the test stops the program when it has printed TEXT, and compares only the line with
// TEXT.
func TestMistakes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bin := build(
		t, "./builder/cmd/builder", "./edge/cmd/edge", "./loadtest/cmd/loadtest", "./internal/bench/builder",
		"./internal/test/demo", "./internal/test/stack", "./internal/test/soak")
	minio := testserver.MinIO(t)
	endpoint := must.Get(url.Parse(minio.Endpoint))(t)
	// To MinIO, a request whose date is an hour old seems to come from a client with a slow clock.
	behind := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(endpoint)
		r.Out.Header.Set("X-Amz-Date", time.Now().UTC().Add(-time.Hour).Format("20060102T150405Z"))
	}})
	defer behind.Close()
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.TLS = &tls.Config{}
	secure.StartTLS()
	defer secure.Close()

	live, admin, ready := local.Free("127.0.0.1:0"), local.Free("127.0.0.1:0"), local.Free("127.0.0.1:0")
	env := append(minio.Env(), "PATH="+bin+":"+os.Getenv("PATH"), "HOME="+dir, "TMPDIR="+dir,
		"MINIO="+minio.Endpoint, "HOST="+endpoint.Host, "BEHIND="+behind.URL, "TLS="+secure.Listener.Addr().String(),
		"USED="+endpoint.Host, "FREE="+local.Free("127.0.0.1:0"), "BIN="+bin, "BUILDER_LOG_LEVEL=error",
		"EDGE_MAX_CONNS=100", "EDGE_DRAIN_WAIT=0s", "EDGE_LISTEN=127.0.0.1:0", "EDGE_ADMIN=127.0.0.1:0",
		"DEMO_LISTEN=127.0.0.1:0", "DEMO_ADMIN=127.0.0.1:0", "LIVE="+live, "ADMIN="+admin, "READY="+ready)
	sh := func(ctx context.Context, script string, out *watch) int {
		cmd := exec.CommandContext(ctx, "bash", "-c", script)
		cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, env, out, out
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if os.Getuid() == 0 { // permissions do not restrict root
			cmd.SysProcAttr.Credential = &syscall.Credential{Uid: 65534, Gid: 65534}
		}
		cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
		var exit *exec.ExitError
		if err := cmd.Run(); err != nil && !errors.As(err, &exit) && ctx.Err() == nil {
			t.Fatal(err)
		}
		return cmd.ProcessState.ExitCode()
	}
	must.OK(t, errors.Join(os.Chmod(dir, 0o777), os.Chmod(filepath.Dir(dir), 0o755), os.Chmod(bin, 0o755)))
	if out := new(watch); sh(t.Context(), "set -eu\n"+setup, out) != 0 {
		t.Fatal(out.shown())
	}
	var running sync.WaitGroup
	defer running.Wait()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	for text, script := range map[string]string{
		"key set is confirmed": "exec edge --store file:empty --admin $ADMIN",
		"snapshot is current":  "exec edge --store file:store --listen $LIVE --admin $READY",
	} {
		begun, begin := context.WithCancel(ctx)
		defer begin()
		running.Go(func() { sh(ctx, script, &watch{text: text, found: begin}) })
		<-begun.Done()
	}
	scrub := func(text string) string {
		for name, value := range map[string]string{dir: "DIR", endpoint.Host: "HOST", live: "LIVE", admin: "ADMIN",
			ready: "READY", behind.Listener.Addr().String(): "BEHIND", secure.Listener.Addr().String(): "TLS"} {
			text = strings.ReplaceAll(text, name, value)
		}
		for _, r := range [][2]string{
			{`(?m)^time=\S+ |"time":"[^"]+",`, ""}, {`127\.0\.0\.1:\d{4,5}\b`, "ADDRESS"},
			{`\d+ requests failed`, "N requests failed"}, {`has no role: .*`, "has no role: …"},
			{`user \d+,`, "user N,"}, {`by key "\w+"`, "by key …"}} {
			text = regexp.MustCompile(r[0]).ReplaceAllString(text, r[1])
		}
		return text
	}

	const file = "testdata/mistakes.txt"
	b := must.Get(os.ReadFile(file))(t)
	parts := make([]string, 0, bytes.Count(b, []byte("\n"))) // large enough that append never moves the parts
	var trying errgroup.Group
	trying.SetLimit(8)
	for line := range strings.Lines(string(b)) {
		script, is := strings.CutPrefix(line, "$ ")
		if !is && !strings.HasPrefix(line, "#") {
			continue
		}
		i := len(parts)
		parts = append(parts, line)
		if !is {
			continue
		}
		trying.Go(func() error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			out := &watch{found: cancel}
			if rest, goesOn := strings.CutPrefix(script, "until "); goesOn {
				out.text, script, _ = strings.Cut(rest, ": ")
			}
			status := sh(ctx, script, out)
			parts[i] = fmt.Sprintf("%s%s[%d]\n\n", line, scrub(out.shown()), status)
			return nil
		})
	}
	_ = trying.Wait() // returns no errors
	got := strings.Join(parts, "")
	if *update {
		must.OK(t, os.WriteFile(file, []byte(got), 0o644))
	} else if got != string(b) {
		t.Errorf("it says now (go test ./internal/cmdline -run TestMistakes -update writes it):\n%s", got)
	}
	if _, err := os.Stat(filepath.Join(dir, "made")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("wrong usage made a store: %v", err)
	}
}

// watch records the output, and calls found when the output contains text.
type watch struct {
	mu    sync.Mutex
	all   bytes.Buffer
	text  string
	found func()
}

func (w *watch) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, err := w.all.Write(b)
	if w.text != "" && bytes.Contains(w.all.Bytes(), []byte(w.text)) {
		w.found()
	}
	return n, err
}

// shown returns the line that contains text, or all output if no line does.
func (w *watch) shown() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	for line := range strings.Lines(w.all.String()) {
		if w.text != "" && strings.Contains(line, w.text) {
			return line
		}
	}
	return w.all.String()
}
