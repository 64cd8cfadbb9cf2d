package transparency_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/transparency"
	"example.com/marketdata/internal/test/buildtest"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
	"golang.org/x/mod/sumdb/tlog"
)

const store = "0123456789abcdef0123456789abcdef"

// pointer returns the pointer of publication n, counting from 1, for a log with the given size and
// root.
func pointer(n int64, tree tlog.Tree) *artifacts.Pointer {
	return &artifacts.Pointer{
		Format: artifacts.Format, Store: store, Sequence: uint64(n), Nonce: "n", Published: buildtest.Epoch,
		Time:     buildtest.Epoch.Add(time.Duration(n) * artifacts.Step),
		Manifest: artifacts.Ref{Digest: artifacts.Sum(fmt.Append(nil, n)), Size: 1},
		Log:      &artifacts.LogHead{Size: tree.N, Root: artifacts.Digest(tree.Hash)},
	}
}

// logOf returns a store with a log of n leaves that is made with package tlog alone, and the
// pointer of the last publication.
func logOf(t *testing.T, n int64) (*memstore.Store, *artifacts.Pointer) {
	t.Helper()
	s := memstore.New()
	var hashes []tlog.Hash
	read := tlog.HashReaderFunc(func(indexes []int64) (out []tlog.Hash, err error) {
		for _, x := range indexes {
			out = append(out, hashes[x])
		}
		return out, nil
	})
	var bundle []byte
	for i := range n {
		entry := buildtest.Leaf(pointer(i+1, tlog.Tree{}))
		hashes = append(hashes, must.Get(tlog.StoredHashes(i, []byte(entry), read))(t)...)
		bundle = append(binary.BigEndian.AppendUint16(bundle, uint16(len(entry))), entry...)
		if w := i%256 + 1; w == 256 || i == n-1 {
			ok(t, s.Put(t.Context(), transparency.Key(tlog.Tile{H: 8, L: -1, N: i / 256, W: int(w)}), bundle))
			bundle = nil
		}
	}
	for _, tile := range tlog.NewTiles(8, 0, n) {
		ok(t, s.Put(t.Context(), transparency.Key(tile), must.Get(tlog.ReadTileData(tile, read))(t)))
	}
	tree := tlog.Tree{N: n, Hash: must.Get(tlog.TreeHash(n, read))(t)}
	cp := transparency.Checkpoint{Origin: transparency.Origin(store), Tree: tree}
	_, err := buildtest.Signed(s).Swap(t.Context(), artifacts.CheckpointKey, "", cp.Text())
	ok(t, err)
	return s, pointer(n, tree)
}

var ok = must.OK

// TestTileBoundaries appends to logs whose last tiles are almost full, at each level. An
// independent client must be able to read the result, even without the superseded partial tiles.
func TestTileBoundaries(t *testing.T) {
	sizes := []int64{1, 254, 510}
	if !testing.Short() {
		sizes = append(sizes, 65534)
	}
	for _, n := range sizes {
		s, last := logOf(t, n)
		want := buildtest.CheckLog(t, s)
		for range 4 {
			next := pointer(last.Log.Size+1, tlog.Tree{})
			signed := buildtest.Signed(s)
			grown := must.Get(transparency.Append(t.Context(), signed, store, last, transparency.LeafOf(next)))(t)
			ok(t, grown.Write(t.Context(), signed))
			ok(t, grown.Write(t.Context(), signed)) // repeating the write is harmless
			next.Log, last = &artifacts.LogHead{Size: grown.N, Root: artifacts.Digest(grown.Hash)}, next
			want = append(want, buildtest.Leaf(next))
		}
		buildtest.SameLog(t, s, want, false)
		removed := 0
		ok(t, s.List(t.Context(), artifacts.TilePrefix, func(info artifacts.Info) error {
			if transparency.Superseded(info.Key, last.Log.Size) {
				removed++
				return s.Delete(t.Context(), info.Key)
			}
			return nil
		}))
		buildtest.SameLog(t, s, want, false)
		if (removed > 0) != (n > 1) {
			t.Errorf("%d leaves: %d tiles are superseded", n, removed)
		}
		must.Get(transparency.Settle(t.Context(), buildtest.Signed(s), store, last))(t)
	}
}

