package snapshot

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge/floor"
	"example.com/marketdata/edge/upstream"
	"example.com/marketdata/internal/durable"
)

// keep writes a small object to Dir. Only the next start needs it, so an error is merely reported, and
// each poll tries the write again.
func (r *Refresher) keep(key artifacts.Key, b []byte) { r.keepAs(key.String(), key, b) }

func (r *Refresher) keepAs(what string, key artifacts.Key, b []byte) {
	if r.cfg.Dir != "" {
		r.floor.Keep(what, func() error { return r.write(key, b) })
	}
}

func (r *Refresher) write(key artifacts.Key, b []byte) error {
	path := filepath.Join(r.cfg.Dir, filepath.FromSlash(key.String()))
	if err := durable.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return durable.ReplaceFile(path, bytes.NewReader(b), 0o600)
}

// keptPointer returns the pointer in Dir, or nil if there is none that can be used.
func (r *Refresher) keptPointer() *artifacts.Pointer {
	return parseKept(r, artifacts.CurrentKey, artifacts.ParsePointer)
}

// parseKept returns a small object in Dir, or nil. It reports a damaged object.
func parseKept[T any](r *Refresher, key artifacts.Key, parse func([]byte) (*T, error)) *T {
	b := r.kept(key, artifacts.MaxPointerSize)
	if b == nil {
		return nil
	}
	v, err := parse(b)
	if err != nil {
		r.floor.Report(key.String(), err)
		return nil
	}
	return v
}

// kept returns the verified bytes of an object in Dir, or nil. It reports damaged objects.
func (r *Refresher) kept(key artifacts.Key, limit int64) []byte {
	if r.cfg.Dir == "" {
		return nil
	}
	b, err := floor.ReadFile(filepath.Join(r.cfg.Dir, filepath.FromSlash(key.String())), limit)
	if b != nil && r.cfg.Cells.Verify != nil && (key == artifacts.CurrentKey || key == artifacts.ChangeKey) {
		err = r.cfg.Cells.Verify(key, b)
	}
	if err != nil {
		r.floor.Report(key.String(), err)
		return nil
	}
	return b
}

// keepManifest writes the manifest of the current snapshot or of a pinned one. Only the newest write of each
// kind is repeated after an error, so all writes of a kind have the same name. This name sorts before the
// pointer's, so Floor.Retry writes the manifest before the pointer.
func (r *Refresher) keepManifest(kind string, d artifacts.Digest, raw []byte) {
	key := artifacts.ManifestKey(d)
	if r.keptManifest(artifacts.Ref{Digest: d, Size: int64(len(raw))}) == nil {
		r.floor.Report(key.String(), nil) // a damaged file is replaced
		r.keepAs("a manifest of "+kind, key, raw)
	}
}

// keptManifest returns the bytes of a manifest in Dir, or nil if they are missing or damaged.
func (r *Refresher) keptManifest(ref artifacts.Ref) []byte {
	key := artifacts.ManifestKey(ref.Digest)
	b := r.kept(key, artifacts.MaxManifestSize)
	if b == nil {
		return nil
	}
	if err := ref.Check(b); err != nil {
		r.floor.Report(key.String(), err)
		return nil
	}
	return b
}

// dropManifests removes the manifests of snapshots that can no longer be pinned.
func (r *Refresher) dropManifests(next *Snapshot) {
	if r.cfg.Dir == "" {
		return
	}
	wanted := map[artifacts.Digest]bool{next.Manifest: true}
	for _, ret := range next.Retained {
		wanted[ret.Manifest.Digest] = true
	}
	if p := r.keptPointer(); p != nil {
		wanted[p.Manifest.Digest] = true
	}
	dir := filepath.Join(r.cfg.Dir, filepath.FromSlash(artifacts.ManifestPrefix))
	entries, err := os.ReadDir(dir)
	if err != nil {
		return // the folder does not exist
	}
	for _, e := range entries {
		d, err := artifacts.ParseDigest(e.Name())
		if err == nil && !wanted[d] {
			_ = os.Remove(filepath.Join(dir, e.Name())) // the next swap tries again
		}
	}
}

// restore makes the last verified snapshot current, so that an edge can answer while the store is
// unreachable. Until the store confirms the snapshot, the state is Interrupted. The caller must call finish
// after it has closed r.restored, which lets requests begin.
func (r *Refresher) restore(ctx context.Context) (finish func()) {
	r.record = r.keptChange()
	s := r.keptSnapshot()
	if s == nil {
		return func() {}
	}
	after := r.warm(ctx, nil, s)
	r.activating.Lock()
	defer r.activating.Unlock()
	r.mu.Lock()
	r.timeline.Ready(s, time.Time{}, time.Time{}, time.Time{})
	change, _ := r.timeline.Advance(time.Time{})
	r.status.Set(upstream.Interrupted)
	r.mu.Unlock()
	r.takeOver(change)
	return func() {
		after()
		r.cfg.Log.Info("started from the cache folder", "snapshot", string(s.TimeText), "sequence", s.Sequence)
		r.activating.Lock()
		defer r.activating.Unlock()
		r.complete(ctx, s)
	}
}

// keptSnapshot returns the snapshot of the pointer in Dir. If it is damaged, or older than a snapshot that
// this edge has seen, keptSnapshot reports this and returns nil.
func (r *Refresher) keptSnapshot() *Snapshot {
	p := r.keptPointer()
	if p == nil {
		return nil
	}
	if err := r.floor.Check(artifacts.CurrentKey, p.Store, p.Sequence); err != nil {
		r.floor.Report(artifacts.CurrentKey.String(), err)
		return nil
	}
	// Never take a lower sequence, even if this snapshot is lost.
	r.floor.Take(artifacts.CurrentKey, p.Store, p.Sequence)
	raw := r.keptManifest(p.Manifest)
	if raw == nil {
		return nil
	}
	s, err := r.open(raw, p.Manifest)
	if err != nil {
		r.floor.Report(artifacts.ManifestKey(p.Manifest.Digest).String(), err)
		return nil
	}
	s.Store, s.Sequence = p.Store, p.Sequence
	s.progress.Missing = int64(len(s.objects))
	return s
}

// keptChange returns the change record in Dir, or nil if there is none that can be used.
func (r *Refresher) keptChange() *artifacts.Change {
	c := parseKept(r, artifacts.ChangeKey, artifacts.ParseChange)
	if c == nil {
		return nil
	}
	if err := r.floor.Check(artifacts.ChangeKey, c.Store, c.Number); err != nil {
		r.floor.Report(artifacts.ChangeKey.String(), err)
		return nil
	}
	r.floor.Take(artifacts.ChangeKey, c.Store, c.Number)
	return c
}
