package query

import (
	"fmt"
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

// repeated returns a list of n ones, separated by commas.
func repeated(n int) string { return strings.TrimSuffix(strings.Repeat("1,", n), ",") }

// rules contains edge cases of the rules of INTERFACE.md, "Parameters". FuzzParse starts from each of them
// on every endpoint, and compares with internal/model, whose own tests have answers that were worked out by
// hand.
var rules = append(allSorts(), []string{
	// Paging: both modes, bounds, forms of numbers, empty and repeated values.
	"", "page=3", "page=3&size=7", "size=100", "size=101", "size=0&page=2", "size=-1", "size=-9223372036854775808",
	"size=x", "page=2&limit=50&offset=5", "limit=50", "limit=7&offset=20",
	"limit=0", "limit=-5&offset=3", "limit=101", "limit=x", "offset=50", "offset=100000", "offset=100001", "offset=-1",
	"page=0", "page=-1", "page=1.5", "page=1e3", "page=+1", "page=0x1",
	"page=-", "page=%31%30", "page=007", "page=٣", "page=9223372036854775807", "page=4611686018427387904&size=100",
	"page=9223372036854775808", "page=99999999999999999999999999",
	"page=&size=&limit=&offset=&sort=&id=&slug=", "page&limit", "page=&offset=40", "page=2&page=x", "page=&page=2",
	"%70age=4", "PAGE=4&Size=1;size=2", "size=5;page=2",
	"limit=10&size=500", "limit=10&size=x", "page=1&limit=500", "page=1&limit=50&offset=20", "page=1&offset=100001",
	"page=1&offset=x", "page=1&limit=500&offset=x", "size=10&offset=30",
	// Sort: every key in every direction, and invalid values.
	"sort=name:", "sort=name:up", "sort=:asc", "sort=name:asc:asc", "sort=name:asc+", "sort=+name", "sort=name,id",
	"sort=:", "sort=\u017flug", "sort=ran\u212a:desc", "sort=ID%3Aasc", "sort=name:DeSC",
	"sort=display_name",
	// Filters: order, repetition, case, escapes, counts.
	"id=9,2,,9,-7,02&symbol=bTc,%C3%A4,btc&slug=b,A,%26x,a+b,,a%2Cb", "id=,&slug=,", "slug=%ff%zz%4%,%00",
	"id=-9223372036854775808,9223372036854775807",
	"id=1,x", "id=1.0", "id=9223372036854775808", "id=+1", "id=%2B1", "id=,,1%2C-", "id=--1,x",
	"id=" + repeated(99) + ",x",
	"id=" + repeated(100), "id=" + repeated(101), "slug=" + repeated(100), "slug=" + repeated(101),
	"symbol=" + repeated(100), "symbol=1" + strings.Repeat("%2c", 100),
	"fields=" + repeated(100), "fields=" + repeated(101),
	// Lists that are sent in parts.
	"id=1&id=9", "id[]=1&id[]=9", "id%5B%5D=9&id%5b%5D=1", "id[0]=1&id[1]=9", "id[1]=9&id=1&id[]=2", "id=&id=9",
	"id=1&slug[]=a&id[007]=9&slug[]=b&symbol[2]=c", "id[x]=1", "id[=1", "id]=1", "[]=1", "id[][]=1", "[]id=1",
	"id=&id=3&id=9&", "id[10]=9&x=1&id[2]=3&id[]=", "sort=name%3adesc&slug=salt%2d%26%2dco%2casset%2d9",
	"id[]=", "page[]=2",
	"fields[]=x&fields[]=links", "slug=,&slug=a", "slug=a%2Cb&slug=c", "category[]=a&chain[0]=b&category[]=c",
	"id=" + repeated(60) + "&id[]=" + repeated(40), "id=" + repeated(60) + "&id[]=" + repeated(41), "id[]=1&id[]=x",
	strings.Repeat("slug[]=%C3%84&", 100), strings.Repeat("slug[]=%C3%84&", 101), "q[]=a&q=b", "by[]=gainers",
	"fields=links", "fields=LINKS", "fields=x,links,y", "fields=lin%E2%84%AAs", "fields=link", "fields=linksx",
	"fields=+links", "fields=", "fields=&fields=links", "field=links",
	"by=", "by=+%09%0a%0b%0c%0d", "by=GAINERS", "by=%20gainer%C5%BF+", "by=&by=x", "page=x&size=500&sort=up&id=z",
	"BY=searched", "by=searched", "by=gainers,", "by=%C2%A0gainers", "by=%00",
	// History: at least one filter, smaller pages, windows.
	"id=1&window=24h", "id=1&window=7D", "window=1y&slug=a&symbol=b", "symbol=a&window=", "id=1&window=2d", "window=7d",
	"id=&slug=", "id=1&size=20", "id=1&size=21", "id=1&limit=21", "id=1&limit=0&offset=40",
	"id=1&window=7d&window=1y", "id=1&window=MAX", "id=1&window=max&size=21",
	// Candles and prices: intervals, ranges, times.
	"id=1&interval=1H", "id=1&interval=", "id=1&interval=4h", "id=1&interval=1d&from=0&to=1", "id=1&from=2&to=1",
	"id=1&from=2026-11-21T10:00:00Z&to=2026-11-21T12:00:00%2B02:00", "id=1&from=x", "id=1&to=2026-11-21",
	"id=1&from=2026-11-21T10:00:00.9Z&from=1", "id=1&from=-62135596800", "id=1&from=-62135596801",
	"id=1&to=253402300799", "id=1&to=253402300800", "time=1", "id=1&time=", "id=1&time=,", "id=1&time=1,,x",
	"id=1&time=5,4,5", "id=1&time=5&time=4", "id=1&time[]=5&time[]=4", "id=1&time=1&size=101", "id=1&time=1&size=0",
	"id=1&time=1&limit=-1&offset=3", "slug=a&time=" + strings.Repeat("1,", 99) + "1",
	"slug=a&time=" + strings.Repeat("1,", 100) + "1",
	"id=1&sort=up&fields=links", "id=1&window=%37d", "id=1&window=+7d",
	// Search: words, their number and length.
	"q=BTC", "q=b%C3%84+%E2%84%AA", "q=", "q=+", "q=%20%20a+", "q=a%09b", "q=a+b+c+d+e+f+g+h", "q=+a++b+c+d+e+f+g+h+",
	"q=a+b+c+d+e+f+g+h+i", "q=" + strings.Repeat("x", 64), "q=" + strings.Repeat("x", 65),
	"q=" + strings.Repeat("%C3%A4", 32),
	"q=" + strings.Repeat("%C3%A4", 32) + "x", "q=%ff", "q=%00", "q=a&q=b", "q=&q=b", "Q=a", "q=a&size=0&page=x",
	// X-Ignored: the names of ignored parameters, sorted, without duplicates, escaped, without API keys, as
	// many as fit.
	"id=1&slug=a&page=2&size=5&sort=id", "id=1&id=2", "id=1&i%64=&id", "id=&id=", "page=2&size=5&limit=5&offset=1",
	"size=5&limit=5&offset=1", "page=&limit=5&size=", "page=2&limit=&offset=",
	"page=&page=2&limit=5", "b=1&a&b&%61=2&ID=1&by=x", "=1&&=&%", "mdk_live_a=1&xmdk%5Flive_=1&mdk_live=1&MDK_LIVE_=1",
	"a+b&a,b&~-._&%c3%a4&%0d%0a",
	strings.Repeat("x", 250) + "&y12345&y1234&z", "y&z&" + strings.Repeat("x", 257) + "&a",
	"a&" + strings.Repeat("x", 254), "a&" + strings.Repeat("x", 255), strings.Repeat("%ff", 85),
	strings.Repeat("%ff", 86),
	"symbol=a&fields=links", "by=&page=1&id=&x", "by=&page=1&x&x", "a=%&b=%4&c=%zz&=&&==",
}...)

func allSorts() (all []string) {
	for _, name := range sortNames {
		all = append(all, "sort="+name)
	}
	return all
}

// TestKeys checks that two queries have equal keys if and only if they ask for the same answer.
func TestKeys(t *testing.T) {
	same := append(slices.Clone(rules), "limit=20&offset=20", "page=2&size=20", "offset=20", "offset=10",
		"page=3&size=10", "offset=20&limit=10", "page=9223372036854775806",
		"id=1", "id=1,2", "id=2,1", "id=2,,01,1,2&page=1", "id=,,", "id=,", "slug=,", "slug=,,", "symbol=,", "slug=a,b",
		"slug=B,a,A", "slug=%61,b", "slug=a%00b", "slug=ab", "slug=a,ab",
		"slug=a&symbol=b", "slug=b&symbol=a", "q=a+b&id=1", "q=A%20b", "q=a++b", "q=+a+b", "q=ab")
	for e := range Endpoint(Endpoints) {
		byKey, byMeaning := map[string]string{}, map[string]string{} // the first query with each key or meaning
		for _, raw := range same {
			q := new(Query)
			want, refusal := read(e, raw, false)
			if err := q.Parse(e, []byte(raw)); err != nil || refusal != nil {
				if err == nil {
					t.Errorf("%v?%s: the model refuses it: %+v", e, raw, refusal)
				}
				continue
			}
			want.Ignored = "" // which is not part of the key
			key, meaning := string(q.AppendKey(nil)), fmt.Sprintf("%#v", *want)
			if _, known := byKey[key]; !known {
				byKey[key] = raw
			}
			if _, known := byMeaning[meaning]; !known {
				byMeaning[meaning] = raw
			}
			if byKey[key] != byMeaning[meaning] {
				t.Errorf("%v?%s: the key of %q, and asks for what %q does", e, raw, byKey[key], byMeaning[meaning])
			}
		}
	}
	owner := map[string]Endpoint{}
	for e := range Endpoint(Endpoints) {
		key := string(parse(t, e, "id=1&q=1&time=0").AppendKey(nil))
		if other, taken := owner[key]; taken {
			t.Errorf("%v and %v share a key", e, other)
		}
		owner[key] = e
	}
}

// distinctNames returns a query of at most length bytes that consists of unknown names, in the order that
// causes the most work: each name sorts before all earlier ones.
func distinctNames(length int) string {
	var b strings.Builder
	for n := 1<<15 - 1; b.Len()+4 < length; n-- {
		fmt.Fprintf(&b, "%c%c%c&", 'A'+n>>10&31, 'A'+n>>5&31, 'A'+n&31)
	}
	return b.String()
}

// TestIgnoredBounded checks that, however many names a client sends and in whatever order, Ignored keeps
// only as many as the header may contain, and keeps those that sort first.
func TestIgnoredBounded(t *testing.T) {
	falling := strings.Split(strings.TrimSuffix(distinctNames(64<<10), "&"), "&")
	rising := slices.Sorted(slices.Values(falling))
	want := "" // names of three bytes, some of which need escapes
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
		if got := string(q.Ignored.Append(nil)); got != want {
			t.Errorf("X-Ignored %q, want %q", got, want)
		}
	}
}

