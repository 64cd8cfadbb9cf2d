package query

import (
	"fmt"
	"math/big"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"sort"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// asked is what a request asks for, in the words of INTERFACE.md. It is worked
// out by a second, plain reading that shares no code with Parse.
type asked struct {
	bad         string // the parameter that is invalid
	sort        string
	desc, links bool
	page, size  int64
	first       string // decimal, unbounded
	ids         []int64
	slugs       []string
	symbols     []string
	hasID       bool
	hasSlug     bool
	hasSymbol   bool
	listOfRows  bool // has pages at all
	ignored     string
}

var (
	modelEscape  = regexp.MustCompile(`%[0-9a-fA-F]{2}|\+`)
	modelInteger = regexp.MustCompile(`^-?[0-9]+$`)
)

func modelUnescape(s string) string {
	return modelEscape.ReplaceAllStringFunc(s, func(m string) string {
		if m == "+" {
			return " "
		}
		var b byte
		fmt.Sscanf(m[1:], "%x", &b)
		return string([]byte{b})
	})
}

func modelFold(s string) string {
	var out strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if r == utf8.RuneError && n == 1 {
			out.WriteByte(s[0])
		} else {
			least := r
			for o := unicode.SimpleFold(r); o != r; o = unicode.SimpleFold(o) {
				if o < least {
					least = o
				}
			}
			if least >= 'A' && least <= 'Z' {
				least = unicode.ToLower(least)
			}
			out.WriteRune(least)
		}
		s = s[n:]
	}
	return out.String()
}

func modelInt(s string) (*big.Int, bool) {
	if !modelInteger.MatchString(s) {
		return nil, false
	}
	n, _ := new(big.Int).SetString(s, 10)
	return n, n.IsInt64()
}

func modelSet(list []string) []string {
	set := map[string]bool{}
	for _, s := range list {
		set[s] = true
	}
	out := []string{}
	for s := range set {
		out = append(out, s)
	}
	sort.Strings(out)
	return out
}

