package provider_test

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"example.com/marketdata/builder/source/provider"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/providertest"
	"golang.org/x/sys/unix"
)

// savedIn is the environment variable with the cache folder of the process that TestCacheKilled
// kills.
const savedIn = "TEST_PROVIDER_CACHE"

// generation returns a provider whose answers belong together: a list in pages, lists that take one
// call, and a single item.
func generation(rows, names, coin string, pages ...string) *providertest.Provider {
	p := providertest.New()
	p.Set("/rows", []byte(rows))
	p.Set("/names", []byte(names))
	p.Set("/coins/a", []byte(coin))
	for i, page := range append(pages, "[]") {
		p.Set("/pages?page="+string('1'+rune(i)), []byte(page))
	}
	return p
}

// saved runs a round with a cache. It returns all answers, and the states of the parts.
func saved(t *testing.T, p *providertest.Provider, dir string) (answers string, states []string) {
	s := open(t, p, "slow=5&cache="+dir)
	var rows, names, pages []provider.Row
	var coin string
	parts := s.collect(t, func(r provider.Round) error {
		err := r.Lists(t.Context(),
			provider.List{Required: true, Into: &rows, Part: rowsPart(0)},
			provider.List{Into: &names, Part: provider.Part{Name: "names", Path: "/names"}},
			provider.List{Into: &pages, Part: provider.Part{
				Name: "pages", Path: "/pages", Pager: provider.Numbered("page", 1),
			}})
		if err != nil {
			return err
		}
		all, err := r.Each(t.Context(), "coins", []string{"a"}, func(id string) provider.Part {
			return provider.Part{Path: "/coins/" + id, Check: provider.CheckObject}
		})
		if a := all["a"]; a != nil {
			coin = string(a.Pages[0].Body)
		}
		return err
	})
	for _, list := range [][]provider.Row{rows, names, pages} {
		for _, row := range list {
			answers += string(row.Raw) + " "
		}
		answers += "| "
	}
	for _, part := range parts {
		states = append(states, string(part.State))
	}
	return answers + coin, states
}

// TestCacheKilled kills a process that saves a provider's answers at each of its system calls that
// change a file, for row D8: "the answers of before (save under new names, commit, remove)".
// Afterwards the provider is unavailable, and a round succeeds with all of the old answers or with
// all of the new ones. One list changes, another list shrinks by a page, and an item grows.
func TestCacheKilled(t *testing.T) {
	next := generation(`[{"id":"b"}]`, `[7,8]`, `{"id":"a","more":1}`, `[4,5,6,7]`)
	if dir := os.Getenv(savedIn); dir != "" {
		saved(t, next, dir)
		return
	}
	before := filepath.Join(t.TempDir(), "cache")
	old, _ := saved(t, generation(`[{"id":"a"}]`, `[9]`, `{"id":"a"}`, `[1,2,3]`, `[4,5]`), before)
	seen := map[string]int{}
	for n, killed := 1, true; killed; n++ {
		dir := filepath.Join(t.TempDir(), "cache")
		must.OK(t, os.CopyFS(dir, os.DirFS(before)))
		killed = killAt(t, n, savedIn+"="+dir)
		away := providertest.New()
		away.FaultEverywhere(providertest.Status(403))
		got, states := saved(t, away, dir)
		if slices.ContainsFunc(states, func(s string) bool { return s != "stale" }) {
			t.Errorf("killed at call %d: states %q", n, states)
		}
		if seen[got]++; !killed && (got == old || n < 20) {
			t.Errorf("after %d calls: %s", n, got)
		}
		swept(t, away, dir)
	}
	if len(seen) != 2 || seen[old] == 0 {
		t.Errorf("answers after the kills: %v; want those of before, or the new ones", seen)
	}
}

