package sim

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/big"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unicode/utf8"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/source"
)

var at = time.Date(2026, 11, 21, 7, 30, 0, 0, time.UTC)

var allFiles = []string{
	source.InfoFile, source.AssetsFile, source.QuotesFile, source.ExchangesFile, source.CategoriesFile, source.ChainsFile,
}

func filesAt(t testing.TB, assets int, seed uint64, when time.Time) source.Files {
	t.Helper()
	files, err := newMarket(assets, seed, nil).Files(t.Context(), when)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func read(t testing.TB, files source.Files, name string) []byte {
	t.Helper()
	f, err := files.Open(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestOpen(t *testing.T) {
	for _, c := range []struct{ rest, want string }{
		{"", "sim:?assets=2000&seed=1"},
		{"?", "sim:?assets=2000&seed=1"},
		{"?assets=10", "sim:?assets=10&seed=1"},
		{"?seed=0", "sim:?assets=2000&seed=0"},
		{"?seed=18446744073709551615&assets=2000000", "sim:?assets=2000000&seed=18446744073709551615"},
	} {
		src, err := Open(t.Context(), c.rest)
		if err != nil || src.String() != c.want {
			t.Errorf("%q: got %v, %v, want %s", c.rest, src, err, c.want)
		}
	}
	const taken = "; want sim:?assets=N&seed=S, both optional, N from 10 to 2000000, S a whole number from 0"
	for _, c := range []struct{ rest, want string }{
		{"assets=10", `unexpected "assets=10"`},
		{"//host?assets=10", `unexpected "//host?assets=10"`},
		{"?asset=10", `unknown parameter "asset"`},
		{"?Assets=10", `unknown parameter "Assets"`},
		{"?assets=10&assets=10", "assets is given 2 times"},
		{"?assets=9", "assets=9 is out of range or no whole number"},
		{"?assets=2000001", "assets=2000001 is out of range"},
		{"?assets=99999999999999999999", "assets=99999999999999999999 is out of range"},
		{"?assets=1e3", "assets=1e3 is out of range or no whole number"},
		{"?assets=", "assets= is out of range or no whole number"},
		{"?seed=-1", "seed=-1 is out of range or no whole number"},
		{"?seed=18446744073709551616", "seed=18446744073709551616 is out of range"},
		{"?seed=%zz", `query "seed=%zz"`},
	} {
		_, err := Open(t.Context(), c.rest)
		if err == nil || !strings.HasPrefix(err.Error(), c.want) || !strings.HasSuffix(err.Error(), taken) {
			t.Errorf("%q: got %v, want %s…%s", c.rest, err, c.want, taken)
		}
	}
}

func FuzzOpen(f *testing.F) {
	for _, rest := range []string{"", "?", "?assets=10&seed=5", "?seed=+1&assets=%31%30", "?a=1;b", "?assets=10&assets=11"} {
		f.Add(rest)
	}
	f.Fuzz(func(t *testing.T, rest string) {
		src, err := Open(t.Context(), rest)
		if err != nil {
			return
		}
		m := src.(*Market)
		again, err := Open(t.Context(), strings.TrimPrefix(m.String(), "sim:"))
		if err != nil || again.String() != m.String() || m.assets < MinAssets || m.assets > MaxAssets {
			t.Errorf("%q gave %v, and that %v, %v", rest, m, again, err)
		}
	})
}

func TestOpener(t *testing.T) {
	src, err := source.Open(t.Context(), "sim:?assets=30", map[string]source.Opener{"sim": Open})
	if err != nil || src.String() != "sim:?assets=30&seed=1" {
		t.Errorf("got %v, %v", src, err)
	}
}

// TestGolden holds the market still: whoever changes these digests changes
// every simulated market there is.
func TestGolden(t *testing.T) {
	for _, c := range []struct {
		assets int
		seed   uint64
		at     time.Time
		want   string
	}{
		{500, 1, at, "31218c9eca62cf87"},
		{500, 2, at.Add(-400 * 24 * time.Hour), "f293c9384461b9a5"},
		{10, 1 << 63, time.Date(1950, 1, 1, 0, 0, 0, 0, time.UTC), "1219fe193d384321"},
	} {
		sum := sha256.New()
		files := filesAt(t, c.assets, c.seed, c.at)
		for _, name := range allFiles {
			sum.Write(read(t, files, name))
		}
		if got := hex.EncodeToString(sum.Sum(nil)[:8]); got != c.want {
			t.Errorf("%d assets, seed %d, %v: %s, want %s", c.assets, c.seed, c.at, got, c.want)
		}
	}
}

func TestDeterministic(t *testing.T) {
	files := filesAt(t, 3000, 5, at)
	for _, name := range allFiles {
		want := read(t, files, name)
		if again := read(t, files, name); !bytes.Equal(again, want) {
			t.Errorf("%s: opened again, it reads otherwise", name)
		}
		before := runtime.GOMAXPROCS(1)
		if other := read(t, filesAt(t, 3000, 5, at), name); !bytes.Equal(other, want) {
			t.Errorf("%s: another market of the seed reads otherwise on one processor", name)
		}
		runtime.GOMAXPROCS(before)
		f, err := files.Open(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if err := iotest.TestReader(f, want); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if name != source.InfoFile && bytes.Equal(read(t, filesAt(t, 3000, 6, at), name), want) {
			t.Errorf("%s: is the same for another seed", name)
		}
	}
}

func TestTime(t *testing.T) {
	info := func(files source.Files) string { return string(read(t, files, source.InfoFile)) }
	const want = `{"format":1,"database":"sim-10-7","time":"2026-11-21T07:30:00Z"}` + "\n"
	if got := info(filesAt(t, 10, 7, at)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	off := at.Add(9*time.Minute + 59*time.Second).In(time.FixedZone("", 3600))
	if got := info(filesAt(t, 10, 7, off)); got != want {
		t.Errorf("within the ten minutes: got %s, want %s", got, want)
	}
	m := newMarket(10, 7, func() time.Time { return off })
	files, err := m.Files(t.Context(), time.Time{})
	if err != nil || info(files) != want {
		t.Errorf("the present: got %v, %v, want %s", files, err, want)
	}
	for _, edge := range []time.Time{time.Date(1, 1, 1, 0, 10, 0, 0, time.UTC), time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)} {
		files := filesAt(t, 100, 7, edge)
		if rows := decode[assetRow](t, files, source.AssetsFile); len(rows) != 100 {
			t.Errorf("%v: %d assets", edge, len(rows))
		}
		if rows := decode[quoteRow](t, files, source.QuotesFile); len(rows) < 80 {
			t.Errorf("%v: %d quotes", edge, len(rows))
		}
	}
	for _, edge := range []time.Time{time.Date(0, 12, 31, 0, 0, 0, 0, time.UTC), time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)} {
		if _, err := m.Files(t.Context(), edge); err == nil || !strings.Contains(err.Error(), "want 1 to 9999") {
			t.Errorf("%v: got %v", edge, err)
		}
	}
}

func TestFiles(t *testing.T) {
	files := filesAt(t, 1000, 1, at)
	for _, name := range []string{"", "quotes", "quotes.NDJSON", "../feed.json"} {
		if _, err := files.Open(t.Context(), name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q: got %v, want fs.ErrNotExist", name, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	f, err := files.Open(ctx, source.AssetsFile)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	cancel()
	if n, err := io.Copy(io.Discard, f); !errors.Is(err, context.Canceled) || n > chunk+maxRow {
		t.Errorf("canceled: read %d bytes more, %v", n, err)
	}
	f, err = files.Open(t.Context(), source.AssetsFile)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Read(make([]byte, 1)); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("closed: got %v, want fs.ErrClosed", err)
	}
}

// maxRow is more than a row of an asset takes.
const maxRow = 4 << 10

// What follows reads the files with encoding/json, apart from package source.

type assetRow struct {
	Key, Name, Symbol, Slug   string
	Logo, Website, Whitepaper string
	Explorers                 []string
	Active                    *bool
}

type number struct{ *big.Rat }

var jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)

func (n *number) UnmarshalJSON(b []byte) error {
	s := strings.Trim(string(b), `"`)
	r, ok := new(big.Rat).SetString(s)
	if !ok || !jsonNumber.MatchString(s) {
		return fmt.Errorf("%s is no decimal", b)
	}
	n.Rat = r
	return nil
}

func (n *number) float() float64 {
	f, _ := n.Rat.Float64()
	return f
}

type quoteRow struct {
	Key       string
	Price     *number
	MarketCap *number `json:"market_cap"`
	Volume    *number
}

type exchangeRow struct {
	Key, Name, Slug, Logo string
	Links                 map[string]string
	Fees                  *struct{ Maker, Taker *number }
	Market                *struct {
		Volume   *number `json:"volume_24h"`
		Markets  *uint64 `json:"markets_count"`
		Coins    *uint64 `json:"coins_count"`
		DataTime *string `json:"data_time"`
	}
}

type groupRow struct {
	Key, Name, Slug, Status string
	Members                 []string
	DisplayName             string  `json:"display_name"`
	EVMChainID              *uint64 `json:"evm_chain_id"`
	Native                  *string
}

func decode[T any](t testing.TB, files source.Files, name string) []T {
	t.Helper()
	var rows []T
	for line := range bytes.Lines(read(t, files, name)) {
		if len(line) > source.MaxLine || !utf8.Valid(line) || line[len(line)-1] != '\n' {
			t.Fatalf("%s: a line of %d bytes, or not UTF-8, or without its end", name, len(line))
		}
		var row T
		d := json.NewDecoder(bytes.NewReader(line))
		d.DisallowUnknownFields()
		if err := d.Decode(&row); err != nil {
			t.Fatalf("%s: %s: %v", name, line, err)
		}
		rows = append(rows, row)
	}
	return rows
}

// wantCount checks that a thing is there about as often as it should be.
func wantCount(t *testing.T, what string, got, low, high int) {
	t.Helper()
	if got < low || got > high {
		t.Errorf("%s: %d, want %d to %d", what, got, low, high)
	}
}

func unique[T any](t *testing.T, what string, rows []T, of func(*T) string) {
	t.Helper()
	seen := map[string]bool{}
	for i := range rows {
		s := of(&rows[i])
		if s == "" || seen[s] {
			t.Errorf("%s %q is empty or there twice", what, s)
		}
		seen[s] = true
	}
}

func TestAssets(t *testing.T) {
	const n = 20_000
	rows := decode[assetRow](t, filesAt(t, n, 1, at), source.AssetsFile)
	wantCount(t, "assets", len(rows), n, n)
	unique(t, "key", rows, func(r *assetRow) string { return r.Key })
	unique(t, "slug", rows, func(r *assetRow) string { return artifacts.Fold(r.Slug) })
	tickers := map[string]int{}
	count := map[string]int{}
	for _, r := range rows {
		if r.Name == "" || r.Symbol == "" {
			t.Errorf("%+v: a required field is empty", r)
		}
		tickers[artifacts.Fold(r.Symbol)]++
		for what, is := range map[string]bool{
			"non-ASCII name":       strings.ContainsFunc(r.Name, func(c rune) bool { return c >= 0x80 }),
			"non-ASCII symbol":     strings.ContainsFunc(r.Symbol, func(c rune) bool { return c >= 0x80 }),
			"CJK":                  strings.ContainsAny(r.Name, "币犬さ東코"),
			"Cyrillic":             strings.ContainsAny(r.Name, "РСЁ"),
			"Greek":                strings.ContainsAny(r.Name, "ΔΟΣ"),
			"beyond the BMP":       strings.ContainsFunc(r.Name, func(c rune) bool { return c > 0xffff }),
			"Kelvin sign":          strings.Contains(r.Name+r.Symbol, "\u212a"),
			"long s":               strings.Contains(r.Name+r.Symbol, "\u017f"),
			"sharp s":              strings.ContainsAny(r.Name, "ß\u1e9e"),
			"dotted I":             strings.Contains(r.Name, "\u0130"),
			"to be escaped":        strings.ContainsAny(r.Name+r.Symbol, "\"\\\t"),
			"slug with &":          strings.Contains(r.Slug, "&"),
			"slug with (":          strings.Contains(r.Slug, "("),
			"slug with a space":    strings.Contains(r.Slug, " "),
			"slug in mixed case":   strings.ToLower(r.Slug) != r.Slug,
			"no logo":              r.Logo == "",
			"explorers":            len(r.Explorers) > 0,
			"explorers absent":     r.Explorers == nil,
			"explorers empty":      r.Explorers != nil && len(r.Explorers) == 0,
			"website":              r.Website != "",
			"whitepaper":           r.Whitepaper != "",
			"active":               r.Active != nil && *r.Active,
			"active by default":    r.Active == nil,
			"inactive":             r.Active != nil && !*r.Active,
			"symbol in lower case": r.Symbol == strings.ToLower(r.Symbol) && strings.ToUpper(r.Symbol) != r.Symbol,
		} {
			if is {
				count[what]++
			}
		}
	}
	for what, low := range map[string]int{
		"non-ASCII name": 400, "non-ASCII symbol": 400, "CJK": 40, "Cyrillic": 20, "Greek": 20, "beyond the BMP": 50, "Kelvin sign": 12,
		"long s": 12, "sharp s": 15, "dotted I": 8, "to be escaped": 30, "slug with &": 300, "slug with (": 300, "slug with a space": 100,
		"slug in mixed case": 200, "no logo": 600, "explorers": 14_000, "explorers absent": 2000, "explorers empty": 2000,
		"website": 14_000, "whitepaper": 3500, "active": 3000, "active by default": 14_000, "inactive": 1000, "symbol in lower case": 10,
	} {
		wantCount(t, what, count[what], low, n)
	}
	wantCount(t, "inactive", count["inactive"], 1000, 1400)
	shared := 0
	for _, k := range tickers {
		if k > 100 {
			shared++
		}
	}
	wantCount(t, "tickers that more than a hundred share", shared, 4, 40)
	wantCount(t, "the ticker that most share", tickers["ai"], 400, 800)
	wantCount(t, "tickers", len(tickers), 10_000, n)
}

func TestTickerOfTenThousand(t *testing.T) {
	f, err := filesAt(t, 400_000, 1, at).Open(t.Context(), source.AssetsFile)
	if err != nil {
		t.Fatal(err)
	}
	lines, shared := 0, 0
	s := bufio.NewScanner(f)
	for s.Scan() {
		lines++
		if bytes.Contains(s.Bytes(), []byte(`"symbol":"AI"`)) {
			shared++
		}
	}
	if err := s.Err(); err != nil || lines != 400_000 {
		t.Errorf("%d lines, %v", lines, err)
	}
	wantCount(t, "assets of one ticker", shared, 10_000, 20_000)
}

func TestQuotes(t *testing.T) {
	const n = 20_000
	files := filesAt(t, n, 1, at)
	known := map[string]bool{}
	for _, r := range decode[assetRow](t, files, source.AssetsFile) {
		known[r.Key] = true
	}
	rows := decode[quoteRow](t, files, source.QuotesFile)
	wantCount(t, "quotes", len(rows), n*94/100, n*97/100)
	unique(t, "quote of", rows, func(r *quoteRow) string { return r.Key })
	minPrice, maxPrice, maxCap := math.Inf(1), 0.0, 0.0
	var tiny, unknownCap, zeroCap, noVolume int
	for _, r := range rows {
		if !known[r.Key] || r.Price == nil {
			t.Fatalf("%+v: no such asset, or no price", r)
		}
		p := r.Price.float()
		minPrice, maxPrice = min(minPrice, p), max(maxPrice, p)
		if p < 1e-9 {
			tiny++
		}
		switch {
		case r.MarketCap == nil:
			unknownCap++
		case r.MarketCap.Sign() == 0:
			zeroCap++
		default:
			maxCap = max(maxCap, r.MarketCap.float())
		}
		if r.Volume == nil || r.Volume.Sign() == 0 {
			noVolume++
		}
		for _, v := range []*number{r.MarketCap, r.Volume} {
			if v != nil && (v.Sign() < 0 || v.float() > 1e13) {
				t.Errorf("%+v: out of range", r)
			}
		}
	}
	if minPrice < 1e-15 || minPrice > 1e-14 || maxPrice < 1e4 || maxPrice > 1e9 {
		t.Errorf("prices from %v to %v", minPrice, maxPrice)
	}
	if maxCap < 1e12 {
		t.Errorf("largest market cap %v", maxCap)
	}
	wantCount(t, "prices below 1e-9", tiny, n*5/100, n*20/100)
	wantCount(t, "market caps that are absent", unknownCap, n*7/100, n*13/100)
	wantCount(t, "market caps that are zero", zeroCap, n*3/100, n*7/100)
	wantCount(t, "no volume", noVolume, n*9/100, n*15/100)
}

func TestMarketCapsReachTenTrillion(t *testing.T) {
	// The bounds are kept by the figures themselves, for any seed and time.
	highest := log2(0)
	for seed := range uint64(300) {
		m := newMarket(10, seed, nil)
		now := newMoment(m, at.AddDate(0, int(seed), 0))
		for slot := range 10 {
			a := now.asset(slot)
			price, marketCap, volume := now.figures(&a)
			if price < minPrice || marketCap > maxCap || volume > maxCap {
				t.Fatalf("seed %d, slot %d: %d %d %d", seed, slot, price, marketCap, volume)
			}
			highest = max(highest, marketCap)
		}
	}
	bound, lowest := new(number), new(number)
	for _, c := range []struct {
		n *number
		l log2
	}{{bound, highest}, {lowest, minPrice}} {
		if err := c.n.UnmarshalJSON(c.l.decimal(8).appendPlain(nil)); err != nil {
			t.Fatal(err)
		}
	}
	if f := bound.float(); f > 1e13 || f < 9e12 {
		t.Errorf("the highest market cap is %v, want 1e13 or a little less", f)
	}
	if f := lowest.float(); f < 1e-15 || f > 1.01e-15 {
		t.Errorf("the lowest price is %v, want 1e-15 or a little more", f)
	}
}

func TestExchanges(t *testing.T) {
	rows := decode[exchangeRow](t, filesAt(t, 100_000, 1, at), source.ExchangesFile)
	wantCount(t, "exchanges", len(rows), 1000, 1000)
	unique(t, "key", rows, func(r *exchangeRow) string { return r.Key })
	slugs := map[string]int{}
	kinds := map[string]bool{"website": true, "twitter": true, "telegram": true, "reddit": true, "facebook": true, "chat": true}
	count := map[string]int{}
	for _, r := range rows {
		if r.Name == "" || r.Slug == "" {
			t.Errorf("%+v: a required field is empty", r)
		}
		slugs[r.Slug]++
		for k := range r.Links {
			if !kinds[k] {
				t.Errorf("link %q", k)
			}
			count[k]++
		}
		if r.Fees == nil {
			count["no fees"]++
		} else if r.Fees.Maker == nil {
			count["no maker fee"]++
		}
		if r.Market == nil {
			count["no market"]++
			continue
		}
		count["market"]++
		for what, is := range map[string]bool{
			"volume null": r.Market.Volume == nil, "markets null": r.Market.Markets == nil,
			"coins null": r.Market.Coins == nil, "time null": r.Market.DataTime == nil,
		} {
			if is {
				count[what]++
			}
		}
		if r.Market.DataTime == nil {
			continue
		}
		switch when, err := time.Parse(time.RFC3339, *r.Market.DataTime); {
		case err != nil, when.Unix() <= 0:
			count["time of no use"]++
		case when.After(at) || when.Before(at.Add(-time.Hour)):
			t.Errorf("data_time %s", *r.Market.DataTime)
		case !strings.HasSuffix(*r.Market.DataTime, "Z"):
			count["time with an offset"]++
		}
	}
	for what, low := range map[string]int{
		"website": 500, "chat": 500, "no fees": 150, "no maker fee": 60, "no market": 120, "market": 700, "volume null": 40,
		"markets null": 80, "coins null": 80, "time null": 40, "time of no use": 20, "time with an offset": 20,
	} {
		wantCount(t, what, count[what], low, 900)
	}
	wantCount(t, "exchanges that share a slug", slugs["velara-exchange"], 60, 140)
}

func TestGroups(t *testing.T) {
	files := filesAt(t, 20_000, 1, at)
	known := map[string]bool{}
	for _, r := range decode[assetRow](t, files, source.AssetsFile) {
		known[r.Key] = true
	}
	for name, want := range map[string]int{source.CategoriesFile: 300, source.ChainsFile: 200} {
		rows := decode[groupRow](t, files, name)
		wantCount(t, name, len(rows), want, want)
		unique(t, name+": key", rows, func(r *groupRow) string { return r.Key })
		unique(t, name+": slug", rows, func(r *groupRow) string { return artifacts.Fold(r.Slug) })
		count, sizes := map[string]int{}, []int{}
		for i, r := range rows {
			if r.Name == "" {
				t.Errorf("%+v: no name", r)
			}
			count[r.Status]++
			if i < steady && (r.Status != "active" || len(r.Members) == 0) {
				t.Errorf("%s: group %d is %s with %d members", name, i, r.Status, len(r.Members))
			}
			if len(r.Members) == 0 {
				count["empty"]++
			}
			seen := map[string]bool{}
			for _, key := range r.Members {
				if seen[key] {
					count["member twice"]++
				}
				if seen[key] = true; !known[key] {
					count["unknown member"]++
				}
			}
			sizes = append(sizes, len(seen))
			if r.EVMChainID != nil {
				count["EVM"]++
				if *r.EVMChainID > 1<<53-1 {
					t.Errorf("EVM id %d", *r.EVMChainID)
				}
			}
			switch {
			case r.Native == nil:
				count["no native coin"]++
			case known[*r.Native]:
				count["native coin"]++
			default:
				count["unknown native coin"]++
			}
			if r.DisplayName != "" {
				count["display name"]++
			}
		}
		lows := map[string]int{
			"active": want * 80 / 100, "disabled": 4, "deleted": 2, "empty": 3, "member twice": 2, "unknown member": 2,
		}
		if name == source.ChainsFile {
			for what, low := range map[string]int{"EVM": 100, "native coin": 120, "no native coin": 20, "unknown native coin": 5, "display name": 70} {
				lows[what] = low
			}
		}
		for what, low := range lows {
			wantCount(t, name+": "+what, count[what], low, want)
		}
		if sizes[0] < 6000 || sizes[10] > 1000 || sizes[want-1] > 60 {
			t.Errorf("%s: sizes %v", name, sizes)
		}
	}
}

// TestEdgesOfSize reads markets of every size with the real reader, which must
// not set aside one row.
func TestEdgesOfSize(t *testing.T) {
	for _, c := range []struct {
		assets, exchanges, categories, chains int
		seeds                                 uint64
	}{
		{10, 20, 8, 6, 20},
		{11, 20, 8, 6, 5},
		{500, 20, 12, 6, 5},
		{2000, 40, 50, 20, 3},
		{30_000, 600, 300, 200, 1},
	} {
		for seed := range c.seeds {
			m := newMarket(c.assets, seed, nil)
			files, err := m.Files(t.Context(), at.AddDate(0, 0, int(seed)))
			if err != nil {
				t.Fatal(err)
			}
			feed, report, err := source.Read(t.Context(), files, source.ReadOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range report.Files {
				if f.Rejected != 0 || len(f.Rejections) != 0 {
					t.Errorf("%v: %+v", m, f)
				}
			}
			if len(feed.Assets) != c.assets || len(feed.Exchanges) != c.exchanges || len(feed.Categories) != c.categories || len(feed.Chains) != c.chains {
				t.Errorf("%v: %d assets, %d exchanges, %d categories, %d chains", m, len(feed.Assets), len(feed.Exchanges), len(feed.Categories), len(feed.Chains))
			}
			if q := len(feed.Quotes); q > c.assets || q < min(settled, c.assets) || q < c.assets*85/100 {
				t.Errorf("%v: %d quotes", m, q)
			}
			if want := fmt.Sprintf("sim-%d-%d", c.assets, seed); feed.Database != want {
				t.Errorf("%v: database %s, want %s", m, feed.Database, want)
			}
		}
	}
}

// TestLargest: lines stay within what a feed takes, and what is held of a file
// stays small.
func TestLargest(t *testing.T) {
	files := filesAt(t, MaxAssets, 1, time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC))
	for _, name := range []string{source.CategoriesFile, source.ChainsFile} {
		longest := 0
		for line := range bytes.Lines(read(t, files, name)) {
			longest = max(longest, len(line))
		}
		if longest > source.MaxLine || longest < source.MaxLine/2 {
			t.Errorf("%s: the longest line has %d bytes, a line may have %d", name, longest, source.MaxLine)
		}
	}
	f, err := files.Open(t.Context(), source.AssetsFile)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.CopyN(io.Discard, f, 64<<20); err != nil {
		t.Fatal(err)
	}
	if held := cap(f.(*rowReader).buf); held > 4*chunk {
		t.Errorf("%d bytes held of a file of rows of 300 bytes", held)
	}
}

func pricesAt(t *testing.T, assets int, when time.Time) map[string]float64 {
	t.Helper()
	prices := map[string]float64{}
	for _, r := range decode[quoteRow](t, filesAt(t, assets, 1, when), source.QuotesFile) {
		prices[r.Key] = r.Price.float()
	}
	return prices
}

func TestPricesMoveSmoothly(t *testing.T) {
	bound := math.Exp2(float64(maxStep)/float64(one)) * 1.0000002
	if bound > 1.25 {
		t.Fatalf("a tick may move a price by a factor of %v", bound)
	}
	for i := range 6 {
		// Among them where many time scales begin anew.
		when := time.Unix(int64(i)*600<<20+int64(i%2)*12345*600, 0)
		before, after := pricesAt(t, 2000, when.Add(-artifacts.Step)), pricesAt(t, 2000, when)
		moved, far := 0, 0
		for key, p := range after {
			q, ok := before[key]
			if !ok {
				continue
			}
			r := max(p/q, q/p)
			if r > bound {
				t.Errorf("%v: %s went from %v to %v", when, key, q, p)
			}
			if r != 1 {
				moved++
			}
			if r > 1.02 {
				far++
			}
		}
		wantCount(t, "prices that moved", moved, 1700, 2000)
		wantCount(t, "prices that moved by over 2 %", far, 0, 500)
	}
}

func TestPricesVaryTogetherOverTheYear(t *testing.T) {
	low, high := map[string]float64{}, map[string]float64{}
	last := pricesAt(t, 1000, at.AddDate(-1, 0, 0))
	together := 0 // months in which two thirds or more went the same way
	for month := range 12 {
		now := pricesAt(t, 1000, at.AddDate(-1, month+1, 0))
		up, all := 0, 0
		for key, p := range now {
			q, ok := last[key]
			if !ok {
				continue
			}
			all++
			if p > q {
				up++
			}
			if _, ok := low[key]; !ok {
				low[key] = q
			}
			low[key], high[key] = min(low[key], p, q), max(high[key], p, q)
		}
		if up*3 > all*2 || up*3 < all {
			together++
		}
		last = now
	}
	doubled, pegged := 0, 0
	for key := range low {
		if high[key] > 2*low[key] {
			doubled++
		}
		if low[key] > 0.97 && high[key] < 1.03 {
			pegged++
		}
	}
	wantCount(t, "prices that differed by a factor of two within the year", doubled, 700, 1100)
	wantCount(t, "prices bound to the dollar", pegged, 10, 60)
	wantCount(t, "months in which most prices went the same way", together, 3, 12)
}

func TestAssetsComeAndGo(t *testing.T) {
	const n = 2000
	seen := map[string]assetRow{}
	present := map[string]bool{}    // at the last moment
	returned := map[string]bool{}   // was there, was not, is again
	quoted := map[string]bool{}     // at the last moment
	quoteBack := map[string]bool{}  // the asset stayed, the quote did not
	var first, last map[string]bool // keys at the first and the last moment
	for i := range 30 {
		files := filesAt(t, n, 1, at.Add(time.Duration(i)*12*time.Hour))
		rows := decode[assetRow](t, files, source.AssetsFile)
		if len(rows) != n {
			t.Fatalf("%d assets, want %d", len(rows), n)
		}
		now := map[string]bool{}
		for _, r := range rows {
			now[r.Key] = true
			was, ok := seen[r.Key]
			if ok && (was.Name != r.Name || was.Symbol != r.Symbol || was.Slug != r.Slug || was.Website != r.Website) {
				t.Fatalf("%+v became %+v", was, r)
			}
			if ok && !present[r.Key] {
				returned[r.Key] = true
			}
			seen[r.Key] = r
		}
		quotedNow := map[string]bool{}
		for _, q := range decode[quoteRow](t, files, source.QuotesFile) {
			quotedNow[q.Key] = true
			if i > 0 && present[q.Key] && !quoted[q.Key] {
				quoteBack[q.Key] = true
			}
		}
		present, quoted = now, quotedNow
		if first == nil {
			first = now
		}
		last = now
	}
	gone := 0
	for key := range first {
		if !last[key] {
			gone++
		}
	}
	wantCount(t, "assets gone after two weeks", gone, 20, 100)
	wantCount(t, "assets seen in two weeks", len(seen), n+20, n+150)
	wantCount(t, "assets that came back", len(returned), 10, 80)
	wantCount(t, "quotes that came back", len(quoteBack), 20, 120)

	// A year on, more have changed for good; the largest are there.
	later := map[string]bool{}
	for _, r := range decode[assetRow](t, filesAt(t, n, 1, at.AddDate(1, 0, 0)), source.AssetsFile) {
		later[r.Key] = true
	}
	stayed := 0
	for key := range first {
		if later[key] {
			stayed++
		}
	}
	wantCount(t, "assets still there after a year", stayed, n*65/100, n*85/100)
	for slot := range settled {
		if key := fmt.Sprintf("sim-%s", big.NewInt(int64(slot)).Text(36)); !first[key] || !later[key] {
			t.Errorf("%s is not always there", key)
		}
	}
}
