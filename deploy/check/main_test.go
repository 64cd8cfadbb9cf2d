package check

import (
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

// bin is where TestMain has put the programs.
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

func build(dir string) error {
	args := []string{"build", "-C", root, "-ldflags=-s -w", "-o", dir + "/"}
	for _, p := range programs {
		args = append(args, fmt.Sprintf("./%s/cmd/%s", p, p))
	}
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the programs: %w\n%s", err, out)
	}
	return nil
}

func read(t testing.TB, elem ...string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(elem...))
	if err != nil {
		t.Fatal(err)
	}
	return b
}
