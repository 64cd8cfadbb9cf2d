package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
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
	"go.uber.org/goleak"
)

// asBuilder, in the environment, makes the test binary the builder itself;
// asBuilderLease is then the time of its lease.
const (
	asBuilder      = "TEST_AS_BUILDER"
	asBuilderLease = "TEST_BUILDER_LEASE"
)

func TestMain(m *testing.M) {
	if os.Getenv(asBuilder) != "" {
		if d, err := time.ParseDuration(os.Getenv(asBuilderLease)); err == nil {
			leaseTime = d
		}
		main()
	}
	goleak.VerifyTestMain(m)
}

// builderProcess is a builder of its own process.
func builderProcess(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = append(os.Environ(), asBuilder+"=1")
	return cmd
}

// result is what a command did.
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

// stopped is a context that is done.
func stopped() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// done runs a command that is to succeed and returns its standard output.
func done(t *testing.T, args ...string) string {
	t.Helper()
	r := command(t, args...)
	if r.status != cmdline.Done {
		t.Fatalf("builder %q: status %d: %s", args, r.status, r.stderr)
	}
	return r.stdout
}

// wants runs a command that is to end with a status and say something; where it is done, on standard
// output.
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

// object reads one JSON object on one line.
func object(t *testing.T, text string) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal([]byte(text), &v); err != nil || strings.Count(text, "\n") != 1 {
		t.Fatalf("want one JSON object on one line: %v: %q", err, text)
	}
	return v
}

const simulated = "sim:?assets=60&seed=3"

// TestHelp: every command has help with its flags, how variables are named, and an example.
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

// TestHelpAll: the flags that few need are in the help for all, and only there.
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

// TestStore walks one store through the commands.
func TestStore(t *testing.T) {
	store := "file:" + filepath.Join(t.TempDir(), "store")
	done(t, "keys", "create", "--store", store, "--name", "first")
	for _, name := range []string{"verify", "change", "gc", "status"} {
		wants(t, cmdline.Done, "no snapshot", name, "--store", store)
	}
	if r := command(t, "rollback", "--store", store, "--to", "2026-11-21T07:10:00Z"); r.status != cmdline.Failed {
		t.Errorf("rollback of a store without a snapshot: status %d", r.status)
	}

	build := func(at string, more ...string) result {
		return command(t,
			append([]string{"build", "--source", simulated, "--store", store, "--json", "--time", at}, more...)...)
	}
	report := object(t, build("2026-11-21T07:19:59Z").stdout)
	for name, want := range map[string]any{
		"snapshot_time": "2026-11-21T07:10:00Z", "published": true, "sequence": 1.0, "database": "sim-60-3",
	} {
		if report[name] != want {
			t.Errorf("report: %s is %v, want %v", name, report[name], want)
		}
	}
	for _, name := range []string{
		"counts", "rejected", "objects_written", "bytes_written", "duration_ms", "unknown_members",
	} {
		if _, ok := report[name]; !ok {
			t.Errorf("report has no %s: %v", name, report)
		}
	}
	if counts := report["counts"].(map[string]any); counts["assets"] != 60.0 {
		t.Errorf("counts %v", counts)
	}
	if again := object(t, build("2026-11-21T07:10:00Z").stdout); again["published"] != false || again["reason"] == nil {
		t.Errorf("the same again: %v", again)
	}
	if r := build("2026-11-21T07:00:00Z"); r.status != cmdline.Failed || !strings.Contains(r.stderr, "older") ||
		object(t, r.stdout)["error"] == nil {
		t.Errorf("an older one: %+v", r)
	}
	if r := build("2026-11-21T07:10:00Z", "--trending-min-volume", "0.5"); r.status != cmdline.Failed ||
		!strings.Contains(r.stderr, "settings") {
		t.Errorf("other settings: %+v", r)
	}
	wants(t, cmdline.Done, "2026-11-21T07:20:00Z", "build", "--source", simulated, "--store", store, "--time",
		"2026-11-21T07:20:00Z")
	wants(t, cmdline.Done, "from 2026-11-21T07:10:00Z to 2026-11-21T07:20:00Z", "change", "--store", store)
	if c := object(t, done(t, "change", "--store", store, "--json")); c["database"] != "sim-60-3" {
		t.Errorf("change record %v", c)
	}
	if v := object(t, done(t, "verify", "--store", store, "--json")); v["snapshots"] != 2.0 ||
		len(v["problems"].([]any)) != 0 {
		t.Errorf("verify %v", v)
	}
	if g := object(t, done(t, "gc", "--store", store, "--json", "--dry-run")); g["deleted"] != 0.0 ||
		g["snapshot"] != true {
		t.Errorf("gc %v", g)
	}
	if r := object(t, done(t, "rollback", "--store", store, "--json", "--to",
		"2026-11-21T07:10:00Z")); r["published"] != true || r["sequence"] != 3.0 {
		t.Errorf("rollback %v", r)
	}
	wants(t, cmdline.Failed, "not retained", "rollback", "--store", store, "--to", "2026-11-21T07:20:00Z")
}

