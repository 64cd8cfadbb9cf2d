package reply

import (
	"strconv"

	"example.com/marketdata/edge/respcache"
	"example.com/marketdata/edge/snapshot"
)

// answerGlobal answers /global, which is composed once per state, and for each request that pins
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
	if current { // another goroutine makes the same
		source := w.source(tag)
		response := w.newResponse(w.finder.Body, &source, identity)
		f.global.Store(respcache.NewEntry(nil, source, int(identity), response))
	}
	_, err := e.writeFresh(r, w, tag)
	return err
}

// appendGlobal renders /global: the totals of s, and the change record in force.
// The body is shorter than those that are coded.
func appendGlobal(b []byte, state *snapshot.State, s *snapshot.Snapshot) []byte {
	b = append(b, bodyStart...)
	b = append(b, `{"total_market_cap":"`...)
	b = append(b, s.Global.TotalMarketCap...)
	b = append(b, `","total_volume_24h":"`...)
	b = append(b, s.Global.TotalVolume24h...)
	b = append(b, `","total_market_cap_change_percentage_24h":`...)
	if value, ok := Change(state, s); ok {
		b = strconv.AppendQuote(b, value) // digits, a minus, a point
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

// Change returns the change record's percentage, if there is one for the totals of s.
func Change(state *snapshot.State, s *snapshot.Snapshot) (string, bool) {
	c := state.Change
	if c == nil || c.Database != s.Database || !fits(c.Value) {
		return "", false
	}
	return c.Value, true
}

// maxChangeDigits bounds the integer digits of the total's change; a longer one is null
// (INTERFACE.md, "Global").
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
