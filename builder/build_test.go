package builder

import (
	"errors"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/dirstore"
	"example.com/marketdata/builder/change"
	"example.com/marketdata/builder/ledger"
	"example.com/marketdata/builder/publish"
	"example.com/marketdata/internal/model"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
)

func TestBuild(t *testing.T) {
	s := memstore.New()
	w := world{Assets: 300, At: epoch.Add(7*time.Minute + time.Second)}
	r := mustBuild(t, s, w)
	if r.SnapshotTime != "2026-08-01T12:00:00Z" || r.Sequence != 1 || r.Database != "test" {
		t.Errorf("snapshot %s, sequence %d, database %q", r.SnapshotTime, r.Sequence, r.Database)
	}
	if r.Counts["assets"] != 300 || r.Counts["exchanges"] != 16 || r.UnknownMembers != 16 ||
		r.Rejected["assets.ndjson"] != 0 {
		t.Errorf("counts %v, rejected %v, unknown members %d", r.Counts, r.Rejected, r.UnknownMembers)
	}
	first := verify(t, s)
	// This build has put everything except the pointer.
	if first.Objects != r.ObjectsWritten || first.Bytes != r.BytesWritten || first.Snapshots != 1 {
		t.Errorf("the store holds %d objects of %d bytes, reported are %d of %d", first.Objects, first.Bytes,
			r.ObjectsWritten, r.BytesWritten)
	}
	id := head(t, s).Pointer.Store

	// Turn files off, since the build would put unchanged files again.
	next := mustBuild(t, s, w.Later(artifacts.Step), func(c *Config) { c.Files.Cadence = "" })
	if next.Sequence != 2 || head(t, s).Pointer.Store != id {
		t.Errorf("sequence %d in store %s, was %s", next.Sequence, head(t, s).Pointer.Store, id)
	}
	both := verify(t, s)
	if both.Snapshots != 2 || both.Objects != r.ObjectsWritten+next.ObjectsWritten ||
		both.Bytes != r.BytesWritten+next.BytesWritten {
		t.Errorf("after the second: %+v; written %d and %d objects", both, r.ObjectsWritten, next.ObjectsWritten)
	}
	// The exchanges are unchanged, so their views are not put again.
	if next.ObjectsWritten > r.ObjectsWritten-len(model.SortKeys("exchanges")) {
		t.Errorf("second snapshot wrote %d objects, the first %d; want those that changed only", next.ObjectsWritten,
			r.ObjectsWritten)
	}
}

// TestSameTime covers every case in which T is not later than the published snapshot.
func TestSameTime(t *testing.T) {
	w := world{Assets: 100, At: epoch}
	floor := func(c *Config) { c.Settings.TrendingMinVolume.Lo++ }
	for _, c := range []struct {
		name   string
		next   world
		change func(*Config)
		want   error
	}{
		{name: "the same again", next: w},
		{name: "the same rows at a later minute", next: world{Assets: 100, At: epoch}.Later(0)},
		{name: "other retention only", next: w, change: func(c *Config) { c.Retain = 0 }},
		{name: "other rows", next: world{Assets: 101, At: epoch}, want: ErrOther},
		{name: "other rows, forced", next: world{Assets: 101, At: epoch},
			change: func(c *Config) { c.Guards.Force = true },
			want:   ErrOther},
		{name: "other settings", next: w, change: floor, want: ErrOther},
		{name: "older", next: w.Later(-artifacts.Step), want: ErrOlder},
		{name: "older, forced", next: w.Later(-time.Second), change: func(c *Config) { c.Guards.Force = true },
			want: ErrOlder},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := memstore.New()
			mustBuild(t, s, w)
			before := head(t, s).Pointer
			change := c.change
			if change == nil {
				change = func(*Config) {}
			}
			r, err := tryBuild(t.Context(), s, c.next, change)
			if !errors.Is(err, c.want) {
				t.Fatalf("error %v, want %v", err, c.want)
			}
			if next := publish.Stamp(epoch.Add(artifacts.Step)); errors.Is(err, ErrOther) &&
				!strings.Contains(err.Error(), next) {
				t.Errorf("error %v, want the next time, %s", err, next)
			}
			if r.Published || r.ObjectsWritten != 0 || (err == nil) != (r.Reason != "" && r.Sequence == 1) {
				t.Errorf("report %+v", r)
			}
			if after := head(t, s).Pointer; !reflect.DeepEqual(after, before) {
				t.Errorf("the pointer moved: %+v, was %+v", after, before)
			}
		})
	}
}

