package gecko

import (
	"math"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge/snapshot"
)

// eachPoint calls do with the points of an asset that are asked for, from the finest window that covers
// them: with an interval the first one of each hour or day that began since then, and the newest.
func (c *composer) eachPoint(id uint64, do func(at int64, price []byte)) {
	now, begin, end := c.s.Time.Unix(), c.begin, c.end
	if c.Endpoint == Chart || c.Endpoint == ContractChart {
		begin, end = now-min(begin, math.MaxInt32)*day, now
	}
	var h *snapshot.History
	for i := range artifacts.HistoryWindows {
		h = c.s.History(i)
		if begin >= now-int64(artifacts.HistoryWindows[i].Length/time.Second) {
			break
		}
	}
	step := max(c.step, 1)
	before := (begin - 1) / step
	c.points(h, id, func(t time.Time, price []byte) {
		at := t.Unix()
		if at < begin || at > end || c.step > 0 && at/step == before && at != now {
			return
		}
		before = at / step
		do(at, price)
	})
}

// chart answers what ends in /market_chart and /market_chart/range.
func (c *composer) chart() {
	c.add(`{"prices":[`)
	c.eachPoint(c.coins[0].id, func(at int64, price []byte) {
		c.comma()
		c.integer("[", at*1000)
		c.amount(",", price, &c.rates[0], c.places)
		c.add("]")
	})
	c.add(`],"market_caps":[],"total_volumes":[]}`)
}

// past answers /coins/{id}/history: the first price of a day.
func (c *composer) past() {
	id := c.coins[0].id
	row, _ := c.asset(id)
	c.allRates()
	c.identity(row)
	c.add(`,"localization":{}`)
	c.image(row)
	c.add(`,"market_data":{`)
	first := true
	c.eachPoint(id, func(_ int64, price []byte) {
		if first {
			c.dollarsInAll(`"current_price":`, price)
			c.add(`,"market_cap":{},"total_volume":{}`)
			first = false
		}
	})
	c.add(`},"community_data":{},"developer_data":{},"public_interest_stats":{}}`)
}
