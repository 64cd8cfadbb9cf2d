package durable

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"

	"example.com/marketdata/internal/test/must"
)

func TestReplace(t *testing.T) {
	write := map[string]func(string, io.Reader, fs.FileMode) error{"WriteFile": WriteFile, "ReplaceFile": ReplaceFile}
	for name, write := range write {
		dir := t.TempDir()
		path := filepath.Join(dir, "file")
		want := ""
		for _, c := range []struct {
			path, data string
			err        error
		}{{path, "first, and longer", nil}, {path, "second", nil}, {path, "part", errors.New("reader")},
			{filepath.Join(dir, "no", "such"), "", fs.ErrNotExist}} {
			from := io.Reader(strings.NewReader(c.data))
			if c.data == "part" {
				from = io.MultiReader(from, iotest.ErrReader(c.err))
			}
			if err := write(c.path, from, 0o600); !errors.Is(err, c.err) {
				t.Errorf("%s %q: got %v, want %v", name, c.data, err, c.err)
			}
			if c.err == nil {
				want = c.data
			}
			if b, err := os.ReadFile(path); string(b) != want || err != nil {
				t.Errorf("%s %q: the file holds %q, %v", name, c.data, b, err)
			}
		}
		// If the file cannot get its name, here because a folder has it, nothing is left behind.
		must.OK(t, os.Mkdir(filepath.Join(dir, "folder"), 0o700))
		if err := write(filepath.Join(dir, "folder"), strings.NewReader("x"), 0o600); err == nil {
			t.Errorf("%s replaced a folder", name)
		}
		entries, err := os.ReadDir(dir)
		if info, serr := os.Stat(path); err != nil || serr != nil || len(entries) != 2 || info.Mode() != 0o600 {
			t.Errorf("%s left %v, %v, %v", name, entries, err, info.Mode())
		}
	}
}

// TestCreateFile: whatever exists at the path stays, whether it is a file, a folder or a link to
// nowhere.
func TestCreateFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	must.OK(t, CreateFile(path, strings.NewReader("first"), 0o600))
	must.OK(t, os.Mkdir(filepath.Join(dir, "folder"), 0o700))
	must.OK(t, os.Symlink("nowhere", filepath.Join(dir, "link")))
	for _, name := range []string{"file", "folder", "link"} {
		err := CreateFile(filepath.Join(dir, name), strings.NewReader("second"), 0o600)
		if !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
	b, err := os.ReadFile(path)
	info, serr := os.Stat(path)
	entries, derr := os.ReadDir(dir)
	must.OK(t, errors.Join(err, serr, derr))
	if string(b) != "first" || info.Mode() != 0o600 || len(entries) != 3 {
		t.Errorf("%q, %v, %v", b, info.Mode(), entries)
	}
}

// TestOpen: Open refuses anything that is not a regular file, without waiting.
func TestOpen(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	must.OK(t, syscall.Mkfifo(pipe, 0o600))
	for _, path := range []string{pipe, dir, "/dev/zero"} {
		if f, err := Open(path); !errors.Is(err, ErrNotRegular) {
			t.Errorf("%s: %v, %v", path, f, err)
		}
		if b, err := ReadFile(path, 10); !errors.Is(err, ErrNotRegular) {
			t.Errorf("%s: %q, %v", path, b, err)
		}
	}
	if _, err := DirFS(dir).Open("pipe"); !errors.Is(err, ErrNotRegular) {
		t.Error(err)
	}
	must.OK(t, os.WriteFile(filepath.Join(dir, "file"), []byte("x"), 0o600))
	if b, err := fs.ReadFile(DirFS(dir), "file"); string(b) != "x" {
		t.Errorf("%q, %v", b, err)
	}
	for _, name := range []string{"../file", "/file", "no"} {
		if _, err := DirFS(dir).Open(name); err == nil {
			t.Errorf("%s was opened", name)
		}
	}
}
