// Package storetest contains the tests that every artifacts.Store must pass, with one subtest for
// each promise in the comments of the interface. Wrappers of stores must pass them, too. Tests that
// need several processes belong to the packages of the stores that support them.
package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/internal/test/must"
	"golang.org/x/sync/errgroup"
)

// patience limits every call, so that a store that hangs fails the test.
const patience = 2 * time.Minute

// TestStore runs the tests. Each call of open must return an empty store and register its cleanup
// with t.Cleanup.
func TestStore(t *testing.T, open func(t *testing.T) artifacts.Store) {
	for _, part := range []struct {
		name string
		run  func(t *testing.T, ctx context.Context, s artifacts.Store)
	}{
		{"absent", absent},
		{"put and get", putGet},
		{"put again", putAgain},
		{"put other bytes", putOther},
		{"put over damage", putOverDamage},
		{"swap", swap},
		{"get if", getIf},
		{"limits", limits},
		{"sync", syncing},
		{"delete", deleting},
		{"list", list},
		{"list pages", listPages},
		{"odd keys", oddKeys},
		{"no key", noKey},
		{"done context", doneContext},
		{"clock", clock},
		{"one swap wins", oneSwapWins},
		{"count together", countTogether},
		{"one put wins", onePutWins},
		{"equal puts", equalPuts},
		{"whole objects", wholeObjects},
		{"self-test", selfTest},
	} {
		t.Run(part.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			part.run(t, ctx, open(t))
		})
	}
}

func absent(t *testing.T, ctx context.Context, s artifacts.Store) {
	for _, key := range []artifacts.Key{k("current"), k("objects/ab/cd")} {
		b, v, err := s.Get(ctx, key, 10)
		wantErr(t, "Get", err, artifacts.ErrNotFound)
		wantNothing(t, "Get", b, v)
		for _, known := range []artifacts.Version{"", "known"} {
			b, v, err = s.GetIf(ctx, key, known, 10)
			wantErr(t, "GetIf", err, artifacts.ErrNotFound)
			wantNothing(t, "GetIf", b, v)
		}
		wantErr(t, "Delete", s.Delete(ctx, key), nil)
	}
	wantKeys(t, ctx, s, "")
	wantKeys(t, ctx, s, "objects/")
}

func putGet(t *testing.T, ctx context.Context, s artifacts.Store) {
	for _, n := range []int{0, 1, 4096, 1<<20 + 7} {
		key, data := k(fmt.Sprintf("objects/ab/%d", n)), pattern(n, n)
		mine := bytes.Clone(data)
		must.OK(t, s.Put(ctx, key, mine))
		scribble(mine) // The caller may reuse the buffer.
		got, v, err := s.Get(ctx, key, int64(n))
		must.OK(t, err)
		wantBytes(t, key.String(), got, data)
		if v == "" {
			t.Errorf("%s: the version of an object is zero", key)
		}
		scribble(got) // The result belongs to the caller, too.
		got, again, err := s.Get(ctx, key, int64(n)+1)
		must.OK(t, err)
		wantBytes(t, key.String()+" once more", got, data)
		if again != v {
			t.Errorf("%s: version went from %q to %q without a write", key, v, again)
		}
	}
}

// putAgain: putting the same bytes again succeeds and renews Modified.
func putAgain(t *testing.T, ctx context.Context, s artifacts.Store) {
	key := k("manifests/ab")
	for _, data := range [][]byte{pattern(1, 100_000), {}} {
		must.OK(t, s.Delete(ctx, key))
		must.OK(t, s.Put(ctx, key, data))
		first := info(t, ctx, s, key)
		waitPast(t, ctx, s, first.Modified)
		must.OK(t, s.Put(ctx, key, data))
		second := info(t, ctx, s, key)
		if !second.Modified.After(first.Modified) {
			t.Errorf("%d bytes put again: Modified stayed %v", len(data), first.Modified)
		}
		if second.Size != int64(len(data)) {
			t.Errorf("%d bytes put again: size is %d", len(data), second.Size)
		}
		wantObject(t, ctx, s, key, data)
	}
}

