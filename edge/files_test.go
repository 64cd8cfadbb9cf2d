//go:build unix

package edge

import (
	"bufio"
	"bytes"
	"context"
	"log/slog"
	"math"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
)

func TestFitConns(t *testing.T) {
	for _, c := range []struct {
		conns int
		files uint64
		want  int
	}{
		{32768, math.MaxUint64, 32768}, {32768, 32768 + otherFiles, 32768}, {32768, 32767 + otherFiles, 32767},
		{32768, 4096, 4096 - otherFiles},
		{32768, 2*otherFiles + 1, otherFiles + 1}, {32768, 2 * otherFiles, otherFiles}, {32768, 100, 50}, {32768, 1, 1},
		{32768, 0, 1}, {50, 100, 50}, {60, 100, 50}, {1, 1, 1},
		{-1, 100, -1}, // refused later, with a message
	} {
		var log bytes.Buffer
		if got := fitConns(c.conns, c.files, slog.New(slog.NewTextHandler(&log, nil))); got != c.want {
			t.Errorf("%d connections, %d files: %d, want %d", c.conns, c.files, got, c.want)
		}
		if said := strings.Contains(log.String(), "the limit of open files"); said != (c.want != c.conns) {
			t.Errorf("%d connections, %d files: logged %q", c.conns, c.files, log.String())
		}
		// If only the default does not fit, the operator has made no mistake.
		if warned := strings.Contains(log.String(), "level=WARN"); warned != (c.want != c.conns && c.conns != 32768) {
			t.Errorf("%d connections, %d files: logged %q", c.conns, c.files, log.String())
		}
	}
}

// TestFileLimit checks that an edge with a low limit of open files accepts few connections, logs this, and
// answers a further connection with an error.
func TestFileLimit(t *testing.T) {
	var before syscall.Rlimit
	must.OK(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before))
	set := func(limit syscall.Rlimit) {
		t.Helper()
		must.OK(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit))
	}
	few := before
	few.Cur = 64
	var log bytes.Buffer
	set(few)
	e, err := New(context.Background(), Config{
		Reader: memstore.New(), Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", AuthOff: true,
		Log: slog.New(slog.NewTextHandler(&log, nil)),
	})
	set(before) // because both ends of the following connections are in this process
	must.OK(t, err)
	if !strings.Contains(log.String(), "max_conns=32 asked=32768 files=64") {
		t.Errorf("the log says %s", log.String())
	}
	RunUntil(t, e)
	// One address may have half of the connections.
	conns := make([]net.Conn, 17)
	for i := range conns {
		conns[i] = must.Get(net.Dial("tcp", e.Addr().String()))(t)
		defer conns[i].Close()
	}
	res, err := http.ReadResponse(bufio.NewReader(conns[16]), nil)
	if err != nil || res.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("one connection too many: %v, %v", res, err)
	}
}
