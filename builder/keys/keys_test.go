package keys

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
)

var start = time.Date(2026, 11, 21, 7, 30, 0, 0, time.UTC)

// clock is a clock that a test moves by hand.
type clock struct{ time time.Time }

func (c *clock) now() time.Time { return c.time }

func newRegistry(store artifacts.Store) (*Registry, *clock) {
	// The fraction of a second must not appear anywhere.
	c := &clock{start.Add(987 * time.Millisecond)}
	return &Registry{Store: store, Now: c.now}, c
}

func mustCreate(t *testing.T, r *Registry, req Request) Created {
	t.Helper()
	return must.Get(r.Create(t.Context(), req))(t)
}

// stored reads the key set without the registry.
func stored(t *testing.T, s artifacts.Reader) *artifacts.KeySet {
	t.Helper()
	b, _, err := s.Get(context.Background(), artifacts.KeysKey, artifacts.MaxKeySetSize)
	if errors.Is(err, artifacts.ErrNotFound) {
		return &artifacts.KeySet{}
	}
	ok(t, err)
	return must.Get(artifacts.ParseKeySet(b))(t)
}

func put(t *testing.T, s artifacts.Store, b []byte) {
	t.Helper()
	_, version, err := s.Get(t.Context(), artifacts.KeysKey, artifacts.MaxKeySetSize+1)
	if err != nil && !errors.Is(err, artifacts.ErrNotFound) {
		t.Fatal(err)
	}
	must.Get(s.Swap(t.Context(), artifacts.KeysKey, version, b))(t)
}

var board = Request{Name: "Board", Rate: DefaultRate, Burst: DefaultBurst}

