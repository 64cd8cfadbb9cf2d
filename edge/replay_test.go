package edge

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/dirstore"
	"example.com/marketdata/artifacts/s3store"
	"example.com/marketdata/artifacts/signed"
	"example.com/marketdata/internal/test/faultstore"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/testserver"
	"example.com/marketdata/internal/test/teststore"
)

// TestReplay checks that, whatever replaces one of the three cells that change, an edge never answers from
// older data than it has seen and accepts no revoked key. Once the right cell is back, the edge uses it.
func TestReplay(t *testing.T) {
	stores := map[string]func(t *testing.T, name string) artifacts.Store{
		"folder": func(t *testing.T, _ string) artifacts.Store {
			return must.Get(dirstore.Open(filepath.Join(t.TempDir(), "store"), dirstore.Options{Create: true}))(t)
		},
	}
	if !testing.Short() {
		server := testserver.MinIO(t)
		stores["S3"] = func(t *testing.T, name string) artifacts.Store {
			s := must.Get(s3store.Open(server.URL(name), server.Options()))(t)
			t.Cleanup(func() { s.Close() })
			return s
		}
	}
	for name, open := range stores {
		for _, signs := range []string{"signed", "unsigned"} {
			t.Run(name+"/"+signs, func(t *testing.T) {
				t.Parallel() // it mostly waits for polls
				r := newReplay(t, open(t, signs), signs == "signed")
				for _, restarts := range []bool{false, true} {
					for _, key := range []artifacts.Key{artifacts.KeysKey, artifacts.ChangeKey, artifacts.CurrentKey} {
						for _, way := range []string{"older", "deleted, then older", "other store", "cut", "jumped",
							"beyond 2^53", "no checksum"} {
							r.put(key, way, restarts)
						}
					}
				}
			})
		}
	}
}

// polled counts the reads of each cell.
type polled struct {
	artifacts.Reader
	keys, change, current atomic.Int64
}

func (p *polled) of(key artifacts.Key) *atomic.Int64 {
	return map[artifacts.Key]*atomic.Int64{artifacts.KeysKey: &p.keys, artifacts.ChangeKey: &p.change,
		artifacts.CurrentKey: &p.current}[key]
}

func (p *polled) GetIf(ctx context.Context, key artifacts.Key, known artifacts.Version, limit int64) ([]byte,
	artifacts.Version, error) {
	b, v, err := p.Reader.GetIf(ctx, key, known, limit)
	if n := p.of(key); n != nil {
		n.Add(1)
	}
	return b, v, err
}

// replay is a store with an older and a newest state of each cell, and an edge that has seen the newest.
type replay struct {
	t             *testing.T
	raw           artifacts.Store
	sign          []artifacts.SignKey
	older, newest map[artifacts.Key][]byte
	good, revoked string // keys
	revokedID     string

	polled *polled
	dir    string
	edge   *Edge
	stop   func() error
}

func newReplay(t *testing.T, raw artifacts.Store, signs bool) *replay {
	t.Helper()
	r := &replay{t: t, raw: raw, polled: &polled{Reader: raw}, dir: t.TempDir()}
	var trust artifacts.Trust
	if signs {
		k := newSignKey(t)
		r.sign, trust = []artifacts.SignKey{k}, artifacts.Trust{k.Trust()}
	}
	ours := signed.Store(raw, r.sign, trust)
	registry := &teststore.Registry{Store: ours}
	good, revoked := teststore.Key(t, ours, 1_000_000, 1_000_000), teststore.Key(t, ours, 1_000_000, 1_000_000)
	r.good, r.revoked, r.revokedID = good.Key, revoked.Key, revoked.ID
	first := teststore.Publish(t, ours, teststore.NewFeed(50, 1), teststore.Start)
	r.older = r.read()
	r.older[artifacts.ChangeKey] = r.change(first.Pointer.Store, 7, "1")
	must.Get(registry.Revoke(t.Context(), revoked.ID))(t)
	teststore.Publish(t, ours, teststore.NewFeed(50, 2), teststore.Start.Add(artifacts.Step))
	must.Get(raw.Swap(t.Context(), artifacts.ChangeKey, "", r.change(first.Pointer.Store, 8, "2")))(t)
	r.newest = r.read()
	r.start()
	r.isNewest("at first")
	return r
}

