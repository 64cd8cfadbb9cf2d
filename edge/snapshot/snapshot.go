// Package snapshot follows the pointer in the store. It fetches snapshots, keeps them on disk, and makes them
// current when package timeline decides so.
//
// A request loads one [State], so it never sees two snapshots. The [Refresher] prepares a new State
// separately and then replaces the old one as a whole.
package snapshot

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sort"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge/query"
	"example.com/marketdata/edge/shards"
	"example.com/marketdata/edge/timeline"
)

// timeFormat is the format of X-Snapshot-Time (INTERFACE.md, "Pinned paging").
const timeFormat = "2006-01-02T15:04:05Z"

// StaleAfter is the age above which a snapshot is marked as stale (INTERFACE.md,
// "Headers").
const StaleAfter = 20 * time.Minute

// Snapshot is a published snapshot. Its exported fields and views are immutable.
type Snapshot struct {
	timeline.Facts
	Database string
	Global   artifacts.Global
	// Notice is the snapshot's notice as JSON, or nil if it has none.
	Notice []byte
	// Files references the list of file sets. It is zero if there are none.
	Files artifacts.Ref
	// TimeText and LastModified are Time in the formats of X-Snapshot-Time and Last-Modified.
	TimeText, LastModified []byte

	views          [query.Endpoints][query.Sorts]*View
	coins          [coinViews]*View
	history        [len(artifacts.HistoryWindows)]*History
	past           [len(artifacts.PastIntervals)][]PastBlock
	changes        *Changes
	objects        []*shards.Object
	historyObjects []*shards.Object // the snapshot does not wait for them
	pastObjects    []*shards.Object // parts of the past that are fetched only when a request needs them
	cache          *shards.Cache

	download
}

// View is a collection in one sort order.
type View struct {
	Endpoint query.Endpoint // the endpoint of its rows; unset for views of history, the past and changes
	// Rows is the number of rows, and Runs is the number of runs of equal keys. Last is the number of rows
	// that come last in either direction.
	Rows, Runs, Last int
	// Columns maps a sort key to the column of the shards that contains the run numbers in the view with that
	// sort key, or to -1.
	Columns [query.Sorts]int8

	perShard, perObject int
	cache               *shards.Cache
	objects             []*shards.Object
	handles             []*shards.Handle // by shard; nil if an object has fewer shards than it should
	firstID             []uint64         // the first id of each object, in a view by id
	firstKey            []string         // the first key of each object, in a view with keys
}

// newSnapshot creates a snapshot from its manifest and acquires its objects. Call Snapshot.release to release
// them. If coins is set, it adds the views of CoinView. It reads no objects.
func newSnapshot(m *artifacts.Manifest, digest artifacts.Digest, cache *shards.Cache, coins bool) (*Snapshot, error) {
	if m.Unicode != artifacts.FoldUnicodeVersion {
		return nil, fmt.Errorf("%w: its texts are folded by Unicode %s, but this edge has the tables of Unicode %s",
			artifacts.ErrFormat, m.Unicode, artifacts.FoldUnicodeVersion)
	}
	s := &Snapshot{
		Facts: timeline.Facts{
			Time: m.Time, Manifest: digest,
			Retained: m.Retained, Withdrawn: m.Withdrawn, WithdrawnThrough: m.WithdrawnThrough,
		},
		Database: m.Database, Global: m.Global, Files: m.Files,
		TimeText:     m.Time.AppendFormat(nil, timeFormat),
		LastModified: m.Time.AppendFormat(nil, http.TimeFormat),
		cache:        cache,
	}
	if m.Notice != nil && m.Notice.Check() == nil {
		s.Notice = m.Notice.AppendJSON(nil)
	}
	for e := range query.Endpoint(query.Endpoints) {
		for o := range query.Sort(query.Sorts) {
			if v := m.View(e.Name(), o.Name()); v != nil {
				view := s.newView(m, v)
				view.Endpoint = e
				s.views[e][o] = view
				s.objects = append(s.objects, view.objects...)
			}
		}
	}
	if coins {
		s.addCoins(m)
	}
	s.addHistory(m)
	s.addPast(m)
	s.addChanges(m)
	if err := s.complete(); err != nil {
		s.release()
		return nil, fmt.Errorf("%w: %w", artifacts.ErrCorrupt, err)
	}
	return s, nil
}