// TestJSON pins the shapes that COMMANDS.md, "Reports", describes.
func TestJSON(t *testing.T) {
	store := memstore.New()
	r, c := newRegistry(store)
	none := must.Get(r.List(t.Context()))(t)
	r.Random = rand.NewChaCha8([32]byte{1})
	plain := mustCreate(t, r, board)
	expiring := mustCreate(t, r, Request{
		Name: `<A> & "B"`, Rate: 5, Burst: 7,
		Expires: start.Add(90 * time.Minute).Add(time.Millisecond).In(time.FixedZone("", 3600)),
		Query:   true,
	})
	c.time = start.Add(time.Hour)
	must.Get(r.Revoke(t.Context(), plain.ID))(t)
	list := must.Get(r.List(t.Context()))(t)
	for _, x := range []struct {
		got  any
		want string
	}{
		{none, "[]"},
		{
			plain,
			`{"id":"ID1","key":"KEY1","name":"Board","rate":100,"burst":200,"created":"2026-11-21T07:30:00Z","expires":null,"query":false}`,
		},
		{
			expiring,
			`{"id":"ID2","key":"KEY2","name":"\u003cA\u003e \u0026 \"B\"","rate":5,"burst":7,"created":"2026-11-21T07:30:00Z","expires":"2026-11-21T09:00:00Z","query":true}`,
		},
		{list, `[{"id":"ID1","name":"Board","rate":100,"burst":200,"created":"2026-11-21T07:30:00Z","expires":null,"revoked":"2026-11-21T08:30:00Z","query":false},` +
			`{"id":"ID2","name":"\u003cA\u003e \u0026 \"B\"","rate":5,"burst":7,"created":"2026-11-21T07:30:00Z","expires":"2026-11-21T09:00:00Z","revoked":null,"query":true}]`},
	} {
		got := must.Get(json.Marshal(x.got))(t)
		want := strings.NewReplacer("ID1", plain.ID, "ID2", expiring.ID, "KEY1", plain.Key, "KEY2", expiring.Key).
			Replace(x.want)
		if string(got) != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func TestCreate(t *testing.T) {
	store := memstore.New()
	r, _ := newRegistry(store)
	seen := map[string]bool{}
	for range 3 {
		made := mustCreate(t, r, board)
		if !artifacts.CheckKeyText([]byte(made.Key)) || seen[made.Key] || seen[made.ID] {
			t.Errorf("got %+v after %v", made, seen)
		}
		seen[made.Key], seen[made.ID] = true, true
		e := stored(t, store).FindHash(artifacts.HashKey([]byte(made.Key)))
		if e == nil || e.ID != made.ID || e.Name != "Board" || e.Rate != 100 || e.Burst != 200 ||
			!e.Created.Equal(start) || !e.InForce(start) {
			t.Errorf("stored entry is %+v, made %+v", e, made)
		}
		b, _, err := store.Get(t.Context(), artifacts.KeysKey, artifacts.MaxKeySetSize)
		if err != nil || bytes.Contains(b, []byte(made.Key)) ||
			bytes.Contains(b, []byte(made.Key[len(artifacts.KeyPrefix):])) {
			t.Errorf("the key itself is in the store: %s, %v", b, err)
		}
	}
	if n := len(stored(t, store).Keys); n != 3 {
		t.Errorf("%d keys stored, want 3", n)
	}
}

func TestCreateRefuses(t *testing.T) {
	store := memstore.New()
	r, _ := newRegistry(store)
	for _, c := range []struct {
		name string
		edit func(*Request)
		want string // "": accepted
	}{
		{"empty name", func(q *Request) { q.Name = "" }, "want 1 to 100 characters, got 0"},
		{"100 characters", func(q *Request) { q.Name = strings.Repeat("é", 100) }, ""},
		{"101 characters", func(q *Request) { q.Name = strings.Repeat("é", 101) }, "want 1 to 100 characters, got 101"},
		{"any script", func(q *Request) { q.Name = "Ἀθῆναι 株式会社 🚀 <&>\"\\" }, ""},
		{"not UTF-8", func(q *Request) { q.Name = "a\xff" }, "want UTF-8"},
		{"line feed", func(q *Request) { q.Name = "a\nb" }, "U+000A"},
		{"text direction", func(q *Request) { q.Name = "a\u202eb" }, "U+202E is not printable"},
		{"line separator", func(q *Request) { q.Name = "a\u2028b" }, "U+2028 is not printable"},
		{"no-break space", func(q *Request) { q.Name = "a\u00a0b" }, "U+00A0 is not printable"},
		{"space before", func(q *Request) { q.Name = " a" }, "no space at its ends"},
		{"space behind", func(q *Request) { q.Name = "a " }, "no space at its ends"},
		{"rate 0", func(q *Request) { q.Rate = 0 }, "rate 0: want a whole number of requests a second, 1 to 1000000"},
		{"rate 1", func(q *Request) { q.Rate = 1 }, ""},
		{"rate 1000000", func(q *Request) { q.Rate = 1_000_000 }, ""},
		{"rate 1000001", func(q *Request) { q.Rate = 1_000_001 }, "rate 1000001"},
		{"burst -1", func(q *Request) { q.Burst = -1 }, "burst -1: want a whole number of requests, 1 to 1000000"},
		{"burst 1", func(q *Request) { q.Burst = 1 }, ""},
		{"burst 1000001", func(q *Request) { q.Burst = 1_000_001 }, "burst 1000001"},
		{"expires long ago", func(q *Request) { q.Expires = start.AddDate(-3, 0, 0) }, ""},
		{
			"expires in year 10000",
			func(q *Request) { q.Expires = time.Date(9999, 12, 31, 23, 59, 59, 0, time.FixedZone("", -3600)) },
			"expires: year 10000",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := len(stored(t, store).Keys)
			q := board
			c.edit(&q)
			_, err := r.Create(t.Context(), q)
			if c.want == "" {
				if err != nil || len(stored(t, store).Keys) != before+1 {
					t.Errorf("got %v, want it taken", err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "create key: ") {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if len(stored(t, store).Keys) != before {
				t.Error("it was stored all the same")
			}
		})
	}
}

func TestRevoke(t *testing.T) {
	store := memstore.New()
	r, c := newRegistry(store)
	a, b := mustCreate(t, r, board), mustCreate(t, r, board)
	c.time = start.Add(time.Minute)
	first, err := r.Revoke(t.Context(), a.ID)
	if err != nil || first.ID != a.ID || !first.Revoked.Equal(c.time) {
		t.Fatalf("got %+v, %v", first, err)
	}
	c.time = start.Add(time.Hour)
	again, err := r.Revoke(t.Context(), a.ID)
	if err != nil || !again.Revoked.Equal(*first.Revoked) {
		t.Errorf("revoked again: %+v, %v, want the first time %v", again, err, first.Revoked)
	}
	set := stored(t, store)
	if k := set.Find(a.ID); k.InForce(c.time) || !k.Revoked.Equal(start.Add(time.Minute)) {
		t.Errorf("stored: %+v", k)
	}
	if k := set.Find(b.ID); !k.InForce(c.time) {
		t.Errorf("the other key: %+v", k)
	}
	for _, id := range []string{"", "nobody", b.ID[1:], a.Key} {
		if _, err := r.Revoke(t.Context(), id); !errors.Is(err, errUnknownID) || strings.Contains(err.Error(), a.Key) {
			t.Errorf("id %q: got %v, want ErrUnknownID", id, err)
		}
	}
	before := stored(t, store).Encode()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, do := range operations(r, b.ID) {
		if err := do(ctx); !errors.Is(err, context.Canceled) || !bytes.Equal(stored(t, store).Encode(), before) {
			t.Errorf("%s, canceled: got %v; the set is %+v", name, err, stored(t, store))
		}
	}
}

func TestRotate(t *testing.T) {
	week := start.Add(7 * 24 * time.Hour)
	for _, c := range []struct {
		name    string
		expires time.Time
		overlap time.Duration
		want    string // "": the key is rotated
	}{
		{"no expiry", time.Time{}, DefaultOverlap, ""},
		{"expiry behind the overlap", week, DefaultOverlap, ""},
		{"no overlap", week, 0, ""},
		{"negative overlap", week, -time.Second, "overlap -1s: want 0 or more"},
		{
			"expiry within the overlap", start.Add(time.Hour), DefaultOverlap,
			"it expires at 2026-11-21T08:30:00Z, within the overlap of 24h0m0s",
		},
		{"expiry at the overlap's end", week, 7 * 24 * time.Hour, "within the overlap"},
		{"expired", start, DefaultOverlap, "it expired at 2026-11-21T07:30:00Z; create a new key"},
	} {
		t.Run(c.name, func(t *testing.T) {
			store := memstore.New()
			r, _ := newRegistry(store)
			old := mustCreate(t, r, Request{Name: "Board", Rate: 7, Burst: 8, Expires: c.expires})
			before := stored(t, store).Encode()
			made, err := r.Rotate(t.Context(), old.ID, c.overlap, shownNowhere)
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("got %v, want %q", err, c.want)
				}
				if !bytes.Equal(stored(t, store).Encode(), before) {
					t.Error("the set was changed all the same")
				}
				return
			}
			ok(t, err)
			set := stored(t, store)
			was, is := set.Find(old.ID), set.FindHash(artifacts.HashKey([]byte(made.Key)))
			if len(set.Keys) != 2 || is == nil || is.ID != made.ID || made.ID == old.ID || made.Key == old.Key {
				t.Fatalf("stored: %+v, made %+v", set, made)
			}
			if is.Name != "Board" || is.Rate != 7 || is.Burst != 8 || !is.Expires.Equal(c.expires) {
				t.Errorf("successor: %+v, want name, limits and expiry of the old one", is)
			}
			if end := start.Add(c.overlap); !was.Expires.Equal(end) || was.InForce(end) ||
				c.overlap > 0 && !was.InForce(end.Add(-1)) {
				t.Errorf("old key expires %v, want %v", was.Expires, end)
			}
			if _, err := r.Rotate(t.Context(), old.ID, DefaultOverlap, shownNowhere); err == nil {
				t.Error("the old key was rotated again")
			}
			if _, err := r.Rotate(t.Context(), made.ID, DefaultOverlap, shownNowhere); err != nil {
				t.Errorf("rotate the successor: %v", err)
			}
			if _, err := r.Rotate(t.Context(), "nobody", 0, shownNowhere); !errors.Is(err, errUnknownID) {
				t.Errorf("unknown id: got %v", err)
			}
			must.Get(r.Revoke(t.Context(), made.ID))(t)
			revoked := "it was revoked at 2026-11-21T07:30:00Z; create a new key"
			_, err = r.Rotate(t.Context(), made.ID, 0, shownNowhere)
			if err == nil || !strings.Contains(err.Error(), revoked) {
				t.Errorf("revoked: got %v", err)
			}
		})
	}
}

// shownNowhere discards a key.
func shownNowhere(Created) error { return nil }

// operations returns the operations of the Registry, applied to the key id.
func operations(r *Registry, id string) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"create": func(ctx context.Context) error { _, err := r.Create(ctx, board); return err },
		"list":   func(ctx context.Context) error { _, err := r.List(ctx); return err },
		"revoke": func(ctx context.Context) error { _, err := r.Revoke(ctx, id); return err },
		"rotate": func(ctx context.Context) error { _, err := r.Rotate(ctx, id, 0, shownNowhere); return err },
	}
}