func (r *replay) start() {
	var trust artifacts.Trust
	for _, k := range r.sign {
		trust = append(trust, k.Trust())
	}
	r.edge, r.stop = start(r.t, r.polled, func(c *Config) { c.AuthOff, c.Trust, c.CacheDir = false, trust, r.dir })
}

func (r *replay) read() map[artifacts.Key][]byte {
	r.t.Helper()
	all := map[artifacts.Key][]byte{}
	for _, key := range []artifacts.Key{artifacts.KeysKey, artifacts.ChangeKey, artifacts.CurrentKey} {
		b, _, err := r.raw.Get(r.t.Context(), key, artifacts.MaxKeySetSize)
		if err != nil && !errors.Is(err, artifacts.ErrNotFound) {
			r.t.Fatal(err)
		}
		all[key] = b
	}
	return all
}

func (r *replay) change(store string, number uint64, value string) []byte {
	c := artifacts.Change{Format: artifacts.Format, Numbered: artifacts.Numbered{Store: store, Number: number},
		Database: "fixture", Time: teststore.Start, Value: value}
	return artifacts.Sign(artifacts.ChangeKey, c.Encode(), r.sign...)
}

// forged returns the newest cell with another store or number, signed by the right key. Its contents must
// never appear in an answer: a revoked key in force, another change, or an older manifest.
func (r *replay) forged(key artifacts.Key, store string, number func(uint64) uint64) []byte {
	r.t.Helper()
	var b []byte
	var err error
	switch key {
	case artifacts.KeysKey:
		var s *artifacts.KeySet
		if s, err = artifacts.ParseKeySet(r.newest[key]); err == nil {
			s.Store, s.Number = cmp.Or(store, s.Store), number(s.Number)
			s.Find(r.revokedID).Revoked = time.Time{}
			b = s.Encode()
		}
	case artifacts.ChangeKey:
		var c *artifacts.Change
		if c, err = artifacts.ParseChange(r.newest[key]); err == nil {
			c.Store, c.Number, c.Value = cmp.Or(store, c.Store), number(c.Number), "99"
			b = c.Encode()
		}
	default:
		var p, old *artifacts.Pointer
		if p, err = artifacts.ParsePointer(r.newest[key]); err == nil {
			if old, err = artifacts.ParsePointer(r.older[key]); err == nil {
				old.Store, old.Sequence = cmp.Or(store, p.Store), number(p.Sequence)
				b = old.Encode()
			}
		}
	}
	must.OK(r.t, err)
	return artifacts.Sign(key, b, r.sign...)
}

// put replaces a cell with wrong data, with or without a restart of the edge, and finally restores the right
// cell.
func (r *replay) put(key artifacts.Key, way string, restarts bool) {
	r.t.Helper()
	what := key.String() + " " + way
	if restarts {
		what += ", restarted"
		must.OK(r.t, r.stop())
	}
	next := func(n uint64) uint64 { return n + 1 }
	var bad []byte
	switch way {
	case "older":
		bad = r.older[key]
	case "deleted, then older":
		bad = r.older[key]
		must.OK(r.t, r.raw.Delete(r.t.Context(), key))
		if restarts {
			r.start() // once without the cell, and again below
			r.holds(key, what+", while it is missing")
			must.OK(r.t, r.stop())
		} else {
			r.holds(key, what+", while it is missing")
		}
	case "other store":
		bad = r.forged(key, strings.Repeat("f", 32), next)
	case "cut":
		bad = r.forged(key, "", next)
		bad = bad[:len(bad)/2]
	case "jumped":
		bad = r.forged(key, "", func(n uint64) uint64 { return n + artifacts.MaxJump + 1 })
	case "beyond 2^53":
		bad = r.forged(key, "", func(uint64) uint64 { return artifacts.MaxNumber + 1 })
	case "no checksum":
		body := artifacts.Unsigned(r.forged(key, "", next))
		bad = artifacts.Sign(key, append(body[:bytes.LastIndex(body, []byte(`,"sum"`))], "}\n"...), r.sign...)
	}
	r.swap(key, bad)
	if restarts {
		r.start()
	}
	r.holds(key, what)
	r.swap(key, r.newest[key])
	r.isNewest(what)
}

