package check

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
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
	dropIns, err := filepath.Glob(units + "/*.service.d/*.conf")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range slices.Concat(files, dropIns) {
		text := read(t, file)
		if dir := filepath.Dir(file); dir != units {
			text = read(t, strings.Replace(strings.TrimSuffix(dir, ".d"), "@.", ".", 1)) + text
		}
		options, err := unit.DeserializeOptions(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		is := map[string]string{}
		for _, o := range options {
			is[o.Name] = o.Value
		}
		credentials := t.TempDir()
		if name, _, found := strings.Cut(is["LoadCredential"], ":"); found {
			tool(t, nil, filepath.Join(bin, "builder"), "keygen", filepath.Join(credentials, name))
		}
		cache := "/var/cache/" + is["CacheDirectory"]
		args := strings.Fields(strings.NewReplacer("${CACHE_DIRECTORY}", cache, "${CREDENTIALS_DIRECTORY}", credentials,
			"${BUILDER_BACKUP}", "file:/var/lib/marketdata-backup", "%i", "1").Replace(is["ExecStart"]))
		args[0] = strings.TrimPrefix(args[0], "/usr/local/bin/")
		if is["Type"] == "notify" && !strings.Contains(is["RestrictAddressFamilies"], "AF_UNIX") {
			t.Errorf("%s: it cannot tell systemd that it is ready", file)
		}
		p := process{where: file, args: args, writable: []string{cache}, memory: is["MemoryMax"]}
		for state := range strings.FieldsSeq(is["StateDirectory"]) {
			p.writable = append(p.writable, "/var/lib/"+state)
		}
		env := filepath.Join(units, strings.TrimPrefix(is["EnvironmentFile"], "/etc/marketdata/"))
		if p.env, err = dotenv.Read(env); err != nil {
			t.Error(err)
		}
		for name, value := range p.env {
			// The runbook loads the file in this way.
			if got := tool(t, nil, "bash", "-c", `set -a; . "$0"; printenv "$1"`, env, name); got != value+"\n" {
				t.Errorf("%s: to a shell %s is %q, want %q", env, name, got, value)
			}
			if value == "" { // it must be filled in at installation
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

// TestSystemd: systemd accepts the units with their drop-ins, and considers them sufficiently
// sandboxed. The socket has the address of the edge.
func TestSystemd(t *testing.T) {
	dir := t.TempDir()
	var files []string
	install := func(name, from string) {
		// systemd-analyze requires that the program exists.
		text := strings.ReplaceAll(read(t, from), "/usr/local/bin/", bin+"/")
		file := filepath.Join(dir, name)
		if err := errors.Join(
			os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
		if filepath.Dir(file) == dir {
			files = append(files, file)
		}
	}
	all := systemdProcesses(t)
	for _, p := range all {
		install(strings.TrimPrefix(p.where, units+"/"), p.where)
	}
	install("marketdata-edge@.service", units+"/marketdata-edge.service") // as in packages
	install("marketdata-backup.timer", units+"/marketdata-backup.timer")
	socket := units + "/marketdata-edge.socket"
	install("marketdata-edge.socket", socket)
	options, err := unit.DeserializeOptions(strings.NewReader(read(t, socket)))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		for _, o := range options {
			if o.Name == "ListenStream" && p.args[0] == "edge" && ":"+o.Value != p.flag(t, "listen") {
				t.Errorf("%s: %s, but --listen is %s", socket, o.Value, p.flag(t, "listen"))
			}
		}
	}
	for _, file := range files {
		// Warnings about this machine's own units do not matter.
		if out := tool(t, nil, "systemd-analyze", "verify", "--man=no", file); strings.Contains(
			out, filepath.Base(file)) {
			t.Error(out)
		}
		if strings.HasSuffix(file, ".service") {
			tool(t, nil, "systemd-analyze", "security", "--offline=true", "--threshold=15", "--no-pager", file)
		}
	}
}
