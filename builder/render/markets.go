package render

import (
	"bytes"
	"cmp"
	"math"
	"slices"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/market"
)

// sortWindows are the percent_change windows by which /markets can sort, as indexes into
// market.Windows.
var sortWindows = [...]int{0, 3, 4, 5}

// marketRowsPerShard is the number of rows per shard for rows of a few bytes.
const marketRowsPerShard = 1024

// marketTable returns the sort orders of /markets that the quotes collection does not have. Its
// rows refer to the quotes by id. A single view with whole rows would take as many bytes as all
// these views together.
func marketTable(f *market.Feed, r *market.Result) *Table {
	n := len(f.Quotes)
	id := ids(n, func(i int) uint64 { return f.Assets[f.Quotes[i].Asset].ID })
	rank := func(q int) uint32 { return r.Rank[f.Quotes[q].Asset] }
	t := &Table{
		Collection: artifacts.MarketsCollection, RowsPerShard: marketRowsPerShard, TailsByID: true, IDs: id,
		Rows: rows(n, func(dst []byte, i int) []byte { return artifacts.AppendSearchRow(dst, id[i], rank(i)) }),
	}
	figure := func(sort string, value func(q *market.Quote) market.U128) Order {
		at := func(q int32) market.U128 { return value(&f.Quotes[q]) }
		return Order{Sort: sort, Prefix: func(q int32) uint64 { return at(q).Prefix() },
			Compare: func(a, b int32) int { return at(a).Cmp(at(b)) }}
	}
	// Rank 0 minus 1 wraps around to the highest number, so unranked rows come last.
	place := func(q int32) uint64 { return uint64(rank(int(q)) - 1) }
	t.Orders = []Order{
		{Sort: "rank", Prefix: place, Compare: func(a, b int32) int { return cmp.Compare(place(a), place(b)) },
			Last: func(q int32) bool { return rank(int(q)) == 0 }},
		knownCapsFirst(f),
		figure("volume", func(q *market.Quote) market.U128 { return q.Volume }),
		figure("price", func(q *market.Quote) market.U128 { return q.Price }),
	}
	for _, w := range sortWindows {
		t.Orders = append(t.Orders, Order{Sort: "percent_change." + market.Windows[w],
			Prefix:  func(q int32) uint64 { return r.Change(f, w, int(q)).Prefix() },
			Compare: func(a, b int32) int { return r.Change(f, w, int(a)).Cmp(r.Change(f, w, int(b))) }})
	}
	// A page sorted by name looks up each asset's rank here, usually in a different shard.
	t.Orders = append(t.Orders, Order{Sort: "id", Index: true, RowsPerShard: RowsPerShard})
	t.addGroups(f, r)
	return t
}

// knownCapsFirst returns the order by market cap. Unknown market caps come last.
func knownCapsFirst(f *market.Feed) Order {
	unknown := func(q int32) bool { return f.Quotes[q].MarketCap.IsZero() }
	return Order{Sort: "market_cap", Last: unknown,
		Prefix: func(q int32) uint64 {
			if unknown(q) {
				return math.MaxUint64
			}
			return f.Quotes[q].MarketCap.Prefix()
		},
		Compare: func(a, b int32) int {
			if unknown(a) != unknown(b) {
				if unknown(a) {
					return 1
				}
				return -1
			}
			return f.Quotes[a].MarketCap.Cmp(f.Quotes[b].MarketCap)
		}}
}

// addGroups adds the members of the listed groups to t. It also adds to each row a tail with its
// groups.
func (t *Table) addGroups(f *market.Feed, r *market.Result) {
	var slugs [len(artifacts.GroupSorts)]groupsOf
	for k, groups := range [...][]market.Group{f.Categories, f.Chains} {
		listed := [...][]market.ListedGroup{r.Categories, r.Chains}[k]
		of := make([]*market.Group, len(listed))
		for i := range listed {
			of[i] = &groups[listed[i].Group]
		}
		isListed := func(a int) bool { return r.QuoteOf[a] >= 0 && f.Assets[a].Active }
		slugs[k] = newGroupsOf(len(f.Assets), of, isListed)
		m := Members{Sort: artifacts.GroupSorts[k].Sort, Starts: []int32{0}}
		keys := make(map[*market.Group][]byte, len(of))
		for _, g := range of {
			keys[g] = artifacts.AppendFold(nil, []byte(g.Slug))
		}
		slices.SortFunc(of, func(a, b *market.Group) int { return bytes.Compare(keys[a], keys[b]) })
		for _, g := range of {
			start := len(m.Rows)
			for _, a := range g.Members {
				if isListed(a) {
					m.Rows = append(m.Rows, r.QuoteOf[a])
				}
			}
			if len(m.Rows) == start {
				continue // a run must not be empty
			}
			slices.SortFunc(m.Rows[start:], func(a, b int32) int { return cmp.Compare(t.IDs[a], t.IDs[b]) })
			m.Keys, m.Starts = append(m.Keys, keys[g]), append(m.Starts, int32(len(m.Rows)))
		}
		t.Members = append(t.Members, m)
	}
	t.Tails = rows(len(f.Quotes), func(dst []byte, q int) []byte {
		dst = append(dst, `,"groups":{`...)
		for k, of := range artifacts.GroupSorts {
			dst = append(append(append(dst, ",\""[1-min(k, 1):]...), of.Groups...), "\":["...)
			dst = append(slugs[k].append(dst, f.Quotes[q].Asset), ']')
		}
		return append(dst, "}}"...)
	})
}

// groupsOf holds the groups of each asset, in slug order.
type groupsOf struct {
	slugs       [][]byte // slugs as JSON
	starts      []int32  // by asset, indexes into slugIndexes; the last element is the end
	slugIndexes []int32  // indexes into slugs, asset after asset
}

func newGroupsOf(assets int, groups []*market.Group, isListed func(asset int) bool) groupsOf {
	groups = slices.Clone(groups)
	slices.SortFunc(groups, func(a, b *market.Group) int { return cmp.Compare(a.Slug, b.Slug) })
	g := groupsOf{slugs: make([][]byte, len(groups)), starts: make([]int32, assets+1)}
	each := func(do func(i int32, asset int)) {
		for i, group := range groups {
			for _, a := range group.Members {
				if isListed(a) {
					do(int32(i), a)
				}
			}
		}
	}
	each(func(_ int32, asset int) { g.starts[asset+1]++ })
	for a := range assets {
		g.starts[a+1] += g.starts[a]
	}
	next := slices.Clone(g.starts)
	g.slugIndexes = make([]int32, g.starts[assets])
	each(func(i int32, asset int) {
		g.slugIndexes[next[asset]] = i
		next[asset]++
	})
	for i := range groups {
		g.slugs[i] = artifacts.AppendString(nil, groups[i].Slug)
	}
	return g
}

// append appends the slugs of an asset's groups, separated by commas.
func (g *groupsOf) append(dst []byte, asset int) []byte {
	for i, group := range g.slugIndexes[g.starts[asset]:g.starts[asset+1]] {
		dst = append(append(dst, ","[:min(i, 1)]...), g.slugs[group]...)
	}
	return dst
}
