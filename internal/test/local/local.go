// Package local runs the programs of the project on this machine, each as a process with a log
// file, and prepares a store for them. The commands behind make run, make stack and make loadtest
// use it.
package local

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/internal/cmdline"
	"example.com/marketdata/internal/test/process"
	"example.com/marketdata/internal/test/testserver"
)

// stopGrace is how long a program may take to end after it has been asked to stop. An edge drains
// in less time.
const stopGrace = 25 * time.Second

// Machine describes where programs run and what they share. Copies may differ in Env: programs get
// the credentials of the copy from which they are started.
type Machine struct {
	Bin   string   // folder with the project's programs
	Data  string   // folder for everything that the programs write; it must exist
	Store string   // URL of the object store
	Env   []string // NAME=value, added to this process' environment
	Under []string // command that starts the programs, such as nice -n 19 or taskset -c 0
}

// StartS3 starts an S3 server with its data below m.Data and makes it the store of m. The server
// listens on port 9000 of 127.0.0.1 or, if that is in use, on a free port. Close stops it.
func (m *Machine) StartS3(ctx context.Context, kind testserver.Kind) (*testserver.Server, error) {
	dir := filepath.Join(m.Data, kind.String())
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	addr, err := net.ResolveTCPAddr("tcp", Free("127.0.0.1:9000"))
	if err != nil {
		return nil, err
	}
	server, err := testserver.Run(ctx, kind, dir, addr.Port)
	if err != nil {
		return nil, err
	}
	m.Store, m.Env = server.URL("live"), server.Env()
	return server, nil
}

// Sign creates a signing key in m.Data. From then on, builders of m sign with it and edges of m
// trust only this key.
func (m *Machine) Sign() (artifacts.SignKey, error) {
	key, err := artifacts.NewSignKey(rand.Reader)
	file := filepath.Join(m.Data, "sign.key")
	if err == nil {
		err = os.WriteFile(file, []byte(key.Text()), 0o600)
	}
	m.Env = append(m.Env, "BUILDER_SIGN_KEY="+file, "EDGE_TRUST_KEY="+key.Trust().Text())
	return key, err
}

// command returns the command for a program in m.Bin, or for a program named by its path.
func (m *Machine) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	if !filepath.IsAbs(program) {
		program = filepath.Join(m.Bin, program)
	}
	argv := slices.Concat(m.Under, []string{program}, args)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), m.Env...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopGrace
	return cmd
}

// Output runs a program of the project to its end and returns its standard output, even if it
// fails. The error then contains its standard error.
func (m *Machine) Output(ctx context.Context, program string, args ...string) ([]byte, error) {
	cmd := m.command(ctx, program, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return out.Bytes(),
			fmt.Errorf("%s %s: %w\n%s", program, strings.Join(args, " "), err, strings.TrimSpace(errs.String()))
	}
	return out.Bytes(), nil
}

// Year lists the ages of a few snapshots. They are chosen so that every window, the board and the
// changes have something to show, and history has blocks of all ages.
var Year = []time.Duration{
	364 * day, 300 * day, 240 * day, 180 * day, 120 * day, 89 * day, 60 * day, 45 * day, 29 * day, 20 * day, 13 * day,
	6 * day, 3 * day,
	47 * time.Hour, 36 * time.Hour, 23 * time.Hour, 11 * time.Hour, 5 * time.Hour, 2 * time.Hour, 50 * time.Minute,
	20 * time.Minute, 0,
}

const day = 24 * time.Hour

// BuildPast builds the past of a simulated market into an empty store. ages lists the ages of the
// snapshots at endTime, oldest first. If ages is nil, BuildPast builds everything that a store keeps
// of a year. For any other source it builds one snapshot. It does nothing if the store has a
// snapshot, because the builder refuses older ones.
func (m *Machine) BuildPast(ctx context.Context, source string, endTime time.Time, ages []time.Duration) error {
	if built, err := m.built(ctx); built || err != nil {
		return err
	}
	at := func(ago time.Duration) string { return "--time=" + endTime.Add(-ago).UTC().Format(time.RFC3339) }
	var builds [][]string
	switch simulated := strings.HasPrefix(source, "sim:"); {
	case !simulated:
		builds = [][]string{{source}}
	case ages == nil:
		with := "?"
		if strings.Contains(source, "?") {
			with = "&"
		}
		builds = [][]string{{source + with + "past=year", at(0)}}
	default:
		for _, ago := range ages {
			builds = append(builds, []string{source, at(ago)})
		}
	}
	step := cmdline.Bar(len(builds), "building the market's past")
	for _, args := range builds {
		args = append([]string{"build", "--store", m.Store, "--log-level", "warn", "--json", "--source"}, args...)
		if _, err := m.Output(ctx, "builder", args...); err != nil {
			return err
		}
		step()
	}
	_, err := m.Output(ctx, "builder", "change", "--store", m.Store)
	return err
}