// TestSettle checks that Settle writes the pointer's leaf if the tiles and the leaf have the
// pointer's root, and that anything else is an error and writes nothing.
func TestSettle(t *testing.T) {
	before, _ := logOf(t, 4)
	_, last := logOf(t, 5)
	whole := buildtest.Clone(t, before, buildtest.All)
	must.Get(transparency.Settle(t.Context(), buildtest.Signed(whole), store, last))(t)
	other := *last
	other.Log = &artifacts.LogHead{Size: 5, Root: artifacts.Sum(nil)}
	later := *last
	later.Log = &artifacts.LogHead{Size: 7, Root: last.Log.Root}
	for name, c := range map[string]struct {
		s    artifacts.Store
		p    *artifacts.Pointer
		want error
	}{
		"written":                {whole, last, nil},
		"to be written":          {before, last, nil},
		"checkpoint is lost":     {without(t, whole, "log/checkpoint"), last, nil},
		"checkpoint lost before": {without(t, before, "log/checkpoint"), last, nil},
		"no log":                 {without(t, whole, "log/"), last, artifacts.ErrNotFound},
		"another root":           {whole, &other, artifacts.ErrCorrupt},
		"another leaf":           {before, &other, artifacts.ErrCorrupt},
		"tiles are lost":         {without(t, before, "log/tile/0"), last, artifacts.ErrNotFound},
		"entries are lost":       {without(t, before, "log/tile/entries"), last, artifacts.ErrNotFound},
		"two behind":             {whole, &later, artifacts.ErrNotFound},
		"ahead":                  {whole, pointer(4, tlog.Tree{N: 4}), transparency.ErrBehind},
	} {
		t.Run(name, func(t *testing.T) {
			s := buildtest.Clone(t, c.s, buildtest.All)
			tree, err := transparency.Settle(t.Context(), buildtest.Signed(s), store, c.p)
			if !errors.Is(err, c.want) || err == nil && (tree.N != 5 || len(buildtest.CheckLog(t, s)) != 5) {
				t.Errorf("%+v, %v", tree, err)
			}
			if err != nil && !sameFiles(t, s, c.s) {
				t.Error("something was written")
			}
		})
	}
	changed := buildtest.Clone(t, whole, buildtest.All)
	bundle := buildtest.Stored(t, changed, artifacts.MustKey("log/tile/entries/000.p/5"))
	buildtest.Overwrite(t, changed, artifacts.MustKey("log/tile/entries/000.p/5"),
		[]byte(strings.Replace(string(bundle), "2026", "2027", 1)))
	_, err := transparency.Append(t.Context(), buildtest.Signed(changed), store, last, transparency.LeafOf(last))
	if !errors.Is(err, artifacts.ErrCorrupt) {
		t.Errorf("an entry that was changed is carried on: %v", err)
	}
}

// damage randomly deletes or truncates each object, or flips one of its bytes.
func damage(t *testing.T, s artifacts.Store, dice *rand.Rand, keys []artifacts.Key) {
	t.Helper()
	for _, key := range keys {
		b := buildtest.Stored(t, s, key)
		switch dice.IntN(3) {
		case 0:
			b = nil
		case 1:
			b = b[:dice.IntN(len(b))]
		default:
			b[dice.IntN(len(b))] ^= 1 << dice.IntN(8)
		}
		buildtest.Overwrite(t, s, key, b)
	}
}

