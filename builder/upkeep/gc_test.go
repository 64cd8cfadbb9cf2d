package upkeep

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/retry"
	"example.com/marketdata/builder/change"
	"example.com/marketdata/builder/publish"
	"example.com/marketdata/internal/test/buildtest"
	"example.com/marketdata/internal/test/faultstore"
	"example.com/marketdata/internal/test/must"
)

func collect(t *testing.T, s artifacts.Store, change ...func(*GCConfig)) *GCReport {
	t.Helper()
	cfg := GCConfig{Store: s, Grace: DefaultGrace, Log: discard}
	for _, f := range change {
		f(&cfg)
	}
	return must.Get(Collect(t.Context(), cfg))(t)
}

// TestCollect checks that gc leaves exactly the objects that Check reaches. Check shares no code
// with gc.
func TestCollect(t *testing.T) {
	s, c := storeWithClock()
	w := world{Assets: 200, At: epoch}
	for range 12 {
		mustBuild(t, s, w)
		w = w.Later(artifacts.Step)
		c.Pass(artifacts.Step)
	}
	must.Get(change.Record(t.Context(), s, c.Now))(t)
	// Add an object of a build that died, an object that a self-test left behind, and a file that
	// does not belong to the store.
	ok(t, s.Put(t.Context(), artifacts.ObjectKey(artifacts.Sum([]byte("dead"))), []byte("dead")))
	for _, key := range []artifacts.Key{artifacts.ProbeKey("left"), artifacts.MustKey("objects/notes.txt")} {
		ok(t, s.Put(t.Context(), key, []byte("x")))
	}
	before := contents(t, s)
	c.Pass(DefaultGrace)
	want := reached(t, s)

	if r := collect(t, s, func(c *GCConfig) { c.Grace += 3 * time.Hour }); r.Deleted != 0 || !r.Snapshot {
		t.Errorf("with a grace longer than everything is old: %+v", r)
	}
	// One second later, all objects are older than the grace period, and no manifest is young.
	c.Pass(time.Second)
	dry := collect(t, s, func(cfg *GCConfig) { cfg.DryRun, cfg.Now = true, c.Now })
	if dry.Deleted == 0 || len(contents(t, s)) != len(before) {
		t.Errorf("dry run: %+v, %d objects left of %d", dry, len(contents(t, s)), len(before))
	}
	r := collect(t, s)
	after := contents(t, s)
	want[artifacts.MustKey("objects/notes.txt")] = true
	if got, want := buildtest.Keys(after), buildtest.Keys(want); !slices.Equal(got, want) {
		t.Errorf("%d objects are left, want %d", len(got), len(want))
	}
	if r.Deleted != len(before)-len(after) || r.Deleted != dry.Deleted || r.DeletedBytes != dry.DeletedBytes {
		t.Errorf("%+v, dry run %+v; %d of %d objects are left", r, dry, len(after), len(before))
	}
	verify(t, s)
	if again := collect(t, s); again.Deleted != 0 {
		t.Errorf("a second time: %+v", again)
	}
	mustBuild(t, s, w)
	verify(t, s)
}

// TestCollectSlowReaders checks that a snapshot stays complete for another grace period after it
// has left the retained list.
func TestCollectSlowReaders(t *testing.T) {
	s, c := storeWithClock()
	w := world{Assets: 100, At: epoch}
	mustBuild(t, s, w)
	slow := reached(t, s)
	for range 8 { // up to 13:20, which no longer retains 12:00
		c.Pass(artifacts.Step)
		w = w.Later(artifacts.Step)
		mustBuild(t, s, w)
	}
	whole := func() bool {
		left := contents(t, s)
		for key := range slow {
			if _, ok := left[key]; !ok {
				return false
			}
		}
		return true
	}
	// The last manifest that lists 12:00 is the one of 13:00.
	c.Pass(40 * time.Minute)
	collect(t, s)
	if !whole() {
		t.Error("gc took the snapshot of a reader that is an hour behind")
	}
	c.Pass(time.Second)
	if r := collect(t, s); r.Deleted == 0 || whole() {
		t.Errorf("gc keeps for ever what no snapshot needs: %+v", r)
	}
	verify(t, s)
}

func TestCollectWithoutSnapshot(t *testing.T) {
	s, c := storeWithClock()
	if r := collect(t, s); r.Snapshot || r.Deleted != 0 {
		t.Errorf("empty store: %+v", r)
	}
	mustBuild(t, s, world{Assets: 10, At: epoch})
	ok(t, s.Delete(t.Context(), artifacts.CurrentKey))
	c.Pass(48 * time.Hour)
	before := len(contents(t, s))
	r, err := Collect(t.Context(), GCConfig{Store: s, Grace: DefaultGrace, Log: discard})
	if after := len(contents(t, s)); !errors.Is(err, publish.ErrLost) || after != before {
		t.Errorf("a store that has lost its pointer: %+v, %v, %d objects left of %d", r, err, after, before)
	}
}

