package source

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/market"
	"example.com/marketdata/builder/render"
	"pgregory.net/rapid"
)

// fullFeed returns a feed with a value in every field of every kind of row.
func fullFeed() *market.Feed {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	asset := func(key string) market.Asset {
		return market.Asset{
			Key: key, ID: 1, Name: "n", Symbol: "s", Slug: "u", Logo: "l",
			Explorers: []string{"x", "y"}, Website: "w", Whitepaper: "p", Active: true,
			Platforms: []market.Platform{{ID: "i", Name: "I", Address: "0x"}},
		}
	}
	group := func() market.Group {
		return market.Group{
			Key: "g", ID: 3, Name: "n", Slug: "s", Active: true, Members: []int{0, 1},
			DisplayName: "d", EVMChainID: new(uint64(5)), Native: 1,
		}
	}
	return &market.Feed{
		Database: "db", Time: at,
		Assets: []market.Asset{asset("a"), asset("b")},
		Quotes: []market.Quote{{Asset: 1, Price: u(1), MarketCap: u(2), Volume: u(3),
			Supplies: [3]market.U128{u(4), u(5), u(6)}}},
		Exchanges: []market.Exchange{{
			Key: "e", ID: 2, Name: "n", Slug: "s", Logo: "l", Links: [6]string{"1", "2", "3", "4", "5", "6"},
			Maker: u(1), Taker: u(2),
			Market: &market.ExchangeMarket{
				Volume: new(u(6)), MarketsCount: new(uint64(5)), CoinsCount: new(uint64(5)), DataTime: new(at),
			},
		}},
		Categories: []market.Group{group()},
		Chains:     []market.Group{group()},
		Rates:      []market.Rate{{Code: "eur", Name: "n", Unit: "u", Type: "fiat", USD: u(5)}},
	}
}

