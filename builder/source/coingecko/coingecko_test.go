package coingecko

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.com/marketdata/builder/source"
	"example.com/marketdata/builder/source/provider"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/providertest"
)

const api = "/api/v3"

// sampleProvider returns a provider that answers with testdata/sample.
func sampleProvider(t testing.TB) *providertest.Provider {
	t.Helper()
	p := providertest.Sample(t, api, map[string]string{
		"/coins/markets": "coins_markets", "/coins/list": "coins_list", "/exchanges": "exchanges",
		"/asset_platforms": "asset_platforms", "/exchange_rates": "exchange_rates",
		"/coins/categories": "categories", "/coins/bitcoin": "coins/bitcoin", "/coins/01coin": "coins/01coin",
	})
	p.Set(api+"/coins/markets?page=2", []byte("[]"))
	p.Set(api+"/exchanges?page=2", []byte("[]"))
	return p
}

func over(t *testing.T, transport http.RoundTripper, rest string, vars ...string) *provider.Source {
	t.Helper()
	return providertest.Open(t, Open, transport, rest, vars...)
}

// TestLiveEqualsReplay checks that a feed made over the network equals the feed made from its
// recording.
func TestLiveEqualsReplay(t *testing.T) {
	base := sampleProvider(t).Serve(t) + api
	live := providertest.Files(t, openTest(t, "?details=on&rate=60000&base="+base, "COINGECKO_PRO_API_KEY=k"))
	dir := filepath.Join(t.TempDir(), "recording")
	must.OK(t, openTest(t, "?details=on&rate=60000&base="+base,
		"COINGECKO_PRO_API_KEY=k").Record(t.Context(), dir))
	replayed := providertest.Files(t, openTest(t, "?replay="+dir))
	if !maps.Equal(providertest.All(t, live), providertest.All(t, replayed)) {
		t.Errorf("live:\n%v\nreplayed:\n%v", providertest.All(t, live), providertest.All(t, replayed))
	}
	for _, name := range []string{"coins_markets.json", "coins/bitcoin.json"} {
		want, err := os.ReadFile(filepath.Join("testdata/sample", name))
		got, err2 := os.ReadFile(filepath.Join(dir, strings.Replace(name, "markets.json", "markets.1.json", 1)))
		if err = errors.Join(err, err2); err != nil || string(got) != string(want) {
			t.Errorf("%s was not recorded as it was sent: %v", name, err)
		}
	}
}

// TestPlans checks the host, the header with the key, and the query for each plan.
func TestPlans(t *testing.T) {
	for _, test := range []struct {
		rest, vars, host, header string
		order, pages             string
	}{
		{"", "", "api.coingecko.com", "", "market_cap_desc", "1"},
		{"", "COINGECKO_DEMO_API_KEY=CG-secret", "api.coingecko.com", "x-cg-demo-api-key", "market_cap_desc", "1"},
		{"", "COINGECKO_PRO_API_KEY=CG-secret", "pro-api.coingecko.com", "x-cg-pro-api-key", "id_asc", "4"},
		{
			"", "COINGECKO_PRO_API_KEY=CG-secret COINGECKO_DEMO_API_KEY=CG-other", "pro-api.coingecko.com",
			"x-cg-pro-api-key", "id_asc", "4",
		},
		{
			"?pages=2", "COINGECKO_PRO_API_KEY=CG-secret", "pro-api.coingecko.com", "x-cg-pro-api-key",
			"market_cap_desc", "2",
		},
		{"?pages=all", "COINGECKO_DEMO_API_KEY=CG-secret", "api.coingecko.com", "x-cg-demo-api-key", "id_asc", "4"},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := pagesOf(3)
			last := ""
			s := over(t, providertest.RoundTrip(func(r *http.Request) (*http.Response, error) {
				if r.URL.Scheme != "https" || r.URL.Host != test.host {
					t.Errorf("%s %s: asked %s", test.rest, test.vars, r.URL)
				}
				for _, header := range []string{"x-cg-demo-api-key", "x-cg-pro-api-key", "Authorization"} {
					if want := map[bool]string{true: "CG-secret"}[header == test.header]; r.Header.Get(header) != want {
						t.Errorf("%s %s: %s is %q", test.rest, test.vars, header, r.Header.Get(header))
					}
				}
				if q := r.URL.Query(); r.URL.Path == api+"/coins/markets" {
					last = q.Get("page")
					want := url.Values{"vs_currency": {"usd"}, "per_page": {"250"}, "precision": {"full"},
						"order": {test.order}, "page": {last},
						"include_rehypothecated": {"true"}}
					if q.Encode() != want.Encode() {
						t.Errorf("%s %s: asked for %s", test.rest, test.vars, r.URL)
					}
				}
				return p.Transport().RoundTrip(r)
			}), test.rest, strings.Fields(test.vars)...)
			providertest.Files(t, s)
			if last != test.pages {
				t.Errorf("%s %s: %s pages, want %s", test.rest, test.vars, last, test.pages)
			}
			if strings.Contains(fmt.Sprint(s), "secret") {
				t.Errorf("named %s", s)
			}
		})
	}
}

