package builder

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/retry"
	"example.com/marketdata/artifacts/signed"
	"example.com/marketdata/builder/ledger"
	"example.com/marketdata/builder/source"
	"example.com/marketdata/internal/test/buildtest"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
)

func TestLimits(t *testing.T) {
	for _, c := range []struct {
		in          string
		share, move int64 // -1 if the input is refused
	}{
		{"0", 0, 0}, {"1", whole, whole}, {"0.05", 50_000, 50_000}, {"5%", 50_000, 50_000}, {"100%", whole, whole},
		{"0.1%", 1_000, 1_000}, {"0%", 0, 0}, {".5", 500_000, 500_000}, {"5", -1, 5 * whole}, {"1.01", -1, 1_010_000},
		{"101%", -1, 1_010_000}, {"900%", -1, 9 * whole}, {"1000000%", -1, maxMove}, {"10000", -1, maxMove},
		{"1000000.1%", -1, -1}, {"", -1, -1}, {"%", -1, -1}, {"-0.1", -1, -1}, {"half", -1, -1}, {"1/2", -1, -1},
		{"1e-1", -1, -1}, {"0x1", -1, -1}, {"1_0%", -1, -1}, {"5%%", -1, -1},
		{"0.000000000000000000000001", -1, -1},
	} {
		var s Share
		if err := s.UnmarshalText([]byte(c.in)); (err != nil) != (c.share < 0) || err == nil && int64(s) != c.share {
			t.Errorf("share %q is %d, %v; want %d", c.in, s, err, c.share)
		}
		var m, again Move
		if err := m.UnmarshalText([]byte(c.in)); (err != nil) != (c.move < 0) || err == nil && int64(m) != c.move {
			t.Errorf("move %q is %d, %v; want %d", c.in, m, err, c.move)
		}
		if err := again.UnmarshalText([]byte(m.String())); c.move >= 0 && (err != nil || again != m) {
			t.Errorf("%d written as %v reads as %d, %v", m, m, again, err)
		}
	}
}

// TestDefaultGuards checks that the defaults of the flags equal DefaultGuards.
func TestDefaultGuards(t *testing.T) {
	of := reflect.ValueOf(DefaultGuards)
	for i := range of.NumField() {
		field := of.Type().Field(i)
		if want, value := field.Tag.Get("default"), fmt.Sprint(of.Field(i)); want != value && want+"0m0s" != value &&
			field.Name != "Force" && field.Name != "Allow" {
			t.Errorf("%s is %s, the flag's default %s", field.Name, value, want)
		}
	}
}

// none stands for a missing figure of a coin.
const none = -1

// coin is an asset with its quote. Figures are in millionths of a dollar. A coin without a price
// has no quote.
type coin struct {
	key, name, symbol, slug string
	price, marketCap        int64
	volume                  int64
}

// state is a feed that test cases modify. It is also the Source of that feed. The keys, and
// therefore the ids, ascend from the smallest coin to the largest.
type state struct {
	coins      []coin // the largest first
	categories int
	broken     int // number of additional invalid rows in assets.ndjson
	at         time.Time
	// newest is the time of the quotes, as the provider states it. If it is zero, the source is not
	// live.
	newest time.Time
}

func newState(coins int) *state {
	s := &state{categories: 20, at: epoch}
	for i := range coins {
		s.coins = append(s.coins, coin{
			fmt.Sprintf("c%04d", 9999-i), fmt.Sprintf("Coin %d", i), fmt.Sprintf("C%d", i), fmt.Sprintf("coin-%d", i),
			1_000_000 << (i % 20), int64(coins-i) * 1_000_000_000_000, int64(coins-i) * 1_000_000_000,
		})
	}
	return s
}

// each calls f for a range of coins. The positions from and to are inclusive and start at 1.
func (s *state) each(from, to int, f func(*coin)) {
	for i := from - 1; i < to; i++ {
		f(&s.coins[i])
	}
}

// times multiplies a figure of all coins by n/d.
func (s *state) times(of func(*coin) *int64, n, d int64) {
	s.each(1, len(s.coins), func(c *coin) { *of(c) = *of(c) * n / d })
}