// complete checks that every endpoint has the views that it needs. Older builders do not publish all views
// that search and markets need. In that case, the method disables these endpoints.
func (s *Snapshot) complete() error {
	for e := range query.Endpoint(query.Endpoints) {
		switch e {
		case query.Global, query.History, query.Candles, query.Prices, query.Changes: // these have no views here
		case query.Trending:
			if s.views[e][query.SortBoard] == nil {
				return fmt.Errorf("no view trending/board")
			}
		case query.Search:
			// Search uses the view of assets by name as an index, and reads their ranks.
			name, rank := s.views[query.Assets][query.SortName], s.views[query.Assets][query.SortRank]
			if name == nil || rank == nil || name.Columns[query.SortRank] < 0 {
				s.views[e][query.SortWord] = nil
			}
		case query.Markets:
			if s.completeMarkets() != nil {
				s.views[e] = [query.Sorts]*View{}
			}
		default:
			if err := s.completeList(e); err != nil {
				return err
			}
		}
	}
	return nil
}

// completeList checks that a list has its views by id and by the keys of filters, and that all its views have
// the same number of rows and the columns that filters need. Other views may be missing, because the builder
// may not know the sort key yet (COMPATIBILITY.md).
func (s *Snapshot) completeList(e query.Endpoint) error {
	sorts := e.SortKeys()
	for _, o := range sorts {
		v := s.views[e][o]
		index := o == query.SortID || o == query.SortSlug || o == query.SortSymbol
		switch {
		case v == nil && index:
			return fmt.Errorf("no view %s/%s", e, o)
		case v == nil:
			continue
		case v.Rows != s.views[e][query.SortID].Rows:
			return fmt.Errorf("view %s/%s has %d rows, the view by id has %d", e, o, v.Rows,
				s.views[e][query.SortID].Rows)
		}
		for _, other := range sorts {
			if index && other != o && other != query.SortID && s.views[e][other] != nil && v.Columns[other] < 0 {
				return fmt.Errorf("view %s/%s has no column %s", e, o, other)
			}
		}
	}
	return nil
}

// completeMarkets checks that markets have the views by id and by group member, that their views have as many
// rows as the quotes, and that the columns for finding answers exist. Other views may be missing, as in
// completeList.
func (s *Snapshot) completeMarkets() error {
	views, quotes := &s.views[query.Markets], s.views[query.Quotes][query.SortID]
	byID := views[query.SortID]
	if byID == nil || views[query.SortCategory] == nil || views[query.SortChain] == nil || quotes == nil {
		return fmt.Errorf("no view by id, or of members")
	}
	for _, o := range query.Markets.SortKeys() {
		switch v := s.View(query.Markets, o); {
		case v == nil:
			continue
		case v.Rows != quotes.Rows:
			return fmt.Errorf("view markets/%s has another number of rows than the quotes", o)
		case o != query.SortID && !o.ByText() && byID.Columns[o] < 0:
			return fmt.Errorf("view markets/id has no column %s", o)
		}
	}
	return nil
}

func (s *Snapshot) newView(m *artifacts.Manifest, in *artifacts.View) *View {
	v := &View{Rows: in.Rows, Runs: in.Runs, Last: in.Last, cache: s.cache}
	v.perShard, v.perObject = m.Cut(in)
	for o := range query.Sort(query.Sorts) {
		v.Columns[o] = -1
		for i, name := range in.Columns {
			if name == o.Name() {
				v.Columns[o] = int8(i)
			}
		}
	}
	for i := range in.Objects {
		o := &in.Objects[i]
		v.objects = append(v.objects, s.cache.Acquire(o.Ref))
		v.firstID = append(v.firstID, o.First.ID)
		v.firstKey = append(v.firstKey, o.First.Key)
	}
	v.handles = make([]*shards.Handle, v.Shards())
	for i, o := range v.objects {
		first := i * v.perObject
		handles := o.Handles(min(v.perObject, len(v.handles)-first))
		for j := range handles {
			v.handles[first+j] = &handles[j]
		}
	}
	return v
}

// release releases the snapshot's objects. Requests that still use the snapshot are answered, but more
// slowly.
func (s *Snapshot) release() {
	for _, o := range s.allObjects() {
		s.cache.Release(o)
	}
}

// allObjects returns all objects, including those of history and the past.
func (s *Snapshot) allObjects() []*shards.Object {
	return slices.Concat(s.objects, s.historyObjects, s.pastObjects)
}

// Pace returns the pace of background work, for warming.
func (s *Snapshot) Pace() *shards.Pace { return &s.cache.Pace }

