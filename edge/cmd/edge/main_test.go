package main

import (
	"bytes"
	"context"
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
		if code := program().Do(ctx, args, new(output), stderr); code != 0 ||
			!strings.Contains(stderr.String(), "msg=stopped") {
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
