package result

import (
	"testing"
	"time"

	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/loadtest/engine"
)

func TestRecent(t *testing.T) {
	var seconds []*engine.Interval
	for i := range 5 {
		iv := &engine.Interval{Start: time.Duration(i) * time.Second, End: time.Duration(i+1) * time.Second, Sent: 100,
			Answered: 96, Failed: 4, Due: engine.NewHistogram()}
		for k := range 96 {
			engine.Record(iv.Due, time.Duration(k+1)*time.Millisecond)
		}
		seconds = append(seconds, iv)
	}
	none := []*engine.Interval{{End: time.Second, Due: engine.NewHistogram()}}
	for text, want := range map[string]struct{ seconds, none bool }{
		"errors>3.9%": {true, false}, "errors>4%": {false, false}, "p99>95ms": {true, false},
		"p99.9>1s": {false, false},
		"max>95ms": {true, false}, "rate<97": {true, true}, "rate<0.05k": {false, true}, "wrong>2": {true, true},
		"wrong>3": {false, false},
	} {
		a := must.Get(ParseAbort(text))(t)
		if th := must.Get(a.Recent(seconds, 3))(t); th.Pass != want.seconds {
			t.Errorf("%s: %v, %s", text, th.Pass, th.Measured())
		}
		if th := must.Get(a.Recent(none, 3))(t); th.Pass != want.none {
			t.Errorf("%s of nothing: %v, %s", text, th.Pass, th.Measured())
		}
	}
	for _, text := range []string{
		"", "errors", "quotes:p99>1s", "service.p99>1s", "lag.p99>1s", "late.p50>1s", "requests>5"} {
		if a, err := ParseAbort(text); err == nil {
			t.Errorf("%q is %v", text, a)
		}
	}
}