func price(c *coin) *int64     { return &c.price }
func marketCap(c *coin) *int64 { return &c.marketCap }
func volume(c *coin) *int64    { return &c.volume }

func (s *state) Files(context.Context, time.Time) (source.Files, error) {
	var assets, quotes, categories strings.Builder
	for _, c := range s.coins {
		fmt.Fprintf(&assets, `{"key":%q,"name":%q,"symbol":%q,"slug":%q}`+"\n", c.key, c.name, c.symbol, c.slug)
		if c.price == none {
			continue
		}
		fmt.Fprintf(&quotes, `{"key":%q,"price":"%de-6"`, c.key, c.price)
		if c.marketCap != none {
			fmt.Fprintf(&quotes, `,"market_cap":"%de-6"`, c.marketCap)
		}
		if c.volume != none {
			fmt.Fprintf(&quotes, `,"volume":"%de-6"`, c.volume)
		}
		quotes.WriteString("}\n")
	}
	assets.WriteString(strings.Repeat("{}\n", s.broken))
	for i := range s.categories {
		fmt.Fprintf(&categories, `{"key":"g%d","name":"G","slug":"g%[1]d","members":["c9999"]}`+"\n", i)
	}
	return stateFiles{source.FS(buildtest.Files(s.at, map[string][]byte{
		source.AssetsFile: []byte(assets.String()), source.QuotesFile: []byte(quotes.String()),
		source.CategoriesFile: []byte(categories.String()),
	})), s}, nil
}
func (s *state) String() string { return "test state" }

type stateFiles struct {
	files source.Files
	s     *state
}

func (f stateFiles) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	return f.files.Open(ctx, name)
}

func (f stateFiles) Parts() []source.Part {
	if f.s.newest.IsZero() {
		return nil
	}
	return []source.Part{{Name: "exchanges", Newest: f.s.at}, {Name: "tickers", Quotes: true, Newest: f.s.newest},
		{Name: "coins", Quotes: true}}
}

// flags holds, for each rule, the flag that its error must name.
var flags = map[string]string{
	"bad rows": "--max-bad-rows", "shrink": "--max-shrink", "empty": "--force", "moves": "--max-move",
	"median": "--max-median-move", "caps": "--max-cap-move", "volumes": "--max-volume-move",
	"caps lost": "--max-cap-loss", "renamed": "--max-rename", "stale": "--max-data-age",
}

// The following functions return changes to a state, which affect all coins or a range of
// positions.
func scale(of func(*coin) *int64, n, d int64) func(*state) {
	return func(s *state) { s.times(of, n, d) }
}

func to(of func(*coin) *int64, from, to int, value int64) func(*state) {
	return rename(from, to, func(c *coin) { *of(c) = value })
}

func by(of func(*coin) *int64, from, to int, n, d, plus int64) func(*state) {
	return rename(from, to, func(c *coin) { *of(c) = *of(c)*n/d + plus })
}

func set(of func(*coin) *int64, value int64) func(*state) {
	return func(s *state) { s.each(1, len(s.coins), func(c *coin) { *of(c) = value }) }
}

func rename(from, to int, f func(*coin)) func(*state) { return func(s *state) { s.each(from, to, f) } }

func age(d time.Duration) func(*state) { return func(s *state) { s.newest = s.at.Add(-d) } }

func later(d time.Duration) func(*state) {
	return func(s *state) { s.at = s.at.Add(d - artifacts.Step) }
}

func both(fs ...func(*state)) func(*state) {
	return func(s *state) {
		for _, f := range fs {
			f(s)
		}
	}
}

const day = 24 * time.Hour

