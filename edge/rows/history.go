package rows

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge/limit"
	"example.com/marketdata/edge/query"
	"example.com/marketdata/edge/shards"
	"example.com/marketdata/edge/snapshot"
)

// errPrices means that a history row is malformed.
var errPrices = fmt.Errorf("%w: %w: a row of history has other prices than its block has times", shards.ErrUnavailable,
	artifacts.ErrCorrupt)

// An item of /history consists of the first fields of the asset's row (id, name, symbol and slug), a string
// that depends only on the window, and the points.
var (
	nameKey, logoKey = []byte(`,"name":`), []byte(`,"logo":`)
	null             = []byte("null")

	windowParts = func() (parts [len(artifacts.HistoryWindows)]string) {
		for i, w := range artifacts.HistoryWindows {
			parts[i] = `,"window":"` + w.Name + `","interval":"` + w.Interval + `","points":`
		}
		return parts
	}()
)

// historySearch is the state of a query about the past.
type historySearch struct {
	// asked is the query, or nil if its endpoint is not about the past or the snapshot does not contain the
	// past.
	asked  *query.Query
	window *snapshot.History // for /history, unless the window is max
	search pastSearch        // for all other queries
	about  int               // the index of the window in artifacts.HistoryWindows
	block  cursor
	large  bool // a slot for a large body is occupied
}

const (
	itemStart = `{"id":`
	itemEnd   = `]}`
	pricesKey = `,"prices":[`
)

// lastNull is the end of a row without a price at the last time of its block.
var lastNull = []byte("null]}")

// hasPoints reports whether an asset belongs in the list. For /history, it must have a point in the window.
func (f *Finder) hasPoints(id uint64) (bool, error) {
	switch {
	case f.past.asked.Endpoint != query.History:
		return true, nil
	case f.past.window == nil:
		return f.hasMax(id)
	}
	_, _, ok, err := f.find(&f.listed, f.past.window.Listed, id)
	if ok || err != nil || f.past.window.Own == nil {
		return ok, err
	}
	s, row, ok, err := f.find(&f.past.block, f.past.window.Own, id)
	return ok && !bytes.HasSuffix(s.Row(row), lastNull), err
}

// anyHasPoints reports whether an asset in the rows [start, end) of v has a point in the window. It stops at
// the first such asset.
func (f *Finder) anyHasPoints(v *snapshot.View, start, end int) (bool, error) {
	for row := start; row < end; row++ {
		s, err := f.at(v, row/v.PerShard())
		if err != nil {
			return false, err
		}
		if row%v.PerShard() >= s.Len() {
			return false, errShort
		}
		if ok, err := f.hasPoints(s.ID(row % v.PerShard())); ok || err != nil {
			return ok, err
		}
		f.Rows++
	}
	return false, nil
}

const (
	// Lengths in bytes. Few points are longer than usualPoint, and few items without their points are
	// longer than usualItem.
	usualPoint = snapshot.PointLength + 20
	usualItem  = 512
)

