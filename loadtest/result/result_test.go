package result

import (
	"bytes"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/loadtest/check"
	"example.com/marketdata/loadtest/engine"
	"example.com/marketdata/loadtest/streams"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

var start = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// fake makes a run of the given number of seconds at 1000 requests a second. latency returns the latency of a
// request in the given second.
func fake(t testing.TB, seconds int, seed uint64, latency func(r *rand.Rand, second int) time.Duration) *Run {
	t.Helper()
	e, c := fakeParts(seconds, seed, latency)
	r := must.Get(New(Setup{URLs: []string{"http://127.0.0.1:1"}, Mode: "open", Arrivals: "poisson", Stages: "60s:1000",
		Connections: 10, TimeoutS: 10, Traffic: "mixed", CheckShare: 1}, Tool{"v1", "abc", "go"}, e, c))(t)
	return r
}

func fakeParts(
	seconds int, seed uint64, latency func(r *rand.Rand, second int) time.Duration,
) (*engine.Result, *check.Report) {
	return fakeRate(1000, seconds, seed, latency)
}

// fakeRate makes the parts of a run at a rate.
func fakeRate(
	rate, seconds int, seed uint64, latency func(r *rand.Rand, second int) time.Duration,
) (*engine.Result, *check.Report) {
	r := rand.New(rand.NewPCG(seed, 1))
	k := engine.ClassResult{Name: "quotes", Failures: map[engine.Failure]uint64{}, Statuses: map[int]uint64{},
		Due: engine.NewHistogram(), Service: engine.NewHistogram()}
	e := &engine.Result{Start: start, Length: time.Duration(seconds) * time.Second, Lag: engine.NewHistogram(),
		Connect: engine.NewHistogram(), CPUs: 2, Wall: time.Duration(seconds) * time.Second, CPU: time.Second}
	for s := range seconds {
		iv := &engine.Interval{
			Start: time.Duration(s) * time.Second, End: time.Duration(s+1) * time.Second, Due: engine.NewHistogram()}
		for range rate {
			d := int64(latency(r, s))
			iv.Due.RecordValue(d)
			k.Due.RecordValue(d)
			k.Service.RecordValue(d)
			e.Lag.RecordValue(int64(20 * time.Microsecond))
			iv.Sent++
			iv.Answered++
		}
		e.Intervals = append(e.Intervals, iv)
	}
	k.Sent = uint64(seconds * rate)
	k.Statuses[200] = k.Sent
	e.Asked, e.InTime = k.Sent, k.Sent
	e.Classes = []engine.ClassResult{k}
	return e, &check.Report{Checked: k.Sent, Distinct: 10}
}

// steady returns a function for latencies of about 1 ms times scale, with a tail.
func steady(scale float64) func(*rand.Rand, int) time.Duration {
	return func(r *rand.Rand, _ int) time.Duration {
		return time.Duration(scale * float64(time.Millisecond) * math.Exp(0.3*r.NormFloat64()))
	}
}

func TestRoundTrip(t *testing.T) {
	e, c := fakeParts(3, 1, steady(1))
	e.Classes[0].Failures = map[engine.Failure]uint64{engine.FailTimeout: 2, engine.FailWrong: 1}
	e.Unsent, e.Asked = 4, 3004
	c.Wrong = 1
	c.Findings = []check.Finding{{Kind: check.Oracle, Count: 2, Examples: []check.Example{{Target: "/x", Snapshot: "s",
		Status: 200, Detail: "d", Moment: check.Moment{At: start.Add(1500 * time.Millisecond)}}}}}
	c.Swaps = []check.Swap{{Snapshot: "2026-11-01T12:00:00Z", Moment: check.Moment{At: start.Add(-time.Second)}},
		{Snapshot: "2026-11-01T12:10:00Z", Moment: check.Moment{At: start.Add(2 * time.Second)}}}
	r := must.Get(New(
		Setup{URLs: []string{"http://h"}, Mode: "open", Connections: 1, TimeoutS: 1, Traffic: "x"}, Tool{}, e, c))(t)
	told := &streams.Result{Count: 2, Opened: 3, Failures: map[engine.Failure]uint64{engine.FailWrong: 1}, Wrong: "x",
		Events: 4, Late: engine.NewHistogram(), Apart: engine.NewHistogram()}
	engine.Record(told.Late, 3*time.Millisecond)
	must.OK(t, r.Hold(told))
	if q := r.Requests; q.Sent != 3000 || q.Failed != 7 || q.Answered != 2997 || q.Failures["unsent"] != 4 ||
		q.Statuses["200"] != 3000 {
		t.Errorf("requests %+v", q)
	}
	if r.Checks.Wrong != 3 || math.Abs(r.Errors()-9.0/3004) > 1e-12 {
		t.Errorf("%d wrong, errors %v", r.Checks.Wrong, r.Errors())
	}
	if r.Swaps[0].AtS != 0 || r.Swaps[1].AtS != 2 || r.Checks.Findings[0].Examples[0].AtS != 1.5 {
		t.Errorf("times %+v %+v", r.Swaps, r.Checks.Findings)
	}
	a := must.Get(ParseAssertion("p99<1s"))(t)
	th := must.Get(a.Check(r))(t)
	empty := must.Get(ParseAssertion("chains:p50<1s"))(t)
	r.Thresholds = []Threshold{th, must.Get(empty.Check(r))(t)}
	r.Exit = 5
	b := must.Get(r.Encode())(t)
	must.OK(t, schemaError(t, b))
	again := must.Get(Parse(b))(t)
	if !reflect.DeepEqual(again, r) {
		t.Errorf("read back as %+v", again)
	}
	h, err := again.Due.Hist()
	if err != nil || h.TotalCount() != 3000 || ms(float64(h.ValueAtQuantile(99))) != r.Due.P99MS {
		t.Errorf("histogram of %d, %v", h.TotalCount(), err)
	}
	hgrm, err := r.HGRM()
	if err != nil || !strings.Contains(string(hgrm), "Percentile") || !strings.Contains(string(hgrm), "#[Mean") {
		t.Errorf("hgrm %s, %v", hgrm, err)
	}
	for name, bad := range map[string]string{
		"kind": `{"kind":"x","format":1}`, "format": `{"kind":"loadtest-run","format":2}`, "no JSON": "x",
		"histogram": `{"kind":"loadtest-run","format":1,"due":{"histogram":"AAAA"}}`} {
		if _, err := Parse([]byte(bad)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// schemaError validates JSON with the schema, and requires that the schema describes each field.
func schemaError(t *testing.T, b []byte) error {
	t.Helper()
	read := func(b []byte) any { return must.Get(jsonschema.UnmarshalJSON(bytes.NewReader(b)))(t) }
	c := jsonschema.NewCompiler()
	strict := bytes.ReplaceAll(
		Schema, []byte(`"properties": {`), []byte(`"additionalProperties": false, "properties": {`))
	must.OK(t, c.AddResource("run.json", read(strict)))
	s := must.Get(c.Compile("run.json"))(t)
	return s.Validate(read(b))
}

// The schema refuses invalid results, including fields that it does not describe.
func TestSchemaRefuses(t *testing.T) {
	b := must.Get(fake(t, 2, 1, steady(1)).Encode())(t)
	must.OK(t, schemaError(t, b))
	for _, change := range [][2]string{
		{`"format": 1,`, `"format": 2,`}, {`"mode": "open"`, `"mode": "ajar"`}, {`"asked": 2000,`, `"asked": -1,`},
		{`"asked": 2000,`, ``},
		{`"valid": true`, `"valid": "yes"`}, {`"exit": 0`, `"exit": 2`}, {`"exit": 0`, `"exit": 0, "more": 1`},
		{`"check_share": 1`, `"check_share": 1.5`},
	} {
		changed := strings.Replace(string(b), change[0], change[1], 1)
		if changed == string(b) || schemaError(t, []byte(changed)) == nil {
			t.Errorf("%s instead of %s was taken", change[1], change[0])
		}
	}
}

func TestValidity(t *testing.T) {
	for name, tc := range map[string]struct {
		change  func(*engine.Result)
		setup   Setup
		reason  string // "" means that the run is valid
		limited bool
	}{
		"good":           {func(*engine.Result) {}, Setup{Mode: "open"}, "", false},
		"99 % is enough": {func(e *engine.Result) { e.InTime = e.Asked * 99 / 100 }, Setup{Mode: "open"}, "", false},
		"too slow": {
			func(e *engine.Result) { e.InTime = e.Asked*99/100 - 1 }, Setup{Mode: "open"}, "achieved", true},
		"no connections": {func(e *engine.Result) { e.InTime = e.Asked / 2; e.Waited = e.Asked / 2 },
			Setup{Mode: "open", Connections: 7}, "all 7 connections", false},
		"lag": {
			func(e *engine.Result) { lag(e, 6*time.Millisecond, 0.02) }, Setup{Mode: "open"}, "send lag", true},
		"rare lag": {
			func(e *engine.Result) { lag(e, 6*time.Millisecond, 0.005) }, Setup{Mode: "open"}, "", false},
		"lag below limit": {
			func(e *engine.Result) { lag(e, 4900*time.Microsecond, 1) }, Setup{Mode: "open"}, "", false},
		"lag of slow one": {
			func(e *engine.Result) { lag(e, 6*time.Millisecond, 1); slow(e) }, Setup{Mode: "open"}, "", false},
		"processors": {
			func(e *engine.Result) { e.CPU = e.Wall * 2 * 91 / 100 }, Setup{Mode: "open"}, "processors", true},
		"closed": {
			func(e *engine.Result) { lag(e, time.Second, 1); e.InTime = 1 }, Setup{Mode: "closed"}, "", false},
		"closed, busy": {func(e *engine.Result) { e.CPU = e.Wall * 2 }, Setup{Mode: "closed"}, "processors", true},
		"nothing": {
			func(e *engine.Result) { e.Asked, e.InTime = 0, 0 }, Setup{Mode: "open"}, "no request", true},
	} {
		t.Run(name, func(t *testing.T) {
			e, c := fakeParts(2, 1, steady(1))
			tc.change(e)
			r := must.Get(New(tc.setup, Tool{}, e, c))(t)
			got := strings.Join(r.Validity.Reasons, "; ")
			if r.Validity.Valid != (tc.reason == "") || !strings.Contains(got, tc.reason) || r.Limited() != tc.limited {
				t.Errorf("valid %v, limited %v: %s", r.Validity.Valid, r.Limited(), got)
			}
		})
	}
}

// The validity depends on the send lag compared with the strictest latency threshold.
func TestValidLag(t *testing.T) {
	for name, tc := range map[string]struct {
		lag        time.Duration
		thresholds []string
		valid      bool
	}{
		"no threshold":           {4900 * time.Microsecond, nil, true},
		"no threshold, too late": {5100 * time.Microsecond, nil, false},
		"of 20 ms":               {1900 * time.Microsecond, []string{"p99<20ms"}, true},
		"of 20 ms, late":         {2100 * time.Microsecond, []string{"p99<20ms"}, true}, // it held in spite of the lag
		"failed":                 {900 * time.Microsecond, []string{"p99<500us"}, true},
		"failed, late":           {1010 * time.Microsecond, []string{"p99<500us"}, false},
		"from sent, late":        {2100 * time.Microsecond, []string{"service.p99<20ms"}, false},
		"the strictest":          {1900 * time.Microsecond, []string{"p99<1s", "quotes:service.p50<=10ms"}, false},
		"never below 1 ms":       {900 * time.Microsecond, []string{"p99<1ms"}, true},
		"no such bound":          {5100 * time.Microsecond, []string{"p99>1s", "lag.p99<1s", "errors<5%"}, false},
	} {
		var all []*Assertion
		for _, text := range tc.thresholds {
			all = append(all, must.Get(ParseAssertion(text))(t))
		}
		e, c := fakeParts(2, 1, steady(1))
		lag(e, tc.lag, 1)
		r := must.Get(New(Setup{Mode: "open"}, Tool{}, e, c))(t)
		must.OK(t, r.Judge(all))
		if r.Validity.Valid != tc.valid || len(r.Thresholds) != len(all) {
			t.Errorf("%s: %+v, thresholds %+v", name, r.Validity, r.Thresholds)
		}
	}
}

// lag gives a share of the requests the send lag d.
func lag(e *engine.Result, d time.Duration, share float64) {
	n := e.Lag.TotalCount()
	e.Lag.Reset()
	e.Lag.RecordValues(int64(d), int64(share*float64(n)))
	e.Lag.RecordValues(int64(20*time.Microsecond), n-int64(share*float64(n)))
}

func slow(e *engine.Result) {
	e.Classes[0].Due.Reset()
	e.Classes[0].Due.RecordValues(int64(70*time.Millisecond), 2000)
}

func TestThresholds(t *testing.T) {
	e, c := fakeParts(
		10, 1, func(r *rand.Rand, _ int) time.Duration { return time.Duration(1+r.IntN(100)) * time.Millisecond })
	e.Classes[0].Failures[engine.FailTimeout] = 5
	c.Wrong = 5
	r := must.Get(New(Setup{Mode: "open"}, Tool{}, e, c))(t)
	for expression, pass := range map[string]bool{
		"p99<5ms": false, "p99<200ms": true, "p50<=52ms": true, "p50 < 48ms": false, " p99.9 <= 0.2s ": true,
		"max>95ms": true, "min<1100us": true, "mean>=100ms": false,
		"quotes:p90<95ms": true, "quotes:service.p90<95ms": true, "service.p50<48ms": false, "lag.p99<1ms": true,
		"chains:p50<1h": false,
		"errors<0.2%":   true, "errors<0.1%": false, "errors<=0.001": true, "errors==0": false,
		"quotes:errors<0.06%": true,
		"wrong==0":            false, "wrong<=5": true, "rate>=999.5": false, "rate>=998": true,
		"requests==10000":    true,
		"chains:errors<100%": false, "chains:rate>=0": false,
	} {
		a, err := ParseAssertion(expression)
		if err != nil {
			t.Errorf("%s: %v", expression, err)
			continue
		}
		th, err := a.Check(r)
		if err != nil || th.Pass != pass {
			t.Errorf("%s: %+v, %v", expression, th, err)
		}
		if (th.Value == nil) != (th.Samples == 0) || th.Value == nil && th.Pass {
			t.Errorf("%s: %+v without samples", expression, th)
		}
	}
	for expression, meaning := range map[string]string{
		"p99.9<0.2s":                "the latency from due that 99.9 % of the requests do not exceed is below 200ms",
		"quotes:service.p90<=1.5ms": "the latency from sent that 90 % of the requests do not exceed, of quotes alone, is at most 1.5ms",
		"lag.p50<1ms":               "the send lag that 50 % of the requests do not exceed is below 1ms",
		"errors<0.1%":               "the share of the requests asked for that failed is below 0.1 %",
		"rate>=20000":               "the rate of answers as they should be, in requests a second, is at least 20000",
		"max>1h":                    "the longest latency from due is above 1h0m0s",
	} {
		a, err := ParseAssertion(expression)
		if err != nil || a.Meaning() != meaning || a.FromSent() != strings.Contains(expression, "service.") {
			t.Errorf("%s: %q, %v", expression, a.Meaning(), err)
		}
	}
	for _, bad := range []string{"", "p99", "p99<", "p99<5", "p101<5ms", "x<5ms", "errors<x", "errors<5ms", "p99=5ms",
		"p99<5ms,", "quotes:wrong==0", "rate>NaN"} {
		if _, err := ParseAssertion(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

func verdicts(t *testing.T, a, b *Run) map[string]Verdict {
	t.Helper()
	c := must.Get(Compare(a, b, 0.05))(t)
	out := map[string]Verdict{}
	worse := false
	for _, ch := range c.Changes {
		out[ch.Name] = ch.Verdict
		worse = worse || ch.Verdict == Worse
		if ch.Low > ch.High || ch.Verdict == Worse && len(a.Series) >= 5 && ch.Low <= 0 && ch.High >= 0 {
			t.Errorf("%+v", ch)
		}
	}
	if worse != c.Regression {
		t.Errorf("regression %v, changes %v", c.Regression, out)
	}
	return out
}

func TestCompare(t *testing.T) {
	base := fake(t, 30, 1, steady(1))
	if v := verdicts(t, base, base); v["p50"] != Same || v["p99"] != Same || v["answered"] != Same ||
		v["errors"] != Same {
		t.Errorf("a run against itself: %v", v)
	}
	// Runs that differ only by chance have no significant changes.
	for seed := range uint64(8) {
		for name, v := range verdicts(t, base, fake(t, 30, 100+seed, steady(1))) {
			if v == Worse || v == Better {
				t.Errorf("seed %d: %s is %s", seed, name, v)
			}
		}
	}
	if v := verdicts(t, base, fake(t, 30, 2, steady(1.2))); v["p50"] != Worse || v["p99"] != Worse {
		t.Errorf("a fifth slower: %v", v)
	}
	if v := verdicts(t, fake(t, 30, 2, steady(1.2)), base); v["p50"] != Better || v["p99"] != Better {
		t.Errorf("a fifth faster: %v", v)
	}
	if v := verdicts(t, base, fake(t, 30, 2, steady(1.03))); v["p50"] != Same {
		t.Errorf("within the tolerance: %v", v)
	}
	// A stall in every tenth second does not change the median, but the comparison detects it.
	stalls := fake(t, 60, 2, func(r *rand.Rand, second int) time.Duration {
		if second%10 == 3 && r.IntN(2) == 0 {
			return time.Duration(r.IntN(1000)) * time.Millisecond
		}
		return steady(1)(r, second)
	})
	if v := verdicts(t, base, stalls); v["p50"] != Same || v["p99"] != Worse {
		t.Errorf("stalls: %v", v)
	}
	// One bad second of thirty may be due to chance.
	once := fake(t, 30, 2, func(r *rand.Rand, second int) time.Duration {
		if second == 17 && r.IntN(3) == 0 {
			return time.Second
		}
		return steady(1)(r, second)
	})
	if v := verdicts(t, base, once); v["p99"] != Unclear {
		t.Errorf("one bad second: %v", v)
	}
	fails := fake(t, 30, 1, steady(1))
	for i := range fails.Series {
		fails.Series[i].Failed, fails.Series[i].Answered = 20, 980
	}
	if v := verdicts(t, base, fails); v["errors"] != Worse {
		t.Errorf("2 %% errors: %v", v)
	}
	short, err := Compare(fake(t, 3, 1, steady(1)), fake(t, 3, 1, steady(2)), 0.05)
	if err != nil || !short.Regression || len(short.Notes) == 0 || short.Summary()[0].Verdict != Worse {
		t.Errorf("short runs: %+v, %v", short, err)
	}
}

func FuzzParse(f *testing.F) {
	b := must.Get(fake(f, 2, 1, steady(1)).Encode())(f)
	f.Add(b)
	f.Add([]byte(`{"kind":"loadtest-run","format":1}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := Parse(b)
		if err != nil {
			return
		}
		must.Get(Compare(r, r, 0.05))(t)
	})
}
