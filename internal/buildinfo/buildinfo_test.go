package buildinfo

import (
	"runtime"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

func TestCollector(t *testing.T) {
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(Collector("program"))
	got, err := r.Gather()
	if err != nil || len(got) != 1 || got[0].GetName() != "program_build_info" || got[0].Metric[0].Gauge.GetValue() != 1 {
		t.Fatalf("%v, %v", got, err)
	}
	labels := map[string]string{}
	for _, l := range got[0].Metric[0].Label {
		labels[l.GetName()] = l.GetValue()
	}
	if len(labels) != 3 || labels["goversion"] != runtime.Version() || labels["revision"] == "" {
		t.Errorf("%v", labels)
	}
}
