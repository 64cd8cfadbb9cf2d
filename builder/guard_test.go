package builder

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/ledger"
	"example.com/marketdata/builder/market"
	"example.com/marketdata/builder/source"
	"github.com/holiman/uint256"
)

func TestParseShare(t *testing.T) {
	for _, c := range []struct {
		in   string
		want Share
	}{
		{"0", 0}, {"1", 1_000_000}, {"0.05", 50_000}, {"5%", 50_000}, {"100%", 1_000_000}, {"0.1%", 1_000}, {"0%", 0}, {".5", 500_000},
	} {
		got, err := parseShare(c.in)
		if err != nil || got != c.want {
			t.Errorf("ParseShare(%q) = %d, %v; want %d", c.in, got, err, c.want)
		}
		var again Share
		if err := again.UnmarshalText([]byte(got.String())); err != nil || again != got {
			t.Errorf("%d written as %q reads as %d, %v", got, got.String(), again, err)
		}
	}
	for _, in := range []string{"", "%", "5", "-0.1", "1.01", "101%", "half", "1/2", "1e-1", "0x1", "1_0%", "5%%", "0.000000000000000000000001"} {
		if got, err := parseShare(in); err == nil {
			t.Errorf("ParseShare(%q) = %d; want an error", in, got)
		}
	}
}

func TestBadRows(t *testing.T) {
	for _, c := range []struct {
		rows, bad int
		share     Share
		stops     bool
	}{
		{0, 0, 50_000, false},
		{10, 10, 50_000, false}, // not more than ten
		{11, 11, 50_000, true},
		{220, 11, 50_000, false}, // exactly 5 %
		{219, 11, 50_000, true},
		{2000, 100, 50_000, false},
		{2000, 101, 50_000, true},
		{100, 50, shareWhole, false},
		{100, 11, 0, true},
		{1000, 25, 25_000, false},
		{1000, 26, 25_000, true},
	} {
		good := `{"key":"%d","name":"n","slug":"s%[1]d"}` + "\n"
		var file strings.Builder
		for i := range c.rows - c.bad {
			fmt.Fprintf(&file, good, i)
		}
		file.WriteString(strings.Repeat("{}\n", c.bad))
		files := source.FS(fstest.MapFS{
			source.InfoFile: {Data: []byte(`{"format":1,"database":"d","time":"2026-11-21T07:20:00Z"}`)}, source.AssetsFile: {}, source.ChainsFile: {Data: []byte(file.String())},
		})
		_, report, err := source.Read(t.Context(), files, source.ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		err = (&Guards{MaxBadRows: c.share}).checkBadRows(report)
		if errors.Is(err, ErrGuard) != c.stops {
			t.Errorf("%d of %d at %v: %v", c.bad, c.rows, c.share, err)
		}
		if c.stops && !strings.Contains(err.Error(), fmt.Sprintf("chains.ndjson: %d of %d rows", c.bad, c.rows)) {
			t.Errorf("%v", err)
		}
	}
}

func TestShrink(t *testing.T) {
	last := &artifacts.Manifest{Counts: map[string]int{"assets": 100, "quotes": 101, "exchanges": 1, "chains": 0}}
	full := map[string]int{"assets": 100, "quotes": 101, "exchanges": 1, "categories": 7, "chains": 0}
	for _, c := range []struct {
		name       string
		collection string
		now        int
		share      Share
		stops      bool
	}{
		{"nothing lost", "assets", 100, DefaultGuards.MaxShrink, false},
		{"grown", "assets", 1000, DefaultGuards.MaxShrink, false},
		{"exactly half lost", "assets", 50, DefaultGuards.MaxShrink, false},
		{"more than half lost", "assets", 49, DefaultGuards.MaxShrink, true},
		{"odd count, less than half", "quotes", 51, DefaultGuards.MaxShrink, false},
		{"odd count, more than half", "quotes", 50, DefaultGuards.MaxShrink, true},
		{"the only row lost", "exchanges", 0, DefaultGuards.MaxShrink, true},
		{"a limit of none", "assets", 99, 0, true},
		{"a limit of all", "assets", 0, shareWhole, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			now := map[string]int{}
			for k, v := range full {
				now[k] = v
			}
			now[c.collection] = c.now
			g := Guards{MaxShrink: c.share}
			if err := g.checkShrink(last, now); errors.Is(err, ErrGuard) != c.stops || (err != nil) != c.stops {
				t.Errorf("checkShrink: %v; want it to stop: %v", err, c.stops)
			}
		})
	}
}

// wholePrice returns a price of n whole units.
func wholePrice(t *testing.T, n int) market.U128 {
	t.Helper()
	u, err := market.ParseDecimal([]byte(fmt.Sprint(n)), market.PriceDecimals, market.PriceIntDigits)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestMove(t *testing.T) {
	const absent = -1
	at := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name  string
		was   []int
		now   []int // absent: no quote
		age   time.Duration
		stops bool
	}{
		{"nothing moved", []int{100, 100, 100, 100, 100}, []int{100, 100, 100, 100, 100}, time.Hour, false},
		{"one of five moved", []int{100, 100, 100, 100, 100}, []int{500, 100, 100, 100, 100}, time.Hour, false},
		{"two of five moved", []int{100, 100, 100, 100, 100}, []int{500, 20, 100, 100, 100}, time.Hour, true},
		{"just short of the factor", []int{100, 100, 100, 100, 100}, []int{499, 21, 21, 499, 499}, time.Hour, false},
		{"prices lost", []int{100, 100, 100, 100, 100}, []int{absent, absent, 100, 100, 100}, time.Hour, true},
		{"to zero", []int{100, 100}, []int{0, 100}, time.Hour, true},
		{"from zero", []int{0, 100}, []int{1, 100}, time.Hour, true},
		{"zero and still zero", []int{0, 0}, []int{0, 0}, time.Hour, false},
		{"just less than a day", []int{100}, []int{1}, 24*time.Hour - artifacts.Step, true},
		{"a day", []int{100}, []int{1}, 24 * time.Hour, false},
		{"nothing known", nil, nil, time.Hour, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &market.Feed{}
			var top []ledger.TopPrice
			for i := range c.was {
				id := uint64(i + 1)
				p := wholePrice(t, c.was[i])
				top = append(top, ledger.TopPrice{ID: id, Price: (&uint256.Int{p.Lo, p.Hi}).Dec()})
				f.Assets = append(f.Assets, market.Asset{ID: id})
				if c.now[i] != absent {
					f.Quotes = append(f.Quotes, market.Quote{Asset: i, Price: wholePrice(t, c.now[i])})
				}
			}
			err := DefaultGuards.checkMove(at.Add(-c.age), at, top, f)
			if errors.Is(err, ErrGuard) != c.stops || (err != nil) != c.stops {
				t.Errorf("checkMove: %v; want it to stop: %v", err, c.stops)
			}
		})
	}
}
