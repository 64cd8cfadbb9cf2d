package ledger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/market"
	"example.com/marketdata/internal/test/must"
	"pgregory.net/rapid"
)

// exchanges returns a feed with the given exchanges and no other rows.
func exchanges(rows ...market.Exchange) *market.Feed { return &market.Feed{Exchanges: rows} }

// TestIDsAgainstModel builds from keys with and without ids, and compares the ids that they get
// over several builds with a map that follows FEED.md, "Ids".
func TestIDsAgainstModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := newChain(rt)
		ids := map[string]uint64{} // by key, from all builds
		used := map[uint64]bool{}
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		for range rapid.IntRange(1, 8).Draw(rt, "builds") {
			now = now.Add(artifacts.Step)
			var rows []market.Exchange
			var fresh []string
			for _, n := range rapid.SliceOfNDistinct(rapid.IntRange(0, 30), 0, 12, rapid.ID[int]).Draw(rt, "keys") {
				key := fmt.Sprintf("%c-key", 'A'+n)
				if n > 27 {
					key += strings.Repeat("long", 100_000) // so that segments fill up
				}
				old, known := ids[key]
				id := uint64(0)
				if rapid.Bool().Draw(rt, "brings an id") {
					id = old
					if !known {
						id = rapid.Uint64Range(1, 60).Filter(func(id uint64) bool { return !used[id] }).Draw(rt, "id")
					}
				}
				switch {
				case id != 0:
					ids[key], used[id] = id, true
				case !known:
					fresh = append(fresh, key)
				}
				rows = append(rows, market.Exchange{Key: key, ID: id})
			}
			slices.Sort(fresh)
			for _, key := range fresh {
				highest := uint64(0)
				for id := range used {
					highest = max(highest, id)
				}
				ids[key], used[highest+1] = highest+1, true
			}

			before := c.root.IDs["exchanges"].Segments
			f := exchanges(rows...)
			c.build(f, now)
			for _, e := range f.Exchanges {
				if e.ID != ids[e.Key] {
					rt.Fatalf("key %.10s has id %d, want %d", e.Key, e.ID, ids[e.Key])
				}
			}
			checkSegments(rt, c, before)
			l, err := Load(context.Background(), c.s, c.ref)
			c.check(err)
			checkIDs(rt, l, ids)
		}
	})
}

// checkIDs compares the exchanges' ids in l with all ids that were assigned.
func checkIDs(rt *rapid.T, l *Ledger, ids map[string]uint64) {
	for key, id := range ids {
		if got, ok := l.Known("exchanges", key); !ok || got != id {
			rt.Fatalf("Known(%.10s) = %d, %v, want %d", key, got, ok, id)
		}
		if got, ok := l.Owner("exchanges", id); !ok || got != key {
			rt.Fatalf("Owner(%d) = %.10s, %v, want %.10s", id, got, ok, key)
		}
		if _, ok := l.Known("chains", key); ok {
			rt.Fatalf("key %.10s is known as a chain's", key)
		}
	}
	given := slices.Collect(maps.Values(ids))
	for id := range uint64(100) {
		if key, ok := l.Owner("exchanges", id); ok != slices.Contains(given, id) {
			rt.Fatalf("Owner(%d) = %.10s, %v", id, key, ok)
		}
	}
}

// checkSegments checks that full segments did not change, that all segments but the last are full,
// and that none is much larger than segmentBytes.
func checkSegments(rt *rapid.T, c *chain, before []artifacts.Ref) {
	after := c.root.IDs["exchanges"].Segments
	for i, s := range after {
		if full := s.Size >= segmentBytes; !full && i < len(after)-1 || s.Size > segmentBytes+500_000 {
			rt.Fatalf("segment %d of %d has %d bytes", i, len(after), s.Size)
		}
	}
	for i, s := range before {
		if s.Size >= segmentBytes && after[i] != s {
			rt.Fatalf("full segment %d has changed", i)
		}
	}
}

func TestAssignIDsRefuses(t *testing.T) {
	for _, test := range []struct {
		name string
		rows []market.Exchange
		want string
	}{
		{"another key's id", []market.Exchange{{Key: "a", ID: 5}, {Key: "b", ID: 5}},
			`id 5 of key "b" belongs to key "a"`},
		{"another id of a key", []market.Exchange{{Key: "a", ID: 5}, {Key: "a", ID: 6}}, `key "a" has id 5, not 6`},
		{"an id too high", []market.Exchange{{Key: "a", ID: 1 << 53}}, "out of range"},
	} {
		l := must.Get(Load(context.Background(), newStore(), nil))(t)
		if err := l.AssignIDs(exchanges(test.rows...)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want %q", test.name, err, test.want)
		}
	}
}

