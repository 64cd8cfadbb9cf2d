package testserver

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"example.com/marketdata/internal/test/process"
	"github.com/jackc/pgx/v5/pgconn"
)

// requirePostgresEnv has the same purpose as RequireEnv, for tests that need a PostgreSQL server.
const requirePostgresEnv = "MARKETDATA_REQUIRE_POSTGRES"

// Postgres starts a PostgreSQL server, which stops at the end of the test. It uses the PostgreSQL that
// is installed on the machine. It returns the server's address, postgres://USER@HOST:PORT/DATABASE
// without a query, and the user's password.
func Postgres(t testing.TB) (address, password string) {
	t.Helper()
	password = rand.Text()
	address, err := startPostgres(t, password)
	if err != nil {
		if os.Getenv(requirePostgresEnv) == "1" {
			t.Fatal(err)
		}
		t.Skipf("no PostgreSQL to test with (%s=1 makes this fail): %v", requirePostgresEnv, err)
	}
	return address, password
}

func startPostgres(t testing.TB, password string) (address string, err error) {
	// Debian keeps the programs of each version out of PATH.
	initdb, err := exec.LookPath("initdb")
	if err != nil {
		found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
		if len(found) == 0 {
			return "", fmt.Errorf("%w: apt-get install postgresql", err)
		}
		initdb = found[len(found)-1]
	}
	// Other users cannot access t.TempDir.
	dir, err := os.MkdirTemp("", "marketdata-postgres-")
	if err != nil {
		return "", err
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	secret := filepath.Join(dir, "password")
	if err := os.WriteFile(secret, []byte(password), 0o600); err != nil {
		return "", err
	}
	attr, err := unprivileged(dir, secret)
	if err != nil {
		return "", err
	}
	command := func(program string, args ...string) *exec.Cmd {
		cmd := exec.Command(program, args...)
		cmd.Dir, cmd.SysProcAttr, cmd.Env = dir, attr, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "LC_ALL=C"}
		return cmd
	}
	data := filepath.Join(dir, dataFolder)
	if out, err := command(initdb, "-D", data, "-U", "market", "-A", "scram-sha-256", "--pwfile", secret, "-E", "UTF8",
		"-N").CombinedOutput(); err != nil {
		return "", fmt.Errorf("initdb: %w: %s", err, out)
	}
	port, err := freePort()
	if err != nil {
		return "", err
	}
	p, err := process.Start(command(filepath.Join(filepath.Dir(initdb), "postgres"), "-D", data, "-h", "127.0.0.1",
		"-p", strconv.Itoa(port), "-k", "", "-F"))
	if err != nil {
		return "", err
	}
	t.Cleanup(p.Kill)
	address = fmt.Sprintf("postgres://market@127.0.0.1:%d/postgres", port)
	config, err := pgconn.ParseConfig(address)
	if err != nil {
		return "", err
	}
	config.Password = password
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		conn, err := pgconn.ConnectConfig(ctx, config)
		if err == nil {
			return address, conn.Close(ctx)
		}
		select {
		case <-p.Exited():
			return "", fmt.Errorf("postgres ended: %w: %s", p.Err(), p.Tail())
		case <-ctx.Done():
			return "", fmt.Errorf("%w: %s", err, p.Tail())
		case <-tick.C:
		}
	}
}

// unprivileged returns attributes that run a program as the user nobody if this process runs as
// root, because PostgreSQL refuses to run as root. It makes that user the owner of the paths.
func unprivileged(paths ...string) (*syscall.SysProcAttr, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	nobody, err := user.Lookup("nobody")
	if err != nil {
		return nil, err
	}
	uid, err := strconv.ParseUint(nobody.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(nobody.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		if err := os.Chown(path, int(uid), int(gid)); err != nil {
			return nil, err
		}
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
}