// pageOf returns a page of markets with the given number of coins, and their rows in the directory.
func pageOf(page, coins int) (markets, list string) {
	for i := range coins {
		coin := fmt.Sprintf(`,{"id":"coin-%d-%d","symbol":"c","name":"Coin"}`, page, i)
		markets += strings.TrimSuffix(coin, "}") +
			fmt.Sprintf(`,"current_price":%d.50,"last_updated":"2026-11-21T07:20:00Z"}`, i+1)
		list += coin
	}
	return "[" + strings.TrimPrefix(markets, ",") + "]", list
}

// pagesOf returns a provider with pages of markets. Each page has 250 coins, except the last, which
// has 10.
func pagesOf(pages int) *providertest.Provider {
	p := providertest.New()
	all := ""
	for page := 1; page <= pages+1; page++ {
		n := 250
		if page == pages {
			n = 10
		} else if page > pages {
			n = 0
		}
		markets, list := pageOf(page, n)
		all += list
		p.Set(fmt.Sprintf("%s/coins/markets?page=%d", api, page), []byte(markets))
	}
	p.Set(api+"/coins/list", []byte("["+strings.TrimPrefix(all, ",")+"]"))
	return p
}

// TestPages checks that all pages come from the same round or all from the last good one, and that
// a coin that moves to the next page while the pages are read occurs only once.
func TestPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pagesOf(3)
		s := over(t, p.Transport(), "", "COINGECKO_PRO_API_KEY=k")
		good := providertest.All(t, providertest.Files(t, s))
		if n := strings.Count(good[source.QuotesFile], "\n"); n != 510 {
			t.Fatalf("%d quotes", n)
		}
		p.Set(api+"/coins/markets?page=1", []byte(`[]`))
		for name, fault := range map[string]http.HandlerFunc{
			"missing": providertest.Status(404), "429": providertest.RetryAfter(60),
			"broken off": providertest.Says(`[{"id":"coin-2-`), "rubbish": providertest.Says(`{}`),
		} {
			p.Set(api+"/coins/markets?page=1",
				[]byte(fmt.Sprintf(`[{"id":"new-%s","symbol":"n","name":"N","current_price":1}%s]`, name,
					strings.Repeat(`,{}`, 249))))
			p.Fault(api+"/coins/markets?page=2", fault)
			files := providertest.Files(t, s)
			if !maps.Equal(providertest.All(t, files), good) ||
				providertest.States(files)["coins_markets"] != source.PartStale {
				t.Errorf("%s: not the last good rows: %v", name, providertest.States(files))
			}
			time.Sleep(2 * time.Minute)
		}
		p.Fault(api+"/coins/markets?page=2", nil)
		p.Set(api+"/coins/markets?page=1",
			[]byte(`[`+strings.Repeat(`{"id":"x","symbol":"x","name":"X","current_price":1},`,
				249)+`{"id":"y","symbol":"y","name":"Y","current_price":1}]`))
		p.Set(api+"/coins/markets?page=2",
			[]byte(`[`+strings.Repeat(`{"id":"y","symbol":"y","name":"Y","current_price":2},`,
				249)+`{"id":"z","symbol":"z","name":"Z","current_price":2}]`))
		p.Set(api+"/coins/markets?page=3", []byte(`[]`))
		// 509 of the 510 assets in the directory have no row, which is a gap.
		if got := providertest.All(t, providertest.Files(t, s)); !maps.Equal(got, good) {
			t.Error("a gap is published")
		}
		p.Set(api+"/coins/list",
			[]byte(`[{"id":"x","symbol":"x","name":"X"},{"id":"y","symbol":"y","name":"Y"},{"id":"z","symbol":"z","name":"Z"}]`))
		time.Sleep(2 * paid.listEvery)
		// It is still a gap, since the smaller directory is not accepted either.
		if files, err := s.Files(t.Context(), time.Time{}); err == nil {
			t.Errorf("half of the directory is believed to be gone: %v", providertest.States(files))
		}
		s = over(t, p.Transport(), "", "COINGECKO_PRO_API_KEY=k")
		feed, report, err := source.Read(t.Context(), providertest.Files(t, s), source.ReadOptions{})
		ok(t, err)
		// The feed reader reports repetitions within a page.
		if len(feed.Quotes) != 3 || report.Files[1].Rejected != 248 {
			t.Errorf("%d quotes, %+v", len(feed.Quotes), report.Files[1])
		}
	})
}

