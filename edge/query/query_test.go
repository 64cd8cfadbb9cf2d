package query

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

func parse(t *testing.T, e Endpoint, raw string) *Query {
	t.Helper()
	q := new(Query)
	if err := q.Parse(e, []byte(raw)); err != nil {
		t.Fatalf("%v?%s: %v", e, raw, err)
	}
	return q
}

func TestPaging(t *testing.T) {
	lists := []Endpoint{Assets, Quotes, Exchanges, Categories, Chains}
	loose := []Endpoint{Assets, Quotes, Categories, Chains}
	exchanges := []Endpoint{Exchanges}
	for _, c := range []struct {
		on    []Endpoint
		raw   string
		page  int64
		size  int
		first int64
		bad   string // the parameter refused
	}{
		{on: lists, raw: "", page: 1, size: 20},
		{on: lists, raw: "page=3", page: 3, size: 20, first: 40},
		{on: lists, raw: "page=3&size=7", page: 3, size: 7, first: 14},
		{on: lists, raw: "size=100", page: 1, size: 100},
		{on: lists, raw: "page=2&limit=50&offset=5", page: 2, size: 20, first: 20},
		{on: lists, raw: "limit=50", page: 1, size: 50},
		{on: lists, raw: "offset=50", page: 3, size: 20, first: 50},
		{on: lists, raw: "limit=7&offset=20", page: 3, size: 7, first: 20},
		{on: lists, raw: "offset=100000", page: 5001, size: 20, first: 100000},
		{on: lists, raw: "offset=100001", bad: "offset"},
		{on: lists, raw: "offset=-1", bad: "offset"},
		{on: lists, raw: "page=0", bad: "page"},
		{on: lists, raw: "page=-1", bad: "page"},
		{on: lists, raw: "page=1.5", bad: "page"},
		{on: lists, raw: "page=1e3", bad: "page"},
		{on: lists, raw: "page=+1", bad: "page"},
		{on: lists, raw: "page=0x1", bad: "page"},
		{on: lists, raw: "page=-", bad: "page"},
		{on: lists, raw: "page=%31%30", page: 10, size: 20, first: 180},
		{on: lists, raw: "page=007", page: 7, size: 20, first: 120},
		{on: lists, raw: "page=٣", bad: "page"},
		{on: lists, raw: "page=9223372036854775807", page: math.MaxInt64, size: 20, first: past},
		{on: lists, raw: "page=9223372036854775808", bad: "page"},
		{on: lists, raw: "page=99999999999999999999999999", bad: "page"},
		{on: lists, raw: "size=101", bad: "size"},
		{on: lists, raw: "limit=101", bad: "limit"},
		{on: lists, raw: "size=x", bad: "size"},
		{on: lists, raw: "limit=x", bad: "limit"},
		// An empty value is the same as not sent.
		{on: lists, raw: "page=&size=&limit=&offset=&sort=&id=&slug=", page: 1, size: 20},
		{on: lists, raw: "page&limit", page: 1, size: 20},
		{on: lists, raw: "page=&offset=40", page: 3, size: 20, first: 40},
		// The first of a repeated parameter counts, even when empty.
		{on: lists, raw: "page=2&page=x", page: 2, size: 20, first: 20},
		{on: lists, raw: "page=&page=2", page: 1, size: 20},
		{on: lists, raw: "%70age=4", page: 4, size: 20, first: 60},
		{on: lists, raw: "PAGE=4&Size=1;size=2", page: 1, size: 20},
		{on: lists, raw: "size=5;page=2", bad: "size"},
		// 0 and below: the default, but on exchanges.
		{on: loose, raw: "size=0&page=2", page: 2, size: 20, first: 20},
		{on: loose, raw: "size=-9223372036854775808", page: 1, size: 20},
		{on: loose, raw: "limit=-5&offset=3", page: 1, size: 20, first: 3},
		{on: exchanges, raw: "size=0", bad: "size"},
		{on: exchanges, raw: "size=-1", bad: "size"},
		{on: exchanges, raw: "limit=0", bad: "limit"},
		// Checked whatever the mode, but on exchanges.
		{on: loose, raw: "limit=10&size=500", bad: "size"},
		{on: loose, raw: "page=1&limit=500", bad: "limit"},
		{on: loose, raw: "page=1&offset=100001", bad: "offset"},
		{on: loose, raw: "page=1&offset=x", bad: "offset"},
		{on: exchanges, raw: "limit=10&size=500", page: 1, size: 10},
		{on: exchanges, raw: "limit=10&size=x", page: 1, size: 10},
		{on: exchanges, raw: "page=1&limit=500&offset=x", page: 1, size: 20},
		{on: exchanges, raw: "size=10&offset=30", page: 2, size: 20, first: 30},
	} {
		for _, e := range c.on {
			var q Query
			err := q.Parse(e, []byte(c.raw))
			if c.bad != "" {
				if err == nil || err.Param != c.bad {
					t.Errorf("%v?%s: error %v, want one of %s", e, c.raw, err, c.bad)
				}
				continue
			}
			if err != nil {
				t.Errorf("%v?%s: %v", e, c.raw, err)
			} else if q.Page != c.page || q.Size != c.size || q.First != c.first {
				t.Errorf("%v?%s: page %d, size %d, first %d; want %d, %d, %d", e, c.raw, q.Page, q.Size, q.First, c.page, c.size, c.first)
			}
		}
	}
}