// changes returns all ways to change one value in v, by name. Each function makes a change and
// returns a function that undoes it.
func changes(path string, v reflect.Value) map[string]func() (undo func()) {
	all := map[string]func() func(){}
	set := func(name string, to reflect.Value) {
		all[path+name] = func() func() {
			old := reflect.New(v.Type()).Elem()
			old.Set(v)
			v.Set(to)
			return func() { v.Set(old) }
		}
	}
	into := func(path string, v reflect.Value) {
		for name, change := range changes(path, v) {
			all[name] = change
		}
	}
	switch x := v.Interface().(type) {
	case time.Time:
		set("", reflect.ValueOf(x.Add(time.Second)))
		return all
	case string:
		set("", reflect.ValueOf(x+"!"))
	case bool:
		set("", reflect.ValueOf(!x))
	case int: // the index of one of the two assets
		set("", reflect.ValueOf(1-x))
	case uint64:
		set("", reflect.ValueOf(x+1))
		set(" high", reflect.ValueOf(x+1<<52))
	}
	switch v.Kind() {
	case reflect.Pointer:
		set(" nil", reflect.Zero(v.Type()))
		into(path, v.Elem())
	case reflect.Slice:
		set(" shorter", v.Slice(0, v.Len()-1))
		for i := range v.Len() {
			if v.Type().Elem().Kind() == reflect.Int {
				continue // members are a set
			}
			into(fmt.Sprintf("%s[%d]", path, i), v.Index(i))
		}
	case reflect.Array:
		for i := range v.Len() {
			into(fmt.Sprintf("%s[%d]", path, i), v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			into(path+"."+v.Type().Field(i).Name, v.Field(i))
		}
	}
	return all
}

// TestDigestSeesEverything changes every value of a feed, one by one. It also finds fields that are
// added to rows in the future.
func TestDigestSeesEverything(t *testing.T) {
	feed := fullFeed()
	base := InputDigest(feed)
	seen := map[artifacts.Digest]string{base: "nothing"}
	feed.Time = feed.Time.Add(time.Hour)
	if InputDigest(feed) != base {
		t.Error("the feed's own time is in the digest")
	}
	all := changes("", reflect.ValueOf(feed).Elem())
	if len(all) < 60 {
		t.Fatalf("only %d changes", len(all))
	}
	for name, change := range all {
		if name == ".Time" || strings.HasPrefix(name, ".Assets shorter") {
			continue // the time is not in the digest, and quotes point to the last asset
		}
		undo := change()
		d := InputDigest(feed)
		undo()
		if other, ok := seen[d]; ok {
			t.Errorf("changing %s gives the digest of %s", name, other)
		}
		seen[d] = name
	}
	if InputDigest(feed) != base {
		t.Error("a change was not undone")
	}
	for _, settings := range [][][]byte{
		{nil}, {[]byte("a")}, {[]byte("b")}, {[]byte("a"), []byte("b")}, {[]byte("ab")},
		{[]byte("a"), []byte("b"), nil},
	} {
		d := InputDigest(feed, settings...)
		if other, ok := seen[d]; ok {
			t.Errorf("settings %q give the digest of %s", settings, other)
		}
		seen[d] = fmt.Sprintf("settings %q", settings)
	}
}

// directoryRows returns a text with the form of the directory, the sizes of its shards, and all
// rows of its views.
func directoryRows(f *market.Feed, r *market.Result) string {
	b := fmt.Appendf(nil, "%s, %d shards of %d rows", directoryForm, render.ShardsPerObject, render.RowsPerShard)
	for t := range render.Directory(f, r) {
		b = fmt.Appendf(b, "\n%s %d", t.Collection, t.RowsPerShard)
		for i := range t.Rows {
			b = fmt.Appendf(b, "\n%d %s", t.IDs[i], t.Rows[i])
			if t.Tails != nil {
				b = append(b, t.Tails[i]...)
			}
			for _, o := range t.Orders {
				if o.Keys != nil {
					b = fmt.Appendf(b, " %s", o.Keys[i])
				}
			}
		}
	}
	return string(b)
}

// TestDirectoryDigest checks that every change of a row of the directory changes the digest, and
// that a new form of the rows needs a new directoryForm. Only assets and chains affect the digest.
func TestDirectoryDigest(t *testing.T) {
	feed, listed := fullFeed(), &market.Result{Chains: []market.ListedGroup{{}}}
	rows, base := directoryRows(feed, listed), DirectoryDigest(feed, listed)
	const recorded = "3b6f1f328e19e6f8083eadad00d13ded55bbcd6ab2b9009bd7529477a88f55f4"
	if got := artifacts.Sum([]byte(rows)).String(); got != recorded {
		t.Errorf("rows have another form: raise directoryForm and record %s\n%s", got, rows)
	}
	told := 0
	for name, change := range changes("", reflect.ValueOf(feed).Elem()) {
		if strings.HasPrefix(name, ".Assets shorter") {
			continue // chains point to the last asset
		}
		undo := change()
		other := directoryRows(feed, &market.Result{Chains: listed.Chains[:len(feed.Chains)]}) != rows
		d := DirectoryDigest(feed, &market.Result{Chains: listed.Chains[:len(feed.Chains)]})
		undo()
		may := strings.HasPrefix(name, ".Assets") || strings.HasPrefix(name, ".Chains")
		if other && d == base || d != base && !may {
			t.Errorf("changing %s: other rows %t, other digest %t", name, other, d != base)
		}
		if other {
			told++
		}
	}
	if told < 15 {
		t.Errorf("only %d changes show in rows", told)
	}
	if DirectoryDigest(feed, &market.Result{}) == base {
		t.Error("whether a chain is listed is not in the digest")
	}
}

// TestDigestIgnoresOrder reads the same rows in two different orders.
func TestDigestIgnoresOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(t, "assets")
		var assets, quotes, exchanges, groups []string
		for i := range n {
			assets = append(assets, fmt.Sprintf(`{"key":"k%d","name":"n%d","symbol":"s","slug":"u%d"}`, i, i, i))
			quotes = append(quotes, fmt.Sprintf(`{"key":"k%d","price":%d,"volume":"%d.0"}`, i, i, i))
			exchanges = append(exchanges, fmt.Sprintf(`{"key":"k%d","name":"n","slug":"u"}`, i))
			members := rapid.SliceOfN(rapid.IntRange(0, n), 0, 5).Draw(t, "members")
			var keys []string
			for _, m := range members {
				keys = append(keys, fmt.Sprintf(`"k%d"`, m))
			}
			groups = append(groups,
				fmt.Sprintf(`{"key":"g%d","name":"n","slug":"u%d","native":"k%d","members":[%s]}`, i, i, n-i,
					strings.Join(keys, ",")))
		}
		digests := func(label string, shuffle bool) []artifacts.Digest {
			files := fstest.MapFS{InfoFile: {Data: []byte(testInfo)}}
			for _, f := range []struct {
				name string
				rows []string
			}{
				{AssetsFile, assets}, {QuotesFile, quotes}, {ExchangesFile, exchanges}, {CategoriesFile, groups},
				{ChainsFile, groups},
			} {
				rows := f.rows
				if shuffle {
					rows = rapid.Permutation(rows).Draw(t, label+f.name)
				}
				files[f.name] = &fstest.MapFile{Data: []byte(strings.Join(rows, "\n"))}
			}
			feed, _, err := Read(t.Context(), FS(files), ReadOptions{})
			ok(t, err)
			return []artifacts.Digest{InputDigest(feed, []byte("settings")), DirectoryDigest(feed, &market.Result{})}
		}
		if !slices.Equal(digests("", false), digests("shuffled ", true)) {
			t.Fatal("the order of rows is in the digest")
		}
	})
}