// swept fails the test unless a round removes old files that the index does not name.
func swept(t *testing.T, p *providertest.Provider, dir string) {
	t.Helper()
	hourAgo := time.Now().Add(-time.Hour)
	for name := range providertest.Tree(t, dir) {
		must.OK(t, os.Chtimes(filepath.Join(dir, name), hourAgo, hourAgo))
	}
	saved(t, p, dir)
	index := must.Get(os.ReadFile(filepath.Join(dir, "recording.json")))(t)
	for name := range providertest.Tree(t, dir) {
		known := name == "recording.json" || name == "quota.json" || name == "quota.lock"
		if !known && !bytes.Contains(index, []byte(`"`+name+`"`)) {
			t.Errorf("%s stays", name)
		}
	}
}

// killAt runs this test in a separate process and kills the process at the start of its nth system
// call that changes a file. It reports whether there was such a call.
func killAt(t *testing.T, n int, env string) bool {
	t.Helper()
	runtime.LockOSThread() // only the thread that started a process can trace it
	defer runtime.UnlockOSThread()
	null := must.Get(os.OpenFile(os.DevNull, os.O_RDWR, 0))(t)
	defer null.Close()
	pid := must.Get(syscall.ForkExec(os.Args[0], []string{os.Args[0], "-test.run=^" + t.Name() + "$"},
		&syscall.ProcAttr{
			Env: append(os.Environ(), env), Files: []uintptr{null.Fd(), null.Fd(), 2},
			Sys: &syscall.SysProcAttr{Ptrace: true},
		}))(t)
	deadline := time.Now().Add(time.Minute)
	for started := false; time.Now().Before(deadline); {
		var status unix.WaitStatus
		thread, err := unix.Wait4(-1, &status, unix.WALL|unix.WNOTHREAD, nil)
		if err == unix.EINTR {
			continue
		}
		must.OK(t, err)
		signal := 0
		switch {
		case !status.Stopped():
			if thread == pid {
				if status.Exited() && status.ExitStatus() != 0 {
					t.Fatalf("exit status %d", status.ExitStatus())
				}
				return status.Signaled()
			}
			continue
		case !started:
			started = true
			must.OK(t, unix.PtraceSetOptions(pid,
				unix.PTRACE_O_TRACECLONE|unix.PTRACE_O_TRACESYSGOOD|unix.PTRACE_O_EXITKILL))
		case status.StopSignal() == unix.SIGTRAP|0x80:
			if changesFile(thread) {
				if n--; n == 0 {
					must.OK(t, unix.Kill(pid, unix.SIGKILL))
				}
			}
		case status.StopSignal() != unix.SIGTRAP && status.StopSignal() != unix.SIGSTOP:
			signal = int(status.StopSignal())
		}
		// A thread that is being killed cannot continue, which is not an error.
		if err := unix.PtraceSyscall(thread, signal); err != nil && err != unix.ESRCH {
			t.Fatal(err)
		}
	}
	t.Fatal("the process does not end")
	return false
}

// changesFile reports whether a traced thread is about to change a file or a folder.
func changesFile(thread int) bool {
	var info struct { // struct ptrace_syscall_info of ptrace(2)
		op   uint8
		_    [23]byte
		call uint64
		args [7]uint64
	}
	_, _, failed := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_GET_SYSCALL_INFO, uintptr(thread), unsafe.Sizeof(info),
		uintptr(unsafe.Pointer(&info)), 0, 0)
	if failed != 0 || info.op != unix.PTRACE_SYSCALL_INFO_ENTRY {
		return false
	}
	switch info.call {
	case unix.SYS_OPENAT:
		return info.args[2]&unix.O_CREAT != 0
	case unix.SYS_WRITE, unix.SYS_PWRITE64, unix.SYS_FSYNC, unix.SYS_MKDIRAT, unix.SYS_UNLINKAT, unix.SYS_LINKAT,
		unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2, unix.SYS_FTRUNCATE, unix.SYS_FLOCK:
		return true
	}
	return false
}
