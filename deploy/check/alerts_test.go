package check

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
)

// TestAlerts: what the rules make of some hours of an edge's and a builder's
// life, evaluated by Prometheus' own rule manager.
func TestAlerts(t *testing.T) {
	const minute = time.Minute
	for _, c := range []struct {
		name string
		// series, one sample a minute, in promtool's notation; those of healthy
		// are added unless one of the same metric is here.
		series string
		at     time.Duration
		// want are the alerts that fire then, with the instance where there is
		// one; none other does.
		want []string
	}{
		{name: "all is well", at: 180 * minute},

		{name: "one edge is away", series: `
			up{job="edge",instance="e1"} 1x200
			up{job="edge",instance="e2"} 1x100 0x100`, at: 110 * minute, want: []string{"EdgeDown e2"}},
		{name: "not yet two minutes", series: `
			up{job="edge",instance="e1"} 1x200
			up{job="edge",instance="e2"} 1x108 0x100`, at: 110 * minute},
		{name: "no edge at all", series: `
			up{job="edge",instance="e1"} 1x100 0x100`, at: 110 * minute, want: []string{"EdgeDown e1", "EdgesAllDown"}},
		{name: "Prometheus knows of no edge, nor of a builder", series: `
			up{job="other",instance="e1"} 1x100`, at: 50 * minute, want: []string{"BuilderDown", "EdgesAllDown"}},
		{name: "an edge starts again and again", series: `
			process_start_time_seconds{job="edge",instance="e1"} 0x100 6000 6001 6002 6003x100`, at: 110 * minute, want: []string{"EdgeRestarting e1"}},
		{name: "a rollout is no reason", series: `
			process_start_time_seconds{job="edge",instance="e1"} 0x100 6000x100`, at: 110 * minute},

		{name: "nothing to serve", series: `
			edge_snapshot_sequence{job="edge",instance="e1"} 0x200
			edge_snapshot_sequence{job="edge",instance="e2"} 7x200`, at: 100 * minute, want: []string{"EdgeNoSnapshot e1"}},
		{name: "a snapshot of 25 minutes", series: `
			edge_snapshot_age_seconds{job="edge",instance="e1"} 60+60x200`, at: 26 * minute, want: []string{"EdgeSnapshotOld e1"}},
		{name: "a snapshot of 20 minutes", series: `
			edge_snapshot_age_seconds{job="edge",instance="e1"} 60+60x200`, at: 19 * minute},
		{name: "a snapshot of an hour", series: `
			edge_snapshot_age_seconds{job="edge",instance="e1"} 60+60x200`, at: 62 * minute, want: []string{"EdgeSnapshotOld e1", "EdgeSnapshotVeryOld e1"}},
		{name: "edges apart", series: `
			edge_snapshot_sequence{job="edge",instance="e1"} 7x100 8x100
			edge_snapshot_sequence{job="edge",instance="e2"} 7x200`, at: 107 * minute, want: []string{"EdgesApart"}},
		{name: "edges apart for a moment", series: `
			edge_snapshot_sequence{job="edge",instance="e1"} 7x100 8x100
			edge_snapshot_sequence{job="edge",instance="e2"} 7x102 8x100`, at: 103 * minute},
		{name: "an edge that has nothing is not apart", series: `
			edge_snapshot_sequence{job="edge",instance="e1"} 7x200
			edge_snapshot_sequence{job="edge",instance="e2"} 0x200`, at: 100 * minute, want: []string{"EdgeNoSnapshot e2"}},

		// 1,440 minutes, a swap every ten on each of two edges: 288 of them.
		{name: "two swaps a day are late", series: `
			edge_snapshot_swap_lag_seconds_bucket{job="edge",instance="e1",le="10"} 0+0.1x1300 130x200
			edge_snapshot_swap_lag_seconds_bucket{job="edge",instance="e2",le="10.0"} 0+0.1x1500
			edge_snapshot_swap_lag_seconds_count{job="edge",instance="e1"} 0+0.1x1320 132x200
			edge_snapshot_swap_lag_seconds_count{job="edge",instance="e2"} 0+0.1x1500`, at: 1440 * minute},
		{name: "five swaps a day are late", series: `
			edge_snapshot_swap_lag_seconds_bucket{job="edge",instance="e1",le="10"} 0+0.1x1300 130x200
			edge_snapshot_swap_lag_seconds_bucket{job="edge",instance="e2",le="10"} 0+0.1x1500
			edge_snapshot_swap_lag_seconds_count{job="edge",instance="e1"} 0+0.1x1350 135x200
			edge_snapshot_swap_lag_seconds_count{job="edge",instance="e2"} 0+0.1x1500`, at: 1440 * minute, want: []string{"EdgeSwapsLate"}},
		{name: "every swap is late", series: `
			edge_snapshot_swap_lag_seconds_bucket{job="edge",instance="e1",le="10"} 0x300
			edge_snapshot_swap_lag_seconds_count{job="edge",instance="e1"} 0+0.1x300`, at: 120 * minute, want: []string{"EdgeSwapsLate", "EdgeSwapsLateNow"}},
		{name: "no swap is none that is late", series: `
			edge_snapshot_swap_lag_seconds_bucket{job="edge",instance="e1",le="10"} 5x300
			edge_snapshot_swap_lag_seconds_count{job="edge",instance="e1"} 5x300`, at: 120 * minute},

		{name: "a pointer is refused at every poll", series: `
			edge_snapshot_refused_total{job="edge",instance="e1"} 0x100 0+2x100`, at: 105 * minute, want: []string{"EdgePointerRefused e1"}},
		{name: "a pointer is refused once", series: `
			edge_snapshot_refused_total{job="edge",instance="e1"} 0x100 1x100`, at: 105 * minute},
		{name: "the store is away", series: `
			edge_snapshot_state{job="edge",instance="e1",state="INTERRUPTED"} 0x100 1x100
			edge_keys_state{job="edge",instance="e1",state="VALID"} 1x100 0x100`, at: 112 * minute, want: []string{"EdgeInterrupted e1", "EdgeKeysUnconfirmed e1"}},

		{name: "one error in a hundred", series: `
			edge_http_requests_total{job="edge",instance="e1",route="quotes",code="200"} 0+6000x200
			edge_http_requests_total{job="edge",instance="e1",route="quotes",code="503"} 0+60x200`, at: 100 * minute, want: []string{"EdgeErrors"}},
		{name: "pins of the future are no errors, and not slow", series: `
			edge_http_requests_total{job="edge",instance="e1",route="quotes",code="200"} 0+6000x200
			edge_http_requests_total{job="edge",instance="e1",route="future_pin",code="503"} 0+6000x200
			edge_http_request_duration_seconds_bucket{job="edge",instance="e1",route="future_pin",le="0.05"} 0x200
			edge_http_request_duration_seconds_bucket{job="edge",instance="e1",route="future_pin",le="+Inf"} 0+6000x200`, at: 100 * minute},
		{name: "one error in ten thousand", series: `
			edge_http_requests_total{job="edge",instance="e1",route="quotes",code="200"} 0+600000x200
			edge_http_requests_total{job="edge",instance="e1",route="quotes",code="503"} 0+60x200`, at: 100 * minute},
		{name: "one error in a quiet hour", series: `
			edge_http_requests_total{job="edge",instance="e1",route="quotes",code="200"} 0+1x200
			edge_http_requests_total{job="edge",instance="e1",route="quotes",code="500"} 0x95 1x100`, at: 101 * minute},
		{name: "clients' errors are theirs", series: `
			edge_http_requests_total{job="edge",instance="e1",route="quotes",code="401"} 0+6000x200`, at: 100 * minute},
		{name: "slow", series: `
			edge_http_request_duration_seconds_bucket{job="edge",instance="e1",route="quotes",le="0.05"} 0+90x200
			edge_http_request_duration_seconds_bucket{job="edge",instance="e1",route="quotes",le="0.1"} 0+100x200
			edge_http_request_duration_seconds_bucket{job="edge",instance="e1",route="quotes",le="+Inf"} 0+100x200`, at: 100 * minute, want: []string{"EdgeSlow e1"}},
		{name: "slow to be read", series: `
			edge_http_request_duration_seconds_bucket{job="edge",instance="e1",route="unread",le="0.05"} 0x200
			edge_http_request_duration_seconds_bucket{job="edge",instance="e1",route="unread",le="+Inf"} 0+100x200`, at: 100 * minute},

		{name: "nobody is let in", series: `
			edge_keys_in_force{job="edge",instance="e1"} 0x200
			edge_keys_in_force{job="edge",instance="e2"} -1x200
			edge_keys_in_force{job="edge",instance="e3"} 1x200`, at: 100 * minute, want: []string{"EdgeNoKeys e1", "EdgeNoKeys e2"}},
		{name: "limits are not shared", series: `
			edge_limits_state{job="edge",instance="e1",state="VALID"} 1x100 0x100
			edge_limits_state{job="edge",instance="e1",state="INTERRUPTED"} 0x100 1x100`, at: 106 * minute, want: []string{"EdgeLimitsAlone e1"}},
		{name: "limits are not shared for a moment", series: `
			edge_limits_state{job="edge",instance="e1",state="VALID"} 1x100 0x100`, at: 104 * minute},
		{name: "incomplete", series: `
			edge_snapshot_missing_objects{job="edge",instance="e1"} 0x100 3x100`, at: 120 * minute, want: []string{"EdgeIncomplete e1"}},
		{name: "the disk is full", series: `
			edge_disk_errors_total{job="edge",instance="e1"} 0x100 0+1x100`, at: 110 * minute, want: []string{"EdgeDiskCopyFails e1"}},
		{name: "damaged", series: `
			edge_corrupt_total{job="edge",instance="e1"} 0x100 1x100`, at: 110 * minute, want: []string{"EdgeCorrupt e1"}},
		{name: "too many connections", series: `
			edge_connections_refused_total{job="edge",instance="e1"} 0+600x200`, at: 110 * minute, want: []string{"EdgeConnectionsRefused e1"}},
		{name: "files run short", series: `
			process_open_fds{job="edge",instance="e1"} 900x200
			process_max_fds{job="edge",instance="e1"} 1024x200`, at: 110 * minute, want: []string{"EdgeFilesShort e1"}},

		// The time of the samples counts from 1970: a success at minute n is at
		// 60 n seconds.
		{name: "builds fail", series: `
			builder_last_success_timestamp_seconds{job="builder",instance="b"} 6000x300`, at: 126 * minute, want: []string{"BuilderNotSucceeding b"}},
		{name: "a build fails", series: `
			builder_last_success_timestamp_seconds{job="builder",instance="b"} 6000x300`, at: 121 * minute},
		{name: "the builder is away", series: `
			up{job="builder",instance="b"} 1x100 0x200`, at: 112 * minute, want: []string{"BuilderDown"}},
		{name: "the feed stands still", series: `
			builder_snapshot_timestamp_seconds{job="builder",instance="b"} 600x300`, at: 52 * minute, want: []string{"BuilderFeedOld b"}},
		{name: "the feed stands still because builds fail", series: `
			builder_last_success_timestamp_seconds{job="builder",instance="b"} 600x300
			builder_snapshot_timestamp_seconds{job="builder",instance="b"} 600x300`, at: 52 * minute, want: []string{"BuilderNotSucceeding b"}},
		{name: "a guard rail", series: `
			builder_builds_total{job="builder",instance="b",outcome="guarded"} 0x100 1x100`, at: 105 * minute, want: []string{"BuilderGuarded b"}},
		{name: "two builders", series: `
			builder_builds_total{job="builder",instance="b",outcome="superseded"} 0x100 0+0.1x100`, at: 140 * minute, want: []string{"BuilderSuperseded b"}},
		{name: "bad rows", series: `
			builder_rejected_rows{job="builder",instance="b",file="assets.ndjson"} 30x200
			builder_rejected_rows{job="builder",instance="b",file="quotes.ndjson"} 0x200
			builder_rows{job="builder",instance="b",collection="assets"} 1000x200`, at: 100 * minute, want: []string{"BuilderRowsRejected b"}},
		{name: "slow builds", series: `
			builder_build_duration_seconds_sum{job="builder",instance="b"} 0+40x200
			builder_build_duration_seconds_count{job="builder",instance="b"} 0+0.1x200`, at: 180 * minute, want: []string{"BuilderSlow b"}},
		{name: "other jobs fail", series: `
			builder_job_last_success_timestamp_seconds{job="builder",instance="b",name="change"} 0+60x200
			builder_job_last_success_timestamp_seconds{job="builder",instance="b",name="gc"} 600x300`, at: 200 * minute, want: []string{"BuilderJobFailing b"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := firing(t, "load 1m\n"+withHealthy(c.series, c.at), c.at)
			if !slices.Equal(got, c.want) {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}

// healthy are the series of one edge and a builder that fare well.
const healthy = `
	up{job="edge",instance="e1"} 1x1500
	up{job="builder",instance="b"} 1x1500
	process_start_time_seconds{job="edge",instance="e1"} 0x1500
	process_open_fds{job="edge",instance="e1"} 100x1500
	process_max_fds{job="edge",instance="e1"} 1000x1500
	edge_snapshot_sequence{job="edge",instance="e1"} 1+0.1x1500
	edge_snapshot_age_seconds{job="edge",instance="e1"} 300x1500
	edge_snapshot_state{job="edge",instance="e1",state="INTERRUPTED"} 0x1500
	edge_snapshot_state{job="edge",instance="e1",state="VALID"} 1x1500
	edge_snapshot_missing_objects{job="edge",instance="e1"} 0x1500
	edge_snapshot_refused_total{job="edge",instance="e1"} 0x1500
	edge_snapshot_swap_lag_seconds_bucket{job="edge",instance="e1",le="10"} 0+0.1x1500
	edge_snapshot_swap_lag_seconds_count{job="edge",instance="e1"} 0+0.1x1500
	edge_http_requests_total{job="edge",instance="e1",route="quotes",code="200"} 0+6000x1500
	edge_http_requests_total{job="edge",instance="e1",route="quotes",code="503"} 0x1500
	edge_http_request_duration_seconds_bucket{job="edge",instance="e1",route="quotes",le="0.00005"} 0+6000x1500
	edge_http_request_duration_seconds_bucket{job="edge",instance="e1",route="quotes",le="+Inf"} 0+6000x1500
	edge_keys_state{job="edge",instance="e1",state="VALID"} 1x1500
	edge_keys_in_force{job="edge",instance="e1"} 3x1500
	edge_disk_errors_total{job="edge",instance="e1"} 0x1500
	edge_corrupt_total{job="edge",instance="e1"} 0x1500
	edge_connections_refused_total{job="edge",instance="e1"} 0x1500
	builder_last_success_timestamp_seconds{job="builder",instance="b"} 0+60x1500
	builder_snapshot_timestamp_seconds{job="builder",instance="b"} 0+60x1500
	builder_builds_total{job="builder",instance="b",outcome="guarded"} 0x1500
	builder_builds_total{job="builder",instance="b",outcome="superseded"} 0x1500
	builder_rejected_rows{job="builder",instance="b",file="assets.ndjson"} 1x1500
	builder_rows{job="builder",instance="b",collection="assets"} 1000x1500
	builder_build_duration_seconds_sum{job="builder",instance="b"} 0+2x1500
	builder_build_duration_seconds_count{job="builder",instance="b"} 0+0.1x1500
	builder_job_last_success_timestamp_seconds{job="builder",instance="b",name="change"} 0+60x1500
	builder_job_last_success_timestamp_seconds{job="builder",instance="b",name="gc"} 0+60x1500
`

// withHealthy adds the healthy series of every metric and job that series does
// not speak of, until a little after a time: the storage takes no recorded sample
// that is half a day older than its newest.
func withHealthy(series string, until time.Duration) string {
	head := func(line string) string {
		name, _, _ := strings.Cut(line, "{")
		_, job, _ := strings.Cut(line, `job="`)
		job, _, _ = strings.Cut(job, `"`)
		return name + " " + job
	}
	given := map[string]bool{}
	for line := range strings.Lines(series) {
		given[head(strings.TrimSpace(line))] = true
	}
	var b strings.Builder
	healthy := strings.ReplaceAll(healthy, "x1500", fmt.Sprintf("x%d", int(until/time.Minute)+60))
	for line := range strings.Lines(series + healthy) {
		line = strings.TrimSpace(line)
		if line == "" || strings.Contains(series, `job="other"`) && strings.HasPrefix(line, "up{") && !strings.Contains(line, `job="other"`) {
			continue
		}
		if given[head(line)] && !strings.Contains(series, line) {
			continue
		}
		fmt.Fprintf(&b, "\t%s\n", line)
	}
	return b.String()
}

// firing evaluates the rules once a minute up to a time, and returns the alerts
// that fire then.
func firing(t *testing.T, load string, at time.Duration) []string {
	t.Helper()
	storage := promqltest.LoadedStorage(t, load)
	engine := promqltest.NewTestEngineWithOpts(t, promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute, NoStepSubqueryIntervalFn: func(int64) int64 { return 60_000 }})
	manager := rules.NewManager(&rules.ManagerOptions{
		QueryFunc: rules.EngineQueryFunc(engine, storage), Queryable: storage, Appendable: storage, Context: t.Context(),
		ExternalURL: &url.URL{}, Logger: promslog.NewNopLogger(),
		NotifyFunc: func(context.Context, string, ...*rules.Alert) {},
	})
	groups, errs := manager.LoadGroups(time.Minute, labels.EmptyLabels(), "", nil, false, rulesFile)
	if errs != nil {
		t.Fatal(errs)
	}
	var order []*rules.Group
	for _, g := range groups {
		order = append(order, g)
	}
	// The alerts read what the first group records.
	slices.SortStableFunc(order, func(a, b *rules.Group) int {
		recording := func(g *rules.Group) int {
			if g.HasAlertingRules() {
				return 1
			}
			return 0
		}
		return recording(a) - recording(b)
	})
	// What happened long before the end matters to nothing but the day's ratio,
	// which the samples themselves hold.
	for minute := max(0, at-40*time.Minute); minute <= at; minute += time.Minute {
		for _, g := range order {
			g.Eval(t.Context(), time.Unix(0, 0).Add(minute))
		}
	}
	var fired []string
	for _, g := range order {
		for _, r := range g.AlertingRules() {
			if r.LastError() != nil {
				t.Errorf("%s: %v", r.Name(), r.LastError())
			}
			for _, a := range r.ActiveAlerts() {
				if a.State == rules.StateFiring {
					fired = append(fired, strings.TrimSpace(r.Name()+" "+a.Labels.Get("instance")))
				}
			}
		}
	}
	slices.Sort(fired)
	return fired
}
