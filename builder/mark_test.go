package builder

import (
	"errors"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/publish"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
)

// TestMark checks the times of snapshots (FEED.md, "Figures").
func TestMark(t *testing.T) {
	mark := epoch.Add(artifacts.Step)
	for _, c := range []struct {
		name string
		feed time.Duration // the feed's time, relative to the mark
		want time.Duration // the snapshot's time, relative to the mark
	}{
		{"a table that changes every two seconds", -2 * time.Second, 0},
		{"a folder that is rewritten every minute", -59 * time.Second, 0},
		{"just less than ten minutes", -artifacts.Step + time.Second, 0},
		{"of the mark", 0, 0},
		{"later: a builder that was down at the mark", 4 * time.Minute, 0},
		{"a year ahead", 365 * 24 * time.Hour, 0},
		{"ten minutes", -artifacts.Step, -artifacts.Step},
		{"an export that takes a quarter of an hour", -15 * time.Minute, -2 * artifacts.Step},
	} {
		s := memstore.New()
		b := must.Get(New(config(s, world{Assets: 10, At: mark.Add(c.feed)})))(t)
		r, err := b.BuildMark(t.Context(), mark)
		if want := publish.Stamp(mark.Add(c.want)); err != nil || !r.Published || r.SnapshotTime != want {
			t.Errorf("%s: published %v: %s, %v; want %s", c.name, r.Published, r.SnapshotTime, err, want)
		}
		// The command builder build always rounds down.
		r, err = tryBuild(t.Context(), memstore.New(), world{Assets: 10, At: mark.Add(c.feed)}, func(c *Config) {
			c.Guards.Allow = []Rule{ruleAhead}
		})
		if want := publish.Stamp(mark.Add(c.feed).Truncate(artifacts.Step)); err != nil || r.SnapshotTime != want {
			t.Errorf("build, %s: %s, %v; want %s", c.name, r.SnapshotTime, err, want)
		}
	}
}

// TestStandsStill checks that a feed whose time does not advance is published only once and causes
// no failure, whatever its rows are. If its time goes back, the build must return ErrOlder. If its
// time advances again, the snapshot must be published.
func TestStandsStill(t *testing.T) {
	s, first := memstore.New(), epoch.Add(artifacts.Step)
	w := world{Assets: 10, At: epoch.Add(5 * time.Minute)}
	mark := func(n int, w world) (*Report, error) {
		return must.Get(New(config(s, w)))(t).BuildMark(t.Context(), first.Add(time.Duration(n)*artifacts.Step))
	}
	if r, err := mark(0, w); err != nil || !r.Published || r.SnapshotTime != publish.Stamp(first) {
		t.Fatalf("%+v, %v", r, err)
	}
	before := contents(t, s)
	for n, seed := range []uint64{0, 0, 7} {
		w.Seed = seed
		r, err := mark(n+1, w)
		if err != nil || r.Published || r.SnapshotTime != publish.Stamp(first) || r.Sequence != 1 ||
			!strings.Contains(r.Reason, "stands still: its time is 2026-08-01T12:05:00Z") {
			t.Errorf("mark %d: %+v, %v", n+1, r, err)
		}
	}
	if after := contents(t, s); len(after) != len(before) {
		t.Errorf("%d objects, after %d", len(after), len(before))
	}
	if r, err := mark(4, w.Later(-20*time.Minute)); !errors.Is(err, ErrOlder) {
		t.Errorf("back: %+v, %v", r, err)
	}
	if r, err := mark(5, w.Later(50*time.Minute)); err != nil || !r.Published ||
		r.SnapshotTime != publish.Stamp(first.Add(5*artifacts.Step)) {
		t.Errorf("again: %+v, %v", r, err)
	}
}
