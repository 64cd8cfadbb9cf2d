package model

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"time"
)

// Settings are the builder's settings that affect answers.
type Settings struct {
	MinMarketCap string        // minimum for the trending board, inclusive
	MinVolume    string        // minimum for the trending board, inclusive
	Retain       time.Duration // how long a snapshot can be pinned
	History      int           // number of assets for which a snapshot has points
	Clock        time.Time     // the edges' clock, for pins in the future; if zero, the time of the newest snapshot
	Notice       *Notice       // the notice of every snapshot; may be nil
}

// Defaults returns the builder's defaults.
func Defaults() Settings {
	return Settings{MinMarketCap: "10000000", MinVolume: "1000000", Retain: time.Hour, History: 20000}
}

// A World is the state of the service: what the builder remembers, and the snapshots that can be
// requested. Use New to create one.
type World struct {
	settings Settings
	state
	retained  []*Snapshot // oldest first; the last one is the newest
	withdrawn []time.Time // times of the snapshots that rollbacks withdrew
	change    *Change     // the last record of the change job; nil before the first
}

// state is what one build passes on to the next.
type state struct {
	ids    map[string]map[string]int64         // permanent ids, by collection and key
	kept   []moment                            // oldest first
	groups map[string]map[string]groupSnapshot // the newest snapshot of each group, by collection and key
	past   *Past
	known  map[string]map[string]int64 // the ids as they were before the newest snapshot
}

// A moment is the part of one snapshot that is kept: the prices by asset key, the assets that have
// history points in it, and the total.
type moment struct {
	time    time.Time
	prices  map[string]*big.Rat
	history map[string]bool
	total   *big.Rat
}

// A groupSnapshot is the market of one group at one time.
type groupSnapshot struct {
	time              time.Time
	marketCap, volume *big.Rat
	coins             int
	share             *big.Rat
	gainers           []string // asset keys, largest gain first
}

// New returns a World without snapshots.
func New(settings Settings) *World {
	return &World{settings: settings, state: state{
		ids: map[string]map[string]int64{}, groups: map[string]map[string]groupSnapshot{},
	}}
}

// SetHistory changes the number of assets that have points, starting with the next build.
func (w *World) SetHistory(n int) { w.settings.History = n }

// A Report is the result of a build.
type Report struct {
	Time      time.Time
	Published bool
	Counts    map[string]int // rows accepted, by collection
	Rejected  map[string]int // rows set aside, by collection
}

// ErrOlder means that the time of a build is not after the time of the newest snapshot.
var ErrOlder = errors.New("older than the published snapshot, or the same with other rows")

// Build builds the snapshot of a feed at the given time or, if that is zero, at the feed's own
// time, rounded down to ten minutes. Building the same files at the same time again changes
// nothing. The model has no guard rails against suspicious feeds: it behaves as with --force.
func (w *World) Build(files Files, at time.Time) (Report, error) {
	f, ids, err := readFeed(files, w.ids)
	if err != nil {
		return Report{}, err
	}
	if at.IsZero() {
		at = f.time
	}
	at = at.UTC().Truncate(10 * time.Minute)
	report := Report{
		Time: at, Published: true, Rejected: f.rejected,
		Counts: map[string]int{
			assets: len(f.assets), quotes: f.rows[quotes] - f.rejected[quotes], exchanges: len(f.exchanges),
			categories: len(f.groups[categories]), chains: len(f.groups[chains]),
			rates: len(f.rates),
		},
	}
	if newest := w.Newest(); newest != nil {
		if at.Equal(newest.Time) && maps.Equal(files, newest.files) {
			report.Published = false
			return report, nil
		}
		if !at.After(newest.Time) {
			return Report{}, fmt.Errorf("%s: %w", at.Format(time.RFC3339), ErrOlder)
		}
		if slices.ContainsFunc(w.withdrawn, at.Equal) {
			return Report{}, fmt.Errorf("%s was withdrawn", at.Format(time.RFC3339))
		}
	}

	w.advance(f, ids, at)
	w.publish(f, files, at)
	return report, nil
}

