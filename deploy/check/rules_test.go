package check

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	promconfig "github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"gopkg.in/yaml.v3"
)

var (
	rulesFile   = filepath.Join(deploy, "prometheus", "rules.yml")
	expressions = parser.NewParser(parser.Options{})
)

func parseRules(t *testing.T) *rulefmt.RuleGroups {
	t.Helper()
	groups, errs := rulefmt.ParseFile(rulesFile, false, model.UTF8Validation, expressions, promslog.NewNopLogger())
	for _, err := range errs {
		t.Error(err)
	}
	if groups == nil {
		t.FailNow()
	}
	return groups
}

// TestRules: Prometheus takes the rules, each alert says how grave it is and
// what it means, and everything that an expression asks for is there.
func TestRules(t *testing.T) {
	names := map[string]bool{}
	for _, g := range parseRules(t).Groups {
		for _, r := range g.Rules {
			name := r.Alert + r.Record
			if names[name] {
				t.Errorf("%s stands twice", name)
			}
			names[name] = true
			expr, err := expressions.ParseExpr(r.Expr)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			for _, problem := range unknown(t, expr) {
				t.Errorf("%s: %s", name, problem)
			}
			if r.Record != "" {
				continue
			}
			if s := r.Labels["severity"]; s != "page" && s != "ticket" || len(r.Labels) != 1 {
				t.Errorf("%s: labels %v", name, r.Labels)
			}
			if r.Annotations["summary"] == "" || r.Annotations["description"] == "" || len(r.Annotations) != 3 {
				t.Errorf("%s: annotations %v", name, r.Annotations)
			}
			if want := "deploy/runbook.md#" + strings.ToLower(name); r.Annotations["runbook_url"] != want {
				t.Errorf("%s: runbook_url %q, want %q", name, r.Annotations["runbook_url"], want)
			}
		}
	}
	if len(names) < 20 {
		t.Errorf("only %d rules", len(names))
	}
}

// recorded are the series that the rules make.
func recorded(t *testing.T) []labels.Labels {
	t.Helper()
	var all []labels.Labels
	for _, g := range parseRules(t).Groups {
		for _, r := range g.Rules {
			if r.Record != "" {
				all = append(all, labels.FromStrings("__name__", r.Record))
			}
		}
	}
	return all
}

// unknown says what an expression asks for that neither a running edge, nor a
// running builder, nor a rule has: a metric, a label of it, or a value of that
// label. Labels that an expression groups or joins by count too.
func unknown(t *testing.T, expr parser.Expr) (problems []string) {
	t.Helper()
	series := append(liveSeries(t), recorded(t)...)
	names := map[string]bool{} // of labels, of all that is selected
	for _, matchers := range parser.ExtractSelectors(expr) {
		found := false
		for _, s := range series {
			if matches(s, matchers) {
				found = true
				s.Range(func(l labels.Label) { names[l.Name] = true })
			}
		}
		if !found {
			problems = append(problems, fmt.Sprintf("nothing matches %v", matchers))
		}
		for _, m := range matchers {
			if m.Name == model.MetricNameLabel || m.Type == labels.MatchEqual {
				continue
			}
			// A negative matcher, or one that takes anything, holds for a label
			// that does not exist, too.
			if !slices.ContainsFunc(series, func(s labels.Labels) bool { return matches(s, matchers) && s.Has(m.Name) }) {
				problems = append(problems, fmt.Sprintf("no label %s in what matches %v", m.Name, matchers))
			}
		}
	}
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		var by []string
		switch n := n.(type) {
		case *parser.AggregateExpr:
			by = n.Grouping
		case *parser.BinaryExpr:
			if n.VectorMatching != nil {
				by = append(n.VectorMatching.MatchingLabels, n.VectorMatching.Include...)
			}
		}
		for _, name := range by {
			if !names[name] {
				problems = append(problems, fmt.Sprintf("no label %s to group by", name))
			}
		}
		return nil
	})
	return problems
}

func matches(s labels.Labels, matchers []*labels.Matcher) bool {
	for _, m := range matchers {
		if !m.Matches(s.Get(m.Name)) {
			return false
		}
	}
	return true
}

// TestUnknown: the check finds what it is for.
func TestUnknown(t *testing.T) {
	for expr, problem := range map[string]string{
		`edge_snapshot_age`:                                          "nothing matches",
		`edge_snapshot_state{state="valid"}`:                         "nothing matches",
		`rate(edge_http_requests_total{status=~"5..|"}[5m])`:         "no label status",
		`sum by (code) (edge_connections)`:                           "no label code",
		`edge_connections / on (route) edge_connections_waiting`:     "no label route",
		`edge_snapshot_swap_lag_seconds_bucket{le=~"11(\\.0)?"}`:     "nothing matches",
		`edge_http_requests_total{job="edge",code=~"5..",route!=""}`: "",
		`edge_snapshot_swap_lag_seconds_bucket{le=~"10(\\.0)?"}`:     "",
	} {
		e, err := expressions.ParseExpr(expr)
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(unknown(t, e), "; ")
		if problem == "" && got != "" || !strings.Contains(got, problem) {
			t.Errorf("%s: %q, want %q", expr, got, problem)
		}
	}
}

// TestPrometheusConfig: Prometheus takes its configuration, whose jobs are those
// that the rules name, and which names the rules.
func TestPrometheusConfig(t *testing.T) {
	file := filepath.Join(deploy, "prometheus", "prometheus.yml")
	cfg, err := promconfig.LoadFile(file, false, promslog.NewNopLogger())
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{filepath.Join(deploy, "prometheus", "rules.yml")}; !slices.Equal(cfg.RuleFiles, want) {
		t.Errorf("rules %v, want %v", cfg.RuleFiles, want)
	}
	var jobs []string
	for _, s := range cfg.ScrapeConfigs {
		jobs = append(jobs, s.JobName)
	}
	for _, job := range []string{"edge", "builder"} {
		if !slices.Contains(jobs, job) {
			t.Errorf("no job %s in %v", job, jobs)
		}
	}
}

// TestRunbook: each alert has a section of its name, and there is no section of
// an alert that does not exist.
func TestRunbook(t *testing.T) {
	alerts := map[string]bool{}
	for _, g := range parseRules(t).Groups {
		for _, r := range g.Rules {
			if r.Alert != "" {
				alerts[r.Alert] = true
			}
		}
	}
	runbook := string(read(t, deploy, "runbook.md"))
	_, section, found := strings.Cut(runbook, "\n## Alerts\n")
	if !found {
		t.Fatal("no section Alerts")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	parts := regexp.MustCompile(`(?m)^### (\S+)$`).Split(section, -1)[1:]
	for i, m := range regexp.MustCompile(`(?m)^### (\S+)$`).FindAllStringSubmatch(section, -1) {
		if !alerts[m[1]] {
			t.Errorf("section %s is of no alert", m[1])
		}
		delete(alerts, m[1])
		if len(strings.Fields(parts[i])) < 15 {
			t.Errorf("section %s says nothing", m[1])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(alerts)) {
		t.Errorf("no section for %s", name)
	}
}

// decodeYAML reads one document, and nothing that v does not have.
func decodeYAML(t *testing.T, b []byte, v any) {
	t.Helper()
	d := yaml.NewDecoder(strings.NewReader(string(b)))
	d.KnownFields(true)
	if err := d.Decode(v); err != nil {
		t.Fatal(err)
	}
}
