package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/internal/test/buildtest"
	"example.com/marketdata/internal/test/local"
	"example.com/marketdata/internal/test/must"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// build builds the program and returns its path.
func build(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", path, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// configured contains the configuration files of assistants, and the placeholder that each uses for the
// key.
var configured = map[string]string{
	".mcp.json": "${MARKETDATA_KEY}", ".cursor/mcp.json": "${env:MARKETDATA_KEY}",
	".vscode/mcp.json": "${input:marketdata-key}"}

// TestConfigurations starts the program as each of the example files says, and queries it. The program must
// print only messages of the protocol, and log failures on standard error. The documentation page must show
// the files.
func TestConfigurations(t *testing.T) {
	path, s := build(t), simulated(t)
	page := string(must.Get(os.ReadFile("../../pages/assistants.md"))(t))
	for file, key := range configured {
		t.Run(file, func(t *testing.T) {
			text := must.Get(os.ReadFile("examples/" + file))(t)
			if !strings.Contains(page, "```json\n"+string(text)+"```") {
				t.Error("the page does not show it")
			}
			var config struct {
				Inputs              []struct{ ID string }
				MCPServers, Servers map[string]struct {
					Type, Command string
					Args          []string
					Env           map[string]string
				}
			}
			must.OK(t, json.Unmarshal(text, &config))
			for _, input := range config.Inputs {
				if key != "${input:"+input.ID+"}" {
					t.Errorf("input %s", input.ID)
				}
			}
			server, ok := config.MCPServers["marketdata"]
			if !ok {
				server = config.Servers["marketdata"]
			}
			if server.Type != "stdio" || server.Command != name {
				t.Fatalf("%+v", server)
			}
			cmd := exec.CommandContext(t.Context(), path, server.Args...)
			cmd.Env = []string{}
			put := strings.NewReplacer("https://host", s.base, key, s.key)
			for variable, value := range server.Env {
				cmd.Env = append(cmd.Env, variable+"="+put.Replace(value))
			}
			var log bytes.Buffer
			cmd.Stderr = &log
			session := dial(t, &mcp.CommandTransport{Command: cmd})
			got := ask(t, session, "quotes", arguments{"slug": []string{"bitcoin"}})
			if len(got.Items) != 1 || got.Items[0]["symbol"] != "BTC" {
				t.Error(got.text)
			}
			ask(t, session, "quotes", arguments{"snapshot": "yesterday"})
			must.OK(t, session.Close())
			if !strings.Contains(log.String(), `msg="call failed"`) || strings.Contains(log.String(), s.key) {
				t.Errorf("the log: %s", &log)
			}
		})
	}
}

// TestCommandLine checks that the program reports errors in the command line on standard error.
func TestCommandLine(t *testing.T) {
	path := build(t)
	for _, c := range []struct {
		args, env []string
		status    int
		out, errs string
	}{
		{[]string{"--help"}, nil, 0, `"command": "marketdata-mcp"`, ""},
		{nil, nil, 2, "", "MARKETDATA_URL"},
		{nil, []string{"MARKETDATA_URL=http://h"}, 0, "", ""}, // standard input has ended
		{nil, []string{"MARKETDATA_URL=http://h", "MARKETDATA_KEY=mdk_live_a b"}, 2, "", "blanks"},
		{nil, []string{"MARKETDATA_URL=https://host/openapi/v1"}, 2, "", "must not end in /openapi/v1"},
		{[]string{"--listen", "0.0.0.0:80"}, []string{"MARKETDATA_URL=http://h"}, 2, "", "want a loopback address"},
		{nil, []string{"MARKETDATA_URL=http://h", "MARKETDATA_TRUST_KEY=x"}, 2, "", "mdtrust_"},
		{nil, []string{"MARKETDATA_URL=http://h", "MARKETDATA_MCP_LISTN=x"}, 0, "",
			"did you mean MARKETDATA_MCP_LISTEN"},
	} {
		var out, errs bytes.Buffer
		cmd := exec.CommandContext(t.Context(), path, c.args...)
		cmd.Env, cmd.Stdout, cmd.Stderr = append([]string{}, c.env...), &out, &errs
		_ = cmd.Run()
		if cmd.ProcessState.ExitCode() != c.status ||
			!strings.Contains(out.String(), c.out) || (out.Len() == 0) != (c.out == "") ||
			!strings.Contains(errs.String(), c.errs) || strings.Contains(errs.String(), "a b") {
			t.Errorf("%v %v: status %d\n%s\n%s", c.args, c.env, cmd.ProcessState.ExitCode(), &out, &errs)
		}
	}
}

// npm contains the paths of independent clients, and of the Node.js that they need.
type npm struct{ node, inspector, conformance string }

// install downloads the clients, but only if "make test-clients" runs the tests.
func install(t *testing.T) npm {
	t.Helper()
	if os.Getenv("MARKETDATA_REQUIRE_CLIENTS") == "" {
		t.Skip("make test-clients downloads the inspector and the conformance tests")
	}
	platform := map[string]string{"amd64": "x64"}[runtime.GOARCH]
	if platform == "" {
		platform = runtime.GOARCH
	}
	cmd := exec.CommandContext(t.Context(), "npm", "exec", "--yes",
		"--package=node-"+runtime.GOOS+"-"+platform+"@22.23.3", "--package=@modelcontextprotocol/inspector@2.12.0",
		"--package=@modelcontextprotocol/conformance@0.1.16",
		"--call=command -v node; command -v mcp-inspector; command -v conformance")
	cmd.Env = append(os.Environ(), "npm_config_ignore_scripts=true")
	paths := strings.Fields(string(must.Get(cmd.Output())(t)))
	if len(paths) != 3 {
		t.Fatalf("npm has %q", paths)
	}
	return npm{paths[0], paths[1], paths[2]}
}

// run runs a script from npm in its own folder.
func (n npm) run(t *testing.T, script string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	var errs bytes.Buffer
	cmd := exec.CommandContext(ctx, n.node, append([]string{script}, args...)...)
	cmd.Dir, cmd.Stderr = t.TempDir(), &errs
	cmd.Env = append(os.Environ(), "HOME="+cmd.Dir)
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%w\n%s%s", err, out, &errs)
	}
	return string(out), err
}

