package metrics

import (
	"time"

	"example.com/marketdata/edge/floor"
	"example.com/marketdata/edge/reply"
	"example.com/marketdata/edge/upstream"
	"github.com/prometheus/client_golang/prometheus"
)

// partsCollector reads the metrics of the edge's parts when Prometheus scrapes.
type partsCollector struct{ src Sources }

// parts contains the state of the sources during one scrape.
type parts struct {
	*Sources
	totals reply.Totals
}

// count is a counter that some part of the edge maintains.
type count struct {
	desc *prometheus.Desc
	of   func(*parts) int64
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

var counts = []count{
	{desc("edge_polls_total", "Polls of the store for a newer pointer."),
		func(p *parts) int64 { return p.Refresher.Counters.Polls.Load() }},
	{desc("edge_polls_not_modified_total", "Polls that found the pointer unchanged."),
		func(p *parts) int64 { return p.Refresher.Counters.NotModified.Load() }},
	{desc("edge_poll_errors_total", "Polls that failed, or whose result was refused."),
		func(p *parts) int64 { return p.Refresher.Counters.PollErrors.Load() }},
	{desc("edge_snapshot_swaps_total", "Swaps to another snapshot."),
		func(p *parts) int64 { return p.Refresher.Counters.Swaps.Load() }},
	{desc("edge_snapshot_refused_total",
		"Pointers refused: moved back, of another store, not parsable, or with a damaged or unavailable snapshot."),
		func(p *parts) int64 { return p.Refresher.Counters.Refused.Load() }},

	{desc("edge_store_fetches_total", "Objects requested from the store."),
		func(p *parts) int64 { return p.Cache.Counters.Fetches.Load() }},
	{desc("edge_store_fetch_errors_total", "Fetches that failed."),
		func(p *parts) int64 { return p.Cache.Counters.FetchErrors.Load() }},
	{desc("edge_store_fetch_bytes_total", "Bytes of objects fetched from the store."),
		func(p *parts) int64 { return p.Cache.Counters.FetchBytes.Load() }},
	{desc("edge_corrupt_total", "Objects and shards that failed verification, from the store or from disk."),
		func(p *parts) int64 { return p.Cache.Counters.Corrupt.Load() }},
	{desc("edge_file_chunk_errors_total", "Chunks of files that could not be fetched, or failed verification."),
		func(p *parts) int64 { return p.Cache.Counters.ChunkErrors.Load() }},
	{desc("edge_disk_reads_total", "Shards read from the disk copy."),
		func(p *parts) int64 { return p.Cache.Counters.DiskReads.Load() }},
	{desc("edge_disk_errors_total", "Objects that could not be written to the disk copy."),
		func(p *parts) int64 { return p.Cache.Counters.DiskErrors.Load() }},

	{desc("edge_shard_reads_total", "Shards read to compose answers, cached or not."),
		func(p *parts) int64 { return p.totals.Shards }},
	{desc("edge_shard_cache_misses_total", "Lookups of shards that the shard cache did not have."),
		func(p *parts) int64 { return p.Cache.Counters.MemoryMisses.Load() }},
	{desc("edge_shard_loads_total", "Shards that were decompressed and parsed."),
		func(p *parts) int64 { return p.Cache.Counters.Loads.Load() }},
	{desc("edge_rows_visited_total", "Rows visited to compose answers."),
		func(p *parts) int64 { return p.totals.Rows }},
	{desc("edge_response_cache_hits_total", "Answers found in the response cache."),
		func(p *parts) int64 { return p.totals.Hits }},
	{desc("edge_response_cache_misses_total",
		"Answers that were composed because the response cache did not have them."),
		func(p *parts) int64 { return p.totals.Composed }},
	{desc("edge_response_cache_admitted_total",
		"Answers added to the response cache, including those made before a swap."),
		func(p *parts) int64 { return p.Engine.Responses.Admitted.Load() }},
	{desc("edge_response_cache_evicted_total", "Answers evicted from the response cache to make room for others."),
		func(p *parts) int64 { return p.Engine.Responses.Evicted.Load() }},
	{desc("edge_response_cache_warmed_total", "It is 0 since 1.1: answers are not made ahead of a swap."),
		func(*parts) int64 { return 0 }},
}

var (
	sequenceDesc = desc("edge_snapshot_sequence", "Sequence of the current snapshot; 0 before the first.")
	timeDesc     = desc("edge_snapshot_timestamp_seconds", "Time of the current snapshot, in Unix seconds.")
	ageDesc      = desc("edge_snapshot_age_seconds", "Age of the current snapshot.")
	stateDesc    = desc("edge_snapshot_state", "1 for the state that the edge is in, as /status names it.", "state")
	missingDesc  = desc(
		"edge_snapshot_missing_objects", "Objects of the current snapshot that are not on this machine yet.")
	offDiskDesc = desc(
		"edge_disk_missing_objects", "Objects of the current snapshot that the disk copy did not take.")
	historyDesc = desc("edge_history_missing_objects",
		"Objects of the current snapshot's history that are still to be prefetched.")
	lastLagDesc = desc(
		"edge_snapshot_last_swap_lag_seconds", "Time from the pointer's move, by the builder's clock, to the last swap, by the edge's.")
	skewDesc = desc(
		"edge_clock_skew_seconds", "How far this machine's clock is ahead of the store's, by the Date of its answers; absent if the store sends no Date.")
	diskDesc = desc("edge_disk_bytes", "Bytes of the disk copy.")

	entriesDesc = desc(
		"edge_response_cache_entries", "Answers in the current snapshot's response cache.")
	entryBytesDesc = desc(
		"edge_response_cache_bytes", "Bytes used by the current snapshot's response cache.")

	openDesc = desc("edge_connections", "Open connections of the public listener.")
	// Release 1.0 promised these two metrics.
	waitingDesc      = desc("edge_connections_waiting", "Always 0. Before 1.1: open connections that held memory.")
	waitingBytesDesc = desc("edge_connections_waiting_bytes", "Always 0. Before 1.1: the memory that they held.")
	refusedDesc      = desc("edge_connections_refused_total",
		"Connections refused, or closed in favour of addresses that hold less, because there were too many or they held too much memory.")

	streamsDesc = desc("edge_streams", "Open streams of /events.")
	eventsDesc  = desc("edge_stream_events_total", "Events sent on streams.")

	keysDesc      = desc("edge_keys_in_force", "API keys in force; -1 before a set was read.")
	keysStateDesc = desc("edge_keys_state", "1 for the state that the key set is in, as /status names it.", "state")
	confirmedDesc = desc("edge_keys_confirmed_timestamp_seconds",
		"Time at which the store last returned or confirmed the key set, in Unix seconds; 0: never.")

	lostDesc = desc("edge_store_object_lost",
		"1 while a small object that this edge has read before is missing from the store.", "object")

	fallbackDesc = desc("edge_fallback_active",
		"1 while the fallback store gives what the first does not: the pointer, the change record or the key set.")
	fallbackReadsDesc = desc("edge_fallback_reads_total", "Answers taken from the fallback store.")

	limitsStateDesc = desc(
		"edge_limits_state", "1 for the state that shared limits are in, as /status names it; INTERRUPTED: this edge limits by itself.", "state")
	limitsCallsDesc  = desc("edge_limits_calls_total", "Calls to the store of shared limits.")
	limitsFaultsDesc = desc(
		"edge_limits_faults_total", "Calls to the store of shared limits that failed or were too late.")
	limitsLocalDesc = desc(
		"edge_limits_local_total", "Requests with a key whose limit is shared that this edge decided by itself.")
)

// Describe implements prometheus.Collector.
func (c *partsCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, n := range counts {
		ch <- n.desc
	}
	for _, d := range []*prometheus.Desc{
		sequenceDesc, timeDesc, ageDesc, stateDesc, missingDesc, offDiskDesc, historyDesc, lastLagDesc, skewDesc,
		diskDesc, entriesDesc, entryBytesDesc,
		openDesc, waitingDesc, waitingBytesDesc, refusedDesc, streamsDesc, eventsDesc, keysDesc, keysStateDesc,
		confirmedDesc, lostDesc, fallbackDesc, fallbackReadsDesc,
		limitsStateDesc, limitsCallsDesc, limitsFaultsDesc, limitsLocalDesc,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *partsCollector) Collect(ch chan<- prometheus.Metric) {
	p := &parts{&c.src, c.src.Engine.Totals()}
	for _, n := range counts {
		ch <- prometheus.MustNewConstMetric(n.desc, prometheus.CounterValue, float64(n.of(p)))
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	states := func(d *prometheus.Desc, now upstream.State) {
		for _, state := range upstream.States {
			v := 0.0
			if state == now {
				v = 1
			}
			gauge(d, v, string(state))
		}
	}

	status := c.src.Refresher.Status()
	states(stateDesc, status.State)
	gauge(missingDesc, float64(status.Missing))
	gauge(offDiskDesc, float64(status.OffDisk))
	gauge(historyDesc, float64(status.MissingHistory))
	gauge(lastLagDesc, time.Duration(c.src.Refresher.Counters.SwapLag.Load()).Seconds())
	gauge(diskDesc, float64(c.src.Cache.Counters.DiskBytes.Load()))
	if c.src.ClockSkew != nil {
		if skew, known := c.src.ClockSkew(); known {
			gauge(skewDesc, skew.Seconds())
		}
	}
	sequence := uint64(0)
	if state := c.src.Refresher.State(); state != nil && state.Snapshot != nil {
		sequence = state.Snapshot.Sequence
		gauge(timeDesc, unix(state.Snapshot.Time))
		gauge(ageDesc, time.Since(state.Snapshot.Time).Seconds())
	}
	gauge(sequenceDesc, float64(sequence))
	entries, bytes := c.src.Engine.Finished()
	gauge(entriesDesc, float64(entries))
	gauge(entryBytesDesc, float64(bytes))

	conns := c.src.Connections()
	gauge(openDesc, float64(conns.Open))
	gauge(waitingDesc, 0)
	gauge(waitingBytesDesc, 0)
	ch <- prometheus.MustNewConstMetric(refusedDesc, prometheus.CounterValue, float64(conns.Refused))
	gauge(streamsDesc, float64(conns.Streams))
	ch <- prometheus.MustNewConstMetric(eventsDesc, prometheus.CounterValue, float64(conns.Events))

	for _, key := range floor.Moving {
		lost := 0.0
		if c.src.Floor.IsMissing(key) {
			lost = 1
		}
		gauge(lostDesc, lost, key.String())
	}
	if c.src.Watcher != nil {
		keys := c.src.Watcher.Status()
		gauge(keysDesc, float64(keys.InForce))
		states(keysStateDesc, keys.State)
		gauge(confirmedDesc, unix(keys.Confirmed))
	}
	second, active := c.src.Fallback.Status(), 0.0
	if second.Active {
		active = 1
	}
	gauge(fallbackDesc, active)
	ch <- prometheus.MustNewConstMetric(fallbackReadsDesc, prometheus.CounterValue, float64(second.Reads))
	if c.src.Limits != nil {
		limits := c.src.Limits.Status()
		states(limitsStateDesc, limits.State)
		for d, n := range map[*prometheus.Desc]int64{
			limitsCallsDesc: limits.Calls, limitsFaultsDesc: limits.Faults, limitsLocalDesc: limits.Local} {
			ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n))
		}
	}
}

// unix returns t in Unix seconds, or 0 for the zero time.
func unix(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1e3
}
