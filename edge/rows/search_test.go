package rows

import (
	"errors"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge/auth"
	"example.com/marketdata/edge/limit"
	"example.com/marketdata/edge/query"
	"example.com/marketdata/edge/snapshot"
	"example.com/marketdata/internal/lab/edgerig"
	"example.com/marketdata/internal/lab/memstore"
	"example.com/marketdata/internal/lab/must"
	"example.com/marketdata/internal/lab/teststore"
)

// asset is what searches look for.
type asset struct{ name, symbol, slug string }

// searchRows is how many rows a search for text visits among assets: those that equal it,
// and, unless these fill the answer, those that the rarest word begins, each word of a name
// and each symbol and slug being one.
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

// TestSearchRows: a search announces the rows that a plain model counts, visits as many, and
// none when the key cannot pay; shards that are not in memory cost all their rows.
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
	poor := edgerig.Key(t, 1, 1)
	poor.Spend(limit.Decision{}, 0, 50)
	rnd, read := rand.New(rand.NewPCG(1, 1)), 0
	for i := range 800 {
		raw := "q=" + teststore.SearchText(rnd)
		if i < 5 {
			raw = "q=" + []string{"two++spaces", "two+spaces", "co++doge", "doge+co", "asset++common"}[i]
		}
		text, err := url.QueryUnescape(raw[2:])
		must.OK(t, err)
		want := searchRows(text, assets)
		search := func(s *snapshot.Snapshot, bill auth.Bill) (auth.Bill, error) {
			var q query.Query
			if err := q.Parse(query.Search, []byte(raw)); err != nil {
				t.Fatal(err)
			}
			w := newFinder()
			w.Bill = &bill
			err := w.Loosen(s, &q, time.Minute)
			if err == nil {
				err = w.Find(s, &q, time.Minute)
			}
			// The rows of other words are not charged, and bounded by those that are.
			if w.Rows > maxFound+(2+worthMeeting*(query.MaxWords-1))*want {
				t.Errorf("%s: %d rows visited for %d that are charged", raw, w.Rows, want)
			}
			return bill, err
		}
		b, err := search(warm, auth.Bill{})
		for range 100 { // what is read goes into memory sooner or later
			if err == nil && b.Visited > want {
				b, err = search(warm, auth.Bill{})
			}
		}
		if err != nil || b.Visited != want {
			t.Fatalf("%s: %d rows visited, %v, want %d", raw, b.Visited, err, want)
		}
		if b, err := search(cold, auth.Bill{}); err != nil || b.Visited < want {
			t.Fatalf("%s, from the disk: %d rows visited, %v, want %d and more", raw, b.Visited, err, want)
		} else {
			read += b.Visited - want
		}
		// A key that owes tokens gets no further one, which the last of these rows would take.
		for first := max(0, 499-want); want > 0 && first <= max(0, 500-want); first++ {
			bill := auth.Bill{Key: poor, Ahead: first, Visited: first}
			b, err := search(warm, bill)
			for range 100 { // what had to be read was charged already
				if b.Visited > first+want {
					b, err = search(warm, bill)
				}
			}
			if (err != nil) != (first+want >= 500) || err != nil && !errors.Is(err, ErrLimited) {
				t.Fatalf("%s, of a key that owes tokens, %d rows before: %v", raw, first, err)
			}
		}
	}
	if read < 800 {
		t.Errorf("%d rows of what is not in memory", read)
	}
}
