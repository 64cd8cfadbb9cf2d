package dirstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/storetest"
	"golang.org/x/sync/errgroup"
)

// swapper is an environment variable that makes the test binary a process that only swaps. Its
// value is the store's folder.
const swapper = "DIRSTORE_TEST_SWAPPER"

func TestMain(m *testing.M) {
	if root := os.Getenv(swapper); root != "" {
		if err := swapAway(root); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

const swapsEach = 100

// swapAway increments a number in the store swapsEach times.
func swapAway(root string) error {
	s, err := Open(root, Options{})
	if err != nil {
		return err
	}
	for range swapsEach {
		if err := increment(context.Background(), s); err != nil {
			return err
		}
	}
	return nil
}

func increment(ctx context.Context, s *Store) error {
	for {
		n := 0
		b, v, err := s.Get(ctx, artifacts.CurrentKey, 100)
		switch {
		case err == nil:
			n, err = strconv.Atoi(string(b))
		case errors.Is(err, artifacts.ErrNotFound):
			err = nil
		}
		if err != nil {
			return err
		}
		if _, err := s.Swap(ctx, artifacts.CurrentKey, v, strconv.AppendInt(nil, int64(n+1), 10)); !errors.Is(
			err, artifacts.ErrConflict) {
			return err
		}
	}
}

// TestProcesses checks that no swap is lost when several processes swap concurrently.
func TestProcesses(t *testing.T) {
	const processes = 3
	root := t.TempDir()
	s := open(t, root)
	var g errgroup.Group
	for range processes {
		g.Go(func() error {
			cmd := exec.CommandContext(t.Context(), os.Args[0])
			cmd.Env = append(os.Environ(), swapper+"="+root)
			out, err := cmd.CombinedOutput()
			if err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
			return nil
		})
	}
	must.OK(t, g.Wait())
	b, _, err := s.Get(t.Context(), artifacts.CurrentKey, 100)
	if want := strconv.Itoa(processes * swapsEach); err != nil || string(b) != want {
		t.Errorf("%d processes, %d swaps each: current is %s, %v, want %s", processes, swapsEach, b, err, want)
	}
}

// TestKilled checks that a process that is killed leaves neither a lock nor half a swap behind.
func TestKilled(t *testing.T) {
	root := t.TempDir()
	s := open(t, root)
	for range 5 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), swapper+"="+root)
		must.OK(t, cmd.Start())
		exited := make(chan error, 1)
		go func() { exited <- cmd.Wait() }()
		for start := number(t, s); number(t, s) < start+3; { // wait until it is swapping
			select {
			case err := <-exited:
				t.Fatalf("the process ended before it was killed: %v", err)
			default:
			}
		}
		must.OK(t, cmd.Process.Kill())
		if err := <-exited; err == nil {
			t.Fatal("the process ended before it was killed")
		}
		before := number(t, s)
		must.OK(t, increment(t.Context(), s))
		if after := number(t, s); after != before+1 {
			t.Fatalf("current went from %d to %d", before, after)
		}
	}
}

func number(t *testing.T, s *Store) int {
	t.Helper()
	b, _, err := s.Get(t.Context(), artifacts.CurrentKey, 100)
	if errors.Is(err, artifacts.ErrNotFound) {
		return 0
	}
	must.OK(t, err)
	return must.Get(strconv.Atoi(string(b)))(t)
}

func open(t *testing.T, root string) *Store {
	t.Helper()
	return must.Get(Open(root, Options{}))(t)
}

func TestStore(t *testing.T) {
	storetest.TestStore(t, func(t *testing.T) artifacts.Store { return open(t, t.TempDir()) })
}