// modelIgnored is the header X-Ignored: first who is in it, then how it is
// written.
func modelIgnored(endpoint, raw string) string {
	times, first := map[string]int{}, map[string]string{}
	for _, pair := range strings.Split(raw, "&") {
		name, value, _ := strings.Cut(pair, "=")
		if name = modelUnescape(name); times[name] == 0 {
			first[name] = value
		}
		times[name]++
	}
	var names []string
	for name, n := range times {
		reads := strings.Fields("id slug page size limit offset sort " + map[string]string{"assets": "symbol fields", "quotes": "symbol"}[endpoint])
		switch endpoint {
		case "global":
			reads = nil
		case "trending":
			reads = []string{"by"}
		}
		other := []string{"limit", "offset"}
		if first["page"] == "" && first["limit"]+first["offset"] != "" {
			other = []string{"page", "size"}
		}
		ignored := n > 1 || !slices.Contains(reads, name) || first[name] != "" && slices.Contains(other, name)
		if ignored && name != "" && !strings.Contains(name, "mdk_live_") {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	header := ""
	for _, name := range names {
		encoded := strings.ReplaceAll(url.QueryEscape(name), "+", "%20")
		if len(header)+len(encoded)+1 > 257 {
			break
		}
		header += "," + encoded
	}
	return strings.TrimPrefix(header, ",")
}

func model(endpoint, raw string) asked {
	a := modelAsked(endpoint, raw)
	if a.bad == "" {
		a.ignored = modelIgnored(endpoint, raw)
	}
	return a
}

func modelAsked(endpoint, raw string) asked {
	sent := map[string]string{}
	for _, pair := range strings.Split(raw, "&") {
		name, value, _ := strings.Cut(pair, "=")
		name = modelUnescape(name)
		if _, again := sent[name]; !again {
			sent[name] = modelUnescape(value)
		}
	}
	for name, value := range sent {
		if value == "" {
			delete(sent, name)
		}
	}
	has := func(name string) bool { _, ok := sent[name]; return ok }

	var a asked
	switch endpoint {
	case "global":
		return a
	case "trending":
		by := modelFold(strings.Trim(sent["by"], " \t\n\r\v\f"))
		if by != "" && by != "gainers" {
			a.bad = "by"
		}
		return a
	}
	a.listOfRows = true

	if a.hasID = has("id"); a.hasID {
		elements := strings.Split(sent["id"], ",")
		if len(elements) > 100 {
			return asked{bad: "id"}
		}
		seen := map[int64]bool{}
		for _, e := range elements {
			if e == "" {
				continue
			}
			n, ok := modelInt(e)
			if !ok {
				return asked{bad: "id"}
			}
			if !seen[n.Int64()] {
				seen[n.Int64()] = true
				a.ids = append(a.ids, n.Int64())
			}
		}
		sort.Slice(a.ids, func(i, j int) bool { return a.ids[i] < a.ids[j] })
	}
	if a.hasSymbol = has("symbol") && (endpoint == "assets" || endpoint == "quotes"); a.hasSymbol {
		elements := strings.Split(sent["symbol"], ",")
		if len(elements) > 100 {
			return asked{bad: "symbol"}
		}
		a.symbols = modelSet(strings.Split(modelFold(sent["symbol"]), ","))
	}
	if a.hasSlug = has("slug"); a.hasSlug {
		elements := strings.Split(sent["slug"], ",")
		if len(elements) > 100 {
			return asked{bad: "slug"}
		}
		a.slugs = modelSet(strings.Split(modelFold(sent["slug"]), ","))
	}

	pageMode := has("page") || !has("limit") && !has("offset")
	numbers := map[string]*big.Int{"page": big.NewInt(1), "size": big.NewInt(20), "limit": big.NewInt(20), "offset": big.NewInt(0)}
	for _, name := range []string{"page", "size", "limit", "offset"} {
		read := true
		if endpoint == "exchanges" {
			read = pageMode == (name == "page" || name == "size")
		}
		if !read || !has(name) {
			continue
		}
		n, ok := modelInt(sent[name])
		if !ok {
			return asked{bad: name}
		}
		low, high, zeroIsDefault := int64(0), int64(0), false
		switch name {
		case "page":
			low, high = 1, 1<<63-1
		case "offset":
			low, high = 0, 100000
		default:
			low, high, zeroIsDefault = 1, 100, endpoint != "exchanges"
		}
		if zeroIsDefault && n.Sign() <= 0 {
			continue
		}
		if n.Int64() < low || n.Int64() > high {
			return asked{bad: name}
		}
		numbers[name] = n
	}
	if pageMode {
		a.page, a.size = numbers["page"].Int64(), numbers["size"].Int64()
		before := new(big.Int).Sub(numbers["page"], big.NewInt(1))
		a.first = before.Mul(before, numbers["size"]).String()
	} else {
		a.size = numbers["limit"].Int64()
		a.page = numbers["offset"].Int64()/a.size + 1
		a.first = numbers["offset"].String()
	}

	known := map[string][]string{
		"assets": {"id", "name", "symbol", "slug", "rank"}, "quotes": {"id", "name", "symbol", "slug"},
		"exchanges":  {"id", "name", "slug", "volume"},
		"categories": {"id", "name", "slug", "market_cap", "volume_24h"}, "chains": {"id", "name", "slug", "market_cap", "volume_24h"},
	}[endpoint]
	order := sent["sort"]
	if !has("sort") {
		order = "id:asc"
		if endpoint == "categories" || endpoint == "chains" {
			order = "market_cap:desc"
		}
	}
	for _, key := range known {
		switch modelFold(order) {
		case key, key + ":asc":
			a.sort = key
		case key + ":desc":
			a.sort, a.desc = key, true
		}
	}
	if a.sort == "" {
		return asked{bad: "sort"}
	}
	if has("fields") && endpoint == "assets" {
		names := strings.Split(sent["fields"], ",")
		if len(names) > 100 {
			return asked{bad: "fields"}
		}
		for _, name := range names {
			a.links = a.links || modelFold(name) == "links"
		}
	}
	return a
}

func (q *Query) asked() asked {
	a := asked{desc: q.Desc, links: q.Links, page: q.Page, size: int64(q.Size), hasID: q.HasID, hasSlug: q.HasSlug, hasSymbol: q.HasSymbol, ignored: string(q.AppendIgnored(nil))}
	if q.Endpoint == Trending || q.Endpoint == Global {
		return a
	}
	a.listOfRows, a.sort, a.first = true, q.Sort.Name(), fmt.Sprint(q.First)
	a.ids = append(a.ids, q.IDs...)
	for _, s := range q.Slugs {
		a.slugs = append(a.slugs, string(s))
	}
	for _, s := range q.Symbols {
		a.symbols = append(a.symbols, string(s))
	}
	return a
}

// compare asks both readings, and fails when they differ in anything.
func compare(t interface{ Fatalf(string, ...any) }, q *Query, e Endpoint, raw string) {
	want := model(e.Name(), raw)
	sent := []byte(raw)
	err := q.Parse(e, sent)
	if err != nil {
		if err.Param != want.bad {
			t.Fatalf("%v?%s: %v; the model refuses %q", e, raw, err, want.bad)
		}
		return
	}
	// Nothing may point into the query string.
	for i := range sent {
		sent[i] = 'x'
	}
	got := q.asked()
	if first, _ := new(big.Int).SetString(want.first, 10); first != nil && first.Cmp(big.NewInt(Past)) >= 0 {
		want.first = fmt.Sprint(int64(Past))
	}
	if want.bad != "" || !reflect.DeepEqual(got, want) {
		t.Fatalf("%v?%s:\n got %+v\nwant %+v", e, raw, got, want)
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
		return rapid.SampledFrom([]string{"id", "name", "NAME", "symbol", "slug", "\u017flug", "rank", "volume", "market_cap", "volume_24h", "display_name", "", "+id"}).Draw(t, "key") +
			rapid.SampledFrom([]string{"", ":asc", ":desc", ":DESC", ":", ":up", "%3adesc", ":asc:asc", ":de\u017fc"}).Draw(t, "direction")
	})
	values := map[string]*rapid.Generator[string]{
		"id": list(number), "symbol": list(text), "slug": list(text), "page": number, "size": number, "limit": number, "offset": number, "sort": order,
		"fields": list(rapid.SampledFrom([]string{"links", "LINKS", "x", "", "+links", "lin%E2%84%AAs"})),
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
		var qa, qb Query
		if qa.Parse(e, []byte(a)) != nil || qb.Parse(e, []byte(b)) != nil {
			return
		}
		same := reflect.DeepEqual(modelAsked(e.Name(), a), modelAsked(e.Name(), b))
		if keys := string(qa.AppendKey(nil)) == string(qb.AppendKey(nil)); keys != same {
			t.Fatalf("%v: %q and %q: equal keys %v, equal requests %v", e, a, b, keys, same)
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, raw := range []string{"", "page=2&size=50&sort=name:desc", "limit=10&offset=100000", "id=1,2,,-3&slug=a%26b,%C3%84&symbol=\u212a", "fields=links&%70age=1",
		"by=+gainers", "a=%&b=%4&c=%zz&=&&==", "id=1&i%64=2&mdk_live_x&B&%62&a%2cb&limit=5&page=1", "id=" + strings.Repeat(",", 100), "slug=\xff\xfe,%ff", "page=9223372036854775807"} {
		for e := range Endpoint(Endpoints) {
			f.Add(uint8(e), raw)
		}
	}
	f.Fuzz(func(t *testing.T, e uint8, raw string) {
		compare(t, new(Query), Endpoint(e%Endpoints), raw)
	})
}
