package gecko

import (
	"math"
	"strconv"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge/snapshot"
)

// span returns the times of the points that are asked for, in Unix seconds, and the finest window
// that covers them; nil: the snapshot does not have it.
func (c *composer) span() (begin, end int64, h *snapshot.History) {
	now := c.s.Time.Unix()
	begin, end = c.begin, c.end
	if c.Endpoint == Chart || c.Endpoint == ContractChart {
		begin, end = now-min(begin, math.MaxInt32)*day, now
	}
	for i := range artifacts.HistoryWindows {
		h = c.s.History(i)
		if begin >= now-int64(artifacts.HistoryWindows[i].Length/time.Second) {
			break
		}
	}
	return begin, end, h
}

// eachPoint calls do with the points of an asset that are asked for: with an interval the first one
// of each hour or day that began since then, and the newest.
func (c *composer) eachPoint(id uint64, do func(at int64, price []byte)) error {
	begin, end, h := c.span()
	if h == nil {
		return nil
	}
	step, newest := max(c.step, 1), c.s.Time.Unix()
	before := (begin - 1) / step
	return c.EachPrice(&c.prices, h, id, func(point, price []byte) {
		at := unixOf(point)
		if at < begin || at > end || c.step > 0 && at/step == before && at != newest {
			return
		}
		before = at / step
		do(at, price)
	})
}

// unixOf returns the time of a point, `,["2006-01-02T15:04:05Z","`, in Unix seconds.
func unixOf(point []byte) int64 {
	var n [6]int
	field := 0
	for _, c := range point[len(`,["`) : len(`,["`)+len("2006-01-02T15:04:05")] {
		if c >= '0' && c <= '9' {
			n[field] = 10*n[field] + int(c-'0')
		} else {
			field++
		}
	}
	return time.Date(n[0], time.Month(n[1]), n[2], n[3], n[4], n[5], 0, time.UTC).Unix()
}

// chart answers what ends in /market_chart and /market_chart/range.
func (c *composer) chart() error {
	if err := c.askedRates(); err != nil {
		return err
	}
	id, err := c.theCoin()
	if err != nil {
		return err
	}
	c.add(`{"prices":[`)
	err = c.eachPoint(id, func(at int64, price []byte) {
		c.comma()
		c.Body = strconv.AppendInt(append(c.Body, '['), at*1000, 10)
		c.amount(",", price, &c.rates[0], c.places)
		c.add("]")
	})
	c.add(`],"market_caps":[],"total_volumes":[]}`)
	return err
}

// past answers /coins/{id}/history: the first price of a day.
func (c *composer) past() error {
	id, err := c.theCoin()
	if err != nil {
		return err
	}
	row, _, err := c.asset(id)
	if err == nil {
		err = c.allRates()
	}
	if err != nil {
		return err
	}
	c.identity(row)
	c.add(`,"localization":{}`)
	c.image(row)
	c.add(`,"market_data":{`)
	first := true
	err = c.eachPoint(id, func(_ int64, price []byte) {
		if first {
			c.inAll(`"current_price":`, price)
			c.add(`,"market_cap":{},"total_volume":{}`)
			first = false
		}
	})
	c.add(`},"community_data":{},"developer_data":{},"public_interest_stats":{}}`)
	return err
}
