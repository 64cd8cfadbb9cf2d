package edge

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/dirstore"
	"example.com/marketdata/edge/auth"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/teststore"
)

const never = -1 * time.Second

// slowStore answers after a delay. It reads the cell halfway through the delay. Tests replace its cells.
type slowStore struct {
	artifacts.Reader
	mu    sync.Mutex
	cells map[artifacts.Key][]byte
	delay func(n int) time.Duration
	asked int
	// revoked is the key set that revokes a key. said is the time when the store first returned it.
	revoked string
	said    time.Time
}

func (s *slowStore) GetIf(ctx context.Context, key artifacts.Key, known artifacts.Version, limit int64,
) ([]byte, artifacts.Version, error) {
	s.mu.Lock()
	d := s.delay(0)
	if !key.Immutable() {
		d = s.delay(s.asked)
		s.asked++
	}
	s.mu.Unlock()
	wait := func(d time.Duration) error {
		var end <-chan time.Time
		if d >= 0 {
			end = time.After(d)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-end:
			return nil
		}
	}
	if err := wait(d / 2); err != nil {
		return nil, "", err
	}
	s.mu.Lock()
	b, there := s.cells[key]
	s.mu.Unlock()
	if err := wait(d / 2); err != nil || key.Immutable() {
		return get(ctx, s.Reader, key, limit, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch v := artifacts.Version(artifacts.Sum(b).String()); {
	case !there:
		return nil, "", artifacts.ErrNotFound
	case v == known:
		return nil, "", artifacts.ErrNotModified
	default:
		if string(b) == s.revoked && s.said.IsZero() {
			s.said = time.Now()
		}
		return b, v, nil
	}
}

func (s *slowStore) Get(ctx context.Context, key artifacts.Key, limit int64) ([]byte, artifacts.Version, error) {
	return s.GetIf(ctx, key, "", limit)
}

func get(ctx context.Context, r artifacts.Reader, key artifacts.Key, limit int64, err error,
) ([]byte, artifacts.Version, error) {
	if err != nil {
		return nil, "", err
	}
	return r.Get(ctx, key, limit)
}

// copied is a store in two states, before and after a key was revoked and a snapshot published, with several
// copies of it.
type copied struct {
	objects                        *memstore.Store
	before, after                  map[artifacts.Key][]byte
	copies                         map[string]string // the folders of the copies, by kind
	id                             string
	revoked, kept, foreign         string // the texts of keys
	oldTime, newTime, furthestTime time.Time
}

func makeStores(t *testing.T) *copied {
	t.Helper()
	ctx := t.Context()
	s := &copied{objects: memstore.New(), copies: map[string]string{}}
	copyTo := func(name string, from artifacts.Store) *dirstore.Store {
		s.copies[name] = t.TempDir()
		to := must.Get(dirstore.Open(s.copies[name], dirstore.Options{}))(t)
		teststore.Backup(t, from, to)
		return to
	}
	cells := func() map[artifacts.Key][]byte {
		m := map[artifacts.Key][]byte{}
		for _, key := range []artifacts.Key{artifacts.IdentityKey, artifacts.CurrentKey, artifacts.KeysKey} {
			m[key], _, _ = s.objects.Get(ctx, key, key.Limit())
		}
		return m
	}
	at := teststore.Start
	publish := func(to artifacts.Store) time.Time {
		at = at.Add(artifacts.Step)
		return teststore.Publish(t, to, teststore.NewFeed(50, uint64(at.Unix())), at).Manifest.Time
	}
	registry := &teststore.Registry{Store: s.objects}
	publish(s.objects)
	revoked := teststore.Key(t, s.objects, 10, 10)
	copyTo("older", s.objects)
	s.oldTime = publish(s.objects)
	kept := teststore.Key(t, s.objects, 10, 10)
	copyTo("equal", s.objects)
	s.before = cells()
	further := copyTo("newer", s.objects)
	start := at
	publish(further)
	s.furthestTime = publish(further)
	on := &teststore.Registry{Store: further}
	must.Get(on.Revoke(ctx, kept.ID))(t)
	must.Get(on.Revoke(ctx, revoked.ID))(t)
	at = start
	s.newTime = publish(s.objects)
	must.Get(registry.Revoke(ctx, revoked.ID))(t)
	s.after = cells()
	other := memstore.New()
	for range 4 {
		publish(other)
	}
	foreign := teststore.Key(t, other, 10, 10)
	copyTo("foreign", other)
	s.id = must.Get(artifacts.ParseIdentity(s.before[artifacts.IdentityKey]))(t).Store
	s.revoked, s.kept, s.foreign = revoked.Key, kept.Key, foreign.Key
	return s
}

// TestCopyNeverOutvotes checks three rules, however slow the first store is and whatever its copy contains.
// No revoked key is accepted longer than ten seconds after the first store has returned the revocation. The
// edge never returns to an older snapshot. It follows the first store. The delays include 1.3 s and 5 s, with
// which these rules were once violated.
func TestCopyNeverOutvotes(t *testing.T) {
	world := makeStores(t)
	artifacts.Compress(nil, []byte("x")) // creates the encoder's channel, which must not belong to a synctest bubble
	steady := func(d time.Duration) func(int) time.Duration { return func(int) time.Duration { return d } }
	alternating := func(of ...time.Duration) func(int) time.Duration {
		return func(n int) time.Duration { return of[n%len(of)] }
	}
	for name, delay := range map[string]func(int) time.Duration{
		"0.1s": steady(100 * time.Millisecond), "0.9s": steady(900 * time.Millisecond),
		"1.3s": steady(1300 * time.Millisecond), "3s": steady(3 * time.Second), "5s": steady(5 * time.Second),
		"7s": steady(7 * time.Second), "never": steady(never), "alternating": alternating(100*time.Millisecond, never),
		"of three": alternating(1300*time.Millisecond, never, 5*time.Second),
	} {
		for kind := range world.copies {
			for _, later := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/later=%v", name, kind, later), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { world.try(t, kind, later, delay, name == "never", false) })
				})
			}
		}
	}
}