func TestSort(t *testing.T) {
	all := []string{"id", "name", "symbol", "slug", "rank", "volume", "market_cap", "volume_24h", "display_name", "board"}
	taken := map[Endpoint]string{
		Assets:     "id name symbol slug rank",
		Quotes:     "id name symbol slug",
		Exchanges:  "id name slug volume",
		Categories: "id name slug market_cap volume_24h",
		Chains:     "id name slug market_cap volume_24h",
	}
	for e, keys := range taken {
		for _, key := range all {
			want := slices.Contains(strings.Fields(keys), key)
			for form, desc := range map[string]bool{"%s": false, "%s:asc": false, "%s:DeSC": true, "%s%%3Aasc": false} {
				raw := "sort=" + fmt.Sprintf(form, strings.ToUpper(key))
				var q Query
				err := q.Parse(e, []byte(raw))
				if !want {
					if err == nil || err.Param != "sort" {
						t.Errorf("%v?%s: error %v, want one of sort", e, raw, err)
					}
				} else if err != nil {
					t.Errorf("%v?%s: %v", e, raw, err)
				} else if q.Sort.Name() != key || q.Desc != desc {
					t.Errorf("%v?%s: %v, descending %v", e, raw, q.Sort, q.Desc)
				}
			}
		}
		for _, raw := range []string{"sort=name:", "sort=name:up", "sort=:asc", "sort=name:asc:asc", "sort=name:asc+", "sort=+name", "sort=name,id", "sort=:"} {
			if err := new(Query).Parse(e, []byte(raw)); err == nil || err.Param != "sort" {
				t.Errorf("%v?%s: error %v, want one of sort", e, raw, err)
			}
		}
		q := parse(t, e, "")
		if group := e == Categories || e == Chains; group != q.Desc || group != (q.Sort == SortMarketCap) || !group && q.Sort != SortID {
			t.Errorf("%v: default %v, descending %v", e, q.Sort, q.Desc)
		}
		// The Kelvin sign and the long s match as INTERFACE.md, "Text", says.
		if q := parse(t, e, "sort=\u017flug"); q.Sort != SortSlug {
			t.Errorf("%v: long s not folded", e)
		}
	}
	if q := parse(t, Assets, "sort=ran\u212a:desc"); q.Sort != SortRank || !q.Desc {
		t.Errorf("Kelvin sign not folded: %v", q.Sort)
	}
}