func TestUnreadableSetStaysUntouched(t *testing.T) {
	for _, c := range []struct {
		name string
		set  []byte
		want error
	}{
		{"newer format", []byte(`{"format":2,"keys":{"shape":"unknown"}}`), artifacts.ErrFormat},
		{"corrupt", []byte(`{"format":1,"keys":[{"id":"a"}]}`), artifacts.ErrCorrupt},
		{"empty", nil, artifacts.ErrCorrupt},
		{"too large", bytes.Repeat([]byte(" "), artifacts.MaxKeySetSize+1), artifacts.ErrTooLarge},
	} {
		store := memstore.New()
		put(t, store, c.set)
		r, _ := newRegistry(store)
		for name, do := range operations(r, "a") {
			if err := do(t.Context()); !errors.Is(err, c.want) {
				t.Errorf("%s, %s: got %v, want %v", c.name, name, err, c.want)
			}
		}
		if b, _, err := store.Get(t.Context(), artifacts.KeysKey, artifacts.MaxKeySetSize+1); err != nil ||
			!bytes.Equal(b, c.set) {
			t.Errorf("%s: the set was changed to %.100q, %v", c.name, b, err)
		}
	}
}

func TestConcurrentOperationsAllTakeEffect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const workers = 24
		store := memstore.New()
		r, _ := newRegistry(store)
		var old []Created
		for range 2 * workers {
			old = append(old, mustCreate(t, r, board))
		}
		made := make([]Created, 2*workers)
		var wg sync.WaitGroup
		for i := range workers {
			wg.Go(func() {
				var err error
				if made[2*i], err = r.Create(t.Context(), board); err != nil {
					t.Error(err)
				}
			})
			wg.Go(func() {
				var err error
				if made[2*i+1], err = r.Rotate(t.Context(), old[2*i].ID, time.Hour, shownNowhere); err != nil {
					t.Error(err)
				}
			})
			wg.Go(func() {
				if _, err := r.Revoke(t.Context(), old[2*i+1].ID); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		set := stored(t, store)
		if len(set.Keys) != 4*workers {
			t.Errorf("%d keys, want %d", len(set.Keys), 4*workers)
		}
		for _, m := range made {
			if k := set.FindHash(artifacts.HashKey([]byte(m.Key))); k == nil || k.ID != m.ID || !k.InForce(start) {
				t.Errorf("made %+v, stored %+v", m, k)
			}
		}
		for i, m := range old {
			k := set.Find(m.ID)
			if rotated := k.Expires.Equal(start.Add(time.Hour)); rotated != (i%2 == 0) {
				t.Errorf("key %d: expires %v", i, k.Expires)
			}
			if revoked := !k.Revoked.IsZero(); revoked != (i%2 == 1) {
				t.Errorf("key %d: revoked %v", i, k.Revoked)
			}
		}
	})
}

