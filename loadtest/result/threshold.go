package result

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"example.com/marketdata/loadtest/pace"
)

// Threshold is a condition on a run, with its outcome.
type Threshold struct {
	Expression string `json:"expression"`
	// Value is the measured value, or nil if there are no samples. Unit is ms, share, requests/s, or "" for a
	// count.
	Value   *float64 `json:"value"`
	Unit    string   `json:"unit"`
	Samples int64    `json:"samples"`
	// Pass reports whether the condition held. It is false if there are no samples.
	Pass bool `json:"pass"`
}

// Measured returns the value with its unit.
func (t *Threshold) Measured() string {
	switch {
	case t.Value == nil:
		return "nothing measured"
	case t.Unit == "share":
		return fmt.Sprintf("%.3g %%", 100**t.Value)
	case t.Unit == "ms":
		return Millis(*t.Value)
	}
	return strings.TrimSpace(fmt.Sprintf("%.4g %s", *t.Value, t.Unit))
}

// Assertion is a parsed threshold.
type Assertion struct {
	text   string
	class  string // "" means all
	metric string
	op     string
	limit  float64
}

// assertion matches [CLASS:]METRIC OP VALUE.
var assertion = regexp.MustCompile(`^\s*(?:([^:<>=]+):)?\s*([a-z0-9._]+)\s*(<=|>=|==|<|>)\s*([^<>=\s]+)\s*$`)

var percentile = regexp.MustCompile(`^(?:service\.|lag\.|late\.)?p(\d{1,2}(?:\.\d+)?|100)$`)

const assertionHelp = "want [CLASS:]METRIC OP VALUE, such as 'p99<5ms', 'quotes:service.p99.9<=20ms', 'errors<0.1%', 'rate>=20k', 'wrong==0'; " +
	"METRIC is pN, min, mean or max (of the latency from due; service.pN, lag.pN of the others, late.pN of events), errors, wrong, rate or requests; OP is <, <=, ==, >= or >"

// ParseAssertion parses the expression of a threshold.
func ParseAssertion(s string) (*Assertion, error) {
	m := assertion.FindStringSubmatch(s)
	if m == nil {
		return nil, fmt.Errorf("threshold %q: %s", s, assertionHelp)
	}
	a := &Assertion{text: strings.TrimSpace(s), class: strings.TrimSpace(m[1]), metric: m[2], op: m[3]}
	var err error
	switch {
	case percentile.MatchString(a.metric), a.metric == "min", a.metric == "mean", a.metric == "max":
		var d time.Duration
		d, err = time.ParseDuration(m[4])
		a.limit = float64(d) / 1e6
	case a.metric == "errors":
		text, percent := strings.CutSuffix(m[4], "%")
		a.limit, err = strconv.ParseFloat(text, 64)
		if percent {
			a.limit /= 100
		}
	case a.metric == "rate":
		err = (*pace.Rate)(&a.limit).UnmarshalText([]byte(m[4]))
	case a.metric == "wrong", a.metric == "requests":
		if a.class != "" && a.metric == "wrong" {
			return nil, fmt.Errorf("threshold %q: wrong answers are counted over all classes", s)
		}
		a.limit, err = strconv.ParseFloat(m[4], 64)
	default:
		return nil, fmt.Errorf("threshold %q: unknown metric %q; %s", s, a.metric, assertionHelp)
	}
	if err != nil || a.limit != a.limit {
		return nil, fmt.Errorf("threshold %q: value %q: %s", s, m[4], assertionHelp)
	}
	return a, nil
}

// String returns the expression.
func (a *Assertion) String() string { return a.text }

// Class returns the class to which the threshold applies, or "" if it applies to all.
func (a *Assertion) Class() string { return a.class }

// FromSent reports whether the threshold is on the latency from sending, which looks too good if the load
// tester is late.
func (a *Assertion) FromSent() bool { return strings.HasPrefix(a.metric, "service.") }

// bounds reports whether the threshold is an upper bound on the latency of requests.
func (a *Assertion) bounds() bool {
	m := strings.TrimPrefix(a.metric, "service.")
	return a.op[0] == '<' && (m[0] == 'p' || m == "min" || m == "mean" || m == "max")
}