// TestCopyNamed checks that a new edge without the first store follows a copy only if the operator has
// accepted its store.
func TestCopyNamed(t *testing.T) {
	world := makeStores(t)
	artifacts.Compress(nil, []byte("x"))
	for kind := range world.copies {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				world.try(t, kind, false, func(int) time.Duration { return never }, true, true)
			})
		})
	}
}

func (s *copied) try(t *testing.T, kind string, later bool, delay func(int) time.Duration, silent, named bool) {
	first := &slowStore{Reader: s.objects, cells: s.after, delay: delay, revoked: string(s.after[artifacts.KeysKey])}
	if later {
		first.cells, first.delay = s.before, func(int) time.Duration { return 0 }
	}
	cfg := Config{Reader: first, FallbackStore: "file:" + s.copies[kind], Listen: "127.0.0.1:0", Admin: "127.0.0.1:0"}
	if named {
		cfg.AcceptStore = []string{s.id}
	}
	e := must.Get(New(t.Context(), cfg))(t)
	defer e.close()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { e.refresher.Run(ctx, nil) })
	running.Go(func() { e.watcher.Run(ctx) })
	var newest time.Time
	look := func(d time.Duration) {
		t.Helper()
		for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
			if err := s.wrong(e, first, &newest); err != nil {
				t.Fatalf("%v; %+v", err, e.status())
			}
		}
	}
	if later {
		look(30 * time.Second)
		first.mu.Lock()
		first.delay = delay
		first.mu.Unlock()
		look(15 * time.Second)
		first.mu.Lock()
		first.cells = s.after
		first.mu.Unlock()
	}
	look(2 * time.Minute)
	switch {
	case !silent:
		if s.verdict(e, s.revoked) != auth.Refused || newest.Before(s.newTime) {
			t.Errorf("at the end: revoked key %v, snapshot %v; %+v", s.verdict(e, s.revoked), newest, e.status())
		}
	case named && kind != "foreign":
		want := auth.Allowed
		if kind == "newer" {
			want = auth.Refused
		}
		if s.verdict(e, s.revoked) != want || newest.IsZero() {
			t.Errorf("with the copy of the named store: key %v, snapshot %v", s.verdict(e, s.revoked), newest)
		}
	case !later: // nothing has identified the store
		if s.verdict(e, s.kept) != auth.Undecided || !newest.IsZero() {
			t.Errorf("without the first store: key %v, snapshot %v", s.verdict(e, s.kept), newest)
		}
	case kind == "newer":
		if s.verdict(e, s.revoked) != auth.Refused || !newest.Equal(s.furthestTime) {
			t.Errorf("with the copy alone: revoked key %v, snapshot %v", s.verdict(e, s.revoked), newest)
		}
	default:
		if s.verdict(e, s.kept) != auth.Allowed || !newest.Equal(s.oldTime) {
			t.Errorf("with a copy that has nothing new: key %v, snapshot %v", s.verdict(e, s.kept), newest)
		}
	}
}

func (s *copied) verdict(e *Edge, key string) auth.Verdict {
	_, v := e.keys.Lookup([]byte(key), time.Now(), nil)
	return v
}

// wrong returns an error if the edge violates one of the rules of TestCopyNeverOutvotes.
func (s *copied) wrong(e *Edge, first *slowStore, newest *time.Time) error {
	first.mu.Lock()
	said := first.said
	first.mu.Unlock()
	if !said.IsZero() && time.Since(said) > 10*time.Second && s.verdict(e, s.revoked) == auth.Allowed {
		return fmt.Errorf("a revoked key is accepted %v after the first store has said so", time.Since(said))
	}
	if s.verdict(e, s.foreign) == auth.Allowed {
		return errors.New("a foreign store's key is accepted")
	}
	if cur := e.current(); cur != nil && cur.Store != s.id {
		return fmt.Errorf("the edge follows store %s", cur.Store)
	} else if cur != nil && cur.Time.Before(*newest) {
		return fmt.Errorf("the snapshot went back from %v to %v", *newest, cur.Time)
	} else if cur != nil {
		*newest = cur.Time
	}
	return nil
}
