package coingecko

import (
	"time"

	"example.com/marketdata/artifacts"
	"github.com/holiman/uint256"
)

// bar is a candle under construction. Its prices are rounded, and in units of the last decimal place.
// Rounding preserves the order of prices, so the high of the rounded prices is the same as the rounded high.
type bar struct {
	begin                  int64 // the beginning of the interval, or -1 if the bar is empty
	open, high, low, close uint256.Int
}

// ohlc answers /coins/{id}/ohlc and /coins/{id}/ohlc/range. It returns only completed intervals. The time
// of a candle is the end of its interval.
func (c *composer) ohlc() {
	now, step := c.s.Time.Unix(), c.q.step
	from, to := c.q.begin, min(c.q.end, now) // these times are ends of intervals
	if c.q.Endpoint == OHLC {
		from, to = now-c.q.begin+1, now
	}
	from, to = down(from+step-1, step)-step, down(to, step)-step // now they are beginnings of intervals
	id, r := c.q.mem.coins[0].id, &c.q.mem.rates[0]
	if c.q.places < 0 {
		c.q.places = full
	}
	b := bar{begin: -1}
	c.add("[")
	if r.dollars {
		c.eachCandle(id, from, to, &b)
	} else if r.asset > 0 {
		c.eachRatio(id, r, from, to, &b)
	}
	c.end(&b)
	c.add("]")
}

// eachCandle adds the asset's hourly or daily candles in US dollars for all intervals that begin in
// [from, to].
func (c *composer) eachCandle(id uint64, from, to int64, b *bar) {
	interval := artifacts.Days
	if c.q.step < day {
		interval = artifacts.Hours
		from = max(from, c.hoursKept())
	}
	held := int64(0)
	for _, block := range c.s.Past(interval) {
		held += int64(len(block.Times))
	}
	const usual = 100 // bytes
	c.grow(usual * int(max(0, min(held, (to-from)/c.q.step+1))))
	if c.err != nil {
		return
	}
	to += c.q.step - 1
	c.fail(c.f.EachPast(&c.passed, c.s, interval, from, to, id, func(first time.Time, _, candle []byte) {
		var values [4]uint256.Int
		for i := range values {
			var x number
			var ok bool
			digits := digitsAt(candle)
			x.parse(digits)
			if values[i], ok = quotient(&x, &one, c.q.places); !ok {
				return // the interval has no candle
			}
			candle = candle[min(len(candle), len(digits)+len(`"",`)):]
		}
		c.widen(b, first.Unix(), &values)
	}))
}

// eachRatio adds the asset's prices, expressed in another asset, for all intervals that begin in
// [from, to] and whose ten-minute snapshots are all kept. Candles cannot be divided, since they do not state the
// times of their prices.
func (c *composer) eachRatio(id uint64, r *rate, from, to int64, b *bar) {
	const interval = artifacts.TenMinutes
	held := c.s.Time.Add(-artifacts.PastIntervals[interval].Age).Unix()
	from, to = max(from, down(held, c.q.step)+c.q.step), to+c.q.step-1
	c.q.mem.worths = c.q.mem.worths[:0]
	if c.err != nil {
		return
	}
	c.fail(c.f.EachPast(&c.rated, c.s, interval, from, to, r.asset, func(t time.Time, moment, _ []byte) {
		if moment != nil {
			c.worthIs(t, digitsAt(moment))
		}
	}))
	if c.err != nil {
		return
	}
	c.fail(c.f.EachPast(&c.passed, c.s, interval, from, to, id, func(t time.Time, moment, _ []byte) {
		worth := c.worthAt(r, t.Unix())
		if worth.places < 0 {
			return
		}
		var x number
		x.parse(digitsAt(moment))
		if ratio, ok := quotient(&x, &worth, c.q.places); ok {
			c.widen(b, t.Unix(), &[4]uint256.Int{ratio, ratio, ratio, ratio})
		}
	}))
}

// widen merges the open, high, low and close prices of part of an interval into b. If the part belongs to
// a new interval, widen appends b to the answer and starts a new bar.
func (c *composer) widen(b *bar, at int64, v *[4]uint256.Int) {
	begin := down(at, c.q.step)
	if begin != b.begin {
		c.end(b)
		*b = bar{begin, v[0], v[1], v[2], v[3]}
		return
	}
	if v[1].Gt(&b.high) {
		b.high = v[1]
	}
	if v[2].Lt(&b.low) {
		b.low = v[2]
	}
	b.close = v[3]
}

// end appends b to the answer, unless it is empty.
func (c *composer) end(b *bar) {
	if b.begin < 0 {
		return
	}
	c.comma()
	c.integer("[", (b.begin+c.q.step)*1000)
	for _, price := range [...]*uint256.Int{&b.open, &b.high, &b.low, &b.close} {
		c.add(",")
		c.f.Body = appendPlain(c.f.Body, price, c.q.places, false)
	}
	c.add("]")
}
