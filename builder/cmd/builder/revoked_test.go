package main

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/signed"
	"example.com/marketdata/artifacts/stores"
	"example.com/marketdata/internal/cmdline"
	"example.com/marketdata/internal/test/buildtest"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/testedge"
	"example.com/marketdata/internal/test/testserver"
)

// revocation is a store with a backup that is older than its keys, and two edges.
type revocation struct {
	t                     *testing.T
	store, backup, folder string // folder contains the edges' cache folders
	plain                 artifacts.Store
	flags                 []string
	trust                 artifacts.Trust
	ids, keys             map[string]string // by name
}

// start starts an edge with the cache folder of the given name. If name is "", the edge starts with
// an empty folder.
func (r *revocation) start(name string) (c *client, stop func()) {
	dir := r.t.TempDir()
	if name != "" {
		dir = filepath.Join(r.folder, name)
	}
	reader := must.Get(stores.OpenReader(r.t.Context(), r.store))(r.t)
	if r.trust != nil {
		reader = signed.Reader(reader, r.trust)
	}
	cfg := testedge.Config{Reader: reader, CacheDir: dir, Poll: 5 * time.Millisecond, Trust: r.trust}
	cfg.Server.AddressRate, cfg.Server.AddressBurst = 1_000_000, 1_000_000
	e := testedge.Start(r.t, cfg)
	c = &client{r.t, e.URL, e.Admin, &http.Client{Timeout: watchFor, Transport: &http.Transport{}}}
	r.t.Cleanup(c.http.CloseIdleConnections)
	return c, e.Stop
}

func (r *revocation) builder(args ...string) string {
	return done(r.t, append(args, r.flags...)...)
}

func (r *revocation) create(name string) {
	made := object(r.t, r.builder("keys", "create", "--store", r.store, "--name", name, "--json"))
	r.ids[name], r.keys[name] = made["id"].(string), made["key"].(string)
}

// answers waits until an edge responds to the named keys with the given statuses.
func (r *revocation) answers(c *client, want map[string]int) {
	r.t.Helper()
	for name, status := range want {
		c.until(name, func() bool { return c.status(r.keys[name]) == status })
	}
}

// lose empties the store.
func (r *revocation) lose() {
	var keys []artifacts.Key
	must.OK(r.t, r.plain.List(r.t.Context(), "", func(i artifacts.Info) error {
		keys = append(keys, i.Key)
		return nil
	}))
	for _, key := range keys {
		must.OK(r.t, r.plain.Delete(r.t.Context(), key))
	}
}

// TestRestoreRevoked loses a store whose keys have changed since the backup, and restores it as the
// runbook says. Revoked keys, and rotated keys whose overlap is over, must stay invalid. Newer
// keys must stay in force. One of the edges was cut off since the backup.
func TestRestoreRevoked(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) string{
		"folder": func(t *testing.T) string { return "file:" + t.TempDir() },
		"signed": func(t *testing.T) string { return "file:" + t.TempDir() },
		"bucket": func(t *testing.T) string {
			server := testserver.Versitygw(t)
			for _, variable := range server.Env() {
				name, value, _ := strings.Cut(variable, "=")
				t.Setenv(name, value)
			}
			return server.URL("revoked")
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := &revocation{t: t, store: open(t), backup: "file:" + t.TempDir(), folder: t.TempDir(),
				ids: map[string]string{}, keys: map[string]string{}}
			r.plain = must.Get(stores.Open(t.Context(), r.store, stores.Options{}))(t)
			if name == "signed" {
				r.flags, r.trust = []string{"--sign-key", signKeyFile(t)}, artifacts.Trust{buildtest.SignKey.Trust()}
			}
			r.run()
		})
	}
}

