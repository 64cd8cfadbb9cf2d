package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/publish"
	"example.com/marketdata/internal/cmdline"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/testserver"
	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"
)

// builderLease is the environment variable that sets the lease time of a builder that runs in its
// own process.
const builderLease = "TEST_BUILDER_LEASE"

// TestMain makes the test binary available in the tests' PATH as the program builder.
func TestMain(m *testing.M) {
	testscript.Main(withoutLeaks{m}, map[string]func(){"builder": func() {
		if d, err := time.ParseDuration(os.Getenv(builderLease)); err == nil {
			leaseTime = d
		}
		main()
	}})
}

// withoutLeaks runs tests, and fails if they leave a goroutine behind.
type withoutLeaks struct{ *testing.M }

func (m withoutLeaks) Run() int {
	code := m.M.Run()
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// builderProcess returns a command that runs a builder in its own process.
func builderProcess(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "builder", args...)
	cmd.Env = os.Environ()
	return cmd
}

// result is the result of a command.
type result struct {
	status         int
	stdout, stderr string
}

func command(t *testing.T, args ...string) result {
	t.Helper()
	return commandIn(t.Context(), args...)
}

func commandIn(ctx context.Context, args ...string) result {
	var stdout, stderr bytes.Buffer
	status := program().Do(ctx, args, &stdout, &stderr)
	return result{status, stdout.String(), stderr.String()}
}

// stopped returns a context that is already done.
func stopped() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// done runs a command that must succeed, and returns its standard output.
func done(t *testing.T, args ...string) string {
	t.Helper()
	r := command(t, args...)
	if r.status != cmdline.Done {
		t.Fatalf("builder %q: status %d: %s", args, r.status, r.stderr)
	}
	return r.stdout
}

// wants runs a command that must exit with the given status and print the text says. If the status
// is cmdline.Done, it must print this to standard output.
func wants(t *testing.T, status int, says string, args ...string) {
	t.Helper()
	r := command(t, args...)
	text := r.stdout
	if status != cmdline.Done {
		text += r.stderr
	}
	if r.status != status || !strings.Contains(text, says) {
		t.Errorf("builder %q: %+v, want status %d and %q", args, r, status, says)
	}
}

// object parses text, which must be one JSON object on one line.
func object(t *testing.T, text string) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal([]byte(text), &v); err != nil || strings.Count(text, "\n") != 1 {
		t.Fatalf("want one JSON object on one line: %v: %q", err, text)
	}
	return v
}

const simulated = "sim:?assets=60&seed=3"

// TestHelp checks that every command has help, with its flags, the names of variables, and an
// example.
func TestHelp(t *testing.T) {
	if r := command(t, "--version"); r.status != cmdline.Done || !strings.HasPrefix(r.stdout, "builder ") {
		t.Errorf("--version: status %d, %q", r.status, r.stdout)
	}
	for word, flags := range map[string][]string{"version": {"--version"}, "help": {"--help"},
		"help keys create": {"keys", "create", "--help"}, "keys help create": {"keys", "create", "--help"},
		"keys help": {"keys", "--help"}, "build help": {"build", "--help"}} {
		want := command(t, flags...)
		r := command(t, strings.Fields(word)...)
		if r.status != cmdline.Done || r.stdout != want.stdout || r.stdout == "" {
			t.Errorf("%s: status %d, %q", word, r.status, r.stdout)
		}
	}
	for _, name := range []string{
		"build", "run", "change", "keys create", "keys list", "keys revoke", "keys rotate", "verify", "status", "gc",
		"repair", "backup", "restore", "rollback", "backfill", "feed", "record", "source", "check",
	} {
		r := command(t, append(strings.Fields(name), "--help")...)
		wants := []string{
			"Usage: builder " + name, "BUILDER_CONFIG", "Example", "\n    builder " + name + " ", "--store=STORE",
			"s3://bucket",
		}
		if slices.Contains([]string{"feed", "record", "source", "check"}, name) {
			wants = append(wants[:4], "--source=SOURCE")
		}
		for _, want := range wants {
			if !strings.Contains(r.stdout, want) {
				t.Errorf("%s --help does not show %q:\n%s", name, want, r.stdout)
			}
		}
		if r.status != cmdline.Done || r.stderr != "" {
			t.Errorf("%s --help: status %d, stderr %q", name, r.status, r.stderr)
		}
	}
}

