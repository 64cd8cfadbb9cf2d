package auth

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge/follow"
	"example.com/marketdata/edge/limit"
	"example.com/marketdata/edge/upstream"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newKey returns the text and the entry of an API key. Equal seeds produce equal keys.
func newKey(t testing.TB, seed uint64) (string, artifacts.KeyEntry) {
	t.Helper()
	var s [32]byte
	s[0] = byte(seed)
	text := must.Get(artifacts.NewKey(rand.NewChaCha8(s)))(t)
	return text, artifacts.KeyEntry{
		ID: fmt.Sprintf("k%d", seed), Name: "test", Hash: artifacts.HashKey([]byte(text)), Rate: 100, Burst: 200,
		Created: time.Unix(1_700_000_000, 0).UTC(),
	}
}

func set(entries ...artifacts.KeyEntry) *artifacts.KeySet {
	return &artifacts.KeySet{Format: artifacts.Format, Keys: entries}
}

func TestLookup(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	good, goodEntry := newKey(t, 1)
	goodEntry.Created = now.Add(time.Hour) // set by a machine whose clock is ahead
	revoked, revokedEntry := newKey(t, 2)
	revokedEntry.Revoked = now.Add(time.Hour)
	expiring, expiringEntry := newKey(t, 3)
	expiringEntry.Expires = now
	unknown, _ := newKey(t, 4)
	flipped := []byte(good)
	flipped[20] ^= 1

	texts := []struct {
		name, text string
		allowed    bool
	}{
		{"in force", good, true},
		{"revoked", revoked, false},
		{"expired this moment", expiring, false},
		{"unknown", unknown, false},
		{"none", "", false},
		{"mistyped", string(flipped), false},
		{"cut", good[:len(good)-1], false},
		{"with a space", good + " ", false},
		{"of another kind", strings.Replace(good, "mdk_live_", "mdk_test_", 1), false},
	}
	var keys Keys
	for _, c := range texts {
		_, got := keys.Lookup([]byte(c.text), now, nil)
		want := Refused
		if artifacts.CheckKeyText([]byte(c.text)) {
			want = Undecided
		}
		if got != want {
			t.Errorf("%s, before there is a set: %v, want %v", c.name, got, want)
		}
	}
	keys.Use(set(goodEntry, revokedEntry, expiringEntry), now)
	for _, c := range texts {
		key, got := keys.Lookup([]byte(c.text), now, nil)
		if c.allowed != (got == Allowed) || got == Undecided || (key != nil) != c.allowed {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	if key, _ := keys.Lookup([]byte(good), now, nil); key == nil || key.ID != "k1" || key.Limit.Burst() != 200 {
		t.Errorf("the key found is %+v", key)
	}
	if _, got := keys.Lookup([]byte(expiring), now.Add(-time.Nanosecond), nil); got != Allowed {
		t.Errorf("just before it expires: %v", got)
	}
	keys.Use(set(), now)
	if _, got := keys.Lookup([]byte(good), now, nil); got != Refused {
		t.Errorf("in the empty set: %v", got)
	}
}

// TestMemo checks that the keys that a connection presented earlier do not affect a verdict.
func TestMemo(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	first, firstEntry := newKey(t, 1)
	second, secondEntry := newKey(t, 2)
	unknown, _ := newKey(t, 3)
	firstEntry.Expires = now.Add(time.Minute)
	revoked := firstEntry
	revoked.Revoked = now
	texts := []string{first, second, unknown, "", first[:47], first + "x", first[:47] + "~"}
	sets := []*artifacts.KeySet{set(firstEntry, secondEntry), set(revoked, secondEntry), set(),
		set(secondEntry, firstEntry)}
	rapid.Check(t, func(t *rapid.T) {
		var keys Keys
		var memo Memo
		now := now
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0:
				keys.Use(rapid.SampledFrom(sets).Draw(t, "set"), now)
			case 1:
				now = now.Add(time.Duration(rapid.IntRange(-40, 40).Draw(t, "seconds")) * time.Second)
			default:
				text := []byte(rapid.SampledFrom(texts).Draw(t, "text"))
				key, verdict := keys.Lookup(text, now, &memo)
				wantKey, want := keys.Lookup(text, now, nil)
				if key != wantKey || verdict != want {
					t.Fatalf("%s: %v with a memo, %v without", text, verdict, want)
				}
			}
		}
	})
}

