package ledger

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"sort"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/market"
)

// row is the price of one asset, in units of 1e-18 dollars.
type row struct {
	id    uint64
	price market.U128
	quote int32 // index into the feed's quotes; not stored
}

// sortedRows returns the feed's prices in ascending order of id. It returns an error if an asset
// has two quotes or no id, because such rows could not be decoded.
func sortedRows(f *market.Feed) ([]row, error) {
	rows := make([]row, len(f.Quotes))
	for q := range f.Quotes {
		rows[q] = row{f.Assets[f.Quotes[q].Asset].ID, f.Quotes[q].Price, int32(q)}
	}
	slices.SortFunc(rows, func(a, b row) int { return cmp.Compare(a.id, b.id) })
	last := uint64(0)
	for _, r := range rows {
		if r.id == last {
			return nil, fmt.Errorf("ledger: asset %q: two quotes, or no id", f.Assets[f.Quotes[r.quote].Asset].Key)
		}
		last = r.id
	}
	return rows, nil
}

// seek returns the index of the first row, starting with rows[at], whose id is at least id. It is
// fast if that row is near.
func seek(rows []row, at int, id uint64) int {
	if at >= len(rows) || rows[at].id >= id {
		return at
	}
	step := 1
	for at+step < len(rows) && rows[at+step].id < id {
		at, step = at+step, 2*step
	}
	rest := rows[at+1 : min(at+step, len(rows))]
	return at + 1 + sort.Search(len(rest), func(i int) bool { return rest[i].id >= id })
}

// appendRows encodes rows in ascending order of id. It writes their number, followed by two values
// for each row: the difference between its id and the previous one (0 for the first row), and its
// price. All values are varints, with 7 bits per byte and the low bits first.
func appendRows(dst []byte, rows []row) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(rows)))
	last := uint64(0)
	for i := range rows {
		dst = binary.AppendUvarint(dst, rows[i].id-last)
		dst = appendPrice(dst, rows[i].price)
		last = rows[i].id
	}
	return dst
}

const (
	stepSeconds = int64(artifacts.Step / time.Second)
	maxStep     = 1 << 30 // about 20,000 years
	maxRowBytes = 8 + 19  // an id less than 2^53, a price less than 2^127
)

// appendStep encodes a time as the number of ten-minute steps since 1970: a varint with its sign in
// the lowest bit (zigzag, as in Protocol Buffers).
func appendStep(dst []byte, t time.Time) []byte {
	return binary.AppendVarint(dst, t.Unix()/stepSeconds)
}

// appendPrice encodes a price, which is below 10^36 (FEED.md, "Numbers").
func appendPrice(dst []byte, u market.U128) []byte {
	for u.Hi != 0 || u.Lo >= 0x80 {
		dst = append(dst, byte(u.Lo)|0x80)
		u.Lo = u.Lo>>7 | u.Hi<<57
		u.Hi >>= 7
	}
	return append(dst, byte(u.Lo))
}

// reader consumes values from the front of b. After the first error, bad stays true and every read
// returns a zero value.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) fail() { r.bad, r.b = true, nil }

// uint reads a varint that is at most limit.
func (r *reader) uint(limit uint64) uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 || v > limit {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

// steps reads a number of ten-minute steps.
func (r *reader) steps() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 || v < -maxStep || v > maxStep {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

// step reads a time in ten-minute steps since 1970.
func (r *reader) step() time.Time { return time.Unix(r.steps()*stepSeconds, 0).UTC() }

// take returns the next n bytes.
func (r *reader) take(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.fail()
		return nil
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

// each decodes the rows that appendRows encoded and calls f for each row. A price of 2^127 or more
// is an error.
func (r *reader) each(f func(id uint64, price market.U128)) {
	n := r.uint(uint64(len(r.b)))
	// This loop dominates the cost of Past. Local copies keep b and at in registers. Most ids take
	// one byte.
	b, at, id := r.b, 0, uint64(0)
	for ; n > 0; n-- {
		delta, size := uint64(0), 1
		if at < len(b) && b[at] < 0x80 {
			delta = uint64(b[at])
		} else {
			delta, size = binary.Uvarint(b[at:])
		}
		if at += size; size <= 0 || delta == 0 || delta > market.MaxID-id {
			r.fail()
			return
		}
		price, size := readPrice(b[at:])
		if at += size; size == 0 {
			r.fail()
			return
		}
		id += delta
		f(id, price)
	}
	r.b = b[at:]
}

// rows calls f for each row whose asset is in wantedRows, with the asset's index in wantedRows.
func (r *reader) rows(wantedRows []row, f func(i int, price market.U128)) {
	i := 0
	r.each(func(id uint64, price market.U128) {
		if i = seek(wantedRows, i, id); i < len(wantedRows) && wantedRows[i].id == id {
			f(i, price)
		}
	})
}

// readPrice decodes a price that appendPrice encoded at the front of b. size is the price's encoded
// length, or 0 if b ends too early or the price is 2^127 or more.
func readPrice(b []byte) (price market.U128, size int) {
	low := uint64(0) // the lowest 63 bits, in up to 9 bytes
	for i, c := range b[:min(9, len(b))] {
		low |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			return market.U128{Lo: low}, i + 1
		}
	}
	if len(b) < 9 {
		return market.U128{}, 0
	}
	high, n := binary.Uvarint(b[9:])
	if n <= 0 {
		return market.U128{}, 0
	}
	return market.U128{Hi: high >> 1, Lo: low | high<<63}, 9 + n
}
