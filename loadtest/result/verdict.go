package result

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"example.com/marketdata/loadtest/engine"
	"example.com/marketdata/loadtest/pace"
	"github.com/dustin/go-humanize"
)

// Verdict returns a sentence that says what the run showed: the outcome, which also determines the exit
// status, the load, and the most important figures.
func (r *Run) Verdict() string {
	q, load := &r.Requests, r.load()
	var failed []string
	for _, t := range r.Thresholds {
		if !t.Pass {
			failed = append(failed, t.Expression+" was "+t.Measured())
		}
	}
	if failed == nil && !r.Validity.Valid && !r.Limited() { // the service was too slow, not the load tester
		failed = []string{r.Validity.Reasons[0]}
	}
	switch {
	case r.Checks.Wrong > 0:
		answers := "answers"
		if r.Checks.Wrong == 1 {
			answers = "answer"
		}
		return fmt.Sprintf("WRONG: %s wrong %s at %s", comma(r.Checks.Wrong), answers, load)
	case r.Aborted != "":
		return "Aborted at " + load + ": " + r.Aborted
	case q.Answered == 0:
		return fmt.Sprintf("Failed: none of %s requests was answered as it should be%s", comma(q.Asked), r.mostly())
	case r.Setup.Oracle && r.Checks.Compared == 0:
		return "Failed: the oracle compared no answer"
	case r.Limited():
		return fmt.Sprintf("INVALID at %s: %s; %s of %s requests were answered, %s failed. "+
			"A lower rate, or a load tester on a machine of its own, would make it valid", load,
			strings.Join(r.Validity.Reasons, "; "), comma(q.Answered), comma(q.Asked), comma(q.Failed))
	case failed != nil:
		return "Did not hold " + load + ": " + strings.Join(append(failed, r.wrong()), ", ")
	}
	verb, errors := "Held ", "no errors"
	if share := r.Errors(); share > 0 {
		errors = Figure(100*share) + " % errors" + r.mostly()
		if share > 1-minAchieved {
			verb = fmt.Sprintf("Answered %s %% of ", Figure(100-100*share))
		}
	}
	if r.Closed() {
		verb = "Closed loop answered "
	}
	lag := ""
	if !r.Closed() && r.Lag.P99MS > max(minLagMS, maxLagShare*r.Due.P99MS) {
		lag = " (the load tester itself was late by up to " + Millis(r.Lag.P99MS) + ")"
	}
	return fmt.Sprintf("%s%s: p99 %s%s, %s, %s", verb, load, Millis(r.Due.P99MS), lag, errors, r.wrong())
}

func (r *Run) wrong() string {
	if r.Checks.Checked == 0 {
		return "answers not checked"
	}
	return "no wrong answers"
}

// mostly describes the most frequent failure. If that is FailStatus, it describes the most frequent 429 or 5xx
// status.
func (r *Run) mostly() string {
	failures := SortedKeys(r.Requests.Failures)
	if len(failures) == 0 {
		return ""
	}
	if failures[0] == string(engine.FailStatus) {
		for _, s := range SortedKeys(r.Requests.Statuses) {
			if s == "429" || strings.HasPrefix(s, "5") {
				return " (mostly status " + s + ")"
			}
		}
	}
	return " (mostly " + failures[0] + ")"
}

// load describes the rate and the duration, without the warm-up.
func (r *Run) load() string {
	rate := perSecond(r.Rate.Asked)
	switch stages, err := pace.ParseStages(r.Setup.Stages); {
	case r.Closed():
		rate = fmt.Sprintf("%s over %d connections", perSecond(r.Rate.Answered), r.Setup.Connections)
	case err == nil:
		low, high, end := math.Inf(1), 0.0, 0.0
		for _, s := range stages {
			if end += s.Duration.Seconds(); end > r.Setup.WarmupS {
				low, high = min(low, s.From, s.To), max(high, s.From, s.To)
			}
		}
		if rate = perSecond(high); low < high {
			rate = perSecond(low) + " to " + rate
		}
	}
	how := " for "
	if r.Interrupted {
		how = ", interrupted after "
	}
	return rate + how + Seconds(r.DurationS)
}

func perSecond(v float64) string {
	if v >= 100 {
		return comma(uint64(math.Round(v))) + "/s"
	}
	return Figure(v) + "/s"
}

func comma(n uint64) string { return humanize.Comma(int64(n)) }

// Figure formats v with three significant digits.
func Figure(v float64) string {
	if math.Abs(v) >= 100 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// Millis formats a time in milliseconds with a suitable unit.
func Millis(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v >= 1000:
		return Figure(v/1000) + " s"
	case v < 1:
		return Figure(v*1000) + " µs"
	}
	return Figure(v) + " ms"
}

// Seconds formats a time in seconds with a suitable unit.
func Seconds(v float64) string {
	switch {
	case v >= 3600 && math.Mod(v, 1800) == 0:
		return Figure(v/3600) + " h"
	case v >= 120 && math.Mod(v, 30) == 0:
		return Figure(v/60) + " min"
	}
	return Figure(v) + " s"
}
