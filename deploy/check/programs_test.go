package check

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

// process describes how a configuration runs a program.
type process struct {
	where    string
	args     []string          // starting with the program
	env      map[string]string // as far as the configuration knows it
	ports    []string          // ports on which others expect it to listen, or nil if they expect none
	probes   []string          // paths of the admin listener
	writable []string          // folders
	grace    time.Duration     // time between the request to stop and the kill, or 0 for the supervisor's default
	memory   string            // limit in bytes, with a unit, or "" if there is none
}

// processes returns the processes of all configurations.
func processes(t *testing.T) []process {
	return slices.Concat(
		composeProcesses(t), kubernetesProcesses(t, "base"), kubernetesProcesses(t, "example"),
		kubernetesProcesses(t, "plain"), systemdProcesses(t))
}

// flag returns the value of a flag, or its default according to the help. It returns "" if the
// program has no such flag.
func (p process) flag(t *testing.T, name string) string {
	m := regexp.MustCompile(`(?m)^ +--` + name + `(?:="?([^\s"]+)"?)?\s`).FindStringSubmatch(help(t, words(p.args)...))
	if m == nil {
		return ""
	}
	for _, a := range p.args {
		if value, found := strings.CutPrefix(a, "--"+name+"="); found {
			return value
		}
	}
	if value := p.env[strings.ToUpper(p.args[0]+"_"+strings.ReplaceAll(name, "-", "_"))]; value != "" {
		return value
	}
	return m[1]
}

// listens returns the ports of a program's listeners.
func (p process) listens(t *testing.T) (ports []string) {
	for _, name := range []string{"listen", "admin", "metrics"} {
		if address := p.flag(t, name); address != "" {
			ports = append(ports, address[strings.LastIndex(address, ":")+1:])
		}
	}
	return ports
}

func (p process) duration(t *testing.T, name string) time.Duration {
	d, err := time.ParseDuration(p.flag(t, name))
	if err != nil {
		t.Errorf("%s: --%s: %v", p.where, name, err)
	}
	return d
}

// sizeOf parses a size as programs, Kubernetes or systemd write it.
func sizeOf(t *testing.T, size string) int64 {
	q, err := resource.ParseQuantity(regexp.MustCompile(`([KMGT])i?B?$`).ReplaceAllString(size, "${1}i"))
	if err != nil {
		t.Errorf("%q: %v", size, err)
	}
	return q.Value()
}

// TestProcesses: programs accept the flags and the environment that they are given, listen where
// others expect it, answer their probes, and have sufficient folders, time and memory.
func TestProcesses(t *testing.T) {
	for _, p := range processes(t) {
		p.checkCommand(t)
		listens := p.listens(t)
		slices.Sort(listens)
		slices.Sort(p.ports)
		if p.ports != nil && !slices.Equal(p.ports, listens) {
			t.Errorf("%s: ports %v, the flags say %v", p.where, p.ports, listens)
		}
		r, err := live()
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range p.probes {
			if !r.answers[p.args[0]+" "+path] {
				t.Errorf("%s: nothing answers %s", p.where, path)
			}
		}
		if dir := p.flag(t, "state-dir"); p.args[0] == "builder" && p.args[1] == "run" &&
			!slices.Contains(p.writable, dir) && !slices.Contains(p.writable, filepath.Dir(dir)) {
			t.Errorf("%s: --state-dir %s is in none of %v", p.where, dir, p.writable)
		}
		if p.args[0] != "edge" {
			continue
		}
		if drain := p.duration(t, "drain-wait") + p.duration(t, "drain-timeout"); p.grace <= drain {
			t.Errorf("%s: killed after %v, drains for %v", p.where, p.grace, drain)
		}
		if dir := p.flag(t, "cache-dir"); !slices.Contains(p.writable, dir) {
			t.Errorf("%s: --cache-dir %s is none of %v", p.where, dir, p.writable)
		}
		// According to the runbook, the soft limit of memory is one and a half times the cache plus
		// 160 MiB.
		if soft := sizeOf(t, p.flag(t, "cache-size"))*3/2 + 160<<20; p.memory != "" && sizeOf(t, p.memory) < soft*5/4 {
			t.Errorf("%s: memory %s, the soft limit is %d", p.where, p.memory, soft)
		}
	}
}