func TestMissingFolder(t *testing.T) {
	ctx := t.Context()
	root := filepath.Join(t.TempDir(), "not", "there")
	if _, err := Open(root, Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("Open of a missing folder: %v", err)
	}
	if _, err := os.Stat(filepath.Dir(root)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Open made a folder without being told to: %v", err)
	}
	r := must.Get(NewReader(root))(t)
	read := func() error { _, _, err := r.Get(ctx, artifacts.CurrentKey, 10); return err }
	if err := read(); err == nil || errors.Is(err, artifacts.ErrNotFound) {
		t.Errorf("Get from a missing folder: %v", err)
	}

	s := must.Get(Open(root, Options{Create: true}))(t)
	if err := read(); !errors.Is(err, artifacts.ErrNotFound) {
		t.Errorf("Get from an empty folder: %v", err)
	}
	must.OK(t, s.Put(ctx, artifacts.MustKey("objects/ab/cd"), []byte("x")))

	must.OK(t, os.RemoveAll(root))
	calls := storetest.Calls(ctx, s, "v")
	calls["reader's get"] = read
	calls["list objects"] = func() error { return s.List(ctx, "objects/", func(artifacts.Info) error { return nil }) }
	for name, call := range calls {
		err := call()
		if err == nil || errors.Is(err, artifacts.ErrNotFound) || errors.Is(err, artifacts.ErrConflict) {
			t.Errorf("%s after the folder was removed: %v", name, err)
		}
	}
	if _, err := os.Stat(root); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a call made the folder again: %v", err)
	}

	must.OK(t, os.WriteFile(root, nil, 0o644))
	if err := read(); err == nil || errors.Is(err, artifacts.ErrNotFound) {
		t.Errorf("Get from a file: %v", err)
	}
	if _, err := Open(root, Options{Create: true}); err == nil {
		t.Error("Open takes a file")
	}
	if _, err := Open("", Options{Create: true}); err == nil {
		t.Error("Open takes an empty path")
	}
}

// TestStale checks that a file that a dead writer left in .tmp is not listed as an object, and is
// removed after an hour.
func TestStale(t *testing.T) {
	ctx, root := t.Context(), t.TempDir()
	s := open(t, root)
	now := must.Get(s.Now(ctx))(t)
	for name, age := range map[string]time.Duration{
		"old": time.Hour + time.Minute, "young": time.Hour - time.Minute, "now": 0} {
		p := filepath.Join(root, tempFolder, name)
		must.OK(t, os.WriteFile(p, []byte("half"), 0o644))
		must.OK(t, os.Chtimes(p, now.Add(-age), now.Add(-age)))
	}
	left := func() []string {
		entries := must.Get(os.ReadDir(filepath.Join(root, tempFolder)))(t)
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
	s = open(t, root)
	if got := left(); len(got) != 3 {
		t.Errorf("Open left %v", got)
	}
	must.OK(t, s.SelfTest(ctx))
	if got := left(); !slices.Equal(got, []string{"now", "young"}) {
		t.Errorf("SelfTest left %v", got)
	}
	for _, prefix := range []string{"", "n"} {
		if err := s.List(ctx, prefix, func(i artifacts.Info) error { return errors.New(i.Key.String()) }); err != nil {
			t.Errorf("List of %q gives %v", prefix, err)
		}
	}
}

// recorder records which paths are fsynced.
type recorder struct {
	mu   sync.Mutex
	root string
	got  map[string]bool
	fail string // the fsync of this path fails
}

func record(s *Store) *recorder {
	r := &recorder{root: s.root, got: map[string]bool{}}
	s.fsync = func(f *os.File) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		rel, err := filepath.Rel(r.root, f.Name())
		if err != nil {
			return err
		}
		if path.Dir(rel) == tempFolder {
			rel = tempFolder
		}
		if rel == r.fail {
			return errors.New("disk failed")
		}
		r.got[rel] = true
		return f.Sync()
	}
	return r
}

// want checks which paths were fsynced since the last call of want.
func (r *recorder) want(t *testing.T, when string, want ...string) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	var got []string
	for p := range r.got {
		got = append(got, p)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%s: fsynced %v, want %v", when, got, want)
	}
	clear(r.got)
}

