package publish

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"example.com/marketdata/artifacts"
)

// ErrLost means that a small object that the store once had is missing. Replacing it with a new one
// would assign ids to other assets, publish times twice, or change who has access.
var ErrLost = errors.New("lost")

// Seen is the last known state of a store. The zero value means that nothing is known.
type Seen struct {
	// Store is the store's identity. Sequence is its pointer's sequence.
	Store    string
	Sequence uint64
}

// CheckPointer checks that p is the newest pointer that the store s has had. p is nil if there is
// no pointer. CheckPointer compares p with lastSeen and with the store's other objects
// (builder/README.md, "Whether a store has gone back"). It returns ErrLost if the store had a
// pointer and has none now, or had a newer one. It returns artifacts.ErrCorrupt if p has a sequence
// that no builder can have reached. A first build that was killed does not count: it leaves an
// identity, objects, and manifests without a predecessor (INTERFACE.md, "Before the first
// snapshot"). If s is not a Store, CheckPointer reads only its cells.
func CheckPointer(ctx context.Context, s artifacts.ObjectReader, p *artifacts.Pointer, lastSeen Seen) error {
	if p == nil {
		why, err := published(ctx, s)
		switch {
		case err != nil:
			return err
		case why == "" && lastSeen.Sequence > 0:
			why = fmt.Sprintf("its sequence was %d", lastSeen.Sequence)
		case why == "":
			return nil
		}
		return fmt.Errorf("pointer %q: %w: the store holds none, but %s; put it back with builder restore --from a"+
			" backup, or --from an edge's cache folder", artifacts.CurrentKey, ErrLost, why)
	}
	if lastSeen.Store != p.Store {
		lastSeen.Sequence = 0 // This state belongs to another store.
	}
	b, _, err := s.Get(ctx, artifacts.ChangeKey, artifacts.MaxPointerSize)
	var c *artifacts.Change
	if err == nil {
		c, err = artifacts.ParseChange(b)
	}
	switch {
	case errors.Is(err, artifacts.ErrFormat), UnlessDamage(err) != nil:
		return fmt.Errorf("read change record: %w", err)
	case err == nil && c.Store == p.Store && c.Sequence > 0:
		if p.Sequence > c.Sequence+artifacts.MaxJump {
			return fmt.Errorf("%w: pointer: sequence %d, and it was %d when the change was recorded: edges refuse such"+
				" a jump; builder restore puts a backup's pointer in its place", artifacts.ErrCorrupt, p.Sequence,
				c.Sequence)
		}
		lastSeen.Sequence = max(lastSeen.Sequence, c.Sequence)
	}
	if p.Sequence < lastSeen.Sequence {
		return fmt.Errorf("pointer %q: %w: its sequence moved back from %d or more to %d; builder restore puts it right,"+
			" with --above N: the highest sequence in /status of the edges", artifacts.CurrentKey, ErrLost,
			lastSeen.Sequence, p.Sequence)
	}
	return nil
}

// CheckMissing returns ErrLost if the store once had the small object with the given key. The caller
// has found that this object is missing.
func CheckMissing(ctx context.Context, s artifacts.ObjectReader, key artifacts.Key) error {
	if key == artifacts.CurrentKey {
		return CheckPointer(ctx, s, nil, Seen{})
	}
	id, _, err := readIdentity(ctx, s)
	switch {
	case errors.Is(err, artifacts.ErrNotFound):
		_, _, err = ReadPointer(ctx, s)
		switch {
		case errors.Is(err, artifacts.ErrNotFound):
			return nil
		case key == artifacts.IdentityKey:
			return fmt.Errorf("identity: %w: the next build writes it again, from the pointer", ErrLost)
		case key == artifacts.KeysKey:
			return fmt.Errorf("%s: %w: the store has none, and the identity, which says whether it had one, is lost, too",
				key, ErrLost)
		}
		return nil // nothing shows that the object ever existed
	case err != nil:
		return UnlessDamage(err)
	case slices.Contains(id.Had, key):
		return fmt.Errorf("%s: %w: the store's identity says that it had one", key, ErrLost)
	}
	return nil
}

// published returns evidence that a store without a pointer once had one, or "" if there is none.
func published(ctx context.Context, s artifacts.ObjectReader) (why string, err error) {
	_, _, err = s.Get(ctx, artifacts.ChangeKey, artifacts.MaxPointerSize)
	if !errors.Is(err, artifacts.ErrNotFound) {
		return "it has a change record", UnlessDamage(err)
	}
	id, _, err := readIdentity(ctx, s)
	named := err == nil
	switch {
	case named && slices.Contains(id.Had, artifacts.CurrentKey):
		return "its identity says that it had one", nil
	case err != nil && !errors.Is(err, artifacts.ErrNotFound):
		return "", err
	}
	store, ok := s.(artifacts.Store)
	if !ok {
		return "", nil
	}
	var refs []artifacts.Ref
	err = store.List(ctx, artifacts.ManifestPrefix, func(info artifacts.Info) error {
		if d := info.Key.Digest(); info.Key.Kind() == artifacts.ManifestKind && len(refs) < maxFirst {
			refs = append(refs, artifacts.Ref{Digest: d, Size: info.Size})
		}
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("list manifests: %w", err)
	}
	if len(refs) > 0 && !named {
		return "it has manifests and no identity", nil
	}
	for _, ref := range refs {
		m, err := artifacts.ReadManifest(ctx, s, ref)
		switch {
		case err != nil && !artifacts.IsDamage(err):
			return "", err
		case err != nil:
			return "it has a manifest that cannot be read", nil
		case len(m.Retained) > 0 || len(m.Withdrawn) > 0 || !m.WithdrawnThrough.IsZero():
			return "it has a manifest that follows another", nil
		}
	}
	return "", nil
}

// maxFirst limits how many manifests are read. Each killed build leaves one manifest.
const maxFirst = 64

// UnlessDamage returns err, or nil if err means that an object is missing, corrupt or unsigned.
func UnlessDamage(err error) error {
	if artifacts.IsDamage(err) || errors.Is(err, artifacts.ErrSignature) {
		return nil
	}
	return err
}

// DropOversized deletes the cell with the given key if err, the error from reading the cell, is
// artifacts.ErrTooLarge. The version of such a cell cannot be read, so a swap could not replace it.
// DropOversized reports whether it deleted the cell.
func DropOversized(ctx context.Context, s artifacts.Store, key artifacts.Key, err error) (bool, error) {
	if !errors.Is(err, artifacts.ErrTooLarge) {
		return false, nil
	}
	return true, s.Delete(ctx, key)
}

// Mendable adds the repair command to err if err concerns a missing or corrupt object.
func Mendable(err error) error {
	if err == nil || !artifacts.IsDamage(err) || errors.Is(err, artifacts.ErrFormat) {
		return err
	}
	return fmt.Errorf("%w; run builder repair", err)
}

// Mark records in the store's identity that the store has the small object with the given key, so
// that a later loss of the object is noticed.
func Mark(ctx context.Context, s artifacts.Store, key artifacts.Key) error {
	for try := 1; ; try++ {
		id, version, err := readIdentity(ctx, s)
		if err != nil || slices.Contains(id.Had, key) {
			return err
		}
		id.Had = append(id.Had, key)
		slices.SortFunc(id.Had, artifacts.Key.Compare)
		// After an error the identity may or may not have been written. The next read shows it.
		if _, err = s.Swap(ctx, artifacts.IdentityKey, version, id.Encode()); err == nil {
			return nil
		}
		if try == markTries || ctx.Err() != nil {
			return fmt.Errorf("mark identity: %w", err)
		}
	}
}

const markTries = 5
