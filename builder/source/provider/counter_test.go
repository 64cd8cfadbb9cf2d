package provider

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestEveryCallCounts: redirects count, and so does what net/http itself asks again
// when a connection that was idle turns out to be closed.
func TestEveryCallCounts(t *testing.T) {
	var reached atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := reached.Add(1)
		switch {
		case n%3 == 0 && !strings.HasSuffix(r.URL.Path, "/on"):
			http.Redirect(w, r, r.URL.Path+"/on", http.StatusFound)
		case n%4 == 0:
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_ = conn.Close()
		default:
			_, _ = w.Write([]byte("[1]"))
		}
	}))
	defer server.Close()
	q := &quota{dir: t.TempDir(), now: time.Now}
	c, err := NewClient(ClientConfig{Base: server.URL, PerMinute: 100_000, Burst: 100, quota: q})
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		_, _ = c.try(t.Context(), request{Path: "/x", Check: func([]byte) error { return nil }})
	}
	if s, err := q.read(); err != nil || int64(s.used()) != reached.Load() || s.used() < 30 {
		t.Errorf("%d calls counted, %d made, %v", s.used(), reached.Load(), err)
	}
}

// TestQuotaIsShared: processes with one cache folder have one quota.
func TestQuotaIsShared(t *testing.T) {
	dir := t.TempDir()
	var taken atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		q := &quota{limit: 60, burst: 50, dir: dir, now: func() time.Time { return time.Unix(1e9, 0) }}
		wg.Go(func() {
			for range 20 {
				if q.take(1, Tickers, false) == nil {
					taken.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if taken.Load() != 50 {
		t.Errorf("%d calls at once, of 50", taken.Load())
	}
}
