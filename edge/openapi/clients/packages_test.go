package clients

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"example.com/marketdata/internal/test/must"
)

// aPackage describes a client and how its README installs it.
type aPackage struct {
	dir, language, program string
	file                   string   // the file name of the README's program
	installed              []string // files that name the licence
	environment            []string
}

var packages = []aPackage{
	{dir: "go", language: "go", program: "go", file: "main.go",
		environment: []string{"GOPROXY=http://127.0.0.1:1", "GOFLAGS="}},
	{dir: "python", language: "python", program: python(), file: "start.py",
		installed: []string{"*.dist-info/LICENSE", "*.dist-info/METADATA"},
		environment: []string{"PIP_NO_INDEX=1", "PIP_NO_BUILD_ISOLATION=false", "PIP_TARGET=.", "PIP_UPGRADE=1",
			"PIP_DISABLE_PIP_VERSION_CHECK=1", "PYTHONPATH=."}},
	{dir: "typescript", language: "js", program: "npm", file: "start.mjs",
		installed: []string{
			modulesDir + "/@marketdata/client/LICENSE", modulesDir + "/@marketdata/client/package.json"},
		environment: []string{"npm_config_offline=true"}},
}

// TestReadmes follows the README of each client: it installs the client, and runs the program and the
// examples. All clients must print the same on every market.
func TestReadmes(t *testing.T) {
	licence := string(must.Get(os.ReadFile("../../../LICENSE"))(t))
	markets := theMarkets(t)
	printed := map[string]string{}
	for _, c := range packages {
		t.Run(c.dir, func(t *testing.T) {
			have(t, c.program)
			if string(must.Get(os.ReadFile(filepath.Join(c.dir, "LICENSE")))(t)) != licence {
				t.Error("it has another licence than the project")
			}
			into, clients := t.TempDir(), copied(t, c.dir)
			run := func(env []string, commands string) string {
				// make test-clients has already run npm ci.
				commands = strings.NewReplacer("python3", python(), "npm ci && ", "").Replace(commands)
				env = append(append(env, c.environment...), "CLIENTS="+clients)
				return string(execute(t, into, env, "bash", "-euc", commands))
			}
			install, source, use := c.readme(t)
			write(t, filepath.Join(into, c.file), source)
			for _, commands := range install {
				run(nil, commands)
			}
			for _, name := range c.installed {
				found := must.Get(filepath.Glob(filepath.Join(into, name)))(t)
				if len(found) != 1 || !strings.Contains(string(must.Get(os.ReadFile(found[0]))(t)), "Apache") {
					t.Errorf("%s: found %v, want one that names the licence", name, found)
				}
			}
			for _, m := range markets {
				got := run(m.environment(t), use+"cat history.csv\n")
				if printed[m.name] == "" {
					printed[m.name] = got
				}
				if want := printed[m.name]; got != want {
					t.Errorf("%s: it prints\n%s\nand the first client\n%s", m.name, got, want)
				}
			}
		})
	}
	const start = "0 no-such\nBTC 64447.198255415\nETH 1901.91334204204\n"
	if got := printed[exampleMarket]; !strings.HasPrefix(got, start) {
		t.Errorf("they print\n%s\nwant first\n%s", got, start)
	}
}

// readme returns the commands that install the client, the program that uses it, and the commands
// that run it and the examples.
func (c aPackage) readme(t *testing.T) (install []string, source, use string) {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join(c.dir, "README.md")))(t)
	for _, part := range strings.Split(string(text), "\n```")[1:] {
		if commands, ok := strings.CutPrefix(part, "sh\n"); ok {
			install, use = append(install, use), commands+"\n"
		} else if program, ok := strings.CutPrefix(part, c.language+"\n"); ok {
			source = program
		}
	}
	if len(install) < 2 || source == "" {
		t.Fatalf("blocks %q, program %q", append(install, use), source)
	}
	return install[1:], source, use
}

// copied returns a copy of a client's folder, because its build writes files into the folder.
func copied(t *testing.T, dir string) string {
	t.Helper()
	to := t.TempDir()
	must.OK(t, os.Mkdir(filepath.Join(to, dir), 0o755))
	for _, entry := range must.Get(os.ReadDir(dir))(t) {
		from := must.Get(filepath.Abs(filepath.Join(dir, entry.Name())))(t)
		if at := filepath.Join(to, dir, entry.Name()); entry.Name() == modulesDir {
			must.OK(t, os.Symlink(from, at))
		} else {
			execute(t, ".", nil, "cp", "-R", from, at)
		}
	}
	return to
}
