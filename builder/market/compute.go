package market

import (
	"cmp"
	"slices"
	"time"

	"example.com/marketdata/artifacts"
	"github.com/holiman/uint256"
)

// Windows are the names of the windows of percent changes, in the order of responses. WindowLengths
// says how far back each reaches (FEED.md, "Figures").
var (
	Windows       = [8]string{"1h", "6h", "12h", "24h", "7d", "30d", "90d", "1y"}
	WindowLengths = [8]time.Duration{
		time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour,
		7 * 24 * time.Hour, 30 * 24 * time.Hour, 90 * 24 * time.Hour, 365 * 24 * time.Hour,
	}
)

const window24h = 3

// GroupFreshness is the maximum age, inclusive, of a listed group's market snapshot. The age is
// relative to the newest market snapshot in its collection (FEED.md, "Groups").
const GroupFreshness = time.Hour

// Past is the data from earlier snapshots that the computation of a snapshot needs. The ledger
// provides it.
type Past struct {
	// Bases[w][q] is the base price of quote q for window w. Zero means a base of zero or the
	// quote's own price: both mean a change of "0".
	Bases [8][]U128
	// Ages gives the age of each base at T in steps of ten minutes. 0 means that the base is the
	// quote's own price.
	Ages [8][]uint16
	// Groups holds, by collection ("categories", "chains") and group id, the newest market snapshot
	// that is earlier than T.
	Groups map[string]map[uint64]GroupMarket
}

// NoPast returns the past of a feed whose assets have no earlier price.
func NoPast(f *Feed) *Past {
	var p Past
	for w := range p.Bases {
		p.Bases[w], p.Ages[w] = make([]U128, len(f.Quotes)), make([]uint16, len(f.Quotes))
	}
	return &p
}

// Settings are the options that affect a snapshot's content.
type Settings struct {
	// The minimum market cap and volume of an asset on the trending board, inclusive, in units of
	// 1e-8 dollars.
	TrendingMinMarketCap U128
	TrendingMinVolume    U128
	// HistoryAssets is the number of quoted assets that get history points. Assets with a rank come
	// first, by rank, followed by the unranked ones, by id. 0 means none.
	HistoryAssets int
}

// DefaultHistoryAssets is the default for HistoryAssets.
const DefaultHistoryAssets = 20_000

// MaxHistoryAssets is the maximum for HistoryAssets. With this number, a build writes five times as
// much history as with the default, about 6 MB, and an edge keeps 400 MB of it.
const MaxHistoryAssets = 100_000

// GroupMarket is one market snapshot of a group.
type GroupMarket struct {
	Time       time.Time
	MarketCap  uint256.Int // units of 1e-8
	Volume     uint256.Int // units of 1e-8
	Coins      int
	Share      uint64 // units of 1e-12, at most 1e12
	TopGainers []uint64
}

// shareOne is the share 1 in units of 1e-12.
const shareOne = 1_000_000_000_000

// Result holds a snapshot's computed figures. Rendering the rows requires only the result and the
// feed.
type Result struct {
	T time.Time
	// Rank is each asset's rank, or 0 if it has none.
	Rank []uint32
	// QuoteOf is the index of each asset's quote, or -1 if it has none.
	QuoteOf []int32
	// ByID maps ids to indices of assets.
	ByID map[uint64]int32
	// Bases and Ages are copied from Past. Change24h is the published change over 24 hours. All are
	// indexed by quote.
	Bases     [8][]U128
	Ages      [8][]uint16
	Change24h []Percent
	// HistoryAssets is copied from the settings.
	HistoryAssets int
	// ActiveAssets is the number of active assets in the directory.
	ActiveAssets int
	// Trending are the quotes on the trending board, best first.
	Trending []int32
	// TotalMarketCap and TotalVolume are in units of 1e-8 dollars.
	TotalMarketCap, TotalVolume uint256.Int
	// Categories and Chains are the listed groups.
	Categories, Chains []ListedGroup
	// Groups are the newest market snapshots as of T, which the ledger stores.
	Groups map[string]map[uint64]GroupMarket
}

// ListedGroup is a listed group with its market snapshot.
type ListedGroup struct {
	Group  int // index into the feed's collection
	Market GroupMarket
}