var errFault = errors.New("fault")

// fault says what happens to a call: whether it reaches the store, and which error replaces the
// store's answer (nil: none does).
type fault struct {
	apply bool
	err   error
}

var (
	fine        = fault{true, nil}
	lostRequest = fault{false, errFault}
	lostAnswer  = fault{true, errFault}
	// sentTwice means that the store client repeated a request whose answer was lost, and that the
	// second request conflicted with the first.
	sentTwice = fault{true, artifacts.ErrConflict}
	refused   = fault{false, artifacts.ErrConflict}
)

// faultyStore applies the faults in gets and swaps to successive calls of Get and Swap. The last
// fault also applies to all further calls.
type faultyStore struct {
	artifacts.Store
	gets, swaps         []fault
	getCalls, swapCalls int
}

func nth(faults []fault, n int) fault {
	if len(faults) == 0 {
		return fine
	}
	return faults[min(n, len(faults)-1)]
}

func (s *faultyStore) Get(ctx context.Context, key artifacts.Key, limit int64) ([]byte, artifacts.Version, error) {
	if key != artifacts.KeysKey {
		return s.Store.Get(ctx, key, limit)
	}
	f := nth(s.gets, s.getCalls)
	s.getCalls++
	if f.err != nil {
		return nil, "", f.err
	}
	return s.Store.Get(ctx, key, limit)
}

