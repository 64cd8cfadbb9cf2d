package edge

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/signed"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/teststore"
)

// TestSignatures checks that somebody who can write to the bucket, but has no trusted key, can neither change
// answers nor create an API key.
func TestSignatures(t *testing.T) {
	mem := memstore.New()
	ctx := context.Background()
	k := newSignKey(t)
	ours := signed.Store(mem, []artifacts.SignKey{k}, artifacts.Trust{k.Trust()})
	forger := signed.Store(mem, []artifacts.SignKey{newSignKey(t)}, nil)
	good := teststore.Key(t, ours, 1_000_000, 1_000_000).Key
	teststore.Publish(t, ours, teststore.NewFeed(50, 1), teststore.Start)
	e, _ := start(t, mem, func(c *Config) {
		c.AuthOff, c.Trust = false,
			artifacts.Trust{newSignKey(t).Trust(), k.Trust()}
	})
	until(t, "the signed snapshot and key", func() bool {
		code, _, _ := Get(t, e.Addr(), "/openapi/v1/assets", "X-Api-Key", good)
		return code == http.StatusOK
	})

	if _, status, _ := Get(t, e.AdminAddr(), "/status"); !strings.Contains(status, `"signatures_checked": true`) {
		t.Errorf("/status: %s", status)
	}

	// Publish a forged snapshot with different rows.
	teststore.Publish(t, forger, teststore.NewFeed(60, 9), teststore.Start.Add(artifacts.Step))
	until(t, "a refusal of the pointer", func() bool {
		return strings.Contains(e.refresher.Status().LastError,
			"not signed by a trusted key")
	})
	if e.refresher.Counters.Refused.Load() == 0 {
		t.Error("a forged pointer does not count as refused, which pages")
	}
	if code, _, h := Get(t, e.Addr(), "/openapi/v1/assets", "X-Api-Key", good); code != http.StatusOK ||
		h.Get("X-Snapshot-Time") != "2026-03-04T05:10:00Z" {
		t.Errorf("after a forged pointer: %d, %v", code, h)
	}
	// Publish a forged key set without the good key.
	intruder := teststore.Key(t, forger, 1_000_000, 1_000_000).Key
	until(t, "a refusal of the key set", func() bool {
		return strings.Contains(e.watcher.Status().LastError,
			"signature")
	})
	if code, _, _ := Get(t, e.Addr(), "/openapi/v1/assets", "X-Api-Key", intruder); code != http.StatusUnauthorized {
		t.Errorf("a key of a forged set: %d", code)
	}
	if code, _, _ := Get(t, e.Addr(), "/openapi/v1/assets", "X-Api-Key", good); code != http.StatusOK {
		t.Errorf("the good key after a forged set: %d", code)
	}
	// A forged change record is ignored.
	change := artifacts.Change{Format: artifacts.Format, Database: "fixture", Time: time.Now(), Value: "99"}
	must.Get(forger.Swap(ctx, artifacts.ChangeKey, "", change.Encode()))(t)
	from := e.refresher.Counters.Polls.Load()
	until(t, "polls", func() bool { return e.refresher.Counters.Polls.Load() > from+3 })
	if c := e.refresher.State().Change; c != nil {
		t.Errorf("a forged change record: %+v", c)
	}
}
