package coingecko

import (
	"slices"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge/rows"
	"example.com/marketdata/edge/snapshot"
)

// worth is what a currency was worth at a time, in US dollars.
type worth struct {
	at  int64
	usd number
}

// window returns the points of the finest window that covers a time; nil: the snapshot has none.
func (c *composer) window(begin int64) (h *snapshot.History) {
	now := c.s.Time.Unix()
	for i := range artifacts.HistoryWindows {
		h = c.s.History(i)
		if begin >= now-int64(artifacts.HistoryWindows[i].Length/time.Second) {
			break
		}
	}
	return h
}

// eachPoint calls do with the points of an asset that are asked for, from the finest window that covers
// them: with an interval the first one of each hour or day that began since then, and the newest. Those
// of days stand at their beginning, but for the newest.
func (c *composer) eachPoint(id uint64, do func(stand, at int64, price []byte)) {
	now := c.s.Time.Unix()
	step := max(c.q.step, 1)
	before := (c.q.begin - 1) / step
	c.points(&c.prices, c.window(c.q.begin), id, func(t time.Time, price []byte) {
		at := t.Unix()
		stand := at
		if c.q.step == day && at != now {
			stand -= at % day
		}
		if stand < c.q.begin || stand > c.q.end || c.q.step > 0 && at/step == before && at != now {
			return
		}
		before = at / step
		do(stand, at, price)
	})
}

// chart answers what ends in /market_chart and /market_chart/range. Caps and volumes are known for the
// snapshot alone. A point whose price is not known in the currency is left out: programs store null as a
// price of zero.
func (c *composer) chart() {
	now := c.s.Time.Unix()
	if c.q.Endpoint == Chart || c.q.Endpoint == ContractChart {
		c.q.begin, c.q.end = now-c.q.begin, now
	}
	id, r := c.q.mem.coins[0].id, &c.q.mem.rates[0]
	c.past(r, c.window(c.q.begin))
	c.q.mem.stands = c.q.mem.stands[:0]
	newest := false
	c.add(`{"prices":[`)
	c.eachPoint(id, func(stand, at int64, price []byte) {
		if c.worthAt(r, at).places < 0 {
			return
		}
		c.q.mem.stands, newest = append(c.q.mem.stands, stand), at == now
		c.comma()
		c.integer("[", stand*1000)
		c.amountAt(",", price, r, at, c.q.places)
		c.add("]")
	})
	quote := after(c.quote(id), logoKey)
	for _, list := range [...]struct{ name, key string }{
		{`],"market_caps":[`, capKey}, {`],"total_volumes":[`, volumeKey},
	} {
		c.add(list.name)
		for i, stand := range c.q.mem.stands {
			var figure []byte
			if newest && i == len(c.q.mem.stands)-1 {
				figure = digitsOf(quote, list.key)
			}
			c.comma()
			c.integer("[", stand*1000)
			c.amount(",", figure, r, -1)
			c.add("]")
		}
	}
	c.add("]}")
}

// day answers /coins/{id}/history: the first price of a day.
func (c *composer) day() {
	id := c.q.mem.coins[0].id
	row, _ := c.asset(id)
	c.allRates()
	c.identity(row)
	c.texts(row, `,"localization":{"en":`, nameKey)
	c.add("}")
	c.image(row)
	first, x := int64(-1), number{places: -1}
	c.eachPoint(id, func(_, at int64, price []byte) {
		if first < 0 {
			first = at
			x.parse(price)
		}
	})
	var quote []byte
	if first == c.s.Time.Unix() {
		quote = after(c.quote(id), logoKey)
	}
	h := c.window(c.q.begin)
	for i := range c.q.mem.rates {
		c.past(&c.q.mem.rates[i], h)
		c.q.mem.rates[i].usd = c.worthAt(&c.q.mem.rates[i], first)
	}
	c.inAll(`,"market_data":{"current_price":`, &x)
	c.dollarsInAll(`,"market_cap":`, digitsOf(quote, capKey))
	c.dollarsInAll(`,"total_volume":`, digitsOf(quote, volumeKey))
	c.add(`},"community_data":{`, community, `},"developer_data":{`, developers,
		`},"public_interest_stats":{"alexa_rank":null,"bing_matches":null}}`)
}

// past makes c.worths what a currency was worth at the times of a window's points, if it is an asset's
// price.
func (c *composer) past(r *rate, h *snapshot.History) {
	if c.worthOf == r.asset {
		return
	}
	c.worthOf, c.q.mem.worths = r.asset, c.q.mem.worths[:0]
	c.points(&c.rated, h, r.asset, func(t time.Time, price []byte) {
		w := worth{at: t.Unix()}
		w.usd.parse(price)
		c.q.mem.worths = append(c.q.mem.worths, w)
	})
}

// worthAt returns what a currency, that of c.past, was worth at the time of a point; not known if it is
// neither the dollar nor an asset's price: that of another currency is known for the snapshot alone.
func (c *composer) worthAt(r *rate, at int64) number {
	if r.dollars || at == c.s.Time.Unix() {
		return r.usd
	}
	i, found := slices.BinarySearchFunc(c.q.mem.worths, at, func(w worth, at int64) int { return int(w.at - at) })
	if r.asset == 0 || !found || c.q.mem.worths[i].usd.v.IsZero() {
		return number{places: -1}
	}
	return c.q.mem.worths[i].usd
}

// amountAt is amount for a figure of the time of a point.
func (c *composer) amountAt(name string, dollars []byte, r *rate, at int64, places int) {
	then := *r
	if then.usd = c.worthAt(r, at); then.usd.places < 0 {
		dollars = nil
	}
	c.amount(name, dollars, &then, places)
}

// sparkline appends the prices of the last seven days.
func (c *composer) sparkline(id uint64, r *rate) {
	h := c.s.History(sparkWindow)
	c.past(r, h)
	c.points(&c.prices, h, id, func(t time.Time, price []byte) {
		if c.worthAt(r, t.Unix()).places >= 0 {
			c.comma()
			c.amountAt("", price, r, t.Unix(), c.q.places)
		}
	})
}

// points calls do with the points of an asset in a window, if the snapshot has it.
func (c *composer) points(at *rows.Cursor, h *snapshot.History, id uint64, do func(at time.Time, price []byte)) {
	if h != nil && c.err == nil && id > 0 {
		c.fail(c.f.EachPrice(at, h, id, do))
	}
}

var sparkWindow = slices.IndexFunc(artifacts.HistoryWindows[:], func(w artifacts.HistoryWindow) bool {
	return w.Name == "7d"
})
