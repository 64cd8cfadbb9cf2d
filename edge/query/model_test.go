package query

import (
	"fmt"
	"reflect"
	"slices"
	"sort"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/internal/model"
)

// asked is what the query asks for, as internal/model says it.
func (q *Query) asked() *model.Query {
	a := &model.Query{Endpoint: q.Endpoint.Name(), Ignored: string(q.AppendIgnored(nil))}
	if q.Endpoint == Trending || q.Endpoint == Global || q.Endpoint == Search {
		a.Text = string(q.Text)
		return a
	}
	if q.Endpoint == History {
		a.Window = artifacts.HistoryWindows[q.Window].Name
	}
	a.Sort, a.Desc, a.Links, a.Page, a.Offset, a.Size = q.Sort.Name(), q.Desc, q.Links, q.Page, q.First, int64(q.Size)
	filter := func(name string, has bool, n int, value func(i int) string) {
		if !has {
			return
		}
		f := model.Filter{Name: name}
		for i := range n {
			f.Values = append(f.Values, value(i))
		}
		a.Filters = append(a.Filters, f)
	}
	filter("id", q.HasID, len(q.IDs), func(i int) string { return fmt.Sprint(q.IDs[i]) })
	filter("slug", q.HasSlug, len(q.Slugs), func(i int) string { return string(q.Slugs[i]) })
	filter("symbol", q.HasSymbol, len(q.Symbols), func(i int) string { return string(q.Symbols[i]) })
	return a
}

// read is what the model says that a query string asks for.
func read(e Endpoint, raw string) (*model.Query, *model.Answer) {
	want, refusal := model.Parse(model.Prefix + e.Name() + "?" + raw)
	if refusal == nil {
		want.Offset = min(want.Offset, past)
	}
	return want, refusal
}

// compare asks both readings, and fails when they differ in anything.
func compare(t interface{ Fatalf(string, ...any) }, q *Query, e Endpoint, raw string) {
	want, refusal := read(e, raw)
	sent := []byte(raw)
	err := q.Parse(e, sent)
	if err != nil {
		if refusal == nil || !slices.ContainsFunc(refusal.Blame, func(blame string) bool { return strings.HasPrefix(err.Message, blame) }) {
			t.Fatalf("%v?%s: %v; the model refuses %+v", e, raw, err, refusal)
		}
		return
	}
	// Nothing may point into the query string.
	for i := range sent {
		sent[i] = 'x'
	}
	if got := q.asked(); refusal != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%v?%s:\n got %+v\nwant %+v, %+v", e, raw, got, want, refusal)
	}
}

