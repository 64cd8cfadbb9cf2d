package local

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"example.com/marketdata/internal/test/must"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// script creates a program in the machine's Bin folder.
func script(t *testing.T, m *Machine, name, text string) {
	t.Helper()
	must.OK(t, os.WriteFile(filepath.Join(m.Bin, name), []byte("#!/bin/sh\n"+text), 0o755))
}

func TestPrograms(t *testing.T) {
	m := &Machine{Bin: t.TempDir(), Data: t.TempDir(), Env: []string{"WORD=hello"}}
	script(t, m, "broken", `echo "$WORD $1" >&2; exit 3`)
	script(t, m, "lasting", "echo here; exec sleep 1000")

	// Await stops waiting for a program that ends, and reports why it ended.
	p, err := m.Start("first", "broken", "world")
	must.OK(t, err)
	err = Await(t.Context(), "http://127.0.0.1:1/", p)
	if err == nil || !strings.Contains(err.Error(), "first ended: exit status 3\nhello world") {
		t.Errorf("waiting for a program that ends: %v", err)
	}
	p.Stop()
	if b, err := os.ReadFile(m.Log("first")); string(b) != "hello world\n" {
		t.Errorf("log %q, %v", b, err)
	}

	// Await waits for a program that keeps running, and Stop stops it.
	var asked atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer srv.Close()
	defer http.DefaultClient.CloseIdleConnections()
	for _, end := range []func(*Program){(*Program).Stop, (*Program).Kill} {
		p := must.Get(m.Start("second", "lasting"))(t)
		if err := Await(t.Context(), srv.URL, p); err != nil || asked.Load() < 3 {
			t.Errorf("after %d requests: %v", asked.Load(), err)
		}
		end(p)
		select {
		case <-p.Exited():
		default:
			t.Error("the program runs on")
		}
	}
	if _, err := m.Start("third", "none"); err == nil || !strings.Contains(err.Error(), "start third") {
		t.Errorf("a program that is not there: %v", err)
	}
}

func TestFree(t *testing.T) {
	ln := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	taken := ln.Addr().String()
	if got := Free(taken); got == taken || !strings.HasPrefix(got, "127.0.0.1:") {
		t.Errorf("instead of a port in use: %s", got)
	}
	ln.Close()
	if got := Free(taken); got != taken {
		t.Errorf("instead of a free port: %s", got)
	}
}