// TestDurable checks that Sync fsyncs every file that was put since the last Sync, including files
// that were put again, and every folder above them, and that Swap is durable by itself.
func TestDurable(t *testing.T) {
	ctx, root := t.Context(), t.TempDir()
	s := open(t, root)
	r := record(s)
	must.OK(t, s.Put(ctx, artifacts.MustKey("objects/ab/1"), nil))
	must.OK(t, s.Put(ctx, artifacts.MustKey("objects/cd/2"), nil))
	r.want(t, "Put")
	must.OK(t, s.Sync(ctx))
	r.want(t, "Sync", "objects/ab/1", "objects/cd/2", "objects/ab", "objects/cd", "objects", ".")
	must.OK(t, s.Sync(ctx))
	r.want(t, "Sync again")
	must.OK(t, s.Put(ctx, artifacts.MustKey("objects/ab/1"), nil))
	must.OK(t, s.Put(ctx, artifacts.MustKey("objects/cd/3"), nil))
	must.OK(t, s.Delete(ctx, artifacts.MustKey("objects/cd/3")))
	must.OK(t, s.Sync(ctx))
	r.want(t, "Sync after a put of what is there", "objects/ab/1", "objects/ab", "objects", ".")
	v := must.Get(s.Swap(ctx, artifacts.CurrentKey, "", []byte("one")))(t)
	r.want(t, "Swap that creates", tempFolder, ".")
	must.Get(s.Swap(ctx, artifacts.CurrentKey, v, []byte("two")))(t)
	r.want(t, "Swap that replaces", tempFolder, ".")
	must.OK(t, s.Sync(ctx))
	r.want(t, "Sync after Swap")

	// Creating the store adds entries to the folders above it.
	deep := filepath.Join(root, "x", "y")
	s2 := &Store{Reader: Reader{root: deep}}
	r2 := record(s2)
	must.OK(t, s2.create())
	r2.want(t, "create", "..", "../..")
}

// TestFailedSync checks that Put rewrites a file after a failed Sync, because the kernel may then
// hold bytes that the disk does not have.
func TestFailedSync(t *testing.T) {
	ctx, root := t.Context(), t.TempDir()
	for _, fail := range []string{"objects/ab/1", "objects/ab", "."} {
		s := open(t, root)
		r := record(s)
		must.OK(t, s.Put(ctx, artifacts.MustKey("objects/ab/1"), []byte("x")))
		r.fail = fail
		if err := s.Sync(ctx); err == nil {
			t.Fatalf("Sync reports success though the fsync of %s failed", fail)
		}
		r.fail = ""
		before := stat(t, root)
		must.OK(t, s.Put(ctx, artifacts.MustKey("objects/ab/1"), []byte("x")))
		if os.SameFile(before, stat(t, root)) {
			t.Errorf("after the fsync of %s failed, a put keeps the old file", fail)
		}
		must.OK(t, s.Sync(ctx))
		before = stat(t, root)
		must.OK(t, s.Put(ctx, artifacts.MustKey("objects/ab/1"), []byte("x")))
		if !os.SameFile(before, stat(t, root)) {
			t.Error("a put after a good Sync writes the file anew")
		}
	}

	s := open(t, root)
	must.OK(t, s.Put(ctx, artifacts.MustKey("objects/ab/2"), []byte("x")))
	must.OK(t, os.Remove(filepath.Join(root, "objects/ab/2")))
	if err := s.Sync(ctx); err == nil {
		t.Error("Sync reports an object as durable that is gone")
	}
	v := must.Get(s.Swap(ctx, artifacts.CurrentKey, "", []byte("one")))(t)
	r := record(s)
	r.fail = tempFolder
	if _, err := s.Swap(ctx, artifacts.CurrentKey, v, []byte("two")); err == nil ||
		errors.Is(err, artifacts.ErrConflict) {
		t.Errorf("Swap whose file could not be written: %v", err)
	}
	if b, got, err := s.Get(ctx, artifacts.CurrentKey, 10); err != nil || string(b) != "one" || got != v {
		t.Errorf("after it current is %q of version %q, %v", b, got, err)
	}
	r.fail = "."
	if _, err := s.Swap(ctx, artifacts.CurrentKey, v, []byte("two")); err == nil ||
		errors.Is(err, artifacts.ErrConflict) {
		t.Errorf("Swap that may not last: %v", err)
	}
}

func stat(t *testing.T, root string) fs.FileInfo {
	t.Helper()
	return must.Get(os.Stat(filepath.Join(root, "objects", "ab", "1")))(t)
}

