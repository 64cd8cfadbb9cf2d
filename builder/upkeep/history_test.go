package upkeep

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder"
	"example.com/marketdata/builder/history"
	"example.com/marketdata/builder/internal/walk"
	"example.com/marketdata/builder/ledger"
	"example.com/marketdata/builder/render"
	"example.com/marketdata/builder/source"
	"example.com/marketdata/internal/test/buildtest"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
)

// quoted is an asset in a feed. If price is empty, it has no quote.
type quoted struct {
	id, cap int
	price   string
}

// coins are the assets at one moment.
type coins struct {
	at   time.Time
	list []quoted
}

// Files makes coins a Source.
func (c coins) Files(context.Context, time.Time) (source.Files, error) { return c.files(), nil }
func (c coins) String() string                                         { return "coins" }

func (c coins) files() source.Files {
	var assets, quotes bytes.Buffer
	for _, a := range c.list {
		fmt.Fprintf(&assets, `{"key":"%d","id":%[1]d,"name":"n","symbol":"s","slug":"%[1]d"}`+"\n", a.id)
		if a.price != "" {
			fmt.Fprintf(&quotes, `{"key":"%d","price":%s,"market_cap":%d}`+"\n", a.id, a.price, a.cap)
		}
	}
	return source.FS(buildtest.Files(c.at, map[string][]byte{
		source.AssetsFile: assets.Bytes(), source.QuotesFile: quotes.Bytes(),
	}))
}

// points returns the prices of the assets that have a point, by id (INTERFACE.md, "History").
func (c coins) points(n int) map[uint64]string {
	all := slices.DeleteFunc(slices.Clone(c.list), func(a quoted) bool { return a.price == "" })
	slices.SortFunc(all, func(a, b quoted) int {
		return cmp.Or(cmp.Compare(b.cap, a.cap), cmp.Compare(a.id, b.id))
	}) // assets without a market cap have 0 and come last
	points := map[uint64]string{}
	for _, a := range all[:min(n, len(all))] {
		points[uint64(a.id)] = a.price
	}
	return points
}

// charts is a world of coins that appear and disappear, with all of its snapshots. It computes from
// them what the history must contain.
type charts struct {
	dice *rand.Rand
	at   time.Time
	past []charted // snapshots that were built and not withdrawn, in time order
}

type charted struct {
	coins
	points map[uint64]string
}

func newCharts(seed uint64) *charts {
	return &charts{dice: rand.New(rand.NewPCG(seed, 9)),
		at: epoch.Add(-time.Duration(seed) * 11 * time.Hour).Truncate(artifacts.Step)}
}

// moment returns the feed of a time. Of its up to thirteen coins, one always has a price.
func (c *charts) moment(at time.Time) coins {
	now := coins{at: at}
	for id := range 13 {
		a := quoted{id: id + 1, cap: c.dice.IntN(9) * c.dice.IntN(100),
			price: fmt.Sprintf("%d.%d7", c.dice.IntN(90_000), c.dice.IntN(1e17))}
		switch c.dice.IntN(3 + id) {
		case 1:
			a.price = ""
		case 2:
			a.price = "0"
		}
		if id == 0 && a.price == "" {
			a.price = "1"
		}
		// The last five coins are missing for months.
		if id < 8 || (int(at.Unix()/86400)+id*31)%200 < 30 {
			now.list = append(now.list, a)
		}
	}
	return now
}

func (c *charts) took(now coins, n int) {
	c.past = append(c.past, charted{now, now.points(n)})
	slices.SortFunc(c.past, func(a, b charted) int { return a.at.Compare(b.at) })
	c.at = c.past[len(c.past)-1].at
}

// want returns the points of a window at the newest snapshot.
func (c *charts) want(w *artifacts.HistoryWindow) map[uint64][]string {
	want := map[uint64][]string{}
	hours, days, intervals := map[int64]bool{}, map[int64]bool{}, map[int64]bool{}
	for _, s := range c.past {
		unix, age, step := s.at.Unix(), c.at.Sub(s.at), int64(w.Step/time.Second)
		held := age < 48*time.Hour || age <= 90*24*time.Hour && !hours[unix/3600] || age <= 366*24*time.Hour &&
			!days[unix/86400]
		hours[unix/3600], days[unix/86400] = true, true
		first := held && !intervals[unix/step] && !time.Unix(unix/step*step, 0).Before(c.at.Add(-w.Length))
		if intervals[unix/step] = intervals[unix/step] || held; !first && age > 0 {
			continue
		}
		for id, price := range s.points {
			want[id] = append(want[id], s.at.Format(time.RFC3339)+" "+price)
		}
	}
	return want
}