// serve starts the program on a port, and returns its URL.
func serve(t *testing.T, path string, s *service) string {
	t.Helper()
	m := &local.Machine{Data: t.TempDir()}
	addr := local.Free("127.0.0.1:0")
	cmd := exec.Command(path, "--listen", addr)
	cmd.Env = environment(s)
	program := must.Get(m.StartCommand(name, cmd))(t)
	t.Cleanup(program.Stop)
	must.OK(t, local.AwaitListener(t.Context(), addr, program))
	return "http://" + addr + "/mcp"
}

func environment(s *service) []string {
	return []string{"MARKETDATA_URL=" + s.base, "MARKETDATA_KEY=" + s.key,
		"MARKETDATA_TRUST_KEY=" + buildtest.SignKey.Trust().Text()}
}

// TestInspector lists and calls every tool with the protocol's inspector, over standard input and output
// and over HTTP, with the protocol versions until 2025 and with the later one.
func TestInspector(t *testing.T) {
	n, path := install(t), build(t)
	s := simulated(t)
	config := filepath.Join(t.TempDir(), "mcp.json")
	b := must.Get(json.Marshal(map[string]any{"mcpServers": map[string]any{"marketdata": map[string]any{
		"type": "stdio", "command": "env", "args": append(environment(s), path)}}}))(t)
	must.OK(t, os.WriteFile(config, b, 0o600))
	calls := map[string]string{"changes": `{}`, "global": `{}`, "history": `{"slug":["bitcoin"],"window":"24h"}`,
		"markets":  `{"size":2}`,
		"price_at": `{"id":[1],"time":["2026-03-01"]}`, "quotes": `{"symbol":["BTC"]}`, "search": `{"words":"bitc"}`,
		"verify_proof": `{"id":1}`}
	for _, to := range [][]string{
		{"--config", config, "--server", "marketdata"}, {"--transport", "http", "--server-url", serve(t, path, s)},
		{"--config", config, "--server", "marketdata", "--protocol-era", "modern"}} {
		ask := func(args ...string) (got struct {
			Result struct {
				Tools             []struct{ Name string }
				IsError           bool
				StructuredContent struct {
					Snapshot string
					Items    []struct{ ID int }
				}
			}
		}) {
			t.Helper()
			out, err := n.run(t, n.inspector, append(append([]string{"--cli", "--format", "json"}, to...), args...)...)
			must.OK(t, err)
			must.OK(t, json.Unmarshal([]byte(out), &got))
			return got
		}
		var names []string
		for _, tool := range ask("--method", "tools/list", "--strict").Result.Tools {
			names = append(names, tool.Name)
		}
		if !slices.Equal(names, toolNames) {
			t.Errorf("%v: tools %q", to, names)
		}
		for _, tool := range toolNames {
			got := ask("--method", "tools/call", "--tool-name", tool, "--tool-args-json", calls[tool]).Result
			answer := got.StructuredContent
			if got.IsError || answer.Snapshot != "2026-11-21T12:00:00Z" || len(answer.Items) == 0 {
				t.Errorf("%v: %s: %+v", to, tool, got)
			}
		}
	}
}

// TestConformance runs the protocol's conformance tests for servers. Tests of features that this server
// does not have are listed in testdata/conformance.yml, and must fail.
func TestConformance(t *testing.T) {
	n := install(t)
	url := serve(t, build(t), at(t, "http://127.0.0.1:1", ""))
	baseline := must.Get(filepath.Abs("testdata/conformance.yml"))(t)
	out, err := n.run(t, n.conformance, "server", "--url", url, "--spec-version", "2025-11-25",
		"--expected-failures", baseline)
	if err != nil {
		t.Fatal(err)
	}
	for _, passed := range []string{"server-initialize", "ping", "tools-list", "dns-rebinding-protection"} {
		if !strings.Contains(out, "✓ "+passed+": ") {
			t.Errorf("%s is not passed:\n%s", passed, out)
		}
	}
}
