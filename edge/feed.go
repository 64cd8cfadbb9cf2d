package edge

import (
	"sync"
	"time"

	"example.com/marketdata/edge/query"
	"example.com/marketdata/edge/rows"
	"example.com/marketdata/edge/server"
	"example.com/marketdata/edge/snapshot"
	"example.com/marketdata/edge/web"
)

// feedOf caches the Atom feed of one snapshot's changes.
type feedOf struct {
	mu       sync.Mutex
	snapshot *snapshot.Snapshot
	file     *server.StaticFile
}

// feed returns the Atom feed of the newest changes of the current snapshot, or nil if the feed cannot be
// generated. It generates the feed once per snapshot.
func (e *Edge) feed() *server.StaticFile {
	state := e.refresher.State()
	if state == nil || state.Snapshot == nil {
		return nil
	}
	f, s := &e.atom, state.Snapshot
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.snapshot == s {
		return f.file
	}
	var q query.Query
	if q.Parse(query.Changes, []byte("size=100")) != nil {
		return nil
	}
	finder := rows.Finder{Body: []byte("[")}
	if finder.Find(s, &q, time.Second) != nil {
		return nil // a later request tries again
	}
	file, err := web.Feed(append(finder.Body, ']'), s.Time)
	if err != nil {
		return nil
	}
	f.snapshot, f.file = s, &file
	return f.file
}
