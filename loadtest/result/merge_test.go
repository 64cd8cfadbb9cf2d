package result

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/internal/lab/must"
	"example.com/marketdata/loadtest/check"
	"example.com/marketdata/loadtest/engine"
	"example.com/marketdata/loadtest/streams"
	"github.com/HdrHistogram/hdrhistogram-go"
)

const mergeSeconds = 20

// parts returns a run at n thousand requests a second, and n runs at a thousand whose k-th requests are those that
// the one has at n·k+i. They started in turn, gap after each other.
func parts(t *testing.T, n int, gap time.Duration) (one *Run, names []string, runs []*Run) {
	t.Helper()
	r := rand.New(rand.NewPCG(7, 7))
	stream := make([]time.Duration, 1000*n*mergeSeconds)
	for i := range stream {
		stream[i] = time.Duration(float64(time.Millisecond) * math.Exp(1.2*r.NormFloat64()))
	}
	make1 := func(first, step, seed int) *Run {
		at := first
		e, c := fakeRate(1000*n/step, mergeSeconds, 1, func(*rand.Rand, int) time.Duration {
			d := stream[at]
			at += step
			return d
		})
		e.Start = start.Add(time.Duration(first) * gap)
		return must.Get(New(Setup{
			URLs: []string{"http://h"}, Mode: "open", Arrivals: "poisson", Stages: fmt.Sprintf("20s:%d", 1000*n/step),
			Connections: 10 * n / step, TimeoutS: 10, Traffic: "mixed", TrafficDigest: "d", CheckShare: 1,
			Seed: uint64(seed),
		}, Tool{"v1", "abc", "go"}, e, c))(t)
	}
	for i := range n {
		names = append(names, string(rune('a'+i))+".json")
		runs = append(runs, make1(i, n, i+1))
	}
	return make1(0, 1, 1), names, runs
}

// A stream of latencies divided over runs gives, merged, what one run of the whole stream gives.
func TestMerge(t *testing.T) {
	for _, n := range []int{2, 3} {
		one, names, runs := parts(t, n, 200*time.Millisecond)
		m := must.Get(Merge(names, runs, nil))(t)
		b := must.Get(m.Encode())(t)
		must.OK(t, schemaError(t, b))
		again := must.Get(Parse(b))(t)
		c := must.Get(Compare(one, again, 0))(t)
		for _, ch := range c.Changes {
			if ch.Verdict != Same || ch.A != ch.B {
				t.Errorf("%d runs: %+v", n, ch)
			}
		}
		for what, same := range map[string][2]any{
			"due": {one.Due, m.Due}, "service": {one.Service, m.Service}, "lag": {one.Lag, m.Lag},
			"rate":    {one.Rate, m.Rate},
			"classes": {one.Classes, m.Classes}, "requests": {one.Requests, m.Requests},
			"duration": {one.DurationS, m.DurationS},
			"stages":   {one.Setup.Stages, m.Setup.Stages}, "connections": {one.Setup.Connections, m.Setup.Connections},
			"checked": {one.Checks.Checked, m.Checks.Checked}, "points": {len(one.Series), len(m.Series)},
			"valid":   {true, m.Validity.Valid},
			"started": {start.Add(time.Duration(n-1) * 200 * time.Millisecond), m.Started},
			"processors": {[3]float64{2 * float64(n), float64(n), one.Generator.CPUShare},
				[3]float64{m.Machine.CPUs, m.Generator.CPUS, m.Generator.CPUShare}},
		} {
			if !reflect.DeepEqual(same[0], same[1]) {
				t.Errorf("%d runs: %s is %v in one, %v merged", n, what, same[0], same[1])
			}
		}
		for i := range one.Series {
			p, q := one.Series[i], m.Series[i]
			if p.Due != q.Due || p.Sent != q.Sent || p.Answered != q.Answered ||
				p.StartS != q.StartS || p.EndS != q.EndS {
				t.Errorf("%d runs: point %d: %+v in one, %+v merged", n, i, p, q)
			}
		}
		if m.Verdict() != one.Verdict() {
			t.Errorf("%q, want %q", m.Verdict(), one.Verdict())
		}
		if _, err := Merge([]string{"m", "a"}, []*Run{m, one}, nil); err == nil ||
			!strings.Contains(err.Error(), "m is a merged") {
			t.Errorf("merged again: %v", err)
		}
	}
}

// The series keeps the seconds in which all ran, each where it was on the clock.
func TestMergeLate(t *testing.T) {
	_, names, runs := parts(t, 2, 800*time.Millisecond) // of 20 s: a point later
	first, second := runs[0].Series, runs[1].Series
	m := must.Get(Merge(names, runs, nil))(t)
	if len(m.Series) != mergeSeconds-1 || m.Requests.Sent != 2000*mergeSeconds {
		t.Fatalf("%d points, requests %+v", len(m.Series), m.Requests)
	}
	for i, p := range m.Series {
		want := first[i+1].Due
		must.OK(t, want.add(&second[i].Due))
		if p.StartS != float64(i) || p.EndS != float64(i+1) || p.Due != want {
			t.Errorf("point %d is %+v, want %+v", i, p, want)
		}
	}
}