// Compute computes a snapshot's figures. It is a pure function of its arguments.
// Every row of the feed must have its id.
func Compute(f *Feed, t time.Time, past *Past, set *Settings) *Result {
	r := &Result{T: t, Bases: past.Bases, Ages: past.Ages, HistoryAssets: set.HistoryAssets,
		Groups: map[string]map[uint64]GroupMarket{}}
	r.index(f)
	r.rank(f)
	r.changes(f)
	r.trending(f, set)
	r.totals(f)
	r.Categories = r.groups(f, "categories", f.Categories, past)
	r.Chains = r.groups(f, "chains", f.Chains, past)
	return r
}

func (r *Result) index(f *Feed) {
	r.QuoteOf = make([]int32, len(f.Assets))
	r.ByID = make(map[uint64]int32, len(f.Assets))
	for i := range f.Assets {
		r.QuoteOf[i] = -1
		r.ByID[f.Assets[i].ID] = int32(i)
		if f.Assets[i].Active {
			r.ActiveAssets++
		}
	}
	for q := range f.Quotes {
		r.QuoteOf[f.Quotes[q].Asset] = int32(q)
	}
}

// ranked reports whether a quote counts for ranks, totals and the trending board.
func ranked(f *Feed, q *Quote) bool { return f.Assets[q.Asset].Active && !q.MarketCap.IsZero() }

func (r *Result) rank(f *Feed) {
	order := make([]int32, 0, len(f.Quotes))
	for q := range f.Quotes {
		if ranked(f, &f.Quotes[q]) {
			order = append(order, int32(q))
		}
	}
	slices.SortFunc(order, func(a, b int32) int {
		qa, qb := &f.Quotes[a], &f.Quotes[b]
		if c := qb.MarketCap.Cmp(qa.MarketCap); c != 0 {
			return c
		}
		return cmp.Compare(f.Assets[qa.Asset].ID, f.Assets[qb.Asset].ID)
	})
	r.Rank = make([]uint32, len(f.Assets))
	for i, q := range order {
		r.Rank[f.Quotes[q].Asset] = uint32(i + 1)
	}
}

// Change returns the published change of quote q over window w.
func (r *Result) Change(f *Feed, w, q int) Percent {
	if w == window24h {
		return r.Change24h[q]
	}
	return PercentChange(f.Quotes[q].Price, r.Bases[w][q])
}

// Moved24h returns by how much the price of quote q has moved in 24 hours, and whether it fell.
func (r *Result) Moved24h(f *Feed, q int) (fell bool, by U128) {
	price, base := f.Quotes[q].Price, r.Bases[window24h][q]
	if base.IsZero() {
		return false, by
	}
	return price.Cmp(base) < 0, price.distance(base)
}

// Since returns the time since which there are prices for quote q in the longest window. short
// reports whether that is more than a day after the start of the window (FEED.md, "Figures").
func (r *Result) Since(q int) (t time.Time, short bool) {
	last := len(WindowLengths) - 1
	if q >= len(r.Ages[last]) {
		return t, false
	}
	age := artifacts.Step * time.Duration(r.Ages[last][q])
	return r.T.Add(-age), age < WindowLengths[last]-24*time.Hour
}

// Covered returns a bit for each window. The bit is set if prices of quote q cover at least nine
// tenths of the window. They cover the time since the window's base.
func (r *Result) Covered(q int) (windows uint64) {
	for w, length := range WindowLengths {
		if q < len(r.Ages[w]) && 10*artifacts.Step*time.Duration(r.Ages[w][q]) >= 9*length {
			windows |= 1 << w
		}
	}
	return windows
}

func (r *Result) changes(f *Feed) {
	r.Change24h = make([]Percent, len(f.Quotes))
	bases := r.Bases[window24h]
	for q := range f.Quotes {
		r.Change24h[q] = PercentChange(f.Quotes[q].Price, bases[q])
	}
}

// byGain orders quotes by their 24-hour change, highest first, and breaks ties by id.
func (r *Result) byGain(f *Feed) func(a, b int32) int {
	return func(a, b int32) int {
		if c := r.Change24h[b].Cmp(r.Change24h[a]); c != 0 {
			return c
		}
		return cmp.Compare(f.Assets[f.Quotes[a].Asset].ID, f.Assets[f.Quotes[b].Asset].ID)
	}
}

const trendingLen = 20

func (r *Result) trending(f *Feed, set *Settings) {
	var board []int32
	for q := range f.Quotes {
		quote := &f.Quotes[q]
		if ranked(f, quote) && quote.MarketCap.Cmp(set.TrendingMinMarketCap) >= 0 &&
			quote.Volume.Cmp(set.TrendingMinVolume) >= 0 {
			board = append(board, int32(q))
		}
	}
	slices.SortFunc(board, r.byGain(f))
	r.Trending = board[:min(len(board), trendingLen)]
}

