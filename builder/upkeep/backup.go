package upkeep

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync/atomic"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder"
	"example.com/marketdata/builder/internal/walk"
	"example.com/marketdata/builder/publish"
	"example.com/marketdata/builder/transparency"
)

// BackupConfig says what Backup copies, and to where.
type BackupConfig struct {
	// From is the store to copy. Its objects must include their signatures.
	From artifacts.ObjectReader
	// To is an empty store, or an earlier backup of the same store. It must not be From itself.
	To artifacts.Store
	// Progress may be nil.
	Progress builder.Progress
}

// BackupReport says what Backup found and did (STORE.md, "Backup and restore").
type BackupReport struct {
	// Snapshot is the time of the copied snapshot. It is empty if the store has none.
	Snapshot  string `json:"snapshot"`
	Sequence  uint64 `json:"sequence"`
	Snapshots int    `json:"snapshots"` // including the retained ones
	Objects   int    `json:"objects"`   // needed by these snapshots, including manifests
	// Copied and CopiedBytes count the objects that To did not have.
	Copied      int   `json:"copied"`
	CopiedBytes int64 `json:"copied_bytes"`
	// Lost counts the file objects that the store has lost. The backup lacks them as well.
	Lost int `json:"lost"`
}

// errMoved means that, in every try, the pointer moved and gc removed objects before they were
// copied.
var errMoved = errors.New("the published snapshot changed during each of the tries; is gc's grace period shorter" +
	" than a backup takes?")

// Backup copies the objects of the published and retained snapshots, including ledgers, and the
// log. Then it copies the identity, the key set and the change record, and finally the pointer.
// Until then, To still holds the previous backup. Backup checks every object against its digest. It
// skips objects that To already holds with the right size, so gc must not run on To at the same
// time. Lost file objects do not stop it.
//
// Backup is safe while a builder and gc run. If the pointer has moved and an object is gone, it
// starts again.
func Backup(ctx context.Context, cfg BackupConfig) (*BackupReport, error) {
	for try := 1; ; try++ {
		b := &backup{BackupConfig: cfg, there: map[artifacts.Key]int64{}}
		err := b.run(ctx)
		if err == nil {
			return &b.report, nil
		}
		if !errors.Is(err, artifacts.ErrNotFound) {
			return nil, err
		}
		now, _, rerr := cfg.From.Get(ctx, artifacts.CurrentKey, artifacts.MaxPointerSize)
		switch {
		case rerr != nil:
			return nil, rerr
		case bytes.Equal(now, b.pointer):
			return nil, fmt.Errorf("%w: see builder repair", err)
		case try == pointerTries:
			return nil, fmt.Errorf("%w: %w", errMoved, err)
		}
	}
}

type backup struct {
	BackupConfig
	report  BackupReport
	pointer []byte
	id      string                  // the store's identity
	there   map[artifacts.Key]int64 // sizes of the objects in To
	log     *transparency.View      // nil if there is none
}

func (b *backup) run(ctx context.Context) error {
	p, err := b.start(ctx)
	if err != nil || p == nil {
		return err
	}
	b.id = p.Store
	for _, prefix := range []string{artifacts.ObjectPrefix, artifacts.ManifestPrefix, artifacts.FilePrefix} {
		err := b.To.List(ctx, prefix, func(i artifacts.Info) error {
			b.there[i.Key] = i.Size
			return nil
		})
		if err != nil {
			return err
		}
	}
	manifests, objects := map[artifacts.Key]artifacts.Ref{}, map[artifacts.Key]artifacts.Ref{}
	lists := map[artifacts.Digest]bool{}
	err = eachSnapshot(ctx, b.From, p, func(of artifacts.Retained, m *artifacts.Manifest, err error) error {
		if err != nil {
			return err
		}
		refs, err := needs(ctx, b.From, m)
		for _, ref := range refs {
			objects[artifacts.ObjectKey(ref.Digest)] = ref
		}
		manifests[artifacts.ManifestKey(of.Manifest.Digest)] = of.Manifest
		ferr := artifacts.FileRefs(ctx, b.From, m, lists, func(ref artifacts.Ref) {
			objects[artifacts.FileKey(ref.Digest)] = ref
		})
		return errors.Join(err, publish.UnlessDamage(ferr)) // copy counts what is lost
	})
	if err != nil {
		return err
	}
	// Copy objects before the manifests that name them. Each step is durable before the next one
	// begins.
	if err := b.copy(ctx, "backup", objects); err != nil {
		return err
	}
	if b.report.Lost > 0 { // lost, or removed by gc in the meantime
		now, _, err := b.From.Get(ctx, artifacts.CurrentKey, artifacts.MaxPointerSize)
		if err == nil && !bytes.Equal(now, b.pointer) {
			err = fmt.Errorf("copy files: %w", artifacts.ErrNotFound)
		}
		if err != nil {
			return err
		}
	}
	if b.log != nil {
		if err := b.log.CopyTo(ctx, b.To, b.log.Note); err != nil {
			return err
		}
	}
	if err := b.copy(ctx, "backup manifests", manifests); err != nil {
		return err
	}
	for _, key := range []artifacts.Key{artifacts.IdentityKey, artifacts.KeysKey, artifacts.ChangeKey} {
		body, _, err := b.From.Get(ctx, key, artifacts.MaxKeySetSize)
		if errors.Is(err, artifacts.ErrNotFound) {
			continue
		}
		if err == nil {
			err = b.move(ctx, key, body)
		}
		if err != nil {
			return err
		}
	}
	if err := b.move(ctx, artifacts.CurrentKey, b.pointer); err != nil {
		return err
	}
	b.report.Snapshot, b.report.Sequence = publish.Stamp(p.Time), p.Sequence
	b.report.Snapshots, b.report.Objects = len(manifests), len(manifests)+len(objects)
	return nil
}

