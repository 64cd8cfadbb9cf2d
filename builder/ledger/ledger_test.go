package ledger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/market"
	"example.com/marketdata/internal/test/must"
)

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// marketFeed is a feed with assets, exchanges and groups.
func marketFeed(n int, at time.Time) *market.Feed {
	f := &market.Feed{Exchanges: []market.Exchange{{Key: "x"}, {Key: "y", ID: 9}}}
	for i := range n {
		f.Assets = append(f.Assets, market.Asset{Key: fmt.Sprintf("asset-%d", i), Active: true})
		f.Quotes = append(f.Quotes, market.Quote{
			Asset: i, Price: market.U128{Hi: uint64(i % 2), Lo: uint64(at.Unix() + int64(i))},
			MarketCap: market.U128{Lo: uint64(1000 * (i + 1))}, Volume: market.U128{Hi: 1, Lo: uint64(i)},
		})
	}
	for i := range 3 {
		f.Categories = append(f.Categories,
			market.Group{Key: fmt.Sprintf("category-%d", i), Active: true, Members: []int{i, i + 1}, Native: -1})
	}
	f.Chains = []market.Group{{Key: "chain", Active: true, Members: []int{0}, Native: 0}}
	return f
}

func mustLoad(t *testing.T, s *store, ref *artifacts.Ref) *Ledger {
	t.Helper()
	return must.Get(Load(context.Background(), s, ref))(t)
}

func TestRefusesTimes(t *testing.T) {
	ctx := context.Background()
	c := newChain(t)
	c.build(marketFeed(4, epoch), epoch)
	for _, test := range []struct {
		t    time.Time
		want string
	}{
		{epoch.Add(time.Minute), "no multiple of ten minutes"},
		{epoch, "not later than the newest snapshot"},
		{epoch.Add(-time.Hour), "not later than the newest snapshot"},
	} {
		l, f := mustLoad(t, c.s, c.ref), marketFeed(4, epoch)
		ok(t, l.AssignIDs(f))
		if _, err := l.Past(ctx, f, test.t); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("Past at %v: error %v, want %q", test.t, err, test.want)
		}
		if _, err := l.Advance(ctx, f, &market.Result{}, test.t); err == nil ||
			!strings.Contains(err.Error(), test.want) {
			t.Errorf("Advance at %v: error %v, want %q", test.t, err, test.want)
		}
	}
}

// TestBrokenObjects removes each object of a ledger in turn, and then changes it. A build that
// reads the object must fail with an error that says what is wrong, and no build may produce
// different figures.
func TestBrokenObjects(t *testing.T) {
	c := newChain(t)
	source := &flicker{random: rand.New(rand.NewPCG(9, 10))}
	for i := range 60 {
		now := epoch.Add(time.Duration(i) * 9 * time.Hour)
		c.build(feedOf(source.prices()), now)
	}
	now := epoch.Add(60 * 9 * time.Hour).Truncate(day)
	for range 30 {
		now = now.Add(time.Hour)
		c.build(feedOf(source.prices()), now)
	}
	now = now.Add(time.Hour)
	c.build(marketFeed(4, now), now)
	now = now.Add(day).Truncate(day)

	build := func(s *store) (*market.Past, error) {
		ctx := context.Background()
		l, err := Load(ctx, s, c.ref)
		if err != nil {
			return nil, err
		}
		f := marketFeed(10, now)
		if err := l.AssignIDs(f); err != nil {
			return nil, err
		}
		past, err := l.Past(ctx, f, now)
		if err != nil {
			return nil, err
		}
		_, err = l.Advance(ctx, f, market.Compute(f, now, past,
			&market.Settings{HistoryAssets: market.DefaultHistoryAssets}), now)
		return past, err
	}
	whole := newStore()
	maps.Copy(whole.objects, c.s.objects)
	must.Get(build(whole))(t)
	read := 0
	for _, ref := range append(c.root.Refs(), *c.ref) {
		key := artifacts.ObjectKey(ref.Digest)
		if whole.reads[key] == 0 {
			continue
		}
		read++
		for _, change := range []struct {
			name string
			with func(b []byte) []byte
			want error
		}{
			{"longer", func(b []byte) []byte { return append(slices.Clone(b), 0) }, artifacts.ErrTooLarge},
			{"shorter", func(b []byte) []byte { return b[1:] }, artifacts.ErrCorrupt},
			{"changed", func(b []byte) []byte { b = slices.Clone(b); b[len(b)/2] ^= 1; return b },
				artifacts.ErrCorrupt},
			{"away", func([]byte) []byte { return nil }, artifacts.ErrNotFound},
		} {
			s := newStore()
			maps.Copy(s.objects, c.s.objects)
			if s.objects[key] = change.with(s.objects[key]); s.objects[key] == nil {
				delete(s.objects, key)
			}
			if _, err := build(s); !errors.Is(err, change.want) || !strings.Contains(err.Error(), key.String()) {
				t.Errorf("object %s, %s: error %v, want %v", key, change.name, err, change.want)
			}
		}
	}
	if read < 15 {
		t.Errorf("a build reads %d objects; the test wants one with more of a past", read)
	}
}