// TestMend damages random objects of logs of many sizes. With a copy, Mend must restore everything.
// Without one, it must restore tiles if all entries are intact, entries if their snapshots are
// known, and otherwise everything but the damaged entries. It must never change anything else, and
// must return the keys of the parts that it cannot restore.
func TestMend(t *testing.T) {
	for i, n := range []int64{1, 2, 7, 8, 255, 256, 257, 300, 511, 512, 513, 800} {
		whole, last := logOf(t, n)
		known := rand.New(rand.NewPCG(33, uint64(i))).Int64N(10)
		var m artifacts.Manifest
		for j := n - 1; j > max(0, n-1-known); j-- {
			p := pointer(j, tlog.Tree{})
			m.Retained = append(m.Retained, artifacts.Retained{Time: p.Time, Manifest: p.Manifest})
		}
		var tiles, bundles []artifacts.Key
		for key := range buildtest.Log(t, whole) {
			if strings.Contains(key.String(), "entries") {
				bundles = append(bundles, key)
			} else if key != artifacts.CheckpointKey {
				tiles = append(tiles, key)
			}
		}
		some := func(dice *rand.Rand, keys []artifacts.Key) (some []artifacts.Key) {
			slices.SortFunc(keys, artifacts.Key.Compare)
			for _, i := range dice.Perm(len(keys))[:dice.IntN(len(keys)+1)] {
				some = append(some, keys[i])
			}
			return some
		}
		lost := func(keys []artifacts.Key) (lost []artifacts.Key) { // the snapshots of the last entries may be known
			for _, key := range keys {
				if full := !strings.Contains(key.String(), ".p/"); full || n%256 > known+1 {
					lost = append(lost, key)
				}
			}
			return lost
		}
		for seed := range uint64(30) {
			for name, c := range map[string]struct {
				keys   []artifacts.Key
				copies bool
			}{
				"tiles": {keys: tiles}, "bundles": {keys: bundles},
				"any with a copy": {append(slices.Clone(tiles), bundles...), true},
				"any":             {keys: append(slices.Clone(tiles), bundles...)},
			} {
				dice := rand.New(rand.NewPCG(seed, uint64(n)))
				s, gone := buildtest.Clone(t, whole, buildtest.All), some(dice, c.keys)
				damage(t, s, dice, gone)
				var copied []artifacts.ObjectReader
				if c.copies {
					copied = append(copied, whole)
				}
				before := buildtest.Log(t, s)
				left, solved, err := transparency.Mend(t.Context(), s, last, &m, copied,
					func(key artifacts.Key, b []byte) error { return transparency.Put(t.Context(), s, key, b) })
				ok(t, err)
				after := buildtest.Log(t, whole)
				if !solved {
					after = before
				}
				for _, key := range left {
					if !slices.Contains(gone, key) {
						t.Fatalf("%d leaves, %s: %s was whole, and is left", n, name, key)
					}
					delete(after, key)
					if b, is := before[key]; is {
						after[key] = b
					}
				}
				if !maps.Equal(after, buildtest.Log(t, s)) {
					t.Fatalf("%d leaves, %s, seed %d: neither as it was nor mended, but %q", n, name, seed, left)
				}
				if may := lost(gone); name != "any" && (!solved || len(left) > 0 && name != "bundles" ||
					slices.ContainsFunc(left, func(key artifacts.Key) bool { return !slices.Contains(may, key) })) {
					t.Fatalf("%d leaves, %s, seed %d: of %q are left %q, solved %v", n, name, seed, gone, left, solved)
				}
			}
		}
	}
}

// TestMendFromOlderCopy checks that Mend restores a lost log if an older copy has its first leaves
// and the retained snapshots provide the last ones.
func TestMendFromOlderCopy(t *testing.T) {
	for n := int64(250); n < 270; n++ {
		whole, last := logOf(t, n)
		older, _ := logOf(t, n-6)
		var m artifacts.Manifest
		for j := n - 1; j >= n-5; j-- {
			p := pointer(j, tlog.Tree{})
			m.Retained = append(m.Retained, artifacts.Retained{Time: p.Time, Manifest: p.Manifest})
		}
		s := memstore.New()
		put := func(key artifacts.Key, b []byte) error { return s.Put(t.Context(), key, b) }
		left, solved, err := transparency.Mend(t.Context(), s, last, &m, []artifacts.ObjectReader{older}, put)
		want := buildtest.Log(t, whole)
		delete(want, artifacts.CheckpointKey)
		if err != nil || !solved || len(left) > 0 || !maps.Equal(buildtest.Log(t, s), want) {
			t.Errorf("%d leaves: left %q, solved %v, %v", n, left, solved, err)
		}
		m.Retained = m.Retained[:4]
		if left, solved, err := transparency.Mend(t.Context(), memstore.New(), last, &m,
			[]artifacts.ObjectReader{older}, put); solved || err != nil {
			t.Errorf("%d leaves, one of which nobody has: left %q, %v", n, left, err)
		}
	}
}

func without(t *testing.T, s artifacts.Store, prefix string) artifacts.Store {
	return buildtest.Clone(t, s, func(key artifacts.Key) bool { return !strings.HasPrefix(key.String(), prefix) })
}

func sameFiles(t *testing.T, a, b artifacts.Store) bool {
	names := func(s artifacts.Store) (all []string) {
		ok(t, s.List(t.Context(), "", func(info artifacts.Info) error {
			all = append(all, info.Key.String())
			return nil
		}))
		return all
	}
	return len(names(a)) == len(names(b))
}

// FuzzProof checks that Verify returns an error for every file, since no file of the fuzzer has a
// valid signature.
func FuzzProof(f *testing.F) {
	f.Add([]byte("{}"))
	f.Add((&transparency.Proof{Format: 1, Checkpoint: "marketdata/x\n1\n"}).Encode())
	trust := artifacts.Trust{buildtest.SignKey.Trust()}
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, _, err := transparency.Verify(b, trust); err == nil {
			t.Errorf("%+v", p)
		}
		if _, err := transparency.Trusted(b, trust); err == nil {
			t.Error("nobody signed this")
		}
	})
}
