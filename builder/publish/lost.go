package publish

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"example.com/marketdata/artifacts"
)

// ErrLost: the store had a small object that is missing. A new one in its place would give ids to
// other assets, publish times twice, or change who has access.
var ErrLost = errors.New("lost")

// Seen is what was seen of a store before; zero: nothing.
type Seen struct {
	// Store is its identity, Sequence its pointer's.
	Store    string
	Sequence uint64
}

// CheckPointer decides whether the pointer p, nil for none, is the newest that the store s had, by what was seen
// before and by what else the store has (builder/README.md, "Whether a store has gone back"). It returns ErrLost if
// the store had a pointer and has none, or had a newer one, and artifacts.ErrCorrupt for one so new that no builder
// wrote it. A killed first build does not count: it leaves an identity, objects and first manifests (INTERFACE.md,
// "Before the first snapshot"). If s is not a Store, CheckPointer looks at its cells only.
func CheckPointer(ctx context.Context, s artifacts.ObjectReader, p *artifacts.Pointer, seen Seen) error {
	if p == nil {
		why, err := published(ctx, s)
		switch {
		case err != nil:
			return err
		case why == "" && seen.Sequence > 0:
			why = fmt.Sprintf("its sequence was %d", seen.Sequence)
		case why == "":
			return nil
		}
		return fmt.Errorf("pointer %q: %w: the store holds none, but %s; put it back with builder restore --from a"+
			" backup, or --from an edge's cache folder", artifacts.CurrentKey, ErrLost, why)
	}
	if seen.Store != p.Store {
		seen.Sequence = 0 // of another store
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
		seen.Sequence = max(seen.Sequence, c.Sequence)
	}
	if p.Sequence < seen.Sequence {
		return fmt.Errorf("pointer %q: %w: its sequence moved back from %d or more to %d; builder restore puts it right,"+
			" with --above N: the highest sequence in /status of the edges", artifacts.CurrentKey, ErrLost, seen.Sequence,
			p.Sequence)
	}
	return nil
}

// CheckMissing returns ErrLost if the store had the small object key, which is missing.
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
		return nil // nothing says that there was one
	case err != nil:
		return UnlessDamage(err)
	case slices.Contains(id.Had, key):
		return fmt.Errorf("%s: %w: the store's identity says that it had one", key, ErrLost)
	}
	return nil
}

// published returns the evidence that a store without a pointer had one; "": there is none.
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

// maxFirst bounds how many manifests are read: each killed build leaves one.
const maxFirst = 64

// UnlessDamage returns err, or nil if err says that an object is missing, broken or unsigned.
func UnlessDamage(err error) error {
	if artifacts.IsDamage(err) || errors.Is(err, artifacts.ErrSignature) {
		return nil
	}
	return err
}

// DropOversized deletes the cell key if err, of reading it, says that it is over the limit: its
// version cannot be read, so nothing could be swapped for it. It reports whether it did.
func DropOversized(ctx context.Context, s artifacts.Store, key artifacts.Key, err error) (bool, error) {
	if !errors.Is(err, artifacts.ErrTooLarge) {
		return false, nil
	}
	return true, s.Delete(ctx, key)
}

// Mendable adds to the error of a missing or broken object the command that repairs it.
func Mendable(err error) error {
	if err == nil || !artifacts.IsDamage(err) || errors.Is(err, artifacts.ErrFormat) {
		return err
	}
	return fmt.Errorf("%w; builder repair mends it, or says what does", err)
}

// Mark records in the store's identity that the store has the small object key, so that its loss
// is seen.
func Mark(ctx context.Context, s artifacts.Store, key artifacts.Key) error {
	for try := 1; ; try++ {
		id, version, err := readIdentity(ctx, s)
		if err != nil || slices.Contains(id.Had, key) {
			return err
		}
		id.Had = append(id.Had, key)
		slices.SortFunc(id.Had, artifacts.Key.Compare)
		// After an error the identity may have been written or not: the next read tells.
		if _, err = s.Swap(ctx, artifacts.IdentityKey, version, id.Encode()); err == nil {
			return nil
		}
		if try == markTries || ctx.Err() != nil {
			return fmt.Errorf("mark identity: %w", err)
		}
	}
}

const markTries = 5
