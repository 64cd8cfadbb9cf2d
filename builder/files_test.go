package builder

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/files"
	"example.com/marketdata/builder/internal/walk"
	"example.com/marketdata/builder/market"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
)

// hourly turns on files for the first snapshot of each hour.
func hourly(keep time.Duration) func(c *Config) {
	return func(c *Config) { c.Files = files.Settings{Cadence: files.Hourly, Keep: keep} }
}

// kept returns the file sets that the head names, and their lists.
func kept(t *testing.T, s artifacts.Reader) (sets []artifacts.FileSet, lists []*artifacts.FileList) {
	t.Helper()
	all := must.Get(artifacts.ReadFileSets(t.Context(), s, head(t, s).Manifest))(t)
	for i := range all.Sets {
		l, _, err := artifacts.ReadFileList(t.Context(), s, &all.Sets[i])
		ok(t, err)
		lists = append(lists, l)
	}
	return all.Sets, lists
}

// bytesOf returns the contents of a file.
func bytesOf(t *testing.T, s artifacts.Reader, l *artifacts.FileList, name string) []byte {
	t.Helper()
	f := l.Find(name)
	if f == nil {
		t.Fatalf("the set of %v has no %s", l.Time, name)
	}
	var b []byte
	for i := range f.Chunks {
		b = append(b, must.Get(artifacts.ReadFile(t.Context(), s, f.Chunk(i)))(t)...)
	}
	if artifacts.Sum(b) != f.SHA256 || int64(len(b)) != f.Bytes {
		t.Fatalf("%s of %v is not what its list says", name, l.Time)
	}
	return b
}

// itemsOf returns the items of a collection as clients receive them, ordered by id. In a quote, the
// id is followed by the asset's rank.
func itemsOf(t *testing.T, s artifacts.Reader, m *artifacts.Manifest, collection string) (lines []string) {
	t.Helper()
	ranks := map[uint64]string{}
	if collection == "quotes" {
		ok(t, walk.Rows(t.Context(), s, m.View("assets", "id").Objects, func(id uint64, row []byte) error {
			if _, rest, found := strings.Cut(string(row), `,"rank":`); found {
				ranks[id], _, _ = strings.Cut(rest, ",")
			}
			return nil
		}))
	}
	for _, o := range m.View(collection, "id").Objects {
		body := must.Get(artifacts.ReadObject(t.Context(), s, o.Ref))(t)
		for _, shard := range must.Get(artifacts.ParseObject(body))(t) {
			for i := range shard.Len() {
				line := string(shard.Row(i))
				if tail := shard.Tail(i); tail != nil {
					line = line[:len(line)-1] + string(tail)
				}
				if rank := ranks[shard.ID(i)]; rank != "" {
					line = strings.Replace(line, ",", `,"rank":`+rank+",", 1)
				}
				lines = append(lines, line)
			}
		}
	}
	return lines
}

// TestFiles checks that the first snapshot of each hour has files whose lines are its items. The
// first snapshot of a day must have the prices of the day before, which must not change afterwards.
func TestFiles(t *testing.T) {
	s, again := memstore.New(), memstore.New()
	w := world{Assets: 70, At: time.Date(2026, 8, 1, 20, 50, 0, 0, time.UTC)}
	prices := map[time.Time]string{} // by the snapshot's time
	var quotes []quoteAt
	for ; w.At.Before(time.Date(2026, 8, 2, 1, 20, 0, 0, time.UTC)); w = w.Later(artifacts.Step) {
		if w.At.Hour() == 23 && w.At.Minute() == 0 {
			continue // this snapshot is missing
		}
		mustBuild(t, s, w, hourly(2*time.Hour))
		mustBuild(t, again, w, hourly(2*time.Hour))
		m := head(t, s).Manifest
		if m.Input != head(t, again).Manifest.Input || m.Files != head(t, again).Manifest.Files {
			t.Fatalf("%v: the same builds gave other files", m.Time)
		}
		for _, item := range itemsOf(t, s, m, "quotes") {
			id, rest, _ := strings.Cut(strings.TrimPrefix(item, `{"id":`), ",")
			_, rest, _ = strings.Cut(rest, `"price":"`)
			price, _, _ := strings.Cut(rest, `"`)
			prices[m.Time] += fmt.Sprintf("%s %s\n", id, price)
			var q quoteAt
			ok(t, json.Unmarshal([]byte(item), &q))
			q.At = m.Time
			quotes = append(quotes, q)
		}
		sets, lists := kept(t, s)
		if last := lists[len(lists)-1]; last.Time.Equal(m.Time) {
			checkLines(t, s, m, last)
		}
		if oldest := sets[0].Time; oldest.Before(m.Time.Add(-2 * time.Hour)) {
			t.Errorf("%v: files of %v are kept", m.Time, oldest)
		}
	}
	verify(t, s)
	sets, lists := kept(t, s)
	var times []string
	for _, set := range sets {
		times = append(times, set.Time.Format("15:04"))
	}
	if got := strings.Join(times, " "); got != "23:10 00:00 01:00" {
		t.Errorf("files of %s", got)
	}
	const day = "prices/2026-08-01.parquet"
	if lists[0].Find(day) != nil || !slices.Equal(lists[1].Find(day).Chunks, lists[2].Find(day).Chunks) {
		t.Error("the day's prices were there before it ended, or changed after it")
	}
	checkDay(t, bytesOf(t, s, lists[1], day), prices)
	const candles = "candles/2026-08-01.parquet"
	if lists[0].Find(candles) != nil || !slices.Equal(lists[1].Find(candles).Chunks, lists[2].Find(candles).Chunks) {
		t.Error("the day's candles were there before it ended, or changed after it")
	}
	checkCandles(t, bytesOf(t, s, lists[1], candles), quotes)

	// If files are turned off, the existing ones are kept until they are too old.
	off := func(c *Config) { c.Files = files.Settings{Keep: time.Hour} }
	mustBuild(t, s, w, off)
	if sets, _ := kept(t, s); len(sets) != 1 {
		t.Errorf("%d sets are kept", len(sets))
	}
	// A lost list does not stop a build. Later snapshots have files again.
	overwrite(t, s, artifacts.FileKey(head(t, s).Manifest.Files.Digest), nil)
	mustBuild(t, s, w.Later(artifacts.Step), hourly(0))
	if sets, _ := kept(t, s); len(sets) != 1 || !sets[0].Time.Equal(head(t, s).Manifest.Time) {
		t.Errorf("after a loss: %v", sets)
	}
}