// Each calls f for every view except those of history, together with the same view of an older snapshot. It
// skips views that the older snapshot does not have.
func (s *Snapshot) Each(older *Snapshot, f func(was, v *View)) {
	each := func(was, v *View) {
		if was != nil && v != nil {
			f(was, v)
		}
	}
	for e := range s.views {
		for o, v := range s.views[e] {
			each(older.views[e][o], v)
		}
	}
	for i, v := range s.coins {
		each(older.coins[i], v)
	}
}

// View returns a collection in a sort order, or nil if there is none. Views by id, slug and symbol always
// exist if these are sort keys of the endpoint. For markets, the views by a string key are those of the
// quotes.
func (s *Snapshot) View(e query.Endpoint, o query.Sort) *View {
	if e == query.Markets && o.ByText() && s.views[e][query.SortID] != nil {
		e = query.Quotes
	}
	return s.views[e][o]
}

// Shards returns the number of shards of the view.
func (v *View) Shards() int { return (v.Rows + v.perShard - 1) / v.perShard }

// PerShard returns the number of rows in each shard except the last.
func (v *View) PerShard() int { return v.perShard }

// Shard returns shard n, whose first row is n times PerShard. It waits within the budget, and allocates
// nothing if the shard is in memory.
func (v *View) Shard(n int, b *Budget) (*artifacts.Shard, error) {
	if handle := v.handles[n]; handle != nil && rand.Uint32()%sample != 0 {
		if s := handle.Shard(); s != nil {
			return s, nil
		}
	}
	if s, ok := v.Cached(n); ok {
		return s, nil
	}
	if b.late() {
		return nil, errLate
	}
	return v.cache.Shard(v.objects[n/v.perObject], n%v.perObject)
}

// Cached returns shard n if it is in memory.
func (v *View) Cached(n int) (*artifacts.Shard, bool) {
	return v.cache.Cached(v.objects[n/v.perObject], n%v.perObject)
}

// Keep offers shard n to the memory cache, which may reject it.
func (v *View) Keep(n int, s *artifacts.Shard) {
	v.cache.Keep(v.objects[n/v.perObject], n%v.perObject, s)
}

// FindBound returns the first row whose key is at or after the given key, and the number of its run, or Rows
// and Runs if there is none. The view must have keys.
func (v *View) FindBound(key []byte, b *Budget) (row, run int, err error) {
	n, err := v.FindKey(key, b)
	if err != nil || n < 0 {
		return 0, 0, err
	}
	s, err := v.Shard(n, b)
	if err != nil {
		return 0, 0, err
	}
	j, _ := s.FindKey(key)
	row, run = n*v.perShard+s.Len(), s.FirstRun+j
	if j < s.Runs() {
		start, _ := s.RunRows(j)
		row = n*v.perShard + start
	}
	if j == 0 {
		row -= s.Before
	}
	return row, run, nil
}

// FindID returns the only shard that may contain the row with this id: the last shard that begins at or
// before the id, or -1. The view must be by id.
func (v *View) FindID(id uint64, b *Budget) (int, error) {
	i := sort.Search(len(v.firstID), func(i int) bool { return v.firstID[i] > id })
	return v.find(i-1, func(first *artifacts.Fence) bool { return first.ID > id }, b)
}

// FindKey returns the shard that contains the end of the run with a folded key, if there is such a run. This
// is the last shard that begins at or before the key, or -1. The view must have keys.
func (v *View) FindKey(key []byte, b *Budget) (int, error) {
	i := sort.Search(len(v.firstKey), func(i int) bool { return v.firstKey[i] > string(key) })
	return v.find(i-1, func(first *artifacts.Fence) bool { return first.Key > string(key) }, b)
}

// find returns the last shard of object i whose first row is not after the position that is searched for.
// isAfter reports whether a row is after it, and must return false for the object's first row. If i is -1,
// find returns -1.
func (v *View) find(i int, isAfter func(*artifacts.Fence) bool, b *Budget) (int, error) {
	if i < 0 {
		return -1, nil
	}
	x, err := v.index(i, b)
	if err != nil {
		return 0, err
	}
	n := sort.Search(len(x.Shards)-1, func(n int) bool { return isAfter(&x.Shards[n+1].First) })
	return i*v.perObject + n, nil
}

// index returns the index of object i.
func (v *View) index(i int, b *Budget) (*artifacts.Index, error) {
	if x := v.objects[i].Opened(); x != nil {
		return x, nil
	}
	if b.late() {
		return nil, errLate
	}
	return v.cache.Index(v.objects[i])
}