// TestCollectUnreadable checks that gc deletes nothing while it cannot determine which objects are
// needed.
func TestCollectUnreadable(t *testing.T) {
	s, c := storeWithClock()
	w := world{Assets: 50, At: epoch}
	mustBuild(t, s, w)
	mustBuild(t, s, w.Later(artifacts.Step))
	lost := artifacts.ManifestKey(head(t, s).Manifest.Retained[0].Manifest.Digest)
	ok(t, s.Delete(t.Context(), lost))
	c.Pass(48 * time.Hour)
	before := len(contents(t, s))
	if r, err := Collect(t.Context(), GCConfig{Store: s, Grace: DefaultGrace, Log: discard}); err == nil {
		t.Errorf("gc of a broken store: %+v", r)
	}
	if after := len(contents(t, s)); after != before {
		t.Errorf("%d objects left of %d", after, before)
	}
}

// garbage leaves behind what a build of w puts before it publishes. By the store's clock, this was
// two hours ago.
func garbage(t *testing.T, s artifacts.Store, c *buildtest.Clock, w world) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	dying := tap(s, func(op string, key artifacts.Key) {
		if op == "swap" && key == artifacts.CurrentKey {
			cancel()
		}
	})
	if r, err := tryBuild(ctx, dying, w); err == nil {
		t.Fatalf("the build did not die: %+v", r)
	}
	c.Pass(2 * time.Hour)
}

// TestCollectBesideBuild runs gc before each store call of a build that needs the very objects that
// are garbage in the store.
func TestCollectBesideBuild(t *testing.T) {
	calls := 0
	for at := 0; at <= calls; at++ {
		s, c := storeWithClock()
		w := world{Assets: 40, At: epoch}
		mustBuild(t, s, w)
		garbage(t, s, c, w.Later(artifacts.Step))
		n := 0
		var mu sync.Mutex
		_, err := tryBuild(t.Context(), tap(s, func(op string, key artifacts.Key) {
			mu.Lock()
			defer mu.Unlock()
			if n++; n == at {
				collect(t, s)
			}
			c.Pass(time.Second)
		}), w.Later(artifacts.Step))
		if err != nil {
			t.Fatalf("gc before call %d: %v", at, err)
		}
		calls = max(calls, n)
		verify(t, s)
	}
	if calls < 20 {
		t.Errorf("only %d calls", calls)
	}
}

// TestBuildsBesideCollect publishes snapshots before each store call of gc.
func TestBuildsBesideCollect(t *testing.T) {
	calls := 0
	for at := 0; at <= calls; at++ {
		s, c := storeWithClock()
		w := world{Assets: 20, At: epoch}
		mustBuild(t, s, w)
		garbage(t, s, c, w.Later(artifacts.Step))
		w = w.Later(time.Hour)
		n := 0
		lists := 0
		var mu sync.Mutex
		report, err := Collect(t.Context(),
			GCConfig{Grace: DefaultGrace, Log: discard, Store: tap(s, func(op string, key artifacts.Key) {
				mu.Lock()
				defer mu.Unlock()
				if op == "list" {
					lists++
				}
				if lists > 8 && (op == "list" || op == "getif") {
					return // the 256 folders of objects are alike
				}
				if n++; n == at {
					for range 3 {
						mustBuild(t, s, w)
						w = w.Later(2 * time.Hour)
					}
				}
			})})
		if err != nil {
			t.Fatalf("builds before call %d: %v", at, err)
		}
		if report.Deleted == 0 {
			t.Fatalf("nothing was deleted: %+v", report)
		}
		calls = max(calls, n)
		verify(t, s)
	}
	if calls < 30 {
		t.Errorf("only %d calls", calls)
	}
}

// TestCollectFailedDelete makes a deletion fail while a build puts the same object again. gc must
// not delete this object in a later try, but must delete the other garbage.
func TestCollectFailedDelete(t *testing.T) {
	s, c := storeWithClock()
	w := world{Assets: 40, At: epoch}
	mustBuild(t, s, w)
	garbage(t, s, c, w.Later(artifacts.Step))
	var mu sync.Mutex
	var again artifacts.Key
	faults := faultstore.New(s, func(op faultstore.Op) faultstore.Decision {
		mu.Lock()
		defer mu.Unlock()
		if op.Kind != faultstore.Delete || again != (artifacts.Key{}) || op.Key.Kind() != artifacts.ObjectKind {
			return faultstore.Pass
		}
		again = op.Key
		if err := s.Put(t.Context(), again, stored(t, s, again)); err != nil {
			t.Error(err)
		}
		return faultstore.Refuse
	})
	report := collect(t, retry.New(faults, retry.Options{Wait: time.Nanosecond, MaxWait: time.Nanosecond}))
	if _, ok := contents(t, s)[again]; !ok || report.Deleted == 0 {
		t.Errorf("%s, which was put again, is gone; report %+v", again, report)
	}
	if left := collect(t, s); left.Deleted != 0 {
		t.Errorf("left behind: %+v", left)
	}
}
