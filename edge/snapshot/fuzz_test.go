package snapshot

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge/shards"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/teststore"
)

// FuzzKept checks that, whatever the cache folder contains, an edge that starts from it without the store
// serves the snapshot that its pointer names, or none.
func FuzzKept(f *testing.F) {
	mem := memstore.New()
	p := teststore.Publish(f, mem, teststore.NewFeed(50, 1), teststore.Start)
	pointer := p.Pointer.Encode()
	key := artifacts.ManifestKey(p.Pointer.Manifest.Digest)
	manifest, _, err := mem.Get(context.Background(), key, artifacts.MaxManifestSize)
	must.OK(f, err)
	at := teststore.Start
	change := (&artifacts.Change{
		Format: artifacts.Format, Database: "fixture", Time: at, Snapshot: at, Base: at, Value: "0",
	}).Encode()
	dir := f.TempDir()
	away := &store{Reader: mem, spoil: away}
	cache := must.Get(shards.New(shards.Config{Store: away, Memory: 1, Dir: dir, Wait: time.Millisecond}))(f)
	f.Cleanup(cache.Close)
	f.Add(pointer, manifest, change)
	f.Add(pointer, manifest[:100], change)
	f.Add(pointer, manifest, []byte(`{"format":2}`))
	f.Add(pointer[:50], manifest, []byte{})
	f.Add(bytes.Replace(pointer, []byte(`"format":1`), []byte(`"format":2`), 1), manifest, change)
	f.Fuzz(func(t *testing.T, pointer, manifest, change []byte) {
		for key, b := range map[artifacts.Key][]byte{
			artifacts.CurrentKey: pointer, artifacts.ChangeKey: change,
			key: manifest, artifacts.ManifestKey(artifacts.Sum(manifest)): manifest,
		} {
			path := filepath.Join(dir, filepath.FromSlash(key.String()))
			must.OK(t, os.MkdirAll(filepath.Dir(path), 0o755))
			must.OK(t, os.WriteFile(path, b, 0o644))
			defer os.Remove(path)
		}
		r := NewRefresher(Config{Store: away, Cache: cache, Dir: dir})
		ctx, cancel := context.WithCancel(t.Context())
		r.restore(ctx)()
		cancel()
		r.background.Wait()
		state := r.State()
		if state == nil {
			return
		}
		named, err := artifacts.ParsePointer(pointer)
		s := state.Snapshot
		if err != nil || s == nil || s.Manifest != named.Manifest.Digest || s.Sequence != named.Sequence ||
			artifacts.Sum(manifest) != named.Manifest.Digest {
			t.Fatalf("started from %.300q: %+v, %v", pointer, s, err)
		}
		c, err := artifacts.ParseChange(change)
		if (err == nil) != (state.Change != nil) || err == nil && *c != *state.Change {
			t.Fatalf("change record %.300q: %+v, %v", change, state.Change, err)
		}
		s.release()
	})
}
