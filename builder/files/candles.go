package files

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/internal/walk"
	"example.com/marketdata/builder/market"
)

// candle is a row of a candle file: an asset's candle for an hour or a day.
type candle struct {
	Interval  string    `parquet:"interval,dict"` // 1h or 1d
	Time      time.Time `parquet:"time,dict,timestamp(millisecond)"`
	Asset     int64     `parquet:"asset,delta"`
	Open      decimal   `parquet:"open,decimal(18:36)"`
	High      decimal   `parquet:"high,decimal(18:36)"`
	Low       decimal   `parquet:"low,decimal(18:36)"`
	Close     decimal   `parquet:"close,decimal(18:36)"`
	MarketCap *decimal  `parquet:"market_cap,decimal(8:36)"`
	Volume    *decimal  `parquet:"volume,decimal(8:36)"`
}

// candles returns the candles of a day's hours, ordered by asset and time, followed by the candles
// of the day itself. It omits blocks that are damaged or missing, because they must not stop a build.
func (w *Writer) candles(ctx context.Context, dayStart time.Time) (all []candle, _ error) {
	for _, i := range []int{artifacts.Hours, artifacts.Days} {
		about := &artifacts.PastIntervals[i]
		name := about.Block(about.BlockStart(dayStart))
		for v := range w.Past {
			if w.Past[v].Collection != name {
				continue
			}
			added := all
			err := walk.Rows(ctx, w.Reader, w.Past[v].Objects, func(id uint64, row []byte) (err error) {
				added, err = appendCandles(added, about, w.Past[v].Times, dayStart, id, row)
				return err
			})
			switch {
			case err == nil:
				all = added
			case !artifacts.IsDamage(err):
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return all, nil
}

// appendCandles appends the candles of a row that begin on the UTC day that starts at dayStart.
func appendCandles(all []candle, about *artifacts.PastInterval, times []time.Time, dayStart time.Time, id uint64,
	row []byte,
) ([]candle, error) {
	_, elements, ok := artifacts.PastRow(row)
	for i := range times {
		var element []byte
		if element, elements, ok = artifacts.NextPast(elements); !ok {
			break
		}
		if element == nil || !times[i].Truncate(day).Equal(dayStart) {
			continue
		}
		c := candle{Interval: about.Name, Time: times[i].Truncate(about.Step), Asset: int64(id)}
		values := bytes.Split(element, []byte(","))
		prices := []*decimal{&c.Open, &c.High, &c.Low, &c.Close}
		if len(values) != artifacts.CandleValues {
			return all, fmt.Errorf("%w: a candle has %d values", artifacts.ErrCorrupt, len(values))
		}
		for j, v := range values {
			if string(v) == "null" && j >= len(prices) {
				continue
			}
			places := market.PriceDecimals
			if j >= len(prices) {
				places = market.MoneyDecimals
			}
			u, err := market.ParseDecimal(bytes.Trim(v, `"`), places, 38-places)
			if err != nil {
				return all, fmt.Errorf("%w: a candle's %s: %w", artifacts.ErrCorrupt, v, err)
			}
			switch d := fixed(u); {
			case j < len(prices):
				*prices[j] = d
			case j == len(prices):
				c.MarketCap = &d
			default:
				c.Volume = &d
			}
		}
		all = append(all, c)
	}
	if !ok && len(times) > 0 {
		return all, fmt.Errorf("%w: a row of the past has fewer candles than its block times", artifacts.ErrCorrupt)
	}
	return all, nil
}