// TestBucketsStay checks that loading a key set gives no key additional tokens.
func TestBucketsStay(t *testing.T) {
	now := time.Now()
	text, entry := newKey(t, 1)
	other, otherEntry := newKey(t, 2)
	entry.Rate, entry.Burst = 1, 10
	var keys Keys
	keys.Use(set(entry), now)
	take := func() limit.Decision {
		key, _ := keys.Lookup([]byte(text), now, nil)
		return key.Take(limit.At(now))
	}
	for range 4 {
		take()
	}
	keys.Use(set(otherEntry, entry), now)
	if d := take(); d.Remaining != 5 {
		t.Errorf("after a reload %d tokens are left, want 5", d.Remaining)
	}
	entry.Rate, entry.Burst = 1000, 20
	keys.Use(set(entry, otherEntry), now)
	if d := take(); d.Remaining != 14 {
		t.Errorf("under a new limit %d tokens are left, want 14", d.Remaining)
	}
	if key, _ := keys.Lookup([]byte(other), now, nil); key.Take(limit.At(now)).Remaining != 199 {
		t.Error("keys share a bucket")
	}
}

// flaky is a store that fails on demand and counts the reads.
type flaky struct {
	*memstore.Store
	err   atomic.Pointer[error]
	hangs atomic.Bool // reads fail only when their context is done
	asked atomic.Int64
}

func newFlaky() *flaky { return &flaky{Store: memstore.New()} }

func (f *flaky) GetIf(ctx context.Context, key artifacts.Key, known artifacts.Version, size int64) ([]byte,
	artifacts.Version, error) {
	f.asked.Add(1)
	if err := f.err.Load(); err != nil && *err != nil {
		if f.hangs.Load() {
			<-ctx.Done()
		}
		return nil, "", *err
	}
	return f.Store.GetIf(ctx, key, known, size)
}

func (f *flaky) fail(err error) { f.err.Store(&err) }

// put replaces the store's key set.
func (f *flaky) put(t *testing.T, b []byte) {
	t.Helper()
	_, version, err := f.Get(t.Context(), artifacts.KeysKey, artifacts.MaxKeySetSize)
	if err != nil && !errors.Is(err, artifacts.ErrNotFound) {
		t.Fatal(err)
	}
	must.Get(f.Swap(t.Context(), artifacts.KeysKey, version, b))(t)
}

// poll reads the store once.
func (w *Watcher) poll(ctx context.Context) error {
	return w.take(w.cfg.Cells.Read(ctx, artifacts.KeysKey, w.known))
}

func verdict(k *Keys, text string) Verdict {
	_, v := k.Lookup([]byte(text), time.Now(), nil)
	return v
}