// TestHelpAll checks that rarely needed flags appear only in the help for all flags.
func TestHelpAll(t *testing.T) {
	const few = "--max-median-move="
	if r := command(t, "run", "--help"); strings.Contains(r.stdout, few) {
		t.Errorf("--help has %s", few)
	}
	for _, args := range [][]string{{"run", "help", "all"}, {"help", "all", "run"}} {
		if r := command(t, args...); r.status != cmdline.Done || !strings.Contains(r.stdout, few) {
			t.Errorf("%q: status %d, %s", args, r.status, r.stdout)
		}
	}
}

// TestBrokenStore checks that a damaged store causes exit status 1 and a message about the problem.
func TestBrokenStore(t *testing.T) {
	store := "file:" + filepath.Join(t.TempDir(), "store")
	done(t, "build", "--source", simulated, "--store", store)
	folder := strings.TrimPrefix(store, "file:")
	manifests, err := filepath.Glob(filepath.Join(folder, "manifests", "*"))
	if err != nil || len(manifests) == 0 {
		t.Fatal(manifests, err)
	}
	for _, m := range manifests {
		ok(t, os.Truncate(m, 10))
	}
	wants(t, cmdline.Failed, "problem: ", "verify", "--store", store)
	if r := command(t, "gc", "--store", store); r.status != cmdline.Failed {
		t.Errorf("gc of a broken store: %+v", r)
	}
}

// TestOpen checks that only commands that may create a store make its folder. Commands that only
// read must write nothing, not even a temporary file, which the modification time of a folder would
// reveal.
func TestOpen(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "store")
	looks := [][]string{{"verify"}, {"status"}, {"status", "--json"}, {"keys", "list"}, {"gc", "--dry-run"}}
	others := [][]string{
		{"change"}, {"gc"}, {"rollback", "--to", "2026-11-21T07:10:00Z"}, {"keys", "revoke", "x"},
		{"keys", "rotate", "x"},
	}
	for _, args := range append(looks, others...) {
		r := command(t, append(args, "--store", "file:"+path)...)
		if r.status != cmdline.Failed || !strings.Contains(r.stderr, path) ||
			!strings.Contains(r.stderr, "is the path right?") {
			t.Errorf("builder %q without a store: %+v", args, r)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("they made %v, %v", left, err)
	}
	tree := func() (all []string) {
		err := filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			all = append(all, fmt.Sprint(p, info.ModTime(), info.Size()))
			return err
		})
		ok(t, err)
		return all
	}
	done(t, "build", "--source", simulated, "--store", "file:"+path)
	before := tree()
	for _, args := range looks {
		done(t, append(args, "--store", "file:"+path)...)
		if after := tree(); !slices.Equal(before, after) {
			t.Errorf("builder %q wrote:\n%v\nbefore:\n%v", args, after, before)
		}
	}
}