func (s *faultyStore) Swap(ctx context.Context, key artifacts.Key, old artifacts.Version,
	data []byte) (version artifacts.Version, err error) {
	if key != artifacts.KeysKey {
		return s.Store.Swap(ctx, key, old, data)
	}
	f := nth(s.swaps, s.swapCalls)
	s.swapCalls++
	if f.apply {
		version, err = s.Store.Swap(ctx, key, old, data)
	}
	if f.err != nil {
		return "", f.err
	}
	return version, err
}

func TestFaults(t *testing.T) {
	for _, c := range []struct {
		name        string
		gets, swaps []fault
		want        error // nil: the operation succeeds
		unknown     bool  // the error says that the outcome is unknown
		stored      bool  // the change is in the store
		calls       int   // of Swap
	}{
		{name: "none", stored: true, calls: 1},
		{name: "read fails", gets: []fault{lostRequest}, want: errFault},
		{name: "request lost", swaps: []fault{lostRequest, fine}, stored: true, calls: 2},
		{name: "answer lost", swaps: []fault{lostAnswer, refused}, stored: true, calls: 1},
		{
			name: "request lost, then the answer", swaps: []fault{lostRequest, lostAnswer, refused}, stored: true,
			calls: 2,
		},
		{name: "conflict with nobody", swaps: []fault{refused, refused, fine}, stored: true, calls: 3},
		{name: "conflict with itself", swaps: []fault{sentTwice, refused}, stored: true, calls: 1},
		{name: "all requests lost", swaps: []fault{lostRequest}, want: errFault, calls: maxFaults + 1},
		{
			name:   "answer of the last try lost",
			swaps:  append(slices.Repeat([]fault{lostRequest}, maxFaults), lostAnswer),
			stored: true, calls: maxFaults + 1,
		},
		{name: "always a conflict", swaps: []fault{refused}, want: artifacts.ErrConflict, calls: maxConflicts + 1},
		{
			name: "answer lost, then the store is away", gets: []fault{fine, lostRequest}, swaps: []fault{lostAnswer},
			want: errFault, unknown: true, stored: true, calls: 1,
		},
		{
			name: "request lost, then the store is away", gets: []fault{fine, lostRequest}, swaps: []fault{lostRequest},
			want: errFault, unknown: true, calls: 1,
		},
	} {
		for _, op := range []string{"create", "create all", "revoke", "rotate"} {
			t.Run(c.name+"/"+op, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store := memstore.New()
					r, clock := newRegistry(store)
					old := mustCreate(t, r, board)
					clock.time = start.Add(time.Minute)
					faulty := &faultyStore{Store: store, gets: c.gets, swaps: c.swaps}
					r.Store = faulty
					do := operations(r, old.ID)
					var saved []Created
					do["create all"] = func(ctx context.Context) error {
						_, err := r.CreateAll(ctx, board.Numbered(3), func(made []Created) error {
							saved = append(saved, made...)
							return nil
						})
						return err
					}
					err := do[op](t.Context())
					if !errors.Is(err, c.want) {
						t.Errorf("got %v, want %v", err, c.want)
					}
					if got := err != nil && strings.Contains(err.Error(), "may or may not"); got != c.unknown {
						t.Errorf("got %v, unknown %v", err, c.unknown)
					}
					set := stored(t, store)
					k := set.Find(old.ID)
					done := map[string]bool{
						"create":     len(set.Keys) == 2,
						"create all": len(set.Keys) == 4 && inForce(set, saved) == 3,
						"revoke":     k.Revoked.Equal(clock.time.Truncate(time.Second)),
						"rotate":     len(set.Keys) == 2 && k.Expires.Equal(clock.time.Truncate(time.Second)),
					}
					if done[op] != c.stored {
						t.Errorf("stored: %+v, want done %v", set, c.stored)
					}
					if op == "revoke" && len(set.Keys) != 1 || len(set.Keys) > 2 && op != "create all" {
						t.Errorf("%d keys", len(set.Keys))
					}
					if n := len(set.Keys) - 1; op == "create all" && (n > 0 && n < 3 || len(saved) > 3) {
						t.Errorf("%d of 3 keys are in the set, %d are saved", n, len(saved))
					}
					if faulty.swapCalls != c.calls {
						t.Errorf("%d swaps, want %d", faulty.swapCalls, c.calls)
					}
				})
			})
		}
	}
}