// advance remembers the ids, prices and groups of a feed.
func (w *World) advance(f *feed, ids map[string]map[string]int64, at time.Time) {
	next := state{ids: map[string]map[string]int64{}, groups: map[string]map[string]groupSnapshot{}, known: w.ids}
	for _, collection := range []string{assets, exchanges, categories, chains} {
		next.ids[collection] = maps.Clone(w.ids[collection])
		if next.ids[collection] == nil {
			next.ids[collection] = map[string]int64{}
		}
		maps.Copy(next.ids[collection], ids[collection])
	}
	rankAssets(f.assets)
	total, _ := totals(f.assets)
	now := moment{time: at, prices: map[string]*big.Rat{}, history: members(f.assets, w.settings.History), total: total}
	for _, a := range f.assets {
		if a.price != nil {
			now.prices[a.key] = a.price
		}
	}
	next.kept = thin(append(slices.Clone(w.kept), now), at)
	said := Seen{Time: at, Assets: map[int64]Quoted{}}
	for _, a := range f.assets {
		if now.history[a.key] {
			said.Assets[a.id] = Quoted{a.price, a.marketCap, a.volume}
		}
	}
	next.past = w.past.add(said)
	for _, a := range f.assets {
		if a.price != nil {
			a.covered = map[string]bool{}
			for i, w := range windows {
				b, from := base(next.kept, a.key, at.Add(-w))
				a.changes = append(a.changes, percent(b, a.price))
				a.covered[windowNames[i]] = at.Sub(from) >= w*9/10
				if i == len(windows)-1 && from.After(at.Add(24*time.Hour-w)) {
					a.since = from
				}
			}
			a.moved = new(big.Rat)
			if b, _ := base(next.kept, a.key, at.Add(-windows[day])); b.Sign() > 0 {
				a.moved.Sub(a.price, b)
			}
		}
	}
	for _, collection := range []string{categories, chains} {
		next.groups[collection] = maps.Clone(w.groups[collection])
		if next.groups[collection] == nil {
			next.groups[collection] = map[string]groupSnapshot{}
		}
		maps.Copy(next.groups[collection], groupSnapshots(f, collection, at))
	}

	w.state = next
}

// publish creates a snapshot from the most recently remembered feed, and makes it the newest one.
func (w *World) publish(f *feed, files Files, at time.Time) {
	s := render(f, w.state, w.settings, at)
	marketCap, volume := totals(f.assets)
	s.TotalMarketCap, s.TotalVolume = decimal(marketCap, amountPlaces), decimal(volume, amountPlaces)
	s.Series, s.Coins = series(w.kept, w.ids[assets], at), newCoins(f, w.state)
	s.Past = w.past
	s.files, s.state, s.items = files, w.state, listed(f, w.state)
	s.record(w.Newest(), w.known)
	w.retain(s)
}

// Backfill remembers feeds that are newer than the newest snapshot. They must be in order of time,
// and each is remembered at its own time. The last one is published.
func (w *World) Backfill(feeds []Files) error {
	for i, files := range feeds {
		f, ids, err := readFeed(files, w.ids)
		if err != nil {
			return err
		}
		at := f.time.UTC().Truncate(10 * time.Minute)
		if newest := w.Newest(); newest != nil && !at.After(newest.Time) {
			return ErrOlder
		}
		w.advance(f, ids, at)
		if i == len(feeds)-1 {
			w.publish(f, files, at)
		}
	}
	return nil
}

// retain makes s the newest snapshot. It keeps the preceding snapshot and all that are not too old.
func (w *World) retain(s *Snapshot) {
	previous := len(w.retained) - 1
	var kept []*Snapshot
	for i, old := range w.retained {
		if i == previous || !old.Time.Before(s.Time.Add(-w.settings.Retain)) {
			kept = append(kept, old)
		}
	}
	w.retained = append(kept, s)
}

// Newest returns the newest snapshot, or nil before the first.
func (w *World) Newest() *Snapshot {
	if len(w.retained) == 0 {
		return nil
	}
	return w.retained[len(w.retained)-1]
}

// Changed returns the newest record of the change job, or nil before the first.
func (w *World) Changed() *Change { return w.change }

// Retained returns the snapshots that can be pinned, oldest first.
func (w *World) Retained() []*Snapshot { return slices.Clone(w.retained) }

// Change runs the job that records the 24-hour change of the total. now is the time by the job's
// own clock.
func (w *World) Change(now time.Time) {
	newest := w.Newest()
	if newest == nil {
		return
	}
	value := w.kept[len(w.kept)-1]
	base := value
	for _, m := range slices.Backward(w.kept) {
		if m.total != nil && !m.time.Before(value.time.Add(-24*time.Hour)) {
			base = m
		}
	}
	w.change = &Change{
		Time: now, Database: newest.Database, Value: decimal(percent(base.total, value.total), percentPlaces)}
}

