package main

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// output is what a command writes while it runs.
type output struct {
	mu  sync.Mutex
	out bytes.Buffer
	// seen is called when text was written that has it.
	text string
	seen func()
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.seen != nil && bytes.Contains(p, []byte(o.text)) {
		o.seen()
	}
	return o.out.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.out.String()
}

// TestUsage: what cannot be is refused with 2 and words, before anything is
// listened on.
func TestUsage(t *testing.T) {
	store := "file:" + t.TempDir()
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "--store"},
		{[]string{"--store", store, "--nonsense"}, "--nonsense"},
		{[]string{"--store", store, "--auth", "maybe"}, "--auth"},
		{[]string{"--store", store, "--auth", "off", "--listen", "0.0.0.0:0"}, "--insecure"},
		{[]string{"--store", store, "--auth", "off", "--listen", ":0"}, "--insecure"},
		{[]string{"--store", store, "--auth", "off", "--listen", "[::]:0"}, "--insecure"},
		{[]string{"--store", store, "--auth", "off", "--listen", "192.0.2.1:0"}, "--insecure"},
		{[]string{"--store", store, "--auth", "off", "--listen", "edge.example:0"}, "--insecure"},
		{[]string{"--store", store, "--auth", "off", "--listen", "localhost.example:0"}, "--insecure"},
		{[]string{"--store", store, "--cache-size", "much"}, "256MiB"},
		{[]string{"--store", store, "--trust-key", "x"}, "mdtrust_"},
		{[]string{"--store", store, "--trusted-proxies", "10.0.0.1"}, "--trusted-proxies"},
		{[]string{"--store", store, "--max-conns=-1", "--admin", "127.0.0.1:0", "--listen", "127.0.0.1:0"}, "MaxConns"},
		{[]string{"--store", store, "--admin-host", "edge1:9090", "--admin", "127.0.0.1:0", "--listen", "127.0.0.1:0"}, "without a port"},
		{[]string{"--store", store, "--limit-store", "http://x", "--admin", "127.0.0.1:0", "--listen", "127.0.0.1:0"}, "--limit-store"},
	} {
		var stdout, stderr output
		if code := run(t.Context(), c.args, &stdout, &stderr); code != 2 || !strings.Contains(stderr.String(), c.want) || stdout.String() != "" {
			t.Errorf("%v: status %d, %q", c.args, code, stderr.String())
		}
	}
	var stdout, stderr output
	if code := run(t.Context(), []string{"--help"}, &stdout, &stderr); code != 0 || !strings.Contains(stdout.String(), "--insecure") {
		t.Errorf("--help: status %d, %q", code, stderr.String())
	}
	if code := run(t.Context(), []string{"--store", "file:" + filepath.Join(t.TempDir(), "none", "none"), "--admin", "nowhere", "--listen", "127.0.0.1:0"}, &stdout, &stderr); code != 1 {
		t.Errorf("an address that is none: status %d, %q", code, stderr.String())
	}
}

// TestRun: an edge serves until it is told to end. Without authentication it
// says so loudly, and does it on this machine only, or when that is meant.
func TestRun(t *testing.T) {
	for _, c := range []struct {
		args []string
		loud bool
	}{
		{[]string{"--listen", "127.0.0.1:0"}, false},
		{[]string{"--listen", "127.0.0.1:0", "--auth", "off"}, true},
		{[]string{"--listen", "localhost:0", "--auth", "off"}, true},
		{[]string{"--listen", "0.0.0.0:0", "--auth", "off", "--insecure"}, true},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		stderr := &output{text: "msg=listening", seen: cancel}
		args := append(c.args, "--store", "file:"+t.TempDir(), "--admin", "127.0.0.1:0", "--drain-wait", "0s")
		if code := run(ctx, args, new(output), stderr); code != 0 || !strings.Contains(stderr.String(), "msg=stopped") {
			t.Errorf("%v: status %d, %s", c.args, code, stderr.String())
		}
		if !strings.Contains(stderr.String(), "msg=draining wait=0 timeout=15\n") {
			t.Errorf("durations are not in seconds: %s", stderr.String())
		}
		if got := strings.Contains(stderr.String(), "level=WARN msg=\"AUTHENTICATION IS OFF"); got != c.loud {
			t.Errorf("%v: %s", c.args, stderr.String())
		}
		cancel()
	}
}
