// Package clients tests the clients in this folder. Each client runs the cases of cases.json against edges,
// some of which are slow, busy or broken, and all must print the same results. "make test-clients" installs
// what Python and TypeScript need; without it, the tests skip them.
package clients

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"sync"
	"testing"
	"time"

	"example.com/marketdata/edge/openapi"
	"example.com/marketdata/internal/test/must"
)

// required turns skipping into failing; "make test-clients" sets it.
const required = "MARKETDATA_REQUIRE_CLIENTS"

// version is the version of all clients.
const version = "1.0.0"

// output is a line that a runner prints.
type output map[string]any

func TestClients(t *testing.T) {
	text := must.Get(os.ReadFile("cases.json"))(t)
	var cases []testCase
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	must.OK(t, decoder.Decode(&cases))
	reference := map[string]output{} // the output of the Go client
	for _, c := range []struct {
		name, dir string
		command   []string
		prepare   func(*testing.T)
	}{
		{"go", "go", []string{"go", "run", "./internal/conformance"}, nil},
		{"python", "python", []string{python(), "-m", "tests.conformance"}, nil},
		{"python async", "python", []string{python(), "-m", "tests.conformance", "async"}, nil},
		{"typescript", "typescript", []string{"node", "out/test/conformance.js"}, compile},
	} {
		t.Run(c.name, func(t *testing.T) {
			have(t, c.command[0])
			if c.prepare != nil {
				c.prepare(t)
			}
			f := newFronts(t, c.dir)
			var run []*testCase
			for _, one := range cases {
				f.add(one)
			}
			for i := range len(f.cases) {
				run = append(run, f.cases[strconv.Itoa(i)].testCase)
			}
			file := filepath.Join(t.TempDir(), "cases.json")
			b := must.Get(json.Marshal(run))(t)
			write(t, file, string(b))
			lines := bytes.Split(bytes.TrimSpace(execute(t, c.dir, nil, append(c.command, file)...)), []byte("\n"))
			if len(lines) != len(run) {
				t.Fatalf("%d lines for %d cases", len(lines), len(run))
			}
			for i, line := range lines {
				var out output
				if err := json.Unmarshal(line, &out); err != nil {
					t.Fatalf("%s: %v", line, err)
				}
				f.cases[strconv.Itoa(i)].check(t, out)
				if c.name == "go" {
					reference[run[i].Name] = out
				} else if want := reference[run[i].Name]; want != nil && !reflect.DeepEqual(out, want) {
					t.Errorf("%s:\n%v\nand Go's client:\n%v", run[i].Name, out, want)
				}
			}
		})
	}
}

// check compares a runner's output with what the case wants and, for a single answer, its result with the
// edge's. Then it deletes from the output what may differ between two runs.
func (s *front) check(t *testing.T, out output) {
	t.Helper()
	waited := 0.0
	for i, wait := range out["waits"].([]any) {
		wait := wait.(float64)
		if wait == math.Trunc(wait) {
			t.Errorf("%s: waits %v s, which all clients do together", s.Name, wait)
		}
		waited += wait
		out["waits"].([]any)[i] = nil
	}
	// The attempts of a request must last longer than an outage of three seconds.
	if n := len(out["waits"].([]any)); n >= 3 && waited <= 3 {
		t.Errorf("%s: %d waits of %v s in all", s.Name, n, waited)
	}
	if out["case"] != s.Name {
		t.Fatalf("the output of %v where that of %q belongs", out["case"], s.Name)
	}
	if _, ok := s.Want["error"]; !ok && out["error"] != nil {
		t.Errorf("%s: %v", s.Name, out["error"])
	}
	for name, want := range s.Want {
		if !holds(out[name], want) {
			t.Errorf("%s: %s is %v, want %v", s.Name, name, out[name], want)
		}
	}
	if out["result"] != nil {
		var envelope struct{ Result any }
		if err := json.Unmarshal(s.body, &envelope); err != nil {
			t.Fatalf("%s: %v", s.Name, err)
		}
		if !reflect.DeepEqual(out["result"], envelope.Result) {
			t.Errorf("%s: the result is\n%v\nand the edge's\n%v", s.Name, out["result"], envelope.Result)
		}
	}
	out["requests"] = s.requests
	for _, name := range []string{"not_found", "ignored"} {
		if v := reflect.ValueOf(out[name]); v.IsValid() && v.Len() == 0 {
			out[name] = nil
		}
	}
	if limit, ok := out["limit"].(map[string]any); ok {
		delete(limit, "remaining")
		delete(limit, "reset")
	}
	maps.DeleteFunc(out, func(_ string, v any) bool { return v == nil })
}