// TestWatcher walks one edge through the life of a key set.
func TestWatcher(t *testing.T) {
	store, file, refuse := newFlaky(), filepath.Join(t.TempDir(), "keys"), []byte(nil)
	text, entry := newKey(t, 1)
	second, secondEntry := newKey(t, 2)
	start := func() (*Keys, *Watcher) {
		keys, cells := new(Keys), follow.NewCells(store)
		cells.Verify = func(_ artifacts.Key, b []byte) error {
			if refuse != nil && bytes.Equal(b, refuse) {
				return errors.New("signature is wrong")
			}
			return nil
		}
		return keys, NewWatcher(keys, Config{Cells: cells, File: file})
	}
	expect := func(step string, k *Keys, w *Watcher, err error, first, other Verdict, state upstream.State) {
		t.Helper()
		if err != nil {
			w.fault(err)
		}
		if a, b := verdict(k, text), verdict(k, second); a != first || b != other {
			t.Errorf("%s: verdicts %v and %v, want %v and %v", step, a, b, first, other)
		}
		if got := w.Status(); got.State != state || state == upstream.Valid && got.LastError != "" {
			t.Errorf("%s: state %s, last error %q, want %s", step, got.State, got.LastError, state)
		}
	}

	keys, w := start()
	w.Load()
	store.fail(errors.New("connection refused"))
	err := w.poll(t.Context())
	expect("store away at the first start", keys, w, err, Undecided, Undecided, upstream.Initializing)
	if s := w.Status(); err == nil || s.LastError == "" || s.InForce != -1 {
		t.Errorf("error %v, status %+v", err, s)
	}
	store.fail(nil)
	expect("store without a set", keys, w, w.poll(t.Context()), Refused, Refused, upstream.Valid)

	store.put(t, set(entry).Encode())
	expect("first set", keys, w, w.poll(t.Context()), Allowed, Refused, upstream.Valid)
	expect("unchanged", keys, w, w.poll(t.Context()), Allowed, Refused, upstream.Valid)

	both := set(entry, secondEntry).Encode()
	refuse = both
	store.put(t, both)
	for range 2 {
		err = w.poll(t.Context())
		expect("set that does not verify", keys, w, err, Allowed, Refused, upstream.Interrupted)
		if err == nil {
			t.Error("a set that does not verify is no fault")
		}
	}
	refuse = nil
	expect("verifies after all", keys, w, w.poll(t.Context()), Allowed, Allowed, upstream.Valid)

	store.put(t, []byte(`{"format":1,"keys":[{"id":"x"}]}`))
	expect("broken set", keys, w, w.poll(t.Context()), Allowed, Allowed, upstream.Interrupted)
	store.fail(errors.New("timeout"))
	expect("store away", keys, w, w.poll(t.Context()), Allowed, Allowed, upstream.Interrupted)

	// Another edge starts on the same folder while the store is away.
	late, lateWatcher := start()
	lateWatcher.Load()
	expect("kept set", late, lateWatcher, lateWatcher.poll(t.Context()), Allowed, Allowed, upstream.Interrupted)

	store.fail(nil)
	secondEntry.Revoked = time.Now()
	store.put(t, set(entry, secondEntry).Encode())
	expect("revoked", keys, w, w.poll(t.Context()), Allowed, Refused, upstream.Valid)
	expect("revoked, after the kept set", late, lateWatcher, lateWatcher.poll(t.Context()), Allowed, Refused,
		upstream.Valid)

	must.OK(t, store.Delete(t.Context(), artifacts.KeysKey))
	expect("set removed", keys, w, w.poll(t.Context()), Allowed, Refused, upstream.Interrupted)
	if _, err := os.Stat(file); err != nil {
		t.Errorf("the kept set: %v", err)
	}
	expect("set removed, kept set was in force", late, lateWatcher, lateWatcher.poll(t.Context()), Allowed, Refused,
		upstream.Interrupted)
}

// TestKeptSet checks that a Watcher uses the set in its file only if the file is intact.
func TestKeptSet(t *testing.T) {
	text, entry := newKey(t, 1)
	good := set(entry).Encode()
	for name, content := range map[string][]byte{"good": good, "cut": good[:len(good)-9], "empty": {},
		"other": []byte("x"), "newer format": []byte(`{"format":99,"keys":[]}`)} {
		file := filepath.Join(t.TempDir(), "keys")
		must.OK(t, os.WriteFile(file, content, 0o600))
		keys := new(Keys)
		cells := follow.NewCells(memstore.New())
		kept := cells.Floor
		NewWatcher(keys, Config{Cells: cells, File: file}).Load()
		if want := name == "good"; (len(kept.Problems()) == 0) != want || (verdict(keys, text) == Allowed) != want {
			t.Errorf("%s: problems %q, verdict %v", name, kept.Problems(), verdict(keys, text))
		}
	}
	store := newFlaky()
	store.put(t, good)
	dir := t.TempDir()
	w := NewWatcher(new(Keys), Config{Cells: follow.NewCells(store), File: filepath.Join(dir, "keys")})
	must.OK(t, w.poll(t.Context()))
	files, _ := os.ReadDir(dir)
	if len(files) != 1 || files[0].Name() != "keys" {
		t.Errorf("the folder holds %v", files)
	}
	// A Watcher takes a new set even if the folder is unwritable. Once the folder is writable, the set is
	// saved, although the store has no newer one.
	keys, cells := new(Keys), follow.NewCells(store)
	if err := NewWatcher(keys, Config{Cells: cells,
		File: filepath.Join(dir, "gone", "keys")}).poll(t.Context()); err != nil || verdict(keys, text) != Allowed {
		t.Errorf("error %v, verdict %v", err, verdict(keys, text))
	}
	if cells.Floor.Retry(); len(cells.Floor.Problems()) != 1 {
		t.Errorf("problems %q", cells.Floor.Problems())
	}
	must.OK(t, os.Mkdir(filepath.Join(dir, "gone"), 0o700))
	if cells.Floor.Retry(); len(cells.Floor.Problems()) != 0 {
		t.Errorf("problems %q", cells.Floor.Problems())
	}
	for _, file := range []string{"keys", "gone/keys"} {
		b, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil || !bytes.Equal(b, good) {
			t.Errorf("%s: kept %d bytes, digest %x, error %v", file, len(b), sha256.Sum256(b), err)
		}
	}
}

