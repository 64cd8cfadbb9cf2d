package edge

import (
	"cmp"
	"fmt"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/fallback"
	"example.com/marketdata/edge/admin"
	"example.com/marketdata/edge/floor"
	"example.com/marketdata/edge/limit"
	"example.com/marketdata/edge/snapshot"
	"example.com/marketdata/edge/upstream"
)

// Caches is the part of /status about memory and disk. Counts start at startup.
type Caches struct {
	// MissingObjects is the number of objects of the current snapshot that are not on this machine yet. Until
	// they have arrived, some answers depend on the store.
	MissingObjects int64 `json:"missing_objects"`
	// MissingHistory is the number of history objects that are still to be prefetched
	// (--history-fetch). Until they have arrived, only /history depends on the store.
	MissingHistory int64 `json:"missing_history_objects"`
	// OffDisk is the number of objects of the current snapshot that the cache folder did not accept. Answers
	// that need them fail if the store is unreachable.
	OffDisk     int64 `json:"disk_missing_objects"`
	DiskBytes   int64 `json:"disk_bytes"`
	DiskErrors  int64 `json:"disk_errors"`
	Fetches     int64 `json:"fetches"`
	FetchErrors int64 `json:"fetch_errors"`
	FetchBytes  int64 `json:"fetch_bytes"`
	Corrupt     int64 `json:"corrupt"`
	ShardMisses int64 `json:"shard_cache_misses"`
	// The response cache.
	Hits     int64 `json:"response_cache_hits"`
	Composed int64 `json:"response_cache_misses"`
	Admitted int64 `json:"response_cache_admitted"`
	Evicted  int64 `json:"response_cache_evicted"`
	Entries  int64 `json:"response_cache_entries"`
	Bytes    int64 `json:"response_cache_bytes"`
}

// More is the rest of /status.
type More struct {
	Store   string    `json:"store,omitempty"`
	Started time.Time `json:"started"`
	Swapped time.Time `json:"swapped,omitzero"`
	Swaps   int64     `json:"swaps"`
	Refused int64     `json:"refused"`
	SwapLag float64   `json:"swap_lag_seconds"`
	// Activation is the difference between the time of the last activation and its scheduled time.
	Activation   float64 `json:"activation_offset_seconds"`
	Connections  int     `json:"connections"`
	ConnsRefused int64   `json:"connections_refused"`
	// Folder describes the unusable files in the cache folder.
	Folder []string `json:"folder"`
	// Signatures reports whether the edge accepts only data that a --trust-key key has signed.
	Signatures bool `json:"signatures_checked"`
	// ClockSkew is how far this machine's clock is ahead of the store's, or null if the store does not state
	// its time.
	ClockSkew *float64 `json:"clock_skew_seconds"`
	// Fallback is null if there is no fallback store.
	Fallback *fallback.Status `json:"fallback"`
	// Limits is null unless limits are shared with other edges.
	Limits *limit.SharedStatus `json:"limits"`
}

// maxSkew is the largest acceptable error of this machine's clock. Snapshots should become current within ten
// seconds of the pointer's move, and at the same time on all edges.
const maxSkew = 10 * time.Second

// clockSkew returns how far this machine's clock is ahead of the store's.
func (e *Edge) clockSkew() (skew time.Duration, known bool) {
	return artifacts.SkewOf(e.cfg.Reader)
}

// dirTooSmall returns a reason why the cache folder may be too small, or "" if it has no bound.
func (e *Edge) dirTooSmall() string {
	if e.cfg.CacheDirSize == 0 {
		return ""
	}
	return fmt.Sprintf("--cache-dir-size is %d bytes, and the snapshot needs more", e.cfg.CacheDirSize)
}

func (e *Edge) newAdmin() (*admin.Server, error) {
	return admin.New(admin.Config{NotReady: e.notReady, Status: e.status, Metrics: e.metrics, Pprof: e.cfg.Pprof,
		Hosts: e.cfg.AdminHosts, Logger: e.cfg.Log})
}

// current returns the current snapshot, or nil if there is none.
func (e *Edge) current() *snapshot.Snapshot {
	if s := e.refresher.State(); s != nil {
		return s.Snapshot
	}
	return nil
}

// notReady returns the reason why this edge cannot answer requests, in one line (edge/README.md,
// "Listeners").
func (e *Edge) notReady() string {
	if why := e.unready(); why != "" || e.listening.Load() {
		return why
	}
	return "not listening yet at " + e.cfg.Listen
}

// unready returns the reason why the edge has no answers, or "". Once it has been ready, only the snapshot's
// age can make it unready.
func (e *Edge) unready() string {
	s := e.current()
	if s != nil && e.cfg.MaxStale > 0 && time.Since(s.Time) > e.cfg.MaxStale {
		return fmt.Sprintf("the snapshot of %s is older than --max-stale %v", s.TimeText, e.cfg.MaxStale)
	}
	if e.ready.Load() {
		return ""
	}
	status := e.refresher.Status()
	switch {
	case s == nil && e.refresher.State() != nil:
		return "the store has no snapshot yet"
	case s == nil:
		return because("no snapshot yet", status.LastError)
	case status.Lacking != "":
		return status.Lacking
	case time.Now().Before(status.NotBefore):
		return fmt.Sprintf("the snapshot of %s is to be current at %s", s.TimeText,
			status.NotBefore.UTC().Format(time.RFC3339))
	}
	if e.watcher != nil {
		if keys := e.watcher.Status(); keys.InForce < 0 {
			return because("no key set was read yet", keys.LastError)
		}
	}
	e.ready.Store(true)
	return ""
}