// inForce returns how many of the keys are in the set.
func inForce(set *artifacts.KeySet, made []Created) (n int) {
	for _, k := range made {
		if e := set.FindHash(artifacts.HashKey([]byte(k.Key))); e != nil && e.ID == k.ID && e.Name == k.Name {
			n++
		}
	}
	return n
}

// TestCreateAll checks that the keys are saved once, before any of them is in the set, even if
// other operations change the set in the meantime. If the keys cannot be saved, or one does not
// fit, the set does not change.
func TestCreateAll(t *testing.T) {
	store := memstore.New()
	r, _ := newRegistry(store)
	mustCreate(t, r, board)
	saves, made := 0, []Created(nil)
	made = must.Get(r.CreateAll(t.Context(), board.Numbered(60), func(saved []Created) error {
		saves++
		if n := inForce(stored(t, store), saved); n != 0 || len(saved) != 60 {
			t.Errorf("%d of %d keys are in force before they are saved", n, len(saved))
		}
		mustCreate(t, r, board)
		return nil
	}))(t)
	set := stored(t, store)
	if saves != 1 || len(set.Keys) != 62 || inForce(set, made) != 60 || made[0].Name != "Board-01" ||
		made[59].Name != "Board-60" {
		t.Errorf("%d saves, %d keys: %+v", saves, len(set.Keys), made)
	}
	if names := board.Numbered(100); names[0].Name != "Board-001" || names[99].Name != "Board-100" {
		t.Errorf("names %s, %s", names[0].Name, names[99].Name)
	}
	full := errors.New("disk full")
	_, err := r.CreateAll(t.Context(), board.Numbered(2), func([]Created) error { return full })
	if !errors.Is(err, full) {
		t.Errorf("got %v, want %v", err, full)
	}
	set.Keys = slices.Repeat(set.Keys[:1], artifacts.MaxKeys-1)
	for i := range set.Keys {
		set.Keys[i].ID, set.Keys[i].Hash = fmt.Sprint("k", i), artifacts.Sum(fmt.Append(nil, i))
	}
	put(t, store, set.Encode())
	if _, err = r.CreateAll(t.Context(), board.Numbered(2), func([]Created) error {
		t.Error("keys were saved that do not fit")
		return nil
	}); err == nil {
		t.Error("more keys than a set takes")
	}
	if n := len(stored(t, store).Keys); n != artifacts.MaxKeys-1 {
		t.Errorf("%d keys", n)
	}
}

func TestFullSet(t *testing.T) {
	full := &artifacts.KeySet{Format: artifacts.Format, Keys: make([]artifacts.KeyEntry, artifacts.MaxKeys)}
	for i := range full.Keys {
		full.Keys[i] = artifacts.KeyEntry{
			ID: fmt.Sprint("k", i), Name: "n", Hash: artifacts.Sum(fmt.Append(nil, i)), Rate: 1, Burst: 1,
			Created: start.AddDate(-1, 0, 0),
		}
	}
	store := memstore.New()
	put(t, store, full.Encode())
	r, _ := newRegistry(store)
	if _, err := r.Create(t.Context(), board); err == nil ||
		!strings.Contains(err.Error(), "20000 keys, which is the maximum, and all are in force") {
		t.Errorf("all in force: got %v", err)
	}

	full.Keys[10].Revoked = start
	put(t, store, full.Encode())
	made := mustCreate(t, r, board)
	set := stored(t, store)
	if set.Find("k10") != nil || len(set.Keys) != artifacts.MaxKeys || set.Find(made.ID) == nil {
		t.Errorf("%d keys, want k10 to have made room", len(set.Keys))
	}
}

// TestRestore loses the key set repeatedly. However old the copies are, the restored set has a
// higher number than edges have seen, once Restore is given that number. A newer set in the store
// stays.
func TestRestore(t *testing.T) {
	store := memstore.New()
	r, _ := newRegistry(store)
	mustCreate(t, r, board)
	copies := []*artifacts.KeySet{stored(t, store)}
	for round := range 3 {
		other := mustCreate(t, r, board)
		newer := stored(t, store)
		if set := must.Get(r.Restore(t.Context(), copies, 0))(t); set.Number != newer.Number ||
			stored(t, store).Number != newer.Number {
			t.Fatalf("round %d: a newer set was replaced by %+v", round, set)
		}
		ok(t, store.Delete(t.Context(), artifacts.KeysKey))
		if round == 2 {
			copies = append(copies, newer)
		}
		for _, known := range []uint64{0, newer.Number, newer.Number, 0} { // unknown in the first and last call
			got := must.Get(r.Restore(t.Context(), copies, known))(t)
			if set := stored(t, store); got.Number != set.Number || (set.Find(other.ID) != nil) != (round == 2) ||
				set.Find(copies[0].Keys[0].ID) == nil || set.Number <= max(known, copies[0].Number) {
				t.Fatalf("round %d: seen %d, put back %+v", round, known, set)
			}
		}
	}
	if _, err := r.Restore(t.Context(), []*artifacts.KeySet{{Numbered: artifacts.Numbered{Store: "f", Number: 1}}},
		0); err == nil {
		t.Error("a copy of another store was put back")
	}
}

