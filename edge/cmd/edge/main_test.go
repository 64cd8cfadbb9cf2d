package main

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"
)

// output collects what a command writes, and can be read while the command runs.
type output struct {
	mu  sync.Mutex
	out bytes.Buffer
	// seen, if set, is called when the command writes something that contains text.
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

// TestRun checks that an edge serves until it is told to stop. Without authentication, it logs a warning, and
// requires --insecure unless it listens only on this machine.
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
		if code := program().Do(ctx, args, new(output), stderr); code != 0 ||
			!strings.Contains(stderr.String(), "msg=stopped") {
			t.Errorf("%v: status %d, %s", c.args, code, stderr.String())
		}
		if !strings.Contains(stderr.String(), "msg=draining wait_seconds=0 timeout_seconds=15\n") {
			t.Errorf("durations are not in seconds: %s", stderr.String())
		}
		if got := strings.Contains(stderr.String(), "level=WARN msg=\"AUTHENTICATION IS OFF"); got != c.loud {
			t.Errorf("%v: %s", c.args, stderr.String())
		}
		cancel()
	}
}

// TestEmptyProtection checks that a protective setting that is set but empty, such as EDGE_TRUST_KEY=, is a
// usage error (compare docker/compose 5505).
func TestEmptyProtection(t *testing.T) {
	args := []string{"--store", "file:" + t.TempDir(), "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, value := range map[string]string{
		"EDGE_TRUST_KEY": "", "EDGE_LIMIT_STORE": "", "EDGE_CACHE_DIR": " ", "EDGE_FALLBACK_STORE": "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, value)
			var stderr output
			if code := program().Do(ctx, args, &output{}, &stderr); code != 2 ||
				!strings.Contains(stderr.String(), name+", is empty") {
				t.Errorf("status %d, %s", code, stderr.String())
			}
		})
	}
}
