// Package transparency implements the log of published snapshots (go doc ./artifacts, "Log").
//
// The pointer names the tree whose last leaf belongs to the pointer itself. So publishing and
// appending are one step, the swap of the pointer. The builder puts the tiles before the swap
// ([Next.Prepare]), and the checkpoint after it. If it dies in between, the log lacks only the
// pointer's own leaf, which the next publication writes first ([Settle]).
package transparency

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"example.com/marketdata/artifacts"
	"golang.org/x/mod/sumdb/tlog"
)

// ErrBehind means that the checkpoint has more leaves than the pointer names. Either another
// builder has published since the pointer was read, or the pointer is an old copy.
var ErrBehind = errors.New("the pointer is older than the log's checkpoint")

// In C2SP tlog-tiles the hashes of a tile are the 256 leaves of a subtree.
const (
	height = 8
	width  = 1 << height
	// entries is the level that package tlog assigns to entry bundles.
	entries = -1
	// maxEntry is the maximum size of an entry with its length prefix, in bytes.
	maxEntry = 128
)

// Leaf returns the entry of a publication: the snapshot's time and its manifest's digest.
func Leaf(t time.Time, manifest artifacts.Digest) string {
	return t.UTC().Format(time.RFC3339) + " " + manifest.String()
}

// LeafOf returns the entry of a pointer's publication.
func LeafOf(p *artifacts.Pointer) string { return Leaf(p.Time, p.Manifest.Digest) }

func appendEntry(bundle []byte, entry string) []byte {
	return append(binary.BigEndian.AppendUint16(bundle, uint16(len(entry))), entry...)
}

// parseBundle returns a bundle's entries, and the tile of their hashes.
func parseBundle(b []byte) (list []string, hashes []byte, err error) {
	for len(b) > 0 {
		size := 2
		if len(b) >= size {
			size += int(binary.BigEndian.Uint16(b))
		}
		if len(b) < size {
			return nil, nil, fmt.Errorf("%w: a bundle of entries ends too early", artifacts.ErrCorrupt)
		}
		h := tlog.RecordHash(b[2:size])
		list, hashes, b = append(list, string(b[2:size])), append(hashes, h[:]...), b[size:]
	}
	return list, hashes, nil
}

// key returns the key of a tile, or of an entry bundle, in the format of C2SP tlog-tiles.
func key(t tlog.Tile) artifacts.Key {
	path := strings.TrimPrefix(t.Path(), fmt.Sprintf("tile/%d/", height))
	return artifacts.MustKey(artifacts.TilePrefix + strings.Replace(path, "data", "entries", 1))
}

// tileOf returns the n-th tile of a level in a tree of the given size.
func tileOf(level int, n, size int64) tlog.Tile {
	return tlog.Tile{H: height, L: level, N: n, W: int(min(width, size>>(height*max(level, 0))-n<<height))}
}

// tiles reads the tiles of a tree, each tile once. It verifies nothing.
type tiles struct {
	ctx  context.Context // the interfaces of package tlog have no context parameter
	from artifacts.ObjectReader
	size int64
	read map[tlog.Tile][]byte
}

func newTiles(ctx context.Context, r artifacts.ObjectReader, size int64) *tiles {
	return &tiles{ctx, r, size, map[tlog.Tile][]byte{}}
}

func (r *tiles) get(t tlog.Tile) ([]byte, error) {
	if b, ok := r.read[t]; ok {
		return b, nil
	}
	b, _, err := r.from.Get(r.ctx, key(t), int64(t.W*maxEntry))
	if err == nil && t.L != entries && len(b) != t.W*tlog.HashSize {
		err = fmt.Errorf("%w: it has %d bytes", artifacts.ErrCorrupt, len(b))
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", key(t), err)
	}
	r.read[t] = b
	return b, nil
}

// bundle returns the n-th bundle and its entries. It checks that the entries hash to the tile at
// level 0.
func (r *tiles) bundle(n int64) (b []byte, list []string, err error) {
	t := tileOf(entries, n, r.size)
	if b, err = r.get(t); err != nil {
		return nil, nil, err
	}
	want, err := r.get(tileOf(0, n, r.size))
	if err != nil {
		return nil, nil, err
	}
	list, hashes, err := parseBundle(b)
	if err != nil || !bytes.Equal(hashes, want) {
		return nil, nil, fmt.Errorf("%s: %w", key(t), mismatch(err))
	}
	return b, list, nil
}

// Height implements tlog.TileReader.
func (r *tiles) Height() int { return height }

// ReadTiles implements tlog.TileReader.
func (r *tiles) ReadTiles(list []tlog.Tile) (out [][]byte, err error) {
	for _, t := range list {
		b, err := r.get(t)
		if err != nil {
			return nil, err
		}
		out = append(out, b)
	}
	return out, nil
}

