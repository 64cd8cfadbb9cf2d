package transparency

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"example.com/marketdata/artifacts"
	"golang.org/x/mod/sumdb/tlog"
)

// Checkpoint is the content of a checkpoint (C2SP tlog-checkpoint).
type Checkpoint struct {
	// Origin is the name of the log, which is also the name of the keys that sign it.
	Origin string
	tlog.Tree
}

// Origin returns the name of a store's log. store is the store's identity.
func Origin(store string) string { return "marketdata/" + store }

// treeLine is the first line that package tlog writes for a tree. A checkpoint has the log's origin
// instead of that line.
const treeLine = "go.sum database tree\n"

// Text returns the checkpoint without signatures.
func (c Checkpoint) Text() []byte {
	return append([]byte(c.Origin+"\n"), bytes.TrimPrefix(tlog.FormatTree(c.Tree), []byte(treeLine))...)
}

// ParseCheckpoint parses a checkpoint. It does not verify signatures: see artifacts.Trust.
func ParseCheckpoint(b []byte) (c Checkpoint, err error) {
	text := artifacts.Unsigned(b)
	origin, tree, _ := bytes.Cut(text, []byte{'\n'})
	c.Origin = string(origin)
	c.Tree, err = tlog.ParseTree(append([]byte(treeLine), tree...))
	if err != nil || !bytes.Equal(c.Text(), text) || c.N < 1 || c.N > artifacts.MaxNumber {
		return Checkpoint{}, fmt.Errorf("%w: %s: want lines with origin, size and root", artifacts.ErrCorrupt,
			artifacts.CheckpointKey)
	}
	return c, nil
}

// ReadCheckpoint reads a log's checkpoint. If it is missing, ReadCheckpoint returns a checkpoint
// without leaves.
func ReadCheckpoint(ctx context.Context, r artifacts.ObjectReader, origin string,
) (Checkpoint, artifacts.Version, error) {
	b, version, err := r.Get(ctx, artifacts.CheckpointKey, artifacts.CheckpointKey.Limit())
	if errors.Is(err, artifacts.ErrNotFound) {
		return Checkpoint{Origin: origin}, "", nil
	}
	var c Checkpoint
	if err == nil {
		c, err = ParseCheckpoint(b)
	}
	if err == nil && c.Origin != origin {
		err = fmt.Errorf("%w: %s: it is of the log %.80q, not %q", artifacts.ErrCorrupt, artifacts.CheckpointKey,
			c.Origin, origin)
	}
	return c, version, err
}
