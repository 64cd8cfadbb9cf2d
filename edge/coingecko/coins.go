package coingecko

import (
	"bytes"
	"slices"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge/query"
	"example.com/marketdata/edge/snapshot"
)

// coinsList answers /coins/list. The snapshot already contains the items in the form that the answer needs.
func (c *composer) coinsList() {
	v := c.s.CoinView(snapshot.Coins)
	known := v != nil
	if !known {
		v = c.s.View(query.Assets, query.SortID)
	}
	if v.Rows > 0 {
		s, _, err := c.f.At(&c.listed, v, 0)
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
		if c.q.flags.has(platforms) {
			c.f.Body = append(append(c.f.Body, row[:len(row)-1]...), tail...)
		} else {
			c.f.Body = append(c.f.Body, row...)
		}
	})
}

var noPlatforms = []byte(`,"platforms":{}}`)

// maxItems bounds the size, in bytes, of the item buffer that is kept for the next answer.
const maxItems = 128 << 10

// itemEnd is the end of an item and the beginning of the next one. It cannot occur inside a string, because
// quotes in strings are escaped. If these bytes follow a quote, they separate two objects inside an item,
// unless that quote ends the value of the item's last member, "since".
var itemEnd = []byte(`},{"id":`)

const sinceKey = `,"since":"`

// endsInSince reports whether the items end with the member "since".
func endsInSince(items []byte) bool {
	at := len(items) - len(sinceKey+`2006-01-02T15:04:05Z"`)
	return at >= 0 && string(items[at:at+len(sinceKey)]) == sinceKey
}

// cutItem cuts off the first item.
func cutItem(items []byte) (item, rest []byte) {
	for end := 0; ; end++ {
		n := bytes.Index(items[end:], itemEnd)
		if n < 0 {
			return items, nil
		}
		if end += n; items[end-1] != '"' || endsInSince(items[:end]) {
			return items[:end+1], items[end+2:]
		}
	}
}

// items appends an array. It finds the listing that c.q.mem.inner asks for, and calls appendItem for each
// item. usual is a generous estimate of the length of an element, in bytes.
func (c *composer) items(usual int, appendItem func(item []byte, id uint64)) {
	body := c.f.Body
	c.f.Body = append(c.q.mem.items[:0], '[')
	if c.err == nil {
		c.fail(c.f.Find(c.s, &c.q.mem.inner, c.wait))
	}
	rest := c.f.Body[1:]
	c.q.mem.items, c.f.Body = c.f.Body, body
	c.grow(usual * (bytes.Count(rest, itemEnd) + 1))
	c.add("[")
	for len(rest) > 0 && c.err == nil {
		var item []byte
		item, rest = cutItem(rest)
		c.comma()
		appendItem(item, wholeAt(after(item, `{"id":`)))
	}
	c.add("]")
	if cap(c.q.mem.items) > maxItems {
		c.q.mem.items = nil
	}
}

// ask resets c.q.mem.inner to a query for a listing, and returns it.
func (c *composer) ask(e query.Endpoint, by query.Sort, desc bool, size int, page int64) *query.Query {
	c.q.mem.inner = query.Query{Endpoint: e, Sort: by, Desc: desc, IDs: c.q.mem.inner.IDs[:0],
		Categories: c.q.mem.inner.Categories[:0], Size: size, Page: page, First: (page - 1) * int64(size)}
	return &c.q.mem.inner
}

// markets answers /coins/markets with the items of /markets.
func (c *composer) markets() {
	by := [...]query.Sort{query.SortMarketCap, query.SortVolume, query.SortSlug}[c.q.order/2]
	desc := c.q.order == 0 || c.q.order == 2 || c.q.order == 5
	q := c.ask(query.Markets, by, desc, c.q.perPage, c.q.page)
	switch {
	case len(c.q.group) > 0:
		row := c.category(c.q.group)
		q.HasCategory, c.q.noGroup = true, row == nil
		if row != nil {
			c.q.mem.folded = artifacts.AppendFold(c.q.mem.folded[:0], c.q.group)
			q.Categories = append(q.Categories, c.q.mem.folded)
		}
	case c.q.by != noParam:
		q.HasID = true
		for i := range c.q.mem.coins {
			q.IDs = append(q.IDs, int64(c.q.mem.coins[i].id))
		}
		slices.Sort(q.IDs)
		q.IDs = slices.Compact(q.IDs)
	}
	usual := 1300
	if c.q.flags.has(sparkline) {
		usual += 170 * 14
	}
	c.items(usual, c.market)
}