// ops contains the operators in words.
var ops = map[string]string{"<": "below", "<=": "at most", "==": "exactly", ">=": "at least", ">": "above"}

// Meaning returns the threshold in words.
func (a *Assertion) Meaning() string {
	unit := func(v float64) string {
		switch a.metric {
		case "errors":
			return fmt.Sprintf("%.4g %%", 100*v)
		case "rate", "requests", "wrong":
			return fmt.Sprintf("%.10g", v)
		}
		return time.Duration(v * 1e6).String()
	}
	what := map[string]string{
		"errors": "the share of the requests asked for that failed", "wrong": "the number of wrong answers",
		"rate":     "the rate of answers as they should be, in requests a second,",
		"requests": "the number of requests", "min": "the shortest latency from due",
		"mean": "the mean latency from due", "max": "the longest latency from due",
	}[a.metric]
	if m := percentile.FindStringSubmatch(a.metric); m != nil {
		from := "latency from due"
		switch {
		case a.FromSent():
			from = "latency from sent"
		case strings.HasPrefix(a.metric, "lag."):
			from = "send lag"
		case strings.HasPrefix(a.metric, "late."):
			return fmt.Sprintf(
				"the lateness that %s %% of the events do not exceed is %s %s", m[1], ops[a.op], unit(a.limit))
		}
		what = fmt.Sprintf("the %s that %s %% of the requests do not exceed", from, m[1])
	}
	if a.class != "" {
		what += ", of " + a.class + " alone,"
	}
	return what + " is " + ops[a.op] + " " + unit(a.limit)
}

// Check evaluates the threshold for a run.
func (a *Assertion) Check(r *Run) (Threshold, error) {
	t := Threshold{Expression: a.text, Unit: "ms"}
	switch a.metric {
	case "errors":
		t.Unit = "share"
	case "rate":
		t.Unit = "requests/s"
	case "wrong", "requests":
		t.Unit = ""
	}
	v, samples, err := a.measure(r)
	if err != nil {
		return t, err
	}
	t.Samples = samples
	if samples == 0 {
		return t, nil
	}
	v = round(v)
	t.Value = &v
	switch a.op {
	case "<":
		t.Pass = v < a.limit
	case "<=":
		t.Pass = v <= a.limit
	case ">":
		t.Pass = v > a.limit
	case ">=":
		t.Pass = v >= a.limit
	default:
		t.Pass = v == a.limit
	}
	return t, nil
}

func (a *Assertion) measure(r *Run) (value float64, samples int64, err error) {
	due, service := &r.Due, &r.Service
	sent, failed, asked := r.Requests.Sent, r.Errors()*float64(r.Requests.Asked), r.Requests.Asked
	if a.class != "" {
		var class *Class
		for i := range r.Classes {
			if r.Classes[i].Name == a.class {
				class = &r.Classes[i]
			}
		}
		if class == nil {
			return 0, 0, nil // there are no samples
		}
		due, service, sent, failed, asked = &class.Due, &class.Service, class.Sent, float64(class.Failed), class.Sent
	}
	switch a.metric {
	case "errors":
		return failed / max(1, float64(asked)), int64(asked), nil
	case "wrong":
		return float64(r.Checks.Wrong), int64(r.Checks.Checked), nil
	case "requests":
		return float64(sent), int64(asked), nil
	case "rate":
		return max(0, float64(sent)-failed) / max(r.DurationS, 1e-9), int64(asked), nil
	case "min":
		return due.MinMS, due.Count, nil
	case "mean":
		return due.MeanMS, due.Count, nil
	case "max":
		return due.MaxMS, due.Count, nil
	}
	l := due
	switch {
	case strings.HasPrefix(a.metric, "service."):
		l = service
	case strings.HasPrefix(a.metric, "lag."):
		l = &r.Lag
	case strings.HasPrefix(a.metric, "late."):
		if r.Streams == nil || r.Streams.Late == nil {
			return 0, 0, nil
		}
		l = r.Streams.Late
	}
	q, err := strconv.ParseFloat(percentile.FindStringSubmatch(a.metric)[1], 64)
	if err != nil {
		return 0, 0, err
	}
	h, err := l.Hist()
	if err != nil {
		return 0, 0, err
	}
	return ms(float64(h.ValueAtQuantile(q))), h.TotalCount(), nil
}
