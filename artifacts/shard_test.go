package artifacts

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestFindKey holds FindKey against a plain search, with keys that are alike in
// the ways that matter to it: long common beginnings, differences behind the
// eighth byte, zero bytes, one key that begins another.
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
		s, err := ParseShard(AppendShard(nil, in))
		if err != nil {
			t.Fatal(err)
		}
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
