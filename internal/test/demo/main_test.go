package main

import (
	"bufio"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"example.com/marketdata/internal/test/local"
	"example.com/marketdata/internal/test/must"
)

// TestRun starts the service twice in a row. It has the same address and the same key each time.
// Another run at the same time does not start, and reports where the service is or what prevents
// the start.
func TestRun(t *testing.T) {
	bin, data := t.TempDir(), t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin, ".", "../../../builder/cmd/builder",
		"../../../edge/cmd/edge").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	const source = "sim:?assets=50&seed=1"
	listen, admin := local.Free("127.0.0.1:0"), local.Free("127.0.0.1:0")
	command := func(data, source, listen string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "demo"), "--bin", bin, "--data", data, "--source",
			source, "--listen", listen, "--admin", admin)
		cmd.Env = append(os.Environ(), "BUILDER_STATE_DIR=")
		return cmd
	}
	board := ""
	for range 2 {
		cmd := command(data, source, listen)
		out, err := cmd.StdoutPipe()
		if err == nil {
			cmd.Stderr = os.Stderr
			err = cmd.Start()
		}
		must.OK(t, err)
		last, commands := "", ""
		for lines := bufio.NewScanner(out); !strings.HasPrefix(last, "board") && lines.Scan(); {
			if last = lines.Text(); strings.HasPrefix(last, "  ") {
				commands += last + "\n"
			}
		}
		m := regexp.MustCompile(`^board, signed in: (http://` + regexp.QuoteMeta(listen) + `)/#key=(mdk_live_\w+)$`).
			FindStringSubmatch(last)
		if m == nil || board != "" && board != m[0] {
			t.Fatalf("the last line is %q, before it was %q", last, board)
		}
		board = m[0]
		request := must.Get(http.NewRequestWithContext(
			t.Context(), "GET", m[1]+"/openapi/v1/assets?sort=rank&limit=3", nil))(t)
		request.Header.Set("X-Api-Key", m[2])
		response, err := http.DefaultClient.Do(request)
		if err != nil || response.StatusCode != http.StatusOK {
			t.Fatal(response, err)
		}
		response.Body.Close()
		tryCommands(t, commands)

		ln := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
		for _, other := range []struct {
			*exec.Cmd
			status int
			says   []string
		}{
			{command(data, source, listen), 0, []string{"running already", m[1] + "/#key=" + m[2]}},
			{command(data, "sim:?seed=2", listen), 1,
				[]string{"running already", m[1] + "/#key=" + m[2], "SOURCE=" + source}},
			{command(t.TempDir(), source, ln.Addr().String()), 1,
				[]string{ln.Addr().String(), "in use", "DEMO_LISTEN="}},
		} {
			said, _ := other.CombinedOutput()
			for _, want := range other.says {
				if other.ProcessState.ExitCode() != other.status || !strings.Contains(string(said), want) {
					t.Errorf("%v: %v and %s, want %d and %q", other.Args, other.ProcessState, said, other.status, want)
				}
			}
		}
		ln.Close()
		must.OK(t, cmd.Process.Signal(syscall.SIGINT))
		must.OK(t, cmd.Wait())
	}
	// The server of the source does not exist, but the source first prints what its plan allows.
	said, err := command(t.TempDir(), "coinpaprika:?base=http://127.0.0.1:1", listen).CombinedOutput()
	if err == nil || !strings.HasPrefix(string(said), "PART ") ||
		!strings.Contains(string(said), "plan free: quota 20,000 calls a month") {
		t.Errorf("%v, %s", err, said)
	}
}

// tryCommands runs the commands that the program prints. Each of them must answer with 200 and must
// not be empty.
func tryCommands(t *testing.T, commands string) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(commands), "\n")
	if len(lines) != 8 || !strings.Contains(commands, "ids=bitcoin&") {
		t.Fatalf("the commands are:\n%s", commands)
	}
	for _, line := range lines[1:] {
		line, events, _ := strings.Cut(line, " -N")
		script := lines[0] + "\n" + line + events + ` --silent --show-error --max-time 2 -w '\n%{http_code} %{size_download}'`
		if events != "" { // a stream ends when its reader does
			script = strings.Replace(script, "#", "--silent --max-time 2 || true #", 1)
		}
		out, err := exec.CommandContext(t.Context(), "bash", "-c", script).CombinedOutput()
		text := string(out)
		if err != nil || events == "" && (!strings.Contains(text, "\n200 ") || strings.Contains(text, `"items":[]`)) ||
			events != "" && !strings.Contains(text, "event: snapshot") {
			t.Errorf("%s: %v, %s", line, err, out)
		}
	}
}
