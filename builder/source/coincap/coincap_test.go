package coincap

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

const key = "COINCAP_API_KEY=c4p-secret"

// sampleProvider returns a provider that answers with testdata/sample.
func sampleProvider(t testing.TB) *providertest.Provider {
	t.Helper()
	return providertest.Sample(t, "/v3", map[string]string{
		"/assets?offset=0": "assets.1", "/assets?offset=3": "assets.2", "/assets?offset=5": "assets.3",
		"/exchanges?offset=0": "exchanges.1", "/exchanges?offset=2": "exchanges.2",
	})
}

func replay(t testing.TB) func(dir string) *provider.Source {
	return func(dir string) *provider.Source { return providertest.Open(t, Open, nil, "?replay="+dir) }
}

// TestSample uses testdata/sample, which was made by hand from the provider's description of
// version 3 of the API. Names and numbers are invented.
func TestSample(t *testing.T) { providertest.WantSample(t, replay(t)("testdata/sample")) }

// TestLiveEqualsReplay checks that a feed made over the network equals the feed made from its
// recording, and that every request has the key.
func TestLiveEqualsReplay(t *testing.T) {
	p := sampleProvider(t)
	live := providertest.Open(t, Open, providertest.RoundTrip(func(r *http.Request) (*http.Response, error) {
		if r.URL.Scheme+r.URL.Host != "httpsrest.coincap.io" || r.Header.Get("Authorization") != "Bearer c4p-secret" ||
			r.URL.Query().Get("limit") != "2000" {
			t.Errorf("asked %s with %q", r.URL, r.Header)
		}
		return p.Transport().RoundTrip(r)
	}), "?rate=60000", key)
	providertest.LiveIsReplayed(t, live, replay(t))
}

func TestDigits(t *testing.T) {
	providertest.Digits(t, func(price, marketCap, volume string) provider.Market {
		return &market{
			assets: provider.Rows(fmt.Appendf(nil,
				`[{"id":"a","name":"A","symbol":"A","priceUsd":%s,"marketCapUsd":%s,"volumeUsd24Hr":%s}]`, price,
				marketCap, volume)),
		}
	})
}

func TestOpener(t *testing.T) {
	providertest.Options(t, "coincap", Open, map[string]string{
		"?replay=testdata/sample": "",
		"":                        "a key is needed, in the environment variable COINCAP_API_KEY",
		"?coins=5":                "unknown option",
	})
	// The key is never sent to another host, and never appears in an error that quotes an answer.
	synctest.Test(t, func(t *testing.T) {
		p := sampleProvider(t)
		p.Fault("/v3/assets?offset=0", func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprintf(w, "%s%s", strings.Repeat("x", 180), r.Header.Get("Authorization"))
		})
		_, err := providertest.Open(t, Open, p.Transport(), "", key).Files(t.Context(), time.Time{})
		if err == nil || strings.Contains(err.Error(), "c4p") {
			t.Errorf("the error is %v", err)
		}
	})
}