// TestTime checks that a build uses the given time, whatever the feed's time is. A time in the
// future requires --allow.
func TestTime(t *testing.T) {
	s := memstore.New()
	cfg := config(s, world{Assets: 50, At: epoch})
	cfg.Guards.Allow = []Rule{ruleAhead}
	b := must.Get(New(cfg))(t)
	for _, c := range []struct{ at, want string }{
		{"1955-11-05T06:15:00Z", "1955-11-05T06:10:00Z"},
		{"2026-08-01T12:09:59+02:00", "2026-08-01T10:00:00Z"},
		{"2999-12-31T23:59:59.999Z", "2999-12-31T23:50:00Z"},
	} {
		at := must.Get(time.Parse(time.RFC3339, c.at))(t)
		r, err := b.Build(t.Context(), at)
		if err != nil || r.SnapshotTime != c.want {
			t.Errorf("at %s: %s, %v; want %s", c.at, r.SnapshotTime, err, c.want)
		}
	}
	for _, at := range []time.Time{time.Date(1, 1, 1, 0, 5, 0, 0, time.UTC),
		time.Date(9999, 12, 31, 23, 0, 0, 0, time.UTC)} {
		if r, err := b.Build(t.Context(), at); err == nil {
			t.Errorf("a snapshot of %v was built: %+v", at, r)
		}
	}
	verify(t, s)
}

func TestRetained(t *testing.T) {
	s := memstore.New()
	w := world{Assets: 60, At: epoch}
	times := func() (list []string) {
		for _, r := range head(t, s).Manifest.Retained {
			list = append(list, r.Time.Format("15:04"))
		}
		return list
	}
	for i := range 9 {
		mustBuild(t, s, w.Later(time.Duration(i)*artifacts.Step))
	}
	// The last snapshot is the one of 13:20, so retained snapshots reach back to 12:20, inclusive.
	if got := times(); len(got) != 6 || got[0] != "13:10" || got[5] != "12:20" {
		t.Errorf("retained %v", got)
	}
	mustBuild(t, s, w.Later(26*time.Hour))
	if got := times(); len(got) != 1 || got[0] != "13:20" {
		t.Errorf("after a gap retained %v, want the previous one only", got)
	}
	mustBuild(t, s, w.Later(26*time.Hour+artifacts.Step), func(c *Config) { c.Retain = MaxRetain })
	if got := times(); len(got) != 2 {
		t.Errorf("retained %v, want the two that are still listed", got)
	}
	verify(t, s)
	if _, err := New(Config{Retain: -1}); err == nil {
		t.Error("a negative retention is taken")
	}
	if _, err := New(Config{Retain: MaxRetain + 1}); err == nil {
		t.Error("retention has no bound")
	}
}

// TestOtherAssets checks that Check detects an intact view of words or contracts that belongs to
// other assets.
func TestOtherAssets(t *testing.T) {
	for _, c := range [][3]string{
		{artifacts.SearchCollection, artifacts.SearchSort, "view search/word does not have the words and ranks"},
		{artifacts.ContractsCollection, artifacts.ContractsSort, "view contracts/address has other contracts"},
	} {
		s, other := memstore.New(), memstore.New()
		mustBuild(t, s, world{Assets: 30, At: epoch})
		mustBuild(t, other, world{Assets: 29, At: epoch})
		h := head(t, s)
		view := head(t, other).Manifest.View(c[0], c[1])
		*h.Manifest.View(c[0], c[1]) = *view
		republish(t, s, h.Manifest, stored(t, other, artifacts.ObjectKey(view.Objects[0].Digest)))
		if report, err := artifacts.Check(t.Context(), s, ledger.Refs, nil); err != nil || len(report.Problems) != 1 ||
			!strings.Contains(report.Problems[0], c[2]) {
			t.Errorf("%v, %q", err, report.Problems)
		}
	}
}

// TestDeterminism checks that the same feeds in the same order yield the same bytes in every store
// and with any GOMAXPROCS.
func TestDeterminism(t *testing.T) {
	dir := must.Get(dirstore.Open(t.TempDir(), dirstore.Options{}))(t)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	var want map[artifacts.Key]string
	for _, c := range []struct {
		name  string
		store artifacts.Store
		procs int
	}{{"memory, one", memstore.New(), 1}, {"memory, two", memstore.New(), 2}, {"memory, eight", memstore.New(), 8},
		{"folder, eight", dir, 8}} {
		runtime.GOMAXPROCS(c.procs)
		w := world{Assets: 6500, At: epoch} // views of two objects
		mustBuild(t, c.store, w)
		mustBuild(t, c.store, w.Later(artifacts.Step))
		must.Get(change.Record(t.Context(), c.store, time.Now))(t)
		mustBuild(t, c.store, w.Later(3*time.Hour))
		got := contents(t, c.store)
		if want == nil {
			want = got
		}
		if len(got) != len(want) {
			t.Errorf("%s: %d objects, want %d", c.name, len(got), len(want))
		}
		for key, body := range want {
			if got[key] != body {
				t.Errorf("%s: %s differs", c.name, key)
			}
		}
	}
}