// TestHighIDs checks that an id above MaxNewID, which may have been assigned before that limit
// existed, does not prevent new ids, and that the builder never assigns such an id to another key.
func TestHighIDs(t *testing.T) {
	s := newStore()
	var root *artifacts.Ref
	for build, step := range []struct {
		rows []market.Exchange
		want []uint64
	}{
		{[]market.Exchange{{Key: "top", ID: market.MaxID}, {Key: "a"}, {Key: "b", ID: 5}},
			[]uint64{market.MaxID, 6, 5}},
		{[]market.Exchange{{Key: "top"}, {Key: "c"}}, []uint64{market.MaxID, 7}},
		{[]market.Exchange{{Key: "high", ID: market.MaxNewID}, {Key: "next", ID: market.MaxNewID + 1}, {Key: "d"}},
			[]uint64{market.MaxNewID, market.MaxNewID + 1, market.MaxNewID + 2}},
		{[]market.Exchange{{Key: "d"}, {Key: "f"}, {Key: "e"}},
			[]uint64{market.MaxNewID + 2, market.MaxNewID + 4, market.MaxNewID + 3}},
	} {
		l := must.Get(Load(t.Context(), s, root))(t)
		f := exchanges(step.rows...)
		ok(t, l.AssignIDs(f))
		for i, e := range f.Exchanges {
			if e.ID != step.want[i] {
				t.Errorf("build %d: key %s has id %d, want %d", build, e.Key, e.ID, step.want[i])
			}
		}
		var put objects
		to := (&Root{Format: artifacts.Format,
			IDs: map[string]idSegments{"exchanges": l.ids["exchanges"].store(&put)}}).Encode()
		for _, b := range put {
			s.put(b)
		}
		ref := s.put(to)
		root = &ref
	}
}

func TestLoadRefusesBrokenIDs(t *testing.T) {
	entry := func(id uint64, key string) []byte {
		l := newIDLog(0)
		ok(t, l.give(id, key))
		return l.open
	}
	good := slices.Concat(entry(1, "a"), entry(2, "b"))
	for _, test := range []struct {
		name     string
		count    int
		segments [][]byte
	}{
		{"an id twice", 2, [][]byte{slices.Concat(good, entry(2, "c"))}},
		{"a key twice", 3, [][]byte{slices.Concat(good, entry(3, "b"))}},
		{"id 0", 3, [][]byte{append(slices.Clone(good), 0, 1, 'c')}},
		{"an entry that ends early", 2, [][]byte{good[:len(good)-1]}},
		{"a length without end", 2, [][]byte{append(slices.Clone(good), 3, 0xff)}},
		{"another count", 3, [][]byte{good}},
		{"a negative count", -1, [][]byte{good}},
		{"a segment in the middle that is not full", 3, [][]byte{good, entry(3, "c")}},
	} {
		s := newStore()
		log := idSegments{Count: test.count}
		for _, b := range test.segments {
			log.Segments = append(log.Segments, s.put(b))
		}
		root := &Root{Format: artifacts.Format, IDs: map[string]idSegments{"assets": log}}
		ref := s.put(root.Encode())
		if _, err := Load(context.Background(), s, &ref); !errors.Is(err, artifacts.ErrCorrupt) {
			t.Errorf("%s: error %v, want ErrCorrupt", test.name, err)
		}
	}
}

func FuzzIDs(f *testing.F) {
	f.Add([]byte{1, 1, 'a', 2, 1, 'b'})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f, 0})
	f.Add([]byte{1, 0xff, 0xff, 0x03})
	f.Fuzz(func(t *testing.T, b []byte) {
		l := newIDLog(0)
		if err := l.load(b); err != nil {
			if !errors.Is(err, artifacts.ErrCorrupt) {
				t.Fatalf("error %v, want ErrCorrupt", err)
			}
			return
		}
		again := newIDLog(0)
		for _, id := range slices.Sorted(maps.Keys(l.byID)) {
			ok(t, again.give(id, l.byID[id]))
		}
		if !maps.Equal(l.byKey, again.byKey) || len(again.open) > len(b) {
			t.Fatalf("%x reads as %v, written as %x", b, l.byKey, again.open)
		}
	})
}