// appendItems appends the items for the assets in the picked rows of v.
func (f *Finder) appendItems(v *snapshot.View, picked []entry) error {
	if f.past.window == nil {
		return f.appendPastItems(v, f.past.asked, picked)
	}
	points := 0
	for i := range f.past.window.Blocks {
		b := &f.past.window.Blocks[i]
		points += len(b.Points)/snapshot.PointLength - b.First
	}
	if err := f.Grow(len(picked) * (points*usualPoint + usualItem)); err != nil {
		return err
	}
	for _, e := range picked {
		s, err := f.at(v, e.row/v.PerShard())
		if err == nil {
			err = f.appendItem(s, e.row%v.PerShard())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Grow makes room for n more bytes in the body. A large body first waits for a slot.
func (f *Finder) Grow(n int) error {
	if f.Buffers == nil || f.past.large || n <= cap(f.Body)-len(f.Body) {
		return nil
	}
	if err := f.enter(limit.LargeBody); err != nil {
		return err
	}
	f.past.large = true
	body := f.Buffers.LargeBody()
	if n += len(f.Body); n > cap(body) {
		body = make([]byte, 0, n)
	}
	f.Body = append(body, f.Body...)
	return nil
}

// beginItem appends the beginning of the item for the asset in row i of s: id, name, symbol and slug.
func (f *Finder) beginItem(s *artifacts.Shard, i int) error {
	f.Unsummed = true
	if f.Body[len(f.Body)-1] != '[' {
		f.Body = append(f.Body, ',')
	}
	// Neither key can occur inside a string, because quotes in strings are escaped.
	row := s.Row(i)
	digits := bytes.IndexByte(row, ',')
	name, logo := bytes.Index(row, nameKey), bytes.Index(row, logoKey)
	if digits < len(itemStart) || name < digits || logo < name {
		return errShort
	}
	f.Body = append(append(f.Body, row[:digits]...), row[name:logo]...)
	return nil
}

// appendItem appends the item for the asset in row i of s.
func (f *Finder) appendItem(s *artifacts.Shard, i int) error {
	if err := f.beginItem(s, i); err != nil {
		return err
	}
	f.Body = append(f.Body, windowParts[f.past.about]...)
	id, first := s.ID(i), len(f.Body)
	digits := artifacts.IDEnd(id)
	for i := range f.past.window.Blocks {
		b := &f.past.window.Blocks[i]
		shard, row, ok, err := f.find(&f.past.block, b.View, id)
		if err != nil {
			return err
		}
		if ok {
			if err := f.appendPoints(b, shard.Row(row), digits+len(pricesKey)); err != nil {
				return err
			}
		}
	}
	if len(f.Body) == first {
		f.Body = append(f.Body, ',')
	}
	f.Body[first] = '[' // overwrites the comma before the first point
	f.Body = append(f.Body, itemEnd...)
	return nil
}

// appendPoints appends the points from an asset's row in a block, each after a comma. This is the main cost of
// composing an answer, since a year has 366 points. pos is the index of the row's first price, after the id
// and pricesKey.
func (f *Finder) appendPoints(b *snapshot.Block, row []byte, pos int) error {
	const most = 16 // the number of bytes in one copy, enough for a price with its closing quote
	if pos > len(row) || row[pos-1] != '[' {
		return errPrices
	}
	at := len(f.Body)
	// Make room for all points, and for the bytes that the last copy writes beyond its price.
	body := slices.Grow(f.Body, len(b.Points)+2*len(row)+most)
	body = body[:cap(body)]
	for i := range len(b.Points) / snapshot.PointLength {
		if rest := row[pos:]; len(rest) > most+1 && rest[0] == '"' {
			// These copies overlap, have a fixed length and need no function call. Searching for the
			// quote and appending would take three times as long.
			point := (*[snapshot.PointLength]byte)(b.Points[i*snapshot.PointLength:])
			src, dst := (*[1 + most]byte)(rest), (*[snapshot.PointLength + most]byte)(body[at:])
			*(*[16]byte)(dst[:]) = *(*[16]byte)(point[:])
			*(*[16]byte)(dst[snapshot.PointLength-16:]) = *(*[16]byte)(point[snapshot.PointLength-16:])
			x, y := binary.LittleEndian.Uint64(src[1:]), binary.LittleEndian.Uint64(src[9:])
			binary.LittleEndian.PutUint64(dst[snapshot.PointLength:], x)
			binary.LittleEndian.PutUint64(dst[snapshot.PointLength+8:], y)
			n := beforeQuote(x)
			if n == 8 {
				n += beforeQuote(y)
			}
			if n < most {
				if i >= b.First {
					at += snapshot.PointLength + n + 2
					body[at-1] = ']'
				}
				pos += n + 3
				continue
			}
		}
		switch rest := row[pos:]; {
		case len(rest) > 0 && rest[0] == '"':
			n := bytes.IndexByte(rest[1:], '"') + 1
			if n == 0 {
				return errPrices
			}
			if i >= b.First {
				at += copy(body[at:], b.Points[i*snapshot.PointLength:][:snapshot.PointLength])
				at += copy(body[at:], rest[1:1+n])
				body[at] = ']'
				at++
			}
			pos += n + 2
		case bytes.HasPrefix(rest, null):
			pos += len(null) + 1
		default:
			return errPrices
		}
		if pos > len(row) {
			return errPrices
		}
	}
	f.Body = body[:at]
	if string(row[pos:]) != "}" {
		return errPrices
	}
	return nil
}

// beforeQuote returns the number of bytes in x before the first quote, or 8 if there is none.
func beforeQuote(x uint64) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	x ^= '"' * ones // turns quotes into zero bytes
	return bits.TrailingZeros64((x-ones)&^x&highs) / 8
}