func putOther(t *testing.T, ctx context.Context, s artifacts.Store) {
	key := k("objects/ab/cd")
	data := pattern(1, 1000)
	must.OK(t, s.Put(ctx, key, data))
	before := info(t, ctx, s, key)
	waitPast(t, ctx, s, before.Modified)
	for name, other := range map[string][]byte{
		"same length": pattern(2, 1000), "shorter": data[:999], "longer": append(bytes.Clone(data), 0), "empty": {},
	} {
		wantErr(t, name, s.Put(ctx, key, other), artifacts.ErrConflict)
		wantObject(t, ctx, s, key, data)
	}
	if after := info(t, ctx, s, key); after != before {
		t.Errorf("refused puts changed the object from %+v to %+v", before, after)
	}
	must.OK(t, s.Put(ctx, k("objects/ab/empty"), nil))
	wantErr(t, "over the empty object", s.Put(ctx, k("objects/ab/empty"), data), artifacts.ErrConflict)
	wantObject(t, ctx, s, k("objects/ab/empty"), nil)
}

// putOverDamage: if an object does not match its key, Put replaces it, but only with the object that
// matches. Here, Swap causes the damage.
func putOverDamage(t *testing.T, ctx context.Context, s artifacts.Store) {
	data := pattern(1, 10_000)
	d := artifacts.Sum(data)
	for _, key := range []artifacts.Key{artifacts.ObjectKey(d), artifacts.ManifestKey(d)} {
		for name, broken := range map[string][]byte{
			"empty": {}, "short": data[:4096], "other": pattern(2, len(data)), "long": append(bytes.Clone(data), 0),
		} {
			must.OK(t, s.Delete(ctx, key))
			_, err := s.Swap(ctx, key, "", broken)
			must.OK(t, err)
			wantErr(t, name+": other bytes", s.Put(ctx, key, []byte("other")), artifacts.ErrConflict)
			wantObject(t, ctx, s, key, broken)
			must.OK(t, s.Put(ctx, key, data))
			wantObject(t, ctx, s, key, data)
			wantErr(t, name+": over the whole object", s.Put(ctx, key, broken), artifacts.ErrConflict)
			wantObject(t, ctx, s, key, data)
		}
	}
	must.OK(t, s.Put(ctx, k("probe/x"), data[:1]))
	wantErr(t, "a key that is no digest", s.Put(ctx, k("probe/x"), data), artifacts.ErrConflict)
}

func swap(t *testing.T, ctx context.Context, s artifacts.Store) {
	key := k("current")
	_, err := s.Swap(ctx, key, "no such version", []byte("x"))
	wantErr(t, "a version of no object", err, artifacts.ErrConflict)
	_, _, err = s.Get(ctx, key, 10)
	wantErr(t, "Get after a refused swap", err, artifacts.ErrNotFound)

	v1, err := s.Swap(ctx, key, "", []byte("one"))
	must.OK(t, err)
	wantVersion(t, ctx, s, key, "one", v1)
	_, err = s.Swap(ctx, key, "", []byte("two"))
	wantErr(t, "a zero version of an object", err, artifacts.ErrConflict)
	_, err = s.Swap(ctx, key, "no such version", []byte("two"))
	wantErr(t, "a version that never was", err, artifacts.ErrConflict)
	wantVersion(t, ctx, s, key, "one", v1)

	v2, err := s.Swap(ctx, key, v1, []byte("two"))
	must.OK(t, err)
	if v2 == v1 || v2 == "" {
		t.Errorf("versions of two contents are %q and %q", v1, v2)
	}
	before := info(t, ctx, s, key)
	_, err = s.Swap(ctx, key, v1, []byte("three"))
	wantErr(t, "an old version", err, artifacts.ErrConflict)
	wantVersion(t, ctx, s, key, "two", v2)
	if after := info(t, ctx, s, key); after != before {
		t.Errorf("a refused swap changed the object from %+v to %+v", before, after)
	}

	// Swaps to the same bytes, to a longer object and to an empty one work like any other.
	v := v2
	for _, data := range []string{"two", strings.Repeat("x", 300_000), "", "one"} {
		v, err = s.Swap(ctx, key, v, []byte(data))
		must.OK(t, err)
		wantVersion(t, ctx, s, key, data, v)
	}
	must.OK(t, s.Delete(ctx, key))
	_, err = s.Swap(ctx, key, v, []byte("four"))
	wantErr(t, "the version of a deleted object", err, artifacts.ErrConflict)
	v, err = s.Swap(ctx, key, "", []byte("four"))
	must.OK(t, err)
	wantVersion(t, ctx, s, key, "four", v)

	// A swap accepts the version of an object that Put wrote.
	must.OK(t, s.Put(ctx, k("change"), []byte("put")))
	_, v, err = s.Get(ctx, k("change"), 10)
	must.OK(t, err)
	v, err = s.Swap(ctx, k("change"), v, []byte("swapped"))
	must.OK(t, err)
	wantVersion(t, ctx, s, k("change"), "swapped", v)
}