// built reports whether the store has a snapshot.
func (m *Machine) built(ctx context.Context) (bool, error) {
	// A folder that does not exist yet counts as an empty store. "builder change" would
	// fail on it, since that does not create the folder.
	if dir, inFolder := strings.CutPrefix(m.Store, "file:"); inFolder {
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
	}
	// Use a command that release 1.0.0 also has.
	record, err := m.Output(ctx, "builder", "change", "--store", m.Store, "--json")
	return string(bytes.TrimSpace(record)) != "null", err
}

// Key returns the API key in file, which an earlier run created. If there is none, Key creates one
// with the given flags of builder keys create. The store has only the hash of a key, so the file
// keeps the key itself.
func (m *Machine) Key(ctx context.Context, file string, flags ...string) (string, error) {
	if b, err := os.ReadFile(file); err == nil {
		return strings.TrimSpace(string(b)), nil
	}
	out, err := m.Output(ctx, "builder",
		append([]string{"keys", "create", "--store", m.Store, "--name", "local", "--json"}, flags...)...)
	if err != nil {
		return "", err
	}
	var created struct{ Key string }
	if err := json.Unmarshal(out, &created); err != nil || created.Key == "" {
		return "", fmt.Errorf("keys create printed %q", out)
	}
	return created.Key, os.WriteFile(file, []byte(created.Key+"\n"), 0o600)
}

// Program is a program that runs until it is stopped.
type Program struct {
	name string
	log  *os.File
	*process.Process
}

// Start starts a program of the project, or one named by its path. Its output goes to the file that
// [Machine.Log] names.
func (m *Machine) Start(name, program string, args ...string) (*Program, error) {
	// An interrupt does not cancel the context, because the program needs time to stop after it.
	return m.StartCommand(name, m.command(context.Background(), program, args...))
}

// StartCommand starts any command in the same way.
func (m *Machine) StartCommand(name string, cmd *exec.Cmd) (*Program, error) {
	file := m.Log(name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return nil, err
	}
	log, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644)
	if err != nil {
		return nil, err
	}
	cmd.Stdout = log
	p, err := process.Start(cmd)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", name, err), log.Close())
	}
	return &Program{name, log, p}, nil
}

// Log returns the path of the log file of the program that was started under the given name.
func (m *Machine) Log(name string) string { return filepath.Join(m.Data, "log", name+".log") }

// Stop asks the program to end and waits until it has. If that takes too long, Stop kills it.
func (p *Program) Stop() {
	p.Process.Stop(stopGrace)
	_ = p.log.Close()
}

// Kill kills the program and returns when it is gone.
func (p *Program) Kill() {
	p.Process.Kill()
	_ = p.log.Close()
}

// Failure returns an error that says why a program has ended although it should still run, with the
// end of its log.
func (p *Program) Failure() error {
	return fmt.Errorf("%s ended: %v\n%s", p.name, p.Err(), p.Tail())
}

// readyWithin is how long to wait for a program to become ready.
const readyWithin = 30 * time.Second

// Await waits until p answers a GET of url with status 200, for at most half a minute.
func Await(ctx context.Context, url string, p *Program) error {
	return p.await(ctx, url, 50*time.Millisecond, func(ctx context.Context) bool {
		_, err := Get(ctx, url)
		return err == nil
	})
}

// Get returns the body of the answer to a GET of url. A status other than 200 is an error.
func Get(ctx context.Context, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", url, res.Status, body)
	}
	return body, err
}

// AwaitListener waits, in the same way as Await, until p accepts connections at addr.
func AwaitListener(ctx context.Context, addr string, p *Program) error {
	return p.await(ctx, addr, 5*time.Millisecond, func(ctx context.Context) bool {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		return err == nil && conn.Close() == nil
	})
}

func (p *Program) await(
	ctx context.Context, what string, pause time.Duration, ready func(context.Context) bool,
) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for !ready(ctx) {
		select {
		case <-p.Exited():
			return p.Failure()
		case <-ctx.Done():
			return fmt.Errorf("%s: not ready: %w\n%s", what, ctx.Err(), p.Tail())
		case <-tick.C:
		}
	}
	return nil
}

// Free returns addr or, if it is in use, the same host with a free port.
func Free(addr string) string {
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
