package changes

import (
	"context"
	"fmt"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/ledger"
	"example.com/marketdata/builder/market"
	"example.com/marketdata/builder/render"
	"example.com/marketdata/internal/test/must"
)

// objects holds the objects that a Builder has put, by key.
type objects map[artifacts.Key][]byte

func (o objects) Get(_ context.Context, key artifacts.Key, _ int64) ([]byte, artifacts.Version, error) {
	if b, ok := o[key]; ok {
		return b, "", nil
	}
	return nil, "", artifacts.ErrNotFound
}

// TestMax checks that a snapshot that would list more than Max changes drops whole days, oldest
// first, and that Since then becomes the last ten minutes of the last dropped day. If the
// snapshot's own day has too many changes, the list starts over.
func TestMax(t *testing.T) {
	put, rows := objects{}, map[string]int{}
	b := &Builder{Reader: put, Ledger: must.Get(ledger.Load(t.Context(), put, nil))(t), Max: 3,
		Put: func(table *render.Table) (artifacts.View, error) {
			// The views have no objects, so a table has only the rows of its own snapshot.
			rows[table.Collection] += len(table.Orders[0].Keys)
			return artifacts.View{Collection: table.Collection, Sort: artifacts.ChangesSort,
				Rows: rows[table.Collection]}, nil
		},
		PutObject: func(o []byte) (artifacts.Ref, error) {
			ref := artifacts.RefOf(o)
			put[artifacts.ObjectKey(ref.Digest)] = o
			return ref, nil
		},
		Has:  func(ref artifacts.Ref) bool { return put[artifacts.ObjectKey(ref.Digest)] != nil },
		Lost: func(err error) { t.Error(err) },
	}
	for i, c := range []struct {
		time  string
		names []string
		want  string // Since, Count, and each day with its number of changes
	}{
		{"2026-11-20T22:00:00Z", []string{"a"}, "20T22:00 0"},
		{"2026-11-20T23:00:00Z", []string{"b", "a"}, "20T22:00 2 2026-11-20:2"},
		{"2026-11-21T00:10:00Z", []string{"c", "a"}, "20T22:00 1 2026-11-20:2 2026-11-21:1"},
		{"2026-11-21T00:20:00Z", []string{"d", "a"}, "20T23:50 1 2026-11-21:2"},
		{"2026-11-21T00:30:00Z", []string{"e", "b"}, "21T00:30 0"},
		{"2026-11-21T00:40:00Z", []string{"e"}, "21T00:30 1 2026-11-21:1"},
	} {
		feed := &market.Feed{}
		for key, name := range c.names {
			feed.Assets = append(feed.Assets, market.Asset{Key: fmt.Sprint(key), Name: name, Symbol: "S", Slug: "s"})
		}
		must.OK(t, b.Ledger.AssignIDs(feed))
		at := must.Get(time.Parse(time.RFC3339, c.time))(t)
		views, about, err := b.Views(t.Context(), feed, &market.Result{T: at})
		must.OK(t, err)
		got := fmt.Sprint(about.Since.Format("02T15:04"), " ", about.Count)
		for _, v := range views {
			got += fmt.Sprintf(" %s:%d", v.Collection[len("changes/"):], v.Rows)
		}
		if got != c.want {
			t.Errorf("snapshot %d: %s, want %s", i, got, c.want)
		}
		if len(views) == 0 {
			clear(rows)
		}
		b.Head = &artifacts.Manifest{Time: at, Changes: about, Views: views}
	}
}
