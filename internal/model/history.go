package model

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// history is the endpoint of prices over time.
const history = "history"

// A Window is a window of /history.
type Window struct {
	// Name is the window's name in requests and answers. Interval is the name that answers use
	// for Step, the distance between points.
	Name, Interval string
	// Length is how far the window reaches back.
	Length, Step time.Duration
}

// Windows are the windows of /history, shortest first.
var Windows = []Window{
	{"24h", "10m", 24 * time.Hour, 10 * time.Minute},
	{"7d", "1h", 7 * 24 * time.Hour, time.Hour},
	{"30d", "4h", 30 * 24 * time.Hour, 4 * time.Hour},
	{"90d", "12h", 90 * 24 * time.Hour, 12 * time.Hour},
	{"1y", "1d", 365 * 24 * time.Hour, 24 * time.Hour},
}

const defaultWindow = "7d"

// FindWindow returns the window with the given name, or nil.
func FindWindow(name string) *Window {
	if i := slices.IndexFunc(Windows, func(w Window) bool { return w.Name == name }); i >= 0 {
		return &Windows[i]
	}
	return nil
}

// begin returns when the interval that contains t begins: the latest whole multiple of the step
// since 1970 that is not after t.
func (w *Window) begin(t time.Time) time.Time {
	step := int64(w.Step / time.Second)
	return time.Unix(t.Unix()-t.Unix()%step, 0).UTC()
}

// Has reports whether a point at time t belongs to the window of the snapshot with the time
// snapshotTime. This is the case if the point's interval begins in [snapshotTime − Length,
// snapshotTime], or if t equals snapshotTime.
func (w *Window) Has(t, snapshotTime time.Time) bool {
	return !t.After(snapshotTime) && (t.Equal(snapshotTime) || !w.begin(t).Before(snapshotTime.Add(-w.Length)))
}

// A Point is the price of an asset in one snapshot.
type Point struct {
	Time  time.Time
	Price string
}

// A Series contains the points of one window in one snapshot.
type Series struct {
	// Listed contains the ids of all assets with points in the window, even if they are no longer
	// in the directory.
	Listed map[int64]bool
	// Points returns an asset's points, oldest first.
	Points func(id int64) []Point
}

// historyItem is an item of /history.
type historyItem struct {
	ID       int64       `json:"id"`
	Name     text        `json:"name"`
	Symbol   text        `json:"symbol"`
	Slug     text        `json:"slug"`
	Window   string      `json:"window"`
	Interval string      `json:"interval"`
	Points   [][2]string `json:"points"`
}

func (i *historyItem) row() Row { return newRow(i.ID, i.Name, i.Symbol, i.Slug, i) }

// check verifies the rules that every item follows in any snapshot: its points ascend, there is at
// most one per interval apart from the snapshot's own, and none is older than the window.
func (i *historyItem) check() error {
	w := FindWindow(i.Window)
	if i.Window == windowMax {
		w = &Window{windowMax, "1d", 1 << 62, 24 * time.Hour}
	}
	if w == nil || i.Interval != w.Interval || len(i.Points) == 0 {
		return fmt.Errorf("window %q, interval %q, %d points", i.Window, i.Interval, len(i.Points))
	}
	var times []time.Time
	for _, p := range i.Points {
		if !IsSnapshotTime(p[0]) {
			return fmt.Errorf("a point at %q", p[0])
		}
		t, _ := time.Parse(TimeFormat, p[0])
		times = append(times, t)
		if err := figures(pricePlaces, false, p[1]); err != nil {
			return err
		}
	}
	last := len(times) - 1
	for n := 1; n <= last; n++ {
		if !times[n].After(times[n-1]) || n < last && w.begin(times[n]).Equal(w.begin(times[n-1])) {
			return fmt.Errorf("a point at %s behind one at %s", i.Points[n][0], i.Points[n-1][0])
		}
	}
	if !w.Has(times[0], times[last]) {
		return fmt.Errorf("points from %s to %s", i.Points[0][0], i.Points[last][0])
	}
	return nil
}

// ReadPrices parses a row of history as a store keeps it. priceCount is the number of prices that the
// row must contain. A missing price is nil. The error says what is wrong with the row.
func ReadPrices(published []byte, priceCount int) (id int64, prices []*string, err error) {
	var row struct {
		ID     int64     `json:"id"`
		Prices []*string `json:"prices"`
	}
	if err := json.Unmarshal(published, &row); err != nil {
		return 0, nil, err
	}
	if again := write(&row); again != string(published) {
		err = errors.New(Difference(string(published), again))
	}
	none := true
	for _, p := range row.Prices {
		if p != nil {
			none = false
			err = errors.Join(err, figures(pricePlaces, false, *p))
		}
	}
	if none || len(row.Prices) != priceCount {
		err = errors.Join(
			err, fmt.Errorf("%d prices, want %d and one at least that is not null", len(row.Prices), priceCount))
	}
	return row.ID, row.Prices, err
}