// Rollback makes an earlier retained snapshot the newest again. It keeps the ids that were assigned
// since then, forgets everything else, and records the change again at time now.
func (w *World) Rollback(to, now time.Time) error {
	i := slices.IndexFunc(w.retained, func(s *Snapshot) bool { return s.Time.Equal(to) })
	if i < 0 {
		return fmt.Errorf("no snapshot of %s is retained", to.Format(time.RFC3339))
	}
	ids := w.ids
	if newest := w.Newest(); newest != w.retained[i] {
		w.retained[i].way = takeBack(newest, w.retained[i])
	}
	for _, s := range w.retained[i+1:] {
		w.withdrawn = append(w.withdrawn, s.Time)
	}
	w.retained = slices.Clone(w.retained[:i+1])
	w.state = w.Newest().state
	w.ids = ids
	w.Change(now)
	return nil
}

// Restore replaces the snapshots with those of a backup, oldest first. It keeps the ids that were
// assigned since the backup, but no other changes.
func (w *World) Restore(backup []*Snapshot) {
	lost := w.Newest().Time
	ids := w.ids
	w.retained = slices.Clone(backup)
	w.state = w.Newest().state
	w.ids = ids
	w.Newest().way = &way{after: lost, through: lost, lost: true}
}

// thin returns the moments that a store keeps at the given time (FEED.md, "Figures"). The moments
// must be in order of time.
func thin(all []moment, at time.Time) []moment {
	const day = 24 * time.Hour
	hours, days := map[time.Time]bool{}, map[time.Time]bool{} // those whose first moment has been seen
	var kept []moment
	for _, m := range all {
		age := at.Sub(m.time)
		hour, date := m.time.Truncate(time.Hour), m.time.Truncate(day)
		keep := false
		switch {
		case age < 48*time.Hour:
			keep = true
		case age <= 90*day:
			keep = !hours[hour]
		case age <= 366*day:
			keep = !days[date]
		}
		hours[hour], days[date] = true, true
		if keep {
			kept = append(kept, m)
		}
	}
	return kept
}

// windows are the windows of percent_change, in the order of the response.
var windows = []time.Duration{
	time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour, 7 * 24 * time.Hour, 30 * 24 * time.Hour,
	90 * 24 * time.Hour, 365 * 24 * time.Hour,
}

var windowNames = []string{"1h", "6h", "12h", "24h", "7d", "30d", "90d", "1y"}

// day is the index of the 24-hour window.
const day = 3

// base returns an asset's earliest kept price since a given time, and that price's time. The asset
// must have at least one price since then.
func base(kept []moment, key string, since time.Time) (*big.Rat, time.Time) {
	for _, m := range kept {
		if price := m.prices[key]; price != nil && !m.time.Before(since) {
			return price, m.time
		}
	}
	panic("model: a quoted asset has no price")
}

// rankAssets ranks the active assets with a known market cap, largest first. Ties are broken by id.
func rankAssets(all []*asset) {
	var ranked []*asset
	for _, a := range all {
		if a.active && a.marketCap != nil {
			ranked = append(ranked, a)
		}
	}
	slices.SortFunc(ranked, func(a, b *asset) int {
		return cmp.Or(b.marketCap.Cmp(a.marketCap), cmp.Compare(a.id, b.id))
	})
	for i, a := range ranked {
		a.rank = i + 1
	}
}

// totals returns the sums of the market caps and volumes of all active assets with a known market
// cap.
func totals(all []*asset) (marketCap, volume *big.Rat) {
	marketCap, volume = new(big.Rat), new(big.Rat)
	for _, a := range all {
		if a.active && a.marketCap != nil {
			marketCap.Add(marketCap, a.marketCap)
			volume.Add(volume, a.volume)
		}
	}
	return marketCap, volume
}

// byDayChange compares assets by their 24-hour change, highest first. Ties are broken by id.
func byDayChange(a, b *asset) int {
	return cmp.Or(b.changes[day].Cmp(a.changes[day]), cmp.Compare(a.id, b.id))
}