// TestGap checks that a short page does not end the market, and that an empty page, or a copy of
// the previous one, is a failure even in the first build. If only a few pages are requested, half
// of the last page is a failure, too.
func TestGap(t *testing.T) {
	half, _ := pageOf(1, 125)
	for rest, page := range map[string]string{"": "1", "?pages=6": "6"} {
		synctest.Test(t, func(t *testing.T) {
			p := pagesOf(8)
			p.Set(api+"/coins/markets?page="+page, []byte(half))
			if _, err := over(t, p.Transport(), rest,
				"COINGECKO_DEMO_API_KEY=k").Files(t.Context(), time.Time{}); err == nil {
				t.Errorf("%s: half of page %s is published", rest, page)
			}
		})
	}
	for _, page := range []int{2, 5, 7} {
		short, _ := pageOf(page, 249)
		other, _ := pageOf(page-1, 250)
		for _, test := range []struct {
			body   string
			quotes int // 0 if there is no feed
		}{{short, 7*250 + 9}, {other, 0}, {"[]", 0}} {
			synctest.Test(t, func(t *testing.T) {
				p := pagesOf(8)
				p.Set(fmt.Sprintf("%s/coins/markets?page=%d", api, page), []byte(test.body))
				files, err := over(t, p.Transport(), "", "COINGECKO_PRO_API_KEY=k").Files(t.Context(), time.Time{})
				if (err == nil) != (test.quotes > 0) {
					t.Fatalf("page %d is %.9s: %v", page, test.body, err)
				}
				if err == nil &&
					strings.Count(providertest.Contents(t, files, source.QuotesFile), "\n") != test.quotes {
					t.Errorf("page %d is short, and rows are lost", page)
				}
			})
		}
	}
}

// TestMembersAreKept checks that the source requests the members of only a few categories at a time,
// and that it keeps them, even across processes if it has a cache.
func TestMembersAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := sampleProvider(t)
		var categories []string
		for _, id := range []string{"a", "b", "c"} {
			categories = append(categories, fmt.Sprintf(`{"id":%q,"name":%q}`, id, id))
		}
		p.Set(api+"/coins/categories", []byte("["+strings.Join(categories, ",")+"]"))
		asked := map[string]int{}
		transport := providertest.RoundTrip(func(r *http.Request) (*http.Response, error) {
			if c := r.URL.Query().Get("category"); c != "" {
				asked[c]++
			}
			return p.Transport().RoundTrip(r)
		})
		cache := t.TempDir()
		members := func(slow string) (with []string) {
			s := over(t, transport, "?cache="+url.QueryEscape(cache)+"&slow="+slow, "COINGECKO_DEMO_API_KEY=k")
			for _, c := range providertest.NDJSON(t, providertest.Files(t, s), source.CategoriesFile) {
				if c["members"] != nil {
					with = append(with, c["key"].(string))
				}
			}
			return with
		}
		for i, want := range []string{"a", "a b", "a b c", "a b c"} {
			if got := strings.Join(members("1"), " "); got != want {
				t.Errorf("build %d: members of %s, want %s", i, got, want)
			}
			time.Sleep(10 * time.Minute)
		}
		if !maps.Equal(asked, map[string]int{"a": 1, "b": 1, "c": 1}) {
			t.Errorf("asked %v", asked)
		}
		time.Sleep(membersEvery)
		members("2")
		if !maps.Equal(asked, map[string]int{"a": 2, "b": 2, "c": 1}) {
			t.Errorf("a week later, asked %v", asked)
		}
	})
}

func TestOpener(t *testing.T) {
	providertest.Options(t, "coingecko", Open, map[string]string{
		"": "", "?pages=400": "", "?pages=all": "",
		"?replay=testdata/sample": "", "?details=on": "",
		"?key=x":           "want coingecko:?base=URL&cache=DIR&details=on|off&pages=N|all&plan=NAME&quota=N|none&rate=N&replay=DIR&slow=N, all optional",
		"?pages=0":         "pages=0: want a whole number from 1 to 400, or all",
		"?pages=401":       "want a whole number from 1 to 400",
		"?details=yes":     "details=yes: want on or off",
		"?rate=x":          "rate=x: want a whole number from 1",
		"?slow=-1":         "slow=-1: want a whole number from 0",
		"?base=x":          "want http://",
		"?replay=testdata": "", // it is empty, and Files returns the error
		"?replay=away":     "no such file",
	})
	if _, err := openTest(t, "?replay=testdata").Files(t.Context(), time.Time{}); err == nil ||
		!strings.Contains(err.Error(), "not in the recording") {
		t.Errorf("an empty recording: %v", err)
	}
}
