package coinpaprika

import (
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.com/marketdata/builder/source"
	"example.com/marketdata/builder/source/provider"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/providertest"
)

// sampleProvider returns a provider that answers with testdata/sample.
func sampleProvider(t testing.TB) *providertest.Provider {
	t.Helper()
	return providertest.Sample(t, "/v1", map[string]string{
		"/tickers": "tickers", "/coins": "coins", "/exchanges": "exchanges", "/tags": "tags", "/contracts": "contracts",
		"/contracts/eth-ethereum": "contracts/eth-ethereum", "/contracts/dead-dead": "contracts/dead-dead",
		"/coins/btc-bitcoin": "coins/btc-bitcoin", "/coins/tiny-tiny-coin": "coins/tiny-tiny-coin",
	})
}

// over opens the source with the answers of p. It does not use the network, so it works in a
// synctest bubble.
func over(t testing.TB, p *providertest.Provider, rest string, vars ...string) *provider.Source {
	t.Helper()
	return providertest.Open(t, Open, p.Transport(), rest, vars...)
}

// TestLiveEqualsReplay checks that a feed made over the network equals the feed made from its
// recording.
func TestLiveEqualsReplay(t *testing.T) {
	live := openTest(t, "?base="+sampleProvider(t).Serve(t)+"/v1")
	providertest.LiveIsReplayed(t, live, func(dir string) *provider.Source { return openTest(t, "?replay="+dir) })
}

// TestUnsound checks that an unusable answer stops the build instead of dropping rows.
func TestUnsound(t *testing.T) {
	sound := must.Get(os.ReadFile("testdata/sample/coins.json"))(t)
	for name, f := range map[string]http.HandlerFunc{
		"is_active: in 0 of 6 rows": providertest.Says(strings.ReplaceAll(string(sound), "is_active", "active")),
		"status 503":                providertest.Status(503),
	} {
		synctest.Test(t, func(t *testing.T) {
			p := sampleProvider(t)
			p.Fault("/v1/coins", f)
			if _, err := over(t, p, "").Files(t.Context(), time.Time{}); err == nil ||
				!strings.Contains(err.Error(), name) {
				t.Errorf("%v, want %s", err, name)
			}
		})
	}
	dir := filepath.Join(t.TempDir(), "recording")
	must.OK(t, openTest(t, "?base="+sampleProvider(t).Serve(t)+"/v1").Record(t.Context(), dir))
	must.OK(t, os.WriteFile(filepath.Join(dir, "exchanges.json"), []byte("[{}]"), 0o644))
	if _, err := openTest(t, "?replay="+dir).Files(t.Context(), time.Time{}); err == nil ||
		!strings.Contains(err.Error(), "exchanges.json does not match") {
		t.Errorf("a recording that was changed: %v", err)
	}
}

// TestOrderAndBudget checks what each round requests, and in which order.
func TestOrderAndBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := sampleProvider(t)
		s := over(t, p, "?slow=3")
		lists := []string{"/v1/tickers", "/v1/coins", "/v1/exchanges", "/v1/tags", "/v1/contracts"}
		for i, slow := range [][]string{
			// Well-known chains come first, then the other chains, and then coins by rank.
			{"/v1/contracts/eth-ethereum", "/v1/contracts/arb-arbitrum", "/v1/contracts/own-chain"},
			{"/v1/contracts/dead-dead", "/v1/coins/btc-bitcoin", "/v1/coins/eth-ethereum"},
			{"/v1/coins/long-long-digits", "/v1/coins/tiny-tiny-coin"},
			{},
		} {
			providertest.Files(t, s)
			want := append([]string{"/v1/tickers"}, slow...)
			if i == 0 || i == 3 {
				want = append(slices.Clone(lists), slow...)
			}
			if asked := p.Asked(); !slices.Equal(asked, want) {
				t.Errorf("build %d asked %v, want %v", i, asked, want)
			}
			time.Sleep(10 * time.Minute)
		}
	})
}

// TestKeyAndPlan checks that requests go to the paid API if there is a key, and that the key stays
// secret.
func TestKeyAndPlan(t *testing.T) {
	for _, test := range []struct{ vars, host, header string }{
		{"", "api.coinpaprika.com", ""},
		{"COINPAPRIKA_API_KEY=pk-secret", "api-pro.coinpaprika.com", "pk-secret"},
	} {
		var log strings.Builder
		env := providertest.Env(t, test.vars)
		env.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		env.Transport = providertest.RoundTrip(func(r *http.Request) (*http.Response, error) {
			if r.URL.Scheme != "https" || r.URL.Host != test.host || r.Header.Get("Authorization") != test.header {
				t.Errorf("asked %s with %q", r.URL, r.Header)
			}
			return nil, errors.New("no network")
		})
		synctest.Test(t, func(t *testing.T) {
			s := must.Get(Open("", env))(t)
			if _, err := s.Files(t.Context(), time.Time{}); err == nil || strings.Contains(err.Error(), "secret") {
				t.Errorf("error %v", err)
			}
			if s.String() != "coinpaprika:" || strings.Contains(log.String(), "secret") ||
				!strings.Contains(log.String(), "no network") {
				t.Errorf("%s logged %s", s, log.String())
			}
		})
	}
}

func TestOpener(t *testing.T) {
	providertest.Options(t, "coinpaprika", Open, map[string]string{
		"": "", "?cache=" + t.TempDir(): "", "?replay=testdata/sample": "",
		"?slow=0&rate=1":              "",
		"?base=http://127.0.0.1:1/v1": "",
		"?key=x":                      "want coinpaprika:?base=URL&cache=DIR&plan=NAME&quota=N|none&rate=N&replay=DIR&slow=N, all optional",
		"?replay=testdata/away":       "no such file",
		"?rate=0":                     "rate=0: want a whole number from 1",
		"?slow=x":                     "slow=x: want a whole number from 0",
		"?base=ftp://x":               "want http://",
	})
}

// TestTimeOfARecording tests the time of a feed from a folder made by hand.
func TestTimeOfARecording(t *testing.T) {
	dir := t.TempDir()
	at := time.Date(2026, 11, 21, 7, 20, 0, 0, time.UTC)
	put := func(tickers string) {
		must.OK(t, os.WriteFile(filepath.Join(dir, "tickers.json"), []byte(tickers), 0o644))
	}
	timeOf := func(t2 time.Time) (string, error) {
		files, err := openTest(t, "?replay="+dir).Files(t.Context(), t2)
		if err != nil {
			return "", err
		}
		return providertest.Contents(t, files, source.InfoFile), nil
	}
	put(`[{"id":"a","last_updated":"2026-01-01T00:00:00Z"},{"id":"b","last_updated":"2026-01-02T00:00:00Z"},{"id":"c","last_updated":5},{"id":"d","last_updated":1767200000}]`)
	if got, err := timeOf(at); err != nil || !strings.Contains(got, `"time":"2026-01-02T00:00:00Z"`) {
		t.Errorf("%s, %v", got, err)
	}
	put(`[{"id":"a"}]`)
	if got, err := timeOf(at); err != nil || !strings.Contains(got, `"time":"2026-11-21T07:20:00Z"`) {
		t.Errorf("%s, %v", got, err)
	}
	if got, err := timeOf(time.Time{}); err == nil || !strings.Contains(err.Error(), "does not say when it was made") {
		t.Errorf("%s, %v", got, err)
	}
}
