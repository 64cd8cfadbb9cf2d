package answer

import (
	"strconv"

	"example.com/marketdata/edge/query"
)

// allMissing notes every value: before the first snapshot none matches.
func (w *work) allMissing(q *query.Query) {
	ids := missingValues{w: w, name: filterNames[byID]}
	for _, id := range q.IDs {
		ids.id(id)
	}
	for f, values := range [3][][]byte{bySlug: q.Slugs, bySymbol: q.Symbols} {
		m := missingValues{w: w, name: filterNames[f]}
		for _, v := range values {
			m.text(v)
		}
	}
}

// maxNotFound bounds X-Not-Found, in bytes (INTERFACE.md, "Values not found").
const maxNotFound = 1 << 10

// missingValues writes one filter's part of X-Not-Found.
type missingValues struct {
	w    *work
	name string
	some bool
}

func (m *missingValues) id(id int64) {
	var digits [20]byte
	m.text(strconv.AppendInt(digits[:0], id, 10))
}

// text appends a value, unless it, or one before it, does not fit.
func (m *missingValues) text(value []byte) {
	w, before := m.w, len(m.w.notFound)
	switch {
	case w.cut:
		return
	case m.some:
		w.notFound = append(w.notFound, ',')
	case before > 0:
		w.notFound = append(append(w.notFound, '&'), m.name...)
	default:
		w.notFound = append(w.notFound, m.name...)
	}
	m.some = true
	if w.notFound = query.AppendEscaped(w.notFound, value); len(w.notFound) > maxNotFound {
		w.notFound, w.cut = w.notFound[:before], true
	}
}