// compare compares every point and every listing of every window with the manifest's views.
func (c *charts) compare(t *testing.T, s artifacts.Reader) {
	t.Helper()
	m := head(t, s).Manifest
	if !m.Time.Equal(c.at) {
		t.Fatalf("the head is of %v, want %v", m.Time, c.at)
	}
	for i := range artifacts.HistoryWindows {
		w := &artifacts.HistoryWindows[i]
		if got, want := readHistory(t, s, m, w), c.want(w); !reflect.DeepEqual(got, want) {
			t.Fatalf("at %v, window %s:\n%v\nwant\n%v", m.Time, w.Name, got, want)
		}
	}
}

// readHistory reads a window's points by asset, as an edge does.
func readHistory(t *testing.T, s artifacts.Reader, m *artifacts.Manifest, w *artifacts.HistoryWindow,
) map[uint64][]string {
	t.Helper()
	got := map[uint64][]string{}
	var chain time.Time
	read := func(v *artifacts.View, from time.Time) {
		err := walk.Rows(t.Context(), s, v.Objects, func(id uint64, row []byte) error {
			var r struct{ Prices []*string }
			if err := json.Unmarshal(row, &r); err != nil {
				return err
			}
			if len(r.Prices) != len(v.Times) {
				t.Fatalf("%s: %s, want %d prices", v.Collection, row, len(v.Times))
			}
			for i, at := range v.Times {
				if p := r.Prices[i]; p != nil && !at.Before(from) {
					got[id] = append(got[id], at.Format(time.RFC3339)+" "+*p)
				}
			}
			return nil
		})
		ok(t, err)
	}
	listed, blocks := m.History(w)
	for _, v := range blocks {
		read(v, w.First(m.Time))
		chain = v.Times[len(v.Times)-1]
	}
	want := slices.Sorted(maps.Keys(got))
	if v, ok := m.Latest(); ok && !chain.Equal(m.Time) {
		read(v, m.Time)
	}
	var ids []uint64
	if listed != nil {
		ok(t, walk.Rows(t.Context(), s, listed.Objects,
			func(id uint64, _ []byte) error { ids = append(ids, id); return nil }))
	}
	if !slices.Equal(ids, want) {
		t.Fatalf("at %v, window %s lists %v, want %v", m.Time, w.Name, ids, want)
	}
	return got
}

// anew fails the test unless the head's history views are byte for byte the views that can be made
// from its ledger alone.
func anew(t *testing.T, s artifacts.Store) {
	t.Helper()
	m := head(t, s).Manifest
	c := &history.Builder{Reader: s, Root: ledgerRoot(t, s), Time: m.Time,
		Put: func(table *render.Table) (artifacts.View, error) {
			views, pieces := render.Views(table)
			for _, p := range pieces {
				body, first := p.Bytes()
				views[0].Objects[p.Object] = artifacts.ViewObject{
					Ref: artifacts.RefOf(body), Rows: p.Rows, First: first}
			}
			return views[0], nil
		}}
	want := must.Get(c.Views(t.Context()))(t)
	got := slices.DeleteFunc(slices.Clone(m.Views),
		func(v artifacts.View) bool {
			return !artifacts.IsHistory(v.Collection) || artifacts.IsPast(v.Collection)
		})
	if len(got)+len(want) > 0 && !reflect.DeepEqual(got, want) {
		t.Fatalf("at %v the views are\n%+v\nof the ledger alone\n%+v", m.Time, got, want)
	}
}

func assets(n int) func(*builder.Config) {
	return func(c *builder.Config) { c.Guards.Force, c.Settings.HistoryAssets = true, n }
}

