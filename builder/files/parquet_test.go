package files

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/market"
	"example.com/marketdata/internal/test/must"
	"github.com/holiman/uint256"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
	"pgregory.net/rapid"
)

// TestNulls checks that nulls are read back as nulls, wherever they occur.
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

// TestComputed checks that figures with up to 36 digits are written exactly, and longer ones as
// null.
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

// TestBounds checks that the footer has no bounds for decimals, which parquet-go compares as
// unsigned bytes (its issue 592), but keeps all other bounds. The changes -10, 0 and 10 come from
// that issue: a reader that trusted the minimum 0 and the maximum -10 would find no negative
// change.
func TestBounds(t *testing.T) {
	var out bytes.Buffer
	at := make([]places, batch)
	must.OK(t, writeRows(&Writer{}, &out, 3, func(row *quote, i int) {
		*row = quote{ID: int64(i) - 1}
		row.Changes.H1 = computed(i == 0, uint256.NewInt(10*uint64(max(i, 2-i)-1)), &at[i].changes[0])
	}))
	file := must.Get(parquet.OpenFile(bytes.NewReader(out.Bytes()), int64(out.Len())))(t)
	seen := map[string]bool{}
	for _, column := range file.Metadata().RowGroups[0].Columns {
		path, stats := strings.Join(column.MetaData.PathInSchema, "."), column.MetaData.Statistics
		decimals := column.MetaData.Type == format.FixedLenByteArray
		if seen[path] = true; decimals != (stats.MinValue == nil) || decimals != (stats.MaxValue == nil) ||
			decimals && stats.Min != nil {
			if path != "rank" && path != "since" { // all null
				t.Errorf("%s: statistics %+v", path, stats)
			}
		}
		null := path == "rank" || path == "since" || path == "market_cap" ||
			strings.HasPrefix(path, "percent_change") && !strings.HasSuffix(path, ".1h")
		if (stats.NullCount == 3) != null || !null && stats.NullCount != 0 {
			t.Errorf("%s: %d nulls of 3 rows", path, stats.NullCount)
		}
		if column.ColumnIndexOffset+column.OffsetIndexOffset > 0 {
			t.Errorf("%s: a page index without bounds", path)
		}
	}
	if !seen["percent_change.1h"] || !seen["price"] || !seen["id"] {
		t.Errorf("columns %v", seen)
	}
}

// TestFrameSize checks that a file of lines is one zstd frame that states its decompressed size, so
// that decoders that take a whole file in one call can read it (python-zstd 53, createrepo_c 415).
func TestFrameSize(t *testing.T) {
	var file []byte
	w := &Writer{Put: func(_ context.Context, data []byte) (artifacts.Ref, error) {
		file = append(file, data...)
		return artifacts.Ref{}, nil
	}}
	for _, rows := range []int{0, 1, 50_000} {
		file = nil
		must.OK(t, w.both(t.Context(), "x", rows, func(io.Writer) error { return nil },
			func(dst []byte, i int) []byte { return fmt.Appendf(dst, `{"id":%d}`, i) }))
		text := must.Get(must.Get(zstd.NewReader(nil))(t).DecodeAll(file, nil))(t)
		var header zstd.Header
		must.OK(t, header.Decode(file))
		if !header.HasFCS || header.FrameContentSize != uint64(len(text)) {
			t.Errorf("%d rows: the frame says %d bytes of %d", rows, header.FrameContentSize, len(text))
		}
	}
}
