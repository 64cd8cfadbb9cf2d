package check

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-systemd/v22/unit"
)

// TestSystemd: systemd takes the units and finds them locked enough, the
// programs take their flags, and an edge has files and time enough.
func TestSystemd(t *testing.T) {
	for _, program := range []string{"edge", "builder"} {
		name := "marketdata-" + program + ".service"
		text := read(t, deploy, "systemd", name)
		options, err := unit.DeserializeOptions(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		is := map[string]string{}
		for _, o := range options {
			is[o.Name] = o.Value
		}
		for option, want := range map[string]string{
			"DynamicUser": "yes", "NoNewPrivileges": "yes", "ProtectSystem": "strict", "Restart": "always", "EnvironmentFile": "/etc/marketdata/" + program + ".env",
		} {
			if is[option] != want {
				t.Errorf("%s: %s=%s, want %s", name, option, is[option], want)
			}
		}
		exec, folder := is["ExecStart"], is["CacheDirectory"]
		exec = strings.ReplaceAll(exec, "${CACHE_DIRECTORY}", "/var/cache/"+folder)
		path, args, _ := strings.Cut(exec, " ")
		if path != "/usr/local/bin/"+program || strings.Contains(args, "$") {
			t.Errorf("%s: starts %s", name, is["ExecStart"])
		}
		env := environmentFile(t, filepath.Join(deploy, "systemd", program+".env"))
		line := append([]string{program}, strings.Fields(args)...)
		checkCommand(t, name, line, env)
		files, err := strconv.Atoi(is["LimitNOFILE"])
		if err != nil {
			t.Error(err)
		}
		if program == "edge" {
			conns, err := strconv.Atoi(flag(t, line, "max-conns"))
			if err != nil || files < conns+1024 {
				t.Errorf("%s: %d files for %d connections, %v", name, files, conns, err)
			}
			stop, err := strconv.Atoi(is["TimeoutStopSec"])
			if err != nil || time.Duration(stop)*time.Second <= draining(t, line) {
				t.Errorf("%s: killed after %d s, drains for %v, %v", name, stop, draining(t, line), err)
			}
		}
		verify(t, name, text)
	}
}

// verify asks systemd itself what it makes of a unit.
func verify(t *testing.T, name string, text []byte) {
	t.Helper()
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Log("systemd-analyze is not installed: the unit was read, and not verified")
		return
	}
	// It wants the program to be there.
	text = bytes.ReplaceAll(text, []byte("/usr/local/bin/"), []byte(bin+"/"))
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"verify", "--man=no", file}, {"security", "--offline=true", "--threshold=15", "--no-pager", file}} {
		out, err := exec.CommandContext(t.Context(), analyze, args...).CombinedOutput()
		// Warnings about units of this machine are no matter.
		if err != nil || args[0] == "verify" && strings.Contains(string(out), name) {
			t.Errorf("systemd-analyze %v: %v\n%s", args, err, out)
		}
	}
}

// environmentFile reads a file of NAME=value lines. Variables without a value
// are for whoever installs it.
func environmentFile(t *testing.T, file string) map[string]string {
	t.Helper()
	env := map[string]string{}
	for line := range strings.Lines(string(read(t, file))) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		m := regexp.MustCompile(`^([A-Z_]+)=(\S*)$`).FindStringSubmatch(line)
		if m == nil {
			t.Errorf("%s: %q", file, line)
		} else if m[2] != "" {
			env[m[1]] = m[2]
		}
	}
	return env
}