func TestFilters(t *testing.T) {
	q := parse(t, Assets, "id=9,2,,9,-7,02&symbol=bTc,%C3%A4,btc&slug=b,A,%26x,a+b,,a%2Cb")
	if want := []int64{-7, 2, 9}; !q.HasID || !slices.Equal(q.IDs, want) {
		t.Errorf("ids %v, want %v", q.IDs, want)
	}
	if got, want := fmt.Sprintf("%q", q.Symbols), `["btc" "Ä"]`; !q.HasSymbol || got != want {
		t.Errorf("symbols %s, want %s", got, want)
	}
	if got, want := fmt.Sprintf("%q", q.Slugs), `["" "&x" "a" "a b" "b"]`; !q.HasSlug || got != want {
		t.Errorf("slugs %s, want %s", got, want)
	}
	q = parse(t, Quotes, "id=,&slug=,")
	if !q.HasID || len(q.IDs) != 0 || !q.HasSlug || len(q.Slugs) != 1 || len(q.Slugs[0]) != 0 || q.HasSymbol || !q.Filtered() {
		t.Errorf("only empty elements: %+v", q)
	}
	q = parse(t, Quotes, "slug=%ff%zz%4%,%00")
	if got, want := fmt.Sprintf("%q", q.Slugs), `["\x00" "\xff%zz%4%"]`; got != want {
		t.Errorf("slugs %s, want %s", got, want)
	}
	for _, e := range []Endpoint{Exchanges, Categories, Chains} {
		if q := parse(t, e, "symbol="+strings.Repeat(",", 500)); q.HasSymbol {
			t.Errorf("%v reads symbol", e)
		}
	}
}

func TestValues(t *testing.T) {
	for _, c := range []struct {
		param string
		on    []Endpoint
	}{
		{"id", []Endpoint{Assets, Quotes, Exchanges, Categories, Chains}},
		{"slug", []Endpoint{Assets, Quotes, Exchanges, Categories, Chains}},
		{"symbol", []Endpoint{Assets, Quotes}},
		{"fields", []Endpoint{Assets}},
	} {
		for e := range Endpoint(Endpoints) {
			for _, separator := range []string{",", "%2c"} {
				raw := c.param + "=1" + strings.Repeat(separator, 99)
				if err := new(Query).Parse(e, []byte(raw)); err != nil {
					t.Errorf("%v with 100 of %s: %v", e, c.param, err)
				}
				err := new(Query).Parse(e, []byte(raw+separator))
				if reads := slices.Contains(c.on, e); reads && (err == nil || err.Param != c.param) || !reads && err != nil {
					t.Errorf("%v with 101 of %s: error %v", e, c.param, err)
				}
			}
		}
	}
	for raw, element := range map[string]int{
		"id=1,x": 2, "id=1.0": 1, "id=9223372036854775808": 1, "id=+1": 1, "id=%2B1": 1, "id=,,1%2C-": 4, "id=--1,x": 1, "id=" + strings.Repeat("1,", 99) + "x": 100,
	} {
		if err := new(Query).Parse(Assets, []byte(raw)); err == nil || err.Param != "id" || !strings.Contains(err.Message, fmt.Sprintf(": element %d is ", element)) {
			t.Errorf("%s: error %v, want one of element %d of id", raw, err, element)
		}
	}
	if q := parse(t, Assets, "id=-9223372036854775808,9223372036854775807"); !slices.Equal(q.IDs, []int64{math.MinInt64, math.MaxInt64}) {
		t.Errorf("ids %v", q.IDs)
	}
}

func TestFields(t *testing.T) {
	for raw, want := range map[string]bool{
		"fields=links": true, "fields=LINKS": true, "fields=x,links,y": true, "fields=lin%E2%84%AAs": true,
		"fields=link": false, "fields=+links": false, "fields=": false, "fields=&fields=links": false, "field=links": false,
	} {
		if q := parse(t, Assets, raw); q.Links != want {
			t.Errorf("%s: links %v", raw, q.Links)
		}
	}
	if q := parse(t, Quotes, "fields=links"); q.Links {
		t.Error("quotes reads fields")
	}
}

