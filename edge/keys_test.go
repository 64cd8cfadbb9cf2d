package edge

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/internal/test/faultstore"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/teststore"
)

// away is a hook that makes a store unreachable.
func away(faultstore.Op) faultstore.Decision { return faultstore.Refuse }

// keyedEdge is an edge with the registry of its keys.
type keyedEdge struct {
	*Edge
	t        *testing.T
	registry *teststore.Registry
	dir      string
}

// status returns the status of the answer to a request with the given key.
func (e *keyedEdge) status(key string) int {
	e.t.Helper()
	status, _, _ := Get(e.t, e.Addr(), board, "X-Api-Key", key)
	return status
}

// becomes waits until requests with a key get the given status. The tests of package auth check how soon this
// must happen, with a simulated clock.
func (e *keyedEdge) becomes(key string, status int) {
	e.t.Helper()
	until(e.t, http.StatusText(status), func() bool { return e.status(key) == status })
}

// reported waits until /status reports the given state of the keys.
func (e *keyedEdge) reported(state, reason string) {
	e.t.Helper()
	until(e.t, state, func() bool {
		var status struct {
			Status string
			Keys   struct {
				State     string
				LastError string `json:"last_error"`
			}
		}
		_, body, _ := Get(e.t, e.AdminAddr(), "/status")
		return json.Unmarshal([]byte(body), &status) == nil && status.Keys.State == state &&
			strings.Contains(status.Keys.LastError, reason) &&
			(state == "VALID" || status.Status == "degraded")
	})
}

// TestKeysThroughFaults checks that the last valid key set stays in force while the store is unreachable or
// contains an invalid one, even after a restart, and that /status reports this.
func TestKeysThroughFaults(t *testing.T) {
	mem := memstore.New()
	store := faultstore.New(mem, nil)
	teststore.Publish(t, mem, teststore.NewFeed(50, 1), teststore.Start)
	e := &keyedEdge{t: t, registry: &teststore.Registry{Store: mem}, dir: t.TempDir()}
	change := func(c *Config) {
		c.AuthOff, c.CacheDir, c.Server.AddressRate, c.Server.AddressBurst = false, e.dir, 100_000, 100_000
	}
	var stop func() error
	e.Edge, stop = start(t, store, change)
	made := teststore.Key(t, mem, 1_000_000, 1_000_000)
	e.becomes(made.Key, http.StatusOK)
	until(t, "all objects", func() bool { return e.refresher.Status().Missing == 0 })

	good, version, err := mem.Get(t.Context(), artifacts.KeysKey, artifacts.MaxKeySetSize)
	must.OK(t, err)
	for reason, broken := range map[string][]byte{"corrupt": good[:len(good)/2],
		"unknown format": bytes.Replace(good, []byte(`"format":1`), []byte(`"format":2`), 1)} {
		version = must.Get(mem.Swap(t.Context(), artifacts.KeysKey, version, broken))(t)
		e.reported("INTERRUPTED", reason)
		if got := e.status(made.Key); got != http.StatusOK {
			t.Errorf("with a set that is %s: %d", reason, got)
		}
	}
	must.Get(mem.Swap(t.Context(), artifacts.KeysKey, version, good))(t)
	e.reported("VALID", "")

	store.SetHook(away)
	e.reported("INTERRUPTED", faultstore.ErrFault.Error())
	if got := e.status(made.Key); got != http.StatusOK {
		t.Errorf("store away: %d", got)
	}
	must.OK(t, stop())
	e.Edge, stop = start(t, store, change)
	e.reported("INTERRUPTED", faultstore.ErrFault.Error())
	e.becomes(made.Key, http.StatusOK) // the snapshot is also on disk
	if got := e.status(strings.Repeat("x", len(made.Key))); got != http.StatusUnauthorized {
		t.Errorf("no key, from the kept set: %d", got)
	}
	// A key that was revoked in the meantime is refused once the store is back.
	must.Get(e.registry.Revoke(t.Context(), made.ID))(t)
	store.SetHook(nil)
	e.becomes(made.Key, http.StatusUnauthorized)
	e.reported("VALID", "")
	must.OK(t, stop())

	// An edge that has never read a key set cannot decide.
	store.SetHook(away)
	e.dir = t.TempDir()
	e.Edge, _ = start(t, store, change)
	e.becomes(made.Key, http.StatusServiceUnavailable)
	if got := e.status("no key"); got != http.StatusUnauthorized {
		t.Errorf("what is no key: %d", got)
	}
}