func TestMessages(t *testing.T) {
	for _, e := range []*ParamError{errIDElement[0], errIDElement[maxValues-1], errIDCount, errSymbolCount,
		errSlugCount, errCategoryCount, errChainCount, errLinksCount, errGroupsCount,
		errPage.notInt, errPage.outside, errOffset.notInt, errOffset.outside,
		errLengths.size.notInt, errLengths.size.outside, errLengths.limit.notInt, errLengths.limit.outside,
		errExchangeLengths.size.notInt, errExchangeLengths.size.outside,
		errExchangeLengths.limit.notInt, errExchangeLengths.limit.outside, errHistoryLengths.size.outside,
		errHistoryLengths.limit.outside, errNoneAsked, errWindow, errBy, errQ, errSortMarkets,
		endpoints[Assets].errSort,
		endpoints[Chains].errSort} {
		takes := strings.Contains(e.Message, "; it takes ") || e == errNoneAsked
		if !strings.HasPrefix(e.Message, e.Param+": ") || !takes {
			t.Errorf("message %q", e.Message)
		}
		if quoted := strconv.Quote(e.Message); quoted != `"`+e.Message+`"` ||
			utf8.RuneCountInString(e.Message) != len(e.Message) {
			t.Errorf("message %q does not stand in JSON as it is", e.Message)
		}
	}
}