// Listing returns the name of the listing whose rows a query reads: the endpoint's listing, a
// window of /history, or the assets that a search examines.
func (q *Query) Listing() string {
	switch {
	case q.Window != "":
		return q.Endpoint + " " + q.Window
	case q.Endpoint == candles, q.Endpoint == prices:
		return past
	case q.Endpoint == search:
		return assets
	}
	return q.Endpoint
}

// Items names the kind of items in an answer, for [ReadRow]. Candles and prices list the same
// assets but have different items.
func (q *Query) Items() string {
	if q.Listing() == past {
		return q.Endpoint
	}
	return q.Listing()
}

// listed returns the rows of a listing. For /history they are the assets with points in the window.
func (s *Snapshot) listed(listing string) []*Row {
	if listing == past {
		if s.Past == nil || len(s.Past.All)+len(s.Past.Days) == 0 {
			return nil
		}
		return pointers(s.Lists[assets])
	}
	window, ok := strings.CutPrefix(listing, history+" ")
	if !ok {
		return pointers(s.Lists[listing])
	}
	series := s.SeriesOf(window)
	return slices.DeleteFunc(
		pointers(s.Lists[assets]), func(r *Row) bool { return series == nil || !series.Listed[r.ID] })
}

// SeriesOf returns the points of a window, which may be "max", or nil if the snapshot does not have
// the window.
func (s *Snapshot) SeriesOf(window string) *Series {
	if window == windowMax && s.Past != nil {
		return s.Past.max(s.Time)
	}
	return s.Series[window]
}

// withPoints returns rows of assets as items of /history.
func (s *Snapshot) withPoints(window string, rows []*Row) (items []*Row) {
	interval := "1d" // the interval of the window "max"
	if w := FindWindow(window); w != nil {
		interval = w.Interval
	}
	for _, r := range rows {
		i := &historyItem{ID: r.ID, Name: text(r.asName), Symbol: text(r.asSymbol), Slug: text(r.asSlug),
			Window: window, Interval: interval}
		for _, p := range s.SeriesOf(window).Points(r.ID) {
			i.Points = append(i.Points, [2]string{timestamp(p.Time), p.Price})
		}
		item := i.row()
		items = append(items, &item)
	}
	return items
}

// members returns the keys of the first n quoted assets by rank; assets without a rank follow, by
// id.
func members(all []*asset, n int) map[string]bool {
	var quoted []*asset
	for _, a := range all {
		if a.price != nil {
			quoted = append(quoted, a)
		}
	}
	slices.SortFunc(quoted, func(a, b *asset) int {
		switch {
		case a.rank == 0 && b.rank != 0:
			return 1
		case a.rank != 0 && b.rank == 0:
			return -1
		}
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.id, b.id))
	})
	keys := map[string]bool{}
	for _, a := range quoted[:min(n, len(quoted))] {
		keys[a.key] = true
	}
	return keys
}

// series returns the history windows of the snapshot with the given time, built from the kept
// snapshots. ids maps the keys of assets to their ids.
func series(kept []moment, ids map[string]int64, at time.Time) map[string]*Series {
	all := map[string]*Series{}
	for _, w := range Windows {
		// The chain has the first kept moment of each interval, and the snapshot's own moment.
		var chain []moment
		for _, m := range kept {
			first := !slices.ContainsFunc(chain, func(c moment) bool { return w.begin(c.time).Equal(w.begin(m.time)) })
			if m.time.Equal(at) || first && w.Has(m.time, at) {
				chain = append(chain, m)
			}
		}
		s := &Series{Listed: map[int64]bool{}}
		keys := map[int64]string{}
		for key, id := range ids {
			keys[id] = key
			s.Listed[id] = slices.ContainsFunc(chain, func(m moment) bool { return m.history[key] })
		}
		s.Points = func(id int64) (points []Point) {
			for _, m := range chain {
				if m.history[keys[id]] {
					points = append(points, Point{m.time, decimal(m.prices[keys[id]], pricePlaces)})
				}
			}
			return points
		}
		all[w.Name] = s
	}
	return all
}
