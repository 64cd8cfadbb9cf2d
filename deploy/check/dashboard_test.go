package check

import (
	"encoding/json"
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// dashboard is the part of Grafana's model that is checked.
type dashboard struct {
	UID, Title    string
	SchemaVersion int
	Annotations   struct {
		List []struct{ Name, Expr string }
	}
	Templating struct {
		List []struct {
			Name, Type string
			Query      json.RawMessage
		}
	}
	Panels []panel
}

type panel struct {
	ID         int
	Type       string
	Title      string
	Datasource struct{ UID string }
	GridPos    struct{ H, W, X, Y int }
	Targets    []struct {
		RefID, Expr, LegendFormat string
		Datasource                struct{ UID string }
	}
}

// instantiate puts values in the place of Grafana's variables.
var instantiate = strings.NewReplacer("$instance", ".*", "$__rate_interval", "1m", "$__interval", "15s")

// TestDashboard: every expression parses and asks only for what a running edge
// or builder has, legends name labels that the result has, and panels do not
// cover each other.
func TestDashboard(t *testing.T) {
	var d dashboard
	if err := json.Unmarshal(read(t, deploy, "grafana", "dashboards", "marketdata.json"), &d); err != nil {
		t.Fatal(err)
	}
	if d.UID == "" || d.Title == "" || d.SchemaVersion < 36 {
		t.Errorf("%q %q, schema %d", d.UID, d.Title, d.SchemaVersion)
	}
	check := func(where, expr, legend string) {
		e, err := expressions.ParseExpr(instantiate.Replace(expr))
		if err != nil {
			t.Errorf("%s: %s: %v", where, expr, err)
			return
		}
		if strings.Contains(instantiate.Replace(expr), "$") {
			t.Errorf("%s: %s: a variable that the dashboard does not have", where, expr)
		}
		for _, problem := range unknown(t, e) {
			t.Errorf("%s: %s: %s", where, expr, problem)
		}
		have := resultLabels(t, e)
		for _, m := range regexp.MustCompile(`\{\{\s*(\w+)\s*\}\}`).FindAllStringSubmatch(legend, -1) {
			if !have[m[1]] {
				t.Errorf("%s: the legend %q names %s, which the result of %s has not", where, legend, m[1], expr)
			}
		}
	}
	for _, a := range d.Annotations.List {
		check("annotation "+a.Name, a.Expr, "")
	}
	variables := map[string]bool{}
	for _, v := range d.Templating.List {
		variables[v.Name] = true
		if m := regexp.MustCompile(`label_values\((\w+), (\w+)\)`).FindSubmatch(v.Query); m != nil {
			check("variable "+v.Name, fmt.Sprintf("sum by (%s) (%s)", m[2], m[1]), "")
		}
	}
	if !variables["instance"] || !variables["datasource"] {
		t.Errorf("variables %v", variables)
	}
	ids, cells, targets := map[int]bool{}, map[[2]int]string{}, 0
	for _, p := range d.Panels {
		if ids[p.ID] {
			t.Errorf("%s: another panel has the id %d", p.Title, p.ID)
		}
		ids[p.ID] = true
		for y := range p.GridPos.H {
			for x := range p.GridPos.W {
				cell := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				if cell[0] >= 24 || cells[cell] != "" {
					t.Fatalf("%s: covers %q, or stands out, at %v", p.Title, cells[cell], cell)
				}
				cells[cell] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		if len(p.Targets) == 0 || p.Title == "" {
			t.Errorf("panel %d %q has nothing to show", p.ID, p.Title)
		}
		for _, target := range p.Targets {
			targets++
			if p.Datasource.UID != "${datasource}" || target.Datasource.UID != "${datasource}" {
				t.Errorf("%s: a data source of its own", p.Title)
			}
			check(p.Title, target.Expr, target.LegendFormat)
		}
	}
	if targets < 40 {
		t.Errorf("only %d targets", targets)
	}
	// What the edge and the builder tell and nobody looks at is no fault, but
	// these are what the dashboard is for.
	all := string(read(t, deploy, "grafana", "dashboards", "marketdata.json"))
	for _, s := range liveSeries(t) {
		name := s.Get(model.MetricNameLabel)
		base := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_sum"), "_count")
		if (strings.HasPrefix(name, "edge_") || strings.HasPrefix(name, "builder_")) && !strings.Contains(all, base) && !unshown[base] {
			t.Errorf("%s is not shown", base)
		}
	}
}

// unshown are metrics that no panel shows, and why.
var unshown = map[string]bool{
	"edge_snapshot_timestamp_seconds": true, // the age is
	"edge_disk_reads_total":           true, // close to edge_shard_loads_total
	"edge_limits_state":               true, // what edges decide alone is
	"edge_limits_calls_total":         true,
	"builder_build_info":              true, // for joining
	"builder_snapshot_sequence":       true, // the edges' is
	"builder_forced_guards_total":     true, // somebody did it by hand
	"builder_job_duration_seconds":    true,
	"builder_build_duration_seconds":  true, // its steps are
	"builder_gc_deleted_bytes_total":  true,
}

// resultLabels are the labels that the result of an expression has, as far as
// aggregation decides it.
func resultLabels(t *testing.T, e parser.Expr) map[string]bool {
	have := map[string]bool{}
	switch e := e.(type) {
	case *parser.AggregateExpr:
		for _, l := range e.Grouping {
			have[l] = true
		}
	case *parser.VectorSelector:
		for _, s := range append(liveSeries(t), recorded(t)...) {
			if matches(s, e.LabelMatchers) {
				s.Range(func(l labels.Label) { have[l.Name] = true })
			}
		}
	case *parser.BinaryExpr:
		for _, side := range []parser.Expr{e.LHS, e.RHS} {
			for l := range resultLabels(t, side) {
				have[l] = true
			}
		}
	default:
		for child := range parser.ChildrenIter(e) {
			if c, ok := child.(parser.Expr); ok {
				for l := range resultLabels(t, c) {
					have[l] = true
				}
			}
		}
		if call, ok := e.(*parser.Call); ok && call.Func.Name == "histogram_quantile" {
			delete(have, "le")
		}
	}
	return have
}

// TestGrafanaProvisioning: Grafana finds the data source and the dashboards.
func TestGrafanaProvisioning(t *testing.T) {
	var sources struct {
		APIVersion  int `yaml:"apiVersion"`
		Datasources []struct {
			Name, UID, Type, Access, URL string
			IsDefault                    bool `yaml:"isDefault"`
		}
	}
	decodeYAML(t, read(t, deploy, "grafana", "provisioning", "datasources", "prometheus.yaml"), &sources)
	if len(sources.Datasources) != 1 || sources.Datasources[0].Type != "prometheus" || !sources.Datasources[0].IsDefault {
		t.Errorf("%+v", sources)
	}
	var providers struct {
		APIVersion int `yaml:"apiVersion"`
		Providers  []struct {
			Name, Type     string
			AllowUIUpdates bool `yaml:"allowUiUpdates"`
			Options        struct{ Path string }
		}
	}
	decodeYAML(t, read(t, deploy, "grafana", "provisioning", "dashboards", "marketdata.yaml"), &providers)
	if len(providers.Providers) != 1 {
		t.Fatalf("%+v", providers)
	}
	// compose.yaml mounts the folder there.
	folder := providers.Providers[0].Options.Path
	if compose := string(read(t, deploy, "compose.yaml")); !strings.Contains(compose, "./grafana/dashboards:"+folder+":ro") {
		t.Errorf("compose.yaml does not mount the dashboards at %s", folder)
	}
	if found, err := filepath.Glob(filepath.Join(deploy, "grafana", "dashboards", "*.json")); err != nil || len(found) != 1 || path.Ext(found[0]) != ".json" {
		t.Errorf("dashboards: %v, %v", found, err)
	}
}
