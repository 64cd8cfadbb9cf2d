package coingecko

import (
	"math/big"
	"time"

	"example.com/marketdata/internal/model"
)

var steps = map[string]time.Duration{"hourly": time.Hour, "daily": 24 * time.Hour}

// candles returns the candles of the requested number of days.
func (q *coinQuestion) candles() any {
	ago := q.ago()
	step := steps[q.one("interval", "", "hourly", "daily")]
	switch {
	case step > 0:
	case ago <= 2*24*60*60:
		step = time.Hour
	case ago <= 30*24*60*60:
		step = 4 * time.Hour
	default:
		step = 24 * time.Hour
	}
	return q.ending(step, func(end time.Time) bool { return q.Time.Unix()-end.Unix() < ago })
}

// candleRange returns the candles that end in a range of time.
func (q *coinQuestion) candleRange() any {
	from, to, step := q.time("from"), q.time("to"), steps[q.word("interval")]
	if from.After(to) {
		q.blame("from")
	}
	if step == 0 {
		q.blame("interval")
		step = time.Hour
	}
	return q.ending(step, func(end time.Time) bool { return !end.Before(from) && !end.After(to) })
}

// ending returns the candles with the given step whose intervals have ended and for whose ends
// wantsEnd returns true.
func (q *coinQuestion) ending(step time.Duration, wantsEnd func(end time.Time) bool) any {
	code, places, a := q.codes("vs_currency", 1)[0], q.places(), q.theCoin()
	if a == nil {
		return nil
	}
	list := []any{}
	var c model.Candle
	var begin time.Time
	write := func() {
		if end := begin.Add(step); c.Open != nil && !end.After(q.Time) && wantsEnd(end) {
			list = append(list, []any{end.UnixMilli(), plain(c.Open, places), plain(c.High, places),
				plain(c.Low, places), plain(c.Close, places)})
		}
	}
	for _, part := range q.parts(code, step, a.id()) {
		if at := part.at.Truncate(step); !at.Equal(begin) {
			write()
			begin, c = at, part.Candle
			continue
		}
		if part.High.Cmp(c.High) > 0 {
			c.High = part.High
		}
		if part.Low.Cmp(c.Low) < 0 {
			c.Low = part.Low
		}
		c.Close = part.Close
	}
	write()
	return list
}

// part is a candle that is combined with others into a longer one.
type part struct {
	at time.Time
	model.Candle
}

// parts returns the hourly or daily candles from which longer candles are built. If the currency is
// an asset, they are the prices in the snapshots of the last 48 hours, without intervals that began
// before that.
func (q *coinQuestion) parts(code string, step time.Duration, id int64) (all []part) {
	switch past := q.Past; {
	case past == nil:
	case code != "usd":
		for _, s := range past.All {
			price, unit := s.Assets[id].Price, s.Assets[q.assetOf[code]].Price
			if q.Time.Sub(s.Time.Truncate(step)) < 48*time.Hour && price != nil && unit != nil && unit.Sign() > 0 {
				x := new(big.Rat).Quo(price, unit)
				all = append(all, part{s.Time, model.Candle{Open: x, High: x, Low: x, Close: x}})
			}
		}
	case step < 24*time.Hour:
		for _, p := range past.Hours {
			if c, ok := p.Candles[id]; ok && q.Time.Sub(p.Begin) <= 90*24*time.Hour {
				all = append(all, part{p.Begin, c})
			}
		}
	default:
		for _, p := range past.Days {
			if c, ok := p.Candles[id]; ok {
				all = append(all, part{p.Begin, c})
			}
		}
	}
	return all
}
