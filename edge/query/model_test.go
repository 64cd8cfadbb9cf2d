package query

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/internal/model"
	"example.com/marketdata/internal/test/gen"
	"pgregory.net/rapid"
)

// asked converts the query to the form of internal/model.
func (q *Query) asked() *model.Query {
	a := &model.Query{Endpoint: q.Endpoint.Name(), CSV: q.CSV, Ignored: string(q.Ignored.Append(nil))}
	if q.Endpoint == Trending || q.Endpoint == Global || q.Endpoint == Search {
		a.Text = string(q.Text)
		return a
	}
	if q.Endpoint == History {
		if a.Window = maxName; q.Window < MaxWindow {
			a.Window = artifacts.HistoryWindows[q.Window].Name
		}
	}
	a.Sort, a.Desc, a.Tails, a.Page, a.Offset, a.Size = q.Sort.Name(), q.Desc, q.Tails, q.Page, q.First, int64(q.Size)
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
	filter("category", q.HasCategory, len(q.Categories), func(i int) string { return string(q.Categories[i]) })
	if e := q.Endpoint; e == Candles || e == Prices {
		a.HasFrom, a.HasTo, a.From, a.To = q.Past.HasFrom, q.Past.HasTo, q.Past.From, q.Past.To
		a.Times = append(a.Times, q.Past.Times...)
		if e == Candles {
			a.Interval = artifacts.PastIntervals[q.Past.Interval].Name
		}
	}
	if c := &q.Change; q.Endpoint == Changes {
		a.Since, a.HasSince = c.Since, c.HasSince
		a.Collections = named(c.HasCollection, c.Collections, artifacts.ChangeCollections)
		a.Kinds = named(c.HasKind, c.Kinds, artifacts.ChangeKinds)
	}
	filter("chain", q.HasChain, len(q.Chains), func(i int) string { return string(q.Chains[i]) })
	return a
}

// named returns the names in a set, or nil if the parameter was not sent.
func named(sent bool, set uint8, names [4]string) []string {
	if !sent {
		return nil
	}
	some := []string{}
	for i, name := range names {
		if set&(1<<i) != 0 {
			some = append(some, name)
		}
	}
	return some
}

// read parses a query string with the model.
func read(e Endpoint, raw string, table bool) (*model.Query, *model.Answer) {
	name := e.Name()
	if table {
		name += ".csv"
	}
	want, refusal := model.Parse(model.Prefix + name + "?" + raw)
	if refusal == nil {
		want.Offset = min(want.Offset, maxFirst)
	}
	return want, refusal
}

// compare parses a query string with both parsers, and fails if the results differ.
func compare(t interface{ Fatalf(string, ...any) }, q *Query, e Endpoint, raw string) {
	compareAs(t, q, e, raw, false)
	if e.HasCSV() {
		compareAs(t, q, e, raw, true)
	}
}

func compareAs(t interface{ Fatalf(string, ...any) }, q *Query, e Endpoint, raw string, table bool) {
	want, refusal := read(e, raw, table)
	sent := []byte(raw)
	err := q.parse(e, sent, table)
	if err != nil {
		if refusal == nil || !slices.ContainsFunc(refusal.Blame,
			func(blame string) bool { return strings.HasPrefix(err.Message, blame) }) {
			t.Fatalf("%v?%s: %v; the model refuses %+v", e, raw, err, refusal)
		}
		return
	}
	// No result may refer to the query string.
	for i := range sent {
		sent[i] = 'x'
	}
	if got := q.asked(); refusal != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%v?%s:\n got %+v\nwant %+v, %+v", e, raw, got, want, refusal)
	}
}

func TestAgainstModel(t *testing.T) {
	var q Query // reused, so that the test notices state left over from an earlier query
	rapid.Check(t, func(t *rapid.T) {
		e := Endpoint(rapid.IntRange(0, Endpoints-1).Draw(t, "endpoint"))
		compare(t, &q, e, gen.Queries(e.Name()).Draw(t, "query"))
	})
}

// TestKeyAgainstModel checks that two queries have equal keys if and only if they are the same request for
// the model.
func TestKeyAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := Endpoint(rapid.IntRange(0, Endpoints-1).Draw(t, "endpoint"))
		queries := gen.Queries(e.Name())
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
	ma, ra := read(e, a, false)
	mb, rb := read(e, b, false)
	if ra != nil || rb != nil {
		t.Fatalf("%v: the model refuses what Parse takes: %q: %+v, %q: %+v", e, a, ra, b, rb)
	}
	ma.Ignored, mb.Ignored = "", "" // which is not part of the key
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

// FuzzTime checks that times are parsed as the model parses them.
func FuzzTime(f *testing.F) {
	for _, text := range []string{"2026-11-21T12:10:00Z", "2023-02-29T00:00:00Z", "0000-01-01T00:00:00Z",
		"2026-11-21T24:00:00Z", "2026-11-21T12:10Z", "2026-11-21T14:10:00.000+02:00", "2026-11-21T12:10:00,5Z",
		"2026-11-21 12:10:00.1234567z", "2026-11-21T12:10.5Z", "2026-11-21T12:10:00+24:00", "2026-11-21T12:10:00",
		// The forms of Java's OffsetDateTime, Python's isoformat and str, C#'s "o" and RFC 3339, 4.3, and
		// forms that no program writes.
		"2026-11-21T14:10+02:00", "2026-11-21T12:10:00+00:00", "2026-11-21 12:10:00+00:00",
		"2026-11-21T09:40:00.0000000-02:30", "2026-11-21t12:10:00.000000000-00:00", "1795255800",
		"2026-11-21T1:10:00Z"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, ok := ParseTime([]byte(text))
		want, wantOK := model.ParsePin(text)
		if ok != wantOK || ok && !got.Equal(want) {
			t.Errorf("%q: %v %v, want %v %v", text, got, ok, want, wantOK)
		}
	})
}
