package render

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/market"
	"github.com/holiman/uint256"
)

// Directory renders the collections for which artifacts.IsDirectory is true. Their rows depend only
// on assets and chains; see source.DirectoryDigest.
func Directory(f *market.Feed, r *market.Result) iter.Seq[*Table] {
	return func(yield func(*Table) bool) {
		p := platformsOf(f, r)
		_ = yield(coinTable(f, p)) && yield(contractTable(f, p)) && yield(platformTable(f, p))
	}
}

// platforms maps the platforms of a feed to their names in answers.
type platforms struct {
	ids   map[string]string        // maps market.Platform.ID to the id in answers
	names map[string]string        // names by market.Platform.ID, for platforms that are not chains
	chain map[string]*market.Group // chains by the id in answers
}

// platformsOf maps each platform to the chain whose slug has the same words. If there are several
// such chains, it chooses the one with the lowest slug. The name of a platform that is not a chain
// is the lowest of the names by which assets refer to it.
func platformsOf(f *market.Feed, r *market.Result) *platforms {
	p := &platforms{map[string]string{}, map[string]string{}, map[string]*market.Group{}}
	chains := map[string]*market.Group{}
	for i := range f.Chains {
		g := &f.Chains[i]
		if id := market.PlatformID(g.Slug); chains[id] == nil || g.Slug < chains[id].Slug {
			chains[id] = g
		}
	}
	for _, l := range r.Chains {
		g := &f.Chains[l.Group]
		p.chain[g.Slug] = g
	}
	for i := range f.Assets {
		for _, of := range f.Assets[i].Platforms {
			name, seen := p.names[of.ID]
			if chain := chains[of.ID]; chain != nil {
				p.ids[of.ID] = chain.Slug
				p.chain[chain.Slug] = chain
			} else if !seen || of.Name < name {
				p.ids[of.ID], p.names[of.ID] = of.ID, of.Name
			}
		}
	}
	return p
}

// tail appends the tail of an asset's row. It reuses the memory of scratch.
func (p *platforms) tail(dst []byte, a *market.Asset, scratch []market.Platform) ([]byte, []market.Platform) {
	scratch = append(scratch[:0], a.Platforms...)
	for i := range scratch {
		scratch[i].ID = p.ids[scratch[i].ID]
	}
	if len(scratch) > 1 { // most assets have at most one platform
		slices.SortFunc(scratch, func(a, b market.Platform) int { return cmp.Compare(a.ID, b.ID) })
	}
	dst = append(dst, `,"platforms":{`...)
	for i, of := range scratch {
		dst = artifacts.AppendString(append(dst, ","[:min(i, 1)]...), of.ID)
		dst = appendKeyString(dst, ":", of.Address)
	}
	return append(dst, "}}"...), scratch
}

// coinRowsPerShard is the number of rows per shard for rows of about a hundred bytes.
const coinRowsPerShard = 4 * RowsPerShard

// coinTable returns the assets in the format of /coins/list.
func coinTable(f *market.Feed, p *platforms) *Table {
	n := len(f.Assets)
	var sorted []market.Platform
	return &Table{
		Collection: artifacts.CoinsCollection, RowsPerShard: coinRowsPerShard,
		IDs: ids(n, func(i int) uint64 { return f.Assets[i].ID }),
		Rows: rows(n, func(dst []byte, i int) []byte {
			a := &f.Assets[i]
			dst = appendKeyString(artifacts.AppendCoin(dst, a.ID), `{"id":`, a.Slug)
			dst = appendKeyString(dst, `,"symbol":`, strings.ToLower(a.Symbol))
			return append(appendKeyString(dst, `,"name":`, a.Name), "}}"...)
		}),
		Tails: rows(n, func(dst []byte, i int) []byte {
			dst, sorted = p.tail(dst, &f.Assets[i], sorted)
			return dst
		}),
		Orders: []Order{{Sort: "id"}},
	}
}

// contractTable returns a row for each contract address of an asset.
func contractTable(f *market.Feed, p *platforms) *Table {
	t := &Table{Collection: artifacts.ContractsCollection, RowsPerShard: marketRowsPerShard}
	var keys [][]byte
	var a arena
	var row, key []byte
	for i := range f.Assets {
		id := f.Assets[i].ID
		row = artifacts.AppendSearchRow(row[:0], id, 0)
		var kept []byte // the row, once the asset has a contract
		for _, of := range f.Assets[i].Platforms {
			if kept == nil {
				kept = a.keep(row)
			}
			key = artifacts.AppendContractKey(key[:0], p.ids[of.ID], []byte(of.Address))
			keys, t.Rows, t.IDs = append(keys, a.keep(key)), append(t.Rows, kept), append(t.IDs, id)
		}
	}
	t.Orders = []Order{{Sort: artifacts.ContractsSort, Index: true, Keys: keys}}
	return t
}

