package snapshot

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge/floor"
	"example.com/marketdata/edge/follow"
	"example.com/marketdata/edge/query"
	"example.com/marketdata/edge/shards"
	"example.com/marketdata/edge/upstream"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/teststore"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	artifacts.Compress(nil, []byte("x")) // creates the encoder's channel, which must not belong to a synctest bubble
	goleak.VerifyTestMain(m)
}

// store replaces the results of a Reader.
type store struct {
	artifacts.Reader
	mu    sync.Mutex
	spoil func(key artifacts.Key, b []byte, err error) ([]byte, error)
}

func (s *store) set(f func(key artifacts.Key, b []byte, err error) ([]byte, error)) {
	s.mu.Lock()
	s.spoil = f
	s.mu.Unlock()
}

func (s *store) apply(key artifacts.Key, b []byte, v artifacts.Version, err error) ([]byte, artifacts.Version, error) {
	s.mu.Lock()
	f := s.spoil
	s.mu.Unlock()
	if f != nil {
		b, err = f(key, bytes.Clone(b), err)
		if err != nil {
			return nil, "", err
		}
	}
	return b, v, err
}

func (s *store) Get(ctx context.Context, key artifacts.Key, limit int64) ([]byte, artifacts.Version, error) {
	b, v, err := s.Reader.Get(ctx, key, limit)
	return s.apply(key, b, v, err)
}

func (s *store) GetIf(
	ctx context.Context, key artifacts.Key, known artifacts.Version, limit int64,
) ([]byte, artifacts.Version, error) {
	b, v, err := s.Reader.GetIf(ctx, key, known, limit)
	return s.apply(key, b, v, err)
}

var errAway = errors.New("no route to host")

func away(artifacts.Key, []byte, error) ([]byte, error) { return nil, errAway }

type rig struct {
	*Refresher
	mem   *memstore.Store
	store *store
	cache *shards.Cache
	dir   string
	halt  func()
}

// start runs a refresher over mem until halt is called or the test ends.
func start(tb testing.TB, mem *memstore.Store, dir string, change func(*Config, *store)) *rig {
	tb.Helper()
	s := &store{Reader: mem}
	cache, err := shards.New(shards.Config{Store: s, Memory: 1 << 20, Dir: dir, Pause: time.Nanosecond})
	must.OK(tb, err)
	cfg := Config{Store: s, Cache: cache, Dir: dir, Poll: 2 * time.Millisecond, MaxBackoff: 5 * time.Millisecond}
	if change != nil {
		change(&cfg, s)
	}
	r := &rig{NewRefresher(cfg), mem, s, cache, dir, nil}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { r.Run(ctx, nil); close(done) }()
	r.halt = sync.OnceFunc(func() { cancel(); <-done; cache.Close() })
	tb.Cleanup(r.halt)
	return r
}

// until waits for a condition. If it takes too long, until fails the test with the refresher's status.
func (r *rig) until(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			tb.Fatalf("not seen: %s; %+v", what, r.Status())
		}
	}
}

func (r *rig) at(t time.Time) func() bool {
	return func() bool { s := r.State(); return s != nil && s.Snapshot != nil && s.Snapshot.Time.Equal(t) }
}

// newest returns the newest snapshot that is current or waiting.
func (r *rig) newest() *Snapshot {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.timeline.Newest()
}

func (r *rig) fails(text string) func() bool {
	return func() bool { return strings.Contains(r.Status().LastError, text) }
}

// polled waits for n more polls.
func (r *rig) polled(tb testing.TB, n int64) {
	tb.Helper()
	from := r.Counters.Polls.Load()
	r.until(tb, "polls", func() bool { return r.Counters.Polls.Load() >= from+n })
}

func next(p *teststore.Published) time.Time { return p.Manifest.Time.Add(artifacts.Step) }

func TestSwapAndPins(t *testing.T) {
	mem := memstore.New()
	r := start(t, mem, t.TempDir(), nil)
	r.until(t, "an empty store", func() bool { s := r.State(); return s != nil && s.Snapshot == nil })
	first := teststore.Publish(t, mem, teststore.NewFeed(300, 1), teststore.Start)
	r.until(t, "the first snapshot", r.at(teststore.Start))
	second := teststore.Publish(t, mem, teststore.NewFeed(300, 2), next(first))
	r.until(t, "the second snapshot", r.at(next(first)))
	if st := r.Status(); st.State != upstream.Valid || st.LastError != "" {
		t.Errorf("status %+v", st)
	}
	ctx := context.Background()
	for _, p := range []*teststore.Published{first, second} {
		s, err := r.Pinned(ctx, p.Manifest.Time)
		if err != nil || s.Manifest != p.Pointer.Manifest.Digest {
			t.Errorf("pin of %v: %v, %v", p.Manifest.Time, s, err)
		}
	}
	// A new edge reads a retained snapshot's manifest when the snapshot is pinned.
	fresh := start(t, mem, t.TempDir(), nil)
	fresh.until(t, "the second snapshot", fresh.at(next(first)))
	s, err := fresh.Pinned(ctx, teststore.Start)
	if err != nil || s.View(query.Quotes, query.SortID).Rows == 0 {
		t.Fatalf("pin on a fresh edge: %v", err)
	}
	must.Get(s.View(query.Quotes, query.SortID).Shard(0, &Budget{Wait: time.Minute}))(t)
}

