package coingecko

import (
	"bytes"
	"slices"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge/query"
	"example.com/marketdata/edge/rows"
	"example.com/marketdata/edge/snapshot"
)

// worth is the price of a currency in US dollars at a given time.
type worth struct {
	at  int64
	usd number
}

// point is a chart point: the time at which it is shown, the time of its snapshot, and the snapshot's
// figures in US dollars.
type point struct {
	stand, at                int64
	price, marketCap, volume []byte // nil if unknown
}

// window returns the index of the finest history window that reaches back to the given time, or
// query.MaxWindow if only the daily snapshots of the past reach that far.
func (c *composer) window(begin int64) int {
	now := c.s.Time.Unix()
	for i := range artifacts.HistoryWindows {
		if begin >= now-int64(artifacts.HistoryWindows[i].Length/time.Second) {
			return i
		}
	}
	if !c.s.HasPast() { // an older builder published it
		return len(artifacts.HistoryWindows) - 1
	}
	return query.MaxWindow
}

// eachPoint calls visit for each requested point of an asset, taken from the finest window that covers the
// points. If the request has an interval, the requested points are the first one of each hour or day, and the
// newest one. Daily points, except the newest, are shown at the beginning of their day.
func (c *composer) eachPoint(id uint64, visit func(stand, at int64, price []byte)) {
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
		visit(stand, at, price)
	})
}

// chart answers the paths that end in /market_chart and /market_chart/range. Each point comes from one
// snapshot; its market cap and volume come from the data about the past. chart omits points without a known
// price in the currency, because programs store null as a price of zero.
func (c *composer) chart() {
	now := c.s.Time.Unix()
	if c.q.Endpoint == Chart || c.q.Endpoint == ContractChart {
		c.q.begin, c.q.end = now-c.q.begin, now
	}
	id, r := c.q.mem.coins[0].id, &c.q.mem.rates[0]
	c.past(r, c.window(c.q.begin))
	all := c.q.mem.points[:0]
	c.eachPoint(id, func(stand, at int64, price []byte) {
		if c.worthAt(r, at).places >= 0 {
			all = append(all, point{stand: stand, at: at, price: price})
		}
	})
	c.q.mem.points = all
	const usual = 3 * 40 // bytes
	c.grow(len(all) * usual)
	c.add(`{"prices":[`)
	for i := range all {
		p := &all[i]
		p.marketCap, p.volume = c.told(id, p.at)
		c.comma()
		c.integer("[", p.stand*1000)
		c.amountAt(",", p.price, r, p.at, c.q.places)
		c.add("]")
	}
	c.add(`],"market_caps":[`)
	for i := range all {
		c.comma()
		c.integer("[", all[i].stand*1000)
		c.amountAt(",", all[i].marketCap, r, all[i].at, -1)
		c.add("]")
	}
	c.add(`],"total_volumes":[`)
	for i := range all {
		c.comma()
		c.integer("[", all[i].stand*1000)
		c.amountAt(",", all[i].volume, r, all[i].at, -1)
		c.add("]")
	}
	c.add("]}")
}

// told returns an asset's market cap and volume in the snapshot of the given time, or nil if they are unknown.
func (c *composer) told(id uint64, at int64) (marketCap, volume []byte) {
	if at == c.s.Time.Unix() {
		quote := after(c.quote(id), logoKey)
		return digitsOf(quote, capKey), digitsOf(quote, volumeKey)
	}
	m, ok := c.s.MomentAt(time.Unix(at, 0))
	if !ok || c.err != nil {
		return nil, nil
	}
	element, err := c.f.Moment(&c.passed, m, id)
	c.fail(err)
	_, rest, _ := bytes.Cut(element, comma)
	first, second, _ := bytes.Cut(rest, comma)
	return digitsAt(first), digitsAt(second)
}

var comma = []byte{','}

// day answers /coins/{id}/history with the first snapshot of a day.
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
	var marketCap, volume []byte
	if first >= 0 {
		marketCap, volume = c.told(id, first)
	}
	window := c.window(c.q.begin)
	for i := range c.q.mem.rates {
		c.past(&c.q.mem.rates[i], window)
		c.q.mem.rates[i].usd = c.worthAt(&c.q.mem.rates[i], first)
	}
	c.inAll(`,"market_data":{"current_price":`, &x)
	c.dollarsInAll(`,"market_cap":`, marketCap)
	c.dollarsInAll(`,"total_volume":`, volume)
	c.add(`},"community_data":{`, community, `},"developer_data":{`, developers,
		`},"public_interest_stats":{"alexa_rank":null,"bing_matches":null}}`)
}

