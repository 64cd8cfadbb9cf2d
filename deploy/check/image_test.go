package check

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

// TestDockerfile: BuildKit accepts the Dockerfile without a warning, and the build uses the Go
// version in go.mod. The image contains only programs, certificates and folders, and runs as an
// unprivileged user, given by number.
func TestDockerfile(t *testing.T) {
	parsed, err := parser.Parse(strings.NewReader(read(t, deploy, "Dockerfile")))
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range parsed.Warnings {
		t.Errorf("%v", w)
	}
	lint := linter.New(&linter.Config{
		Warn: func(rule, _, _, message string, at []parser.Range) { t.Errorf("%s at %v: %s", rule, at, message) }})
	stages, _, err := instructions.Parse(parsed.AST, lint)
	if err != nil {
		t.Fatal(err)
	}
	gomod := regexp.MustCompile(`(?m)^go (\S+)$`).FindStringSubmatch(read(t, root, "go.mod"))
	if want := "golang:" + gomod[1] + "-"; !strings.HasPrefix(stages[0].BaseName, want) {
		t.Errorf("builds with %s, go.mod asks for %s", stages[0].BaseName, gomod[1])
	}
	image := stages[len(stages)-1]
	var holds []string
	var cmd []string
	owners := map[string]string{} // of the copied files
	user, env := "", []string{}
	for _, c := range image.Commands {
		switch c := c.(type) {
		case *instructions.CopyCommand:
			holds = append(holds, c.DestPath)
			owners[c.DestPath] = c.Chown
		case *instructions.EnvCommand:
			for _, v := range c.Env {
				env = append(env, v.Key+"="+v.Value)
			}
		case *instructions.UserCommand:
			user = c.User
		case *instructions.CmdCommand:
			cmd = c.CmdLine
		}
	}
	if want := []string{"/etc/ssl/certs/", "/usr/local/bin/", "/var/"}; image.BaseName != "scratch" ||
		!slices.Equal(holds, want) {
		t.Errorf("the image is from %s with %v, want scratch with %v", image.BaseName, holds, want)
	}
	if !regexp.MustCompile(`^[1-9]\d*:[1-9]\d*$`).MatchString(user) {
		t.Errorf("runs as %q", user)
	}
	if os.Getuid() != 0 {
		t.Skip("only root can enter the image's file system")
	}
	testImage(t, owners, user, cmd, env)
}

// testImage puts the files of the image into a folder and runs the programs there as its user, to
// show that they need nothing else.
func testImage(t *testing.T, owners map[string]string, user string, cmd, env []string) {
	image := t.TempDir()
	var uid, gid uint32
	if _, err := fmt.Sscanf(user, "%d:%d", &uid, &gid); err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`/out(/var/\S+)`).FindAllStringSubmatch(read(t, deploy, "Dockerfile"), -1) {
		if err := os.MkdirAll(image+m[1], 0o755); err != nil {
			t.Fatal(err)
		}
	}
	tool(t, nil, "chown", "-R", cmp.Or(owners["/var/"], "0:0"), image+"/var")
	in := image + "/usr/local/bin"
	if err := os.MkdirAll(in, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, p := range programs {
		tool(t, nil, "cp", filepath.Join(bin, p), in)
	}
	command := func(ctx context.Context, args ...string) *exec.Cmd {
		c := exec.CommandContext(ctx, "/usr/local/bin/"+args[0], args[1:]...)
		c.Env, c.Dir = env, "/"
		c.SysProcAttr = &syscall.SysProcAttr{Chroot: image, Credential: &syscall.Credential{Uid: uid, Gid: gid}}
		c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
		return c
	}
	for _, args := range [][]string{
		cmd, {"builder", "build", "--source=sim:?assets=30&seed=1", "--store=file:/var/lib/marketdata/store"},
		{"builder", "feed", "--source=sim:?assets=30&seed=1", "--out=/var/cache/builder/feeds/one"},
		{"builder", "backfill", "--feeds=/var/cache/builder/feeds", "--store=file:/var/cache/builder/store"},
	} {
		if out, err := command(t.Context(), args...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	// Programs that need a temporary folder, where there is none, say so.
	for _, args := range [][]string{
		{"builder", "backfill", "--feeds=/var/cache/builder/feeds", "--store=file:/var/cache/builder/other"},
		{"edge", "--store=file:/var/lib/marketdata/store"},
	} {
		c := command(t.Context(), args...)
		c.Env = append(slices.Clone(env), "TMPDIR=/tmp")
		if out, err := c.CombinedOutput(); err == nil || !strings.Contains(string(out), "set TMPDIR") {
			t.Errorf("%v without a temporary folder: %v\n%s", args, err, out)
		}
	}
	admin, err := freeAddress()
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	edge := command(ctx, "edge", "--store=file:/var/lib/marketdata/store", "--cache-dir=/var/cache/edge",
		"--listen=127.0.0.1:0", "--admin="+admin, "--drain-wait=0s")
	var log bytes.Buffer
	edge.Stderr = &log
	if err := edge.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- edge.Wait() }()
	for command(t.Context(), "edge", "health", "--admin="+admin).Run() != nil {
		select {
		case err := <-ended:
			t.Fatalf("the edge ended: %v\n%s", err, log.String())
		default:
		}
	}
	stop()
	if err := <-ended; edge.ProcessState.ExitCode() != 0 {
		t.Errorf("%v\n%s", err, log.String())
	}
	testDemo(t, in, command)
}

// testDemo: demo runs in the image, serves its board, and stops on request.
func testDemo(t *testing.T, in string, command func(context.Context, ...string) *exec.Cmd) {
	tool(t, []string{"CGO_ENABLED=0"}, "go", "build", "-C", root, "-o", in+"/", "./internal/test/demo")
	dev := filepath.Join(in, "../../../dev") // every container has it
	tool(t, nil, "mkdir", dev)
	tool(t, nil, "mknod", "-m", "666", filepath.Join(dev, "null"), "c", "1", "3")
	port := free(t)
	demo := command(t.Context(), "demo", "--source=sim:?assets=30&seed=1", "--admin="+free(t),
		"--listen="+strings.Replace(port, "127.0.0.1", "0.0.0.0", 1))
	out, err := demo.StdoutPipe()
	demo.Stderr = os.Stderr
	if err == nil {
		err = demo.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	board := ""
	for lines := bufio.NewScanner(out); board == "" && lines.Scan(); {
		_, board, _ = strings.Cut(lines.Text(), "board, signed in: ")
	}
	page, _, _ := strings.Cut(board, "/#key=")
	if page != "http://"+port || !strings.Contains(ask(t.Context(), port, "/"), "<title>") {
		t.Errorf("the board is %q", board)
	}
	if err := errors.Join(demo.Process.Signal(syscall.SIGTERM), demo.Wait()); err != nil {
		t.Error(err)
	}
}
