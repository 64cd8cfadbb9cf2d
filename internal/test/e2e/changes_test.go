package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder"
	"example.com/marketdata/builder/publish"
	"example.com/marketdata/builder/upkeep"
	"example.com/marketdata/internal/model"
	"example.com/marketdata/internal/test/buildtest"
	"example.com/marketdata/internal/test/gen"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
	"pgregory.net/rapid"
)

// restless draws feeds of a few items. Their texts, their members and their presence change often
// and often return to an earlier state.
type restless struct {
	draw func(name string, most int) int
}

func (r restless) one(of ...string) string { return of[r.draw("one", len(of)-1)] }

func (r restless) rows(n int, row func(key int) string) string {
	var b strings.Builder
	for key := range n {
		if r.draw("there", 3) > 0 {
			b.WriteString(row(key) + "\n")
		}
	}
	return b.String()
}

func (r restless) feed(at time.Time) model.Files {
	group := func(key int) string {
		return fmt.Sprintf(`{"key":"g%d","name":"%s","slug":"g%[1]d%s","status":"%s","members":[%s],"native":"%s"}`, key,
			r.one("a", "a", "b"), r.one("", "", "x"), r.one("active", "active", "active", "disabled"),
			r.one(`"0"`, `"0","1"`, `"1","2"`, `"3"`), r.one("0", "1"))
	}
	files := model.Files{
		"feed.json": fmt.Sprintf(`{"format":1,"database":"d","time":"%s"}`, at.Format(time.RFC3339)),
		"assets.ndjson": r.rows(4, func(key int) string {
			return fmt.Sprintf(`{"key":"%d","name":"%s","symbol":"%s","slug":"s%[1]d%s","logo":"%s","website":"%s",`+
				`"explorers":[%s],"active":%s,"platforms":{%s}}`, key, r.one("a", "a", `b\"`), r.one("s", "s", "t"),
				r.one("", "", "x"), r.one("", "https://a.example/"), r.one("", "https://b.example/"),
				r.one("", `"https://c.example/"`), r.one("true", "true", "false"), r.one("", `"p":"1"`))
		}),
		"exchanges.ndjson": r.rows(2, func(key int) string {
			return fmt.Sprintf(`{"key":"%d","name":"%s","slug":"e","links":{"twitter":"%s"}}`, key, r.one("a", "b"),
				r.one("", "https://d.example/"))
		}),
		"categories.ndjson": r.rows(2, group), "chains.ndjson": r.rows(2, group),
	}
	for key := range 4 {
		if r.draw("quoted", 1) > 0 && strings.Contains(files["assets.ndjson"], fmt.Sprintf(`"key":"%d"`, key)) {
			files["quotes.ndjson"] += fmt.Sprintf(`{"key":"%d","price":1,"market_cap":5,"volume":1}`+"\n", key)
		}
	}
	return files
}

var directories = []string{"assets", "exchanges", "categories", "chains"}

// copied is a client's copy of the directory: the fields of its items.
type copied map[string]map[int64]model.Listed

func copyOf(s *model.Snapshot) copied {
	all := copied{}
	for _, c := range directories {
		all[c] = map[int64]model.Listed{}
		for id, l := range s.Directory(c) {
			all[c][id] = model.Listed{}
			for field, value := range l {
				if value != "" {
					all[c][id][field] = value
				}
			}
		}
	}
	return all
}

// item is a change as a client reads it.
type item struct {
	Time       time.Time
	Collection string
	Kind       string
	ID         int64
	Name       string
	Symbol     string
	Slug       string
	Fields     map[string]struct{ New *string }
}

// replay applies changes, oldest first, to a copy. Values that the changes do not contain come from
// now, the current state.
func (c copied) replay(items []item, now copied) {
	set := func(l model.Listed, field, value string) {
		if delete(l, field); value != "" {
			l[field] = value
		}
	}
	for _, i := range items {
		of, current := c[i.Collection], now[i.Collection][i.ID]
		if i.Kind == "removed" {
			delete(of, i.ID)
			continue
		}
		if i.Kind != "changed" {
			of[i.ID] = maps.Clone(current)
		}
		if of[i.ID] == nil { // the copy was read while the item was gone
			of[i.ID] = model.Listed{}
		}
		set(of[i.ID], "name", i.Name)
		set(of[i.ID], "symbol", i.Symbol)
		set(of[i.ID], "slug", i.Slug)
		for field, values := range i.Fields {
			if values.New != nil {
				set(of[i.ID], field, *values.New)
			} else {
				set(of[i.ID], field, current[field])
			}
		}
	}
}

