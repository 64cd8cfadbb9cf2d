package result

import (
	"fmt"
	"math"
	"strings"
)

// Beyond these limits a run has measured the load tester instead of the service.
const (
	minAchieved = 0.99 // share of the requested rate that must be achieved
	minLagMS    = 1.0  // send lag that is always allowed, at the 99th percentile
	freeLagMS   = 5.0  // the same if no threshold bounds a latency
	maxLagShare = 0.1  // allowed send lag as a share of the p50 or of the strictest latency threshold
	maxCPUShare = 0.9  // share of the available processor time
)

// ValidWhen describes in words when a run is valid.
var ValidWhen = fmt.Sprintf("The figures are the service's, because in an open loop at least %.0f %% of the requests "+
	"were sent before the end; because, unless each latency threshold from due held, the send lag's p99 was at most %v "+
	"ms (%v ms without a threshold), or %.0f %% of the p50 or of the strictest latency threshold, whichever is largest; "+
	"and because the load tester took at most %.0f %% of the processors that it may use.", 100*minAchieved, minLagMS,
	freeLagMS, 100*maxLagShare, 100*maxCPUShare)

// Judge evaluates the thresholds, and then the validity, which depends on them.
func (r *Run) Judge(assertions []*Assertion) error {
	r.Thresholds = []Threshold{}
	for _, a := range assertions {
		t, err := a.Check(r)
		if err != nil {
			return err
		}
		r.Thresholds = append(r.Thresholds, t)
	}
	r.Validity = r.judge()
	return nil
}

// lagLimit returns the highest p99 of the send lag, in milliseconds, with which a run is valid. The latency
// from the due time includes the lag, so the lag must be small compared with the figure of interest, which is
// the strictest latency threshold or the p50. The lag can only make that latency look longer. So a threshold
// that held would also hold without the lag, and a threshold that failed by more than maxLagShare failed
// because of the service.
func (r *Run) lagLimit() float64 {
	strictest := math.Inf(1)
	for _, t := range r.Thresholds {
		if a, err := ParseAssertion(t.Expression); err == nil && a.bounds() {
			strictest = min(strictest, a.limit)
		}
	}
	if math.IsInf(strictest, 1) {
		return max(freeLagMS, maxLagShare*r.Due.P50MS)
	}
	return max(minLagMS, maxLagShare*max(r.Due.P50MS, strictest))
}

// lagMatters reports whether the lateness of the load tester may have decided the outcome. The lag only adds
// to the latency from the due time, so a threshold on that latency that held would also hold without the lag.
// The latency from sending does not include the lag, and it may look shorter because late sending spreads
// bursts. Without thresholds, the figures themselves are the outcome.
func (r *Run) lagMatters() bool {
	judged := false
	for _, t := range r.Thresholds {
		if a, err := ParseAssertion(t.Expression); err == nil && a.bounds() {
			judged = true
			if !t.Pass || strings.Contains(t.Expression, "service.") {
				return true
			}
		}
	}
	return !judged
}

// judge decides whether the figures describe the service rather than the load tester.
func (r *Run) judge() Validity {
	reasons := []string{}
	add := func(format string, args ...any) { reasons = append(reasons, fmt.Sprintf(format, args...)) }
	if r.Requests.Asked == 0 {
		add("no request was due")
	}
	if !r.Closed() {
		why := "the generator itself was late"
		if w := r.Requests.Waited; w*100 > r.Requests.Asked {
			why = fmt.Sprintf("all %d connections waited for answers when %d of the requests were due, so the service is slower than the rate, or --connections too few",
				r.Setup.Connections, w)
		}
		if achieved := r.Rate.Achieved; !r.KeptUp() {
			add("achieved %.1f requests/s of %.1f asked (%.1f %%, want %.0f %%): %s", achieved, r.Rate.Asked,
				100*achieved/r.Rate.Asked, 100*minAchieved, why)
		}
		if limit := r.lagLimit(); r.Lag.P99MS > limit && r.lagMatters() {
			add("send lag p99 is %.3f ms, above %.3f ms: %s", r.Lag.P99MS, limit, why)
		}
	}
	if s := r.Generator.CPUShare; s > maxCPUShare {
		add("the generator took %.0f %% of the %.4g processors it may use, above %.0f %%", 100*s, r.Machine.CPUs,
			100*maxCPUShare)
	}
	return Validity{Valid: len(reasons) == 0, Reasons: reasons}
}

// Limited reports whether an invalid run was limited by the load tester, rather than by a service that did
// not answer in time.
func (r *Run) Limited() bool {
	return !r.Validity.Valid && (r.Generator.CPUShare > maxCPUShare || r.Requests.Waited*100 <= r.Requests.Asked)
}

// KeptUp reports whether requests were sent at nearly the requested rate. If they were not, a run of an open
// loop is invalid.
func (r *Run) KeptUp() bool { return r.Rate.Achieved >= minAchieved*r.Rate.Asked }