func TestRefusals(t *testing.T) {
	mem := memstore.New()
	first := teststore.Publish(t, mem, teststore.NewFeed(300, 1), teststore.Start)
	second := teststore.Publish(t, mem, teststore.NewFeed(300, 2), next(first))
	r := start(t, mem, t.TempDir(), nil)
	r.until(t, "the second snapshot", r.at(next(first)))
	swap := func(p artifacts.Pointer) {
		t.Helper()
		v := must.Get(mem.Swap(context.Background(), artifacts.CurrentKey, second.Version, p.Encode()))(t)
		second.Version = v
	}
	stays := func(why string) {
		t.Helper()
		r.until(t, why, r.fails(why))
		r.polled(t, 3)
		if !r.at(next(first))() {
			t.Fatalf("%s: the snapshot was given up", why)
		}
		if r.Status().State != upstream.Interrupted {
			t.Errorf("%s: state %s", why, r.Status().State)
		}
	}
	same := *second.Pointer
	same.Manifest = first.Pointer.Manifest
	swap(same)
	stays("names another manifest")
	wrongTime := *second.Pointer
	wrongTime.Sequence, wrongTime.Time = 3, wrongTime.Time.Add(artifacts.Step)
	swap(wrongTime)
	stays("names the manifest of")
	if r.Counters.Refused.Load() < 2 {
		t.Errorf("%d refusals counted", r.Counters.Refused.Load())
	}
}

func TestAcceptStore(t *testing.T) {
	mem := memstore.New()
	first := teststore.Publish(t, mem, teststore.NewFeed(50, 1), teststore.Start)
	const id = "ffffffffffffffffffffffffffffffff"
	r := start(t, mem, t.TempDir(), func(c *Config, s *store) {
		c.Cells = follow.NewCells(s)
		c.Cells.Floor = floor.Open("", []string{id}, nil)
	})
	r.until(t, "the first snapshot", r.at(teststore.Start))
	second := teststore.Publish(t, mem, teststore.NewFeed(50, 2), next(first))
	other := *second.Pointer
	other.Store, other.Sequence = id, 1 // each store has its own sequence
	must.Get(mem.Swap(context.Background(), artifacts.CurrentKey, second.Version, other.Encode()))(t)
	r.until(t, "the other store", func() bool { return r.State().Snapshot.Store == id })
}

func TestChangeRecord(t *testing.T) {
	mem := memstore.New()
	teststore.Publish(t, mem, teststore.NewFeed(50, 1), teststore.Start)
	r := start(t, mem, t.TempDir(), nil)
	r.until(t, "the snapshot", r.at(teststore.Start))
	if r.State().Change != nil {
		t.Error("a change out of nothing")
	}
	version := artifacts.Version("")
	for _, c := range []struct{ raw, want string }{
		{string((&artifacts.Change{Format: 1, Time: teststore.Start, Value: "1.5"}).Encode()), "1.5"},
		{"{", ""},
		{string((&artifacts.Change{Format: 1, Time: teststore.Start, Value: "-3"}).Encode()), "-3"},
		{string((&artifacts.Change{Format: 1, Time: teststore.Start, Value: "1e5"}).Encode()), ""},
		{string((&artifacts.Change{Format: 1, Time: teststore.Start, Value: "0"}).Encode()), "0"},
		{strings.Repeat(" ", artifacts.MaxPointerSize+1), ""},
	} {
		version = must.Get(mem.Swap(context.Background(), artifacts.ChangeKey, version, []byte(c.raw)))(t)
		r.until(t, "change "+c.want, func() bool {
			got := r.State().Change
			return got == nil && c.want == "" || got != nil && got.Value == c.want
		})
	}
}