// TestNewest checks that no access that any set has removed comes back, whatever the order of the
// sets.
func TestNewest(t *testing.T) {
	const never, earlier, later, now = 0, 1, 2, 3
	at := func(n int) time.Time {
		return []time.Time{{}, start, start.Add(time.Hour), start.Add(2 * time.Hour)}[n]
	}
	set := func(number uint64, times ...[2]int) *artifacts.KeySet { // expiry and revocation of keys 1, 2 and so on
		s := &artifacts.KeySet{Numbered: artifacts.Numbered{Number: number}}
		for i, of := range times {
			s.Keys = append(s.Keys, artifacts.KeyEntry{Hash: artifacts.Digest{byte(i + 1)}, Expires: at(of[0]),
				Revoked: at(of[1])})
		}
		return s
	}
	for name, c := range map[string]struct {
		sets, others []*artifacts.KeySet
		want         *artifacts.KeySet
		changed      bool
	}{
		"none": {[]*artifacts.KeySet{nil}, nil, nil, false},
		"revoked in the newer": {
			[]*artifacts.KeySet{set(7, [2]int{}), set(9, [2]int{never, later})}, nil,
			set(9, [2]int{never, later}), false},
		"revoked and rotated in the older": {
			[]*artifacts.KeySet{set(9, [2]int{}, [2]int{}, [2]int{later}), set(7, [2]int{never, earlier}, [2]int{later},
				[2]int{})}, nil,
			set(9, [2]int{never, earlier}, [2]int{later}, [2]int{later}), true},
		"forgotten by one that does not count": {
			[]*artifacts.KeySet{set(7, [2]int{}, [2]int{})}, []*artifacts.KeySet{nil, set(7, [2]int{})},
			set(7, [2]int{}, [2]int{never, now}), true},
		"unknown to an older one": {
			[]*artifacts.KeySet{set(7, [2]int{}, [2]int{})}, []*artifacts.KeySet{set(6)},
			set(7, [2]int{}, [2]int{}), false},
	} {
		for range 2 {
			if _, got, changed := Newest(at(now), c.sets, c.others...); !reflect.DeepEqual(got, c.want) ||
				changed != c.changed {
				t.Errorf("%s: %+v, changed %v; want %+v", name, got, changed, c.want)
			}
			slices.Reverse(c.sets)
		}
	}
}

func TestForget(t *testing.T) {
	day := func(n int) time.Time { return start.AddDate(0, 0, n) }
	set := &artifacts.KeySet{Keys: []artifacts.KeyEntry{
		{ID: "in force"},
		{ID: "in force for a day", Expires: day(1)},
		{ID: "third", Revoked: day(-3)},
		{ID: "second", Expires: day(-5)},
		{ID: "first", Expires: day(-7), Revoked: day(-1)},
		{ID: "fourth", Expires: day(1), Revoked: day(-2)},
	}}
	for _, want := range []string{"first", "second", "third", "fourth"} {
		if set.Find(want) == nil || !forget(set, start) || set.Find(want) != nil {
			t.Errorf("%s was not forgotten in its turn: %+v", want, set)
		}
	}
	if forget(set, start) || len(set.Keys) != 2 {
		t.Errorf("a key in force was forgotten: %+v", set)
	}
}

func TestBrokenRandomSource(t *testing.T) {
	r, _ := newRegistry(memstore.New())
	r.Random = strings.NewReader(strings.Repeat("a", 70)) // enough for a key and half an id
	if _, err := r.Create(t.Context(), board); err == nil || !strings.Contains(err.Error(), "random source") {
		t.Errorf("got %v", err)
	}
}

var ok = must.OK