func getIf(t *testing.T, ctx context.Context, s artifacts.Store) {
	key := k("keys")
	v1 := must.Get(s.Swap(ctx, key, "", []byte("one")))(t)
	b, v, err := s.GetIf(ctx, key, "", 10)
	must.OK(t, err)
	wantBytes(t, "GetIf with a zero version", b, []byte("one"))
	if v != v1 {
		t.Errorf("GetIf gives version %q, Swap gave %q", v, v1)
	}
	b, v, err = s.GetIf(ctx, key, v1, 10)
	wantErr(t, "GetIf of a known version", err, artifacts.ErrNotModified)
	wantNothing(t, "GetIf of a known version", b, v)
	v2, err := s.Swap(ctx, key, v1, []byte("two"))
	must.OK(t, err)
	for _, known := range []artifacts.Version{v1, "no such version"} {
		b, v, err = s.GetIf(ctx, key, known, 10)
		must.OK(t, err)
		wantBytes(t, "GetIf of another version", b, []byte("two"))
		if v != v2 {
			t.Errorf("GetIf gives version %q, Swap gave %q", v, v2)
		}
	}
	must.OK(t, s.Delete(ctx, key))
	_, _, err = s.GetIf(ctx, key, v2, 10)
	wantErr(t, "GetIf of a deleted object", err, artifacts.ErrNotFound)
}

func limits(t *testing.T, ctx context.Context, s artifacts.Store) {
	for _, n := range []int{0, 1, 70_000} {
		key, data := k(fmt.Sprintf("objects/ab/%d", n)), pattern(n, n)
		must.OK(t, s.Put(ctx, key, data))
		for _, limit := range []int64{0, int64(n) - 1, int64(n), int64(n) + 1, math.MaxInt64} {
			if limit < 0 {
				continue
			}
			for name, get := range map[string]func() ([]byte, artifacts.Version, error){
				"Get": func() ([]byte, artifacts.Version, error) { return s.Get(ctx, key, limit) },
				"GetIf": func() ([]byte, artifacts.Version, error) {
					return s.GetIf(ctx, key, "no such version", limit)
				},
			} {
				name := fmt.Sprintf("%s of %d bytes with limit %d", name, n, limit)
				b, v, err := get()
				if int64(n) > limit {
					wantErr(t, name, err, artifacts.ErrTooLarge)
					wantNothing(t, name, b, v)
					continue
				}
				wantErr(t, name, err, nil)
				wantBytes(t, name, b, data)
			}
		}
	}
}

func syncing(t *testing.T, ctx context.Context, s artifacts.Store) {
	must.OK(t, s.Sync(ctx)) // nothing has been put yet
	want := map[artifacts.Key][]byte{}
	for i := range 50 {
		key := k(fmt.Sprintf("objects/%02x/%d", i%5, i))
		want[key] = pattern(i, 100*i)
		must.OK(t, s.Put(ctx, key, want[key]))
	}
	must.OK(t, s.Sync(ctx))
	must.OK(t, s.Sync(ctx))
	for key, data := range want {
		wantObject(t, ctx, s, key, data)
		must.OK(t, s.Put(ctx, key, data))
	}
	must.OK(t, s.Sync(ctx))
}