func rawQueries() *rapid.Generator[string] {
	number := rapid.OneOf(
		rapid.SampledFrom([]string{"0", "1", "2", "20", "99", "100", "101", "-1", "100000", "100001", "-", "", "1.5", "1e3", "0x1", "+1", "%31", "%2D5", "007",
			"9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809", "4611686018427387904", "230584300921369396"}),
		rapid.Custom(func(t *rapid.T) string { return fmt.Sprint(rapid.Int64Range(-200, 200).Draw(t, "number")) }),
	)
	text := rapid.OneOf(
		rapid.SampledFrom([]string{"", "btc", "BTC", "a%26b", "%C3%A4", "%c3%84", "\u017fx", "\u212a", "%e2%84%aa", "a+b", "%zz", "%", "%4", "%2c", "%ff", "a%00", "\u00df", "\u1e9e", "%C3"}),
		rapid.StringN(0, 4, -1),
	)
	list := func(element *rapid.Generator[string]) *rapid.Generator[string] {
		return rapid.OneOf(
			rapid.Custom(func(t *rapid.T) string {
				return strings.Join(rapid.SliceOfN(element, 1, 5).Draw(t, "list"), rapid.SampledFrom([]string{",", ",", "%2C", "%2c"}).Draw(t, "comma"))
			}),
			rapid.Custom(func(t *rapid.T) string {
				return strings.Repeat("7,", rapid.IntRange(97, 102).Draw(t, "many"))
			}),
		)
	}
	order := rapid.Custom(func(t *rapid.T) string {
		return rapid.SampledFrom(append([]string{"NAME", "\u017flug", "display_name", "", "+id"}, sortNames[:]...)).Draw(t, "key") +
			rapid.SampledFrom([]string{"", ":asc", ":desc", ":DESC", ":", ":up", "%3adesc", ":asc:asc", ":de\u017fc"}).Draw(t, "direction")
	})
	values := map[string]*rapid.Generator[string]{
		"id": list(number), "symbol": list(text), "slug": list(text), "page": number, "size": number, "limit": number, "offset": number, "sort": order,
		"fields": list(rapid.SampledFrom([]string{"links", "LINKS", "x", "", "+links", "lin%E2%84%AAs"})),
		"window": rapid.SampledFrom([]string{"", "24h", "7D", "30d", "90d", "1Y", "7", "1y,", "+7d", "%37d"}),
		"q":      rapid.OneOf(text, rapid.StringN(0, 80, -1), rapid.SampledFrom([]string{"btc", "+", "a+b", "a+b+c+d+e+f+g+h", "a+b+c+d+e+f+g+h+i", "++A%20%20\u212a", strings.Repeat("%C3%A9", 32), strings.Repeat("%C3%A9", 32) + "x"})),
		"by":     rapid.SampledFrom([]string{"", "gainers", "+GAINERS%0a", "searched", "%0b", "gainers,", "%C2%A0"}),
		"x%2":    text, "%Df+": text, "mdk%5flive_": text, "mdk_live": text, "%e2%82%AC": text,
		"Page": number, "x": text, "": text, "%70age": number, "siz%65": number, "slug%20": text, "i%64": list(number), "toolonganame%20": text,
	}
	names := make([]string, 0, len(values))
	for name := range values {
		names = append(names, name)
	}
	sort.Strings(names)
	pair := rapid.Custom(func(t *rapid.T) string {
		name := rapid.SampledFrom(names).Draw(t, "name")
		return name + rapid.SampledFrom([]string{"=", "=", "=", "=", "", "=="}).Draw(t, "equals") + values[name].Draw(t, "value")
	})
	// Names that fill X-Ignored to its end, and more than it takes.
	unread := rapid.Custom(func(t *rapid.T) string {
		return rapid.SampledFrom([]string{"a", "b", "%62", "zz", "%C3", "c."}).Draw(t, "unread") + strings.Repeat("n", rapid.IntRange(0, 90).Draw(t, "length"))
	})
	many := rapid.Custom(func(t *rapid.T) string {
		var pairs []string
		for range rapid.IntRange(100, 300).Draw(t, "pairs") {
			pairs = append(pairs, fmt.Sprintf("%%%02x", rapid.ByteRange(1, 255).Draw(t, "byte")))
		}
		return strings.Join(pairs, "&")
	})
	return rapid.Custom(func(t *rapid.T) string {
		switch rapid.IntRange(0, 9).Draw(t, "kind") {
		case 0:
			return strings.Join(rapid.SliceOfN(unread, 1, 12).Draw(t, "unread"), "&")
		case 1:
			return many.Draw(t, "many")
		}
		return strings.Join(rapid.SliceOfN(pair, 0, 5).Draw(t, "pairs"), rapid.SampledFrom([]string{"&", "&", "&&", ";"}).Draw(t, "separator"))
	})
}

func TestAgainstModel(t *testing.T) {
	queries := rawQueries()
	var q Query // one for all, so that what is left over would show
	rapid.Check(t, func(t *rapid.T) {
		e := Endpoint(rapid.IntRange(0, Endpoints-1).Draw(t, "endpoint"))
		compare(t, &q, e, queries.Draw(t, "query"))
	})
}

// TestKeyAgainstModel: equal keys exactly where the model sees the same request.
func TestKeyAgainstModel(t *testing.T) {
	queries := rawQueries()
	rapid.Check(t, func(t *rapid.T) {
		e := Endpoint(rapid.IntRange(0, Endpoints-1).Draw(t, "endpoint"))
		a, b := queries.Draw(t, "a"), queries.Draw(t, "b")
		if rapid.Bool().Draw(t, "same parameters") {
			pairs := strings.Split(a, "&")
			b = strings.Join(rapid.Permutation(pairs).Draw(t, "order"), "&") + "&unread=1"
		}
		compareKeys(t, e, a, b)
	})
}

func compareKeys(t interface{ Fatalf(string, ...any) }, e Endpoint, a, b string) {
	var qa, qb Query
	if qa.Parse(e, []byte(a)) != nil || qb.Parse(e, []byte(b)) != nil {
		return
	}
	ma, _ := read(e, a)
	mb, _ := read(e, b)
	ma.Ignored, mb.Ignored = "", "" // which is made for each request
	same := reflect.DeepEqual(ma, mb)
	if keys := string(qa.AppendKey(nil)) == string(qb.AppendKey(nil)); keys != same {
		t.Fatalf("%v: %q and %q: equal keys %v, equal requests %v", e, a, b, keys, same)
	}
}

func FuzzParse(f *testing.F) {
	for _, raw := range rules {
		for e := range Endpoint(Endpoints) {
			f.Add(uint8(e), raw)
		}
	}
	f.Fuzz(func(t *testing.T, e uint8, raw string) {
		compare(t, new(Query), Endpoint(e%Endpoints), raw)
	})
}
