package ledger

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"time"

	"example.com/marketdata/artifacts"
)

// priceList lists the snapshots whose prices are kept, oldest first. The first snapshot of an hour
// or day is kept longer than later ones in that hour or day. So comparing an entry with the
// previous entry shows whether it is the first of its hour or day.
//
// After a year there are about 2,700 entries, and every build reads and writes all of them.
// Therefore, the root's JSON holds them as one string: padded base64 of the following fields for
// each snapshot in turn.
//
//	time    steps of ten minutes since the previous snapshot; for the first one
//	        since 1970-01-01T00:00:00Z, and so possibly negative
//	parts   number of objects with its prices, and for each of them
//	        its digest (32 bytes) and its stored length
//
// Numbers are varints as in Protocol Buffers. Only the time is signed (zigzag).
type priceList []priceSet

// priceSet names the objects with the prices of one snapshot.
type priceSet struct {
	// Time is a whole multiple of ten minutes, in UTC.
	Time time.Time
	// Parts are the objects with the prices, in ascending order of id. Parts is empty if no asset
	// had a price.
	Parts []artifacts.Ref
}

// MarshalText implements encoding.TextMarshaler.
func (l priceList) MarshalText() ([]byte, error) {
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

// UnmarshalText implements encoding.TextUnmarshaler. Times that do not ascend are an error.
func (l *priceList) UnmarshalText(text []byte) error {
	b, err := base64.StdEncoding.AppendDecode(nil, text)
	if err != nil {
		return fmt.Errorf("price list: %w", err)
	}
	*l = nil
	r := reader{b: b}
	for step := int64(0); len(r.b) > 0; {
		step += r.steps()
		h := priceSet{Time: time.Unix(step*stepSeconds, 0).UTC(),
			Parts: make([]artifacts.Ref, r.uint(uint64(len(r.b)/len(artifacts.Digest{}))))}
		for i := range h.Parts {
			copy(h.Parts[i].Digest[:], r.take(uint64(len(artifacts.Digest{}))))
			h.Parts[i].Size = int64(r.uint(artifacts.MaxObjectSize))
		}
		if n := len(*l); r.bad || n > 0 && !h.Time.After((*l)[n-1].Time) {
			return fmt.Errorf("price list: snapshot %d", n)
		}
		*l = append(*l, h)
	}
	return nil
}
