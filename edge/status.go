package edge

import (
	"time"

	"example.com/marketdata/edge/admin"
	"example.com/marketdata/edge/limit"
	"example.com/marketdata/edge/snapshot"
	"example.com/marketdata/edge/upstream"
)

// Caches is what /status says of memory and disk. Counts are since the start.
type Caches struct {
	// MissingObjects are the objects of the current snapshot that are not on
	// this machine yet: without them, answers depend on the store.
	MissingObjects int64 `json:"missing_objects"`
	DiskBytes      int64 `json:"disk_bytes"`
	DiskErrors     int64 `json:"disk_errors"`
	Fetches        int64 `json:"fetches"`
	FetchErrors    int64 `json:"fetch_errors"`
	FetchBytes     int64 `json:"fetch_bytes"`
	Corrupt        int64 `json:"corrupt"`
	ShardMisses    int64 `json:"shard_cache_misses"`
	// The response cache.
	Hits     int64 `json:"response_cache_hits"`
	Composed int64 `json:"response_cache_misses"`
	Admitted int64 `json:"response_cache_admitted"`
	Evicted  int64 `json:"response_cache_evicted"`
	Entries  int64 `json:"response_cache_entries"`
	Bytes    int64 `json:"response_cache_bytes"`
}

// More is what else /status says.
type More struct {
	Store        string    `json:"store,omitempty"`
	Started      time.Time `json:"started"`
	Swapped      time.Time `json:"swapped,omitzero"`
	Swaps        int64     `json:"swaps"`
	Refused      int64     `json:"refused"`
	SwapLag      float64   `json:"swap_lag_seconds"`
	Connections  int       `json:"connections"`
	ConnsRefused int64     `json:"connections_refused"`
	// Folder is what in the cache folder cannot be used; empty when all can.
	Folder []string `json:"folder"`
	// Limits is null unless limits are shared with other edges.
	Limits *limit.SharedStatus `json:"limits"`
}

func (e *Edge) newAdmin() (*admin.Server, error) {
	return admin.New(admin.Config{NotReady: e.notReady, Status: e.status, Metrics: e.metrics, Pprof: e.cfg.Pprof, Hosts: e.cfg.AdminHosts, Logger: e.cfg.Log})
}

// current returns the snapshot that is served, nil when there is none.
func (e *Edge) current() *snapshot.Snapshot {
	if s := e.refresher.State(); s != nil {
		return s.Snapshot
	}
	return nil
}

// notReady says why the edge cannot answer, in a line.
func (e *Edge) notReady() string {
	if e.current() != nil {
		return ""
	}
	if e.refresher.State() != nil {
		return "the store has no snapshot yet"
	}
	if err := e.refresher.Status().LastError; err != "" {
		return "no snapshot: " + err
	}
	return "no snapshot yet"
}

func (e *Edge) status() admin.Status {
	st := e.refresher.Status()
	out := admin.Status{
		Status: admin.Healthy, State: string(st.State), Since: st.Since, LastError: st.LastError, LastErrorAt: st.LastErrorAt,
	}
	c, a := &e.cache.Counters, e.engine.Totals()
	caches := Caches{
		MissingObjects: st.Missing, DiskBytes: c.DiskBytes.Load(), DiskErrors: c.DiskErrors.Load(),
		Fetches: c.Fetches.Load(), FetchErrors: c.FetchErrors.Load(), FetchBytes: c.FetchBytes.Load(), Corrupt: c.Corrupt.Load(),
		ShardMisses: c.MemoryMisses.Load(), Hits: a.Hits, Composed: a.Composed,
		Admitted: e.refresher.Responses.Admitted.Load(), Evicted: e.refresher.Responses.Evicted.Load(),
	}
	conns := e.public.Stats()
	more := More{
		Started: e.began.UTC(), Swapped: st.Swapped.UTC(), Swaps: e.refresher.Counters.Swaps.Load(), Refused: e.refresher.Counters.Refused.Load(),
		SwapLag: time.Duration(e.refresher.Counters.SwapLag.Load()).Seconds(), Connections: conns.Open, ConnsRefused: conns.Refused,
		Folder: e.floor.Problems(),
	}
	healthy := st.State == upstream.Valid && st.Missing == 0 && len(more.Folder) == 0
	if s := e.current(); s != nil {
		out.Sequence, out.SnapshotTime = s.Sequence, s.Time
		out.AgeSeconds = int64(time.Since(s.Time) / time.Second)
		more.Store = s.Store
		caches.Entries, caches.Bytes = s.Responses().Len(), s.Responses().Bytes()
		healthy = healthy && time.Since(s.Time) <= snapshot.StaleAfter
	} else {
		healthy = false
	}
	if e.watcher != nil {
		keys := e.watcher.Status()
		out.Keys = keys
		healthy = healthy && keys.State == upstream.Valid
	}
	if e.limits != nil {
		limits := e.limits.Status()
		more.Limits = &limits
		healthy = healthy && limits.State == upstream.Valid
	}
	if !healthy {
		out.Status = admin.Degraded
	}
	out.Caches, out.More = caches, more
	return out
}
