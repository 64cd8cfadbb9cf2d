package cmdline_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"example.com/marketdata/internal/cmdline"
	"example.com/marketdata/internal/test/must"
	"github.com/alecthomas/kong"
)

type toy struct {
	Size   cmdline.Size `default:"1MiB"`
	Tags   []string
	Loud   bool
	Where  cmdline.Address
	Needed string `required:"" former:"wanted" aliases:"short"`
	cmdline.Flags
	Print printCmd `cmd:""`
}

type printCmd struct {
	Level int
}

func (printCmd) Run() error { return nil }

// do runs the toy program and returns its exit status and its output.
func do(t *testing.T, args ...string) (int, string) {
	t.Helper()
	var c toy
	var out bytes.Buffer
	status := cmdline.Program{
		Name: "toy", CLI: &c, Run: func(_ context.Context, _ *kong.Context, log *slog.Logger) error {
			fmt.Fprintln(&out, c.Size, c.Tags, c.Loud, c.Where, c.Needed, c.Print.Level, c.LogLevel)
			return nil
		}}.Do(t.Context(), args, &out, &out)
	return status, strings.TrimSpace(out.String())
}

func TestSize(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "1B": 1, "256MiB": 256 << 20, "1.5GB": 15e8, "100 kB": 1e5, "1024TiB": 1 << 50, "2KiB": 2048,
		"": -1, "1": -1, "256": -1, "1M": -1, "1g": -1, "-1MiB": -1, "1025TiB": -1, "1 parsec": -1, "1e3B": -1,
		"MiB": -1, "1,000B": -1, "99999999999999999999TiB": -1,
	} {
		var s cmdline.Size
		if err := s.UnmarshalText([]byte(text)); (err == nil) != (want >= 0) || err == nil && int64(s) != want {
			t.Errorf("%q: %d, %v, want %d", text, s, err, want)
		}
	}
}

