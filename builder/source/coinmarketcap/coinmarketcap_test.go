package coinmarketcap

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.com/marketdata/builder/source/provider"
	"example.com/marketdata/internal/test/providertest"
)

const (
	key      = "COINMARKETCAP_API_KEY=cmc-secret"
	listings = "/v1/cryptocurrency/listings/latest"
	coinMap  = "/v1/cryptocurrency/map"
)

// sampleProvider returns a provider that answers with testdata/sample.
func sampleProvider(t testing.TB) *providertest.Provider {
	t.Helper()
	p := providertest.Sample(t, "", map[string]string{
		listings + "?start=1": "listings.1", listings + "?start=5": "listings.2",
		"/v1/exchange/listings/latest?start=1": "exchanges.1", "/v1/exchange/listings/latest?start=3": "exchanges.2",
		"/v1/cryptocurrency/categories?start=1":                   "categories.1",
		"/v1/cryptocurrency/categories?start=3":                   "categories.2",
		"/v1/cryptocurrency/category?id=6051a82566fc1b42617d6dc6": "category/6051a82566fc1b42617d6dc6.1",
		"/v1/cryptocurrency/category?id=604f2776ebccdd50cd175fdc": "category/604f2776ebccdd50cd175fdc.1",
		"/v2/cryptocurrency/info?id=1":                            "info/0",
		"/v1/exchange/info?id=270":                                "exchange_info/2",
	})
	// The parameter listing_status distinguishes the two maps, in addition to the parameter for
	// their pages.
	maps := providertest.Sample(t, "", map[string]string{
		"/active?start=1": "map.1", "/active?start=5": "map.2", "/inactive,untracked?start=1": "map_inactive.1",
		"/inactive,untracked?start=2": "map_inactive.2",
	})
	p.Fault(coinMap, func(w http.ResponseWriter, r *http.Request) {
		r.URL.Path = "/" + r.URL.Query().Get("listing_status")
		maps.ServeHTTP(w, r)
	})
	return p
}

func over(t testing.TB, p *providertest.Provider, rest string) *provider.Source {
	t.Helper()
	return providertest.Open(t, Open, providertest.RoundTrip(func(r *http.Request) (*http.Response, error) {
		if r.URL.Scheme+r.URL.Host != "httpspro-api.coinmarketcap.com" ||
			r.Header.Get("X-CMC_PRO_API_KEY") != "cmc-secret" {
			t.Errorf("asked %s with %q", r.URL, r.Header)
		}
		return p.Transport().RoundTrip(r)
	}), rest, key)
}

func replay(t testing.TB) func(dir string) *provider.Source {
	return func(dir string) *provider.Source { return providertest.Open(t, Open, nil, "?replay="+dir) }
}

// TestSample uses testdata/sample, which was made by hand from the provider's description of the
// API. Names and numbers are invented.
func TestSample(t *testing.T) { providertest.WantSample(t, replay(t)("testdata/sample")) }

// TestLiveEqualsReplay checks that a feed made over the network equals the feed made from its
// recording.
func TestLiveEqualsReplay(t *testing.T) {
	providertest.LiveIsReplayed(t, over(t, sampleProvider(t), "?coins=all&slow=20&rate=60000"), replay(t))
}

// TestCoins checks how many quotes are requested, since the provider charges for them.
func TestCoins(t *testing.T) {
	for rest, want := range map[string]string{
		"": "200 1", "?coins=3": "3 1", "?coins=5001": "5000 1 5000 5", "?coins=all": "5000 1 5000 5",
	} {
		synctest.Test(t, func(t *testing.T) {
			var asked []string
			p := sampleProvider(t)
			for _, start := range []string{"1", "5"} {
				body := p.Answer(listings + "?start=" + start)
				p.Fault(listings+"?start="+start, func(w http.ResponseWriter, r *http.Request) {
					q := r.URL.Query()
					asked = append(asked, q.Get("limit"), q.Get("start"))
					providertest.Says(string(body))(w, r)
				})
			}
			providertest.Files(t, over(t, p, rest))
			if got := strings.Join(asked, " "); got != want {
				t.Errorf("%s asked %s, want %s", rest, got, want)
			}
		})
	}
}

// TestRefused checks that a plan that lacks the exchanges has everything else.
func TestRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := sampleProvider(t)
		p.Fault("/v1/exchange/listings/latest", providertest.Status(403))
		files := providertest.Files(t, over(t, p, ""))
		if feed, _ := providertest.Read(t, files); len(feed.Quotes) != 4 || len(feed.Exchanges) != 0 {
			t.Errorf("%d quotes, %d exchanges", len(feed.Quotes), len(feed.Exchanges))
		}
	})
}

func TestDigits(t *testing.T) {
	providertest.Digits(t, func(price, marketCap, volume string) provider.Market {
		return &market{
			listings: provider.Rows(fmt.Appendf(nil,
				`[{"id":1,"name":"A","symbol":"A","slug":"a","quote":{"USD":{"price":%s,"market_cap":%s,"volume_24h":%s}}}]`, price, marketCap, volume)),
		}
	})
}

func TestOpener(t *testing.T) {
	providertest.Options(t, "coinmarketcap", Open, map[string]string{
		"?coins=all": "", "?base=http://127.0.0.1:1": "",
		"?coins=0":            "coins=0: want a whole number from 1 to 2000000, or all",
		"?base=http://x.test": "https only",
	}, key)
}

// FuzzRows checks that no valid answer causes a panic or a failure.
func FuzzRows(f *testing.F) {
	odd := []string{
		`{"data":[null,5,"x",[],{},{"id":1e9},{"id":-1},{"id":"a","platform":{"id":1},"is_active":7,"quote":{"USD":[]}}]}`,
		`{"data":{"1":{"urls":{"website":{}}},"2":null}}`,
	}
	f.Add([]byte(odd[0]), []byte(odd[1]))
	f.Fuzz(func(t *testing.T, list, infos []byte) {
		l, ok := provider.Object(list)
		i, ok2 := provider.Object(infos)
		if _, err := provider.CheckArray(l.Get("data")); !ok || !ok2 || err != nil {
			return
		}
		rows := provider.Rows(l.Get("data"))
		m := &market{
			listings: rows, active: rows, inactive: rows[:len(rows)/2], exchanges: rows, categories: rows,
			infos: map[string]provider.Fields{},
		}
		for id := range i.Object("data") {
			m.infos[id] = i.Object("data").Object(id)
		}
		m.exchangeInfos = m.infos
		feed := provider.NewFeed(name, time.Unix(1, 0), nil)
		m.Write(feed)
		providertest.CheckRead(t, feed)
	})
}