// TestKeysLost checks that a key set that the store has lost stays in force and in the cache folder, even
// after a restart. The edge reports the loss, and the set can be restored from its cache folder.
func TestKeysLost(t *testing.T) {
	mem := memstore.New()
	teststore.Publish(t, mem, teststore.NewFeed(50, 1), teststore.Start)
	e := &keyedEdge{t: t, registry: &teststore.Registry{Store: mem}, dir: t.TempDir()}
	change := func(c *Config) {
		c.AuthOff, c.CacheDir, c.Server.AddressRate, c.Server.AddressBurst = false, e.dir, 100_000, 100_000
	}
	var stop func() error
	e.Edge, stop = start(t, mem, change)
	made := teststore.Key(t, mem, 1_000_000, 1_000_000)
	e.becomes(made.Key, http.StatusOK)
	until(t, "all objects", func() bool { return e.refresher.Status().Missing == 0 })
	lose := func(lost ...artifacts.Key) {
		for _, key := range lost {
			must.OK(t, mem.Delete(t.Context(), key))
		}
	}
	lose(artifacts.KeysKey)
	for range 2 {
		e.reported("INTERRUPTED", "lost its key set")
		e.becomes(made.Key, http.StatusOK)
		if _, body, _ := Get(t, e.AdminAddr(), "/metrics"); !strings.Contains(body,
			`edge_store_object_lost{object="keys"} 1`) {
			t.Error("no metric says that the key set is lost")
		}
		must.OK(t, stop())
		e.Edge, stop = start(t, mem, change)
	}
	_, err := e.registry.Create(t.Context(), teststore.KeyRequest{Name: "n", Rate: 1, Burst: 1})
	if !errors.Is(err, teststore.ErrLost) {
		t.Errorf("a key in the place of all that were lost: %v", err)
	}
	kept := must.Get(os.ReadFile(filepath.Join(e.dir, artifacts.KeysKey.String())))(t)
	set := must.Get(artifacts.ParseKeySet(kept))(t)
	must.Get(e.registry.Restore(t.Context(), []*artifacts.KeySet{set}, 0))(t)
	e.reported("VALID", "")
	e.becomes(made.Key, http.StatusOK)
	lose(artifacts.KeysKey, artifacts.CurrentKey, artifacts.IdentityKey, artifacts.ChangeKey)
	e.reported("INTERRUPTED", "lost its key set")
	if got := e.status(made.Key); got != http.StatusOK {
		t.Errorf("with an emptied store: %d", got)
	}
}

// TestMaxKeyAge checks that an edge accepts no key beyond --max-key-age until the store is back.
func TestMaxKeyAge(t *testing.T) {
	mem := memstore.New()
	store := faultstore.New(mem, nil)
	teststore.Publish(t, mem, teststore.NewFeed(50, 1), teststore.Start)
	e := &keyedEdge{t: t, registry: &teststore.Registry{Store: mem}}
	e.Edge, _ = start(t, store, func(c *Config) {
		// This is longer than a request takes. The tests of package auth check the exact age.
		c.AuthOff, c.MaxKeyAge, c.Server.AddressRate, c.Server.AddressBurst = false, time.Second, 100_000, 100_000
	})
	made := teststore.Key(t, mem, 1_000_000, 1_000_000)
	e.becomes(made.Key, http.StatusOK)
	store.SetHook(away)
	e.becomes(made.Key, http.StatusServiceUnavailable)
	store.SetHook(nil)
	e.becomes(made.Key, http.StatusOK)
}
