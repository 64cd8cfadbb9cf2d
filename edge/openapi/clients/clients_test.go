// Package clients tests the clients of this folder: each runs the cases of
// cases.json against running edges, slow, busy and broken ones among them, and
// all must say the same. Python and TypeScript are run by "make test-clients",
// which installs what they need, and skipped without.
package clients

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"example.com/marketdata/edge"
	"example.com/marketdata/edge/openapi"
	"example.com/marketdata/internal/lab/must"
	"example.com/marketdata/internal/lab/openapitest"
	"example.com/marketdata/internal/lab/teststore"
)

// required turns skipping into failing; "make test-clients" sets it.
const required = "MARKETDATA_REQUIRE_CLIENTS"

// output is a line of a runner.
type output map[string]any

func TestClients(t *testing.T) {
	text := must.Get(os.ReadFile("cases.json"))(t)
	var cases []testCase
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	must.OK(t, decoder.Decode(&cases))
	reference := map[string]output{} // of Go's client
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
			f := newFronts(t)
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

// check compares a runner's output with what the case wants and, for one answer,
// its result with the edge's. Then it takes out of it what may differ between
// two runs.
func (s *front) check(t *testing.T, out output) {
	t.Helper()
	for i, wait := range out["waits"].([]any) {
		if wait := wait.(float64); wait != math.Trunc(wait) {
			out["waits"].([]any)[i] = nil // at random
		}
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

// holds reports whether got has what want has; null in a list stands for any value.
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

// TestQuickStart packs each client, and runs with the package what its README
// shows.
func TestQuickStart(t *testing.T) {
	for _, c := range []struct {
		dir, language, program string
		pack                   func(t *testing.T, dir, into string)
		file                   string
		command                []string
		want                   string
	}{
		{"go", "go", "go", goModule, "main.go", []string{"go", "run", "."}, "64447.198255415 [no-such]"},
		{"python", "python", python(), wheel, "start.py", []string{python(), "start.py"},
			"64447.198255415 ['no-such']"},
		{"typescript", "js", modules + "tsc", tarball, "start.js", []string{"node", "start.js"},
			"64447.198255415 [ 'no-such' ]"},
	} {
		t.Run(c.dir, func(t *testing.T) {
			if c.dir == "typescript" {
				c.program = filepath.Join(c.dir, c.program)
			}
			have(t, c.program)
			readme := must.Get(os.ReadFile(filepath.Join(c.dir, "README.md")))(t)
			_, start, _ := strings.Cut(string(readme), "```"+c.language+"\n")
			start, _, _ = strings.Cut(start, "```")
			store, into := openapitest.Market(t), t.TempDir()
			key, base := teststore.Key(t, store, 100, 100).Key, openapitest.Start(t, edge.Config{Reader: store})
			openapitest.Await(t, base, key)
			c.pack(t, c.dir, into)
			write(t, filepath.Join(into, c.file),
				strings.NewReplacer("https://host", base, "mdk_live_…", key).Replace(start))
			got := string(execute(t, into, nil, c.command...))
			if want := c.want + "\n1 BTC\n2 ETH\n5 USDX\n7 SALT\n9 PTL\n12 PTL\n14 ZZZ\n"; got != want {
				t.Errorf("it prints\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// goModule makes a module in a folder that requires the client's.
func goModule(t *testing.T, dir, into string) {
	at := must.Get(filepath.Abs(dir))(t)
	const path = "example.com/marketdata/edge/openapi/clients/go"
	write(t, filepath.Join(into, "go.mod"),
		"module start\n\ngo 1.23.0\n\nrequire "+path+" v0.0.0\n\nreplace "+path+" => "+at+"\n")
}

// wheel builds a wheel and unpacks it into a folder.
func wheel(t *testing.T, dir, into string) {
	copied := t.TempDir() // builds write beside their source
	must.OK(t, os.CopyFS(copied, os.DirFS(dir)))
	execute(t, copied, nil, python(), "-m", "build", "--no-isolation", "--outdir", "packed")
	wheels, err := filepath.Glob(filepath.Join(copied, "packed", "*.whl"))
	if err != nil || len(wheels) != 1 {
		t.Fatal(wheels, err)
	}
	execute(t, into, nil, python(), "-m", "zipfile", "--extract", wheels[0], ".")
}

// tarball packs an npm package and unpacks it into a folder's node_modules.
func tarball(t *testing.T, dir, into string) {
	at := filepath.Join(into, modulesDir, "marketdata-client")
	must.OK(t, os.MkdirAll(at, 0o755))
	execute(t, dir, nil, "npm", "pack", "--pack-destination", into)
	execute(t, into, nil, "tar", "-xzf", "marketdata-client-1.0.0.tgz", "-C", at, "--strip-components=1")
	write(t, filepath.Join(into, "package.json"), `{"type": "module"}`)
}

func write(t *testing.T, path, text string) {
	must.OK(t, os.WriteFile(path, []byte(text), 0o644))
}

// compile makes types from the OpenAPI document, which it lints, and compiles
// with them: test/document.ts says that the client's own types are the same.
func compile(t *testing.T) {
	have(t, "typescript/"+modules+"tsc")
	must.OK(t, os.MkdirAll("typescript/generated", 0o755))
	write(t, "typescript/generated/openapi.json", document(t))
	// Fetched when it is used: with all it needs it is six times as much as the rest.
	execute(t, "typescript", []string{"npm_config_ignore_scripts=true"}, "npx", "--yes",
		"@stoplight/spectral-cli@6.16.3", "lint", "--fail-severity=hint", "generated/openapi.json")
	execute(t, "typescript", []string{"REDOCLY_TELEMETRY=off", "REDOCLY_SUPPRESS_UPDATE_NOTICE=true"},
		modules+"redocly", "lint", "generated/openapi.json")
	execute(t, "typescript", nil, modules+"openapi-typescript", "generated/openapi.json", "--output",
		"generated/api.ts")
	execute(t, "typescript", nil, modules+"tsc")
}

// document is the OpenAPI document.
func document(t *testing.T) string {
	t.Helper()
	text := must.Get(openapi.Document(openapi.Options{}))(t)
	return string(text)
}

const (
	modulesDir = "node_modules"
	modules    = modulesDir + "/.bin/"
)

// python is the interpreter: $PYTHON, or python3.
func python() string { return cmp.Or(os.Getenv("PYTHON"), "python3") }

// have skips a test whose program, or version of it, may not be on this machine, but
// for Go's.
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
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	var complaints bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stderr = dir, append(os.Environ(), env...), &complaints
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s%s", command, err, out, &complaints)
	}
	return out
}
