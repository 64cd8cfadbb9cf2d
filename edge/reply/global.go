package reply

import (
	"strconv"

	"example.com/marketdata/edge/respcache"
	"example.com/marketdata/edge/snapshot"
)

// answerGlobal answers /global. It composes the answer once per state, and again for each request that pins
// another snapshot.
func (e *Engine) answerGlobal(r *Request, state *snapshot.State, s *snapshot.Snapshot) error {
	if s == nil {
		return ErrNoSnapshot
	}
	r.Snapshot = s.Time
	f := e.finishedFrom(state)
	current := f != nil && s == state.Snapshot
	w := e.works.Get().(*work)
	defer e.free(w)
	w.answerFrom(s)
	if current {
		if entry := f.global.Load(); entry != nil && e.writeEntry(r, w, entry) {
			return nil
		}
	}
	w.follow(state)
	w.finder.Body, w.notFound = appendGlobal(r.Buffers.Body(), state, s), w.notFound[:0]
	tag := digestOf(w.finder.Body)
	if current { // other goroutines may store the same answer
		source := w.source(tag)
		response := w.newResponse(w.finder.Body, &source, identity)
		f.global.Store(respcache.NewEntry(nil, source, int(identity), response))
	}
	_, err := e.writeFresh(r, w, tag)
	return err
}

// appendGlobal appends the body of /global, which contains the totals of s and the change record. It is too
// short to be compressed.
func appendGlobal(b []byte, state *snapshot.State, s *snapshot.Snapshot) []byte {
	b = append(b, bodyStart...)
	b = append(b, `{"total_market_cap":"`...)
	b = append(b, s.Global.TotalMarketCap...)
	b = append(b, `","total_volume_24h":"`...)
	b = append(b, s.Global.TotalVolume24h...)
	b = append(b, `","total_market_cap_change_percentage_24h":`...)
	if value, ok := Change(state, s); ok {
		b = strconv.AppendQuote(b, value) // contains only digits, a minus sign and a point
	} else {
		b = append(b, "null"...)
	}
	b = append(b, `,"data_time":"`...)
	b = append(b, s.TimeText...)
	b = append(b, '"')
	if s.Notice != nil {
		b = append(append(b, `,"notice":`...), s.Notice...)
	}
	return append(b, `}}`...)
}

// Change returns the percentage in the change record, if the record belongs to the totals of s.
func Change(state *snapshot.State, s *snapshot.Snapshot) (string, bool) {
	c := state.Change
	if c == nil || c.Database != s.Database || !fits(c.Value) {
		return "", false
	}
	return c.Value, true
}

// maxChangeDigits is the largest number of digits before the point of the change. A change with more
// becomes null (INTERFACE.md, "Global").
const maxChangeDigits = 9

func fits(value string) bool {
	digits := 0
	for _, c := range []byte(value) {
		if c == '.' {
			break
		}
		if c != '-' {
			digits++
		}
	}
	return digits <= maxChangeDigits
}