func (u U128) add(sum *uint256.Int) {
	v := uint256.Int{u.Lo, u.Hi}
	sum.Add(sum, &v)
}

func (r *Result) totals(f *Feed) {
	for q := range f.Quotes {
		if quote := &f.Quotes[q]; ranked(f, quote) {
			quote.MarketCap.add(&r.TotalMarketCap)
			quote.Volume.add(&r.TotalVolume)
		}
	}
}

// TotalMarketCap returns the sum of the market caps of a feed's active assets, in units of 1e-8
// dollars, or "" if no market cap is known.
func TotalMarketCap(f *Feed) string {
	var total uint256.Int
	for q := range f.Quotes {
		if quote := &f.Quotes[q]; ranked(f, quote) {
			quote.MarketCap.add(&total)
		}
	}
	if total.IsZero() {
		return ""
	}
	return total.Dec()
}

// groups computes a market snapshot at T for each active group with coins, and
// lists the groups whose newest snapshot is fresh.
func (r *Result) groups(f *Feed, collection string, groups []Group, past *Past) []ListedGroup {
	latest := make(map[uint64]GroupMarket, len(groups))
	newest := time.Time{}
	for id, m := range past.Groups[collection] {
		latest[id] = m
		if m.Time.After(newest) {
			newest = m.Time
		}
	}
	var fresh []ListedGroup
	byGain := r.byGain(f)
	for g := range groups {
		if m, ok := r.market(f, &groups[g], byGain); ok {
			fresh = append(fresh, ListedGroup{g, m})
		}
	}
	shares(groups, fresh)
	for _, l := range fresh {
		latest[groups[l.Group].ID] = l.Market
		newest = r.T
	}
	var listed []ListedGroup
	for g := range groups {
		m, ok := latest[groups[g].ID]
		if ok && groups[g].Active && newest.Sub(m.Time) <= GroupFreshness {
			listed = append(listed, ListedGroup{g, m})
		}
	}
	// Drop snapshots that can never be listed again.
	for id, m := range latest {
		if newest.Sub(m.Time) > GroupFreshness {
			delete(latest, id)
		}
	}
	r.Groups[collection] = latest
	return listed
}

// market computes a group's market snapshot at T. ok is false if the group is inactive or has no
// coins.
func (r *Result) market(f *Feed, g *Group, byGain func(a, b int32) int) (m GroupMarket, ok bool) {
	if !g.Active {
		return m, false
	}
	m.Time = r.T
	var best []int32 // at most three
	for _, a := range g.Members {
		if !f.Assets[a].Active {
			continue
		}
		m.Coins++
		q := r.QuoteOf[a]
		if q < 0 {
			continue
		}
		f.Quotes[q].MarketCap.add(&m.MarketCap)
		f.Quotes[q].Volume.add(&m.Volume)
		at := len(best)
		for at > 0 && byGain(q, best[at-1]) < 0 {
			at--
		}
		if at < 3 {
			best = slices.Insert(best, at, q)
			best = best[:min(len(best), 3)]
		}
	}
	for _, q := range best {
		m.TopGainers = append(m.TopGainers, f.Assets[f.Quotes[q].Asset].ID)
	}
	return m, m.Coins > 0
}

// shares computes each group's share of the sum of all market caps. It rounds shares down, and then
// adds the missing units in the last place to the shares with the largest remainders, breaking ties
// by lower id. So the shares sum to exactly 1 (FEED.md, "Numbers").
func shares(groups []Group, fresh []ListedGroup) {
	var total uint256.Int
	for i := range fresh {
		total.Add(&total, &fresh[i].Market.MarketCap)
	}
	if total.IsZero() {
		return
	}
	one := uint256.NewInt(shareOne)
	rest := make([]uint256.Int, len(fresh))
	missing := uint64(shareOne)
	for i := range fresh {
		var n, share uint256.Int
		// At most 2^63 coins worth 2^128 each, times 2^40, fit in 256 bits.
		n.Mul(&fresh[i].Market.MarketCap, one)
		share.DivMod(&n, &total, &rest[i])
		fresh[i].Market.Share = share.Uint64()
		missing -= share.Uint64()
	}
	order := make([]int, len(fresh))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		if c := rest[b].Cmp(&rest[a]); c != 0 {
			return c
		}
		return cmp.Compare(groups[fresh[a].Group].ID, groups[fresh[b].Group].ID)
	})
	for _, i := range order[:missing] {
		fresh[i].Market.Share++
	}
}
