package transparency

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"example.com/marketdata/artifacts"
	"golang.org/x/mod/sumdb/tlog"
)

// ErrRewritten means that a log does not continue the log of an older checkpoint.
var ErrRewritten = errors.New("the log was rewritten")

// View is a log as of its newest checkpoint. It checks everything that it reads against that
// checkpoint.
type View struct {
	Checkpoint
	// Note is the checkpoint with its signatures.
	Note   []byte
	tiles  *tiles
	hashes tlog.HashReader
}

// Open returns the log of a store, or artifacts.ErrNotFound if there is none. It does not verify
// signatures; use a reader of package signed for that.
func Open(ctx context.Context, r artifacts.ObjectReader) (*View, error) {
	b, _, err := r.Get(ctx, artifacts.CheckpointKey, artifacts.CheckpointKey.Limit())
	if err != nil {
		return nil, err
	}
	c, err := ParseCheckpoint(b)
	if err != nil {
		return nil, err
	}
	t := newTiles(ctx, r, c.N)
	return &View{c, b, t, tlog.TileHashReader(c.Tree, t)}, nil
}

// bundle is like tiles.bundle, but it first checks that the tile of hashes is in the tree.
func (v *View) bundle(n int64) (b []byte, list []string, err error) {
	if _, err := v.tile(tileOf(0, n, v.N)); err != nil {
		return nil, nil, err
	}
	return v.tiles.bundle(n)
}

func (v *View) tile(t tlog.Tile) ([]byte, error) {
	b, err := tlog.ReadTileData(t, v.hashes)
	if err != nil && !artifacts.IsDamage(err) && errors.Unwrap(err) == nil { // an error of package tlog itself
		err = fmt.Errorf("%w: %s: %w", artifacts.ErrCorrupt, key(t), err)
	}
	return b, err
}

// Each calls f with each leaf, newest first, until f returns false.
func (v *View) Each(f func(index int64, leaf string) bool) error {
	for n := (v.N - 1) / width; n >= 0; n-- {
		_, list, err := v.bundle(n)
		if err != nil {
			return err
		}
		for i, leaf := range slices.Backward(list) {
			if !f(n*width+int64(i), leaf) {
				return nil
			}
		}
	}
	return nil
}

// lacks reads the whole log and returns those of the given leaves that are not in it.
func (v *View) lacks(leaves []string) ([]string, error) {
	missing := map[string]bool{}
	for _, leaf := range leaves {
		missing[leaf] = true
	}
	err := v.Each(func(_ int64, leaf string) bool {
		delete(missing, leaf)
		return true
	})
	return slices.DeleteFunc(leaves, func(leaf string) bool { return !missing[leaf] }), err
}

// Continues returns an error unless the log starts with all leaves of an older checkpoint.
func (v *View) Continues(older Checkpoint) error {
	if older.Origin != v.Origin {
		return fmt.Errorf("the checkpoint is of the log %.80q, not %q", older.Origin, v.Origin)
	}
	if older.N > v.N {
		return fmt.Errorf("%w: it has %d leaves, and had %d", ErrRewritten, v.N, older.N)
	}
	proof, err := tlog.ProveTree(v.N, older.N, v.hashes)
	if err == nil && tlog.CheckTree(proof, v.N, v.Hash, older.N, older.Hash) != nil {
		err = fmt.Errorf("%w: its first %d leaves are not those of the older checkpoint", ErrRewritten, older.N)
	}
	return err
}

// Check reads the whole log of a store and returns an error that describes the first problem. p and
// m are the store's pointer and manifest. It is not a problem if the log lacks the pointer's own
// leaf (see Settle), or, while the pointer has no log, the leaves that CatchUp adds.
func Check(ctx context.Context, r artifacts.ObjectReader, p *artifacts.Pointer, m *artifacts.Manifest) error {
	v, err := Open(ctx, r)
	if errors.Is(err, artifacts.ErrNotFound) && (p.Log == nil || p.Log.Size == 1) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("log: %w", err)
	}
	head, leaves := v.Tree, []string(nil)
	if p.Log != nil {
		head, leaves = HeadOf(p), Leaves(m)
		if head.N == v.N {
			leaves = append(leaves, LeafOf(p))
		}
	}
	missing, err := v.lacks(leaves)
	switch {
	case err != nil:
		return fmt.Errorf("log: %w", err)
	case head.N < v.N:
		return fmt.Errorf("log: %w: %d leaves, not %d; run builder restore", ErrBehind, head.N, v.N)
	case v.Origin != Origin(p.Store) || head.N > v.N+1 || head.N == v.N && head.Hash != v.Hash:
		return fmt.Errorf("%w: log: the checkpoint is of %d leaves of %s, the pointer of %d of store %s",
			artifacts.ErrCorrupt, v.N, v.Origin, head.N, p.Store)
	case len(missing) > 0:
		return fmt.Errorf("%w: log: it has no leaf of snapshot %s", artifacts.ErrCorrupt, missing[0])
	}
	return nil
}

// CopyTo copies the log to a store that has either nothing or only the first part of it. It writes
// the checkpoint, which is in note, last.
func (v *View) CopyTo(ctx context.Context, to artifacts.Store, note []byte) error {
	there := map[artifacts.Key]bool{}
	err := to.List(ctx, artifacts.TilePrefix, func(info artifacts.Info) error {
		there[info.Key] = true
		return nil
	})
	if err != nil {
		return err
	}
	for _, t := range tlog.NewTiles(height, 0, v.N) {
		list := []tlog.Tile{t}
		if t.L == 0 {
			t.L = entries
			list = append(list, t)
		}
		for _, t := range list {
			if there[key(t)] {
				continue
			}
			var b []byte
			if t.L == entries {
				b, _, err = v.bundle(t.N)
			} else {
				b, err = v.tile(t)
			}
			if err == nil {
				err = to.Put(ctx, key(t), b)
			}
			if err != nil {
				return fmt.Errorf("copy the log: %w", err)
			}
		}
	}
	if err := to.Sync(ctx); err != nil {
		return err
	}
	have, version, err := to.Get(ctx, artifacts.CheckpointKey, artifacts.CheckpointKey.Limit())
	if err == nil {
		var older Checkpoint
		if older, err = ParseCheckpoint(have); err == nil {
			err = v.Continues(older)
		}
	}
	if bytes.Equal(have, note) || err != nil && !errors.Is(err, artifacts.ErrNotFound) {
		return err
	}
	_, err = to.Swap(ctx, artifacts.CheckpointKey, version, note)
	return err
}
