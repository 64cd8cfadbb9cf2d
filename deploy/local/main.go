// Command local runs the whole service on this machine: a store, the builder's
// loop and an edge. It is what `make run` and `make run-minio` start.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"example.com/marketdata/internal/testserver"
)

type cli struct {
	Bin    string `default:"bin" help:"Folder of the builder and edge programs."`
	Data   string `default:".run" help:"Folder for the store, logs and the key; kept between runs."`
	Source string `default:"sim:?assets=2000&seed=1" help:"Where the market comes from (see builder build --help)."`
	MinIO  bool   `name:"minio" help:"Keep the data in a MinIO that is started here, instead of in a folder."`
	Listen string `default:"127.0.0.1:8080" help:"Public address of the edge; a free port is taken when it is in use."`
	Admin  string `default:"127.0.0.1:9090" help:"Admin address of the edge; likewise."`
}

func main() {
	var c cli
	kong.Parse(&c, kong.Name("local"), kong.Description("Runs a store, a builder and an edge on this machine until it is interrupted."), kong.DefaultEnvars("LOCAL"))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := c.run(ctx); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "local:", err)
		os.Exit(1)
	}
}

func (c *cli) run(ctx context.Context) error {
	data, err := filepath.Abs(c.Data)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(data, "log"), 0o755); err != nil {
		return err
	}
	m := &machine{cli: c, data: data, store: "file:" + filepath.Join(data, "store")}
	keyFile := filepath.Join(data, "key")
	if c.MinIO {
		keyFile = filepath.Join(data, "key-minio")
		server, err := m.startMinIO(ctx)
		if err != nil {
			return err
		}
		defer server.Close()
	}
	if err := m.history(ctx); err != nil {
		return err
	}
	key, err := m.key(ctx, keyFile)
	if err != nil {
		return err
	}
	listen, admin := free(c.Listen), free(c.Admin)
	loop, err := m.start(ctx, "builder", "run", "--source", c.Source, "--store", m.store)
	if err != nil {
		return err
	}
	defer loop.stop()
	edge, err := m.start(ctx, "edge", "--store", m.store, "--listen", listen, "--admin", admin, "--cache-dir", filepath.Join(data, "cache"), "--drain-wait", "0s")
	if err != nil {
		return err
	}
	defer edge.stop()
	if err := ready(ctx, "http://"+admin+"/readyz", edge); err != nil {
		return err
	}
	m.greet(listen, admin, key)
	select {
	case <-ctx.Done():
		fmt.Println("\nstopping")
		return nil
	case <-edge.done:
		return edge.failure()
	case <-loop.done:
		return loop.failure()
	}
}

// machine is what the parts share.
type machine struct {
	*cli
	data, store string
	env         []string
}

func (m *machine) startMinIO(ctx context.Context) (*testserver.Server, error) {
	dir := filepath.Join(m.data, "minio")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	server, err := testserver.RunMinIO(ctx, dir, port(free("127.0.0.1:9000")))
	if err != nil {
		return nil, err
	}
	m.store = fmt.Sprintf("s3://%s/live?endpoint=%s&region=us-east-1", testserver.Bucket, server.Endpoint)
	m.env = []string{"AWS_ACCESS_KEY_ID=" + server.AccessKey, "AWS_SECRET_ACCESS_KEY=" + server.SecretKey}
	fmt.Printf("MinIO       %s  (%s / %s)\n", server.Endpoint, server.AccessKey, server.SecretKey)
	return server, nil
}

func (m *machine) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(m.Bin, program), args...)
	cmd.Env = append(os.Environ(), m.env...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 20 * time.Second
	return cmd
}

// output runs a program to its end and returns what it prints.
func (m *machine) output(ctx context.Context, program string, args ...string) ([]byte, error) {
	cmd := m.command(ctx, program, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s %s: %w\n%s", program, strings.Join(args, " "), err, errs.String())
	}
	return out.Bytes(), nil
}

// moments are how long before now the past of a simulated market is built, so
// that every window, the board and the changes have something to show.
var moments = []time.Duration{
	364 * day, 300 * day, 240 * day, 180 * day, 120 * day, 89 * day, 60 * day, 45 * day, 29 * day, 20 * day, 13 * day, 6 * day, 3 * day,
	47 * time.Hour, 36 * time.Hour, 23 * time.Hour, 11 * time.Hour, 5 * time.Hour, 2 * time.Hour, 50 * time.Minute, 20 * time.Minute, 0,
}

const day = 24 * time.Hour

