package edge

import (
	"context"
	"crypto/rand"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/memstore"
	"example.com/marketdata/artifacts/signed"
	"example.com/marketdata/builder/keys"
	"example.com/marketdata/edge/internal/fixture"
)

// TestSignatures: write access to the bucket is not enough to change what is
// answered, or to make a key.
func TestSignatures(t *testing.T) {
	mem := memstore.New()
	ctx := context.Background()
	newKey := func() artifacts.SignKey {
		k, err := artifacts.NewSignKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	k := newKey()
	ours := signed.Store(mem, []artifacts.SignKey{k}, artifacts.Trust{k.Trust()})
	forger := signed.Store(mem, []artifacts.SignKey{newKey()}, nil)
	create := func(s artifacts.Store, name string) string {
		t.Helper()
		made, err := (&keys.Registry{Store: s}).Create(ctx, keys.Request{Name: name, Rate: 1000, Burst: 1000})
		if err != nil {
			t.Fatal(err)
		}
		return made.Key
	}
	good := create(ours, "client")
	first := fixture.Publish(t, ours, fixture.Feed(50, 1), fixture.Start, nil)
	e, _ := start(t, mem, func(c *Config) { c.AuthOff, c.Trust = false, artifacts.Trust{newKey().Trust(), k.Trust()} })
	until(t, "the signed snapshot and key", func() bool {
		code, _, _ := askWith(t, e.Addr(), good, "/openapi/v1/assets")
		return code == http.StatusOK
	})

	// A forged snapshot, with rows of its own.
	fixture.Publish(t, forger, fixture.Feed(60, 9), fixture.Start.Add(artifacts.Step), first)
	until(t, "a refusal of the pointer", func() bool { return strings.Contains(e.refresher.Status().LastError, "not signed by a trusted key") })
	if code, at, _ := askWith(t, e.Addr(), good, "/openapi/v1/assets"); code != http.StatusOK || at != "2026-03-04T05:10:00Z" {
		t.Errorf("after a forged pointer: %d, snapshot %s", code, at)
	}
	// A forged key set, that also drops the good key.
	intruder := create(forger, "intruder")
	until(t, "a refusal of the key set", func() bool { return strings.Contains(e.watcher.Status().LastError, "signature") })
	if code, _, _ := askWith(t, e.Addr(), intruder, "/openapi/v1/assets"); code != http.StatusUnauthorized {
		t.Errorf("a key of a forged set: %d", code)
	}
	if code, _, _ := askWith(t, e.Addr(), good, "/openapi/v1/assets"); code != http.StatusOK {
		t.Errorf("the good key after a forged set: %d", code)
	}
	// A change record of a forger is null.
	change := artifacts.Change{Format: artifacts.Format, Database: "fixture", Time: time.Now(), Value: "99"}
	if _, err := forger.Swap(ctx, artifacts.ChangeKey, "", change.Encode()); err != nil {
		t.Fatal(err)
	}
	from := e.refresher.Counters.Polls.Load()
	until(t, "polls", func() bool { return e.refresher.Counters.Polls.Load() > from+3 })
	if c := e.refresher.State().Change; c != nil {
		t.Errorf("a forged change record: %+v", c)
	}
}

// askWith asks with a key.
func askWith(t *testing.T, addr net.Addr, key, path string) (status int, at, body string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, "http://"+addr.String()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Api-Key", key)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, res.Header.Get("X-Snapshot-Time"), string(b)
}
