package provider

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestDecide checks that a part whose answer counts as new is kept. Prices, and a directory that
// was never received, wait only for the quota. All other parts also wait for time, and longer after
// each failure.
func TestDecide(t *testing.T) {
	now := time.Date(2026, 11, 21, 7, 20, 0, 0, time.UTC)
	rapid.Check(t, func(t *rapid.T) {
		p := &Part{Value: Value(rapid.IntRange(int(Tickers), int(Details)).Draw(t, "value")), Every: time.Hour}
		var k known
		fresh := false
		if rapid.Bool().Draw(t, "had") {
			ago := time.Duration(rapid.IntRange(-20, 120).Draw(t, "minutes ago")) * time.Minute
			k.answer = &Answer{Fetched: now.Add(-ago)}
			fresh = ago < p.Every && ago >= -maxAhead
		}
		if rapid.Bool().Draw(t, "no time") {
			k.needs = 1
		}
		if rapid.Bool().Draw(t, "no quota") {
			k.quota = errors.New("quota")
		}
		needed := p.Value == Tickers || p.Value == Directory && k.answer == nil
		err := decide(p, k, now)
		if asks := !fresh && k.quota == nil && (needed || k.needs == 0); (err == nil) != asks ||
			(err == errKept) != fresh || err != nil && !fresh && !errors.As(err, new(errNotSent)) {
			t.Fatalf("%v of %+v with %+v", err, p, k)
		}
		k.failed = failure{Times: rapid.IntRange(1, 99).Draw(t, "times"), Last: now}
		wait := []time.Duration{10 * time.Minute, 20 * time.Minute, 40 * time.Minute, 80 * time.Minute, 2 * time.Hour}
		if p.Value == Details {
			wait = []time.Duration{1 * time.Hour, 2 * time.Hour, 4 * time.Hour, 8 * time.Hour, 16 * time.Hour,
				32 * time.Hour, 64 * time.Hour, 128 * time.Hour, 168 * time.Hour}
		}
		due := now.Add(wait[min(k.failed.Times, len(wait))-1] - slack)
		k.answer, k.needs, k.quota = &Answer{Fetched: now.Add(-time.Hour)}, 0, nil
		early, late := decide(p, k, due.Add(-1)), decide(p, k, due)
		if (early == nil) != (p.Value == Tickers) || late != nil {
			t.Fatalf("%+v after %d failures: %v, and when it is due %v", p, k.failed.Times, early, late)
		}
		if k.failed.Last = now.Add(maxAhead + 1); decide(p, k, now) != nil {
			t.Fatalf("%+v waits for a clock that was ahead", p)
		}
	})
}
