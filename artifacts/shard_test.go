package artifacts

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"example.com/marketdata/internal/test/must"
	"github.com/zeebo/xxh3"
)

// TestFindKey compares FindKey with a linear search, with keys that are similar in the ways that
// matter to it: long common prefixes, differences after the eighth byte, zero bytes, and keys that
// are prefixes of others.
func TestFindKey(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	random := func() []byte {
		k := []byte([]string{"", "asset-", "wrapped-something-", "a\x00"}[rnd.IntN(4)])
		for range rnd.IntN(14) {
			k = append(k, "\x00ab\xff"[rnd.IntN(4)])
		}
		return k
	}
	for round := range 2000 {
		var keys [][]byte
		begin := []string{"", "wrapped-"}[round%2]
		for range 1 + rnd.IntN(40) {
			keys = append(keys, append([]byte(begin), random()...))
		}
		slices.SortFunc(keys, bytes.Compare)
		keys = slices.CompactFunc(keys, bytes.Equal)
		in := &ShardRows{Keys: keys}
		for i := range keys {
			in.RunLens, in.Rows = append(in.RunLens, 1), append(in.Rows, fmt.Appendf(nil, `{"id":%d}`, i+1))
		}
		s := must.Get(parseShard(AppendShard(nil, in)))(t)
		asked := slices.Clone(keys)
		for range 40 {
			asked = append(asked, random(), append([]byte(begin), random()...))
		}
		for _, k := range asked {
			want, found := slices.BinarySearchFunc(keys, k, bytes.Compare)
			if got, ok := s.FindKey(k); got != want || ok != found {
				t.Fatalf("of %q, %q is found at %d, %v; want %d, %v", keys, k, got, ok, want, found)
			}
		}
	}
}

// TestFindID compares FindID with a linear search, among ids that are consecutive, have gaps, are
// unevenly spaced, or are the highest possible ones.
func TestFindID(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	for round := range 4000 {
		in := &ShardRows{}
		var ids []uint64
		for id := 1 + rnd.Uint64N(1000); len(ids) < 1+round%128; id++ {
			switch {
			case round%4 == 1:
				id += rnd.Uint64N(3)
			case round%4 == 2 && rnd.IntN(20) == 0:
				id += rnd.Uint64N(1 << 30)
			case round%4 == 3 && len(ids) == round%128:
				id = maxRowID
			}
			ids = append(ids, id)
			in.RunLens, in.Rows = append(in.RunLens, 1), append(in.Rows, fmt.Appendf(nil, `{"id":%d}`, id))
		}
		s := must.Get(parseShard(AppendShard(nil, in)))(t)
		for _, id := range append([]uint64{0, ids[len(ids)-1] + 1, maxRowID}, ids...) {
			for _, id := range []uint64{id, id + 1, max(id, 1) - 1} {
				want, found := slices.BinarySearch(ids, id)
				if got, ok := s.FindID(id); got != want || ok != found {
					t.Fatalf("of %d, %d is found at %d, %v; want %d, %v", ids, id, got, ok, want, found)
				}
			}
		}
	}
}

// TestAppendBackwards compares AppendBackwards with a loop over the rows, and the sums with the
// XXH3 hash of each row and tail.
func TestAppendBackwards(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for round := range 300 {
		in := &ShardRows{}
		id := 0
		for range 1 + rnd.IntN(20) {
			length := 1
			if round%2 == 1 {
				length = 1 + rnd.IntN(4)
			}
			in.RunLens = append(in.RunLens, length)
			for range length {
				id++
				in.Rows = append(in.Rows, fmt.Appendf(nil, `{"id":%d,"x":"%0*d"}`, id, rnd.IntN(400), 7))
				in.Tails = append(in.Tails, fmt.Appendf(nil, `,"links":%d}`, id%3))
			}
		}
		s := must.Get(parseShard(AppendShard(nil, in)))(t)
		for i, row := range in.Rows {
			if sum, tail := xxh3.Hash128(row).Bytes(), xxh3.Hash128(in.Tails[i]).
				Bytes(); !bytes.Equal(s.Sums(i, i+1), sum[:]) || !bytes.Equal(s.TailSum(i), tail[:]) {
				t.Fatalf("row %d has the sums %x and %x, want %x and %x", i, s.Sums(i, i+1), s.TailSum(i), sum, tail)
			}
		}
		for range 30 {
			i := rnd.IntN(s.Len())
			j := i + rnd.IntN(s.Len()-i+1)
			wantRows, wantSums := []byte("["), []byte("sums")
			for n := j - 1; n >= i; n-- {
				wantRows = append(append(wantRows, ','), in.Rows[n]...)
				wantSums = append(wantSums, s.Sums(n, n+1)...)
			}
			if rows, sums := s.AppendBackwards([]byte("["), []byte("sums"), i, j); !bytes.Equal(rows, wantRows) ||
				!bytes.Equal(sums, wantSums) {
				t.Fatalf("rows %d to %d of %d: got\n%s\nwant\n%s", i, j, s.Len(), rows, wantRows)
			}
		}
	}
}
