package upkeep

import (
	"context"
	"crypto/rand"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/signed"
	"example.com/marketdata/builder/keys"
	"example.com/marketdata/builder/source"
	"example.com/marketdata/internal/test/must"
)

// TestStatus compares a report of Status with the reports of builds, Check and gc, while the store
// is built, signed and damaged.
func TestStatus(t *testing.T) {
	mem, c := storeWithClock()
	sign := must.Get(artifacts.NewSignKey(rand.Reader))(t)
	s := signed.Store(mem, []artifacts.SignKey{sign}, artifacts.Trust{sign.Trust()})
	status := func(trust ...artifacts.TrustKey) *StatusReport {
		t.Helper()
		looked := tap(mem, func(op string, key artifacts.Key) {
			if !slices.Contains([]string{"get", "getif", "list"}, op) {
				t.Errorf("status asks for %s of %s", op, key)
			}
		})
		r, err := Status(t.Context(), StatusConfig{Store: looked, Trust: trust, Grace: DefaultGrace, Now: c.Now})
		ok(t, err)
		return r
	}
	if r := status(); r.Store != "" || len(r.Snapshots)+r.Objects+len(r.Problems) != 0 || r.Moving[0].There {
		t.Errorf("an empty store: %+v", r)
	}

	registry := &keys.Registry{Store: s, Now: c.Now}
	for i := range 6 {
		request := keys.Request{Name: "x", Rate: 1, Burst: 1}
		if i < 3 {
			request.Expires = c.Now().Add(time.Hour)
		}
		made := must.Get(registry.Create(t.Context(), request))(t)
		if i%3 == 1 {
			must.Get(registry.Revoke(t.Context(), made.ID))(t)
		}
	}
	w := world{Assets: 50, At: epoch}
	for range 15 {
		mustBuild(t, s, w)
		w = w.Later(artifacts.Step)
		c.Pass(artifacts.Step)
	}
	c.Pass(DefaultGrace)
	young := []byte("of a build that is running")
	ok(t, mem.Put(t.Context(), artifacts.ObjectKey(artifacts.Sum(young)), young))
	now := head(t, s)
	r := status(sign.Trust())
	if r.Store != now.Pointer.Store || len(r.Snapshots) != 1+len(now.Manifest.Retained) || len(r.Problems) > 0 {
		t.Errorf("%+v", r)
	}
	for i, one := range r.Snapshots {
		if want := now.Manifest.Time.Add(-time.Duration(i) * artifacts.Step); !one.Time.Equal(want) ||
			one.Published != (i == 0) || one.Counts["assets"] != 50 ||
			one.Missing != 0 || (one.Sequence == 15) != (i == 0) ||
			one.AgeSeconds != int64(c.Now().Sub(want)/time.Second) {
			t.Errorf("snapshot %d: %+v", i, one)
		}
	}
	if want := (KeyStatus{InForce: 2, Expired: 2, Revoked: 2}); r.Keys != want {
		t.Errorf("keys %+v, want %+v", r.Keys, want)
	}
	if l := r.Ledger; l == nil || l.Digest != now.Manifest.Ledger.Digest || l.Snapshots != 15 ||
		!l.Oldest.Equal(epoch) || l.IDs["assets"] != 50 || l.Missing != 0 {
		t.Errorf("ledger %+v", l)
	}
	for _, m := range r.Moving[1:] {
		if there := m.Key != artifacts.ChangeKey; m.There != there || there &&
			(!slices.Equal(m.SignedBy, []string{sign.Trust().ID()}) || !*m.Trusted) {
			t.Errorf("%+v", m)
		}
	}
	if n := len(contents(t, mem)); r.Objects != n {
		t.Errorf("%d objects, want %d", r.Objects, n)
	}
	if dry := collect(t, mem, func(cfg *GCConfig) { cfg.DryRun, cfg.Now = true, c.Now }); r.Free != dry.Deleted ||
		r.FreeBytes != dry.DeletedBytes || r.Free == 0 {
		t.Errorf("%d objects of %d bytes are free; gc says %+v", r.Free, r.FreeBytes, dry)
	}
	stranger := must.Get(artifacts.NewSignKey(rand.Reader))(t)
	if m := status(stranger.Trust()).Moving[1]; *m.Trusted {
		t.Errorf("a stranger's key has signed %+v", m)
	}
	if m := status().Moving[1]; m.Trusted != nil {
		t.Errorf("nobody was named, and %+v", m)
	}

	// Damage appears in the report, and does not end it.
	ledgerKey := artifacts.ObjectKey(now.Manifest.Ledger.Digest)
	for _, key := range []artifacts.Key{artifacts.ObjectKey(now.Manifest.View("quotes", "id").Objects[0].Digest),
		artifacts.ManifestKey(now.Manifest.Retained[2].Manifest.Digest)} {
		ok(t, mem.Delete(t.Context(), key))
	}
	r = status()
	if r.Snapshots[0].Missing != 1 || r.Snapshots[3].Counts != nil || r.Free != 0 || len(r.Problems) != 3 ||
		!strings.Contains(r.Problems[1], "gc would stop") {
		t.Errorf("two objects are missing: %+v", r)
	}
	for _, key := range []artifacts.Key{ledgerKey, artifacts.KeysKey, artifacts.CurrentKey} {
		ok(t, mem.Delete(t.Context(), key))
		ok(t, mem.Put(t.Context(), key, []byte("x")))
		n := len(r.Problems)
		if r = status(); len(r.Problems) <= n && key != artifacts.CurrentKey || r.Store == "" {
			t.Errorf("%s is damaged: %+v", key, r)
		}
	}
}