// holds reports whether got contains everything in want. null in a list of want stands for any value.
func holds(got, want any) bool {
	switch want := want.(type) {
	case map[string]any:
		m, _ := got.(map[string]any)
		for name, v := range want {
			if !holds(m[name], v) {
				return false
			}
		}
		return len(want) > 0 || len(m) == 0
	case []any:
		list, _ := got.([]any)
		if len(list) != len(want) {
			return false
		}
		for i, v := range want {
			if v != nil && !holds(list[i], v) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(got, want)
}

func write(t *testing.T, path, text string) {
	must.OK(t, os.WriteFile(path, []byte(text), 0o644))
}

// compile lints the OpenAPI document, generates types from it, and compiles the TypeScript client with
// test/document.ts, which checks that the client's own types are the same. It does so only once.
func compile(t *testing.T) {
	have(t, "typescript/"+modules+"tsc")
	compileOnce.Do(func() {
		must.OK(t, os.MkdirAll("typescript/generated", 0o755))
		write(t, "typescript/generated/openapi.json", document(t))
		// npx downloads the linter when it is needed, because its dependencies are six times as large as
		// all others.
		execute(t, "typescript", []string{"npm_config_ignore_scripts=true"}, "npx", "--yes",
			"@stoplight/spectral-cli@6.16.3", "lint", "--fail-severity=hint", "generated/openapi.json")
		execute(t, "typescript", []string{"REDOCLY_TELEMETRY=off", "REDOCLY_SUPPRESS_UPDATE_NOTICE=true"},
			modules+"redocly", "lint", "generated/openapi.json")
		execute(t, "typescript", nil, modules+"openapi-typescript", "generated/openapi.json", "--output",
			"generated/api.ts")
		execute(t, "typescript", nil, modules+"tsc")
	})
}

var compileOnce sync.Once

// document returns the OpenAPI document.
func document(t *testing.T) string {
	t.Helper()
	text := must.Get(openapi.Document(openapi.Options{}))(t)
	return string(text)
}

const (
	modulesDir = "node_modules"
	modules    = modulesDir + "/.bin/"
)

// python returns the name of the interpreter: $PYTHON, or python3.
func python() string { return cmp.Or(os.Getenv("PYTHON"), "python3") }

// have skips the test if it needs a program other than go and the environment does not require such tests.
// Otherwise, it fails the test if the program is not installed.
func have(t *testing.T, program string) {
	t.Helper()
	if program != "go" && os.Getenv(required) == "" {
		t.Skipf("make test-clients runs what needs %s", program)
	}
	if _, err := exec.LookPath(program); err != nil {
		t.Fatalf("%v; see make test-clients", err)
	}
}

// execute runs a command in a folder and returns what it prints.
func execute(t *testing.T, dir string, env []string, command ...string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.WaitDelay = time.Second // to read the output of child processes
	var complaints bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stderr = dir, append(os.Environ(), env...), &complaints
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s%s", command, err, out, &complaints)
	}
	return out
}

// TestTypeScriptMemory checks that a request leaks no memory while the signal in the client's options
// exists.
func TestTypeScriptMemory(t *testing.T) {
	compile(t)
	out := bytes.Fields(execute(t, "typescript", nil, "node", "--expose-gc", "out/test/memory.js"))
	for i, number := range out {
		if n, err := strconv.Atoi(string(number)); err != nil || n > 24 || len(out) != 6 {
			t.Errorf("%s: want at most 24 bytes a request, and no listener: %v", out, i)
		}
	}
}
