package testserver

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/internal/test/must"
)

// orphan is an environment variable. If it is set, the test binary starts a server that keeps its
// data in the folder that the variable names, prints the server's address and waits until the test
// ends.
const orphan = "TESTSERVER_TEST_ORPHAN"

func TestMain(m *testing.M) {
	if dir := os.Getenv(orphan); dir != "" {
		s, err := Start(context.Background(), KindVersitygw, Options{Dir: dir})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(strings.TrimPrefix(s.Endpoint, "http://"))
		io.Copy(io.Discard, os.Stdin) // an error ends it as well
		s.Close()                     // the process ends anyway
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestKilled: a server does not outlive a test that is killed.
func TestKilled(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux can end a process with its parent")
	}
	Versitygw(t).Stop() // skips the test where it cannot start
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), orphan+"="+t.TempDir())
	cmd.Stderr = os.Stderr
	stdin := must.Get(cmd.StdinPipe())(t)
	defer stdin.Close()
	stdout := must.Get(cmd.StdoutPipe())(t)
	must.OK(t, cmd.Start())
	lines := bufio.NewScanner(stdout)
	if !lines.Scan() {
		t.Fatalf("it printed nothing: %v", cmd.Wait())
	}
	conn := must.Get(net.Dial("tcp", lines.Text()))(t)
	defer conn.Close()
	must.OK(t, cmd.Process.Kill())
	if err := cmd.Wait(); err == nil {
		t.Fatal("it ended before it was killed")
	}
	// The connection ends when the server does, not before.
	must.OK(t, conn.SetReadDeadline(time.Now().Add(time.Minute)))
	if _, err := conn.Read(make([]byte, 1)); err == nil || os.IsTimeout(err) {
		t.Errorf("the server lives on: %v", err)
	}
}

// TestRunAgain: the data stay in the folder and are there at the next run.
func TestRunAgain(t *testing.T) {
	MinIO(t).Stop() // skips the test where it cannot start
	dir := t.TempDir()
	port := must.Get(freePort())(t)
	for range 2 {
		s := must.Get(Run(t.Context(), KindMinIO, dir, port))(t)
		if want := fmt.Sprintf("s3://marketdata/x?endpoint=http://127.0.0.1:%d&region=us-east-1", port); s.URL(
			"x") != want {
			t.Errorf("URL is %s, want %s", s.URL("x"), want)
		}
		if err := s.Start(t.Context()); err == nil {
			t.Error("a server that runs is started again")
		}
		must.OK(t, s.Close())
		if _, err := os.Stat(filepath.Join(dir, dataFolder, Bucket)); err != nil {
			t.Errorf("after Close: %v", err)
		}
	}
}

// TestBroken: Start returns soon, with the reason, if a server does not start.
func TestBroken(t *testing.T) {
	bin := t.TempDir()
	t.Setenv(binEnv, bin)
	m := modules[KindVersitygw]
	script := "#!/bin/sh\necho no such luck >&2\nexit 3\n"
	must.OK(t, os.WriteFile(filepath.Join(bin, m.name+"-"+m.version), []byte(script), 0o755))
	_, err := Start(t.Context(), KindVersitygw, Options{})
	if err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "no such luck") {
		t.Errorf("a program that fails: %v", err)
	}

	// Without the go command nothing can be built, and no unfinished build is left behind.
	t.Setenv("PATH", "")
	_, err = Start(t.Context(), KindMinIO, Options{})
	if err == nil || !strings.Contains(err.Error(), "build MinIO: go install github.com/minio/minio@") {
		t.Errorf("a program that can not be built: %v", err)
	}
	left, err := filepath.Glob(filepath.Join(bin, "*minio*"))
	if err != nil || len(left) != 1 { // only the lock file
		t.Errorf("left behind: %v, %v", left, err)
	}
}