// published is a snapshot that has been published at some time.
type published struct {
	time time.Time
	copied
	lost bool // whether a restore discarded it later
}

// wander applies the same actions to a small world and to a store.
type wander struct {
	restless
	t       *rapid.T
	world   *model.World
	store   artifacts.Store
	source  *folder
	builder *builder.Builder
	file    string
	all     []published
	backup  []*model.Snapshot
	saved   artifacts.Store // a copy of backup's snapshots, or nil if there is none
	latest  time.Time       // time of the latest snapshot that was published
}

func newWander(t *rapid.T, file string) *wander {
	settings, guards := model.Defaults(), builder.DefaultGuards
	settings.Retain, guards.Force = 3*time.Hour, true
	w := &wander{t: t, world: model.New(settings), store: memstore.New(), source: &folder{}, file: file,
		restless: restless{func(name string, most int) int { return rapid.IntRange(0, most).Draw(t, name) }}}
	w.latest = time.Date(2025, 3, 1, w.draw("hour", 23), 0, 0, 0, time.UTC)
	w.builder = must.Get(builder.New(builder.Config{Store: w.store, Source: w.source, Retain: settings.Retain,
		Guards: guards, Log: buildtest.Discard, Settings: floors(t, settings)}))(t)
	return w
}

func (w *wander) later(t time.Time) time.Time {
	steps := []time.Duration{10 * time.Minute, 10 * time.Minute, time.Hour, 70 * time.Minute, 24 * time.Hour,
		31 * 24 * time.Hour}
	return t.Add(steps[w.draw("step", len(steps)-1)])
}

// next returns the time for a build: later than all others, or between withdrawn ones.
func (w *wander) next() time.Time {
	at := w.later(w.latest)
	if newest := w.world.Newest(); newest != nil && newest.Time.Before(w.latest) && w.draw("between", 2) > 0 {
		between := newest.Time.Add(time.Duration(1+w.draw("marks", 5)) * 10 * time.Minute)
		if !slices.ContainsFunc(w.all, func(p published) bool { return p.lost || p.time.Equal(between) }) {
			at = between
		}
	}
	return at
}

// act performs one action on both.
func (w *wander) act() {
	ctx, t, newest, retained := context.Background(), w.t, w.world.Newest(), w.world.Retained()
	switch action := w.draw("action", 9); {
	case action == 0 && len(retained) > 1:
		to := retained[w.draw("to", len(retained)-2)].Time
		must.Get(upkeep.Rollback(ctx, w.store, to, time.Now))(t)
		must.OK(t, w.world.Rollback(to, to))
		if w.saved != nil && w.backup[len(w.backup)-1].Time.After(to) {
			w.saved = nil
		}
	case action == 1 && newest != nil:
		w.saved, w.backup = memstore.New(), retained
		must.Get(upkeep.Backup(ctx, upkeep.BackupConfig{From: w.store, To: w.saved}))(t)
	case action == 2 && w.saved != nil && w.backup[len(w.backup)-1].Time.Before(newest.Time):
		must.Get(upkeep.Restore(ctx, upkeep.RestoreConfig{Store: w.store,
			From: upkeep.Copy{Reader: w.saved, Name: "backup"}, Now: func() time.Time { return w.latest }}))(t)
		w.world.Restore(w.backup)
		w.saved = nil
		for i := range w.all {
			w.all[i].lost = true
		}
	case action == 3 && newest != nil:
		rows := []model.PastRow{{Key: "0", Time: newest.Time.Add(-time.Duration(w.draw("ago", 9)) * time.Hour),
			Quoted: model.Quoted{Price: big.NewRat(1, 1)}}}
		must.OK(t, os.WriteFile(w.file, gen.PastFile(rows, "csv"), 0o600))
		if _, err := w.builder.Import(ctx, []string{w.file}, false); err == nil {
			w.world.Import(rows, nil)
		} else if !errors.Is(err, builder.ErrNoRow) {
			t.Fatalf("import: %v", err)
		}
	case action == 4:
		var past []builder.PastFeed
		var texts []model.Files
		for at := w.later(w.latest); len(past) < 2; at = w.later(at) {
			files := w.feed(at)
			past = append(past, builder.PastFeed{Name: "f", Time: at, Files: sourceFiles(files)})
			texts = append(texts, files)
		}
		must.Get(w.builder.Backfill(ctx, past))(t)
		must.OK(t, w.world.Backfill(texts))
	default:
		at := w.next()
		w.source.files = w.feed(at)
		must.Get(w.builder.Build(ctx, at))(t)
		must.Get(w.world.Build(w.source.files, at))(t)
	}
}

