package gecko

import (
	"bytes"
	"slices"
	"strconv"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge/query"
	"example.com/marketdata/edge/snapshot"
)

// coinsList answers /coins/list: the items stand in the snapshot as they are answered.
func (c *composer) coinsList() error {
	v := c.s.CoinView(snapshot.Coins)
	known := v != nil
	if !known {
		v = c.s.View(query.Assets, query.SortID)
	}
	if v.Rows > 0 {
		s, _, err := c.At(&c.listed, v, 0)
		if err != nil {
			return err
		}
		if err := c.Grow(v.Rows * (len(s.Rows)/s.Len() + 1) * 5 / 4); err != nil {
			return err
		}
	}
	c.add("[")
	err := c.each(v, func(row, tail []byte) {
		c.comma()
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
	c.add("]")
	return err
}

var noPlatforms = []byte(`,"platforms":{}}`)

// find returns the items of the listing that c.inner asks for.
func (c *composer) find() ([]byte, error) {
	body := c.Body
	c.Body = append(c.items[:0], '[')
	err := c.Find(c.s, &c.inner, c.wait)
	c.items, c.Body = c.Body, body
	return c.items[1:], err
}

// maxItems bounds the memory for items that stays, in bytes.
const maxItems = 128 << 10

// nextItem cuts the first item from those of a listing.
func nextItem(items []byte) (item, rest []byte) {
	depth := 0
	for i := 0; i < len(items); i++ {
		switch items[i] {
		case '"':
			i += len(textAt(items[i:])) - 1
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return items[:i+1], items[min(i+2, len(items)):]
			}
		}
	}
	return items, nil
}

// ask begins a question for a listing.
func (c *composer) ask(e query.Endpoint, by query.Sort, desc bool, size int, page int64) *query.Query {
	c.inner = query.Query{Endpoint: e, Sort: by, Desc: desc, IDs: c.inner.IDs[:0],
		Categories: c.inner.Categories[:0], Size: size, Page: page, First: (page - 1) * int64(size)}
	return &c.inner
}

// markets answers /coins/markets, from /markets.
func (c *composer) markets() error {
	c.names = c.names[:0]
	if err := c.askedRates(); err != nil {
		return err
	}
	by := [...]query.Sort{query.SortMarketCap, query.SortVolume, query.SortSlug}[c.order/2]
	desc := c.order == 0 || c.order == 2 || c.order == 5
	q := c.ask(query.Markets, by, desc, c.perPage, c.page)
	switch {
	case len(c.group) > 0:
		row, err := c.category(c.group)
		if err != nil {
			return err
		}
		q.HasCategory = true
		if row != nil {
			c.folded = artifacts.AppendFold(c.folded[:0], c.group)
			q.Categories = append(q.Categories, c.folded)
		}
	case c.by != byNothing:
		if err := c.named(); err != nil {
			return err
		}
		q.HasID = true
		for i := range c.coins {
			q.IDs = append(q.IDs, int64(c.coins[i].id))
		}
		slices.Sort(q.IDs)
		q.IDs = slices.Compact(q.IDs)
	}
	items, err := c.find()
	if err != nil {
		return err
	}
	const usualItem, usualPoint = 1300, 14
	n := usualItem * (bytes.Count(items, itemEnd) + 1)
	if c.flags.has(sparkline) {
		n += n / usualItem * 170 * usualPoint
	}
	if err := c.Grow(n); err != nil {
		return err
	}
	c.add("[")
	for len(items) > 0 {
		item := items
		if i := bytes.Index(items, itemEnd); i >= 0 {
			item, items = items[:i+2], items[i+3:]
		} else {
			items = nil
		}
		if err := c.market(item); err != nil {
			return err
		}
	}
	c.add("]")
	if cap(c.items) > maxItems {
		c.items = nil
	}
	return nil
}

// itemEnd ends an item of /markets before another. It stands in no text, where quotes are escaped.
var itemEnd = []byte(`}},{"id":`)

// market appends an element of /coins/markets.
func (c *composer) market(item []byte) error {
	r := &c.rates[0]
	digits := digitsOf(item, `{"id":`)
	id, _ := strconv.ParseUint(string(digits), 10, 64)
	figures, err := c.figuresOf(id)
	if err != nil {
		return err
	}
	c.comma()
	c.identity(item)
	quote := after(item, `,"logo":`)
	c.field(`,"image":`, textAt(quote))
	price := digitsOf(quote, `,"price":`)
	c.amount(`,"current_price":`, price, r, c.places)
	c.amount(`,"market_cap":`, digitsOf(quote, `,"market_cap":`), r, -1)
	rank := rankOf(item, id)
	c.add(`,"market_cap_rank":`)
	c.rank(rank)
	c.diluted(`,"fully_diluted_valuation":`, price, &figures, r)
	c.amount(`,"total_volume":`, digitsOf(quote, `,"volume":`), r, -1)
	c.add(`,"high_24h":null,"low_24h":null`)
	var change, percent []byte
	if r.dollars { // the past of rates is not kept
		change, percent = figures[change24h], digitsOf(quote, `,"24h":`)
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
		if err := c.sparkline(id, r); err != nil {
			return err
		}
		c.add(`]}`)
	}
	for i := range windows {
		if w := &windows[i]; c.changes&(1<<i) != 0 {
			c.add(`,"price_change_percentage_`, w.name, `_in_currency":`)
			var percent []byte
			if r.dollars && w.known {
				percent = digitsAt(changeOf(quote, w.name))
			}
			c.field("", percent)
		}
	}
	c.add("}")
	return nil
}

// changeOf returns what stands behind the name of a window in a quote's row.
func changeOf(quote []byte, window string) []byte {
	for _, key := range [...]string{`{"1h":`, `,"24h":`, `,"7d":`, `,"30d":`, `,"1y":`} {
		if key[2:len(key)-2] == window {
			return after(quote, key)
		}
	}
	return nil
}

func (c *composer) rank(rank uint64) {
	if rank == 0 {
		c.add("null")
	} else {
		c.Body = strconv.AppendUint(c.Body, rank, 10)
	}
}

// updated appends a field with the snapshot's time.
func (c *composer) updated(name string) {
	c.add(name, `"`)
	c.Body = append(append(c.Body, c.s.TimeText...), '"')
}

// diluted appends the price of all coins that there will ever be, or of all that there are.
func (c *composer) diluted(name string, price []byte, f *figures, r *rate) {
	supply := f[maximum]
	if supply == nil {
		supply = f[total]
	}
	var x, y, all number
	c.add(name)
	if x.parse(price) && y.parse(supply) && all.times(&x, &y) {
		var ok bool
		if c.Body, ok = appendQuotient(c.Body, &all, &r.usd, full); ok {
			return
		}
	}
	c.add("null")
}

// sparkline appends the prices of the last seven days.
func (c *composer) sparkline(id uint64, r *rate) error {
	h := c.s.History(sparkWindow)
	if h == nil {
		return nil
	}
	return c.EachPrice(&c.prices, h, id, func(_, price []byte) {
		c.comma()
		c.amount("", price, r, c.places)
	})
}

var sparkWindow = slices.IndexFunc(artifacts.HistoryWindows[:], func(w artifacts.HistoryWindow) bool {
	return w.Name == "7d"
})