// TestWrongBucket checks that errors name a wrong bucket, credential or endpoint immediately, and
// never contain a secret.
func TestWrongBucket(t *testing.T) {
	server := testserver.MinIO(t)
	for _, variable := range server.Env() {
		name, value, _ := strings.Cut(variable, "=")
		t.Setenv(name, value)
	}
	right := server.URL("a")
	done(t, "keys", "create", "--store", right, "--name", "first")
	for _, c := range []struct{ store, variable, value, says string }{
		{
			strings.Replace(right, testserver.Bucket, "no-such-bucket", 1), "X", "",
			`has no bucket "no-such-bucket": create it`,
		},
		{right, "AWS_ACCESS_KEY_ID", "nobody", "does not know the access key of AWS_ACCESS_KEY_ID"},
		{
			right, "AWS_SECRET_ACCESS_KEY", "hush-hush",
			"the secret key does not belong to the access key of AWS_ACCESS_KEY_ID",
		},
		{"s3://bucket?endpoint=http://127.0.0.1:1", "X", "", "http://127.0.0.1:1/bucket"},
	} {
		t.Run(c.says, func(t *testing.T) {
			t.Setenv(c.variable, c.value)
			for _, args := range [][]string{{"status"}, {"verify"}, {"keys", "list"}, {"change"}, {"gc"}} {
				r := command(t, append(args, "--store", c.store)...)
				if r.status != cmdline.Failed || !strings.Contains(r.stderr, c.says) ||
					strings.Contains(r.stderr, "hush-hush") {
					t.Errorf("builder %q: %+v", args, r)
				}
				if strings.Contains(c.says, ":1/") {
					break // this connection is retried
				}
				if strings.Contains(r.stderr, "trying again") {
					t.Errorf("builder %q: %s", args, r.stderr)
				}
			}
		})
	}
	done(t, "verify", "--store", right)
}

// TestRunStops starts builder run in its own process, and stops it during a build.
func TestRunStops(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	root := filepath.Join(t.TempDir(), "store")
	p := startRun(ctx, t, root, "--source", "sim:?assets=2000")
	p.until(t, "msg=build step=objects")
	ok(t, p.cmd.Process.Signal(syscall.SIGTERM))
	if err := p.wait(); err != nil {
		t.Errorf("stopped in the middle of a build: %v\n%s", err, p.log.String())
	}
	// An interrupted builder build, in contrast, has failed.
	if r := commandIn(stopped(), "build", "--source", simulated, "--store", "file:"+root); r.status != cmdline.Failed {
		t.Errorf("an interrupted build: %+v", r)
	}
}

var ok = must.OK

// TestGuardedByHand checks the command that builder run logs when a guard rail stops a build. The
// command must publish the refused snapshot with the refused mark, although the feed's own time is
// earlier and would be rounded down to a mark that is already published.
func TestGuardedByHand(t *testing.T) {
	dir := t.TempDir()
	root, feed := filepath.Join(dir, "store"), filepath.Join(dir, "feed")
	now := time.Now().UTC()
	at := func(ago time.Duration) string { return now.Add(-ago).Format(time.RFC3339) }
	store := []string{"--store", "file:" + root}
	// The previous mark is already published.
	done(t, append([]string{"build", "--source", simulated, "--time", at(artifacts.Step)}, store...)...)
	last := headOf(t, root).Manifest.Time
	done(t, "feed", "--source", simulated, "--time", at(9*time.Minute), "--out", feed)
	head := filepath.Join(feed, "feed.json") // it has the time of a mark; the test needs an unrounded one
	ok(t, os.WriteFile(head, regexp.MustCompile(`"time": *"[^"]*"`).ReplaceAll(must.Get(os.ReadFile(head))(t),
		[]byte(`"time":"`+at(9*time.Minute)+`"`)), 0o600))
	quotes := filepath.Join(feed, "quotes.ndjson")
	ok(t, os.WriteFile(quotes, bytes.Join(bytes.SplitAfter(must.Get(os.ReadFile(quotes))(t), []byte("\n"))[:15], nil),
		0o600))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	p := startRun(ctx, t, root, "--source", "feed:"+feed)
	p.until(t, "publish it once by hand")
	ok(t, p.cmd.Process.Signal(syscall.SIGTERM))
	ok(t, p.wait())
	found := regexp.MustCompile(`command="builder (build --time (\S+) --allow \S+)"`).FindStringSubmatch(p.log.String())
	if found == nil {
		t.Fatalf("no command in the log:\n%s", p.log.String())
	}
	done(t, append(append(strings.Fields(found[1]), store...), "--source", "feed:"+feed)...)
	if at := headOf(t, root).Manifest.Time; !at.After(last) || publish.Stamp(at) != found[2] {
		t.Errorf("snapshot %v after %v, want %s", at, last, found[2])
	}
}
