// Package fakerun generates results of load test runs, for tests of code that reads them.
package fakerun

import (
	"math"
	"math/rand/v2"
	"time"

	"example.com/marketdata/loadtest/check"
	"example.com/marketdata/loadtest/engine"
	"example.com/marketdata/loadtest/result"
	"example.com/marketdata/loadtest/streams"
)

// New returns a valid open-loop run of the given number of seconds with 500 requests per second,
// latencies of about typicalMs milliseconds and a new snapshot in the middle. If bad is set, the
// run also has some failures and wrong answers.
func New(seconds int, seed uint64, typicalMs float64, bad bool) (*result.Run, error) {
	r := rand.New(rand.NewPCG(seed, 1))
	start := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	e := &engine.Result{
		Start: start, Length: time.Duration(seconds) * time.Second, Lag: engine.NewHistogram(),
		Connect: engine.NewHistogram(),
		CPUs:    2, Wall: time.Duration(seconds) * time.Second, CPU: time.Duration(seconds) * time.Second / 2,
		Connections: 20,
	}
	for _, name := range []string{"quotes", "assets", "global"} {
		e.Classes = append(e.Classes, engine.ClassResult{Name: name, Failures: map[engine.Failure]uint64{},
			Statuses: map[int]uint64{}, Due: engine.NewHistogram(), Service: engine.NewHistogram()})
	}
	record := func(v float64) int64 { return int64(v * float64(time.Millisecond)) }
	for s := range seconds {
		iv := &engine.Interval{
			Start: time.Duration(s) * time.Second, End: time.Duration(s+1) * time.Second, Due: engine.NewHistogram(),
			LagP99: 80 * time.Microsecond, CPU: 0.2 + 0.1*r.Float64(),
		}
		for i := range 500 {
			service := typicalMs * math.Exp(0.5*r.NormFloat64())
			lag := 0.02 + 0.01*r.Float64()
			c := &e.Classes[i%3]
			c.Sent++
			c.Statuses[200]++
			// All values are within the histograms' range, so there is no error.
			_ = iv.Due.RecordValue(record(service + lag))
			_ = c.Due.RecordValue(record(service + lag))
			_ = c.Service.RecordValue(record(service))
			_ = e.Lag.RecordValue(record(lag))
			iv.Sent++
			iv.Read += 4000
			if bad && s%5 == 2 && i < 10 {
				c.Failures[engine.FailTimeout]++
				iv.Failed++
			} else {
				iv.Answered++
			}
		}
		e.Intervals = append(e.Intervals, iv)
		e.Asked += iv.Sent
		e.Read += iv.Read
	}
	e.InTime = e.Asked
	c := &check.Report{Checked: e.Asked, Distinct: e.Asked / 7, Compared: e.Asked / 7, Swaps: []check.Swap{
		{Snapshot: "2026-11-01T11:50:00Z", Moment: check.Moment{At: start}},
		{Snapshot: "2026-11-01T12:00:00Z", Moment: check.Moment{At: start.Add(e.Length / 2)}},
	}}
	if bad {
		c.Wrong = 1
		c.Findings = []check.Finding{{Kind: check.Oracle, Count: 1, Examples: []check.Example{{
			Target: `/openapi/v1/quotes?slug=<script>alert(1)</script>`, Snapshot: "2026-11-01T12:00:00Z", Status: 200,
			Detail: `body differs at byte 17: got …"a&b"…, want …"a<b"…`,
			Moment: check.Moment{At: start.Add(time.Second)},
		}}}}
	}
	out, err := result.New(result.Setup{
		URLs: []string{"http://127.0.0.1:8080"}, Mode: "open", Arrivals: "poisson",
		Stages:      (e.Length / 2).String() + ":500," + (e.Length / 2).String() + ":400-600",
		Connections: 1000, TimeoutS: 10, Traffic: "mixed", Seed: seed, CheckShare: 1, Oracle: true,
	}, result.Tool{Version: "(devel)", Go: "go"}, e, c)
	if err != nil || bad {
		return out, err
	}
	told := &streams.Result{Count: 30, Open: 30, Opened: 31, Failures: map[engine.Failure]uint64{streams.Ended: 1},
		Events: 61, Late: engine.NewHistogram(), Apart: engine.NewHistogram()}
	for i := range time.Duration(31) {
		engine.Record(told.Late, i*time.Millisecond)
		engine.Record(told.Apart, i*time.Millisecond/2)
	}
	return out, out.Hold(told)
}
