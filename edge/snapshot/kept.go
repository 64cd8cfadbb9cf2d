package snapshot

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/internal/durable"
)

// keep writes a small object to Dir. It is only an aid for the next start, so a
// fault is logged and no more.
func (r *Refresher) keep(key string, b []byte) {
	if r.cfg.Dir == "" {
		return
	}
	path := filepath.Join(r.cfg.Dir, filepath.FromSlash(key))
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = durable.ReplaceFile(path, bytes.NewReader(b), 0o600)
	}
	if err != nil {
		r.cfg.Log.Warn("cache folder cannot be written", "file", key, "err", err)
	}
}

// keepPointer keeps the pointer p, whose bytes are b, unless another edge that
// shares Dir has kept a later one.
func (r *Refresher) keepPointer(p *artifacts.Pointer, b []byte) {
	if k := r.keptPointer(); k != nil && k.Store == p.Store && k.Sequence > p.Sequence {
		return
	}
	r.keep(artifacts.CurrentKey, b)
}

// keptPointer returns the pointer in Dir, nil when there is none of use.
func (r *Refresher) keptPointer() *artifacts.Pointer {
	b := r.kept(artifacts.CurrentKey, artifacts.MaxPointerSize)
	if b == nil {
		return nil
	}
	p, err := artifacts.ParsePointer(b)
	if err != nil {
		r.cfg.Log.Warn("kept pointer cannot be used", "err", err)
		return nil
	}
	return p
}

func (r *Refresher) kept(key string, limit int64) []byte {
	if r.cfg.Dir == "" {
		return nil
	}
	path := filepath.Join(r.cfg.Dir, filepath.FromSlash(key))
	if fi, err := os.Stat(path); err != nil || fi.Size() > limit {
		return nil
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	if r.cfg.Verify != nil && (key == artifacts.CurrentKey || key == artifacts.ChangeKey) && r.cfg.Verify(key, b) != nil {
		return nil
	}
	return b
}

func (r *Refresher) keepManifest(d artifacts.Digest, raw []byte) {
	if r.keptManifest(artifacts.Ref{Digest: d, Size: int64(len(raw))}) == nil {
		r.keep(artifacts.ManifestKey(d), raw)
	}
}

// keptManifest returns a manifest's bytes if Dir has them, whole.
func (r *Refresher) keptManifest(ref artifacts.Ref) []byte {
	b := r.kept(artifacts.ManifestKey(ref.Digest), artifacts.MaxManifestSize)
	if ref.Check(b) != nil {
		return nil
	}
	return b
}

// justKept is how long a manifest stays in Dir that this edge has no use for:
// one that shares the folder may be ahead, and about to keep its pointer.
const justKept = time.Hour

// dropManifests removes the manifests of snapshots that may no longer be
// pinned.
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
		return // not there: nothing to drop
	}
	for _, e := range entries {
		d, err := artifacts.ParseDigest(e.Name())
		if err != nil || wanted[d] {
			continue
		}
		if fi, err := e.Info(); err == nil && time.Since(fi.ModTime()) > justKept {
			_ = os.Remove(filepath.Join(dir, e.Name())) // the next swap tries again
		}
	}
}

// restore makes the last snapshot that was verified current, so that an edge
// answers while the store is away. What is damaged counts as not there.
func (r *Refresher) restore(ctx context.Context) {
	p := r.keptPointer()
	if p == nil {
		return
	}
	// Its sequence holds even where its snapshot is lost: never back.
	r.identity, r.sequence = p.Store, p.Sequence
	raw := r.keptManifest(p.Manifest)
	if raw == nil {
		return
	}
	m, err := artifacts.ParseManifest(raw)
	if err != nil {
		r.cfg.Log.Warn("kept manifest cannot be used", "err", err)
		return
	}
	s, err := New(m, p.Manifest.Digest, r.cfg.Cache)
	if err != nil {
		r.cfg.Log.Warn("kept manifest cannot be used", "err", err)
		return
	}
	s.Store, s.Sequence = p.Store, p.Sequence
	if c, err := artifacts.ParseChange(r.kept(artifacts.ChangeKey, artifacts.MaxPointerSize)); err == nil {
		r.early = c
	}
	r.missing.Store(int64(len(s.objects)))
	after := r.warmUp(ctx, nil, s)
	r.swap(s)
	after()
	r.cfg.Log.Info("started from the cache folder", "snapshot", string(s.TimeText), "sequence", s.Sequence)
	r.complete(ctx, s)
}