// TestHistory runs months of builds, missed snapshots, rollbacks, backfills, losses, and changes of
// HistoryAssets. After each snapshot every point must equal the model's.
func TestHistory(t *testing.T) {
	gaps := []time.Duration{1, 1, 1, 1, 2, 5, 6, 6, 24, 37, 72, 144, 144, 287, 288, 289, 1000, 4000}
	seeds := uint64(5)
	if testing.Short() {
		seeds = 2
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			c, s, n := newCharts(seed), memstore.New(), 20_000
			later := func() time.Time { return c.at.Add(gaps[c.dice.IntN(len(gaps))] * artifacts.Step) }
			build := func() {
				t.Helper()
				now := c.moment(later())
				mustBuild(t, s, now, assets(n))
				c.took(now, n)
				c.compare(t, s)
				anew(t, s)
			}
			feed := func(at time.Time) builder.PastFeed {
				now := c.moment(at)
				c.took(now, n)
				return builder.PastFeed{Name: "feed", Time: at, Files: now.files()}
			}
			build()
			steps := 45
			if seed == 0 && !testing.Short() {
				steps = 180 // over a year
			}
			for range steps {
				switch c.dice.IntN(15) {
				case 0: // another number of assets with history
					n = []int{0, 1, 4, 9, 20_000}[c.dice.IntN(5)]
				case 1: // roll back to a retained snapshot
					m := head(t, s).Manifest
					if len(m.Retained) == 0 {
						continue
					}
					to := m.Retained[c.dice.IntN(len(m.Retained))].Time
					must.Get(Rollback(t.Context(), s, to, time.Now))(t)
					c.past, c.at = slices.DeleteFunc(c.past,
						func(p charted) bool { return p.at.After(to) }), m.Time // a withdrawn time is never built again
				case 2: // backfill feeds that are newer than the newest snapshot
					var feeds []builder.PastFeed
					for range 1 + c.dice.IntN(5) {
						feeds = append(feeds, feed(later()))
					}
					mustBackfill(t, s, feeds, assets(n))
					c.compare(t, s)
					anew(t, s)
				case 3: // import the days before the oldest snapshot, with known assets
					oldest, at := ledgerRoot(t, s).Prices[0].Time.Truncate(24*time.Hour), c.at
					now := must.Get(ledger.Load(t.Context(), s, &head(t, s).Manifest.Ledger))(t)
					dir := t.TempDir()
					for i := range 1 + c.dice.IntN(5) {
						oldest = oldest.Add(-gaps[c.dice.IntN(len(gaps))] * artifacts.Step)
						older := c.moment(oldest)
						older.list = slices.DeleteFunc(older.list, func(a quoted) bool {
							_, known := now.Known("assets", fmt.Sprint(a.id))
							return !known
						})
						c.took(older, 20_000)
						ok(t, source.Write(t.Context(), filepath.Join(dir, fmt.Sprint(i)), older.files(), nil))
					}
					c.at = at
					cfg := config(s, nil)
					assets(20_000)(&cfg)
					must.Get(must.Get(builder.New(cfg))(t).Import(t.Context(), []string{dir}, false))(t)
					fallthrough
				case 4: // lose an object of the head, which retained snapshots may share
					views := slices.DeleteFunc(slices.Clone(head(t, s).Manifest.Views), func(v artifacts.View) bool {
						return !artifacts.IsHistory(v.Collection) || artifacts.IsPast(v.Collection)
					})
					if len(views) > 0 {
						v := views[c.dice.IntN(len(views))]
						ok(t, s.Delete(t.Context(), artifacts.ObjectKey(v.Objects[0].Digest)))
					}
				case 5: // an older builder publishes
					asBefore(t, s)
					for i, p := range c.past {
						if c.past[i].points = p.coins.points(1000); len(c.past[i].points) > n {
							c.past[i].points = nil // it is unknown which assets had points
						}
					}
				}
				build()
				if r := repair(t, s); len(r.Missing) > 0 {
					t.Fatalf("missing after repair: %v", r.Missing)
				}
				verify(t, s)
			}
			// gc must keep the whole history, and a backup must contain it.
			collect(t, s, func(c *GCConfig) { c.Grace = 0 })
			verify(t, s)
			copied, back := memstore.New(), memstore.New()
			must.Get(Backup(t.Context(), BackupConfig{From: s, To: copied}))(t)
			must.Get(Restore(t.Context(), RestoreConfig{Store: back, From: Copy{copied, "backup"},
				Now: func() time.Time { return epoch }}))(t)
			s = back
			build()
		})
	}
}

