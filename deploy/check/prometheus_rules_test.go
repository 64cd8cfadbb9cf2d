package check

import (
	"context"
	"errors"
	"io"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/util/teststorage"
)

// scrape holds the samples at one moment, by the text form of the labels that Prometheus gives
// them.
type scrape map[string]sample

type sample struct {
	labels labels.Labels
	value  float64
	grows  bool // whether it is a counter, or a part of a histogram
}

// add adds a target's metrics. An empty body means that the target is down.
func (s scrape) add(t *testing.T, body, job, instance string) {
	t.Helper()
	put := func(l labels.Labels, v float64, grows bool) {
		l = labels.NewBuilder(l).Set("job", job).Set("instance", instance).Labels()
		s[l.String()] = sample{l, v, grows}
	}
	up := 1.0
	if body == "" {
		up = 0
	}
	put(labels.FromStrings("__name__", "up"), up, false)
	p, err := textparse.New([]byte(body), "text/plain", labels.NewSymbolTable(), textparse.ParserOptions{})
	if err != nil {
		t.Fatal(err)
	}
	grows := false
	for {
		switch entry, err := p.Next(); {
		case errors.Is(err, io.EOF):
			return
		case err != nil:
			t.Fatal(err)
		case entry == textparse.EntryType:
			_, kind := p.Type()
			grows = kind == model.MetricTypeCounter || kind == model.MetricTypeHistogram
		case entry == textparse.EntrySeries:
			var l labels.Labels
			p.Labels(&l)
			_, _, v := p.Series()
			put(l, v, grows)
		}
	}
}

// stretch multiplies the sums of durations.
func (s scrape) stretch(by float64) {
	for key, one := range s {
		if strings.HasSuffix(one.labels.Get("__name__"), "_duration_seconds_sum") {
			one.value *= by
			s[key] = one
		}
	}
}

// clockwork is a Prometheus with the real rules, whose minutes pass immediately.
type clockwork struct {
	t       *testing.T
	storage *teststorage.TestStorage
	groups  map[string]*rules.Group
	begin   time.Time
	now     time.Time
	last    scrape // the latest scrape, as it was appended
}

func newClockwork(t *testing.T) *clockwork {
	c := &clockwork{t: t, storage: teststorage.New(t), begin: time.Now(), last: scrape{}}
	c.now = c.begin
	engine := promql.NewEngine(
		promql.EngineOpts{Logger: promslog.NewNopLogger(), MaxSamples: 1e6, Timeout: time.Minute, Parser: expressions})
	t.Cleanup(func() { _ = engine.Close() })
	manager := rules.NewManager(&rules.ManagerOptions{
		NameValidationScheme: model.UTF8Validation, Context: t.Context(), Logger: promslog.NewNopLogger(),
		Parser:    expressions,
		QueryFunc: rules.EngineQueryFunc(engine, c.storage), Appendable: c.storage, Queryable: c.storage,
		NotifyFunc: func(context.Context, string, ...*rules.Alert) {},
	})
	var errs []error
	if c.groups, errs = manager.LoadGroups(time.Minute, labels.EmptyLabels(), "", nil, false,
		filepath.Join(deploy, "prometheus", "rules.yml")); errs != nil {
		t.Fatal(errs)
	}
	return c
}

// minutes lets n minutes pass. In each minute, counters grow by the difference between the two
// scrapes, and gauges keep the value of the second. Gauges that contain a time advance, unless
// still is set. It returns the alerts that fired.
func (c *clockwork) minutes(n int, before, after scrape, still bool) []string {
	c.t.Helper()
	fired := map[string]bool{}
	for range n {
		c.now = c.now.Add(time.Minute)
		next := scrape{}
		for key, s := range after {
			if s.grows {
				grown := s.value - before[key].value
				if grown < 0 { // the program was restarted
					grown = s.value
				}
				if old, ok := c.last[key]; ok {
					s.value = old.value + grown
				}
			}
			if strings.HasSuffix(s.labels.Get("__name__"), "_timestamp_seconds") && s.value > 0 && !still {
				s.value += c.now.Sub(c.begin).Seconds()
			}
			next[key] = s
		}
		c.append(next)
		// Groups are sorted by file and name, so recording rules come first.
		for _, name := range slices.Sorted(maps.Keys(c.groups)) {
			c.groups[name].Eval(c.t.Context(), c.now)
		}
		for _, g := range c.groups {
			for _, r := range g.AlertingRules() {
				if err := r.LastError(); err != nil {
					c.t.Errorf("%s: %v", r.Name(), err)
				}
				if r.State() == rules.StateFiring {
					fired[r.Name()] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(fired))
}

func (c *clockwork) append(next scrape) {
	c.t.Helper()
	ms := c.now.UnixMilli()
	app := c.storage.Appender(c.t.Context())
	for key, s := range c.last {
		if _, ok := next[key]; !ok {
			s.value = math.Float64frombits(value.StaleNaN)
			next[key] = s
		}
	}
	c.last = scrape{}
	for key, s := range next {
		if _, err := app.Append(0, s.labels, ms, s.value); err != nil {
			c.t.Fatal(err)
		}
		if !value.IsStaleNaN(s.value) {
			c.last[key] = s
		}
	}
	if err := app.Commit(); err != nil {
		c.t.Fatal(err)
	}
}