// start reads the pointer. It returns nil if there is none. It returns an error if To holds
// anything other than a backup of this store.
func (b *backup) start(ctx context.Context) (*artifacts.Pointer, error) {
	// Open the log before reading the pointer, so that the backup's log does not lag behind its
	// snapshot.
	var err error
	if b.log, err = transparency.Open(ctx, b.From); err != nil && !errors.Is(err, artifacts.ErrNotFound) {
		return nil, err
	}
	body, _, err := b.From.Get(ctx, artifacts.CurrentKey, artifacts.MaxPointerSize)
	if errors.Is(err, artifacts.ErrNotFound) {
		return nil, publish.CheckPointer(ctx, b.From, nil, publish.Seen{})
	}
	if err != nil {
		return nil, err
	}
	b.pointer = body
	p, err := artifacts.ParsePointer(body)
	if err != nil {
		return nil, err
	}
	have, _, err := b.To.Get(ctx, artifacts.CurrentKey, artifacts.MaxPointerSize)
	if errors.Is(err, artifacts.ErrNotFound) {
		return p, nil
	}
	if err != nil {
		return nil, err
	}
	q, err := artifacts.ParsePointer(have)
	switch {
	case err != nil:
		return nil, fmt.Errorf("the backup that is there: %w", err)
	case q.Store != p.Store:
		return nil, fmt.Errorf("there is another store: %s, not %s", q.Store, p.Store)
	case q.Sequence > p.Sequence:
		return nil, fmt.Errorf("there is a later snapshot: sequence %d, not %d; are --store and --to exchanged?", q.Sequence,
			p.Sequence)
	case bytes.Equal(have, body):
		return p, b.elsewhere(ctx)
	}
	return p, nil
}

// elsewhere returns an error if To is the store itself. Two addresses of one store may look
// different, so elsewhere puts an object at one address and looks for it at the other.
func (b *backup) elsewhere(ctx context.Context) error {
	key := artifacts.ProbeKey("backup-" + rand.Text())
	if err := b.To.Put(ctx, key, []byte("probe")); err != nil {
		return err
	}
	_, _, err := b.From.Get(ctx, key, 100)
	_ = b.To.Delete(ctx, key) // if this fails, gc removes it later
	if errors.Is(err, artifacts.ErrNotFound) {
		return nil
	}
	if err == nil {
		err = errors.New("--to is the store itself; want another place, which is not lost together with the store")
	}
	return err
}

// copy copies the objects that To does not hold with the right size, and makes them durable.
func (b *backup) copy(ctx context.Context, step string, wanted map[artifacts.Key]artifacts.Ref) error {
	var keys []artifacts.Key
	for key, ref := range wanted {
		if have, ok := b.there[key]; !ok || have != ref.Size {
			keys = append(keys, key)
		}
	}
	var copied, size, lost atomic.Int64
	err := walk.Parallel(ctx, len(keys), func(ctx context.Context, i int) error {
		key, ref := keys[i], wanted[keys[i]]
		body, _, err := b.From.Get(ctx, key, ref.Size)
		if err == nil {
			err = ref.Check(body)
		}
		if key.Kind() == artifacts.FileKind && artifacts.IsDamage(err) {
			lost.Add(1)
			return nil
		}
		if err == nil {
			err = b.To.Put(ctx, key, body)
		}
		if err != nil {
			return fmt.Errorf("copy %s: %w", key, err)
		}
		size.Add(ref.Size)
		b.Progress.Show(step, len(wanted)-len(keys)+int(copied.Add(1)), len(wanted))
		return nil
	})
	if err == nil {
		err = b.To.Sync(ctx)
	}
	b.report.Lost += int(lost.Load())
	b.report.Copied += int(copied.Load())
	b.report.CopiedBytes += size.Load()
	return err
}

// move copies a small object. It refuses an object that is damaged or older than the backup's,
// since the backup's may be the last good one.
func (b *backup) move(ctx context.Context, key artifacts.Key, body []byte) error {
	now, err := artifacts.ParseNumbered(key, body)
	if err != nil {
		return fmt.Errorf("the store's %s: %w", key, err)
	}
	if now.Store != "" && now.Store != b.id {
		return fmt.Errorf("the store's %s is of store %s, its pointer of %s", key, now.Store, b.id)
	}
	have, version, err := b.To.Get(ctx, key, artifacts.MaxKeySetSize)
	if err != nil && !errors.Is(err, artifacts.ErrNotFound) {
		return err
	}
	if bytes.Equal(have, body) && version != "" {
		return nil
	}
	if before, err := artifacts.ParseNumbered(key, have); err == nil && before.Store == b.id &&
		before.Number > now.Number {
		return fmt.Errorf("the store's %s has moved back from %d, which is in the backup, to %d", key, before.Number,
			now.Number)
	}
	return settle(ctx, b.To, key, version, body)
}

// settle swaps a small object. If the swap fails, settle determines whether it took effect.
func settle(ctx context.Context, s artifacts.Store, key artifacts.Key, old artifacts.Version, body []byte) error {
	_, err := s.Swap(ctx, key, old, body)
	if err == nil {
		return nil
	}
	have, _, rerr := s.Get(ctx, key, artifacts.MaxKeySetSize)
	if rerr == nil && bytes.Equal(artifacts.Unsigned(have), artifacts.Unsigned(body)) {
		return nil
	}
	return fmt.Errorf("swap %s: %w", key, err)
}
