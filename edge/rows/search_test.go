package rows

import (
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge/query"
	"example.com/marketdata/edge/snapshot"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/teststore"
)

// asset contains the fields that a search compares.
type asset struct{ name, symbol, slug string }

// searchRows returns the number of rows that a search for text visits among assets: the rows of keys that
// equal the text and, unless those assets fill the answer, the rows that the rarest word begins. Each word
// of a name, each symbol and each slug has a row.
func searchRows(text string, assets []asset) (rows int) {
	text = artifacts.Fold(text)
	if !utf8.ValidString(text) {
		return 0
	}
	words := strings.FieldsFunc(text, func(r rune) bool { return r == ' ' })
	counts, same := make([]int, len(words)), 0
	for i := range assets {
		a := &assets[i]
		var of []string
		for _, word := range strings.FieldsFunc(a.name,
			func(r rune) bool { return !unicode.In(r, unicode.L, unicode.Nd) }) {
			if word = artifacts.Fold(word); !slices.Contains(of, word) {
				of = append(of, word)
			}
		}
		symbol, slug := artifacts.Fold(a.symbol), artifacts.Fold(a.slug)
		for _, key := range append(of, symbol, slug) {
			for i, word := range words {
				if key == word || utf8.RuneCountInString(word) > 1 && strings.HasPrefix(key, word) {
					counts[i]++
				}
			}
		}
		name := artifacts.Fold(a.name)
		for _, key := range []string{symbol, name, slug} {
			if key == text {
				rows++
			}
		}
		if symbol == text || name == text || slug == text {
			same++
		}
	}
	if same < maxFound {
		rows += slices.Min(counts)
	}
	return rows
}

// TestSearchRows checks that a search counts as many visited rows, which determine its price, as a simple
// model does, whether or not the rows are cached.
func TestSearchRows(t *testing.T) {
	store := memstore.New()
	f := teststore.NewFeed(1500, 1)
	for i, name := range []string{"Two  Spaces", "Doge &  Co", "Doge Co", "co  doge"} {
		f.Assets[300+i].Name = name
	}
	var assets []asset
	for i := range f.Assets {
		assets = append(assets, asset{f.Assets[i].Name, f.Assets[i].Symbol, f.Assets[i].Slug})
	}
	teststore.Publish(t, store, f, teststore.Start)
	warm, cold := current(t, store, 64<<20), current(t, store, 1)
	rnd := rand.New(rand.NewPCG(1, 1))
	for i := range 800 {
		raw := "q=" + teststore.SearchText(rnd)
		if i < 5 {
			raw = "q=" + []string{"two++spaces", "two+spaces", "co++doge", "doge+co", "asset++common"}[i]
		}
		text, err := url.QueryUnescape(raw[2:])
		must.OK(t, err)
		want := searchRows(text, assets)
		search := func(s *snapshot.Snapshot) (visited int, err error) {
			var q query.Query
			if err := q.Parse(query.Search, []byte(raw)); err != nil {
				t.Fatal(err)
			}
			w := newFinder()
			err = w.Find(s, &q, time.Minute)
			// Rows of other words do not add to the price. Their number is bounded by the number of rows
			// that do.
			if w.Rows > maxFound+(2+worthMeeting*(query.MaxWords-1))*want {
				t.Errorf("%s: %d rows visited for %d that have a price", raw, w.Rows, want)
			}
			return w.Visited, err
		}
		for where, s := range map[string]*snapshot.Snapshot{"from memory": warm, "from the disk": cold} {
			if got, err := search(s); err != nil || got != want {
				t.Fatalf("%s, %s: %d rows visited, %v, want %d", raw, where, got, err, want)
			}
		}
	}
}
