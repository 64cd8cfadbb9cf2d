// Package render renders a computed snapshot into the rows that answers contain, and cuts them into
// views, shards and objects. It does no I/O and reads no clock: equal arguments produce equal
// bytes.
package render

import (
	"strconv"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/market"
)

// timeFormat is the time format in answers: RFC 3339 in UTC with whole seconds.
const timeFormat = "2006-01-02T15:04:05Z"

// arena holds many byte strings in a few large blocks, so that a million rows do not need a million
// allocations. Each block is twice as long as the previous one, up to arenaBlock, so a table with
// ten rows does not allocate a mebibyte.
type arena struct{ block []byte }

const arenaBlock = 1 << 20

// keep copies b into the arena.
func (a *arena) keep(b []byte) []byte {
	if len(b) > cap(a.block)-len(a.block) {
		a.block = make([]byte, 0, max(min(2*cap(a.block), arenaBlock), 4<<10, len(b)))
	}
	n := len(a.block)
	a.block = append(a.block, b...)
	return a.block[n:len(a.block):len(a.block)]
}

// appendKeyString appends key, which ends in a colon, and s.
func appendKeyString(dst []byte, key, s string) []byte {
	return artifacts.AppendString(append(dst, key...), s)
}

func appendDecimal(dst []byte, key string, u market.U128, decimals int) []byte {
	dst = append(dst, key...)
	dst = append(dst, '"')
	dst = market.AppendDecimal(dst, u, decimals)
	return append(dst, '"')
}

func appendCount(dst []byte, key string, n *uint64) []byte {
	dst = append(dst, key...)
	if n == nil {
		return append(dst, "null"...)
	}
	return strconv.AppendUint(dst, *n, 10)
}

func appendTime(dst []byte, key string, t time.Time) []byte {
	dst = append(dst, key...)
	dst = append(dst, '"')
	dst = t.UTC().AppendFormat(dst, timeFormat)
	return append(dst, '"')
}

func appendID(dst []byte, id uint64) []byte {
	return strconv.AppendUint(append(dst, `{"id":`...), id, 10)
}

// assetRow appends an asset without its links.
func assetRow(dst []byte, a *market.Asset, rank uint32) []byte {
	dst = appendID(dst, a.ID)
	if rank > 0 {
		dst = append(dst, `,"rank":`...)
		dst = strconv.AppendUint(dst, uint64(rank), 10)
	}
	dst = appendNames(dst, a)
	dst = append(dst, `,"explorers":[`...)
	for i, e := range a.Explorers {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = artifacts.AppendString(dst, e)
	}
	return append(dst, ']', '}')
}

// assetTail appends the part that extends an asset's row to the row with links.
func assetTail(dst []byte, a *market.Asset) []byte {
	dst = appendKeyString(dst, `,"links":{"website":`, a.Website)
	dst = appendKeyString(dst, `,"whitepaper":`, a.Whitepaper)
	return append(dst, '}', '}')
}

func appendNames(dst []byte, a *market.Asset) []byte {
	dst = appendKeyString(dst, `,"name":`, a.Name)
	dst = appendKeyString(dst, `,"symbol":`, a.Symbol)
	dst = appendKeyString(dst, `,"slug":`, a.Slug)
	return appendKeyString(dst, `,"logo":`, a.Logo)
}

// quoteRow appends quote q of the feed.
func quoteRow(dst []byte, f *market.Feed, r *market.Result, q int) []byte {
	quote := &f.Quotes[q]
	a := &f.Assets[quote.Asset]
	dst = appendNames(appendID(dst, a.ID), a)
	dst = appendDecimal(dst, `,"price":`, quote.Price, market.PriceDecimals)
	if quote.MarketCap.IsZero() {
		dst = append(dst, `,"market_cap":null`...)
	} else {
		dst = appendDecimal(dst, `,"market_cap":`, quote.MarketCap, market.MoneyDecimals)
	}
	dst = appendDecimal(dst, `,"volume":`, quote.Volume, market.MoneyDecimals)
	dst = append(dst, `,"percent_change":{`...)
	for w, name := range market.Windows {
		if w > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, '"')
		dst = append(dst, name...)
		dst = append(dst, `":"`...)
		change := r.Change(f, w, q)
		dst = change.Append(dst)
		dst = append(dst, '"')
	}
	dst = append(dst, '}')
	if since, short := r.Since(q); short {
		dst = since.AppendFormat(append(dst, `,"since":"`...), time.RFC3339)
		dst = append(dst, '"')
	}
	return append(dst, '}')
}

