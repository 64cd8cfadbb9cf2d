package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/internal/cmdline"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/testedge"
)

// TestSigningByTheRunbook runs the lines of the runbook that start signing, rotate the key and stop
// signing. In the meantime clients send requests to two edges. An edge that is being restarted is
// out of the load balancer, so every response must be a 200. After each block, the store must be in
// the state that the block is meant to reach.
func TestSigningByTheRunbook(t *testing.T) {
	text := must.Get(os.ReadFile("../../../deploy/runbook.md"))(t)
	blocks := regexp.MustCompile("(?ms)^```sh signing\n(.*?)^```$").FindAllSubmatch(text, -1)
	if len(blocks) != 3 {
		t.Fatalf("%d blocks of signing in the runbook, want 3", len(blocks))
	}
	dir := t.TempDir()
	t.Chdir(dir)
	store := "file:" + filepath.Join(dir, "store")
	t.Setenv("BUILDER_STORE", store)
	o := &operator{
		t: t, vars: map[string]string{"SOURCE": simulated, "STORE": store},
		edges: [2]*server{{dir: "one"}, {dir: "two"}},
	}
	done(t, "build", "--source", simulated, "--time", "2026-11-21T07:10:00Z")
	o.key = strings.TrimSpace(done(t, "keys", "create", "--name", "client", "--rate", "1000000", "--burst", "1000000"))
	done(t, "change")
	o.run([]string{"run", "--source", simulated})
	o.serve(nil)

	ctx, cancel := context.WithCancel(t.Context())
	asking := o.ask(ctx)
	for i, block := range blocks {
		for _, line := range strings.Split(strings.TrimSpace(string(block[1])), "\n") {
			o.line(line)
		}
		if r := command(t, "keys", "create", "--name", "unsigned"); (r.status == cmdline.Done) == (i < 2) ||
			i < 2 && !strings.Contains(r.stderr, "--sign-key") {
			t.Errorf("after block %d, keys create without a key: status %d, %s", i+1, r.status, r.stderr)
		}
		if i == 1 {
			o.await("a refusal of the key that was taken away", func() bool {
				return command(t, "keys", "create", "--name", "late", "--sign-key", "sign.key").status == cmdline.Failed
			})
		}
		another := strings.TrimSpace(done(t, append([]string{"keys", "create", "--name", "another"}, o.sign...)...))
		for _, e := range o.edges {
			o.await("the new key", func() bool { return e.get(another) == nil })
		}
	}
	cancel()
	answered := <-asking
	t.Logf("%d answers", answered)
	if answered < 100 {
		t.Errorf("only %d answers", answered)
	}
	o.stopRun()
	for _, e := range o.edges {
		e.stop()
	}
}

// operator runs lines of the runbook.
type operator struct {
	t       *testing.T
	vars    map[string]string
	sign    []string // the signing flags of the running builder
	key     string
	stopRun func()
	edges   [2]*server
}

// server is an edge behind a load balancer.
type server struct {
	dir  string
	mu   sync.RWMutex // held while the edge is out of the balancer
	url  string
	stop func()
}

func (o *operator) line(line string) {
	o.t.Helper()
	line = strings.TrimPrefix(line, "env -u BUILDER_SIGN_KEY ")
	name := ""
	if m := regexp.MustCompile(`^([A-Z]+)=\$\((.*)\)$`).FindStringSubmatch(line); m != nil {
		name, line = m[1], m[2]
	}
	words := strings.Fields(line)
	for i, w := range words {
		words[i] = os.Expand(strings.Trim(w, `"`), func(v string) string { return o.vars[v] })
	}
	switch {
	case line == "systemctl stop marketdata-builder":
		o.stopRun()
	case words[0] == "edge":
		var trust artifacts.Trust
		for i, w := range words {
			if w == "--trust-key" {
				k := must.Get(artifacts.ParseTrustKey(words[i+1]))(o.t)
				trust = append(trust, k)
			}
		}
		o.serve(trust)
	case words[0] != "builder":
		o.t.Fatalf("no such command: %s", line)
	case words[1] == "run":
		o.stopRun()
		o.run(words[1:])
	case words[1] == "verify": // "repeat until it finds no problem"
		o.await(line, func() bool { return command(o.t, words[1:]...).status == cmdline.Done })
	default:
		out := strings.TrimSpace(done(o.t, words[1:]...))
		if name != "" {
			o.vars[name] = out
		}
	}
}

func (o *operator) await(what string, ok func() bool) {
	o.t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			o.t.Fatalf("not seen: %s", what)
		}
	}
}

// run starts builder run, and sets o.stopRun to a function that stops it.
func (o *operator) run(args []string) {
	o.sign = nil
	for i, w := range args {
		if w == "--sign-key" {
			o.sign = append(o.sign, w, args[i+1])
		}
	}
	ctx, cancel := context.WithCancel(o.t.Context())
	ended := make(chan int, 1)
	var stdout, stderr bytes.Buffer
	go func() { ended <- program().Do(ctx, args, &stdout, &stderr) }()
	o.stopRun = sync.OnceFunc(func() {
		cancel()
		if status := <-ended; status != cmdline.Done {
			o.t.Errorf("builder %q: status %d: %s", args, status, stderr.String())
		}
	})
}

// serve restarts the edges, one after the other.
func (o *operator) serve(trust artifacts.Trust) {
	o.t.Helper()
	for _, e := range o.edges {
		e.mu.Lock()
		if e.stop != nil {
			e.stop()
		}
		e.start(o.t, o.vars["STORE"], trust)
		o.await("an edge that is ready", func() bool { return e.get(o.key) == nil })
		e.mu.Unlock()
	}
}

func (e *server) start(t *testing.T, store string, trust artifacts.Trust) {
	t.Helper()
	s := testedge.Start(t, testedge.Config{Store: store, CacheDir: e.dir, Poll: 20 * time.Millisecond, Trust: trust})
	e.url, e.stop = s.URL+"/openapi/v1/assets?size=1", s.Stop
}

// get requests assets, and returns an error if the response is not a 200.
func (e *server) get(key string) error {
	req, err := http.NewRequest(http.MethodGet, e.url, nil)
	if err != nil {
		return err
	}
	req.Header.Set("X-Api-Key", key)
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%d: %.200s", res.StatusCode, body)
	}
	return err
}

// ask sends requests to the edges in the load balancer until ctx is done. It then sends the number
// of requests to the returned channel.
func (o *operator) ask(ctx context.Context) <-chan int {
	asked := make(chan int, 1)
	go func() {
		n := 0
		for ctx.Err() == nil {
			for _, e := range o.edges {
				if !e.mu.TryRLock() {
					continue
				}
				if err := e.get(o.key); err != nil {
					o.t.Errorf("lost: edge %s: %v", e.dir, err)
				}
				e.mu.RUnlock()
				n++
			}
		}
		asked <- n
	}()
	return asked
}