// TestReturnsFillSegments lets so many assets come back that the logs of returns fill several
// segments, and continues until segments are dropped.
func TestReturnsFillSegments(t *testing.T) {
	const assets = 60_000
	m, c := &model{}, newChain(t)
	now := epoch.Truncate(day)
	for i := range 9 {
		// Assets with even and with odd numbers have prices in turn.
		prices := make(map[string]market.U128, assets/2)
		for a := i % 2; a < assets; a += 2 {
			prices[fmt.Sprintf("%d", a)] = market.U128{Hi: 1 << 55, Lo: uint64(i*assets + a)}
		}
		f := feedOf(prices)
		c.build(f, now)
		if i == 5 || i == 8 {
			m.compare(t, c, f, now)
		}
		m.add(now, prices)
		now = now.Add(artifacts.Step)
		if i == 4 {
			now = now.Add(day)
		}
	}
	checkReturns := func(zone int, want int) {
		t.Helper()
		segments := c.root.Returns[zone].Segments
		if len(segments) != want {
			t.Errorf("zone %d has %d segments of returns, want %d", zone, len(segments), want)
		}
		for i, s := range segments {
			if full := s.Size >= segmentBytes; !full && i < len(segments)-1 || s.Size > 3*segmentBytes {
				t.Errorf("segment %d of %d has %d bytes", i, len(segments), s.Size)
			}
		}
	}
	checkReturns(recent, 4) // 8 snapshots, half a million bytes each
	checkReturns(hourly, 1)
	checkReturns(daily, 1)

	for _, step := range []struct {
		to                    time.Duration // after the first snapshot
		recent, hourly, daily int
	}{
		{40 * time.Hour, 4, 1, 1},
		{49 * time.Hour, 2, 1, 1}, // the returns of the first day are dropped
		{80 * time.Hour, 0, 1, 1},
		{90 * day, 0, 1, 1},
		{92 * day, 0, 0, 1},
		{368 * day, 0, 0, 0},
	} {
		now = epoch.Truncate(day).Add(step.to)
		c.build(feedOf(nil), now)
		checkReturns(recent, step.recent)
		checkReturns(hourly, step.hourly)
		checkReturns(daily, step.daily)
	}
}

func FuzzGroups(f *testing.F) {
	f.Add([]byte(`[{"id":1,"time":"2026-01-01T00:00:00Z","market_cap":"5","volume":"0","coins":1,"share":7,"top_gainers":[3]}]`))
	f.Add([]byte(`[{"id":1,"time":"2026-01-01T00:00:00Z","market_cap":"-5","volume":"x"}]`))
	f.Add([]byte(`[{"id":9007199254740991,"time":"2026-01-01T00:10:00Z","market_cap":"` + strings.Repeat("9", 77) +
		`","volume":"340282366920938463463374607431768211456","coins":1000000,"share":1000000000000,"top_gainers":[3,1,2]}]`))
	f.Add([]byte(`null`))
	same := func(a, b market.GroupMarket) bool {
		return a.Time.Equal(b.Time) && a.MarketCap == b.MarketCap && a.Volume == b.Volume &&
			a.Coins == b.Coins && a.Share == b.Share && slices.Equal(a.TopGainers, b.TopGainers)
	}
	f.Fuzz(func(t *testing.T, plain []byte) {
		if _, err := parseGroups(plain); err == nil {
			t.Fatalf("%q reads as groups without being compressed", plain)
		}
		groups, err := parseGroups(artifacts.Compress(nil, plain))
		if err != nil {
			if !errors.Is(err, artifacts.ErrCorrupt) {
				t.Fatalf("error %v, want ErrCorrupt", err)
			}
			return
		}
		var put objects
		if _, ok := putGroups(groups, &put); !ok {
			return
		}
		again, err := parseGroups(put[0])
		if err != nil || !maps.EqualFunc(groups, again, same) {
			t.Fatalf("%q reads as %v, again as %v (%v)", plain, groups, again, err)
		}
	})
}

// FuzzRoot loads any JSON as a root and builds from it. This may succeed or fail, but uses bounded
// memory.
func FuzzRoot(f *testing.F) {
	c := newChain(f)
	for i := range 3 {
		now := epoch.Add(time.Duration(i) * artifacts.Step)
		c.build(marketFeed(4+i, now), now)
	}
	plain := must.Get(artifacts.DecompressBounded(c.s.objects[artifacts.ObjectKey(c.ref.Digest)], 1<<20))(f)
	f.Add(plain)
	f.Add([]byte(`{"format":1}`))
	f.Add([]byte(`{"format":1,"ids":{"assets":{"count":1000000000000,"segments":[{"size":-1}]}}}`))
	f.Add([]byte(`{"format":2}`))
	f.Fuzz(func(t *testing.T, plain []byte) {
		if len(plain) == 0 {
			return
		}
		ctx := context.Background()
		s := newStore()
		maps.Copy(s.objects, c.s.objects)
		stored := artifacts.Compress(nil, plain)
		root, err := parseRoot(stored)
		if err != nil {
			if errors.Is(err, artifacts.ErrFormat) == errors.Is(err, artifacts.ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		if again, err := parseRoot(root.Encode()); err != nil || !reflect.DeepEqual(root.Refs(), again.Refs()) {
			t.Fatalf("%+v is read back as %+v, %v", root, again, err)
		}
		ref := s.put(stored)
		l, err := Load(ctx, s, &ref)
		if err != nil {
			return
		}
		now := epoch.Add(day)
		feed := marketFeed(4, now)
		if l.AssignIDs(feed) != nil {
			return
		}
		past, err := l.Past(ctx, feed, now)
		if err != nil {
			return
		}
		next, err := l.Advance(ctx, feed,
			market.Compute(feed, now, past, &market.Settings{HistoryAssets: market.DefaultHistoryAssets}), now)
		if err != nil {
			return
		}
		if _, err := parseRoot(next.Root); err != nil {
			t.Fatalf("the root after it: %v", err)
		}
	})
}

var ok = must.OK