// history builds a simulated market's past into a store that is empty, or one
// snapshot of any other source. What is older than a store's newest snapshot
// the builder refuses, so a store that has one is left to the builder's loop.
func (m *machine) history(ctx context.Context) error {
	report, err := m.output(ctx, "builder", "verify", "--store", m.store, "--json")
	if err == nil {
		var found struct {
			Pointer *json.RawMessage `json:"pointer"`
		}
		if json.Unmarshal(report, &found) == nil && found.Pointer != nil {
			return nil
		}
	}
	now := time.Now().UTC()
	past := moments
	if !strings.HasPrefix(m.Source, "sim:") {
		past = moments[len(moments)-1:]
	}
	bar := progressbar.NewOptions(len(past), progressbar.OptionSetDescription("building the market's past"),
		progressbar.OptionSetVisibility(term.IsTerminal(int(os.Stderr.Fd()))), progressbar.OptionClearOnFinish(), progressbar.OptionSetWriter(os.Stderr))
	for _, ago := range past {
		// Made-up prices may move by any factor between two moments that are months apart.
		args := []string{"build", "--source", m.Source, "--store", m.store, "--log-level", "warn", "--json"}
		if len(past) > 1 {
			args = append(args, "--time", now.Add(-ago).Format(time.RFC3339))
		}
		if _, err := m.output(ctx, "builder", args...); err != nil {
			return err
		}
		_ = bar.Add(1) // a bar that cannot be drawn is no fault
	}
	_, err = m.output(ctx, "builder", "change", "--store", m.store)
	return err
}

// key returns the API key of earlier runs, or makes one. The store holds only
// its hash, so it is kept beside.
func (m *machine) key(ctx context.Context, file string) (string, error) {
	if b, err := os.ReadFile(file); err == nil {
		return strings.TrimSpace(string(b)), nil
	}
	out, err := m.output(ctx, "builder", "keys", "create", "--store", m.store, "--name", "local", "--json")
	if err != nil {
		return "", err
	}
	var created struct{ Key string }
	if err := json.Unmarshal(out, &created); err != nil || created.Key == "" {
		return "", fmt.Errorf("keys create printed %q", out)
	}
	return created.Key, os.WriteFile(file, []byte(created.Key+"\n"), 0o600)
}

// process is a program that runs until it is stopped.
type process struct {
	cmd  *exec.Cmd
	log  string
	done chan struct{}
	err  error // once done
}

func (m *machine) start(ctx context.Context, program string, args ...string) (*process, error) {
	p := &process{log: filepath.Join(m.data, "log", program+".log"), done: make(chan struct{})}
	f, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644)
	if err != nil {
		return nil, err
	}
	// The process outlives an interrupt for as long as it takes to stop well.
	p.cmd = m.command(context.WithoutCancel(ctx), program, args...)
	p.cmd.Stdout, p.cmd.Stderr = f, f
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is ours to pass on
	if err := p.cmd.Start(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	go func() {
		p.err = p.cmd.Wait()
		_ = f.Close()
		close(p.done)
	}()
	return p, nil
}

func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended by itself
	select {
	case <-p.done:
	case <-time.After(20 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// failure says why a program that should run has ended, with the end of its
// log.
func (p *process) failure() error {
	b, err := os.ReadFile(p.log)
	if err != nil {
		return err
	}
	return fmt.Errorf("%s ended: %v\n%s", filepath.Base(p.cmd.Path), p.err, b[max(0, len(b)-2000):])
}

// ready waits until the edge has a snapshot.
func ready(ctx context.Context, url string, p *process) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		if res, err := http.DefaultClient.Do(req); err == nil {
			_, _ = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-p.done:
			return p.failure()
		case <-ctx.Done():
			return fmt.Errorf("%s: not ready: %w", url, ctx.Err())
		case <-tick.C:
		}
	}
}

// free returns addr, or the same host with a free port when it is in use.
func free(addr string) string {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		host, _, splitErr := net.SplitHostPort(addr)
		if splitErr != nil {
			return addr
		}
		if ln, err = net.Listen("tcp", net.JoinHostPort(host, "0")); err != nil {
			return addr
		}
	}
	defer ln.Close()
	return ln.Addr().String()
}

func port(addr string) int {
	tcp, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		return 0
	}
	return tcp.Port
}

func (m *machine) greet(listen, admin, key string) {
	base := "http://" + listen
	fmt.Printf(`board       %s/
reference   %s/docs
status      http://%s/status
logs        %s

Paste one of these:

  curl -H 'X-Api-Key: %s' '%s/openapi/v1/assets?sort=rank&limit=3'
  curl -H 'X-Api-Key: %s' '%s/openapi/v1/trending'
  curl -H 'X-Api-Key: %s' '%s/openapi/v1/global'

Ctrl-C stops everything. What was built stays in %s.
`, base, base, admin, filepath.Join(m.data, "log"), key, base, key, base, key, base, m.data)
}
