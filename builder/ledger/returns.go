package ledger

import (
	"context"
	"fmt"
	"slices"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/market"
)

// A return is an asset that has a price in a snapshot of a step and had none in that step's
// previous snapshot. The returns in each step form a log of segments, oldest first. A segment of
// segmentBytes is full and never changes. A segment is dropped when all its returns are too old for
// their zone.
//
// A segment is a sequence of batches, each with the snapshot's time (see appendStep) and its rows
// (see appendRows). A snapshot with many returns takes several batches.

// batchRows is the maximum number of rows in a batch. It therefore limits a segment's size.
const batchRows = 1 << 16

// zoneAge is the maximum age of the returns in each step.
var zoneAge = [zones]time.Duration{recentAge, hourlyAge, dailyAge}

// readReturns calls startBatch for each batch of rows in a segment, oldest first. startBatch
// returns another function. For each row in that batch whose asset is in wantedRows, readReturns
// calls this other function with the asset's index in wantedRows and the row's price.
func readReturns(b []byte, wantedRows []row, startBatch func(t time.Time) func(i int, price market.U128)) error {
	r := reader{b: b}
	for len(r.b) > 0 {
		t := r.step()
		r.rows(wantedRows, startBatch(t))
	}
	if r.bad {
		return fmt.Errorf("%w: segment of returns ends too early, or is out of order", artifacts.ErrCorrupt)
	}
	return nil
}

// returned computes the returns at T for a zone's step: the rows whose asset had no price in the
// step's newest snapshot. rows are the feed's rows, in ascending order of id. There are no returns
// if T does not belong to the step or is its first snapshot.
func (l *Ledger) returned(ctx context.Context, zone int, rows []row, t time.Time) ([]row, error) {
	last, ok := l.newest()
	if !ok || !inStep(zone, last, t) {
		return nil, nil
	}
	had := make([]bool, len(rows))
	err := l.eachPrice(ctx, l.root.Prices.last(zone), rows, func(i int, _ market.U128) { had[i] = true })
	if err != nil {
		return nil, err
	}
	var back []row
	for i, h := range had {
		if !h {
			back = append(back, rows[i])
		}
	}
	return back, nil
}

// advanceReturns returns a zone's log at T: the segments that are still needed, and the returns at
// T.
func (l *Ledger) advanceReturns(ctx context.Context, zone int, t time.Time, back []row,
	put *objects) (returnLog, error) {
	var to returnLog
	for _, s := range l.root.Returns[zone].Segments {
		if t.Sub(s.Newest) <= zoneAge[zone] {
			to.Segments = append(to.Segments, s)
		}
	}
	if len(back) == 0 {
		return to, nil
	}
	var open []byte
	if n := len(to.Segments) - 1; n >= 0 && to.Segments[n].Size < segmentBytes {
		b, err := artifacts.ReadObject(ctx, l.reader, to.Segments[n].Ref)
		if err != nil {
			return to, err
		}
		open, to.Segments = slices.Clip(b), to.Segments[:n] // clipped, so that appending does not write to b
	}
	w := returnWriter{log: to, open: open, put: put}
	w.add(t, back)
	return w.close(), nil
}

// returnWriter adds batches to a log, oldest first.
type returnWriter struct {
	log    returnLog // segments that will not change
	open   []byte    // the batches after these segments
	newest time.Time // the time of the last batch in open
	put    *objects
}

// add adds the returns of one snapshot.
func (w *returnWriter) add(t time.Time, back []row) {
	for batch := range slices.Chunk(back, batchRows) {
		w.open, w.newest = appendRows(appendStep(w.open, t), batch), t
		if len(w.open) >= segmentBytes {
			w.cut()
		}
	}
}

func (w *returnWriter) cut() {
	w.log.Segments = append(w.log.Segments, returnSegment{Ref: w.put.add(w.open), Newest: w.newest})
	w.open = nil
}

// close writes the open segment and returns the log.
func (w *returnWriter) close() returnLog {
	if len(w.open) > 0 {
		w.cut()
	}
	return w.log
}

// returnsWriter writes the returns of many snapshots, oldest first.
type returnsWriter struct {
	end  time.Time // returns that are too old for their zone at this time are omitted
	put  *objects
	last [zones][]row // prices of each step's previous snapshot
	logs [zones]returnWriter
}

// add adds the returns of the last snapshot of h. rows are its prices.
func (w *returnsWriter) add(h priceList, rows []row) {
	i := len(h) - 1
	for zone := range zones {
		if !h.inStep(zone, i) {
			continue
		}
		if i > 0 && w.end.Sub(h[i].Time) <= zoneAge[zone] {
			w.logs[zone].put = w.put
			w.logs[zone].add(h[i].Time, missing(rows, w.last[zone]))
		}
		w.last[zone] = rows
	}
}

func (w *returnsWriter) close() (logs [zones]returnLog) {
	for zone := range zones {
		logs[zone] = w.logs[zone].close()
	}
	return logs
}

// missing returns the rows whose asset is not in otherRows. Both slices are in ascending order of
// id.
func missing(rows, otherRows []row) (absent []row) {
	at := 0
	for _, r := range rows {
		if at = seek(otherRows, at, r.id); at == len(otherRows) || otherRows[at].id != r.id {
			absent = append(absent, r)
		}
	}
	return absent
}