// TestLacking checks that a first snapshot with missing objects is lacking, unless the fetch budget has ended
// and the store is slow but answers.
func TestLacking(t *testing.T) {
	for name, spoil := range map[string]func(b []byte) ([]byte, error){
		"slow":    nil,
		"refused": func([]byte) ([]byte, error) { return nil, errAway },
		"missing": func([]byte) ([]byte, error) { return nil, artifacts.ErrNotFound },
		"damaged": func(b []byte) ([]byte, error) { b[len(b)/2] ^= 1; return b, nil },
	} {
		t.Run(name, func(t *testing.T) {
			mem := memstore.New()
			first := teststore.Publish(t, mem, teststore.NewFeed(300, 1), teststore.Start)
			affected := artifacts.ObjectKey(first.Manifest.View("quotes", "name").Objects[0].Digest)
			release := make(chan struct{})
			var late atomic.Bool
			r := start(t, mem, t.TempDir(), func(c *Config, s *store) {
				c.Now = func() time.Time {
					if late.Load() {
						return time.Now().Add(time.Hour)
					}
					return time.Now()
				}
				s.set(func(key artifacts.Key, b []byte, err error) ([]byte, error) {
					switch {
					case key != affected:
					case spoil == nil:
						<-release
					default:
						return spoil(b)
					}
					return b, err
				})
			})
			r.until(t, "the first snapshot", r.at(teststore.Start))
			if spoil != nil {
				r.until(t, "the end of a round", func() bool {
					lacking := r.Status().Lacking
					return strings.HasPrefix(lacking, "1 of ") &&
						strings.Contains(lacking, " objects of the snapshot are not on this machine: ")
				})
			} else {
				r.until(t, "an object", func() bool { return r.cache.LastFetch().Unix() > 0 })
				if r.Status().Lacking == "" {
					t.Error("within the budget nothing is lacking")
				}
			}
			late.Store(true)
			if lacking := r.Status().Lacking; (lacking == "") != (spoil == nil) {
				t.Errorf("past the budget: %q", lacking)
			}
			close(release)
			r.store.set(nil)
			r.until(t, "all objects", func() bool { s := r.Status(); return s.Missing == 0 && s.Lacking == "" })
		})
	}
}

func TestIncompleteManifestIsRefused(t *testing.T) {
	mem := memstore.New()
	p := teststore.Publish(t, mem, teststore.NewFeed(50, 1), teststore.Start)
	cache, err := shards.New(shards.Config{Store: mem, Memory: 1, Dir: t.TempDir()})
	must.OK(t, err)
	defer cache.Close()
	raw := p.Manifest.Encode()
	markets := 0 // sort orders of /markets in the spoilt snapshot
	spoil := func(change func(*artifacts.Manifest)) error {
		var m artifacts.Manifest
		must.OK(t, json.Unmarshal(raw, &m))
		change(&m)
		s, err := newSnapshot(&m, artifacts.Digest{}, cache, true)
		if err == nil {
			markets = 0
			for _, o := range query.Markets.SortKeys() {
				if s.View(query.Markets, o) != nil {
					markets++
				}
			}
			s.release()
		}
		return err
	}
	must.OK(t, spoil(func(*artifacts.Manifest) {}))
	all := len(query.Markets.SortKeys())
	if err := spoil(func(m *artifacts.Manifest) { m.Unicode = "1.0" }); !errors.Is(err, artifacts.ErrFormat) {
		t.Errorf("other Unicode tables: %v", err)
	}
	for i, v := range p.Manifest.Views {
		err := spoil(func(m *artifacts.Manifest) { m.Views = append(m.Views[:i:i], m.Views[i+1:]...) })
		// Without one of its other views, /markets has all orders but one. Without its view by id or of
		// members, it has none.
		ofCoins := slices.ContainsFunc(coinViewNames[:],
			func(n coinViewName) bool { return n.collection == v.Collection })
		needed := v.Collection != artifacts.MarketsCollection && !ofCoins &&
			slices.Contains([]string{"id", "slug", "symbol", "board"}, v.Sort)
		want := all
		if v.Collection == artifacts.MarketsCollection {
			if want--; v.Sort == "id" || v.IsMembers() {
				want = 0
			}
		} else if v.Collection == "quotes" {
			want--
		}
		if err == nil && markets != want {
			t.Errorf("without view %s/%s: %d orders of /markets, want %d", v.Collection, v.Sort, markets, want)
		}
		if needed != errors.Is(err, artifacts.ErrCorrupt) || !needed && err != nil {
			t.Errorf("without view %s/%s: %v", v.Collection, v.Sort, err)
		}
	}
	err = spoil(func(m *artifacts.Manifest) { m.View("assets", "slug").Columns = nil })
	if !errors.Is(err, artifacts.ErrCorrupt) {
		t.Errorf("without columns: %v", err)
	}
}
