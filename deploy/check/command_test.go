package check

import (
	"context"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// programs are the commands that the image holds.
var programs = []string{"builder", "edge", "loadtest"}

// command is a program of the project, to be run.
func command(ctx context.Context, program string, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, filepath.Join(bin, program), args...)
}

// checkCommand runs a command line of a configuration with its environment as
// far as the parsing of flags: a last flag that no program takes must be the
// first one that is refused. Variables of the environment must be flags', too.
func checkCommand(t *testing.T, where string, args []string, env map[string]string) {
	t.Helper()
	if len(args) == 0 || !slices.Contains(programs, args[0]) {
		t.Errorf("%s: %q is none of %v", where, args, programs)
		return
	}
	const last = "--log-level=checked"
	cmd := command(t.Context(), args[0], append(slices.Clone(args[1:]), last)...)
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "--log-level") {
		t.Errorf("%s: %q with %v: %v\n%s", where, args, env, err, out)
	}
	text := help(t, words(args)...)
	for name := range env {
		if strings.HasPrefix(name, "AWS_") || strings.Contains(text, "($"+name+")") {
			continue
		}
		t.Errorf("%s: no flag takes %s", where, name)
	}
}

// words are a command line's program and commands.
func words(args []string) []string {
	n := slices.IndexFunc(args, func(a string) bool { return strings.HasPrefix(a, "-") })
	if n < 0 {
		n = len(args)
	}
	return args[:n]
}

// flag returns a command line's value of a flag, or else the flag's default, as
// the help tells it.
func flag(t *testing.T, args []string, name string) string {
	t.Helper()
	for _, a := range args {
		if value, found := strings.CutPrefix(a, "--"+name+"="); found {
			return value
		}
	}
	if m := regexp.MustCompile(`--` + name + `="?([^\s"]+)`).FindStringSubmatch(help(t, words(args)...)); m != nil {
		return m[1]
	}
	t.Fatalf("%v: no default of --%s", words(args), name)
	return ""
}

var helps sync.Map // of command words to texts

// help is what a command says of its flags.
func help(t *testing.T, words ...string) string {
	t.Helper()
	text, err := askHelp(t.Context(), words...)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func askHelp(ctx context.Context, words ...string) (string, error) {
	key := strings.Join(words, " ")
	if text, ok := helps.Load(key); ok {
		return text.(string), nil
	}
	out, err := command(ctx, words[0], append(slices.Clone(words[1:]), "--help")...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s --help: %w\n%s", key, err, out)
	}
	helps.Store(key, string(out))
	return string(out), nil
}

// TestDocuments: what the documents say to type is something that the programs
// take, and flags that they speak of are flags.
func TestDocuments(t *testing.T) {
	flags := map[string]bool{}
	flagsOf := func(text string) map[string]bool {
		all := map[string]bool{}
		for _, m := range regexp.MustCompile(`(?m)^\s+(?:-\w, )?--([a-z-]+)`).FindAllStringSubmatch(text, -1) {
			all[m[1]] = true
		}
		return all
	}
	for _, program := range programs {
		text := help(t, program)
		maps.Copy(flags, flagsOf(text))
		_, commands, _ := strings.Cut(text, "\nCommands:\n")
		for _, m := range regexp.MustCompile(`(?m)^  ([a-z]+(?: [a-z]+)*)`).FindAllStringSubmatch(commands, -1) {
			maps.Copy(flags, flagsOf(help(t, append([]string{program}, strings.Fields(m[1])...)...)))
		}
	}
	documents, err := filepath.Glob(filepath.Join(deploy, "*.md"))
	if err != nil || len(documents) < 2 {
		t.Fatal(documents, err)
	}
	lines := 0
	for _, file := range append(documents, filepath.Join(deploy, "Dockerfile"), filepath.Join(deploy, "compose.yaml"), filepath.Join(deploy, "kubernetes", "example", "kustomization.yaml")) {
		text := string(read(t, file))
		for _, m := range regexp.MustCompile("`--([a-z-]+)").FindAllStringSubmatch(text, -1) {
			if !flags[m[1]] {
				t.Errorf("%s: no program has a flag --%s", file, m[1])
			}
		}
		indent := "    "
		if filepath.Ext(file) != ".md" {
			indent = "#   "
		}
		for line := range strings.Lines(text) {
			typed, found := strings.CutPrefix(line, indent)
			args := typedProgram(typed)
			if !found || args == nil {
				continue
			}
			lines++
			text, err := askHelp(t.Context(), words(args)...)
			if err != nil {
				t.Errorf("%s: %s: %v", file, typed, err)
				continue
			}
			known := flagsOf(text)
			for _, a := range args {
				name, isFlag := strings.CutPrefix(a, "--")
				name, _, _ = strings.Cut(name, "=")
				if isFlag && !known[name] {
					t.Errorf("%s: %s: no --%s", file, strings.TrimSpace(typed), name)
				}
			}
		}
	}
	if lines < 10 {
		t.Errorf("only %d lines to type", lines)
	}
}

// typedProgram returns the part of a line to be typed that is a command line of
// a program, nil when there is none. Tools that run a program elsewhere name the
// place first, which may have the program's name.
func typedProgram(line string) []string {
	line, _, _ = strings.Cut(line, " #")
	args := strings.Fields(line)
	for i, a := range args {
		args[i] = strings.Trim(a, `'"`)
	}
	for i, a := range args {
		if !slices.Contains(programs, a) || i+1 == len(args) || slices.Contains(programs, args[i+1]) {
			continue
		}
		args = args[i:]
		if j := slices.IndexFunc(args, func(a string) bool { return strings.ContainsAny(a[:min(len(a), 1)], "|>&;\\") }); j >= 0 {
			args = args[:j]
		}
		return args
	}
	return nil
}