// TestStatusOfDamagedFiles checks that an unreadable file list is a problem, and that gc would then
// remove nothing.
func TestStatusOfDamagedFiles(t *testing.T) {
	mem, c := storeWithClock()
	w := world{Assets: 50, At: epoch}
	mustBuild(t, mem, w)
	mustBuild(t, mem, w.Later(artifacts.Step))
	set := must.Get(artifacts.ReadFileSets(t.Context(), mem, head(t, mem).Manifest))(t).Sets[0]
	list := artifacts.FileKey(set.Files.Digest)
	ok(t, mem.Delete(t.Context(), list))
	c.Pass(2 * DefaultGrace)
	r := must.Get(Status(t.Context(), StatusConfig{Store: mem, Grace: DefaultGrace, Now: c.Now}))(t)
	if len(r.Problems) != 1 || !strings.Contains(r.Problems[0], list.String()) || r.Free != 0 {
		t.Errorf("problems %q; gc would remove %d objects", r.Problems, r.Free)
	}
}

// TestStatusDataAges checks that the ages of a provider's data are in the build's report and, by
// way of the pointer, in the store's status.
func TestStatusDataAges(t *testing.T) {
	mem, c := storeWithClock()
	s := dated{world{Assets: 50, At: epoch}, c.Now().Add(-45 * time.Minute)}
	if r := mustBuild(t, mem, s); !slices.Equal(r.OldParts, []string{"tickers"}) {
		t.Errorf("old parts: %v", r.OldParts)
	}
	r, err := Status(t.Context(),
		StatusConfig{Store: mem, Grace: DefaultGrace, Now: func() time.Time { return s.At.Add(time.Minute) }})
	ok(t, err)
	if want := map[string]int64{"exchanges": 60, "tickers": 46 * 60}; !maps.Equal(r.Snapshots[0].DataAges, want) {
		t.Errorf("ages %v, want %v", r.Snapshots[0].DataAges, want)
	}
}

// dated is a world from a live provider, whose newest quote has the time newest.
type dated struct {
	world
	newest time.Time
}

func (d dated) Files(context.Context, time.Time) (source.Files, error) {
	return datedFiles{source.FS(d.Feed()), d}, nil
}

type datedFiles struct {
	source.Files
	dated dated
}

func (f datedFiles) Parts() []source.Part {
	return []source.Part{{Name: "tickers", Quotes: true, Newest: f.dated.newest},
		{Name: "exchanges", Newest: f.dated.At}}
}