// TestRun checks that a change is in force within ten seconds while the store answers. After an outage, it is
// in force within a second, however long the outage was, and even if the store left requests hanging. During
// an outage, the Watcher reads the store twice per second.
func TestRun(t *testing.T) {
	for _, hangs := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			store, keys := newFlaky(), new(Keys)
			text, entry := newKey(t, 1)
			w := NewWatcher(keys, Config{Cells: follow.NewCells(store)})
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() { w.Run(ctx); close(done) }()

			store.hangs.Store(hangs)
			store.fail(errors.New("connection refused"))
			time.Sleep(10 * time.Minute)
			if asked := store.asked.Load(); asked > 1210 || asked < 1100 {
				t.Errorf("asked %d times in ten minutes of outage", asked)
			}
			if got := w.Status(); got.LastError == "" {
				t.Errorf("status during the outage: %+v", got)
			}
			store.put(t, set(entry).Encode()) // written before the store is back, so the first answer contains it
			store.fail(nil)
			time.Sleep(time.Second)
			if got := verdict(keys, text); got != Allowed || w.Status().State != upstream.Valid {
				t.Errorf("a second after the store is back: %v, %+v", got, w.Status())
			}
			entry.Revoked = time.Now()
			store.put(t, set(entry).Encode())
			time.Sleep(10 * time.Second)
			if got := verdict(keys, text); got != Refused {
				t.Errorf("ten seconds after it was revoked: %v", got)
			}
			cancel()
			<-done
		})
	}
}

// TestMaxAge checks that a set is no longer used once the store has not confirmed it for MaxAge.
func TestMaxAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, keys := newFlaky(), new(Keys)
		text, entry := newKey(t, 1)
		store.put(t, set(entry).Encode())
		w := NewWatcher(keys, Config{Cells: follow.NewCells(store), MaxAge: time.Hour})
		for range 3 {
			must.OK(t, w.poll(t.Context()))
			time.Sleep(time.Hour - time.Nanosecond)
			if got := verdict(keys, text); got != Allowed {
				t.Errorf("within its time: %v", got)
			}
		}
		time.Sleep(time.Nanosecond)
		if got := verdict(keys, text); got != Undecided {
			t.Errorf("after its time: %v", got)
		}
	})
}

func TestLookupAllocations(t *testing.T) {
	text, entry := newKey(t, 1)
	other, _ := newKey(t, 2)
	var keys Keys
	now := time.Now()
	keys.Use(set(entry), now)
	for _, memo := range []*Memo{nil, new(Memo)} {
		for _, presented := range [][]byte{[]byte(text), []byte(other), []byte("nonsense"), nil} {
			if n := testing.AllocsPerRun(100, func() { keys.Lookup(presented, now, memo) }); n != 0 {
				t.Errorf("%.12q: %v allocations", presented, n)
			}
		}
	}
}

// TestAtRest checks that an unchanged set is read at most 9.4 times per minute (deploy/COST.md), and that a
// changed one is in force within eight of the ten seconds that are promised.
func TestAtRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		asked := 0
		var keys Keys
		w := NewWatcher(&keys, Config{Cells: follow.NewCells(counted{mem, &asked})})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { w.Run(ctx); close(done) }()
		var v artifacts.Version
		for i := range 100 {
			time.Sleep(time.Minute)
			text, entry := newKey(t, uint64(i))
			v = must.Get(mem.Swap(ctx, artifacts.KeysKey, v, set(entry).Encode()))(t)
			time.Sleep(8 * time.Second)
			synctest.Wait()
			if _, verdict := keys.Lookup([]byte(text), time.Now(), nil); verdict != Allowed {
				t.Fatalf("key %d is %v after eight seconds: %+v", i, verdict, w.Status())
			}
		}
		if minutes := 100 * 68 / 60; asked < 7*minutes || asked > 95*minutes/10 {
			t.Errorf("in %d minutes the store was asked %d times", minutes, asked)
		}
		cancel()
		<-done
	})
}

// counted counts the reads of the key set.
type counted struct {
	artifacts.Reader
	asked *int
}

func (c counted) GetIf(ctx context.Context, key artifacts.Key, known artifacts.Version, limit int64,
) ([]byte, artifacts.Version, error) {
	if key == artifacts.KeysKey {
		*c.asked++
	}
	return c.Reader.GetIf(ctx, key, known, limit)
}