func TestBy(t *testing.T) {
	for raw, want := range map[string]bool{
		"": true, "by=": true, "by=+%09%0a%0b%0c%0d": true, "by=GAINERS": true, "by=%20gainer%C5%BF+": true, "by=&by=x": true,
		"page=x&size=500&sort=up&id=z": true, "BY=searched": true,
		"by=searched": false, "by=gainers,": false, "by=%C2%A0gainers": false, "by=%00": false,
	} {
		if err := new(Query).Parse(Trending, []byte(raw)); (err == nil) != want {
			t.Errorf("trending?%s: %v", raw, err)
		}
	}
	if q := parse(t, Global, "by=x&page=x&id="+strings.Repeat(",", 200)); q.Filtered() || q.Size != 0 {
		t.Errorf("global reads parameters: %+v", q)
	}
}

// TestKeys: what must share a cached answer and what must not.
func TestKeys(t *testing.T) {
	groups := [][]string{
		{"", "page=1", "size=20", "size=0", "limit=20&offset=0", "offset=0", "sort=id", "sort=ID:asc", "x=y", "sort=&id=", "fields=x", "%70age=1", "page=1&offset=60"},
		{"page=2&size=20", "limit=20&offset=20", "offset=20"},
		{"offset=10"},
		{"page=3&size=10", "offset=20&limit=10"},
		{"page=9223372036854775807"},
		{"page=9223372036854775806"},
		{"sort=id:desc"},
		{"sort=name"},
		{"fields=links"},
		{"id=1"},
		{"id=1,2", "id=2,1", "id=2,,01,1,2&page=1"},
		{"id=-1,2"},
		{"id=,", "id=,,"},
		{"slug=,", "slug=,,"},
		{"symbol=,"},
		{"slug=a,b", "slug=B,a,A", "slug=%61,b"},
		{"slug=a%00b"},
		{"slug=ab"},
		{"slug=a,ab"},
		{"slug=a&symbol=b"},
		{"slug=b&symbol=a"},
	}
	owner := map[string]string{}
	for _, group := range groups {
		want := parse(t, Assets, group[0]).AppendKey(nil)
		for _, raw := range group {
			if got := parse(t, Assets, raw).AppendKey(nil); !bytes.Equal(got, want) {
				t.Errorf("keys of %q and %q differ", raw, group[0])
			}
		}
		if other, taken := owner[string(want)]; taken {
			t.Errorf("%q and %q share a key", group[0], other)
		}
		owner[string(want)] = group[0]
	}
	for e := range Endpoint(Endpoints) {
		key := parse(t, e, "").AppendKey([]byte("x"))[1:]
		if other, taken := owner[string(key)]; taken && e != Assets {
			t.Errorf("%v shares a key with %q", e, other)
		}
		owner[string(key)] = e.Name()
	}
}