// checkLines compares the lines of a set with the views of its snapshot, and checks the number of
// rows in every file.
func checkLines(t *testing.T, s artifacts.Reader, m *artifacts.Manifest, l *artifacts.FileList) {
	t.Helper()
	for _, f := range l.Items {
		b := bytesOf(t, s, l, f.Name)
		collection, isLines := strings.CutSuffix(f.Name, ".ndjson.zst")
		if !isLines {
			p := must.Get(parquet.OpenFile(bytes.NewReader(b), f.Bytes))(t)
			if p.NumRows() != f.Rows {
				t.Errorf("%s has %d rows, its list says %d", f.Name, p.NumRows(), f.Rows)
			}
			continue
		}
		var got []string
		z := must.Get(zstd.NewReader(bytes.NewReader(b)))(t)
		for lines := bufio.NewScanner(z); lines.Scan(); {
			got = append(got, lines.Text())
		}
		z.Close()
		if int64(len(got)) != f.Rows {
			t.Errorf("%s has %d lines, its list says %d", f.Name, len(got), f.Rows)
		}
		if collection == "members" {
			if !slices.Contains(got, `{"collection":"categories","group":1,"asset":1}`) {
				t.Errorf("members: %q", got)
			}
		} else if want := itemsOf(t, s, m, collection); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", f.Name, got, want)
		}
	}
}

// checkDay compares the prices of 2026-08-01 with those of its snapshots.
func checkDay(t *testing.T, file []byte, prices map[time.Time]string) {
	t.Helper()
	type row struct {
		Time  time.Time `parquet:"time,timestamp(millisecond)"`
		Asset int64     `parquet:"asset"`
		Price [16]byte  `parquet:"price,decimal(18:36)"`
	}
	got := map[time.Time]string{}
	for _, r := range must.Get(parquet.Read[row](bytes.NewReader(file), int64(len(file))))(t) {
		var u market.U128
		for i := range 8 {
			u.Hi, u.Lo = u.Hi<<8|uint64(r.Price[i]), u.Lo<<8|uint64(r.Price[8+i])
		}
		got[r.Time.UTC()] += fmt.Sprintf("%d %s\n", r.Asset, market.AppendDecimal(nil, u, market.PriceDecimals))
	}
	maps.DeleteFunc(prices, func(t time.Time, _ string) bool { return t.Day() != 1 })
	if !maps.Equal(got, prices) {
		t.Errorf("the day's prices have %d snapshots, or others than the quotes' %d", len(got), len(prices))
	}
}

// quoteAt is a quote in the snapshot at time At.
type quoteAt struct {
	ID        int64     `json:"id"`
	Price     string    `json:"price"`
	MarketCap *string   `json:"market_cap"`
	Volume    *string   `json:"volume"`
	At        time.Time `json:"-"`
}

