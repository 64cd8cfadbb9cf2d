package oracle

import (
	"context"
	"encoding/json"
	"fmt"
	"math/big"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/internal/model"
)

// pastRow is a row of a block of the past: the asset's figures in each snapshot, and its candles. Unknown
// values are null.
type pastRow struct {
	ID      int64         `json:"id"`
	Moments []*[3]*string `json:"moments"`
	Candles []*[6]*string `json:"candles"`
}

// past adds the candles and past figures from the blocks of a snapshot to s.
func (s *Snapshot) past(ctx context.Context, store artifacts.Reader, m *artifacts.Manifest) error {
	s.Past = &model.Past{}
	for i := range artifacts.PastIntervals {
		about := &artifacts.PastIntervals[i]
		for _, v := range m.Past(about) {
			passed := make([]model.Passed, len(v.Times))
			for n, t := range v.Times {
				passed[n] = model.Passed{Begin: t.Truncate(about.Step), Candles: map[int64]model.Candle{},
					First: model.Seen{Time: t, Assets: map[int64]model.Quoted{}}}
			}
			if err := s.pastBlock(ctx, store, v, passed); err != nil {
				return err
			}
			switch i {
			case artifacts.Days:
				s.Past.Days = append(s.Past.Days, passed...)
			case artifacts.Hours:
				s.Past.Hours = append(s.Past.Hours, passed...)
			default:
				for _, p := range passed {
					s.Past.All = append(s.Past.All, p.First)
				}
			}
		}
	}
	if len(s.Past.All)+len(s.Past.Days)+len(s.Past.Hours) == 0 {
		s.Past = nil
	}
	return nil
}

// pastBlock adds the rows of a block to the intervals of its times.
func (s *Snapshot) pastBlock(
	ctx context.Context, store artifacts.Reader, v *artifacts.View, passed []model.Passed,
) error {
	shards, err := read(ctx, store, v)
	if err != nil {
		return err
	}
	for _, shard := range shards {
		for n := range shard.Len() {
			var row pastRow
			err := json.Unmarshal(shard.Row(n), &row)
			candles := len(row.Candles) > 0
			if err == nil && (len(row.Moments) != len(passed) || candles && len(row.Candles) != len(passed)) {
				err = fmt.Errorf("id %d has %d moments and %d candles of %d", row.ID, len(row.Moments),
					len(row.Candles), len(passed))
			}
			if err != nil {
				s.fault(v.Collection, err)
				continue
			}
			for i, p := range passed {
				if q := row.Moments[i]; q != nil {
					p.First.Assets[row.ID] = model.Quoted{
						Price: number(q[0]), MarketCap: number(q[1]), Volume: number(q[2])}
				}
				if !candles || row.Candles[i] == nil {
					continue
				}
				c := row.Candles[i]
				p.Candles[row.ID] = model.Candle{
					Open: number(c[0]), High: number(c[1]), Low: number(c[2]), Close: number(c[3]),
					Last: model.Quoted{Price: number(c[3]), MarketCap: number(c[4]), Volume: number(c[5])}}
			}
		}
	}
	return nil
}

// number parses a decimal. It returns nil if the value is unknown or invalid. The comparison of answers
// reports invalid values.
func number(text *string) *big.Rat {
	if text == nil {
		return nil
	}
	x, _ := new(big.Rat).SetString(*text)
	return x
}
