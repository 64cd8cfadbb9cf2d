package past

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"time"

	"example.com/marketdata/artifacts"
)

// Outcome says what happened to the figures in one row of an import.
type Outcome int

// The outcomes.
const (
	// Kept means that the figures are kept at their time, and are part of the candles for their
	// hour and day.
	Kept Outcome = iota
	// InCandles means that the figures are only part of candles. At their age, the store keeps the
	// figures of another snapshot for the hour or day.
	InCandles
	// Same means that the store already has these figures.
	Same
	// Refused means that the figures would change a candle or a price that edges may have served.
	Refused
	// Early means that the figures are earlier than the first snapshot of their hour or day, which
	// remains the first.
	Early
	// Outcomes is the number of outcomes.
	Outcomes
)

// Import adds figures of earlier times to the past blocks, as if snapshots with those figures had
// been built at those times. There are two restrictions. The first snapshot of an hour or day
// remains the first. Figures that the store already has do not change, unless Rewrite is set. An
// asset's candles for an hour or day come either from the store or from the import, never from
// both. Once the store has a candle for the day, or for the hour if the day is not over, the import
// refuses further figures for that time.
type Import struct {
	Builder
	// Kept are the times of the snapshots that the ledger keeps, oldest first.
	Kept []time.Time
	// Rewrite lets the import's figures replace those of the store.
	Rewrite bool
	// Decided is called for the figures of each row, with their outcome. If the store already has a
	// candle for the figures, their outcome is decided at the end of the hour or day.
	Decided func(t time.Time, f *Figures, o Outcome)

	first   [len(artifacts.PastIntervals)]map[int64]time.Time // the first snapshot of an hour or day
	touched map[uint64]bool                                   // assets whose figures for the day are replaced
	day     time.Time
	held    map[uint64]*heldFigures // by asset: the hour's figures, or the day's if no hours are kept
	begin   time.Time               // the start of the hour or day of held
	holder  int                     // the interval of held, Hours or Days
}

// heldFigures are an asset's figures for which the store already has a candle. They wait until
// their candle can be compared with the store's.
type heldFigures struct {
	candle  candle // the candle that the figures make
	times   []time.Time
	figures []*Figures
}

// Open reads the list of existing blocks. T is the time of the store's newest snapshot.
func (im *Import) Open(T time.Time) {
	im.Builder.Open(T)
	im.Builder.fill = func(id uint64) bool { return im.Rewrite && im.touched[id] }
	for i := artifacts.Hours; i <= artifacts.Days; i++ {
		im.first[i] = firsts(i, im.Kept)
		var inBlocks []time.Time
		for j := range im.chains {
			for _, v := range im.chains[j].views {
				for _, t := range v.Times {
					if im.chains[j].kept([]time.Time{t}) {
						inBlocks = append(inBlocks, t)
					}
				}
			}
		}
		// The ledger also keeps snapshots without figures. The blocks begin with the first snapshot
		// that has figures.
		for of, t := range firsts(i, inBlocks) {
			if t.After(im.first[i][of]) {
				im.first[i][of] = t
			}
		}
	}
	im.last = time.Time{}
}

// firsts returns the first time within each hour or day.
func firsts(interval int, times []time.Time) map[int64]time.Time {
	first := map[int64]time.Time{}
	for _, t := range times {
		of := t.Truncate(artifacts.PastIntervals[interval].Step).Unix()
		if had, ok := first[of]; !ok || t.Before(had) {
			first[of] = t
		}
	}
	return first
}

// isEarly reports whether the first snapshot of t's hour or day is later than t.
func (im *Import) isEarly(t time.Time) bool {
	for i := artifacts.Hours; i <= artifacts.Days; i++ {
		first, ok := im.first[i][t.Truncate(artifacts.PastIntervals[i].Step).Unix()]
		if ok && t.Before(first) {
			return true
		}
	}
	return false
}

// Add adds the figures of a time that is later than all times added so far, and not later than T.
// It returns the figures that the caller must add to the ledger.
func (im *Import) Add(ctx context.Context, s Snapshot) (accepted []Figures, err error) {
	if err := im.turn(ctx, s.Time); err != nil {
		return nil, err
	}
	if im.isEarly(s.Time) {
		for i := range s.Figures {
			im.Decided(s.Time, &s.Figures[i], Early)
		}
		return nil, nil
	}
	has, err := im.holdingAt(ctx, s.Time)
	if err != nil {
		return nil, err
	}
	price := im.Keeps(s.Time)
	for i := range s.Figures {
		f := &s.Figures[i]
		if im.Rewrite {
			im.touched[f.ID] = true
		} else if has.held(f.ID) {
			im.hold(s.Time, f)
			continue
		} else if had := has.moment(f.ID); had != nil {
			outcome := Refused
			if bytes.Equal(had, f.appendMoment(nil)) {
				outcome = Same
			}
			im.Decided(s.Time, f, outcome)
			continue
		}
		if accepted = append(accepted, *f); price {
			im.Decided(s.Time, f, Kept)
		} else {
			im.Decided(s.Time, f, InCandles)
		}
	}
	if len(accepted) == 0 {
		return nil, nil
	}
	for i := artifacts.Hours; i <= artifacts.Days; i++ {
		of := s.Time.Truncate(artifacts.PastIntervals[i].Step).Unix()
		if _, ok := im.first[i][of]; !ok {
			im.first[i][of] = s.Time
		}
	}
	// turn has already completed the intervals that are over. Completing them again would reopen
	// their blocks, and a block that is too old to be stored would come back without its columns.
	return accepted, im.add(ctx, Snapshot{Time: s.Time, Figures: accepted})
}