func deleting(t *testing.T, ctx context.Context, s artifacts.Store) {
	must.OK(t, s.Put(ctx, k("objects/ab/1"), []byte("one")))
	must.OK(t, s.Put(ctx, k("objects/ab/12"), []byte("two")))
	must.OK(t, s.Delete(ctx, k("objects/ab/1")))
	must.OK(t, s.Delete(ctx, k("objects/ab/1")))
	must.OK(t, s.Delete(ctx, k("objects/ab"))) // not an object, but a prefix of others
	_, _, err := s.Get(ctx, k("objects/ab/1"), 10)
	wantErr(t, "Get after Delete", err, artifacts.ErrNotFound)
	wantKeys(t, ctx, s, "", "objects/ab/12")
	wantObject(t, ctx, s, k("objects/ab/12"), []byte("two"))
	must.OK(t, s.Put(ctx, k("objects/ab/1"), []byte("three"))) // the deleted key can be used again
	wantObject(t, ctx, s, k("objects/ab/1"), []byte("three"))
}

func list(t *testing.T, ctx context.Context, s artifacts.Store) {
	all := []string{
		"change", "current", "manifests/aa", "objects/aa/1", "objects/aa/12", "objects/ab/1", "objects/b", "objectsx"}
	for i, key := range all {
		must.OK(t, s.Put(ctx, k(key), pattern(i, i)))
	}
	for _, prefix := range []string{
		"", "c", "current", "currentx", "objects", "objects/", "objects/a", "objects/aa", "objects/aa/", "objects/aa/1",
		"objects/aa/12/", "x/",
	} {
		var want []string
		for _, key := range all {
			if strings.HasPrefix(key, prefix) {
				want = append(want, key)
			}
		}
		wantKeys(t, ctx, s, prefix, want...)
	}
	for i, key := range all {
		if got := info(t, ctx, s, k(key)); got.Size != int64(i) || got.Modified.IsZero() {
			t.Errorf("List gives %+v, want %d bytes and a time", got, i)
		}
	}
	stop, calls := errors.New("stop"), 0
	err := s.List(ctx, "objects", func(artifacts.Info) error {
		if calls++; calls == 2 {
			return stop
		}
		return nil
	})
	if !errors.Is(err, stop) || calls != 2 {
		t.Errorf("List went on to call %d of a function that fails at 2, and returned %v", calls, err)
	}
}

// listPages checks that List returns more objects than fit into one answer of an S3 server (1,000).
func listPages(t *testing.T, ctx context.Context, s artifacts.Store) {
	const n = 1_050
	want := make([]string, n)
	var g errgroup.Group
	g.SetLimit(8)
	for i := range n {
		want[i] = fmt.Sprintf("objects/%02x/%04d", i%7, i)
		g.Go(func() error { return s.Put(ctx, k(want[i]), []byte(want[i])) })
	}
	must.OK(t, g.Wait())
	must.OK(t, s.Put(ctx, k("other"), nil))
	slices.Sort(want)
	wantKeys(t, ctx, s, "objects/", want...)
}

// legal contains unusual keys that every store must accept.
var legal = []string{
	"a b", " a", "a ", "a+b", "a%20b", "%2e%2e/a", "a?b=c&d", "a#b", "a&b", "a;b,c:d", "(a)", "a'b", `"a"`, "<a>",
	"a=b", "~a", "a~1", "*", "$HOME",
	"{a}|^`[b]!@", "-a", "_", "A", "a..b", "b./c", "c/d.e/f-g/h", "con", "nul.txt", "1",
	strings.Repeat("x", 128),
	strings.Repeat(strings.Repeat("y", 127)+"/", 3) + strings.Repeat("z", 128),
}

func oddKeys(t *testing.T, ctx context.Context, s artifacts.Store) {
	for _, key := range legal {
		must.OK(t, s.Put(ctx, k(key), []byte(key)))
	}
	wantKeys(t, ctx, s, "", legal...)
	for _, name := range legal {
		key := k(name)
		wantObject(t, ctx, s, key, []byte(name))
		wantKeys(t, ctx, s, name, name)
		wantErr(t, name, s.Put(ctx, key, []byte("other")), artifacts.ErrConflict)
		must.OK(t, s.Put(ctx, key, []byte(name)))
		_, v, err := s.Get(ctx, key, 1000)
		must.OK(t, err)
		v, err = s.Swap(ctx, key, v, []byte("swapped"))
		must.OK(t, err)
		wantVersion(t, ctx, s, key, "swapped", v)
		must.OK(t, s.Delete(ctx, key))
	}
	wantKeys(t, ctx, s, "")
}

