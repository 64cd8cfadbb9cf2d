package provider_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/marketdata/builder/source/provider"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/network"
)

// small is a market that takes two calls for its tickers, one for each other list, and one for each
// of 40 coins.
type small struct{ coins, tickers, groups, exchanges []provider.Row }

func (m *small) Collect(ctx context.Context, r provider.Round) error {
	err := r.Lists(ctx, provider.List{
		Directory: true, Into: &m.coins, Part: provider.Part{Name: "coins", Path: "/coins", Every: time.Hour},
	},
		provider.List{
			Required: true, Into: &m.tickers,
			Part: provider.Part{Name: "tickers", Path: "/tickers", Pager: provider.Numbered("page", 1), Pages: 2},
		},
		provider.List{Into: &m.groups, Part: provider.Part{Name: "groups", Path: "/groups", Every: time.Hour}},
		provider.List{
			Into: &m.exchanges,
			Part: provider.Part{Name: "exchanges", Path: "/exchanges", Value: provider.Exchanges, Every: time.Hour},
		},
	)
	if err != nil {
		return err
	}
	_, err = r.Each(ctx, "coin", provider.IDs(m.coins), func(id string) provider.Part {
		return provider.Part{Path: "/coin/" + id, Every: 24 * time.Hour, Check: provider.CheckObject}
	})
	return err
}

func (m *small) Write(*provider.Feed) {}

// counted is a provider of the small market. It counts the requests that it receives, and fails as
// fault says.
type counted struct {
	mu    sync.Mutex
	fault int
	calls []time.Time
	paths map[string]int
}

func (c *counted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	c.calls = append(c.calls, time.Now())
	c.paths[r.URL.Path]++
	fault, n := c.fault, len(c.calls)
	c.mu.Unlock()
	switch {
	case fault == 1:
		w.WriteHeader(500)
	case fault == 2:
		w.Header().Set("Retry-After", fmt.Sprint(n%120))
		w.WriteHeader(429)
	case fault == 3 && r.URL.Query().Get("again") == "":
		http.Redirect(w, r, r.URL.Path+"?again=1&page="+r.URL.Query().Get("page"), http.StatusFound)
	case fault == 4 && n%2 == 0:
		_, _ = io.WriteString(w, `[]`)
	case strings.HasPrefix(r.URL.Path, "/coin/"):
		_, _ = io.WriteString(w, `{"id":1}`)
	default:
		row := `{"id":"p` + r.URL.Query().Get("page") + `"}`
		for i := range 40 {
			row += fmt.Sprintf(`,{"id":"c%d%s"}`, i, r.URL.Query().Get("page"))
		}
		_, _ = io.WriteString(w, "["+row+"]")
	}
}

func openSmall(t *testing.T, c *counted, options string) (*provider.Source, error) {
	t.Helper()
	o, err := provider.ParseOptions("small", options, nil)
	if err != nil {
		return nil, err
	}
	return provider.NewSource(o, provider.Env{
		Log: slog.New(slog.DiscardHandler), Transport: network.Transport{Handler: c},
	},
		provider.Plan{
			Base: "https://small.test", PerMinute: 600, Burst: 10, Slow: 5,
			Quotas: []provider.Quota{{Name: "free", Calls: 1000}, {Name: "pro", Calls: 9000, PerMinute: 50}},
			Calls:  map[string]int{"tickers": 2, "coin/*": 40},
		}, func() provider.Market { return &small{} })
}

// sleepTo sleeps until the next multiple of d.
func sleepTo(d time.Duration) { time.Sleep(d - time.Duration(time.Now().UnixNano())%d) }

// TestShare checks that parts that do not fit into the quota are requested less often, the least
// valuable ones first, and that builds make the predicted number of calls.
func TestShare(t *testing.T) {
	for options, want := range map[string]string{
		// the seconds between requests for tickers, directory, groups, exchanges and details
		"?quota=none":                  "600 3600 3600 3600 86400",
		"?plan=pro":                    "1200 3600 3600 3600 86400", // every mark would take 8,928 of 8,719 calls
		"?plan=pro&quota=11500":        "600 3600 3600 7800 4869818",
		"?plan=pro&quota=10200":        "600 4800 60000 86400 0",
		"?plan=pro&quota=9500":         "1200 3600 3600 3600 86400",
		"?plan=free":                   "6600 30600 141000 148800 0", // less than the slowest intervals take
		"?plan=free&quota=4000&slow=0": "1800 4200 25800 84000 0",
	} {
		synctest.Test(t, func(t *testing.T) {
			c := &counted{paths: map[string]int{}}
			s := must.Get(openSmall(t, c, options))(t)
			costs, err := s.Costs(t.Context())
			if err != nil || len(c.calls) > 0 {
				t.Fatal(err, c.calls)
			}
			got := ""
			for _, p := range costs.Parts {
				got += fmt.Sprintf(" %d", p.AskedSeconds)
			}
			if got = got[1:]; got != want || costs.Quota > 0 && costs.Month > costs.Quota {
				t.Errorf("%s: %s, want %s; %d calls of %d", options, got, want, costs.Month, costs.Quota)
			}
			const days = 5
			sleepTo(10 * time.Minute)
			for range days * 144 {
				if _, err := s.Files(t.Context(), time.Time{}); err != nil {
					t.Fatalf("%s: %v: %v", options, time.Now(), err)
				}
				sleepTo(10 * time.Minute)
			}
			for i, path := range []string{"/tickers", "/coins", "/groups", "/exchanges"} {
				p := costs.Parts[i]
				if n, want := c.paths[path], p.Month*days/31; n < want*9/10-p.Calls || n > want+2*p.Calls {
					t.Errorf("%s: %s: %d calls in %d days, want %d", options, path, n, days, want)
				}
			}
		})
	}
}

// TestQuotaFile checks that an unreadable count stops all calls, and that a wrong clock neither
// allows more calls nor blocks them forever.
func TestQuotaFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counted{paths: map[string]int{}}
		dir := t.TempDir()
		file := filepath.Join(dir, "quota.json")
		for content, asked := range map[string]bool{
			"": false, `{"format":2}`: false, `{"format":1}`: true,
			`{"format":1,"full":"2099-01-01T00:00:00Z","calls":{"2099-01-01":10}}`: false,
			`{"format":1,"calls":{"2099-01-01":1000}}`:                             false,
			`{"format":1,"calls":{"1999-01-01":1000}}`:                             true,
		} {
			ok(t, os.WriteFile(file, []byte(content), 0o600))
			s := must.Get(openSmall(t, c, "?cache="+dir))(t)
			c.calls = nil
			_, err := s.Files(t.Context(), time.Time{})
			if len(c.calls) > 0 != asked || (err == nil) != asked {
				t.Errorf("%s: %d calls, %v", content, len(c.calls), err)
			}
			if strings.Contains(content, `"2099-01-01":10}`) {
				time.Sleep(48 * time.Hour)
				if _, err := s.Files(t.Context(), time.Time{}); err != nil {
					t.Errorf("%s: two days later: %v", content, err)
				}
			}
			ok(t, os.RemoveAll(dir))
			ok(t, os.Mkdir(dir, 0o700))
		}
	})
}