// TestBrokenStore: a broken store is status 1, with the problem.
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

// TestOpen: only commands that may be a store's first make its folder; those that
// only look write nothing, not even for a moment in what is there. (A folder's
// time tells of a file that came and went.)
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

// TestStatusDamagedPointer: a pointer that is there and cannot be read is no store without
// a snapshot.
func TestStatusDamagedPointer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	done(t, "keys", "create", "--name", "first", "--store", "file:"+path)
	wants(t, cmdline.Done, noSnapshot, "status", "--store", "file:"+path)
	done(t, "build", "--source", simulated, "--store", "file:"+path)
	ok(t, os.Truncate(filepath.Join(path, "current"), 100))
	if r := command(t, "status", "--store", "file:"+path); r.status != cmdline.Failed ||
		strings.Contains(r.stdout, noSnapshot) ||
		!strings.Contains(r.stdout, "pointer to the published snapshot cannot be read") {
		t.Errorf("with a damaged pointer: %+v", r)
	}
}

// TestWrongBucket: a wrong bucket, credential or endpoint is said by name, at once,
// and no secret is.
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
			`there is no bucket "no-such-bucket" at http://`,
		},
		{right, "AWS_ACCESS_KEY_ID", "nobody", "knows no access key like that of AWS_ACCESS_KEY_ID"},
		{
			right, "AWS_SECRET_ACCESS_KEY", "hush-hush",
			"the secret key is not that of the access key of AWS_ACCESS_KEY_ID",
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
					break // that one is tried again and again
				}
				if strings.Contains(r.stderr, "trying again") {
					t.Errorf("builder %q: %s", args, r.stderr)
				}
			}
		})
	}
	done(t, "verify", "--store", right)
}

// TestFailures are commands that are well formed and cannot be done: status 1.
func TestFailures(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	ok(t, os.WriteFile(file, nil, 0o644))
	store := "file:" + filepath.Join(dir, "store")
	for _, args := range [][]string{
		{"build", "--source", "feed:" + filepath.Join(dir, "none"), "--store", store},
		{"build", "--source", "feed:" + dir, "--store", store},
		{"build", "--source", simulated, "--store", "file:" + file},
		{"verify", "--store", "file:" + file},
		{"keys", "revoke", "--store", store, "none"},
	} {
		if r := command(t, args...); r.status != cmdline.Failed || r.stderr == "" {
			t.Errorf("builder %q: %+v, want status %d", args, r, cmdline.Failed)
		}
	}
}

// TestKeys walks one key through the commands.
// TestInit: a store is made with an identity and a key that is in force, once.
func TestInit(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "store")
	key := strings.TrimSpace(done(t, "init", "--store", "file:"+folder, "--name", "Me"))
	stored := must.Get(os.ReadFile(filepath.Join(folder, artifacts.KeysKey.String())))(t)
	set := must.Get(artifacts.ParseKeySet(stored))(t)
	if len(set.Keys) != 1 || set.Keys[0].Hash != artifacts.HashKey([]byte(key)) || set.Keys[0].Name != "Me" {
		t.Errorf("the key is %q, the set %+v", key, set)
	}
	must.Get(os.Stat(filepath.Join(folder, artifacts.IdentityKey.String())))(t)
	if r := command(t, "init", "--store", "file:"+folder); r.status != cmdline.Usage ||
		!strings.Contains(r.stderr, "already") {
		t.Errorf("a second time: status %d, %s", r.status, r.stderr)
	}
}

