package result

import (
	"slices"
	"testing"

	"example.com/marketdata/internal/test/must"
)

func TestVerdict(t *testing.T) {
	for want, change := range map[string]func(r *Run){
		"Held 1,000/s for 60 s: p99 8 ms, no errors, no wrong answers":            func(*Run) {},
		"Held 500/s to 2,000/s for 10 min: p99 8 ms, no errors, no wrong answers": rates("10s:7,5m:500,5m:2000", 10, 600),
		"Held 0.5/s for 2 h: p99 8 ms, no errors, no wrong answers":               rates("2h:0.5", 0, 7200),
		"Held 1,000/s for 60 s: p99 8 ms, no errors, answers not checked":         func(r *Run) { r.Checks.Checked = 0 },
		"Held 1,000/s, interrupted after 41.5 s: p99 8 ms, no errors, no wrong answers": func(r *Run) {
			r.Interrupted, r.DurationS = true, 41.5
		},
		"Held 1,000/s for 60 s: p99 8 ms, 0.1 % errors (mostly timeout), no wrong answers": func(r *Run) {
			r.Requests.Failed, r.Requests.Failures = 60, map[string]uint64{"timeout": 59, "closed": 1}
		},
		"Answered 14 % of 1,000/s for 60 s: p99 8 ms, 86 % errors (mostly status 429), no wrong answers": func(r *Run) {
			r.Requests.Failed, r.Requests.Failures = 51600, map[string]uint64{"status": 51600}
			r.Requests.Statuses = map[string]uint64{"429": 51600, "200": 8300, "404": 100}
		},
		"Did not hold 1,000/s for 60 s: p99<5ms was 8 ms, chains:p99<1s was nothing measured, no wrong answers": func(r *Run) {
			value := 8.0
			r.Thresholds = []Threshold{{Expression: "p99<5ms", Value: &value, Unit: "ms"},
				{Expression: "errors<1%", Pass: true},
				{Expression: "chains:p99<1s"}}
		},
		"INVALID at 1,000/s for 60 s: too late; too busy; 60,000 of 60,000 requests were answered, 0 failed. " +
			"A lower rate, or a load tester on a machine of its own, would make it valid": func(r *Run) {
			r.Validity = Validity{Reasons: []string{"too late", "too busy"}}
		},
		"Did not hold 1,000/s for 60 s: too slow, no wrong answers": func(r *Run) {
			r.Requests.Waited, r.Validity = 60000, Validity{Reasons: []string{"too slow", "also late"}}
		},
		"Failed: none of 60,000 requests was answered as it should be (mostly connect)": func(r *Run) {
			r.Requests.Answered, r.Requests.Failures = 0, map[string]uint64{"connect": 60000}
			r.Validity.Valid = false
		},
		"Aborted at 1,000/s, interrupted after 41.5 s: errors>1%: 34 % in the last 5 s": func(r *Run) {
			r.Interrupted, r.DurationS, r.Aborted = true, 41.5, "errors>1%: 34 % in the last 5 s"
			r.Validity.Valid = false
		},
		"Failed: the oracle compared no answer":     func(r *Run) { r.Setup.Oracle, r.Validity.Valid = true, false },
		"WRONG: 1 wrong answer at 1,000/s for 60 s": func(r *Run) { r.Checks.Wrong, r.Validity.Valid = 1, false },
		"Closed loop answered 12,346/s over 64 connections for 60 s: p99 8 ms, no errors, no wrong answers": func(r *Run) {
			r.Setup.Mode, r.Setup.Stages, r.Setup.Connections, r.Rate.Answered = "closed", "", 64, 12345.6
		},
		"Held 990/s for 60 s: p99 8 ms, no errors, no wrong answers": func(r *Run) {
			r.Setup.Stages, r.Rate.Asked = "?", 990
		},
	} {
		e, c := fakeParts(60, 1, steady(1))
		r := must.Get(New(Setup{Mode: "open", Stages: "60s:1000"}, Tool{}, e, c))(t)
		r.Due.P99MS = 8
		change(r)
		reasons := slices.Clone(r.Validity.Reasons)
		if got := r.Verdict(); got != want || !slices.Equal(reasons, r.Validity.Reasons) {
			t.Errorf("got  %s\nwant %s\nand reasons %q", got, want, r.Validity.Reasons)
		}
	}
}

func rates(stages string, warmup, seconds float64) func(*Run) {
	return func(r *Run) { r.Setup.Stages, r.Setup.WarmupS, r.DurationS = stages, warmup, seconds }
}
