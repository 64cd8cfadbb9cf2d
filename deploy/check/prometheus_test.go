package check

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	amconfig "github.com/prometheus/alertmanager/config"
	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

var expressions = parser.NewParser(parser.Options{})

// TestPrometheus: promtool accepts the configurations and the rules, and alerts fire when
// rules_test.yml expects them to.
func TestPrometheus(t *testing.T) {
	for _, args := range []string{"check config --lint=all --lint-fatal prometheus.yml",
		"check config --lint=all --lint-fatal kubernetes.yml", "test rules rules_test.yml"} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			words := strings.Fields(args)
			words[len(words)-1] = filepath.Join(deploy, "prometheus", words[len(words)-1])
			tool(t, nil, filepath.Join(bin, "promtool"), words...)
		})
	}
}

// TestAlertmanager: Alertmanager accepts its configuration, which sends each severity to its own
// receiver and inhibits only alerts that exist.
func TestAlertmanager(t *testing.T) {
	c, err := amconfig.LoadFile(filepath.Join(deploy, "prometheus", "alertmanager.yml"))
	if err != nil {
		t.Fatal(err)
	}
	if page := c.Route.Routes; c.Route.Receiver != "ticket" || len(page) != 1 || page[0].Receiver != "page" ||
		!page[0].Matchers[0].Matches("page") || page[0].Matchers[0].Matches("ticket") {
		t.Errorf("routes %+v", c.Route)
	}
	alerts := map[string]bool{}
	for _, r := range parseRules(t) {
		alerts[r.Alert] = true
	}
	for _, rule := range c.InhibitRules {
		for _, m := range slices.Concat(rule.SourceMatchers, rule.TargetMatchers) {
			if m.Name != "alertname" || !alerts[m.Value] {
				t.Errorf("there is no alert %s", m)
			}
		}
	}
}

func parseRules(t *testing.T) (all []rulefmt.Rule) {
	t.Helper()
	groups, errs := rulefmt.ParseFile(filepath.Join(deploy, "prometheus", "rules.yml"), false, model.UTF8Validation,
		expressions, promslog.NewNopLogger())
	if errs != nil {
		t.Fatal(errs)
	}
	for _, g := range groups.Groups {
		all = append(all, g.Rules...)
	}
	return all
}

// TestAlerts: every alert has a severity, a test, and a section in the runbook, and the runbook has
// no section for an alert that does not exist.
func TestAlerts(t *testing.T) {
	_, section, _ := strings.Cut(read(t, deploy, "runbook.md"), "\n## Alerts\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var sections, alerts []string
	for _, m := range regexp.MustCompile(`(?m)^### (\S+)$`).FindAllStringSubmatch(section, -1) {
		sections = append(sections, m[1])
	}
	tests := read(t, deploy, "prometheus", "rules_test.yml")
	for _, r := range parseRules(t) {
		if r.Alert == "" {
			continue
		}
		alerts = append(alerts, r.Alert)
		if s := r.Labels["severity"]; s != "page" && s != "ticket" {
			t.Errorf("%s: severity %q", r.Alert, s)
		}
		if want := "{{ $externalLabels.runbook }}#" + strings.ToLower(r.Alert); r.Annotations["runbook_url"] != want {
			t.Errorf("%s: runbook_url %q, want %q", r.Alert, r.Annotations["runbook_url"], want)
		}
		if !strings.Contains(tests, `{alertname="`+r.Alert+`"`) {
			t.Errorf("%s: no test has it fire", r.Alert)
		}
	}
	slices.Sort(sections)
	slices.Sort(alerts)
	if !slices.Equal(sections, alerts) {
		t.Errorf("the runbook's sections are\n%v, the alerts\n%v", sections, alerts)
	}
}

// TestExpressions: the metrics, labels and values that rules and panels use exist in a running
// edge, a running builder, or a rule.
func TestExpressions(t *testing.T) {
	for _, r := range parseRules(t) {
		for _, problem := range unknown(t, r.Expr, "") {
			t.Errorf("%s%s: %s", r.Alert, r.Record, problem)
		}
	}
	var dashboard any
	if err := json.Unmarshal(
		[]byte(read(t, deploy, "grafana", "dashboards", "marketdata.json")), &dashboard); err != nil {
		t.Fatal(err)
	}
	// Replace Grafana's variables.
	values := strings.NewReplacer("$instance", ".*", "$__rate_interval", "1m", "$__interval", "15s")
	found := 0
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, child := range v {
				walk(child)
			}
		case map[string]any:
			for _, child := range v {
				walk(child)
			}
			expr, _ := v["expr"].(string)
			legend, _ := v["legendFormat"].(string)
			if query, ok := v["query"].(map[string]any); ok {
				expr = regexp.MustCompile(`^label_values\((\w+), (\w+)\)$`).
					ReplaceAllString(fmt.Sprint(query["query"]), "sum by ($2) ($1)")
			}
			if expr == "" {
				return
			}
			found++
			for _, problem := range unknown(t, values.Replace(expr), legend) {
				t.Errorf("dashboard: %s: %s", expr, problem)
			}
		}
	}
	walk(dashboard)
	if found == 0 {
		t.Error("no expressions in the dashboard")
	}
}