// because appends a fault, if there is one, to its consequence.
func because(what, fault string) string {
	if fault == "" {
		return what
	}
	return what + ": " + fault
}

func (e *Edge) status() admin.Status {
	st := e.refresher.Status()
	out := admin.Status{
		Status: admin.Healthy, State: string(st.State), Since: st.Since, LastError: st.LastError,
		LastErrorAt: st.LastErrorAt, Reasons: []string{},
	}
	amiss := func(is bool, what, fault string) {
		if is {
			out.Status, out.Reasons = admin.Degraded, append(out.Reasons, because(what, fault))
		}
	}
	c, a := &e.cache.Counters, e.engine.Totals()
	caches := Caches{
		MissingObjects: st.Missing, MissingHistory: st.MissingHistory, OffDisk: st.OffDisk,
		DiskBytes: c.DiskBytes.Load(), DiskErrors: c.DiskErrors.Load(),
		Fetches: c.Fetches.Load(), FetchErrors: c.FetchErrors.Load(), FetchBytes: c.FetchBytes.Load(),
		Corrupt:     c.Corrupt.Load(),
		ShardMisses: c.MemoryMisses.Load(), Hits: a.Hits, Composed: a.Composed,
		Admitted: e.engine.Responses.Admitted.Load(), Evicted: e.engine.Responses.Evicted.Load(),
	}
	conns := e.public.Stats()
	more := More{
		Started: e.began.UTC(), Swapped: st.Swapped.UTC(), Swaps: e.refresher.Counters.Swaps.Load(),
		Refused:    e.refresher.Counters.Refused.Load(),
		SwapLag:    time.Duration(e.refresher.Counters.SwapLag.Load()).Seconds(),
		Activation: time.Duration(e.refresher.Counters.Activation.Load()).Seconds(), Connections: conns.Open,
		ConnsRefused: conns.Refused,
		Folder:       e.floor.Problems(),
		Signatures:   len(e.cfg.Trust) > 0,
	}
	for _, p := range more.Folder {
		amiss(true, "the cache folder contains an unusable file", p)
	}
	for _, key := range floor.Moving {
		amiss(e.floor.IsMissing(key), "the store has lost its object "+key.String(), "")
	}
	fault := e.cache.DiskFault()
	amiss(fault != "", "the cache folder cannot be written", fault)
	lost := e.cache.ChunkFault()
	amiss(lost != "", "a chunk of a file cannot be fetched", lost)
	amiss(fault == "" && st.OffDisk > 0, fmt.Sprintf("%d objects of the snapshot are not in the cache folder",
		st.OffDisk), e.dirTooSmall())
	if skew, known := e.clockSkew(); known {
		seconds := skew.Seconds()
		more.ClockSkew = &seconds
		amiss(skew > maxSkew, fmt.Sprintf("this machine's clock is %v ahead of the store's", skew.Round(time.Second)),
			"")
		amiss(skew < -maxSkew, fmt.Sprintf("this machine's clock is %v behind the store's", -skew.Round(time.Second)),
			"")
	}
	amiss(st.State != upstream.Valid, "the store's snapshot is not known to be the newest", st.LastError)
	if s := e.current(); s != nil {
		age := time.Since(s.Time)
		out.Sequence, out.SnapshotTime = s.Sequence, s.Time
		out.AgeSeconds = int64(age / time.Second)
		more.Store = s.Store
		caches.Entries, caches.Bytes = e.engine.Finished()
		amiss(st.Missing > 0, cmp.Or(st.Lacking, fmt.Sprintf("%d objects of the snapshot are still being fetched",
			st.Missing)), "")
		amiss(st.HistoryFault != "", fmt.Sprintf("%d objects of history are not on this machine", st.MissingHistory),
			st.HistoryFault)
		amiss(age < -maxSkew, fmt.Sprintf("the time of the snapshot is %v ahead of this machine's clock",
			-age.Round(time.Second)), "")
		amiss(age > snapshot.StaleAfter, fmt.Sprintf("the snapshot is %v old", age.Truncate(time.Second)), "")
	} else {
		amiss(true, "there is no snapshot", "")
	}
	if e.watcher != nil {
		keys := e.watcher.Status()
		out.Keys = keys
		amiss(keys.State != upstream.Valid, "the store does not confirm the key set", keys.LastError)
	}
	if e.fallback != nil {
		second := e.fallback.Status()
		more.Fallback = &second
		amiss(second.Active, "the fallback store answers in place of the first", second.Reason)
	}
	if e.limits != nil {
		limits := e.limits.Status()
		more.Limits = &limits
		amiss(limits.State != upstream.Valid, "limits are not shared", limits.LastError)
	}
	out.Caches, out.More = caches, more
	return out
}
