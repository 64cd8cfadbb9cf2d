package gecko

import (
	"bytes"
	"slices"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge/query"
	"example.com/marketdata/edge/snapshot"
)

// coinsList answers /coins/list: the items stand in the snapshot as they are answered.
func (c *composer) coinsList() {
	v := c.s.CoinView(snapshot.Coins)
	known := v != nil
	if !known {
		v = c.s.View(query.Assets, query.SortID)
	}
	if v.Rows > 0 {
		s, _, err := c.At(&c.listed, v, 0)
		if err != nil {
			c.fail(err)
			return
		}
		c.grow(v.Rows * (len(s.Rows)/s.Len() + 1) * 5 / 4)
	}
	c.list(v, func(row, tail []byte) {
		if known {
			row = artifacts.CoinItem(row)
		} else {
			c.identity(row)
			row, tail = []byte("}"), noPlatforms
		}
		if c.flags.has(platforms) {
			c.Body = append(append(c.Body, row[:len(row)-1]...), tail...)
		} else {
			c.Body = append(c.Body, row...)
		}
	})
}

var noPlatforms = []byte(`,"platforms":{}}`)

// maxItems bounds the memory for items that stays, in bytes.
const maxItems = 128 << 10

// itemEnd ends an item before another. It stands in no text, where quotes are escaped; behind a quote
// it is within an item.
var itemEnd = []byte(`},{"id":`)

// cutItem cuts the first of some items.
func cutItem(items []byte) (item, rest []byte) {
	for end := 0; ; end++ {
		n := bytes.Index(items[end:], itemEnd)
		if n < 0 {
			return items, nil
		}
		if end += n; items[end-1] != '"' {
			return items[:end+1], items[end+2:]
		}
	}
}

// items appends an array with what element appends for each item of the listing that c.inner asks for.
// usual is how many bytes an element has that is not short.
func (c *composer) items(usual int, element func(item []byte, id uint64)) {
	body := c.Body
	c.Body = append(c.scratch.items[:0], '[')
	if c.err == nil {
		c.fail(c.Find(c.s, &c.inner, c.wait))
	}
	rest := c.Body[1:]
	c.scratch.items, c.Body = c.Body, body
	c.grow(usual * (bytes.Count(rest, itemEnd) + 1))
	c.add("[")
	for len(rest) > 0 && c.err == nil {
		var item []byte
		item, rest = cutItem(rest)
		c.comma()
		element(item, wholeAt(after(item, `{"id":`)))
	}
	c.add("]")
	if cap(c.scratch.items) > maxItems {
		c.scratch.items = nil
	}
}

// ask begins a question for a listing.
func (c *composer) ask(e query.Endpoint, by query.Sort, desc bool, size int, page int64) *query.Query {
	c.inner = query.Query{Endpoint: e, Sort: by, Desc: desc, IDs: c.inner.IDs[:0],
		Categories: c.inner.Categories[:0], Size: size, Page: page, First: (page - 1) * int64(size)}
	return &c.inner
}

// markets answers /coins/markets, from /markets.
func (c *composer) markets() {
	by := [...]query.Sort{query.SortMarketCap, query.SortVolume, query.SortSlug}[c.order/2]
	desc := c.order == 0 || c.order == 2 || c.order == 5
	q := c.ask(query.Markets, by, desc, c.perPage, c.page)
	switch {
	case len(c.group) > 0:
		row := c.category(c.group)
		q.HasCategory = true
		if row != nil {
			c.folded = artifacts.AppendFold(c.folded[:0], c.group)
			q.Categories = append(q.Categories, c.folded)
		}
	case c.by != none:
		q.HasID = true
		for i := range c.coins {
			q.IDs = append(q.IDs, int64(c.coins[i].id))
		}
		slices.Sort(q.IDs)
		q.IDs = slices.Compact(q.IDs)
	}
	usual := 1300
	if c.flags.has(sparkline) {
		usual += 170 * 14
	}
	c.items(usual, c.market)
}

// market appends an element of /coins/markets.
func (c *composer) market(item []byte, id uint64) {
	r := &c.rates[0]
	figures := c.figuresOf(id)
	c.identity(item)
	quote := after(item, logoKey)
	c.field(`,"image":`, textAt(quote))
	price := digitsOf(quote, priceKey)
	c.amount(`,"current_price":`, price, r, c.places)
	c.amount(`,"market_cap":`, digitsOf(quote, capKey), r, -1)
	c.rank(`,"market_cap_rank":`, rankOf(item, id))
	diluted := figures.diluted(price)
	c.value(`,"fully_diluted_valuation":`, &diluted, r, full)
	c.amount(`,"total_volume":`, digitsOf(quote, volumeKey), r, -1)
	c.add(`,"high_24h":null,"low_24h":null`)
	var change, percent []byte
	if r.dollars { // the past of rates is not kept
		change, percent = figures[change24h], digitsOf(quote, dayKey)
	}
	c.field(`,"price_change_24h":`, change)
	c.field(`,"price_change_percentage_24h":`, percent)
	c.add(`,"market_cap_change_24h":null,"market_cap_change_percentage_24h":null`)
	c.field(`,"circulating_supply":`, figures[circulating])
	c.field(`,"total_supply":`, figures[total])
	c.field(`,"max_supply":`, figures[maximum])
	c.add(`,"ath":null,"ath_change_percentage":null,"ath_date":null,"atl":null,"atl_change_percentage":null,` +
		`"atl_date":null,"roi":null`)
	c.updated(`,"last_updated":`)
	if c.flags.has(sparkline) {
		c.add(`,"sparkline_in_7d":{"price":[`)
		c.sparkline(id, r)
		c.add(`]}`)
	}
	for i := range windows {
		if w := &windows[i]; c.changes&(1<<i) != 0 {
			c.add(`,"price_change_percentage_`, w.name, `_in_currency":`)
			var percent []byte
			if r.dollars {
				percent = w.of(quote)
			}
			c.field("", percent)
		}
	}
	c.add("}")
}

// of returns the change in a quote's row; nil: it is not known.
func (w *window) of(quote []byte) []byte {
	if w.key == "" {
		return nil
	}
	return digitsOf(quote, w.key)
}

// rank appends a rank; null for none.
func (c *composer) rank(name string, rank uint64) {
	if rank == 0 {
		c.field(name, nil)
	} else {
		c.integer(name, int64(rank))
	}
}

// updated appends a field with the snapshot's time.
func (c *composer) updated(name string) {
	c.add(name, `"`)
	c.Body = append(append(c.Body, c.s.TimeText...), '"')
}

// diluted returns the price of all coins that there will ever be, or of all that there are.
func (f *figures) diluted(price []byte) (all number) {
	supply := f[maximum]
	if supply == nil {
		supply = f[total]
	}
	var x number
	x.parse(price)
	all.parse(supply)
	all.times(&x, &all)
	return all
}

// sparkline appends the prices of the last seven days.
func (c *composer) sparkline(id uint64, r *rate) {
	c.points(c.s.History(sparkWindow), id, func(_ time.Time, price []byte) {
		c.comma()
		c.amount("", price, r, c.places)
	})
}

// points calls do with the points of an asset in a window, if the snapshot has it.
func (c *composer) points(h *snapshot.History, id uint64, do func(at time.Time, price []byte)) {
	if h != nil && c.err == nil {
		c.fail(c.EachPrice(&c.prices, h, id, do))
	}
}

var sparkWindow = slices.IndexFunc(artifacts.HistoryWindows[:], func(w artifacts.HistoryWindow) bool {
	return w.Name == "7d"
})
