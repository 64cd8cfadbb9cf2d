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

// away is a store that cannot be asked.
func away(faultstore.Op) faultstore.Decision { return faultstore.Refuse }

// keyedEdge is an edge and the registry of its keys.
type keyedEdge struct {
	*Edge
	t        *testing.T
	registry *teststore.Registry
	dir      string
}

// status asks with a key.
func (e *keyedEdge) status(key string) int {
	e.t.Helper()
	status, _, _ := Get(e.t, e.Addr(), board, "X-Api-Key", key)
	return status
}

// becomes waits until a key gets a status. How soon that must be, package auth
// tests by a clock of its own.
func (e *keyedEdge) becomes(key string, status int) {
	e.t.Helper()
	until(e.t, http.StatusText(status), func() bool { return e.status(key) == status })
}

// reported waits until /status says how the keys are.
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

// TestKeysThroughFaults: the last good set stays in force while the store is
// away or holds a broken one, over a restart too, and that is said.
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
	e.becomes(made.Key, http.StatusOK) // the snapshot is on disk, too
	if got := e.status(strings.Repeat("x", len(made.Key))); got != http.StatusUnauthorized {
		t.Errorf("no key, from the kept set: %d", got)
	}
	// What was revoked meanwhile is so as soon as the store is back.
	must.Get(e.registry.Revoke(t.Context(), made.ID))(t)
	store.SetHook(nil)
	e.becomes(made.Key, http.StatusUnauthorized)
	e.reported("VALID", "")
	must.OK(t, stop())

	// An edge that has never read a set cannot tell.
	store.SetHook(away)
	e.dir = t.TempDir()
	e.Edge, _ = start(t, store, change)
	e.becomes(made.Key, http.StatusServiceUnavailable)
	if got := e.status("no key"); got != http.StatusUnauthorized {
		t.Errorf("what is no key: %d", got)
	}
}

// TestKeysLost: a key set that the store has lost stays in force and in the cache
// folder, over a restart too; every edge says so; and the copy of an edge puts it back.
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

// TestMaxKeyAge: past --max-key-age no client is let in until the store is back.
func TestMaxKeyAge(t *testing.T) {
	mem := memstore.New()
	store := faultstore.New(mem, nil)
	teststore.Publish(t, mem, teststore.NewFeed(50, 1), teststore.Start)
	e := &keyedEdge{t: t, registry: &teststore.Registry{Store: mem}}
	e.Edge, _ = start(t, store, func(c *Config) {
		// Longer than a request takes; the age in full is package auth's to test.
		c.AuthOff, c.MaxKeyAge, c.Server.AddressRate, c.Server.AddressBurst = false, time.Second, 100_000, 100_000
	})
	made := teststore.Key(t, mem, 1_000_000, 1_000_000)
	e.becomes(made.Key, http.StatusOK)
	store.SetHook(away)
	e.becomes(made.Key, http.StatusServiceUnavailable)
	store.SetHook(nil)
	e.becomes(made.Key, http.StatusOK)
}