func exchangeRow(dst []byte, e *market.Exchange) []byte {
	dst = appendID(dst, e.ID)
	dst = appendKeyString(dst, `,"name":`, e.Name)
	dst = appendKeyString(dst, `,"slug":`, e.Slug)
	dst = appendKeyString(dst, `,"logo":`, e.Logo)
	dst = append(dst, `,"links":{`...)
	for i, name := range market.ExchangeLinks {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = artifacts.AppendString(dst, name)
		dst = appendKeyString(dst, ":", e.Links[i])
	}
	dst = appendDecimal(dst, `},"fees":{"maker":`, e.Maker, market.MoneyDecimals)
	dst = appendDecimal(dst, `,"taker":`, e.Taker, market.MoneyDecimals)
	dst = append(dst, `},"market":`...)
	m := e.Market
	if m == nil {
		return append(dst, `null}`...)
	}
	if m.Volume == nil {
		dst = append(dst, `{"volume_24h":null`...)
	} else {
		dst = appendDecimal(dst, `{"volume_24h":`, *m.Volume, market.MoneyDecimals)
	}
	dst = appendCount(dst, `,"markets_count":`, m.MarketsCount)
	dst = appendCount(dst, `,"coins_count":`, m.CoinsCount)
	if m.DataTime == nil {
		dst = append(dst, `,"data_time":null`...)
	} else {
		dst = appendTime(dst, `,"data_time":`, *m.DataTime)
	}
	return append(dst, '}', '}')
}

func categoryRow(dst []byte, f *market.Feed, r *market.Result, l *market.ListedGroup) []byte {
	g := &f.Categories[l.Group]
	dst = appendID(dst, g.ID)
	dst = appendKeyString(dst, `,"name":`, g.Name)
	dst = appendKeyString(dst, `,"slug":`, g.Slug)
	return append(groupMarket(dst, f, r, &l.Market), '}')
}

func chainRow(dst []byte, f *market.Feed, r *market.Result, l *market.ListedGroup) []byte {
	g := &f.Chains[l.Group]
	dst = appendID(dst, g.ID)
	dst = appendKeyString(dst, `,"name":`, g.Name)
	dst = appendKeyString(dst, `,"display_name":`, g.DisplayName)
	dst = appendKeyString(dst, `,"slug":`, g.Slug)
	dst = appendCount(dst, `,"evm_chain_id":`, g.EVMChainID)
	logo := ""
	if g.Native >= 0 {
		logo = f.Assets[g.Native].Logo
	}
	dst = appendKeyString(dst, `,"logo":`, logo)
	return append(groupMarket(dst, f, r, &l.Market), '}')
}

func groupMarket(dst []byte, f *market.Feed, r *market.Result, m *market.GroupMarket) []byte {
	dst = append(dst, `,"market":{"market_cap":"`...)
	dst = market.AppendWide(dst, false, &m.MarketCap, market.MoneyDecimals)
	dst = append(dst, `","volume_24h":"`...)
	dst = market.AppendWide(dst, false, &m.Volume, market.MoneyDecimals)
	dst = append(dst, `","coins_count":`...)
	dst = strconv.AppendInt(dst, int64(m.Coins), 10)
	dst = appendDecimal(dst, `,"market_cap_share":`, market.U128{Lo: m.Share}, market.PercentDecimals)
	dst = appendTime(dst, `,"snapshot_time":`, m.Time)
	dst = append(dst, `,"top_gainers":[`...)
	n := 0
	for _, id := range m.TopGainers {
		i, ok := r.ByID[id]
		if !ok {
			continue // the asset has since left the directory
		}
		if n++; n > 1 {
			dst = append(dst, ',')
		}
		a := &f.Assets[i]
		dst = appendID(dst, id)
		dst = appendKeyString(dst, `,"symbol":`, a.Symbol)
		dst = appendKeyString(dst, `,"name":`, a.Name)
		dst = appendKeyString(dst, `,"slug":`, a.Slug)
		dst = appendKeyString(dst, `,"logo":`, a.Logo)
		dst = append(dst, '}')
	}
	return append(dst, ']', '}')
}