// checkCandles computes the candles of 2026-08-01 from its quotes, and compares them with those in
// the file.
func checkCandles(t *testing.T, file []byte, quotes []quoteAt) {
	t.Helper()
	type candle struct{ open, high, low, close, cap, volume *big.Rat }
	rat := func(text *string) *big.Rat {
		if text == nil {
			return nil
		}
		x, _ := new(big.Rat).SetString(*text)
		return x
	}
	want := map[string]*candle{}
	for _, q := range quotes { // in time order
		if q.At.Day() != 1 {
			continue
		}
		price := rat(&q.Price)
		for name, step := range map[string]time.Duration{"1h": time.Hour, "1d": 24 * time.Hour} {
			of := fmt.Sprint(q.ID, " ", name, " ", q.At.Truncate(step).Format(time.RFC3339))
			c := want[of]
			if c == nil {
				c = &candle{open: price, high: price, low: price}
				want[of] = c
			}
			if price.Cmp(c.high) > 0 {
				c.high = price
			}
			if price.Cmp(c.low) < 0 {
				c.low = price
			}
			c.close, c.cap, c.volume = price, rat(q.MarketCap), rat(q.Volume)
		}
	}
	type row struct {
		Interval  string    `parquet:"interval"`
		Time      time.Time `parquet:"time,timestamp(millisecond)"`
		Asset     int64     `parquet:"asset"`
		Open      [16]byte  `parquet:"open,decimal(18:36)"`
		High      [16]byte  `parquet:"high,decimal(18:36)"`
		Low       [16]byte  `parquet:"low,decimal(18:36)"`
		Close     [16]byte  `parquet:"close,decimal(18:36)"`
		MarketCap *[16]byte `parquet:"market_cap,decimal(8:36)"`
		Volume    *[16]byte `parquet:"volume,decimal(8:36)"`
	}
	places := func(b [16]byte, n int64) *big.Rat {
		return new(big.Rat).SetFrac(new(big.Int).SetBytes(b[:]), new(big.Int).Exp(big.NewInt(10), big.NewInt(n), nil))
	}
	rows := must.Get(parquet.Read[row](bytes.NewReader(file), int64(len(file))))(t)
	for _, r := range rows {
		of := fmt.Sprint(r.Asset, " ", r.Interval, " ", r.Time.UTC().Format(time.RFC3339))
		c := want[of]
		if c == nil {
			t.Fatalf("a candle of %s", of)
		}
		same := func(b *[16]byte, x *big.Rat) bool {
			return (b == nil) == (x == nil) && (b == nil || places(*b, 8).Cmp(x) == 0)
		}
		wrong := !same(r.MarketCap, c.cap) || !same(r.Volume, c.volume)
		for i, x := range []*big.Rat{c.open, c.high, c.low, c.close} {
			wrong = wrong || places([][16]byte{r.Open, r.High, r.Low, r.Close}[i], 18).Cmp(x) != 0
		}
		if wrong {
			t.Errorf("%s: %+v, want %+v", of, r, c)
		}
	}
	if len(rows) != len(want) || len(rows) < 200 {
		t.Errorf("%d candles, want %d", len(rows), len(want))
	}
}

// TestFileSignature checks a file against its list, and the list's signature.
func TestFileSignature(t *testing.T) {
	s := memstore.New()
	key, other := must.Get(artifacts.NewSignKey(bytes.NewReader(make([]byte, 64))))(t),
		must.Get(artifacts.NewSignKey(strings.NewReader(strings.Repeat("x", 64))))(t)
	mustBuild(t, s, world{Assets: 9, At: epoch}, func(c *Config) { c.Files.Sign = []artifacts.SignKey{key} })
	sets, lists := kept(t, s)
	list := stored(t, s, artifacts.FileKey(sets[0].Files.Digest))
	file := bytesOf(t, s, lists[0], "quotes.parquet")
	forged := bytes.Replace(list, []byte(`"rows":9`), []byte(`"rows":8`), 1)
	for _, c := range []struct {
		list  []byte
		trust artifacts.Trust
		name  string
		file  []byte
		want  string
	}{
		{list, artifacts.Trust{key.Trust()}, "quotes.parquet", file, ""},
		{list, nil, "quotes.parquet", file, ""},
		{list, artifacts.Trust{other.Trust()}, "quotes.parquet", file, "not signed by a trusted key"},
		{forged, artifacts.Trust{key.Trust()}, "quotes.parquet", file, "not signed by a trusted key"},
		{artifacts.Unsigned(list), artifacts.Trust{key.Trust()}, "quotes.parquet", file, "is not signed"},
		{list, nil, "quotes.csv", file, "does not list quotes.csv"},
		{list, nil, "assets.parquet", file, "bytes, want"},
		{list, nil, "quotes.parquet", append(bytes.Clone(file[1:]), 0), "has digest"},
	} {
		_, err := artifacts.VerifyFile(c.list, c.trust, c.name, artifacts.Sum(c.file), int64(len(c.file)))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}