func TestKeys(t *testing.T) {
	store := "file:" + filepath.Join(t.TempDir(), "store")
	made := object(t,
		done(t, "keys", "create", "--store", store, "--name", "Board", "--rate", "5", "--burst", "9", "--expires",
			"2099-01-01T00:00:00Z", "--json"))
	for _, name := range []string{"id", "key", "name", "rate", "burst", "created", "expires"} {
		if made[name] == nil {
			t.Errorf("created key has no %s: %v", name, made)
		}
	}
	if made["rate"] != 5.0 || made["burst"] != 9.0 || made["expires"] != "2099-01-01T00:00:00Z" {
		t.Errorf("created %v", made)
	}
	id := made["id"].(string)
	plain := strings.TrimSpace(done(t, "keys", "create", "--store", store, "--name", "Plain"))
	if !strings.HasPrefix(plain, "mdk_live_") {
		t.Errorf("keys create prints %q", plain)
	}
	object(t, done(t, "keys", "rotate", "--store", store, id, "--overlap", "1h", "--json"))
	done(t, "keys", "revoke", "--store", store, id)
	var list []map[string]any
	ok(t, json.Unmarshal([]byte(done(t, "keys", "list", "--store", store, "--json")), &list))
	if len(list) != 3 || list[0]["id"] != id || list[0]["revoked"] == nil || list[1]["revoked"] != nil ||
		list[1]["rate"] != 100.0 {
		t.Errorf("list %v", list)
	}
	if _, shown := list[0]["key"]; shown {
		t.Error("the list shows keys")
	}
	if table := done(t, "keys", "list", "--store", store); strings.Count(table, "\n") != 4 ||
		strings.Contains(table, plain) {
		t.Errorf("table:\n%s", table)
	}
	if r := command(t, "keys", "create", "--store", store, "--name", "x", "--rate", "-1"); r.status == cmdline.Done {
		t.Error("a negative rate is taken")
	}
}

// TestManyKeys: the keys of one command are in a file of its owner's and in force, and no file that is
// there is replaced unasked.
func TestManyKeys(t *testing.T) {
	dir := t.TempDir()
	store, file := "file:"+filepath.Join(dir, "store"), filepath.Join(dir, "keys")
	create := func(more ...string) []string {
		return append([]string{"keys", "create", "--store", store, "--name", "load"}, more...)
	}
	must.OK(t, os.WriteFile(file, []byte("old\n"), 0o644))
	wants(t, cmdline.Failed, "give --overwrite", create("--count", "60", "--out", file)...)
	wants(t, cmdline.Failed, "not a regular file", create("--out", "/dev/null", "--overwrite")...)
	for _, count := range []string{"0", "-1", "1001", "x"} {
		if r := command(t, create("--count", count)...); r.status != cmdline.Usage {
			t.Errorf("--count %s: %+v", count, r)
		}
	}
	if _, err := os.Stat(strings.TrimPrefix(store, "file:")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("refused commands made a store: %v", err)
	}
	var made []struct{ ID, Key, Name string }
	ok(t, json.Unmarshal([]byte(done(t, create("--count", "60", "--out", file, "--overwrite", "--json")...)), &made))
	var listed []struct{ ID, Name string }
	ok(t, json.Unmarshal([]byte(done(t, "keys", "list", "--store", store, "--json")), &listed))
	lines := strings.Fields(string(must.Get(os.ReadFile(file))(t)))
	if info := must.Get(os.Stat(file))(t); info.Mode() != 0o600 || len(lines) != 60 || len(made) != 60 ||
		len(listed) != 60 {
		t.Fatalf("%v, %d lines, %d keys, %d listed", info.Mode(), len(lines), len(made), len(listed))
	}
	for i, k := range made {
		if k.Key != lines[i] || k.ID != listed[i].ID || k.Name != fmt.Sprintf("load-%02d", i+1) ||
			k.Name != listed[i].Name {
			t.Errorf("key %d: %+v, listed %+v, in the file %s", i, k, listed[i], lines[i])
		}
	}
	if out := done(t, create("--count", "3")...); strings.Count(out, "mdk_live_") != 3 ||
		strings.Count(out, "\n") != 3 {
		t.Errorf("without a file: %q", out)
	}
	one := filepath.Join(dir, "one")
	if out := done(t, create("--out", one)...); strings.Contains(out, "mdk_live_") || !strings.Contains(out, one) {
		t.Errorf("one key in a file: %q", out)
	}
}

// TestNewStore: the commands that may begin a store say that they do, once, and backup names what to do.
func TestNewStore(t *testing.T) {
	says := "new store"
	dir := t.TempDir()
	backup := filepath.Join(dir, "backup")
	wants(t, cmdline.Failed, "mkdir", "backup", "--store", "file:"+dir, "--to", "file:"+backup)
	must.OK(t, os.Mkdir(backup, 0o777))
	for i, args := range [][]string{
		{"build", "--source", simulated}, {"keys", "create", "--name", "x"}, {"backfill", "--source", simulated},
		{"restore", "--from", "file:" + backup},
	} {
		for _, path := range []string{"missing", "empty"} {
			store := filepath.Join(dir, fmt.Sprint(path, i))
			if path == "empty" && args[0] == "restore" { // the backup's store is none that is new
				says = "nothing was there: the backup is put there"
			}
			if path == "empty" {
				must.OK(t, os.Mkdir(store, 0o777))
			}
			for _, first := range []bool{true, false} {
				r := command(t, append(args, "--store", "file:"+store)...)
				if strings.Contains(r.stderr, says) != first || strings.Contains(r.stdout, says) {
					t.Errorf("%q, %s, first %v: %+v", args, path, first, r)
				}
			}
		}
		if i == 0 {
			done(t, "backup", "--store", "file:"+filepath.Join(dir, "missing0"), "--to", "file:"+backup)
		}
	}
}

