package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"example.com/marketdata/internal/cmdline"
	"example.com/marketdata/internal/test/must"
)

// TestRunMetrics checks that run serves metrics of its builds and jobs until it stops.
func TestRunMetrics(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	p := startRun(ctx, t, filepath.Join(t.TempDir(), "store"), "--metrics", "127.0.0.1:0")
	p.until(t, "msg=built")
	address := regexp.MustCompile(`metrics=(127\.0\.0\.1:\d+)`).FindStringSubmatch(p.log.String())
	if address == nil {
		t.Fatalf("no address in\n%s", p.log.String())
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res := must.Get(client.Get("http://" + address[1] + "/metrics"))(t)
	body, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	for _, line := range []string{
		`builder_builds_total{outcome="published"} 1`, "builder_lease_held 1", `builder_rows{collection="assets"} 60`,
		"builder_snapshot_sequence 1",
	} {
		if err != nil || !strings.Contains(string(body), "\n"+line+"\n") {
			t.Errorf("no %q (%v) in\n%s", line, err, body)
		}
	}
	ok(t, p.cmd.Process.Signal(syscall.SIGTERM))
	if err := p.wait(); err != nil {
		t.Errorf("%v: %s", err, p.log.String())
	}
}

// TestMetricsAddress checks that a builder exits before its first build if the metrics address is
// in use.
func TestMetricsAddress(t *testing.T) {
	ln := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer ln.Close()
	r := command(t, "run", "--source", simulated, "--store", "file:"+t.TempDir(), "--metrics", ln.Addr().String())
	if r.status != cmdline.Failed || !strings.Contains(r.stderr, "--metrics") {
		t.Errorf("status %d: %s", r.status, r.stderr)
	}
}