func (r *replay) swap(key artifacts.Key, b []byte) {
	r.t.Helper()
	_, version, err := r.raw.Get(r.t.Context(), key, artifacts.MaxKeySetSize)
	if err == nil || errors.Is(err, artifacts.ErrNotFound) {
		_, err = r.raw.Swap(r.t.Context(), key, version, b)
	}
	must.OK(r.t, err)
}

// holds waits until the edge has polled the cell, and meanwhile checks that no answer is older than the
// newest state.
func (r *replay) holds(key artifacts.Key, what string) {
	r.t.Helper()
	from := r.polled.of(key).Load()
	until(r.t, what+": polls", func() bool {
		r.notOlder(what)
		return r.polled.of(key).Load() >= from+3
	})
	r.notOlder(what)
}

func (r *replay) notOlder(what string) (newest bool) {
	r.t.Helper()
	revoked, _, _ := r.ask(r.revoked)
	status, at, global := r.ask(r.good)
	if revoked == http.StatusOK {
		r.t.Errorf("%s: a revoked key is let in", what)
	}
	if status == http.StatusOK && at != "2026-03-04T05:20:00Z" {
		r.t.Errorf("%s: answered from %q", what, at)
	}
	changed := strings.Contains(global, `"total_market_cap_change_percentage_24h":"2"`)
	if status == http.StatusOK && !changed && !strings.Contains(global,
		`"total_market_cap_change_percentage_24h":null`) {
		r.t.Errorf("%s: /global answers %s", what, global)
	}
	return status == http.StatusOK && revoked == http.StatusUnauthorized && changed
}

func (r *replay) ask(key string) (status int, at, body string) {
	r.t.Helper()
	status, body, h := Get(r.t, r.edge.Addr(), "/openapi/v1/global", "X-Api-Key", key)
	return status, h.Get("X-Snapshot-Time"), body
}

func (r *replay) isNewest(what string) {
	r.t.Helper()
	until(r.t, what+": the true object is taken again", func() bool { return r.notOlder(what) })
	until(r.t, what+": all is well", func() bool {
		return r.edge.refresher.Status().LastError == "" && r.edge.watcher.Status().State == "VALID" &&
			len(r.edge.floor.Problems()) == 0
	})
}

// TestKeptDamage checks that /status lists files in the cache folder that are damaged or not signed by a
// trusted key.
func TestKeptDamage(t *testing.T) {
	raw := must.Get(dirstore.Open(filepath.Join(t.TempDir(), "store"), dirstore.Options{Create: true}))(t)
	r := newReplay(t, raw, true)
	until(t, "all objects", func() bool { return r.edge.refresher.Status().Missing == 0 })
	must.OK(t, r.stop())
	r.polled.Reader = faultstore.New(memstore.New(),
		func(faultstore.Op) faultstore.Decision { return faultstore.Refuse })
	problems := func() (names []string) {
		for _, p := range r.edge.status().More.(More).Folder {
			name, _, _ := strings.Cut(p, ":")
			names = append(names, name)
		}
		return names
	}
	for _, name := range []string{"keys", "change", "current", "floor"} {
		path := filepath.Join(r.dir, name)
		whole := must.Get(os.ReadFile(path))(t)
		bad := bytes.Clone(whole)
		bad[len(bad)/2] ^= 1
		must.OK(t, os.WriteFile(path, bad, 0o600))
		r.start()
		until(t, "a problem with "+name, func() bool { return slices.Contains(problems(), name) })
		r.notOlder(name + " is damaged on disk")
		must.OK(t, r.stop())
		must.OK(t, os.WriteFile(path, whole, 0o600))
	}
	r.sign = []artifacts.SignKey{newSignKey(t)}
	r.start()
	until(t, "problems with signatures", func() bool {
		return slices.Equal(problems(),
			[]string{"change", "current", "keys"})
	})
}