// checkCommand runs the program until it has parsed its flags: the first rejected flag must be the
// last one, which no program accepts.
func (p process) checkCommand(t *testing.T) {
	if !slices.Contains(programs, p.args[0]) {
		t.Fatalf("%s: %q is none of %v", p.where, p.args, programs)
	}
	cmd := exec.CommandContext(
		t.Context(), filepath.Join(bin, p.args[0]), append(slices.Clone(p.args[1:]), "--checked")...)
	text := help(t, words(p.args)...) + help(t, p.args[0])
	if p.args[0] == "builder" { // all commands share a container's environment or an environment file
		text += help(t, "builder", "run")
	}
	for name, value := range p.env {
		cmd.Env = append(cmd.Env, name+"="+value)
		flag, ours := strings.CutPrefix(name, strings.ToUpper(p.args[0])+"_")
		if !strings.HasPrefix(name, "AWS_") && name != "TMPDIR" &&
			(!ours || !strings.Contains(text, " --"+strings.ToLower(strings.ReplaceAll(flag, "_", "-")))) {
			t.Errorf("%s: no flag takes %s", p.where, name)
		}
	}
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "unknown flag --checked") {
		t.Errorf("%s: %q with %v: %v\n%s", p.where, p.args, p.env, err, out)
	}
}

// TestDocuments: the programs accept the commands that documents and comments tell the reader to
// type, and have the flags that these mention.
func TestDocuments(t *testing.T) {
	var all strings.Builder // help texts of all commands
	for _, program := range programs {
		text := help(t, program)
		all.WriteString(text)
		_, commands, _ := strings.Cut(text, "\nCommands:\n")
		for _, m := range regexp.MustCompile(`(?m)^  ([a-z]+(?: [a-z]+)*)`).FindAllStringSubmatch(commands, -1) {
			all.WriteString(help(t, append([]string{program}, strings.Fields(m[1])...)...))
		}
	}
	check := func(where, text string, flags []string) {
		for _, f := range flags {
			name, _, _ := strings.Cut(f, "=")
			if strings.HasPrefix(f, "--") && !regexp.MustCompile(`(?m)^\s+(-\w, )?`+name+`[=\s]`).MatchString(text) {
				t.Errorf("%s: no flag %s", where, name)
			}
		}
	}
	fence := regexp.MustCompile("(?ms)^```(\\w*)[^\n]*\n(.*?)^```$")
	toType := regexp.MustCompile("(?m)^    (.+)|^ *#   (.+)|`([^`]+)`")
	typed := 0
	for _, pattern := range []string{"*.md", "Dockerfile", "compose.yaml", "kubernetes/*/kustomization.yaml"} {
		files, err := filepath.Glob(filepath.Join(deploy, pattern))
		if err != nil || files == nil {
			t.Fatal(pattern, err)
		}
		for _, file := range files {
			for _, m := range toType.FindAllStringSubmatch(
				fence.ReplaceAllStringFunc(read(t, file), func(block string) string {
					if m := fence.FindStringSubmatch(block); m[1] == "sh" {
						return regexp.MustCompile(`(?m)^`).ReplaceAllString(m[2], "    ")
					}
					return "" // a diagram
				}), -1) {
				line, _, _ := strings.Cut(m[1]+m[2]+m[3], " #")
				where := file + ": " + line
				if m[3] != "" && strings.HasPrefix(line, "--") {
					check(where, all.String(), strings.Fields(line)[:1])
				}
				args := typedProgram(line)
				if args == nil {
					continue
				}
				typed++
				text := help(t, words(args)...)
				if text == "" {
					t.Errorf("%s: no command %v", where, words(args))
				}
				check(where, text, args)
			}
		}
	}
	if typed < 10 {
		t.Errorf("only %d commands to type", typed)
	}
}

// typedProgram returns the part of a line that is a command line of a program, or nil if there is
// none. Tools that run a program elsewhere name the location first, which may equal the program's
// name.
func typedProgram(line string) []string {
	args := strings.Fields(regexp.MustCompile(` [|>&;\\].*`).ReplaceAllString(line, ""))
	for i, a := range args {
		args[i] = strings.Trim(a, `'"`)
	}
	for i := range max(0, len(args)-1) {
		if slices.Contains(programs, args[i]) && !slices.Contains(programs, args[i+1]) {
			return args[i:]
		}
	}
	return nil
}