// TestGuards builds scenarios that providers may cause, and checks which rules stop the build. By
// default the previous snapshot has 400 coins and is ten minutes older.
func TestGuards(t *testing.T) {
	forced := map[string]bool{} // the sets of stops that a case has already overridden

	for _, c := range []struct {
		name   string
		change func(s *state)
		stops  string         // the rules, in the order of the checks; "" if the snapshot is published
		says   string         // part of the error
		coins  int            // 0 means 400
		last   func(s *state) // changes the previous snapshot
		first  bool           // whether there is no previous snapshot
	}{
		{name: "the same a little later", change: func(*state) {}},
		{name: "prices × 1000", change: scale(price, 1000, 1), stops: "moves, median",
			says: "moves: of the 100 largest assets, 100 moved by more than a factor of 5 or lost their price; more than 20%," +
				" or one of the 10 largest; such as asset 400 (coin-0) from 1 to 1000, asset 399 (coin-1) from 2 to 2000, asset" +
				" 398 (coin-2) from 4 to 4000 (--max-move; "},
		{name: "prices ÷ 1000", change: scale(price, 1, 1000), stops: "moves, median",
			says: "the median of the prices of 400 assets moved by 1/1000.00; more than 100%; such as asset 400 (coin-0) from" +
				" 1 to 0.001, "},
		{name: "prices 0", change: scale(price, 0, 1), stops: "moves"},
		{name: "prices × 3", change: scale(price, 3, 1), stops: "median"},
		{name: "prices one decimal place off, up", change: scale(price, 10, 1), stops: "moves, median"},
		{name: "prices one decimal place off, down", change: scale(price, 1, 10), stops: "moves, median"},
		{name: "prices shuffled", stops: "moves", change: func(s *state) {
			rand.New(rand.NewPCG(1, 2)).Shuffle(len(s.coins),
				func(i, j int) { s.coins[i].price, s.coins[j].price = s.coins[j].price, s.coins[i].price })
		}},
		{name: "the largest × 1000", change: by(price, 1, 1, 1000, 1, 0), stops: "moves"},
		{name: "the tenth × 1000", change: by(price, 10, 10, 1000, 1, 0), stops: "moves"},
		{name: "the eleventh × 1000", change: by(price, 11, 11, 1000, 1, 0)},
		{name: "caps null", change: set(marketCap, none), stops: "caps, caps lost",
			says: "caps lost: of 400 assets with a market cap, 400 have none now; more than 20%; such as asset 1 (coin-399)," +
				" asset 2 (coin-398), asset 3 (coin-397) (--max-cap-loss; "},
		{name: "caps 0", change: scale(marketCap, 0, 1), stops: "caps, caps lost"},
		{name: "caps × 1000", change: scale(marketCap, 1000, 1), stops: "caps",
			says: "the sum of caps of 400 assets went from 80200000000 to 80200000000000, by ×1000.00; more than 100%; such" +
				" as asset 400 (coin-0) from 400000000 to 400000000000, asset 399"},
		{name: "caps ÷ 1000", change: scale(marketCap, 1, 1000), stops: "caps"},
		{name: "volumes null, or their field renamed", change: set(volume, none), stops: "volumes",
			says: "by ×0; more than 900%"},
		{name: "volumes 0", change: scale(volume, 0, 1), stops: "volumes"},
		{name: "volumes × 1000", change: scale(volume, 1000, 1), stops: "volumes"},
		{name: "caps and volumes gone", change: both(set(marketCap, none), set(volume, none)),
			stops: "caps, volumes, caps lost"},
		{name: "names all TEST", change: rename(1, 400, func(c *coin) { c.name = "TEST" }), stops: "renamed",
			says: `of 400 assets, 400 changed name, symbol or slug; more than 20%; such as asset 1: "Coin 399", "C399",` +
				` "coin-399" is now "TEST", "C399", "coin-399", asset 2: `},
		{name: "symbols all TEST", change: rename(1, 400, func(c *coin) { c.symbol = "TEST" }), stops: "renamed"},
		{name: "slugs all others", change: rename(1, 400, func(c *coin) { c.slug += "-x" }), stops: "renamed"},
		{name: "more than half of the assets gone", change: func(s *state) { s.coins = s.coins[:199] },
			stops: "shrink, shrink",
			says: "assets went from 400 accepted rows to 199; more than 50% lost; such as 1 (coin-399), 2 (coin-398), 3" +
				" (coin-397) (--max-shrink; "},
		{name: "the larger half of the assets gone", change: func(s *state) { s.coins = s.coins[200:] },
			stops: "moves"},
		{name: "the smaller half of the assets gone", change: func(s *state) { s.coins = s.coins[:200] }},
		{name: "the larger half of the quotes gone", change: to(price, 1, 200, none), stops: "moves, caps, caps lost"},
		{name: "more than half of the quotes gone, the smaller ones", change: to(price, 200, 400, none),
			stops: "shrink, caps lost"},
		{name: "more than half of the categories gone", change: func(s *state) { s.categories = 9 }, stops: "shrink",
			says: "such as 3 (g10), 4 (g11), 5 (g12)"},
		{name: "half of the categories gone", change: func(s *state) { s.categories = 10 }},
		{name: "a frozen provider", change: age(7 * time.Hour), stops: "stale",
			says: "stale: the newest row of tickers is of 2026-08-01T05:00:00Z, 7h0m0s before the snapshot's time; more than" +
				" 6h0m0s"},
		{name: "a provider of 2019", change: both(age(7*365*day), scale(price, 1, 8), scale(marketCap, 1, 10)),
			stops: "stale, moves, median, caps"},
		{name: "a provider of 2019 at first", change: age(7 * 365 * day), first: true, stops: "stale"},
		{name: "no asset", change: func(s *state) { s.coins = nil }, stops: "empty, empty, shrink, shrink, moves"},
		{name: "no asset at first", change: func(s *state) { s.coins = nil }, first: true, stops: "empty, empty"},
		{name: "no quote at first", change: to(price, 1, 400, none), first: true, stops: "empty",
			says: "no row of quotes is accepted"},
		{name: "bad rows at first", change: func(s *state) { s.broken = 22 }, first: true, stops: "bad rows",
			says: "22 of 422 rows set aside, more than 5%; such as assets.ndjson:401: "},

		// The limits of each rule.
		{name: "bad rows: 5 %", change: func(s *state) { s.broken = 11 }, coins: 209},
		{name: "bad rows: more", change: func(s *state) { s.broken = 11 }, coins: 208, stops: "bad rows"},
		{name: "bad rows: ten", change: func(s *state) { s.broken = 10 }, coins: 11},
		{name: "bad rows: eleven", change: func(s *state) { s.broken = 11 }, coins: 11, stops: "bad rows"},
		{name: "shrink: the only one", change: func(s *state) { s.categories = 0 },
			last: func(s *state) { s.categories = 1 }, stops: "shrink"},
		{name: "shrink, a month later", change: both(later(30*day), func(s *state) { s.categories = 9 }),
			stops: "shrink"},
		{name: "moves: × 5", change: by(price, 1, 1, 5, 1, 0)},
		{name: "moves: × 5 and a bit", change: by(price, 1, 1, 5, 1, 1), stops: "moves"},
		{name: "moves: ÷ 5", change: by(price, 1, 1, 1, 5, 0)},
		{name: "moves: ÷ 5 and a bit", change: by(price, 1, 1, 1, 5, -1), stops: "moves"},
		{name: "moves: a fifth", change: to(price, 81, 100, none)},
		{name: "moves: more than a fifth", change: to(price, 80, 100, none), stops: "moves"},
		{name: "moves: a fifth and the 101st", change: by(price, 81, 101, 1, 6, 0)},
		{name: "moves: by cap, whatever volumes and ids", change: to(price, 80, 100, none), stops: "moves",
			last: func(s *state) {
				for i := range s.coins {
					s.coins[i].volume = int64(i+1) * 1_000_000_000
				}
			}},
		{name: "moves: by volume where caps are equal", change: by(price, 80, 100, 6, 1, 0),
			last:  to(marketCap, 1, 400, 7),
			stops: "moves, caps"},
		{name: "moves: by id where both are", change: by(price, 301, 321, 6, 1, 0),
			last: both(to(marketCap, 1, 400, none), to(volume, 1, 400, none)), stops: "moves"},
		{name: "moves: a last price of 0", change: func(*state) {}, last: to(price, 1, 21, 0)},
		{name: "moves: a last price of 0 is no part of the whole", change: to(price, 84, 100, none),
			last: to(price, 11, 26, 0), stops: "moves"},
		{name: "moves: of ten that have a price", change: to(price, 18, 20, none), last: to(price, 1, 10, 0),
			coins: 20},
		{name: "moves: one of ten", change: by(price, 3, 3, 6, 1, 0), coins: 10, stops: "moves"},
		{name: "moves: one of eleven", change: by(price, 11, 11, 6, 1, 0), coins: 11},
		{name: "moves: within a day", change: both(later(day-artifacts.Step), scale(price, 1000, 1)),
			stops: "moves, median"},
		{name: "moves: after a day", change: both(later(day), scale(price, 1000, 1), scale(marketCap, 1000, 1),
			set(volume, none), rename(1, 400, func(c *coin) { c.name = "TEST" }))},
		{name: "median: × 2", change: scale(price, 2, 1)},
		{name: "median: × 2 and a bit", change: by(price, 1, 400, 2, 1, 1), stops: "median"},
		{name: "median: ÷ 2", change: scale(price, 1, 2)},
		{name: "median: ÷ 2 and a bit", change: by(price, 1, 400, 1, 2, -1), stops: "median"},
		{name: "median: half of them × 3", change: by(price, 1, 200, 3, 1, 0)},
		{name: "median: half of them × 3 and a bit", change: by(price, 1, 200, 3, 1, 1), stops: "median"},
		{name: "median: of an odd number", change: by(price, 1, 11, 3, 1, 0), coins: 21, stops: "median"},
		{name: "median: over those priced before and now",
			change: both(by(price, 1, 11, 3, 1, 0), to(price, 20, 24, none)),
			last:   to(price, 21, 25, 0), coins: 25},
		{name: "median: of twenty", change: scale(price, 3, 1), coins: 20, stops: "median"},
		{name: "median: of nineteen", change: scale(price, 3, 1), coins: 19},
		{name: "caps: × 2", change: scale(marketCap, 2, 1)},
		{name: "caps: × 2 and a bit", change: both(scale(marketCap, 2, 1), by(marketCap, 9, 9, 1, 1, 1)),
			stops: "caps"},
		{name: "caps: ÷ 2", change: scale(marketCap, 1, 2)},
		{name: "caps: ÷ 2 and a bit", change: both(scale(marketCap, 1, 2), by(marketCap, 9, 9, 1, 1, -1)),
			stops: "caps"},
		{name: "caps: of twenty", change: scale(marketCap, 3, 1), coins: 20, stops: "caps"},
		{name: "caps: of nineteen", change: scale(marketCap, 3, 1), coins: 19},
		{name: "caps: none before", change: func(*state) {}, last: to(marketCap, 1, 400, none)},
		{name: "caps: of assets that are new",
			change: func(s *state) { s.coins[399].key, s.coins[399].marketCap = "new", 1e18 }},
		{name: "caps: of assets that had no quote", change: by(marketCap, 400, 400, 1e6, 1, 0),
			last: to(price, 400, 400, none), stops: "caps"},
		{name: "volumes: × 10", change: scale(volume, 10, 1)},
		{name: "volumes: × 10 and a bit", change: both(scale(volume, 10, 1), by(volume, 9, 9, 1, 1, 1)),
			stops: "volumes"},
		{name: "volumes: ÷ 10", change: scale(volume, 1, 10)},
		{name: "volumes: ÷ 10 and a bit", change: both(scale(volume, 1, 10), by(volume, 9, 9, 1, 1, -1)),
			stops: "volumes"},
		{name: "volumes: of nineteen", change: scale(volume, 0, 1), coins: 19},
		{name: "volumes: none before", change: func(*state) {}, last: to(volume, 1, 400, none)},
		{name: "caps lost: a fifth", change: to(marketCap, 321, 400, none)},
		{name: "caps lost: more than a fifth", change: to(marketCap, 320, 400, none), stops: "caps lost"},
		{name: "caps lost: with their quotes", change: to(price, 320, 400, none), stops: "caps lost"},
		{name: "caps lost: with their assets", change: func(s *state) { s.coins = s.coins[:319] }},
		{name: "caps lost: of those with a cap", change: to(marketCap, 9, 400, none),
			last:  to(marketCap, 12, 400, none),
			stops: "caps lost"},
		{name: "caps lost: of ten", change: to(marketCap, 8, 400, none), last: to(marketCap, 11, 400, none)},
		{name: "renamed: a fifth", change: rename(321, 400, func(c *coin) { c.name = "TEST" })},
		{name: "renamed: more than a fifth", change: rename(320, 400, func(c *coin) { c.name = "TEST" }),
			stops: "renamed"},
		{name: "renamed: of eleven", change: rename(9, 11, func(c *coin) { c.symbol = "TEST" }), coins: 11,
			stops: "renamed"},
		{name: "renamed: of ten", change: rename(8, 10, func(c *coin) { c.symbol = "TEST" }), coins: 10},
		{name: "renamed: assets without a quote", change: both(rename(11, 400, func(c *coin) { c.slug += "-x" }),
			to(price, 11, 400, none)), last: to(price, 11, 400, none), stops: "renamed"},
		{name: "stale: six hours", change: age(6 * time.Hour)},
		{name: "stale: six hours and a bit", change: age(6*time.Hour + time.Second), stops: "stale"},
		{name: "stale, a month later", change: both(later(30*day), age(7*time.Hour)), stops: "stale"},
	} {
		t.Run(c.name, func(t *testing.T) {
			store, sequence := memstore.New(), uint64(0)
			if c.coins == 0 {
				c.coins = 400
			}
			next := newState(c.coins)
			if !c.first {
				last := newState(c.coins)
				if last.at = epoch.Add(-artifacts.Step); c.last != nil {
					c.last(last)
				}
				sequence = mustBuild(t, store, last).Sequence
			}
			c.change(next)
			r, err := tryBuild(t.Context(), store, next)
			var rules []string
			if errors.Is(err, ErrGuard) {
				for line := range strings.Lines(err.Error()) {
					text := strings.TrimPrefix(strings.TrimSpace(line), ErrGuard.Error()+": ")
					rule, _, _ := strings.Cut(text, ":")
					rules = append(rules, rule)
					want := "(" + flags[rule]
					if rule != "empty" {
						want += "; if it is right, --allow " + strings.ReplaceAll(rule, " ", "-") + " lets it pass"
					}
					if !strings.HasSuffix(text, want+")") {
						t.Errorf("%q does not end with %s", text, want)
					}
				}
			} else if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(rules, ", "); got != c.stops || err != nil &&
				!strings.Contains(err.Error(), c.says) {
				t.Fatalf("stopped by %q, want %q and %q:\n%v", got, c.stops, c.says, err)
			}
			if c.stops == "" {
				return
			}
			if h := head(t, store); r.Published || (h.Pointer != nil) != (sequence > 0) || h.Pointer != nil &&
				h.Pointer.Sequence != sequence {
				t.Errorf("published %v: %+v", r.Published, h.Pointer)
			}
			if forced[c.stops] {
				return
			}
			forced[c.stops] = true
			// An allowed rule stops nothing, while all others still do.
			override := force
			if !slices.Contains(rules, "empty") {
				var names []Rule
				for _, rule := range slices.Compact(slices.Clone(rules)) {
					var name Rule
					ok(t, name.UnmarshalText([]byte(rule)))
					if len(names) > 0 {
						only := func(c *Config) { c.Guards.Allow = names }
						if _, err := tryBuild(t.Context(), store, next, only); !errors.Is(err, ErrGuard) ||
							strings.Contains(err.Error(), ErrGuard.Error()+": "+rules[0]+":") {
							t.Errorf("with %q allowed of %q: %v", names, rules, err)
						}
					}
					names = append(names, name)
				}
				override = func(c *Config) { c.Guards.Allow = names }
			}
			if r := mustBuild(t, store, next, override); len(r.Forced) != len(rules) {
				t.Errorf("forced %q, want %q", r.Forced, rules)
			}
			// The forced snapshot is published, so building it again is not an error.
			if r, err := tryBuild(t.Context(), store, next); err != nil || r.Published {
				t.Errorf("the same again: %v, %v", r.Published, err)
			}
			verify(t, store)
		})
	}
}