// TestEnvironment: every flag is a variable, too, and the flag is stronger.
func TestEnvironment(t *testing.T) {
	t.Setenv("BUILDER_STORE", "file:"+filepath.Join(t.TempDir(), "store"))
	t.Setenv("BUILDER_SOURCE", simulated)
	t.Setenv("BUILDER_TIME", "2026-11-21T07:10:00Z")
	t.Setenv("BUILDER_JSON", "true")
	t.Setenv("BUILDER_MAX_BAD_ROWS", "7%")
	t.Setenv("BUILDER_TRENDING_MIN_MARKET_CAP", "12.5")
	if r := object(t, done(t, "build")); r["snapshot_time"] != "2026-11-21T07:10:00Z" {
		t.Errorf("build by variables: %v", r)
	}
	if r := object(t,
		done(t, "build", "--time", "2026-11-21T07:20:00Z")); r["snapshot_time"] != "2026-11-21T07:20:00Z" {
		t.Errorf("a flag beside its variable: %v", r)
	}
	t.Setenv("BUILDER_MAX_BAD_ROWS", "lots")
	if r := command(t, "build"); r.status != cmdline.Usage {
		t.Errorf("a variable that makes no sense: %+v", r)
	}
}

// TestRunStops starts builder run in a process of its own and asks it to stop.
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
	// Interrupting a build that was asked for once is not success.
	if r := commandIn(stopped(), "build", "--source", simulated, "--store", "file:"+root); r.status != cmdline.Failed {
		t.Errorf("an interrupted build: %+v", r)
	}
}

// TestAllowNames: a rule that there is not is a mistake that lists those there are.
func TestAllowNames(t *testing.T) {
	r := command(t, "build", "--source", simulated, "--store", "file:"+t.TempDir(), "--allow", "caps-lost,move")
	if r.status != cmdline.Usage ||
		!strings.Contains(r.stderr, "bad-rows, ahead, stale, shrink, moves, median, caps, volumes, caps-lost, renamed") {
		t.Errorf("status %d, %s", r.status, r.stderr)
	}
}

var ok = must.OK

// TestGuardedByHand: the command that a stopped builder run logs publishes what was stopped, at the mark
// that was, although the feed's own time is before it: an operator's build at 02:27 ended with "published
// already, from other rows", since build rounds the feed's time down to a published mark.
func TestGuardedByHand(t *testing.T) {
	dir := t.TempDir()
	root, feed := filepath.Join(dir, "store"), filepath.Join(dir, "feed")
	now := time.Now().UTC()
	at := func(ago time.Duration) string { return now.Add(-ago).Format(time.RFC3339) }
	store := []string{"--store", "file:" + root}
	// The mark before the present one is published.
	done(t, append([]string{"build", "--source", simulated, "--time", at(artifacts.Step)}, store...)...)
	last := headOf(t, root).Manifest.Time
	done(t, "feed", "--source", simulated, "--time", at(9*time.Minute), "--out", feed)
	head := filepath.Join(feed, "feed.json") // has the time of a mark
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

// TestRestoreIsNoted: after a restore an older pointer is known by what the restore published.
func TestRestoreIsNoted(t *testing.T) {
	dir := t.TempDir()
	root, backup := filepath.Join(dir, "store"), filepath.Join(dir, "backup")
	do := func(args ...string) []string {
		return append(args, "--store", "file:"+root, "--state-dir", filepath.Join(dir, "cache"))
	}
	done(t, do("build", "--source", simulated, "--time", "2026-11-21T07:10:00Z")...)
	current := filepath.Join(root, "current")
	older := must.Get(os.ReadFile(current))(t)
	ok(t, os.Mkdir(backup, 0o777))
	done(t, do("backup", "--to", "file:"+backup)...)
	ok(t, os.Remove(current))
	done(t, do("restore", "--from", "file:"+backup, "--above", "40")...)
	restored := headOf(t, root).Pointer.Sequence
	ok(t, os.WriteFile(current, older, 0o600))
	wants(t, cmdline.Failed, fmt.Sprintf("moved back from %d or more to 1; ", restored),
		do("build", "--source", simulated, "--time", "2026-11-21T07:20:00Z")...)
}
