package check

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// root is the project's folder, deploy the one that is checked.
const (
	root   = "../.."
	deploy = ".."
)

// bin is where TestMain has put the programs, as the Dockerfile builds them.
var bin string

func TestMain(m *testing.M) {
	var err error
	if bin, err = os.MkdirTemp("", "marketdata-check-"); err == nil {
		err = build(bin)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	status := m.Run()
	_ = os.RemoveAll(bin) // a temporary folder
	os.Exit(status)
}

// programs are the commands that the image holds.
var programs = []string{"builder", "edge", "loadtest"}

func build(dir string) error {
	args := []string{"build", "-C", root, "-trimpath", "-o", dir + "/"}
	for _, p := range programs {
		args = append(args, fmt.Sprintf("./%s/cmd/%s", p, p))
	}
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the programs: %w\n%s", err, out)
	}
	return nil
}

// command is a program of the project, to be run.
func command(ctx context.Context, program string, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, filepath.Join(bin, program), args...)
}

func read(t testing.TB, elem ...string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(elem...))
	if err != nil {
		t.Fatal(err)
	}
	return b
}