// past fills c.q.mem.worths with the prices of the currency r at the times of a window's points, if r is
// based on an asset.
func (c *composer) past(r *rate, window int) {
	if c.worthOf == r.asset {
		return
	}
	c.worthOf, c.q.mem.worths = r.asset, c.q.mem.worths[:0]
	c.points(&c.rated, window, r.asset, c.worthIs)
}

// worthIs appends a price to c.q.mem.worths.
func (c *composer) worthIs(t time.Time, price []byte) {
	w := worth{at: t.Unix()}
	w.usd.parse(price)
	c.q.mem.worths = append(c.q.mem.worths, w)
}

// worthAt returns a currency's price at the time of a point. The caller must have called c.past for r. At
// times before the current snapshot, the price is known only for the dollar and for currencies whose rate is
// the price of an asset.
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

// amountAt is like amount, but converts with the rate at the time of a point.
func (c *composer) amountAt(name string, dollars []byte, r *rate, at int64, places int) {
	then := *r
	if then.usd = c.worthAt(r, at); then.usd.places < 0 {
		dollars = nil
	}
	c.amount(name, dollars, &then, places)
}

// sparkline appends the asset's prices over the last seven days.
func (c *composer) sparkline(id uint64, r *rate) {
	c.past(r, sparkWindow)
	c.points(&c.prices, sparkWindow, id, func(t time.Time, price []byte) {
		if c.worthAt(r, t.Unix()).places >= 0 {
			c.comma()
			c.amountAt("", price, r, t.Unix(), c.q.places)
		}
	})
}

// points calls visit for each of an asset's points in a window, if the snapshot has any. With interval=hourly,
// a window with longer intervals has too few points. In that case, the method uses the hourly snapshots of the
// past, from the first hour that is kept.
func (c *composer) points(at *rows.Cursor, window int, id uint64, visit func(at time.Time, price []byte)) {
	now, first := c.s.Time.Unix(), int64(-1)
	if c.q.step == hour && window > sparkWindow {
		first = c.firstHour()
	}
	if first < 0 {
		c.windowPoints(at, window, id, visit)
		return
	}
	if c.q.begin < first {
		c.windowPoints(at, window, id, func(t time.Time, price []byte) {
			if t.Unix() < first {
				visit(t, price)
			}
		})
	}
	c.pastPoints(at, artifacts.Hours, max(first, down(c.q.begin, hour)), min(c.q.end, now), id, visit)
	c.pastPoints(at, artifacts.TenMinutes, down(now, hour), now, id, visit) // the current hour
}

// hoursKept returns the beginning of the first hour whose snapshots are all kept.
func (c *composer) hoursKept() int64 {
	return down(c.s.Time.Add(-artifacts.PastIntervals[artifacts.Hours].Age).Unix()+hour-1, hour)
}

// firstHour returns the beginning of the first kept hour, or -1 if there is none.
func (c *composer) firstHour() int64 {
	kept := c.hoursKept()
	for _, block := range c.s.Past(artifacts.Hours) {
		for _, t := range block.Times {
			if begin := down(t.Unix(), hour); begin >= kept {
				return begin
			}
		}
	}
	return -1
}

// pastPoints calls visit with the asset's price in the first snapshot of each interval that begins in
// [from, to].
func (c *composer) pastPoints(at *rows.Cursor, interval int, from, to int64, id uint64,
	visit func(at time.Time, price []byte),
) {
	if c.err != nil || id == 0 {
		return
	}
	c.fail(c.f.EachPast(at, c.s, interval, from, to, id, func(t time.Time, moment, _ []byte) {
		if moment != nil {
			visit(t, digitsAt(moment))
		}
	}))
}

// windowPoints calls visit for each of an asset's points in a window. For query.MaxWindow, these are the
// points of the requested days.
func (c *composer) windowPoints(at *rows.Cursor, window int, id uint64, visit func(at time.Time, price []byte)) {
	if c.err != nil || id == 0 {
		return
	}
	if window != query.MaxWindow {
		if h := c.s.History(window); h != nil {
			c.fail(c.f.EachPrice(at, h, id, visit))
		}
		return
	}
	c.pastPoints(at, artifacts.Days, down(c.q.begin, day), c.q.end, id, visit)
	first, own, ok := c.s.Today()
	for i, m := range [...]snapshot.Moment{first, own} {
		if !ok || c.err != nil || i > 0 && m == first {
			return
		}
		moment, err := c.f.Moment(at, m, id)
		if c.fail(err); moment != nil {
			visit(m.Time(), digitsAt(moment))
		}
	}
}

// down returns the largest multiple of step that is not greater than n.
func down(n, step int64) int64 { return n - (n%step+step)%step }

var sparkWindow = slices.IndexFunc(artifacts.HistoryWindows[:], func(w artifacts.HistoryWindow) bool {
	return w.Name == "7d"
})