// SaveTiles implements tlog.TileReader.
func (r *tiles) SaveTiles([]tlog.Tile, [][]byte) {}

// ReadHashes implements tlog.HashReader. Unlike tlog.TileHashReader it needs no known root.
func (r *tiles) ReadHashes(indexes []int64) (out []tlog.Hash, err error) {
	for _, x := range indexes {
		at := tlog.TileForIndex(height, x)
		t := tileOf(at.L, at.N, r.size)
		b, err := r.get(t)
		if err != nil {
			return nil, err
		}
		h, err := tlog.HashFromTile(t, b, x)
		if err != nil {
			return nil, err
		}
		out = append(out, h)
	}
	return out, nil
}

// Next is the log with one or more new leaves. Its checkpoint has not been written yet.
type Next struct {
	Checkpoint
	files map[tlog.Tile][]byte
}

// grow adds leaves to the log in r, which has n leaves. If oldRoot is not nil, it must be the root
// of the existing leaves, and grow checks this. Otherwise the caller must check the new root, which
// is an equivalent check.
func grow(ctx context.Context, r artifacts.ObjectReader, origin string, n int64, oldRoot *tlog.Hash, leaves ...string,
) (*Next, error) {
	t := newTiles(ctx, r, n)
	next := &Next{Checkpoint{Origin: origin}, map[tlog.Tile][]byte{}}
	if oldRoot != nil && n > 0 {
		if root, err := tlog.TreeHash(n, t); err != nil || root != *oldRoot {
			return nil, fmt.Errorf("log of %d leaves: %w", n, mismatch(err))
		}
	}
	for _, leaf := range leaves {
		if err := next.add(t, leaf); err != nil {
			return nil, err
		}
	}
	var err error
	next.N = t.size
	next.Hash, err = tlog.TreeHash(next.N, t)
	return next, err
}

// add appends a leaf to the leaves in t.
func (n *Next) add(t *tiles, leaf string) (err error) {
	add := func(level int, at int64, b, data []byte) tlog.Tile {
		tile := tlog.Tile{H: height, L: level, N: at >> height, W: int(at%width) + 1}
		n.files[tile] = append(bytes.Clone(b), data...)
		t.read[tile] = n.files[tile]
		return tile
	}
	size := t.size
	var b []byte
	if size%width > 0 {
		if b, _, err = t.bundle(size >> height); err != nil {
			return err
		}
	}
	t.size++
	add(entries, size, b, appendEntry(nil, leaf))
	hash := tlog.RecordHash([]byte(leaf))
	for level, at := 0, size; ; level, at = level+1, at>>height {
		b = nil
		if at%width > 0 {
			if b, err = t.get(tileOf(level, at>>height, size)); err != nil {
				return err
			}
		}
		tile := add(level, at, b, hash[:])
		if tile.W < width {
			return nil
		}
		if hash, err = above(tile, t.read[tile]); err != nil {
			return err
		}
	}
}

// above returns the hash of a full tile, as it appears in the tile one level higher.
func above(t tlog.Tile, b []byte) (hash tlog.Hash, err error) {
	var halves [2]tlog.Hash
	for i := range halves {
		x := tlog.StoredHashIndex(height*(t.L+1)-1, 2*t.N+int64(i))
		if halves[i], err = tlog.HashFromTile(t, b, x); err != nil {
			return hash, err
		}
	}
	return tlog.NodeHash(halves[0], halves[1]), nil
}

// mismatch returns err. If err is nil, it returns an error that says that the data does not hash to
// the root.
func mismatch(err error) error {
	if err != nil {
		return err
	}
	return fmt.Errorf("%w: it does not hash to the log's root", artifacts.ErrCorrupt)
}

// Put puts a tile or an entry bundle. It replaces an object that is damaged or that belongs to no
// checkpoint.
func Put(ctx context.Context, s artifacts.Store, key artifacts.Key, b []byte) error {
	err := s.Put(ctx, key, b)
	if errors.Is(err, artifacts.ErrConflict) {
		if err = s.Delete(ctx, key); err == nil {
			err = s.Put(ctx, key, b)
		}
	}
	return err
}

// probe is a key that Prepare writes and removes to determine whether it may write checkpoints.
var probe = artifacts.MustKey("log/probe")

// Prepare puts the tiles and bundles that are missing, and checks that Write will have permission
// to do the rest. Otherwise the log would lag behind once the pointer has moved.
func (n *Next) Prepare(ctx context.Context, s artifacts.Store) error {
	for t, b := range n.files {
		switch err := s.Put(ctx, key(t), b); {
		case err == nil:
			delete(n.files, t) // so Write need not put it
		case !errors.Is(err, artifacts.ErrConflict): // left by a faster builder, or by one that died
			return err
		}
	}
	// Swap the probe, just as Write swaps the checkpoint. Another builder may be trying at the same
	// time.
	if _, err := s.Swap(ctx, probe, "", []byte("probe\n")); err != nil && !errors.Is(err, artifacts.ErrConflict) {
		return err
	}
	return s.Delete(ctx, probe)
}

