package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/testserver"
)

// released is the commit of 1.0.0, the oldest release with which today's programs must work
// (COMPATIBILITY.md). It is given by its hash because a clone may have no tags.
const released = "acd733323f5395e9c019280523f39033cf005856"

// buildRelease returns a folder with the release's programs and the file of its scenario "mixed".
// It removes mistakes from the scenario, because today's load tester makes them with today's
// endpoints, and pins, because the release's load tester does not repeat pinned requests.
func buildRelease(t *testing.T) (string, string) {
	if out, err := exec.CommandContext(t.Context(), "git", "-C", root, "cat-file", "-e", released).
		CombinedOutput(); err != nil {
		t.Skipf("the release's commit is not here (git fetch --unshallow): %v %s", err, out)
	}
	source := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "bash", "-o", "pipefail", "-c",
		`git -C "$0" archive "$1" | tar -x -C "$2"`, root, released, source).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	file := filepath.Join(source, "loadtest/traffic/scenarios/mixed.yaml")
	scenario := must.Get(os.ReadFile(file))(t)
	must.OK(t, os.WriteFile(
		file, regexp.MustCompile(`(?m)^(bad_parameter|pinned):.*`).ReplaceAll(scenario, nil), 0o600))
	return buildPrograms(t, source), file
}

// TestUpgrade: builders and edges of the release and of today work together on one signed store, in
// all four combinations. Under the load of the release's clients, edges are upgraded one after
// another, the builder is upgraded before the last edge, and one edge is downgraded again. No
// request fails, every answer is right, and both versions accept the same keys. When the store has
// a later format, edges of both versions keep what they have and report why.
func TestUpgrade(t *testing.T) {
	if os.Getenv(longTest) != "1" {
		t.Skip("builds the release's programs: make test-long")
	}
	program(t, "haproxy")
	testserver.MinIO(t).Stop() // skips the test where it cannot start
	before, file := buildRelease(t)
	today := buildPrograms(t, root)
	s := must.Get(start(t.Context(), config{bin: before, data: t.TempDir(), source: "sim:?assets=400&seed=7",
		newest: time.Now(), ages: []time.Duration{24 * time.Hour, 0}, balanced: true, signed: true}))(t)
	t.Cleanup(s.stop)
	s.logs(t)

	keys := 1 // in force
	builder := func(ctx context.Context, args ...string) error {
		_, err := s.Output(ctx, "builder", append(args, "--store", s.Store)...)
		return err
	}
	publish := func(ctx context.Context) error {
		if err := s.publish(ctx); err != nil {
			return err
		}
		if err := builder(ctx, "change"); err != nil {
			return err
		}
		keys++
		return builder(ctx, "keys", "create", "--name", fmt.Sprint("number ", keys))
	}
	// both returns when is returns true for both edges.
	both := func(ctx context.Context, what string, is func(status) bool) error {
		return poll(ctx, what, func() (bool, error) {
			for _, e := range s.edges {
				if got, err := e.status(ctx); err != nil || !is(got) {
					return false, err
				}
			}
			return true, nil
		})
	}
	// follow publishes a snapshot, and returns when both edges have the new key.
	follow := func(ctx context.Context) error {
		if err := publish(ctx); err != nil {
			return err
		}
		return both(ctx, "the new key", func(s status) bool { return s.Keys.InForce == keys })
	}
	change := func(i int, bin string) func(ctx context.Context, served func()) error {
		return func(ctx context.Context, served func()) error {
			e := s.edges[i]
			if e.Stop(); e.Err() != nil {
				return fmt.Errorf("%s ended badly: %w", e.name, e.Err())
			}
			served()
			machine := s.reader
			machine.Bin, e.machine = bin, &machine
			if err := e.start(ctx); err != nil {
				return err
			}
			served()
			return follow(ctx)
		}
	}
	store := open(t, s.Machine)
	s.load(t, file, apart, []fault{
		{"edge 1 of today", change(0, today)},
		{"builder of today", func(ctx context.Context, served func()) error {
			s.Bin, s.activate = today, activateAfter
			// Today's simulated market differs from the release's, so guard rails would stop the
			// build.
			env := s.Env
			s.Env = append(slices.Clone(env), "BUILDER_FORCE=true")
			err := follow(ctx)
			s.Env = env
			return err
		}},
		{"store of a later format", func(ctx context.Context, served func()) error {
			pointer, version, err := store.Get(ctx, artifacts.CurrentKey, 1<<20)
			if err != nil {
				return err
			}
			later := bytes.Replace(artifacts.Unsigned(pointer), []byte(`"format":1,`), []byte(`"format":2,`), 1)
			if version, err = store.Swap(
				ctx, artifacts.CurrentKey, version, artifacts.Sign(artifacts.CurrentKey, later, s.sign)); err != nil {
				return err
			}
			if err := both(ctx, "why it is refused",
				func(s status) bool { return strings.Contains(s.LastError, "format 2") }); err != nil {
				return err
			}
			served()
			_, err = store.Swap(ctx, artifacts.CurrentKey, version, pointer)
			return err
		}},
		{"edge 1 goes back", change(0, before)},
		{"edge 2 of today", change(1, today)},
		{"edge 1 of today again", change(0, today)},
	})
	snapshot := fault{
		"a snapshot of today", func(ctx context.Context, served func()) error { served(); return follow(ctx) }}
	s.load(t, "mixed", together, []fault{snapshot, snapshot, snapshot})
	must.OK(t, builder(t.Context(), "verify"))
}
