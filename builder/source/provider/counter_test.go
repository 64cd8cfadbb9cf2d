package provider

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.com/marketdata/internal/test/must"
)

// TestEveryCallCounts checks that redirects count, and also the requests that net/http itself sends
// again when an idle connection turns out to be closed.
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
	c := must.Get(newClient(Plan{Base: server.URL, PerMinute: 100_000, Burst: 100}, q, nil, discard))(t)
	for range 20 {
		_, _, _ = c.try(t.Context(), request{path: "/x", check: func([]byte) error { return nil }})
	}
	if s, err := q.read(); err != nil || int64(s.used()) != reached.Load() || s.used() < 30 {
		t.Errorf("%d calls counted, %d made, %v", s.used(), reached.Load(), err)
	}
}

// TestQuotaIsShared checks that processes with the same cache folder share one quota.
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

// TestQuotaRules tests a quota of 131 calls with a burst of 31. One more call becomes available
// every 32 days / 100. Less valuable calls and retries can use less of the burst.
func TestQuotaRules(t *testing.T) {
	const limit, burst = 131, 31
	each := 32 * 24 * time.Hour / (limit - burst)
	start := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	now := start
	fresh := func() *quota {
		now = start
		return &quota{limit: limit, burst: burst, now: func() time.Time { return now }}
	}
	most := func(q *quota, calls int, value Value, again bool) (n int) {
		for q.take(calls, value, again) == nil {
			n++
		}
		return n
	}
	for value, want := range map[Value]int{Tickers: 31, Directory: 27, Groups: 24, Exchanges: 21, Details: 18} {
		if n := most(fresh(), 1, value, false); n != want {
			t.Errorf("%v: %d at once, want %d", value, n, want)
		}
		if n := most(fresh(), 1, value, true); n != want-7 && n != want-6 {
			t.Errorf("%v, again: %d at once, want a fifth of the burst less than %d", value, n, want)
		}
	}
	// A request that costs several calls takes all of them or none, and all of them are counted.
	q := fresh()
	if n := most(q, 10, Tickers, false); n != 3 || q.state.used() != 30 {
		t.Errorf("%d calls of 10, %d counted", n, q.state.used())
	}
	// The error states the exact time at which the next request is allowed.
	var refused *quotaError
	if err := q.take(10, Tickers, false); !errors.As(err, &refused) || !refused.until.Equal(start.Add(9*each)) ||
		refused.used != 30 || refused.limit != limit {
		t.Errorf("%v, want at %v", err, start.Add(9*each))
	}
	if now = start.Add(9*each - 1); q.take(10, Tickers, false) == nil {
		t.Error("a moment too early")
	}
	if now = start.Add(9 * each); q.take(10, Tickers, false) != nil {
		t.Error("not when it said")
	}
	// Calls that an answer did not cost are given back, and can be taken again immediately.
	if err := q.note(10, nil); err != nil || q.state.used() != 30 || q.take(10, Tickers, false) != nil {
		t.Errorf("%d counted after 10 were given back, %v", q.state.used(), err)
	}
	// Any 32 dates never have more calls than the quota. When the first date is forgotten, its
	// calls become available again.
	q = fresh()
	for ; now.Before(start.Truncate(24*time.Hour).AddDate(0, 0, 32)); now = now.Add(time.Hour) {
		_ = most(q, 1, Tickers, false)
	}
	now = now.Add(-time.Hour)
	if used := q.state.used(); used > limit || used < limit-4 {
		t.Errorf("%d calls of %d in 32 dates", used, limit)
	}
	first := q.state.Calls[start.Format(time.DateOnly)]
	now = start.AddDate(0, 0, 32)
	if s, err := q.read(); err != nil || s.Calls[start.Format(time.DateOnly)] != 0 || first < burst {
		t.Errorf("%v of the first date remain, %v", s.Calls, err)
	}
	// Calls on future dates count as today's calls, and stay counted.
	q = fresh()
	q.state.Calls = map[string]int{"2026-02-09": 100, "9999-12-31": 30}
	if err := q.take(2, Tickers, false); err == nil || q.state.Calls["2026-01-31"] != 130 || len(q.state.Calls) != 1 {
		t.Errorf("%v, %v", q.state.Calls, err)
	}
	if err := q.take(1, Tickers, false); err != nil || q.take(1, Tickers, false) == nil {
		t.Errorf("the last call of the quota: %v", err)
	}
	// A wait that a wrong clock left is shortened to the time for a whole burst.
	q = fresh()
	if q.state.Full = start.AddDate(50, 0, 0); q.take(1, Tickers, false) == nil {
		t.Error("a call while the burst is spent")
	}
	if now = start.Add(each); q.take(1, Tickers, false) != nil {
		t.Error("no call when one may be made again")
	}
}