// TestIgnored: one row for each rule of INTERFACE.md, "Parameters" about
// X-Ignored; the model has them all at once.
func TestIgnored(t *testing.T) {
	lists := []Endpoint{Assets, Quotes, Exchanges, Categories, Chains}
	long := strings.Repeat("x", 250)
	for _, c := range []struct {
		on        []Endpoint
		raw, want string
	}{
		{lists, "id=1&slug=a&page=2&size=5&sort=id", ""},
		{lists, "id=1&id=2", "id"},
		{lists, "id=1&i%64=&id", "id"},
		{lists, "id=&id=", "id"},
		{lists, "page=2&size=5&limit=5&offset=1", "limit,offset"},
		{lists, "size=5&limit=5&offset=1", "size"},
		{lists, "page=&limit=5&size=", ""},
		{lists, "page=2&limit=&offset=", ""},
		{lists, "page=&page=2&limit=5", "page"},
		{lists, "b=1&a&b&%61=2&ID=1&by=x", "ID,a,b,by"},
		{lists, "=1&&=&%", "%25"},
		{lists, "mdk_live_a=1&xmdk%5Flive_=1&mdk_live=1&MDK_LIVE_=1", "MDK_LIVE_,mdk_live"},
		{lists, "a+b&a,b&~-._&%c3%a4&%0d%0a", "%0D%0A,a%20b,a%2Cb,~-._,%C3%A4"},
		{lists, long + "&y12345&y1234&z", long + ",y1234"},
		{lists, "y&z&" + long + "1234567&a", "a"},
		{lists, long + "1234567", ""},
		{lists, "a&" + long + "1234", "a," + long + "1234"},
		{lists, "a&" + long + "12345", "a"},
		{lists, strings.Repeat("%ff", 85), strings.Repeat("%FF", 85)},
		{lists, strings.Repeat("%ff", 86), ""},
		{[]Endpoint{Assets}, "symbol=a&fields=links", ""},
		{[]Endpoint{Quotes}, "symbol=a&fields=links", "fields"},
		{[]Endpoint{Exchanges, Categories, Chains}, "symbol=a&fields=", "fields,symbol"},
		{[]Endpoint{Exchanges}, "page=1&limit=500&offset=x", "limit,offset"},
		{[]Endpoint{Trending}, "by=&page=1&id=&x", "id,page,x"},
		{[]Endpoint{Trending}, "by=&by=x", "by"},
		{[]Endpoint{Global}, "by=&page=1&x&x", "by,page,x"},
	} {
		for _, e := range c.on {
			if got := string(parse(t, e, c.raw).AppendIgnored(nil)); got != c.want {
				t.Errorf("%v?%s: X-Ignored %q, want %q", e, c.raw, got, c.want)
			}
		}
	}
}

// TestIgnoredBounded: however many names a client sends, and in whatever order, no
// more of them are kept than the header may take, and those that come first.
func TestIgnoredBounded(t *testing.T) {
	falling := strings.Split(strings.TrimSuffix(distinctNames(64<<10), "&"), "&")
	rising := slices.Sorted(slices.Values(falling))
	want := "" // names of three bytes, some of them with escapes
	for i, name := range rising {
		next := want + ","[:min(i, 1)] + string(AppendEscaped(nil, []byte(name)))
		if len(next) > MaxIgnored {
			break
		}
		want = next
	}
	for _, names := range [][]string{falling, rising} {
		q := parse(t, Global, strings.Join(names, "&"))
		if len(q.Ignored) != maxNames || cap(q.Ignored) > 2*maxNames {
			t.Errorf("%d names are kept, with room for %d", len(q.Ignored), cap(q.Ignored))
		}
		if got := string(q.AppendIgnored(nil)); got != want {
			t.Errorf("X-Ignored %q, want %q", got, want)
		}
	}
}

func TestMessages(t *testing.T) {
	for _, e := range []*ParamError{errIDElement[0], errIDElement[maxValues-1], errIDCount, errSymbolCount, errSlugCount, errFieldsCount, errPageInt, errPageRange,
		errSizeInt, errSizeRange, errLimitInt, errLimitRange, errOffsetInt, errOffsetRange, errExchangeSizeInt, errExchangeSizeRange,
		errExchangeLimitInt, errExchangeLimitRange, errBy, endpoints[Assets].errSort, endpoints[Chains].errSort} {
		if !strings.HasPrefix(e.Message, e.Param+": ") || !strings.Contains(e.Message, "; it takes ") {
			t.Errorf("message %q", e.Message)
		}
		if quoted := strconv.Quote(e.Message); quoted != `"`+e.Message+`"` || utf8.RuneCountInString(e.Message) != len(e.Message) {
			t.Errorf("message %q does not stand in JSON as it is", e.Message)
		}
	}
}