func (r *revocation) run() {
	const ok, refused = http.StatusOK, http.StatusUnauthorized
	t := r.t
	r.builder("build", "--source", simulated, "--store", r.store, "--time", "2026-11-21T07:10:00Z")
	for _, name := range []string{"revoked", "rotated", "kept"} {
		r.create(name)
	}
	r.builder("backup", "--store", r.store, "--to", r.backup)
	away, cutOff := r.start("cut off")
	r.answers(away, map[string]int{"revoked": ok, "rotated": ok, "kept": ok})
	cutOff()

	r.builder("keys", "revoke", "--store", r.store, r.ids["revoked"])
	r.builder("keys", "rotate", "--store", r.store, r.ids["rotated"], "--overlap", "0s")
	r.create("made since")
	after := map[string]int{"revoked": refused, "rotated": refused, "kept": ok, "made since": ok}
	edge, _ := r.start("edge")
	r.answers(edge, after)
	r.lose()

	restore := []string{"restore", "--store", r.store, "--from", r.backup, "--above", "1"}
	wants(t, cmdline.Failed, "--keys-from", append(restore, r.flags...)...)
	r.builder(append(restore, "--keys-from", filepath.Join(r.folder, "cut off"),
		"--keys-from", filepath.Join(r.folder, "edge"))...)
	r.builder("verify", "--store", r.store)
	edge.until("the restored snapshot", func() bool { return edge.sequence() == 1001 })
	r.answers(edge, after)
	fresh, _ := r.start("")
	r.answers(fresh, after)
}

// TestRestoreBesideRun checks that restore refuses a store on which a builder is running, with any
// flags, and succeeds after the builder was killed.
func TestRestoreBesideRun(t *testing.T) {
	defer func(before time.Duration) { leaseTime = before }(leaseTime)
	leaseTime = 6 * time.Second // as in startRun
	dir := t.TempDir()
	store, backup := filepath.Join(dir, "store"), filepath.Join(dir, "backup")
	done(t, "build", "--source", simulated, "--store", "file:"+store, "--time", "2026-11-21T07:10:00Z")
	must.OK(t, os.Mkdir(backup, 0o755))
	done(t, "backup", "--store", "file:"+store, "--to", "file:"+backup)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	run := startRun(ctx, t, store)
	run.until(t, gotLease)
	run.until(t, "msg=built")
	restore := []string{"restore", "--store", "file:" + store, "--from", backup}
	for _, flags := range [][]string{{}, {"--above", "1"}, {"--keys-from-backup"}} {
		before := headOf(t, store).Pointer.Sequence
		wants(t, cmdline.Failed, "stop it first", slices.Concat(restore, flags)...)
		if now := headOf(t, store).Pointer.Sequence; now != before {
			t.Errorf("%q: sequence %d after %d", flags, now, before)
		}
	}
	must.OK(t, run.cmd.Process.Kill())
	_ = run.wait() // an error, since it was killed
	done(t, restore...)
}

// TestRunAfterRollback checks that after a rollback the next snapshot has the time of the first
// mark after the withdrawn times, as the runbook says. One of the withdrawn times is in the future.
func TestRunAfterRollback(t *testing.T) {
	store := t.TempDir()
	mark := time.Now().UTC().Truncate(artifacts.Step)
	build := func(steps time.Duration) string {
		return done(t, "build", "--source", simulated, "--store", "file:"+store, "--force", "--time",
			mark.Add(steps*artifacts.Step).Format(time.RFC3339))
	}
	for steps := range time.Duration(3) {
		build(steps - 1)
	}
	done(t, "rollback", "--store", "file:"+store, "--to", mark.Add(-artifacts.Step).Format(time.RFC3339))
	before := headOf(t, store).Pointer.Sequence
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	run := startRun(ctx, t, store)
	run.until(t, "withdrawn; want a later time")
	must.OK(t, run.cmd.Process.Kill())
	_ = run.wait() // an error, since it was killed
	if now := headOf(t, store).Pointer.Sequence; now != before {
		t.Errorf("sequence %d after %d", now, before)
	}
	if out := build(2); !strings.Contains(out, "is published") {
		t.Errorf("the mark after the withdrawn ones: %s", out)
	}
	text := must.Get(os.ReadFile("../../../deploy/runbook.md"))(t)
	if !strings.Contains(string(text), "The next snapshot has the time of the first mark after the withdrawn ones") {
		t.Error("the runbook does not say when the next snapshot comes")
	}
}