// Lacks reports whether the log still lacks the leaf of the pointer p: see Settle.
func Lacks(ctx context.Context, r artifacts.ObjectReader, p *artifacts.Pointer) (bool, error) {
	if p.Log == nil {
		return false, nil
	}
	cp, _, err := ReadCheckpoint(ctx, r, Origin(p.Store))
	return err == nil && cp.N < p.Log.Size, err
}

// writeTries is the maximum number of times that Write tries to swap the checkpoint.
const writeTries = 3

// Write puts tiles and bundles and, once they are durable, the checkpoint. It does not replace a
// checkpoint that already has as many leaves, since in this case another builder was faster.
func (n *Next) Write(ctx context.Context, s artifacts.Store) error {
	for t, b := range n.files {
		if err := Put(ctx, s, key(t), b); err != nil {
			return err
		}
	}
	if err := s.Sync(ctx); err != nil {
		return err
	}
	for try := 1; ; try++ {
		cp, version, err := ReadCheckpoint(ctx, s, n.Origin)
		if err != nil || cp.N >= n.N {
			return err
		}
		// After an error, it is unknown whether the checkpoint was written. The next read shows it.
		if _, err = s.Swap(ctx, artifacts.CheckpointKey, version, n.Text()); err == nil || try == writeTries {
			return err
		}
	}
}

// HeadOf returns the tree that a pointer names.
func HeadOf(p *artifacts.Pointer) tlog.Tree {
	return tlog.Tree{N: p.Log.Size, Hash: tlog.Hash(p.Log.Root)}
}

// Settle writes the leaf of the pointer p to the log, if the builder that swapped p did not get
// that far, and returns the log's tree. A pointer without a log belongs to a store that was not
// signed, in which case the log continues from its end.
func Settle(ctx context.Context, s artifacts.Store, store string, p *artifacts.Pointer) (tlog.Tree, error) {
	cp, _, err := ReadCheckpoint(ctx, s, Origin(store))
	if err != nil || p == nil || p.Log == nil {
		return cp.Tree, err
	}
	head := HeadOf(p)
	switch {
	case cp.Tree == head:
		return head, nil
	case cp.N > head.N:
		return head, fmt.Errorf("%w: %d leaves, not %d", ErrBehind, head.N, cp.N)
	}
	next, err := grow(ctx, s, cp.Origin, head.N-1, nil, LeafOf(p))
	if err == nil && (next.Tree != head || cp.N == head.N) {
		err = fmt.Errorf("log of %d leaves: %w", head.N, mismatch(nil))
	}
	if err != nil {
		return head, err
	}
	return head, next.Write(ctx, s)
}

// Append returns the log with the given leaf appended after the leaf of the pointer p. It settles p
// first.
func Append(ctx context.Context, s artifacts.Store, store string, p *artifacts.Pointer, leaf string) (*Next, error) {
	tree, err := Settle(ctx, s, store, p)
	if err != nil {
		return nil, err
	}
	return grow(ctx, s, Origin(store), tree.N, &tree.Hash, leaf)
}

// Leaves returns the entries of the snapshots that a manifest retains, oldest first.
func Leaves(m *artifacts.Manifest) (leaves []string) {
	for _, ret := range slices.Backward(m.Retained) {
		leaves = append(leaves, Leaf(ret.Time, ret.Manifest.Digest))
	}
	return leaves
}

// CatchUp appends those of the given leaves that the log lacks. They belong to snapshots that were
// published while the store was not signed. Their pointer has no log, so only the checkpoint moves.
func CatchUp(ctx context.Context, s artifacts.Store, store string, leaves []string) error {
	v, err := Open(ctx, s)
	if err == nil {
		leaves, err = v.lacks(leaves)
	}
	if err != nil && !errors.Is(err, artifacts.ErrNotFound) || len(leaves) == 0 {
		return err
	}
	cp, _, err := ReadCheckpoint(ctx, s, Origin(store))
	if err != nil {
		return err
	}
	next, err := grow(ctx, s, cp.Origin, cp.N, &cp.Hash, leaves...)
	if err != nil {
		return err
	}
	return next.Write(ctx, s)
}

// Superseded reports whether a key belongs to a partial tile or bundle that also exists in full in
// a log of the given size.
func Superseded(name artifacts.Key, size int64) bool {
	path := strings.Replace(strings.TrimPrefix(name.String(), artifacts.TilePrefix), "entries/", "data/", 1)
	t, err := tlog.ParseTilePath(fmt.Sprintf("tile/%d/%s", height, path))
	return err == nil && t.W < width && (t.N+1)<<(height*(max(t.L, 0)+1)) <= size
}
