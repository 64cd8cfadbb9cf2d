package files

import (
	"bytes"
	"testing"

	"example.com/marketdata/builder/market"
	"example.com/marketdata/internal/lab/must"
	"github.com/holiman/uint256"
	"github.com/parquet-go/parquet-go"
	"pgregory.net/rapid"
)

// TestNulls: nulls are read back as nulls wherever they stand.
func TestNulls(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var want []bool
		for range rapid.IntRange(1, 8).Draw(t, "runs") {
			null := rapid.Bool().Draw(t, "null")
			for range rapid.IntRange(1, 70).Draw(t, "length") {
				want = append(want, null)
			}
		}
		var out bytes.Buffer
		at := make([]places, batch)
		must.OK(t, writeRows(&Writer{}, &out, len(want), func(row *quote, i int) {
			*row = quote{ID: int64(i)}
			if !want[i] {
				row.Rank, row.MarketCap = at[i%batch].setRank(7), &at[i%batch].cap
			}
		}))
		for i, row := range must.Get(parquet.Read[quote](bytes.NewReader(out.Bytes()), int64(out.Len())))(t) {
			if (row.Rank == nil) != want[i] || (row.MarketCap == nil) != want[i] {
				t.Fatalf("row %d of %v: rank %v, market cap %v", i, want, row.Rank, row.MarketCap)
			}
		}
	})
}

// TestComputed: figures of up to 36 digits are written exactly, longer ones as null.
func TestComputed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u := market.U128{Hi: rapid.Uint64().Draw(t, "hi"), Lo: rapid.Uint64().Draw(t, "lo")}
		neg := rapid.Bool().Draw(t, "neg")
		wide := uint256.Int{u.Lo, u.Hi}
		digits := len(wide.Dec())
		var at decimal
		d := computed(neg, &wide, &at)
		if (d == nil) != (digits > 36) {
			t.Fatalf("%d digits: %v", digits, d)
		}
		if d == nil {
			return
		}
		back := new(uint256.Int).SetBytes(d[:])
		if d[0] >= 0x80 {
			back.Sub(new(uint256.Int).Lsh(uint256.NewInt(1), 128), back)
		}
		if !back.Eq(&wide) || (d[0] >= 0x80) != (neg && !wide.IsZero()) {
			t.Fatalf("%v, negative %v: %x", &wide, neg, *d)
		}
	})
}
