package artifacts

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"time"
)

// PriceList is the held snapshots of prices in a ledger root, oldest first.
//
// There are some 2,700 of them after a year, and every build reads and writes
// them all, so they stand in the root's JSON as one string: padded base64 of,
// for each snapshot in turn,
//
//	time    how many steps of ten minutes it lies behind the one before; the
//	        first: behind 1970-01-01T00:00:00Z, and so possibly negative
//	parts   how many objects its prices are in
//	        for each: its digest (32 bytes) and its stored length
//
// Numbers are varints as in Protocol Buffers; the time is signed (zigzag).
type PriceList []HeldPrices

// HeldPrices is one held snapshot of prices.
type HeldPrices struct {
	// Time is a whole multiple of ten minutes, UTC.
	Time time.Time
	// Parts are the objects with its prices, in ascending order of id; none
	// when no asset had one.
	Parts []Ref
}

const stepSeconds = int64(Step / time.Second)

// maxListSteps bounds the time between two snapshots, and that of the first:
// some 20,000 years.
const maxListSteps = 1 << 30

// MarshalText implements encoding.TextMarshaler.
func (l PriceList) MarshalText() ([]byte, error) {
	var b []byte
	last := int64(0)
	for _, h := range l {
		step := h.Time.Unix() / stepSeconds
		b = binary.AppendVarint(b, step-last)
		b = binary.AppendUvarint(b, uint64(len(h.Parts)))
		for _, p := range h.Parts {
			b = append(b, p.Digest[:]...)
			b = binary.AppendUvarint(b, uint64(p.Size))
		}
		last = step
	}
	return base64.StdEncoding.AppendEncode(nil, b), nil
}

// UnmarshalText implements encoding.TextUnmarshaler. Times that do not ascend
// are an error.
func (l *PriceList) UnmarshalText(text []byte) error {
	b, err := base64.StdEncoding.AppendDecode(nil, text)
	if err != nil {
		return fmt.Errorf("price list: %w", err)
	}
	*l = nil
	step := int64(0)
	for len(b) > 0 {
		delta, n := binary.Varint(b)
		if n <= 0 || delta < -maxListSteps || delta > maxListSteps || len(*l) > 0 && delta <= 0 {
			return fmt.Errorf("price list: time of snapshot %d", len(*l))
		}
		step, b = step+delta, b[n:]
		parts, n := binary.Uvarint(b)
		if n <= 0 || parts > uint64(len(b)/len(Digest{})) {
			return fmt.Errorf("price list: parts of snapshot %d", len(*l))
		}
		b = b[n:]
		h := HeldPrices{Time: time.Unix(step*stepSeconds, 0).UTC(), Parts: make([]Ref, parts)}
		for i := range h.Parts {
			p := &h.Parts[i]
			b = b[copy(p.Digest[:], b):]
			size, n := binary.Uvarint(b)
			if n <= 0 || size > MaxObjectSize {
				return fmt.Errorf("price list: part %d of snapshot %d", i, len(*l))
			}
			p.Size, b = int64(size), b[n:]
		}
		*l = append(*l, h)
	}
	return nil
}