func noKey(t *testing.T, ctx context.Context, s artifacts.Store) {
	var key artifacts.Key // the zero key; artifacts.ParseKey makes no other invalid key
	refused := func(method string, err error) {
		if err == nil || sentinel(err) != nil {
			t.Errorf("%s of no key gives %v", method, err)
		}
	}
	_, _, err := s.Get(ctx, key, 10)
	refused("Get", err)
	_, _, err = s.GetIf(ctx, key, "v", 10)
	refused("GetIf", err)
	refused("Put", s.Put(ctx, key, []byte("x")))
	_, err = s.Swap(ctx, key, "", []byte("x"))
	refused("Swap", err)
	refused("Delete", s.Delete(ctx, key))
	for _, prefix := range []string{"/", "..", "../", "a//", ".a", `a\`, "ä"} {
		err := s.List(ctx, prefix, func(artifacts.Info) error { return nil })
		if err == nil || sentinel(err) != nil {
			t.Errorf("List of the prefix %q gives %v", prefix, err)
		}
	}
	wantKeys(t, ctx, s, "")
}

// Calls returns a function for each method of s, by the method names that faultstore uses. GetIf
// and Swap use version v.
func Calls(ctx context.Context, s artifacts.Store, v artifacts.Version) map[string]func() error {
	return map[string]func() error{
		"get":   func() error { _, _, err := s.Get(ctx, k("current"), 10); return err },
		"getif": func() error { _, _, err := s.GetIf(ctx, k("current"), v, 10); return err },
		"put":   func() error { return s.Put(ctx, k("objects/ab/cd"), []byte("x")) },
		"sync":  func() error { return s.Sync(ctx) },
		"swap":  func() error { _, err := s.Swap(ctx, k("current"), v, []byte("two")); return err },
		"list": func() error {
			return s.List(ctx, "", func(i artifacts.Info) error { return fmt.Errorf("it goes on to %s", i.Key) })
		},
		"delete":   func() error { return s.Delete(ctx, k("current")) },
		"now":      func() error { _, err := s.Now(ctx); return err },
		"selftest": func() error { return s.SelfTest(ctx) },
	}
}

// doneContext: if the context is done, every method immediately returns the context's error and has
// no effect.
func doneContext(t *testing.T, ctx context.Context, s artifacts.Store) {
	v := must.Get(s.Swap(ctx, k("current"), "", []byte("one")))(t)
	done, cancel := context.WithCancel(ctx)
	cancel()
	for name, call := range Calls(done, s, v) {
		wantErr(t, name, call(), context.Canceled)
	}
	wantKeys(t, ctx, s, "", "current")
	wantVersion(t, ctx, s, k("current"), "one", v)
}

// clock: Now and Modified use the same clock, to within its resolution. (S3 reports whole seconds.)
func clock(t *testing.T, ctx context.Context, s artifacts.Store) {
	const resolution = time.Second
	before, err := s.Now(ctx)
	must.OK(t, err)
	must.OK(t, s.Put(ctx, k("objects/ab/cd"), []byte("x")))
	_, err = s.Swap(ctx, k("current"), "", []byte("x"))
	must.OK(t, err)
	after := must.Get(s.Now(ctx))(t)
	if after.Before(before) {
		t.Errorf("Now went back from %v to %v", before, after)
	}
	for _, key := range []artifacts.Key{k("objects/ab/cd"), k("current")} {
		m := info(t, ctx, s, key).Modified
		if m.Before(before.Add(-resolution)) || m.After(after.Add(resolution)) {
			t.Errorf("%s was written between %v and %v by the store's clock, Modified says %v", key, before, after, m)
		}
	}
	wantKeys(t, ctx, s, "", "current", "objects/ab/cd") // The calls to Now left no objects behind.
}

const workers = 8

// oneSwapWins: of several simultaneous swaps of one version, exactly one succeeds, and the object
// holds the bytes of that swap.
func oneSwapWins(t *testing.T, ctx context.Context, s artifacts.Store) {
	v := artifacts.Version("")
	for round := range 5 {
		var wg sync.WaitGroup
		var versions [workers]artifacts.Version
		var errs [workers]error
		for i := range workers {
			wg.Go(func() { versions[i], errs[i] = s.Swap(ctx, k("current"), v, fmt.Appendf(nil, "%d %d", round, i)) })
		}
		wg.Wait()
		var winners []int
		for i, err := range errs {
			if err == nil {
				winners = append(winners, i)
			} else {
				wantErr(t, "a swap that lost", err, artifacts.ErrConflict)
			}
		}
		if len(winners) != 1 {
			t.Fatalf("round %d: winners are %v, want one", round, winners)
		}
		v = versions[winners[0]]
		wantVersion(t, ctx, s, k("current"), fmt.Sprintf("%d %d", round, winners[0]), v)
	}
}

// countTogether: concurrent swaps that increment a counter lose no increment.
func countTogether(t *testing.T, ctx context.Context, s artifacts.Store) {
	const each = 5
	increment := func() error {
		for {
			n := 0
			b, v, err := s.Get(ctx, k("current"), 100)
			if err == nil {
				_, err = fmt.Sscan(string(b), &n)
			} else if errors.Is(err, artifacts.ErrNotFound) {
				err = nil
			}
			if err != nil {
				return err
			}
			if _, err = s.Swap(ctx, k("current"), v, fmt.Append(nil, n+1)); !errors.Is(err, artifacts.ErrConflict) {
				return err
			}
		}
	}
	var g errgroup.Group
	for range workers / 2 {
		g.Go(func() error {
			for range each {
				if err := increment(); err != nil {
					return err
				}
			}
			return nil
		})
	}
	must.OK(t, g.Wait())
	wantObject(t, ctx, s, k("current"), fmt.Append(nil, workers/2*each))
}

// onePutWins: of several simultaneous puts of different bytes, exactly one succeeds.
func onePutWins(t *testing.T, ctx context.Context, s artifacts.Store) {
	for round := range 3 {
		key := k(fmt.Sprintf("objects/ab/%d", round))
		var wg sync.WaitGroup
		var errs [workers]error
		for i := range workers {
			wg.Go(func() { errs[i] = s.Put(ctx, key, pattern(i, 10_000)) })
		}
		wg.Wait()
		wins := 0
		for i, err := range errs {
			if err == nil {
				wins++
				wantObject(t, ctx, s, key, pattern(i, 10_000))
			} else {
				wantErr(t, "a put that lost", err, artifacts.ErrConflict)
			}
		}
		if wins != 1 {
			t.Errorf("%d puts of different bytes succeeded, want 1", wins)
		}
	}
}

// equalPuts: several simultaneous puts of the same bytes all succeed.
func equalPuts(t *testing.T, ctx context.Context, s artifacts.Store) {
	data := pattern(1, 100_000)
	for round := range 3 {
		key := k(fmt.Sprintf("objects/ab/%d", round))
		var g errgroup.Group
		for range workers {
			g.Go(func() error { return s.Put(ctx, key, data) })
		}
		must.OK(t, g.Wait())
		wantObject(t, ctx, s, key, data)
	}
}

// wholeObjects: during writes, a reader always sees one complete state of an object, never a part
// of one, and never misses an object that existed before.
func wholeObjects(t *testing.T, ctx context.Context, s artifacts.Store) {
	const size, rounds = 200_000, 15
	v, err := s.Swap(ctx, k("current"), "", pattern(0, size))
	must.OK(t, err)
	written := make(chan struct{})
	var g errgroup.Group
	g.Go(func() error {
		defer close(written)
		for i := range rounds {
			if v, err = s.Swap(ctx, k("current"), v, pattern(i, size-i)); err != nil {
				return err
			}
			if err := s.Put(ctx, k(fmt.Sprintf("objects/ab/%d", i)), pattern(i, size)); err != nil {
				return err
			}
		}
		return nil
	})
	for range 2 {
		g.Go(func() error {
			for i := 0; ; i = (i + 1) % rounds {
				select {
				case <-written:
					return nil
				default:
				}
				b, _, err := s.Get(ctx, k("current"), size)
				if err != nil {
					return err
				}
				if k := size - len(b); k >= rounds || !bytes.Equal(b, pattern(k, len(b))) {
					return fmt.Errorf("current: %d bytes that were never written", len(b))
				}
				b, _, err = s.Get(ctx, k(fmt.Sprintf("objects/ab/%d", i)), size)
				if err == nil && !bytes.Equal(b, pattern(i, size)) {
					return fmt.Errorf("object %d: %d bytes that were never written", i, len(b))
				}
				if err != nil && !errors.Is(err, artifacts.ErrNotFound) {
					return err
				}
			}
		})
	}
	must.OK(t, g.Wait())
}

func selfTest(t *testing.T, ctx context.Context, s artifacts.Store) {
	must.OK(t, s.SelfTest(ctx))
	wantKeys(t, ctx, s, "") // it removed what it wrote
}

func k(name string) artifacts.Key { return artifacts.MustKey(name) }

// pattern returns n pseudorandom bytes that depend on seed.
func pattern(seed, n int) []byte {
	b := make([]byte, n)
	x := uint32(seed)*2654435761 + 1
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = byte(x >> 24)
	}
	return b
}

func scribble(b []byte) {
	for i := range b {
		b[i] ^= 0xff
	}
}

// sentinel returns the sentinel error of package artifacts that err matches, or nil if there is none.
func sentinel(err error) error {
	for _, s := range []error{
		artifacts.ErrNotFound, artifacts.ErrConflict, artifacts.ErrNotModified, artifacts.ErrTooLarge} {
		if errors.Is(err, s) {
			return s
		}
	}
	return nil
}

// wantErr checks that err matches want, and no other sentinel error of package artifacts.
func wantErr(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%.60s: error is %v, want %v", what, err, want)
	}
	if s := sentinel(err); s != nil && s != want {
		t.Errorf("%.60s: error %v is %v too", what, err, s)
	}
}

func wantNothing(t *testing.T, what string, b []byte, v artifacts.Version) {
	t.Helper()
	if b != nil || v != "" {
		t.Errorf("%s: %d bytes and version %q come with an error", what, len(b), v)
	}
}

func wantBytes(t *testing.T, what string, got, want []byte) {
	t.Helper()
	if !bytes.Equal(got, want) {
		t.Errorf("%.60s: got %d bytes %.20q, want %d bytes %.20q", what, len(got), got, len(want), want)
	}
}

func wantObject(t *testing.T, ctx context.Context, s artifacts.Store, key artifacts.Key, want []byte) {
	t.Helper()
	got, _, err := s.Get(ctx, key, 1<<24)
	must.OK(t, err)
	wantBytes(t, key.String(), got, want)
}

func wantVersion(
	t *testing.T, ctx context.Context, s artifacts.Store, key artifacts.Key, want string, version artifacts.Version,
) {
	t.Helper()
	got, v, err := s.Get(ctx, key, 1<<24)
	must.OK(t, err)
	wantBytes(t, key.String(), got, []byte(want))
	if v != version {
		t.Errorf("%.60s: version is %q, want %q", key, v, version)
	}
}

func wantKeys(t *testing.T, ctx context.Context, s artifacts.Store, prefix string, want ...string) {
	t.Helper()
	var got []string
	must.OK(t, s.List(ctx, prefix, func(i artifacts.Info) error {
		got = append(got, i.Key.String())
		return nil
	}))
	want = slices.Clone(want)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("List of %.60q gives %d keys %.200q, want %d keys %.200q", prefix, len(got), got, len(want), want)
	}
}

// info returns what List reports about key.
func info(t *testing.T, ctx context.Context, s artifacts.Store, key artifacts.Key) artifacts.Info {
	t.Helper()
	var found *artifacts.Info
	must.OK(t, s.List(ctx, key.String(), func(i artifacts.Info) error {
		if i.Key == key {
			found = &i
		}
		return nil
	}))
	if found == nil {
		t.Fatalf("List does not give %s", key)
	}
	return *found
}

// waitPast returns when the store's clock is past m.
func waitPast(t *testing.T, ctx context.Context, s artifacts.Store, m time.Time) {
	t.Helper()
	for {
		now := must.Get(s.Now(ctx))(t)
		if now.After(m) {
			return
		}
	}
}