// compare compares the changes with the model's, and replays them on a copy of each snapshot that
// was ever published.
func (w *wander) compare() (replayed, refused int) {
	s := w.world.Newest()
	if s == nil {
		return 0, 0
	}
	items, since := heldChanges(w.t, w.store)
	var want []string
	for _, c := range s.Changes.Items {
		want = append(want, c.JSON())
	}
	if !slices.Equal(items, want) || !since.Equal(s.Changes.Since) {
		w.t.Fatalf("changes of %s, since %s:\n%s\nwant, since %s:\n%s", s.Time, since, strings.Join(items, "\n"),
			s.Changes.Since, strings.Join(want, "\n"))
	}
	now := copyOf(s)
	for _, p := range w.all {
		switch {
		case p.time.Before(since):
			refused++
			continue
		case p.time.After(s.Time): // It is withdrawn. The changes of the next snapshots lead back.
			continue
		}
		var news []item
		for _, text := range slices.Backward(items) {
			var i item
			must.OK(w.t, json.Unmarshal([]byte(text), &i))
			if i.Time.After(p.time) {
				news = append(news, i)
			}
		}
		got := p.clone()
		if got.replay(news, now); !reflect.DeepEqual(got, now) {
			w.t.Fatalf("from %s to %s: %v\nwant %v\nby %s", p.time, s.Time, got, now, items)
		}
		replayed++
	}
	if !slices.ContainsFunc(w.all, func(p published) bool { return p.time.Equal(s.Time) }) {
		w.all = append(w.all, published{time: s.Time, copied: now})
	}
	if s.Time.After(w.latest) {
		w.latest = s.Time
	}
	return replayed, refused
}

func (c copied) clone() copied {
	all := copied{}
	for collection, of := range c {
		all[collection] = map[int64]model.Listed{}
		for id, l := range of {
			all[collection][id] = maps.Clone(l)
		}
	}
	return all
}

// TestChangesReplayed follows small worlds through builds, backfills, imports, rollbacks and
// restores, also at times between withdrawn snapshots. The changes of each snapshot equal the
// model's. They lead from the listings of every snapshot that was ever published, including
// withdrawn and lost ones, to the current listings.
func TestChangesReplayed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rows.csv")
	replayed, refused := 0, 0
	checkProperty(t, 40, func(t *rapid.T) {
		w := newWander(t, file)
		for range 3 + w.draw("actions", 9) {
			w.act()
			some, others := w.compare()
			replayed, refused = replayed+some, refused+others
		}
		if report := must.Get(upkeep.Verify(t.Context(), w.store, nil))(t); len(report.Problems) > 0 {
			t.Fatalf("%q", report.Problems)
		}
	})
	if t.Logf("%d replayed, %d refused", replayed, refused); replayed == 0 || refused == 0 {
		t.Error("the histories try too little")
	}
}

// heldChanges returns the changes that the published snapshot holds, newest first.
func heldChanges(t failer, s artifacts.Store) (items []string, since time.Time) {
	t.Helper()
	head := must.Get(publish.ReadHead(context.Background(), s))(t)
	for _, v := range head.Manifest.ChangesDays() {
		for _, o := range v.Objects {
			body := must.Get(artifacts.ReadObject(context.Background(), s, o.Ref))(t)
			for _, shard := range must.Get(artifacts.ParseObject(body))(t) {
				for i := range shard.Len() {
					items = append(items, string(artifacts.CoinItem(shard.Row(i))))
				}
			}
		}
	}
	slices.Reverse(items)
	return items, head.Manifest.Changes.Since
}