// Keeps reports whether the price at time t is kept as a ten-minute, hourly or daily price.
func (im *Import) Keeps(t time.Time) bool {
	kept := func(i int) bool { return artifacts.PastIntervals[i].Keeps(im.Time, t) }
	if kept(artifacts.TenMinutes) {
		return true
	}
	would := func(i int) bool {
		first, ok := im.first[i][t.Truncate(artifacts.PastIntervals[i].Step).Unix()]
		return !ok || first.Equal(t)
	}
	return kept(artifacts.Hours) && would(artifacts.Hours) || would(artifacts.Days)
}

// turn settles and completes the hours and days that are over at t.
func (im *Import) turn(ctx context.Context, t time.Time) error {
	if !im.begin.IsZero() && !t.Truncate(artifacts.PastIntervals[im.holder].Step).Equal(im.begin) {
		if err := im.settle(ctx); err != nil {
			return err
		}
	}
	if err := im.complete(ctx, t); err != nil {
		return err
	}
	if day := t.Truncate(24 * time.Hour); !day.Equal(im.day) {
		im.day, im.touched = day, map[uint64]bool{}
	}
	return nil
}

// hold keeps an asset's figures for which the store has a candle, until their candle can be compared
// with the store's.
func (im *Import) hold(t time.Time, f *Figures) {
	if im.begin.IsZero() {
		im.holder = artifacts.Days
		if artifacts.PastIntervals[artifacts.Hours].Keeps(im.Time, t) {
			im.holder = artifacts.Hours
		}
		im.begin, im.held = t.Truncate(artifacts.PastIntervals[im.holder].Step), map[uint64]*heldFigures{}
	}
	h := im.held[f.ID]
	if h == nil {
		h = &heldFigures{}
		im.held[f.ID] = h
	}
	h.candle.add(f.appendMoment(nil))
	h.times, h.figures = append(h.times, t), append(h.figures, f)
}

// settle decides the outcome of the held figures: Same if they produce the store's candle, and
// otherwise Refused.
func (im *Import) settle(ctx context.Context) error {
	b, err := im.chains[im.holder].block(ctx, im.begin)
	if err != nil {
		return err
	}
	at, ok := b.find(im.begin)
	for i := range b.rows {
		h := im.held[b.rows[i].id]
		if h == nil || !ok {
			continue
		}
		outcome := Refused
		if bytes.Equal(b.rows[i].candles[at], h.candle.text()) {
			outcome = Same
		}
		for i := range h.figures {
			im.Decided(h.times[i], h.figures[i], outcome)
		}
		delete(im.held, b.rows[i].id)
	}
	// For the remaining assets, the store has a candle for the day but none for this interval.
	for _, id := range slices.Sorted(maps.Keys(im.held)) {
		for i := range im.held[id].figures {
			im.Decided(im.held[id].times[i], im.held[id].figures[i], Refused)
		}
	}
	im.begin, im.held = time.Time{}, nil
	return nil
}

// Close completes the candles for the last hour and day if they are over, and returns the views of
// all blocks.
func (im *Import) Close(ctx context.Context) ([]artifacts.View, error) {
	if err := im.turn(ctx, im.Time); err != nil {
		return nil, err
	}
	if !im.begin.IsZero() {
		if err := im.settle(ctx); err != nil {
			return nil, err
		}
	}
	return im.views()
}

// holding is what the blocks contain for one time, by asset.
type holding struct {
	at   [len(artifacts.PastIntervals)]int
	rows [len(artifacts.PastIntervals)][]row
}

// holdingAt returns what the blocks contain for time t. The methods of the result must be called
// with ids in ascending order.
func (im *Import) holdingAt(ctx context.Context, t time.Time) (h holding, err error) {
	for i := range im.chains {
		if !im.chains[i].kept([]time.Time{t}) {
			continue // such a block is not in the store
		}
		b, err := im.chains[i].block(ctx, t)
		if err != nil {
			return h, err
		}
		if at, ok := b.find(t); ok {
			h.at[i], h.rows[i] = at, b.rows
		}
	}
	return h, nil
}

func (h *holding) row(interval int, id uint64) *row {
	rows := &h.rows[interval]
	for len(*rows) > 0 && (*rows)[0].id < id {
		*rows = (*rows)[1:]
	}
	if len(*rows) == 0 || (*rows)[0].id != id {
		return nil
	}
	return &(*rows)[0]
}

// held reports whether the store has a candle for the asset in this hour or day.
func (h *holding) held(id uint64) bool {
	for i := artifacts.Hours; i <= artifacts.Days; i++ {
		if r := h.row(i, id); r != nil && r.candles[h.at[i]] != nil {
			return true
		}
	}
	return false
}

// moment returns an asset's figures at the time of h, or nil if it has none.
func (h *holding) moment(id uint64) []byte {
	if r := h.row(artifacts.TenMinutes, id); r != nil {
		return r.moments[h.at[artifacts.TenMinutes]]
	}
	return nil
}
