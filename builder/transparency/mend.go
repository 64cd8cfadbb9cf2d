package transparency

import (
	"bytes"
	"context"
	"slices"

	"example.com/marketdata/artifacts"
	"golang.org/x/mod/sumdb/tlog"
)

// Mend finds the missing and damaged parts of the log that the pointer p names or, if p names none,
// that the checkpoint names. It calls put with each part that it can restore, and returns the keys
// of the remaining ones. It learns the leaves from bundles and lowest tiles, in the store and in
// copies, and from the snapshots that m retains, and computes everything else. If no combination of
// leaves has the log's root, solved is false, and Mend puts nothing.
func Mend(ctx context.Context, s artifacts.ObjectReader, p *artifacts.Pointer, m *artifacts.Manifest,
	copies []artifacts.ObjectReader, put func(key artifacts.Key, b []byte) error,
) (left []artifacts.Key, solved bool, err error) {
	d := &mending{leaves: map[tlog.Hash]string{}}
	if p.Log != nil {
		d.tree, d.last = HeadOf(p), append(Leaves(m), LeafOf(p))
	} else if cp, _, err := ReadCheckpoint(ctx, s, Origin(p.Store)); err == nil {
		d.tree = cp.Tree
	}
	if d.tree.N == 0 {
		return nil, false, nil
	}
	d.learn(d.last)
	// The last leaf may not be written yet.
	d.from = []*tiles{newTiles(ctx, s, d.tree.N), newTiles(ctx, s, d.tree.N-1)}
	d.from[1].read = d.from[0].read // the two differ only in the widths of tiles
	for _, r := range copies {
		cp, _, err := ReadCheckpoint(ctx, r, Origin(p.Store))
		switch {
		case err == nil:
			d.from = append(d.from, newTiles(ctx, r, cp.N))
		case !artifacts.IsDamage(err): // the missing part may be in this copy
			return nil, false, err
		}
	}
	whole := d.solve()
	if whole == nil || d.err != nil {
		return nil, false, d.err
	}
	mend := func(t tlog.Tile, want []byte) {
		have := d.find(d.from[0], t)
		switch {
		case d.err != nil || want != nil && bytes.Equal(have, want):
		case want == nil:
			left = append(left, key(t))
		default:
			d.err = put(key(t), want)
		}
	}
	for _, t := range tlog.NewTiles(height, 0, d.tree.N) {
		hashes := whole.read[t]
		mend(t, hashes)
		if t.L == 0 {
			t.L = entries
			mend(t, d.entries(hashes))
		}
	}
	return left, d.err == nil, d.err
}

// mending is a log under repair.
type mending struct {
	tree   tlog.Tree
	last   []string // known leaves at the end of the log
	from   []*tiles
	leaves map[tlog.Hash]string // leaves found in any object, by hash
	err    error                // the error from a copy or store that cannot be read
}

func (d *mending) learn(leaves []string) {
	for _, leaf := range leaves {
		d.leaves[tlog.RecordHash([]byte(leaf))] = leaf
	}
}

// find returns a tile, or nil if it is missing or damaged.
func (d *mending) find(r *tiles, t tlog.Tile) []byte {
	if t.W <= 0 || d.err != nil {
		return nil
	}
	b, err := r.get(t)
	if err != nil && !artifacts.IsDamage(err) {
		d.err = err
	}
	return b
}

// guesses returns the possible contents of tile n at level 0. Contents that match a tile one level
// higher come first.
func (d *mending) guesses(n int64) (list []string) {
	t, above0 := tileOf(0, n, d.tree.N), map[tlog.Hash]bool{}
	add := func(hashes []byte) {
		if g := d.fit(t, hashes); g != nil && !slices.Contains(list, string(g)) {
			list = append(list, string(g))
		}
	}
	for _, r := range d.from {
		if bundle, hashes, err := parseBundle(d.find(r, tileOf(entries, n, r.size))); err == nil && bundle != nil {
			d.learn(bundle)
			add(hashes)
		}
		if hashes := d.find(r, tileOf(0, n, r.size)); hashes != nil {
			add(hashes)
		}
		if up := d.find(r, tileOf(1, n>>height, r.size)); int(n%width+1)*tlog.HashSize <= len(up) {
			above0[tlog.Hash(up[n%width*tlog.HashSize:][:tlog.HashSize])] = true
		}
	}
	add(nil)
	i := slices.IndexFunc(list, func(g string) bool {
		hash, err := above(t, []byte(g))
		return err == nil && above0[hash]
	})
	if i > 0 {
		list[0], list[i] = list[i], list[0]
	}
	return list
}

// fit cuts hashes to the width of a tile, or extends them with the known leaves at the log's end.
// It returns nil if the required leaves are unknown.
func (d *mending) fit(t tlog.Tile, b []byte) []byte {
	b = bytes.Clone(b[:min(len(b), t.W*tlog.HashSize)])
	for i := len(b) / tlog.HashSize; i < t.W; i++ {
		at := int64(len(d.last)) - (d.tree.N - t.N*width - int64(i))
		if at < 0 {
			return nil
		}
		h := tlog.RecordHash([]byte(d.last[at]))
		b = append(b, h[:]...)
	}
	return b
}

// solve returns the tiles of hashes, or nil if it finds no combination with the tree's root.
func (d *mending) solve() *tiles {
	var row []byte
	for n := int64(0); ; n++ {
		list := d.guesses(n)
		if len(list) == 0 || d.err != nil {
			return nil
		}
		if (n+1)*width < d.tree.N {
			row = append(row, list[0]...)
			continue
		}
		for _, end := range list { // only the root shows which one is right
			t := d.compute(slices.Concat(row, []byte(end)))
			if root, err := tlog.TreeHash(t.size, t); err == nil && root == d.tree.Hash {
				return t
			}
		}
		return nil
	}
}

// compute returns all tiles that follow from the hashes of all leaves.
func (d *mending) compute(row []byte) *tiles {
	all := newTiles(d.from[0].ctx, d.from[0].from, d.tree.N)
	for level := 0; len(row) > 0; level++ {
		var up []byte
		for n := int64(0); len(row) > 0; n++ {
			t := tileOf(level, n, all.size)
			all.read[t], row = row[:t.W*tlog.HashSize], row[t.W*tlog.HashSize:]
			if hash, err := above(t, all.read[t]); err == nil && t.W == width {
				up = append(up, hash[:]...)
			}
		}
		row = up
	}
	return all
}

// entries returns the bundle for a tile at level 0, or nil if one of its leaves is unknown.
func (d *mending) entries(hashes []byte) (bundle []byte) {
	for h := range slices.Chunk(hashes, tlog.HashSize) {
		leaf := d.leaves[tlog.Hash(h)]
		if leaf == "" {
			return nil
		}
		bundle = appendEntry(bundle, leaf)
	}
	return bundle
}
