package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"example.com/marketdata/internal/test/must"
)

// TestOwner checks that commands that root runs in a service's folders, as in the runbook, do not
// lock out the service: everything they make must belong to the owner of the folder (see pgbackrest
// issue 2812).
func TestOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root writes into other users' folders and is let")
	}
	const service = 65534
	t.Chdir(t.TempDir())
	must.OK(t, os.Chmod("..", 0o755)) // the test's own folder, which other users must be able to enter
	for _, dir := range []string{"home", "home/store", "home/cache", "home/backup"} {
		must.OK(t, os.Mkdir(dir, 0o755))
		must.OK(t, os.Chown(dir, service, service))
	}
	// Copy the program, since other users cannot enter the folder of the test binary.
	program := must.Get(filepath.Abs("builder"))(t)
	must.OK(t, os.WriteFile(program, must.Get(os.ReadFile(os.Args[0]))(t), 0o755))
	const build = "build --state-dir home/cache --store file:home/store --source " + simulated + " --time "
	steps := func(at string) []string {
		return []string{
			"keys create --store file:home/store --name one", build + at, "gc --store file:home/store",
			"keys create --store file:home/new/store --name one --out home/keys" + at,
			"backup --store file:home/store --to file:home/backup",
			"feed --source " + simulated + " --out home/feeds/" + at,
		}
	}
	for _, line := range steps("2026-11-21T07:10:00Z") {
		done(t, strings.Fields(line)...)
	}
	must.OK(t, filepath.WalkDir("home", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info := must.Get(d.Info())(t)
		if own := info.Sys().(*syscall.Stat_t); own.Uid != service || own.Gid != service {
			t.Errorf("%s belongs to %d:%d", path, own.Uid, own.Gid)
		}
		return nil
	}))
	for _, line := range steps("2026-11-21T07:20:00Z") {
		cmd := builderProcess(t.Context(), strings.Fields(line)...)
		cmd.Path = program
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: service, Gid: service}}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("builder %s: %v: %s", line, err, out)
		}
	}
}