// market appends one item to the answer of /coins/markets.
func (c *composer) market(item []byte, id uint64) {
	r := &c.q.mem.rates[0]
	figures := c.figuresOf(id)
	c.identity(item)
	quote := after(item, logoKey)
	c.field(`,"image":`, textAt(quote))
	price := digitsOf(quote, priceKey)
	c.amount(`,"current_price":`, price, r, c.q.places)
	c.amount(`,"market_cap":`, digitsOf(quote, capKey), r, -1)
	c.rank(`,"market_cap_rank":`, rankOf(item, id))
	c.add(`,"market_cap_rank_with_rehypothecated":null`)
	diluted := figures.diluted(price)
	c.value(`,"fully_diluted_valuation":`, &diluted, r, full)
	c.amount(`,"total_volume":`, digitsOf(quote, volumeKey), r, -1)
	c.add(`,"high_24h":null,"low_24h":null`)
	c.field(`,"price_change_24h":`, figures.moved(r))
	c.field(`,"price_change_percentage_24h":`, figures.change(&windows[day24h], quote, r))
	c.add(`,"market_cap_change_24h":null,"market_cap_change_percentage_24h":null`)
	c.field(`,"circulating_supply":`, figures.of[circulating])
	c.field(`,"total_supply":`, figures.of[total])
	c.field(`,"max_supply":`, figures.of[maximum])
	c.add(`,"ath":null,"ath_change_percentage":null,"ath_date":null,"atl":null,"atl_change_percentage":null,` +
		`"atl_date":null,"roi":null`)
	c.updated(`,"last_updated":`, quote)
	if c.q.flags.has(sparkline) {
		c.add(`,"sparkline_in_7d":{"price":[`)
		c.sparkline(id, r)
		c.add(`]}`)
	}
	for i := range windows {
		if w := &windows[i]; c.q.changes&(1<<i) != 0 {
			c.add(`,"price_change_percentage_`, w.name, `_in_currency":`)
			c.field("", figures.change(w, quote, r))
		}
	}
	c.add("}")
}

// change returns a quote's price change over a window in a currency, or nil if it is unknown. It is known
// only in US dollars, because past rates of other currencies are not kept.
func (f *figures) change(w *window, quote []byte, r *rate) []byte {
	if !r.dollars || f.covered&(1<<w.covered) == 0 {
		return nil
	}
	return digitsOf(quote, w.key)
}

// moved returns the absolute price change over 24 hours, in a currency, or nil if it is unknown.
func (f *figures) moved(r *rate) []byte {
	if !r.dollars || f.covered&(1<<windows[day24h].covered) == 0 {
		return nil
	}
	return f.of[change24h]
}

// rank appends a rank. A rank of 0 is null.
func (c *composer) rank(name string, rank uint64) {
	if rank == 0 {
		c.field(name, nil)
	} else {
		c.integer(name, int64(rank))
	}
}

// updated appends a member with the time of the snapshot, or null if there is no quote.
func (c *composer) updated(name string, quote []byte) {
	if quote == nil {
		c.field(name, nil)
		return
	}
	c.add(name, `"`)
	c.f.Body = append(c.s.Time.AppendFormat(c.f.Body, "2006-01-02T15:04:05.000Z"), '"')
}

// diluted returns the value of all coins that can ever exist or, if their number is unknown, of all coins
// that exist now.
func (f *figures) diluted(price []byte) (all number) {
	supply := f.of[maximum]
	if supply == nil {
		supply = f.of[total]
	}
	var x number
	x.parse(price)
	all.parse(supply)
	all.times(&x, &all)
	return all
}