// unknown reports what an expression uses although it does not exist, and the labels in a legend
// that the expression groups away.
func unknown(t *testing.T, text, legend string) (problems []string) {
	t.Helper()
	expr, err := expressions.ParseExpr(text)
	if err != nil {
		return []string{err.Error()}
	}
	series := slices.Clone(liveSeries(t))
	for _, r := range parseRules(t) {
		series = append(series, labels.FromStrings("__name__", r.Record))
	}
	// A folder has no clock of its own, so edge/metrics tests this metric.
	series = append(series, labels.FromStrings("__name__", "edge_clock_skew_seconds", "instance", "edge"))
	// Only a live provider has these metrics, so builder/metrics tests them.
	for name, label := range map[string]string{
		"builder_part_newest_timestamp_seconds": "part", "builder_part_interval_seconds": "part",
		"builder_part_fetched_timestamp_seconds": "part", "builder_part_failures": "part",
		"builder_part_untimed": "part",
		"builder_source_calls": "source", "builder_source_calls_left": "source",
	} {
		series = append(series, labels.FromStrings("__name__", name, "instance", "builder", label, "exchange_rates"))
	}
	// labels that selectors match, and labels by which the expression groups
	names, grouped := map[string]bool{}, map[string]bool{}
	for _, matchers := range parser.ExtractSelectors(expr) {
		matched := slices.DeleteFunc(slices.Clone(series), func(s labels.Labels) bool {
			return slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(s.Get(m.Name)) })
		})
		if len(matched) == 0 {
			problems = append(problems, fmt.Sprintf("nothing matches %v", matchers))
		}
		for _, s := range matched {
			s.Range(func(l labels.Label) { names[l.Name] = true })
		}
		for _, m := range matchers {
			// A negative matcher also matches if the label does not exist.
			if !slices.ContainsFunc(matched, func(s labels.Labels) bool { return s.Has(m.Name) }) {
				problems = append(problems, fmt.Sprintf("no label %s in what matches %v", m.Name, matchers))
			}
		}
	}
	aggregated := false
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		var by []string
		switch n := n.(type) {
		case *parser.AggregateExpr:
			aggregated, by = true, n.Grouping
		case *parser.BinaryExpr:
			if n.VectorMatching != nil {
				by = append(n.VectorMatching.MatchingLabels, n.VectorMatching.Include...)
			}
		}
		for _, name := range by {
			grouped[name] = true
			if !names[name] {
				problems = append(problems, fmt.Sprintf("no label %s to group by", name))
			}
		}
		return nil
	})
	for _, m := range regexp.MustCompile(`\{\{\s*(\w+)\s*\}\}`).FindAllStringSubmatch(legend, -1) {
		if !names[m[1]] || aggregated && !grouped[m[1]] {
			problems = append(problems, fmt.Sprintf("the legend names %s, which the result has not", m[1]))
		}
	}
	return problems
}
