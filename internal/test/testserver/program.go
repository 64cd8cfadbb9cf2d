package testserver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Kind is a kind of server.
type Kind int

// The kinds of servers.
const (
	KindMinIO Kind = iota
	KindVersitygw
)

// String returns the name of the server's program.
func (k Kind) String() string { return modules[k].name }

// binEnv is the environment variable that names the folder for the built programs.
const binEnv = "MARKETDATA_TEST_BIN"

// modules describes where each kind's program comes from. MinIO's repository is archived, and this
// version is its last.
var modules = [...]struct{ name, title, path, version, takes string }{
	KindMinIO: {
		"minio", "MinIO", "github.com/minio/minio", "v0.0.0-20260212201848-7aac2a2c5b7c", "about three minutes"},
	KindVersitygw: {
		"versitygw", "versitygw", "github.com/versity/versitygw/cmd/versitygw", "v1.8.0", "a minute or two"},
}

// Program returns the path of the kind's program. If it does not exist yet, one of the processes
// that need it builds it with `go install` and says so on standard error. The file name contains
// the version, so a new version does not replace an old one.
func Program(ctx context.Context, kind Kind) (string, error) {
	dir := os.Getenv(binEnv)
	if dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("folder for test servers: %w; set %s", err, binEnv)
		}
		dir = filepath.Join(cache, "marketdata-testbin")
	}
	m := modules[kind]
	program := filepath.Join(dir, m.name+"-"+m.version)
	if there, err := exists(program); there || err != nil {
		return program, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	unlock, err := lock(filepath.Join(dir, m.name+".lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	if there, err := exists(program); there || err != nil {
		return program, err // Another process built it in the meantime.
	}
	fmt.Fprintf(os.Stderr, "building %s (%s, once) into %s\n", m.title, m.takes, dir)
	if err := install(ctx, dir, m.path+"@"+m.version, m.name, program); err != nil {
		return "", fmt.Errorf("build %s: %w", m.title, err)
	}
	return program, nil
}

func exists(path string) (bool, error) {
	_, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// lock waits until no other process holds the lock file. The kernel releases the lock of a process
// that dies.
func lock(path string) (unlock func() error, err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX)
		if err == nil {
			return f.Close, nil
		}
		if !errors.Is(err, unix.EINTR) {
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
	}
}

// install builds the program called name from a module and moves it to target when it is complete.
func install(ctx context.Context, dir, module, name, target string) error {
	temp, err := os.MkdirTemp(dir, "build-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	cmd := exec.CommandContext(ctx, "go", "install", "-trimpath", "-ldflags=-s -w", module)
	cmd.Dir = temp // outside of this module, whose go.mod must not matter
	cmd.Env = append(os.Environ(), "GOBIN="+temp, "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off", "GOOS=", "GOARCH=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go install %s: %w\n%s", module, err, out)
	}
	return os.Rename(filepath.Join(temp, name), target)
}