// What runs found, and whether they were valid, is in their sum, with names.
func TestMergeFindings(t *testing.T) {
	_, names, runs := parts(t, 2, time.Second/2)
	a, b := runs[0], runs[1]
	at := func(s float64) check.Moment { return check.Moment{AtS: s} }
	a.Swaps = []check.Swap{{Snapshot: "x", Moment: at(0)}, {Snapshot: "y", Moment: at(3)}}
	b.Swaps = []check.Swap{{Snapshot: "x", Moment: at(0)}, {Snapshot: "y", Moment: at(2)},
		{Snapshot: "z", Moment: at(9)}}
	examples := make([]check.Example, maxExamples)
	a.Checks.Wrong, a.Checks.Findings = 1, []check.Finding{{Kind: check.Order, Count: 1, Examples: examples[:1]}}
	b.Checks.Wrong, b.Checks.Findings = 7, []check.Finding{{Kind: check.Order, Count: 5, Examples: examples},
		{Kind: check.Paging, Count: 2, Examples: []check.Example{{Target: "/p", Moment: at(4)}}}}
	b.Validity = Validity{Reasons: []string{"too late"}}
	b.Interrupted, b.Checks.OracleError = true, "gone"
	told := &streams.Result{Count: 2, Opened: 3, Failures: map[engine.Failure]uint64{streams.Ended: 1}, Events: 4,
		Late: engine.NewHistogram(), Apart: engine.NewHistogram()}
	engine.Record(told.Late, time.Second)
	must.OK(t, b.Hold(told))
	var asserted []*Assertion
	for _, text := range []string{"rate>=1500", "p99<1ms"} {
		asserted = append(asserted, must.Get(ParseAssertion(text))(t))
	}
	must.OK(t, a.Judge(asserted[:1]))
	if a.Thresholds[0].Pass {
		t.Errorf("one run alone: %+v", a.Thresholds)
	}
	m := must.Get(Merge(names, runs, asserted[1:]))(t)
	if len(m.Thresholds) != 2 || m.Thresholds[0].Pass || !m.Thresholds[1].Pass ||
		*m.Thresholds[1].Value != 2000-8.0/20 {
		t.Errorf("thresholds %+v", m.Thresholds)
	}
	want := []check.Swap{{Snapshot: "x"}, {Snapshot: "y", Moment: at(2)}, {Snapshot: "z", Moment: at(9)}}
	if !reflect.DeepEqual(m.Swaps, want) {
		t.Errorf("swaps %+v", m.Swaps)
	}
	f := m.Checks.Findings
	if m.Checks.Wrong != 8 || len(f) != 2 || f[0].Count != 6 || len(f[0].Examples) != maxExamples || f[1].Count != 2 ||
		f[1].Examples[0].AtS != 4 || m.Checks.OracleError != "gone" {
		t.Errorf("checks %+v", m.Checks)
	}
	if m.Validity.Valid || !reflect.DeepEqual(m.Validity.Reasons, []string{"b.json: too late"}) || !m.Interrupted ||
		!m.Merged[0].Validity.Valid || m.Merged[1].Validity.Valid || m.Merged[1].Seed != 2 {
		t.Errorf("validity %+v of %+v", m.Validity, m.Merged)
	}
	if s := m.Streams; s == nil || s.Count != 2 || s.Failures["ended"] != 1 || s.Late.MaxMS < 999 {
		t.Errorf("streams %+v", s)
	}
	must.OK(t, schemaError(t, must.Get(m.Encode())(t)))
	_, names, runs = parts(t, 2, 0)
	runs[1].Setup.Seed = 1
	if m := must.Get(Merge(names, runs, nil))(t); m.Validity.Valid ||
		!strings.Contains(m.Validity.Reasons[0], "a.json and b.json had the same --seed, 1") {
		t.Errorf("one seed: %+v", m.Validity)
	}
}

func TestMergeRefuses(t *testing.T) {
	for want, change := range map[string]func(a, b *Run){
		`traffic is mixed in a.json, tickers in b.json`: func(_, b *Run) { b.Setup.Traffic = "tickers" },
		`traffic_digest is d in a.json, e in b.json`:    func(_, b *Run) { b.Setup.TrafficDigest = "e" },
		`urls is [http://h] in a.json, [http://i] in b.json`: func(_, b *Run) {
			b.Setup.URLs = []string{"http://i"}
		},
		`stages is 20s:1000 in a.json, 20s:900 in b.json`:         func(_, b *Run) { b.Setup.Stages = "20s:900" },
		`warmup_s is 0 in a.json, 1 in b.json`:                    func(_, b *Run) { b.Setup.WarmupS = 1 },
		`version is {v1 abc go} in a.json, {v2 abc go} in b.json`: func(_, b *Run) { b.Tool.Version = "v2" },
		`measured together for 18.9 s of 20 s`: func(_, b *Run) {
			b.Started = start.Add(1100 * time.Millisecond)
		},
		`measured together for 0 s of 20 s`: func(_, b *Run) { b.Started = start.Add(time.Hour) },
		`measured together for 12 s of 20 s`: func(a, _ *Run) {
			a.DurationS, a.Interrupted = 12, true
		},
		`a.json and b.json are the same run`: func(a, b *Run) { *b = *a },
		`b.json: threshold "p99": want`: func(_, b *Run) {
			b.Thresholds = []Threshold{{Expression: "p99"}}
		},
		`outside of a histogram's range`: func(_, b *Run) {
			h := hdrhistogram.New(1, int64(time.Hour), 3)
			must.OK(t, h.RecordValue(int64(time.Hour)))
			b.Connect = must.Get(newLatency(h))(t)
		},
	} {
		_, names, runs := parts(t, 2, 0)
		change(runs[0], runs[1])
		if m, err := Merge(names, runs, nil); err == nil || !strings.Contains(err.Error(), want) || m != nil {
			t.Errorf("%v, want %q", err, want)
		}
	}
	one, _, _ := parts(t, 1, 0)
	if _, err := Merge([]string{"a"}, []*Run{one}, nil); err == nil {
		t.Error("one run was merged")
	}
}