// TestLastSnapshot checks that the rows read from a published snapshot equal the rows of its feed.
func TestLastSnapshot(t *testing.T) {
	store := memstore.New()
	s := newState(7000) // views of two objects
	s.each(1, 400, func(c *coin) {
		c.name, c.symbol, c.slug = c.name+"\"\\\t}],:{[🦊\u2028", c.symbol+"\\", c.slug+"<,\"price\":\"1\""
		c.price = 1<<62 - 1
	})
	s.each(300, 350, func(c *coin) { c.price = none })
	s.each(200, 301, func(c *coin) { c.marketCap, c.volume = none, none })
	b := must.Get(New(config(store, s)))(t)
	run := &build{Builder: b, report: newReport()}
	ok(t, run.build(t.Context(), time.Time{}))
	prior := must.Get(ledger.Load(t.Context(), store, ledgerOf(head(t, store))))(t)
	files, _ := s.Files(t.Context(), time.Time{})
	in := must.Get(run.readFeed(t.Context(), files, prior, time.Time{}, b.Progress))(t)
	ok(t, prior.AssignIDs(in.feed))
	for _, c := range collections[:2] {
		var got []lastRow
		ok(t, lastPublished(store, head(t, store).Manifest).rows(t.Context(), c,
			func(rows []lastRow) { got = append(got, rows...) }))
		want := rowsOf(in.feed, c)
		slices.SortFunc(want, func(a, b lastRow) int { return cmp.Compare(a.id, b.id) })
		if !slices.Equal(got, want) {
			t.Errorf("%s: %d rows are not the %d of the feed", c, len(got), len(want))
		}
	}
	for _, broken := range []string{``, `{`, `{"price"`, `{"price":`, `{"price":"x"}`, `{"name":"a`, `{"name":7}`,
		`{"market_cap":[]}`, `{"name":"\`, `}}`, `{"slug":{}}`} {
		if row, err := parseLast([]byte(broken)); err == nil && row != (lastRow{}) {
			t.Errorf("%s: %+v", broken, row)
		}
	}
}

// TestGuardsDamaged checks that a build succeeds although the previous snapshot lacks an object,
// but that the checks that do not need this object still apply. If the store cannot be read, the
// build must fail.
func TestGuardsDamaged(t *testing.T) {
	store := memstore.New()
	last, next := newState(400), newState(400)
	last.at = epoch.Add(-artifacts.Step)
	mustBuild(t, store, last)
	lost := artifacts.ObjectKey(head(t, store).Manifest.View("quotes", "id").Objects[0].Digest)
	next.times(price, 1000, 1)
	away := &unread{store, lost, errors.New("no route to host")}
	if _, err := tryBuild(t.Context(), away, next, force); !errors.Is(err, away.err) {
		t.Errorf("a store that is away: %v", err)
	}
	ok(t, store.Delete(t.Context(), lost))
	few := newState(199)
	if _, err := tryBuild(t.Context(), store, few); !errors.Is(err, ErrGuard) {
		t.Errorf("half of the quotes: %v", err)
	}
	if r := mustBuild(t, store, next); len(r.Forced) != 1 || !strings.Contains(r.Forced[0], lost.String()) {
		t.Errorf("forced %q", r.Forced)
	}
}

// unread is a store in which one object cannot be read.
type unread struct {
	*memstore.Store
	key artifacts.Key
	err error
}

func (s *unread) Get(ctx context.Context, key artifacts.Key, limit int64) ([]byte, artifacts.Version, error) {
	if key == s.key {
		return nil, "", s.err
	}
	return s.Store.Get(ctx, key, limit)
}

// TestGuardsRealMarkets checks that no rule stops a build for the differences between two
// successive recordings of real markets, even if they happen within ten minutes.
func TestGuardsRealMarkets(t *testing.T) {
	const recorded = "../../shared/data"
	if _, err := os.Stat(recorded); err != nil {
		t.Skipf("the recorded data is not beside the project: %v", err)
	}
	thousand, err := filepath.Glob(filepath.Join(recorded, "top1000-2026", "*Z"))
	if err != nil || len(thousand) < 20 {
		t.Fatalf("%v, %v", thousand, err)
	}
	markets := map[string][]source.Files{}
	for _, dir := range thousand {
		markets["top1000-2026"] = append(markets["top1000-2026"], source.FS(os.DirFS(dir)))
	}
	daily, err := filepath.Glob(filepath.Join(recorded, "recorded/coingecko-markets-daily/*.json"))
	if err != nil || len(daily) < 20 {
		t.Fatalf("%v, %v", daily, err)
	}
	for _, name := range daily {
		markets["coingecko-markets-daily"] = append(markets["coingecko-markets-daily"], dailyFeed(t, name))
	}
	for name, feeds := range markets {
		t.Run(name, func(t *testing.T) {
			store := memstore.New()
			for i, files := range feeds {
				b := must.Get(New(config(store, given{Feed: files})))(t)
				if _, err := b.Build(t.Context(), epoch.Add(time.Duration(i)*artifacts.Step)); err != nil {
					t.Errorf("moment %d: %v", i, err)
				}
			}
		})
	}
}

// dailyFeed makes a feed from a recorded response to /coins/markets.
func dailyFeed(t *testing.T, name string) source.Files {
	b := must.Get(os.ReadFile(name))(t)
	var rows []map[string]json.RawMessage
	if err := json.Unmarshal(b, &rows); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return rowsFeed(rows)
}

// rowsFeed makes a feed from rows with the fields of /coins/markets.
func rowsFeed(rows []map[string]json.RawMessage) source.Files {
	var assets, quotes strings.Builder
	for _, r := range rows {
		fmt.Fprintf(&assets, `{"key":%s,"name":%s,"symbol":%s,"slug":%[1]s}`+"\n", r["id"], r["name"], r["symbol"])
		fmt.Fprintf(&quotes, `{"key":%s,"price":%s,"market_cap":%s,"volume":%s}`+"\n", r["id"], r["current_price"],
			r["market_cap"], r["total_volume"])
	}
	return source.FS(fstest.MapFS{
		source.InfoFile:   {Data: []byte(`{"format":1,"database":"d","time":"2026-03-01T00:00:00Z"}`)},
		source.AssetsFile: {Data: []byte(assets.String())}, source.QuotesFile: {Data: []byte(quotes.String())},
	})
}

// skewed is a store whose responses show how far this machine's clock is ahead. Stores that wrap it
// pass this on.
type skewed struct {
	artifacts.Store
	by time.Duration
}

func (s skewed) ClockSkew() (time.Duration, bool) { return s.by, true }

// TestAhead checks that a snapshot in the future is refused, in an empty store and after another
// snapshot, unless the rule is allowed. The cause may be a feed of the next year, a wrong --time or
// a wrong clock.
func TestAhead(t *testing.T) {
	const year = 365 * 24 * time.Hour
	now := epoch.Add(3 * time.Minute)
	for _, c := range []struct {
		name string
		feed time.Duration // the feed's time, relative to epoch
		time time.Duration // --time, relative to epoch; 0 if not given
		skew time.Duration
		stop bool
	}{
		{"a feed of the next year", year, 0, 0, true},
		{"a wrong --time", 0, year, 0, true},
		{"just more than ten minutes", 20 * time.Minute, 0, 0, true},
		{"within ten minutes", 19 * time.Minute, 0, 0, false},
		{"by the store's clock", 10 * time.Minute, 0, time.Hour, true},
		{"this clock is behind", 70 * time.Minute, 0, -time.Hour, false},
		{"the past", -year, -2 * year, 0, false},
	} {
		for _, first := range []bool{true, false} {
			s := memstore.New()
			if !first {
				mustBuild(t, s, world{Assets: 10, At: epoch.Add(-3 * year)})
			}
			build := func(allow ...Rule) (*Report, error) {
				cfg := config(signed.Store(retry.New(skewed{s, c.skew}, retry.Options{Log: discard}), nil, nil),
					world{Assets: 10, At: epoch.Add(c.feed)})
				cfg.Now, cfg.Guards.Allow = func() time.Time { return now }, allow
				var at time.Time
				if c.time != 0 {
					at = epoch.Add(c.time)
				}
				return must.Get(New(cfg))(t).Build(t.Context(), at)
			}
			r, err := build()
			if stop, _ := errors.AsType[*stopError](err); r.Published == c.stop || c.stop &&
				(stop == nil || stop.rule != ruleAhead || !errors.Is(err, ErrGuard)) {
				t.Errorf("%s, first %v: published %v, %v", c.name, first, r.Published, err)
			}
			if c.stop && first && head(t, s).Manifest != nil {
				t.Errorf("%s: something is published", c.name)
			}
			if r, err := build(ruleAhead); err != nil || len(r.Forced) != map[bool]int{true: 1}[c.stop] {
				t.Errorf("%s, allowed: %+v, %v", c.name, r, err)
			}
		}
	}
}
