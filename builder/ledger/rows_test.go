package ledger

import (
	"bytes"
	"context"
	"encoding/hex"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/market"
	"example.com/marketdata/internal/test/must"
)

// TestLayout pins the bytes that README.md describes.
func TestLayout(t *testing.T) {
	ids := newIDLog(0)
	ok(t, ids.give(300, "btc"))
	rows := []row{{id: 1, price: market.U128{Lo: 5}}, {id: 300, price: market.U128{Lo: 1e18}},
		{id: 301, price: market.U128{Hi: 1}}}
	for _, test := range []struct {
		what string
		got  []byte
		want string
	}{
		{"entry of ids", ids.open, "ac02" + "03" + "627463"},
		{"rows", appendRows(nil, rows), "03" + "01" + "05" + "ab02" + "808090bbbad6adf00d" + "01" +
			"80808080808080808002"},
		{"time", appendStep(nil, time.Date(1970, 1, 1, 0, 20, 0, 0, time.UTC)), "04"},
		{"time before 1970", appendStep(nil, time.Date(1969, 12, 31, 23, 50, 0, 0, time.UTC)), "01"},
	} {
		if got := hex.EncodeToString(test.got); got != test.want {
			t.Errorf("%s: %s, want %s", test.what, got, test.want)
		}
	}
}

func TestRowsRefuses(t *testing.T) {
	for _, test := range []struct{ name, hex string }{
		{"nothing", ""},
		{"more rows than bytes", "02" + "0105"},
		{"an id twice", "02" + "0105" + "0005"},
		{"id 0", "01" + "0005"},
		{"an id above 2^53-1", "02" + "ffffffffffffff0f" + "05" + "01" + "05"},
		{"an id that wraps around", "02" + "0105" + "ffffffffffffffffff01" + "05"},
		{"a price that ends early", "01" + "01" + "ff"},
		{"a price of 2^127", "01" + "01" + "ffffffffffffffffff" + "ffffffffffffffffff02"},
	} {
		b := must.Get(hex.DecodeString(test.hex))(t)
		r := reader{b: b}
		if r.rows([]row{{id: 1}}, func(int, market.U128) {}); !r.bad {
			t.Errorf("%s: %s reads as rows", test.name, test.hex)
		}
	}
}

// TestManyRows writes more prices and returns than fit in one object, and reads them back.
func TestManyRows(t *testing.T) {
	ctx := context.Background()
	rows := make([]row, partRows+100_000)
	for i := range rows {
		rows[i] = row{id: uint64(3*i + 1), price: market.U128{Hi: uint64(i), Lo: 7}, quote: int32(i)}
	}
	s, put := newStore(), objects{}
	l := mustLoad(t, s, nil)
	h := putPrices(rows, epoch, &put)
	log := must.Get(l.advanceReturns(ctx, recent, epoch, rows, &put))(t)
	for _, b := range put {
		s.put(b)
	}
	if len(h.Parts) != 2 || len(log.Segments) < 2 {
		t.Errorf("%d rows are in %d price objects and %d segments", len(rows), len(h.Parts), len(log.Segments))
	}

	next := 0
	check := func(i int, price market.U128) {
		if i != next || price != rows[i].price {
			t.Fatalf("row %d has price %v, want row %d with %v", i, price, next, rows[next].price)
		}
		next++
	}
	if err := l.eachPrice(ctx, &h, rows, check); err != nil || next != len(rows) {
		t.Fatalf("%d prices of %d (%v)", next, len(rows), err)
	}
	next = 0
	for _, segment := range log.Segments {
		if segment.Size > 2*segmentBytes {
			t.Errorf("a segment has %d bytes", segment.Size)
		}
		err := readReturns(s.objects[artifacts.ObjectKey(segment.Digest)], rows,
			func(time.Time) func(int, market.U128) { return check })
		ok(t, err)
	}
	if next != len(rows) {
		t.Fatalf("%d returns of %d", next, len(rows))
	}
}

// TestSortedIsOfItsFeed checks that sorted never returns the cached rows of another feed.
func TestSortedIsOfItsFeed(t *testing.T) {
	l := mustLoad(t, newStore(), nil)
	for i := range 3 {
		f := &market.Feed{Assets: []market.Asset{{ID: uint64(i + 1)}}, Quotes: []market.Quote{{}}}
		if rows, err := l.sorted(f); err != nil || len(rows) != 1 || rows[0].id != uint64(i+1) {
			t.Errorf("rows are %v (%v), want one of id %d", rows, err, i+1)
		}
	}
}

func TestSortedRefuses(t *testing.T) {
	for _, f := range []*market.Feed{
		{Assets: []market.Asset{{Key: "btc", ID: 1}}, Quotes: []market.Quote{{}, {}}},
		{Assets: []market.Asset{{Key: "btc"}}, Quotes: []market.Quote{{}}},
	} {
		if rows, err := sortedRows(f); err == nil ||
			!strings.Contains(err.Error(), `asset "btc": two quotes, or no id`) {
			t.Errorf("rows are %v (%v), want an error that names the asset", rows, err)
		}
	}
}

func FuzzRows(f *testing.F) {
	f.Add(appendRows(nil, []row{{id: 1}, {id: 300, price: market.U128{Hi: 1}}}))
	f.Add([]byte{2, 1, 0, 0, 0}) // an id that occurs twice
	f.Add([]byte{1, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
		0xff, 0xff})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, b []byte) {
		// Ask for every id that the input could contain.
		var asked []row
		for id := uint64(1); id <= 1000; id++ {
			asked = append(asked, row{id: id})
		}
		var got []row
		r := reader{b: b}
		r.rows(asked, func(i int, price market.U128) { got = append(got, row{id: asked[i].id, price: price}) })
		if r.bad {
			if len(r.b) > 0 {
				t.Fatal("a fault leaves bytes to read")
			}
			return
		}
		var again []row
		r = reader{b: appendRows(nil, got)}
		r.rows(asked, func(i int, price market.U128) { again = append(again, row{id: asked[i].id, price: price}) })
		if r.bad || !slices.Equal(got, again) {
			t.Fatalf("%x reads as %v, again as %v", b, got, again)
		}
	})
}

func FuzzReturns(f *testing.F) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	f.Add(appendRows(appendStep(nil, at), []row{{id: 1}, {id: 3}}))
	f.Add(bytes.Repeat(appendRows(appendStep(nil, at), nil), 3))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		asked := []row{{id: 1}, {id: 2}, {id: 3}, {id: 200}}
		read := func(b []byte) (rows []row, written []byte, err error) {
			err = readReturns(b, asked, func(at time.Time) func(int, market.U128) {
				return func(i int, price market.U128) {
					rows = append(rows, row{id: asked[i].id, price: price})
					written = appendRows(appendStep(written, at), rows[len(rows)-1:])
				}
			})
			return rows, written, err
		}
		rows, written, err := read(b)
		if err != nil {
			return
		}
		if again, _, err := read(written); err != nil || !slices.Equal(rows, again) {
			t.Fatalf("%x reads as %v, again as %v (%v)", b, rows, again, err)
		}
	})
}
