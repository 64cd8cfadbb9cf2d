package check

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// root is the project's folder. deploy is the folder that is checked.
const (
	root   = "../.."
	deploy = ".."
)

var (
	programs []string // the commands that the Dockerfile builds
	bin      string   // the folder that contains them and promtool
)

func TestMain(m *testing.M) {
	if err := build(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	status := m.Run()
	_ = os.RemoveAll(bin) // a temporary folder
	os.Exit(status)
}

func build() (err error) {
	if bin, err = os.MkdirTemp("", "marketdata-check-"); err != nil {
		return err
	}
	dockerfile, err := os.ReadFile(filepath.Join(deploy, "Dockerfile"))
	if err != nil {
		return err
	}
	// Build the programs as the Dockerfile does.
	args := []string{"CGO_ENABLED=0", "go", "build", "-C", root, "-ldflags=-s -w", "-o", bin + "/"}
	for _, m := range regexp.MustCompile(`\./\w+/cmd/(\w+)`).FindAllSubmatch(dockerfile, -1) {
		args, programs = append(args, string(m[0])), append(programs, string(m[1]))
	}
	// Of Prometheus' methods of service discovery, compile only the one in use.
	promtool := []string{"go", "build", "-tags=remove_all_sd,enable_dns_sd", "-o", bin + "/",
		"github.com/prometheus/prometheus/cmd/promtool"}
	for _, args := range [][]string{args, promtool} {
		if out, err := exec.Command("env", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("%v: %w\n%s", args, err, out)
		}
	}
	return nil
}

func read(t *testing.T, elem ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(elem...))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// tool runs a program that reads a configuration, and returns its output. If the program is not
// installed, it skips the test. In CI, only systemd may be missing.
func tool(t *testing.T, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	if cmd.Err != nil && (os.Getenv("MARKETDATA_REQUIRE_S3") != "1" || name == "systemd-analyze") {
		t.Skip(cmd.Err)
	}
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v\n%s", name, err, out)
	}
	return string(out)
}

var helps sync.Map // help texts by command

// help returns the help of a program's command with all flags, or "" if there is no such command.
func help(t *testing.T, words ...string) string {
	key := strings.Join(words, " ")
	text, ok := helps.Load(key)
	if !ok {
		out, err := exec.CommandContext(
			t.Context(), filepath.Join(bin, words[0]), append([]string{"help", "all"}, words[1:]...)...).Output()
		if err != nil {
			return ""
		}
		text, _ = helps.LoadOrStore(key, string(out))
	}
	return text.(string)
}

// words returns the program and the commands of a command line.
func words(args []string) []string {
	if n := slices.IndexFunc(
		args, func(a string) bool { return !regexp.MustCompile(`^[a-z]+$`).MatchString(a) }); n >= 0 {
		return args[:n]
	}
	return args
}

// freeAddress returns an address, host:port, for a program that must be told where to listen. Its
// host is a loopback address that only this process uses (all of 127.0.0.0/8 belongs to this
// machine), so that no other test takes the port before the program does.
func freeAddress() (string, error) {
	pid := os.Getpid()
	ln, err := net.Listen("tcp", fmt.Sprintf("127.%d.%d.%d:0", 64+pid>>16, byte(pid>>8), byte(pid)))
	if err != nil {
		return "", err
	}
	return ln.Addr().String(), ln.Close()
}
