package check

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/dotenv"
	"github.com/coreos/go-systemd/v22/unit"
)

const units = deploy + "/systemd"

func systemdProcesses(t *testing.T) (all []process) {
	t.Helper()
	files, err := filepath.Glob(units + "/*.service")
	if err != nil || files == nil {
		t.Fatal(err)
	}
	for _, file := range files {
		options, err := unit.DeserializeOptions(strings.NewReader(read(t, file)))
		if err != nil {
			t.Fatal(err)
		}
		is := map[string]string{}
		for _, o := range options {
			is[o.Name] = o.Value
		}
		folder := "/var/cache/" + is["CacheDirectory"]
		args := strings.Fields(strings.ReplaceAll(is["ExecStart"], "${CACHE_DIRECTORY}", folder))
		args[0] = strings.TrimPrefix(args[0], "/usr/local/bin/")
		p := process{where: file, args: args, writable: []string{folder}, memory: is["MemoryMax"]}
		env := filepath.Join(units, strings.TrimPrefix(is["EnvironmentFile"], "/etc/marketdata/"))
		if p.env, err = dotenv.Read(env); err != nil {
			t.Error(err)
		}
		for name, value := range p.env {
			// As the runbook has it read.
			if got := tool(t, nil, "bash", "-c", `set -a; . "$0"; printenv "$1"`, env, name); got != value+"\n" {
				t.Errorf("%s: to a shell %s is %q, want %q", env, name, got, value)
			}
			if value == "" { // for whoever installs it
				delete(p.env, name)
			}
		}
		if stop := is["TimeoutStopSec"]; stop != "" {
			if p.grace, err = time.ParseDuration(stop + "s"); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
		all = append(all, p)
	}
	return all
}

// TestSystemd: systemd takes the units, and finds them locked enough.
func TestSystemd(t *testing.T) {
	for _, p := range systemdProcesses(t) {
		// It wants the program to be there.
		text := strings.ReplaceAll(read(t, p.where), "/usr/local/bin/", bin+"/")
		file := filepath.Join(t.TempDir(), filepath.Base(p.where))
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		// Warnings about units of this machine are no matter.
		if out := tool(t, nil, "systemd-analyze", "verify", "--man=no", file); strings.Contains(out, filepath.Base(file)) {
			t.Error(out)
		}
		tool(t, nil, "systemd-analyze", "security", "--offline=true", "--threshold=15", "--no-pager", file)
	}
}
