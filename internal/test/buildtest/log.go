package buildtest

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/signed"
	"example.com/marketdata/internal/test/must"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// SignKey is the key of signed stores. It is the same in each run.
var SignKey = Key(1)

// Key returns the n-th signing key for tests.
func Key(n byte) artifacts.SignKey {
	k, err := artifacts.NewSignKey(bytes.NewReader(bytes.Repeat([]byte{n}, 64)))
	if err != nil {
		panic(err)
	}
	return k
}

// Signed returns the store as a builder with these keys opens it. Without keys, it uses SignKey.
func Signed(s artifacts.Store, keys ...artifacts.SignKey) artifacts.Store {
	if keys == nil {
		keys = []artifacts.SignKey{SignKey}
	}
	var trust artifacts.Trust
	for _, k := range keys {
		trust = append(trust, k.Trust())
	}
	return signed.Store(s, keys, trust)
}

// TB is the common part of a test and a rapid check.
type TB interface {
	must.TB
	Context() context.Context
	Fatalf(format string, args ...any)
}

// Leaf returns the log's entry for a pointer.
func Leaf(p *artifacts.Pointer) string {
	return p.Time.Format("2006-01-02T15:04:05Z") + " " + p.Manifest.Digest.String()
}

// Checkpoint opens a checkpoint. Except for formatting a key as a note verifier, it uses none of
// the project's code.
func Checkpoint(tb TB, b []byte, keys ...artifacts.SignKey) tlog.Tree {
	tb.Helper()
	if keys == nil {
		keys = []artifacts.SignKey{SignKey}
	}
	name, _, _ := strings.Cut(string(b), "\n")
	var known []note.Verifier
	for _, k := range keys {
		known = append(known, must.Get(note.NewVerifier(must.Get(k.Trust().NoteKey(name))(tb)))(tb))
	}
	opened := must.Get(note.Open(b, note.VerifierList(known...)))(tb)
	lines := strings.Split(opened.Text, "\n")
	if len(lines) != 4 || lines[3] != "" {
		tb.Fatalf("checkpoint %q", opened.Text)
	}
	tree := tlog.Tree{N: must.Get(strconv.ParseInt(lines[1], 10, 64))(tb)}
	copy(tree.Hash[:], must.Get(base64.StdEncoding.DecodeString(lines[2]))(tb))
	return tree
}

// CheckLog reads the log of a store with a client of C2SP tlog-tiles that is independent of the
// project, checks each leaf, and returns the entries. A store without a log has none.
func CheckLog(tb TB, r artifacts.Reader, keys ...artifacts.SignKey) (leaves []string) {
	tb.Helper()
	b, _, err := r.Get(tb.Context(), artifacts.MustKey("log/checkpoint"), 1<<20)
	if errors.Is(err, artifacts.ErrNotFound) {
		return nil
	}
	must.OK(tb, err)
	tree := Checkpoint(tb, b, keys...)
	tiles := client{tb, r, map[string][]byte{}}
	hashes := tlog.TileHashReader(tree, tiles)
	for n := range (tree.N + 255) / 256 {
		bundle := tiles.get("entries", n, int(min(256, tree.N-n*256)))
		for len(bundle) > 0 {
			size := 2 + binary.BigEndian.Uint16(bundle)
			leaves, bundle = append(leaves, string(bundle[2:size])), bundle[size:]
		}
	}
	if int64(len(leaves)) != tree.N {
		tb.Fatalf("%d entries in a log of %d", len(leaves), tree.N)
	}
	indexes := make([]int64, len(leaves))
	for i := range leaves {
		indexes[i] = tlog.StoredHashIndex(0, int64(i))
	}
	inTree := must.Get(hashes.ReadHashes(indexes))(tb)
	for i, leaf := range leaves {
		if inTree[i] != tlog.RecordHash([]byte(leaf)) {
			tb.Fatalf("leaf %d, %s, is not in the tree of %d", i, leaf, tree.N)
		}
		if len(leaves) > 100 && i%256 > 0 && i != len(leaves)-1 {
			continue // Checking every leaf would take too long.
		}
		proof, err := tlog.ProveRecord(tree.N, int64(i), hashes)
		if err == nil {
			err = tlog.CheckRecord(proof, tree.N, tree.Hash, int64(i), tlog.RecordHash([]byte(leaf)))
		}
		if err != nil {
			tb.Fatalf("leaf %d, %s, of %d: %v", i, leaf, tree.N, err)
		}
	}
	return leaves
}

// Continues fails the test unless the log of a store is a continuation of an older checkpoint.
func Continues(tb TB, r artifacts.Reader, older tlog.Tree, keys ...artifacts.SignKey) {
	tb.Helper()
	b, _, err := r.Get(tb.Context(), artifacts.MustKey("log/checkpoint"), 1<<20)
	must.OK(tb, err)
	tree := Checkpoint(tb, b, keys...)
	hashes := tlog.TileHashReader(tree, client{tb, r, map[string][]byte{}})
	proof := must.Get(tlog.ProveTree(tree.N, older.N, hashes))(tb)
	must.OK(tb, tlog.CheckTree(proof, tree.N, tree.Hash, older.N, older.Hash))
}

// client reads tiles by their paths in C2SP tlog-tiles.
type client struct {
	tb TB
	r  artifacts.Reader
	// The map had contains the tiles that have been read.
	had map[string][]byte
}

func (c client) Height() int                         { return 8 }
func (c client) SaveTiles(t []tlog.Tile, b [][]byte) {}

func (c client) ReadTiles(tiles []tlog.Tile) (out [][]byte, err error) {
	for _, t := range tiles {
		out = append(out, c.get(strconv.Itoa(t.L), t.N, t.W))
	}
	return out, nil
}

func (c client) get(level string, n int64, w int) []byte {
	c.tb.Helper()
	parts := []string{fmt.Sprintf("%03d", n%1000)}
	for n /= 1000; n > 0; n /= 1000 {
		parts = append(parts, fmt.Sprintf("x%03d", n%1000))
	}
	slices.Reverse(parts)
	path := "log/tile/" + level + "/" + strings.Join(parts, "/")
	if w < 256 {
		path += ".p/" + strconv.Itoa(w)
	}
	if c.had[path] == nil {
		b, _, err := c.r.Get(c.tb.Context(), artifacts.MustKey(path), 1<<20)
		must.OK(c.tb, err)
		c.had[path] = b
	}
	return c.had[path]
}

// SameLog fails the test unless the log of a store has exactly the leaves of a model. If
// mayLackLast is set, the last leaf may be missing.
func SameLog(tb TB, r artifacts.Reader, model []string, mayLackLast bool, keys ...artifacts.SignKey) {
	tb.Helper()
	leaves := CheckLog(tb, r, keys...)
	if !slices.Equal(leaves, model) &&
		!(mayLackLast && len(model) > 0 && slices.Equal(leaves, model[:len(model)-1])) {
		tb.Fatalf("the log has %d leaves, and %d snapshots were published:\n%q\n%q", len(leaves), len(model), leaves,
			model)
	}
}