// platformTable returns the items of /asset_platforms.
func platformTable(f *market.Feed, p *platforms) *Table {
	names := map[string]string{}
	for id, name := range p.names {
		names[p.ids[id]] = name
	}
	for id, g := range p.chain {
		names[id] = g.Name
	}
	t := &Table{Collection: artifacts.PlatformsCollection, Orders: []Order{{Sort: "id"}}}
	ids := make([]string, 0, len(names))
	for id := range names {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for i, id := range ids {
		native, shortName := -1, ""
		var evmChainID *uint64
		if g := p.chain[id]; g != nil {
			native, shortName, evmChainID = g.Native, g.DisplayName, g.EVMChainID
		}
		row := appendKeyString(artifacts.AppendCoin(nil, uint64(i+1)), `{"id":`, id)
		row = appendCount(row, `,"chain_identifier":`, evmChainID)
		row = appendKeyString(row, `,"name":`, names[id])
		row = appendKeyString(row, `,"shortname":`, shortName)
		row = append(row, `,"native_coin_id":`...)
		logo := ""
		if native < 0 {
			row = append(row, "null"...)
		} else {
			row, logo = artifacts.AppendString(row, f.Assets[native].Slug), f.Assets[native].Logo
		}
		row = appendKeyString(row, `,"image":{"thumb":`, logo)
		row = appendKeyString(row, `,"small":`, logo)
		row = appendKeyString(row, `,"large":`, logo)
		t.Add(uint64(i+1), append(row, "}}}"...))
	}
	return t
}

// figureTable returns those figures of quotes that are not in the quotes' own rows.
func figureTable(f *market.Feed, r *market.Result) *Table {
	n := len(f.Quotes)
	id := ids(n, func(q int) uint64 { return f.Assets[f.Quotes[q].Asset].ID })
	return &Table{
		Collection: artifacts.FiguresCollection, RowsPerShard: coinRowsPerShard, IDs: id, Orders: []Order{{Sort: "id"}},
		Rows: rows(n, func(dst []byte, q int) []byte {
			neg, by := r.Moved24h(f, q)
			dst = append(artifacts.AppendFigures(dst, id[q]), '"')
			dst = append(market.AppendWide(dst, neg, &uint256.Int{by.Lo, by.Hi}, market.PriceDecimals), '"')
			for _, s := range f.Quotes[q].Supplies {
				if s.IsZero() {
					dst = append(dst, ",null"...)
				} else {
					dst = appendDecimal(dst, ",", s, market.MoneyDecimals)
				}
			}
			return artifacts.AppendCovered(dst, r.Covered(q))
		}),
	}
}

// rateTable returns the rates ordered by code. It adds the dollar's rate if the feed has none.
func rateTable(f *market.Feed) *Table {
	all := slices.Clone(f.Rates)
	if !slices.ContainsFunc(all, func(r market.Rate) bool { return r.Code == market.USD }) {
		all = append(all, market.DollarRate)
	}
	slices.SortFunc(all, func(a, b market.Rate) int { return cmp.Compare(a.Code, b.Code) })
	t := &Table{Collection: artifacts.RatesCollection, Orders: []Order{{Sort: "id"}}}
	for i, r := range all {
		row := appendKeyString(appendID(nil, uint64(i+1)), `,"code":`, r.Code)
		row = appendKeyString(row, `,"name":`, r.Name)
		row = appendKeyString(row, `,"unit":`, r.Unit)
		row = appendKeyString(row, `,"type":`, r.Type)
		row = appendDecimal(row, `,"usd":`, r.USD, market.PriceDecimals)
		if r.Asset >= 0 {
			row = appendCount(row, `,"asset":`, &f.Assets[r.Asset].ID)
		}
		t.Add(uint64(i+1), append(row, '}'))
	}
	return t
}

// leaderTable returns the highest-ranked coins in each listed category.
func leaderTable(f *market.Feed, r *market.Result) *Table {
	const most = 3
	t := &Table{Collection: artifacts.LeadersCollection, Orders: []Order{{Sort: "id"}}}
	for _, l := range r.Categories {
		g := &f.Categories[l.Group]
		best := make([]int, 0, most+1)
		for _, a := range g.Members {
			if r.Rank[a] == 0 {
				continue
			}
			at, _ := slices.BinarySearchFunc(best, a, func(a, b int) int { return cmp.Compare(r.Rank[a], r.Rank[b]) })
			if at < most {
				best = slices.Insert(best, at, a)
				best = best[:min(len(best), most)]
			}
		}
		row := append(appendID(nil, g.ID), `,"top_3_coins_id":[`...)
		for i, a := range best {
			row = artifacts.AppendString(append(row, ","[:min(i, 1)]...), f.Assets[a].Slug)
		}
		row = append(row, `],"top_3_coins":[`...)
		for i, a := range best {
			row = artifacts.AppendString(append(row, ","[:min(i, 1)]...), f.Assets[a].Logo)
		}
		t.Add(g.ID, append(row, "]}"...))
	}
	return t
}