// board returns the trending board: at most 20 active assets that reach both minimums, highest
// 24-hour change first.
func board(all []*asset, settings Settings) []*asset {
	minimum := func(text string) *big.Rat {
		x, err := readDecimal(text, amountPlaces, amountDigits)
		if err != nil {
			panic("model: minimum of the trending board: " + err.Error())
		}
		return x
	}
	minMarketCap, minVolume := minimum(settings.MinMarketCap), minimum(settings.MinVolume)
	var b []*asset
	for _, a := range all {
		if a.active && a.marketCap != nil && a.marketCap.Cmp(minMarketCap) >= 0 && a.volume.Cmp(minVolume) >= 0 {
			b = append(b, a)
		}
	}
	slices.SortFunc(b, byDayChange)
	return b[:min(len(b), 20)]
}

// groupSnapshots returns the market snapshots of a collection's groups at the given time, by key. It
// omits groups that get none at that time.
func groupSnapshots(f *feed, collection string, at time.Time) map[string]groupSnapshot {
	directory := map[string]*asset{}
	for _, a := range f.assets {
		directory[a.key] = a
	}
	type entry struct {
		group *group
		groupSnapshot
	}
	var got []entry // sorted by id, like the groups
	sum := new(big.Rat)
	for _, g := range f.groups[collection] {
		if !g.active {
			continue
		}
		s := groupSnapshot{time: at, marketCap: new(big.Rat), volume: new(big.Rat)}
		var quoted []*asset
		seen := map[string]bool{}
		for _, key := range g.members {
			a := directory[key]
			if a == nil || !a.active || seen[key] {
				continue
			}
			seen[key] = true
			s.coins++
			if a.marketCap != nil {
				s.marketCap.Add(s.marketCap, a.marketCap)
			}
			if a.price != nil {
				s.volume.Add(s.volume, a.volume)
				quoted = append(quoted, a)
			}
		}
		if s.coins == 0 {
			continue
		}
		slices.SortFunc(quoted, byDayChange)
		for _, a := range quoted[:min(len(quoted), 3)] {
			s.gainers = append(s.gainers, a.key)
		}
		sum.Add(sum, s.marketCap)
		got = append(got, entry{g, s})
	}

	// Round the shares down. Then add the missing units to the shares with the largest remainders;
	// ties go to the lower id.
	marketCaps := make([]*big.Rat, len(got))
	for i, e := range got {
		marketCaps[i] = e.marketCap
	}
	snapshots := map[string]groupSnapshot{}
	for i, share := range shares(marketCaps) {
		got[i].share = share
		snapshots[got[i].group.key] = got[i].groupSnapshot
	}
	return snapshots
}

// shares divides amounts by their sum so that the shares sum to exactly 1. All shares are zero if
// the sum is zero. The amounts must be sorted by id.
func shares(amounts []*big.Rat) []*big.Rat {
	sum := new(big.Rat)
	for _, x := range amounts {
		sum.Add(sum, x)
	}
	all := make([]*big.Rat, len(amounts))
	if sum.Sign() == 0 {
		for i := range all {
			all[i] = new(big.Rat)
		}
		return all
	}
	one := tenTo(sharePlaces) // one in units of the last place
	units := make([]*big.Int, len(amounts))
	rests := make([]*big.Rat, len(amounts))
	missing := new(big.Int).Set(one)
	order := make([]int, len(amounts))
	for i, x := range amounts {
		exact := new(big.Rat).Quo(x, sum)
		exact.Mul(exact, new(big.Rat).SetInt(one))
		units[i] = new(big.Int).Quo(exact.Num(), exact.Denom())
		rests[i] = new(big.Rat).Sub(exact, new(big.Rat).SetInt(units[i]))
		missing.Sub(missing, units[i])
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return rests[b].Cmp(rests[a]) })
	for _, i := range order[:missing.Int64()] {
		units[i].Add(units[i], big.NewInt(1))
	}
	for i := range all {
		all[i] = new(big.Rat).SetFrac(units[i], one)
	}
	return all
}

// visibleGroups returns the groups in a collection's listing: those that are in the feed, active,
// and have a snapshot no more than an hour older than the newest one of the collection.
func visibleGroups(f *feed, st state, collection string) []*group {
	var newest time.Time
	for _, s := range st.groups[collection] {
		if s.time.After(newest) {
			newest = s.time
		}
	}
	var visible []*group
	for _, g := range f.groups[collection] {
		s, ok := st.groups[collection][g.key]
		if ok && g.active && newest.Sub(s.time) <= time.Hour {
			visible = append(visible, g)
		}
	}
	return visible
}