func TestAddress(t *testing.T) {
	for text, want := range map[string]bool{
		"": true, ":8080": true, "127.0.0.1:0": true, "[::1]:80": true, "localhost:http": true,
		"8080": false, "localhost": false, "::1": false, "127.0.0.1:http-no": false, ":99999": false,
		"http://x:1": false,
	} {
		var a cmdline.Address
		if err := a.UnmarshalText([]byte(text)); (err == nil) != want {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestConfig: the command line overrides the environment, which overrides the file, which overrides
// the defaults.
func TestConfig(t *testing.T) {
	file := filepath.Join(t.TempDir(), "toy.yaml")
	for _, c := range []struct {
		yaml, want string
		args       []string
	}{
		{"", "missing flags: --needed", nil},
		{"needed: x", "1048576 [] false  x 0 info", nil},
		{"needed: 7\nsize: 2KiB\ntags: [a, 'b']\nloud: true\nwhere: :80\nlevel: 3\nlog-level: debug",
			"2048 [a b] true :80 7 3 debug", nil},
		{"needed: x\ntags: a,b", "1048576 [a b] false  x 0 info", nil},
		{"needed: x\nsize: 2KiB\ntags: [a]", "3000 [c] false  x 0 info", []string{"--size", "3kB", "--tags", "c"}},
		{"needed: x\nneeded: y", "already defined", nil},
		{"needed: {a: b}", "line 1: want a value", nil},
		{"needed:", "line 1: want a value", nil},
		{"needed: [a]", "line 1: want a value", nil},
		{"- needed", "want lines such as", nil},
		{"needed: x\nlevel: high",
			"--level: expected a valid 64 bit int but got \"high\" (--config " + file + ", line 2)", nil},
		{"needed: x\nleval: 1", "line 2: there is no flag of that name, did you mean level?", nil},
		{"config: x", "there is no flag of that name", nil},
		{"version: true", "there is no flag of that name", nil},
	} {
		must.OK(t, os.WriteFile(file, []byte(c.yaml), 0o600))
		if status, out := do(t, append([]string{"print", "--config", file}, c.args...)...); !strings.Contains(
			out, c.want) || (status == cmdline.Done) != (out == c.want) {
			t.Errorf("%q %q: status %d, %s, want %s", c.yaml, c.args, status, out, c.want)
		}
	}
	// An error quotes no part of a file that is not a configuration.
	for _, other := range []string{
		"root:$y$j9T$hidden:19000:0:99999:7:::\nbin:*:19000:0:99999:7:::\n", "root: hidden\n", "hidden: 1\nhidden: 2\n",
		"a: *hidden\n", "a: !hidden! b\n", "'hid`den\n", "hidden\n", "a: \"\\hidden\"", "%hidden\n",
		"&hidden a: *hidde\n",
	} {
		must.OK(t, os.WriteFile(file, []byte(other), 0o600))
		if status, out := do(t, "print", "--config", file); status == cmdline.Done || strings.Contains(out, "hid") ||
			strings.Contains(out, "root") {
			t.Errorf("%q: status %d, %s", other, status, out)
		}
	}
	must.OK(t, os.WriteFile(file, []byte("size: 2KiB\nneeded: file\ntags: [file]"), 0o600))
	t.Setenv("TOY_CONFIG", file)
	t.Setenv("TOY_NEEDED", "env")
	t.Setenv("TOY_SIZE", "3KiB")
	if _, out := do(t, "print", "--size", "4KiB"); out != "4096 [file] false  env 0 info" {
		t.Errorf("of all: %s", out)
	}
}

// TestFormerNames checks that a flag's former name works on the command line, in the environment and in a file,
// and that a warning names the new one.
func TestFormerNames(t *testing.T) {
	const warning = "old=wanted new=needed"
	file := filepath.Join(t.TempDir(), "toy.yaml")
	must.OK(t, os.WriteFile(file, []byte("wanted: x"), 0o600))
	for _, args := range [][]string{{"--wanted", "x"}, {"--wanted=x"}, {"--config", file}} {
		if status, out := do(t, append([]string{"print"}, args...)...); status != cmdline.Done ||
			!strings.Contains(out, warning) || !strings.Contains(out, " x 0 info") {
			t.Errorf("%q: status %d, %s", args, status, out)
		}
	}
	for _, args := range [][]string{{"--needed", "wanted"}, {"--short", "wanted"}} {
		if status, out := do(t, append([]string{"print"}, args...)...); status != cmdline.Done ||
			strings.Contains(out, "old=") {
			t.Errorf("%q: status %d, %s; want no warning for a value, or for an alias", args, status, out)
		}
	}
	t.Setenv("TOY_WANTED", "y")
	if status, out := do(t, "print"); status != cmdline.Done || !strings.Contains(out, warning) ||
		!strings.Contains(out, " y 0 info") {
		t.Errorf("in the environment: status %d, %s", status, out)
	}
	t.Setenv("TOY_NEEDED", "x")
	if _, out := do(t, "print"); !strings.Contains(out, " x 0 info") {
		t.Errorf("the former name wins over the new one: %s", out)
	}
}

// TestCompletion tests completion in real shells.
func TestCompletion(t *testing.T) {
	t.Parallel()
	bin := build(t, "./builder/cmd/builder", "./edge/cmd/edge")
	for line, want := range map[string]string{
		"builder bu":                                   "build",
		"builder keys r":                               "restore revoke rotate",
		"edge --max-c":                                 "--max-conns --max-conns-per-address",
		"builder build --log-f":                        "--log-format",
		"builder --log-format js":                      "json",
		"builder --log-level debug keys c":             "create",
		"builder build --store build --log-format js":  "json",
		"builder build --log-format=js":                "--log-format=json",
		"edge --cache-dir-":                            "--cache-dir-size",
		"edge he":                                      "health",
		"edge completion z":                            "zsh",
		"edge --cache-dir tes":                         "testdata",
		"builder keys create --store file:x --name b ": "none",
	} {
		program, _, _ := strings.Cut(line, " ")
		for shell, script := range map[string]string{
			"bash": `source <($PROGRAM completion bash); COMP_LINE=$LINE COMP_POINT=${#LINE}; _$PROGRAM; ((${#COMPREPLY[@]})) || COMPREPLY=($(compgen -f -- "${LINE##* }")); printf '%s\n' "${COMPREPLY[@]}"`,
			"zsh": `autoload -Uz compinit; compinit -u -D; source <($PROGRAM completion zsh)
				_describe() { print -rl -- "${(@)${(P@)2}%%:*}" }; _files() { print -rl -- $words[CURRENT]*(N) }
				words=("${(@s: :)LINE}") CURRENT=$#words; _$PROGRAM`,
			"fish": `$PROGRAM completion fish | source; complete -C "$LINE" | cut -f 1`,
		} {
			path, err := exec.LookPath(shell)
			if err != nil {
				t.Logf("%s is not installed", shell)
				continue
			}
			args := map[string][]string{"bash": {"--norc"}, "zsh": {"-f"}, "fish": {"--no-config"}}[shell]
			cmd := exec.CommandContext(t.Context(), path, append(args, "-c", script)...)
			cmd.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "PROGRAM=" + program,
				"LINE=" + line, "TERM=dumb"}
			out, err := cmd.CombinedOutput()
			words := strings.Fields(string(out))
			slices.Sort(words)
			got := strings.ReplaceAll(strings.Join(words, " "), "testdata/", "testdata")
			if shell == "bash" && strings.Contains(want, "=") { // readline inserts it after the equals sign
				got = "--log-format=" + got
			}
			if want != "none" && got != want {
				t.Errorf("%s: %q: %v, %q, want %q", shell, line, err, got, want)
			}
		}
	}
}