// TestSyncWaits checks that a Sync without work of its own waits for a running one, and that a Sync
// whose context ends leaves its work to the next one.
func TestSyncWaits(t *testing.T) {
	root := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, root)
		must.OK(t, s.Put(t.Context(), artifacts.MustKey("objects/ab/1"), []byte("x")))
		r := record(s)
		counted := s.fsync
		disk := make(chan struct{})
		s.fsync = func(f *os.File) error {
			<-disk
			return counted(f)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 3)
		go func() { done <- s.Sync(t.Context()) }()
		synctest.Wait()
		go func() { done <- s.Sync(t.Context()) }()
		go func() { done <- s.Sync(ctx) }()
		synctest.Wait()
		if len(done) > 0 {
			t.Fatalf("a Sync returned while another was at work: %v", <-done)
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Sync whose context ended: %v", err)
		}
		close(disk)
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		r.want(t, "three Syncs", "objects/ab/1", "objects/ab", "objects", ".")

		must.OK(t, s.Put(t.Context(), artifacts.MustKey("objects/ab/2"), []byte("x")))
		disk = make(chan struct{})
		ctx, cancel = context.WithCancel(t.Context())
		s.fsync = func(*os.File) error {
			cancel()
			return ctx.Err()
		}
		if err := s.Sync(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("Sync whose context ended: %v", err)
		}
		s.fsync = counted
		must.OK(t, s.Sync(t.Context()))
		r.want(t, "the Sync after one whose context ended", "objects/ab/2", "objects/ab", "objects", ".")
	})
}

// TestLockWaits checks that a swap waits for the lock of another process, but no longer than its
// context allows.
func TestLockWaits(t *testing.T) {
	root := t.TempDir()
	s := open(t, root)
	lock := must.Get(s.openLock())(t)
	if err := tryLock(lock); err != nil { // like another process
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := s.Swap(ctx, artifacts.CurrentKey, "", []byte("x")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Swap while another holds the lock: %v", err)
	}
	if _, _, err := s.Get(t.Context(), artifacts.CurrentKey, 10); !errors.Is(err, artifacts.ErrNotFound) {
		t.Errorf("it wrote all the same: %v", err)
	}
	swapped := make(chan error, 1)
	go func() {
		_, err := s.Swap(t.Context(), artifacts.CurrentKey, "", []byte("x"))
		swapped <- err
	}()
	must.OK(t, lock.Close())
	if err := <-swapped; err != nil {
		t.Error(err)
	}
}

// TestForeign checks that files that no Store can have written are not listed and do no harm.
func TestForeign(t *testing.T) {
	ctx, root := t.Context(), t.TempDir()
	s := open(t, root)
	must.OK(t, s.Put(ctx, artifacts.MustKey("objects/ab/1"), []byte("x")))
	for _, p := range []string{".hidden", "objects/.hidden", "objects/ä"} {
		must.OK(t, os.WriteFile(filepath.Join(root, p), nil, 0o644))
	}
	must.OK(t, os.Symlink("nothing", filepath.Join(root, "objects/ab/2")))
	var got []string
	err := s.List(ctx, "", func(i artifacts.Info) error { got = append(got, i.Key.String()); return nil })
	if err != nil || !slices.Equal(got, []string{"objects/ab/1"}) {
		t.Errorf("List gives %v, %v", got, err)
	}
	if err := s.Put(ctx, artifacts.MustKey("objects/ab"), []byte("x")); err == nil ||
		errors.Is(err, artifacts.ErrConflict) {
		t.Errorf("Put over a folder: %v", err)
	}
	if err := s.Put(ctx, artifacts.MustKey("objects/ab/1/2"), []byte("x")); err == nil ||
		errors.Is(err, artifacts.ErrConflict) {
		t.Errorf("Put below an object: %v", err)
	}
	if _, _, err := s.Get(ctx, artifacts.MustKey("objects/ab/1/2"), 10); !errors.Is(err, artifacts.ErrNotFound) {
		t.Errorf("Get below an object: %v", err)
	}
	err = s.List(ctx, "", func(artifacts.Info) error { return fs.SkipAll })
	if !errors.Is(err, fs.SkipAll) {
		t.Errorf("List swallows f's error: %v", err)
	}
}

// TestPipe checks that a pipe at the path of an object counts as a missing object, and that reading
// it does not block.
func TestPipe(t *testing.T) {
	dir := t.TempDir()
	must.OK(t, syscall.Mkfifo(filepath.Join(dir, artifacts.CurrentKey.String()), 0o600))
	s := must.Get(Open(dir, Options{}))(t)
	if b, _, err := s.Get(t.Context(), artifacts.CurrentKey, 10); !errors.Is(err, artifacts.ErrNotFound) {
		t.Errorf("%q, %v", b, err)
	}
}
