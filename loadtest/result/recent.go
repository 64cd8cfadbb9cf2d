package result

import (
	"fmt"
	"strings"

	"example.com/marketdata/loadtest/engine"
)

// ParseAbort parses the expression of a threshold, and returns an error if Recent cannot evaluate it during a
// run.
func ParseAbort(s string) (*Assertion, error) {
	a, err := ParseAssertion(s)
	if err != nil {
		return nil, err
	}
	if a.class != "" || a.metric == "requests" || strings.Contains(a.metric, ".") && !strings.HasPrefix(a.metric, "p") {
		return nil, fmt.Errorf("%q cannot be told during a run: want errors, wrong, rate, pN, min, mean or max, over all "+
			"classes, such as 'errors>1%%' or 'p99>2s'", s)
	}
	return a, nil
}

// Recent evaluates the expression over the given seconds of a run in progress. The value of the metric "wrong"
// is wrongTotal, the total number of wrong answers so far.
func (a *Assertion) Recent(seconds []*engine.Interval, wrongTotal uint64) (Threshold, error) {
	r, due := &Run{}, engine.NewHistogram()
	for _, iv := range seconds {
		r.Requests.Sent += iv.Sent
		r.Requests.Failed += iv.Failed
		r.DurationS += (iv.End - iv.Start).Seconds()
		due.Merge(iv.Due)
	}
	r.Requests.Asked = max(1, r.Requests.Sent) // so that a rate of 0 counts as measured
	if a.metric == "wrong" {
		r.Checks.Wrong, r.Checks.Checked = wrongTotal, max(1, wrongTotal)
	}
	var err error
	if r.Due, err = newLatency(due); err != nil {
		return Threshold{}, err
	}
	return a.Check(r)
}
