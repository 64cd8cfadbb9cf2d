package ledger

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/market"
)

// groupCollections are the collections whose rows are groups of assets.
var groupCollections = []string{"categories", "chains"}

// maxGroupsPlain is the maximum size of a decompressed groups object, in bytes.
const maxGroupsPlain = 64 << 20

// groupRow is the stored form of one group's newest market snapshot. The object is a JSON array of
// groupRows in ascending order of id, compressed as one zstd frame.
type groupRow struct {
	ID         uint64    `json:"id"`
	Time       time.Time `json:"time"`
	MarketCap  string    `json:"market_cap"` // units of 1e-8
	Volume     string    `json:"volume"`     // units of 1e-8
	Coins      int       `json:"coins"`
	Share      uint64    `json:"share"` // units of 1e-12
	TopGainers []uint64  `json:"top_gainers,omitempty"`
}

// putGroups stores the market snapshots of one collection. ok is false if there are none.
func putGroups(groups map[uint64]market.GroupMarket, put *objects) (ref artifacts.Ref, ok bool) {
	if len(groups) == 0 {
		return ref, false
	}
	rows := make([]groupRow, 0, len(groups))
	for _, id := range slices.Sorted(maps.Keys(groups)) {
		m := groups[id]
		rows = append(rows, groupRow{id, m.Time.UTC(), m.MarketCap.Dec(), m.Volume.Dec(), m.Coins, m.Share,
			m.TopGainers})
	}
	b, err := json.Marshal(rows)
	if err != nil {
		panic("BUG: groups: " + err.Error())
	}
	return put.add(artifacts.Compress(nil, b)), true
}

func parseGroups(b []byte) (map[uint64]market.GroupMarket, error) {
	plain, err := artifacts.DecompressBounded(b, maxGroupsPlain)
	if err != nil {
		return nil, err
	}
	var rows []groupRow
	if err := json.Unmarshal(plain, &rows); err != nil {
		return nil, fmt.Errorf("%w: %w", artifacts.ErrCorrupt, err)
	}
	groups := make(map[uint64]market.GroupMarket, len(rows))
	for _, r := range rows {
		m := market.GroupMarket{Time: r.Time.UTC(), Coins: r.Coins, Share: r.Share, TopGainers: r.TopGainers}
		if err := m.MarketCap.SetFromDecimal(r.MarketCap); err != nil {
			return nil, fmt.Errorf("%w: market cap of group %d: %w", artifacts.ErrCorrupt, r.ID, err)
		}
		if err := m.Volume.SetFromDecimal(r.Volume); err != nil {
			return nil, fmt.Errorf("%w: volume of group %d: %w", artifacts.ErrCorrupt, r.ID, err)
		}
		groups[r.ID] = m
	}
	return groups, nil
}

// groups reads each group's newest market snapshot. The result is indexed by collection, then by
// id.
func (l *Ledger) groups(ctx context.Context) (map[string]map[uint64]market.GroupMarket, error) {
	all := map[string]map[uint64]market.GroupMarket{}
	for _, c := range groupCollections {
		ref, ok := l.root.Groups[c]
		if !ok {
			continue
		}
		b, err := artifacts.ReadObject(ctx, l.reader, ref)
		if err != nil {
			return nil, err
		}
		if all[c], err = parseGroups(b); err != nil {
			return nil, fmt.Errorf("object %s: %w", ref.Digest, err)
		}
	}
	return all, nil
}