// TestListingOfOthers checks that verify reports a listing whose assets differ from the assets that
// have points in the blocks.
func TestListingOfOthers(t *testing.T) {
	s := memstore.New()
	w := world{Assets: 12, At: epoch}
	mustBuild(t, s, w, assets(5))
	few := head(t, s).Manifest
	mustBuild(t, s, w.Later(24*time.Hour), assets(12)) // adds a point to each window
	verify(t, s)
	for i := range artifacts.HistoryWindows {
		h := head(t, s)
		m := *h.Manifest
		m.Views = slices.Clone(m.Views)
		name := artifacts.HistoryWindows[i].Collection()
		at := slices.IndexFunc(m.Views, func(v artifacts.View) bool { return v.Collection == name })
		m.Views[at] = *few.View(name, "id")
		republish(t, s, &m)
		report, err := artifacts.Check(t.Context(), s, ledger.Refs, nil)
		if err != nil || len(report.Problems) != i+1 ||
			!strings.Contains(report.Problems[i], name+"/id does not list exactly the assets") {
			t.Errorf("%v, %q", err, report.Problems)
		}
	}
}

// asBefore publishes the head again, as a builder without history does.
func asBefore(t *testing.T, s artifacts.Store) {
	t.Helper()
	h := head(t, s)
	m := *h.Manifest
	m.Views = slices.DeleteFunc(slices.Clone(m.Views),
		func(v artifacts.View) bool { return artifacts.IsHistory(v.Collection) })
	m.Retained, m.Withdrawn = nil, nil
	root := ledgerRoot(t, s)
	root.Charted = nil
	text := must.Get(json.Marshal(root))(t)
	object := artifacts.Compress(nil, text)
	m.Ledger = artifacts.RefOf(object)
	republish(t, s, &m, object)
}

// TestHistoryOfAYear backfills a year in one pass, and continues past midnight. A build must not
// read or write more than one listing and one block for each window, plus the oldest block of the
// two windows that are trimmed. It must not read the prices of more snapshots than its figures
// need.
func TestHistoryOfAYear(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: a thousand feeds take seconds")
	}
	end := time.Date(2026, 11, 20, 22, 30, 0, 0, time.UTC)
	c, inner := newCharts(1), memstore.New()
	var feeds []builder.PastFeed
	for at := end.Add(-370 * 24 * time.Hour); at.Before(end); {
		now := c.moment(at)
		c.took(now, 9)
		feeds = append(feeds, builder.PastFeed{Name: "feed", Time: at, Files: now.files()})
		switch age := end.Sub(at); {
		case age > 100*24*time.Hour:
			at = at.Add(61 * time.Hour)
		case age > 9*24*time.Hour:
			at = at.Add(610 * time.Minute)
		case age > 25*time.Hour:
			at = at.Add(150 * time.Minute)
		default:
			at = at.Add(artifacts.Step)
		}
	}
	mustBackfill(t, inner, feeds, assets(9))
	c.compare(t, inner)
	anew(t, inner)
	for range 15 {
		views, ofLedger := map[artifacts.Key]bool{}, map[artifacts.Key]bool{}
		for _, v := range head(t, inner).Manifest.Views {
			for _, o := range v.Objects {
				views[artifacts.ObjectKey(o.Digest)] = artifacts.IsHistory(v.Collection)
			}
		}
		for _, ref := range ledgerRoot(t, inner).Refs() {
			ofLedger[artifacts.ObjectKey(ref.Digest)] = true
		}
		var mu sync.Mutex
		read, remembered := 0, 0
		s := tap(inner, func(op string, key artifacts.Key) {
			mu.Lock()
			defer mu.Unlock()
			if op == "get" && views[key] {
				read++
			}
			if op == "get" && ofLedger[key] {
				remembered++
			}
		})
		now := c.moment(c.at.Add(artifacts.Step))
		mustBuild(t, s, now, assets(9), noFiles)
		c.took(now, 9)
		c.compare(t, inner)
		anew(t, inner)
		wrote := 0
		for _, v := range head(t, inner).Manifest.Views {
			for _, o := range v.Objects {
				if _, had := views[artifacts.ObjectKey(o.Digest)]; artifacts.IsHistory(v.Collection) && !had {
					wrote++
				}
			}
		}
		t.Logf("%v: %d objects of history read, %d written, %d of the ledger read", now.at, read, wrote, remembered)
		most := 2*(len(artifacts.HistoryWindows)+len(artifacts.PastIntervals)) + 2
		if read > most || wrote > most || remembered > 30 {
			t.Errorf("at %v a build reads %d objects of history and %d of the ledger, and writes %d; want at most %d, 30 and"+
				" %[5]d", now.at, read, remembered, wrote, most)
		}
	}
}
