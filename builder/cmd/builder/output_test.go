package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/internal/cmdline"
	"example.com/marketdata/internal/test/must"
)

// TestOutputLost checks that a command fails if its output is lost, as cat and ls do (see coreutils
// issue 9782). A key whose creation or rotation could not be shown must not come into force, and
// the key that it replaces must not get an expiry time (see substrate issue 6148).
func TestOutputLost(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("BUILDER_STORE", "file:store")
	at := "2026-11-21T07:10:00Z"
	done(t, "build", "--source", simulated, "--time", at)
	done(t, "keys", "create", "--name", "one")
	id := strings.Fields(strings.Split(done(t, "keys", "list"), "\n")[1])[0]
	before := must.Get(os.ReadFile("store/keys"))(t)
	full := must.Get(os.OpenFile("/dev/full", os.O_WRONLY, 0))(t)
	reader, gone, err := os.Pipe()
	must.OK(t, errors.Join(err, reader.Close()))

	lost := func(line, says string, run func(*exec.Cmd) error) {
		t.Helper()
		var stderr bytes.Buffer
		cmd := builderProcess(t.Context(), strings.Fields(line)...)
		cmd.Stderr = &stderr
		var exit *exec.ExitError
		if err := run(cmd); !errors.As(err, &exit) || !strings.Contains(stderr.String(), says) {
			t.Errorf("builder %s: %v, %s; want %q", line, err, &stderr, says)
		} else if exit.ExitCode() != cmdline.Failed && says != "" {
			t.Errorf("builder %s: status %d", line, exit.ExitCode())
		}
	}
	shown := []string{
		"keys create --name two", "keys create --name two --json", "keys create --name two --count 3 --json",
		"keys rotate --overlap 1h " + id, "keys rotate --json " + id,
	}
	for _, line := range append([]string{
		"verify", "check --source " + simulated, "gc", "gc --dry-run --json", "keys list", "change", "completion bash",
		"feed --source " + simulated + " --out feed",
		"status", "status --json", "source --source " + simulated, "--help",
		"keys create --help", "--version", "__complete b", "build --time " + at + " --source " + simulated,
		"keygen other.key",
	}, shown...) {
		lost(line, "no space left on device", func(cmd *exec.Cmd) error {
			cmd.Stdout = full
			return cmd.Run()
		})
	}
	for _, line := range shown {
		lost(line, "", func(cmd *exec.Cmd) error { // SIGPIPE ends the process
			cmd.Stdout = gone
			return cmd.Run()
		})
		lost(line, "would be lost", func(cmd *exec.Cmd) error {
			cmd.Args = append([]string{"sh", "-c", `exec "$0" "$@" >&-`}, cmd.Args...)
			cmd.Path = must.Get(exec.LookPath("sh"))(t)
			return cmd.Run()
		})
	}
	if after := must.Get(os.ReadFile("store/keys"))(t); !bytes.Equal(before, after) {
		t.Errorf("the key set was %s\nand is %s", before, after)
	}
	if _, err := os.Stat("other.key"); err == nil {
		t.Error("a signing key is left whose public half nobody has seen")
	}
}

// TestTerminal checks that text from elsewhere cannot control a terminal: by BEL, ESC or CSI
// (ECMA-48), or by overriding the text direction (Unicode Technical Report 36, 3.3).
func TestTerminal(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("BUILDER_STORE", "file:store")
	const evil = "Evil\u202e\u009b31m\u007f\u200f"
	at := "2026-11-21T07:10:00Z"
	done(t, "feed", "--source", simulated, "--time", at, "--out", "feed")
	for _, file := range []string{"assets.ndjson", "quotes.ndjson"} {
		b := must.Get(os.ReadFile(filepath.Join("feed", file)))(t)
		b = bytes.Replace(b, []byte(`"name":"`), []byte(`"name":"`+evil), 1)
		b = append(b, `{"key":"`+evil+"\"}\n"...)
		must.OK(t, os.WriteFile(filepath.Join("feed", file), b, 0o644))
	}
	trust := strings.TrimSpace(done(t, "keygen", "key"))
	done(t, "build", "--source", "feed:feed", "--sign-key", "key")
	done(t, "prove", "--time", at, "--asset", "1", "--out", "proof", "--trust-key", trust)
	done(t, "keys", "create", "--name", "plain", "--sign-key", "key", "--json")
	set := must.Get(artifacts.ParseKeySet(must.Get(os.ReadFile("store/keys"))(t)))(t)
	set.Keys[0].Name = "Evil\u202e\u2028\u200f" // parsing a key set refuses other such characters
	k := must.Get(artifacts.ParseSignKey(string(must.Get(os.ReadFile("key"))(t))))(t)
	must.OK(t, os.WriteFile("store/keys", artifacts.Sign(artifacts.KeysKey, set.Encode(), k), 0o644))

	for line, lines := range map[string]int{
		"verify --proof proof --trust-key " + trust: 3,
		"check --source feed:feed":                  0, "check --json --source feed:feed": 1,
		"keys list": 2, "keys revoke --sign-key key " + set.Keys[0].ID: 1, "build --source feed:" + evil: 0,
	} {
		r := command(t, strings.Fields(line)...)
		out := r.stdout + r.stderr
		for _, c := range strings.ReplaceAll(out, "\n", "") {
			if !strconv.IsPrint(c) {
				t.Errorf("builder %s prints %U: %q", line, c, out)
				break
			}
		}
		if lines > 0 && strings.Count(r.stdout, "\n") != lines || out == "" {
			t.Errorf("builder %s: %+v", line, r)
		}
	}
}
