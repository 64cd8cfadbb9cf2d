// Package edgerig follows the snapshots of a store in the same way as an edge, for tests of the
// edge's packages.
package edgerig

import (
	"context"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge/shards"
	"example.com/marketdata/edge/snapshot"
	"example.com/marketdata/internal/test/must"
)

// Rig is a refresher with its cache.
type Rig struct {
	Refresher *snapshot.Refresher
	Cache     *shards.Cache
	Dir       string // folder of the disk copy
	// Freeze stops refreshing. Shards and answers stay available.
	Freeze func()
}

// New returns a Rig with a shard cache of the given size in bytes. Run starts it.
func New(tb testing.TB, store artifacts.Reader, shardMemory int64) *Rig {
	tb.Helper()
	dir := tb.TempDir()
	cache := must.Get(shards.New(shards.Config{Store: store, Memory: shardMemory, Dir: dir, Wait: time.Minute}))(tb)
	tb.Cleanup(cache.Close)
	return &Rig{Cache: cache, Dir: dir, Refresher: snapshot.NewRefresher(snapshot.Config{
		Store: store, Cache: cache, Poll: 5 * time.Millisecond, Coins: true,
	})}
}

// Run refreshes until Freeze is called or the test ends. warm may be nil.
func (r *Rig) Run(tb testing.TB, warm func(ctx context.Context, old, next *snapshot.Snapshot) func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { r.Refresher.Run(ctx, warm); close(done) }()
	r.Freeze = func() { cancel(); <-done }
	tb.Cleanup(r.Freeze)
}

// Await waits until the snapshot at the given time is current and cached, and returns it.
func (r *Rig) Await(tb testing.TB, at time.Time) *snapshot.Snapshot {
	tb.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		s := r.Refresher.State()
		if s != nil && s.Snapshot != nil && s.Snapshot.Time.Equal(at) && r.Refresher.Status().Missing == 0 {
			return s.Snapshot
		}
		if time.Now().After(end) {
			tb.Fatalf("the snapshot of %v is not current: %+v", at, r.Refresher.Status())
		}
	}
}
