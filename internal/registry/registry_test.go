package registry

import (
	"runtime"
	"testing"

	"example.com/marketdata/internal/test/must"
)

func TestNew(t *testing.T) {
	got := must.Get(New("program").Gather())(t)
	for _, family := range got {
		if family.GetName() != "program_build_info" {
			continue
		}
		labels := map[string]string{}
		for _, l := range family.Metric[0].Label {
			labels[l.GetName()] = l.GetValue()
		}
		if family.Metric[0].Gauge.GetValue() != 1 || len(labels) != 3 || labels["goversion"] != runtime.Version() ||
			labels["revision"] == "" {
			t.Errorf("%v", family)
		}
		return
	}
	t.Errorf("no program_build_info in %v", got)
}
