package check

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

// paprika is a fake of CoinPaprika with forty coins or, if gecko is set, of CoinGecko.
type paprika struct {
	updated time.Time     // time of each price, or zero if the prices have none
	slow    time.Duration // delay before it answers with prices
	refuses string        // path that it answers with 403
	gecko   bool
}

func (p *paprika) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	row := func(int) string { return "" }
	switch path := strings.TrimPrefix(r.URL.Path, "/v1"); path {
	case p.refuses:
		w.WriteHeader(http.StatusForbidden)
		return
	case "/tickers":
		time.Sleep(p.slow)
		row = func(i int) string {
			said := ""
			if !p.updated.IsZero() {
				said = fmt.Sprintf(`"last_updated":%q,`, p.updated.UTC().Format(time.RFC3339))
			}
			return fmt.Sprintf(`{"id":"c-%d","name":"Coin %d","symbol":"C%d",%s"quotes":{"USD":{"price":%d.5,"volume_24h":5000000,"market_cap":%d}}}`, i, i,
				i, said, 1000-i, 100_000_000-i)
		}
	case "/exchange_rates":
		fmt.Fprint(w, `{"rates":{"usd":{"name":"US Dollar","unit":"$","value":91000,"type":"fiat"}}}`)
		return
	case "/coins/markets", "/coins/list", "/asset_platforms", "/coins/categories":
		row = func(i int) string {
			return fmt.Sprintf(`{"id":"c-%d","name":"Coin %d","symbol":"C%d","current_price":%d,"last_updated":%q}`, i, i, i,
				1000-i, p.updated.UTC().Format(time.RFC3339))
		}
	case "/exchanges":
		row = func(i int) string { return fmt.Sprintf(`{"id":"e-%d","name":"Exchange %d"}`, i, i) }
	case "/coins":
		row = func(i int) string {
			return fmt.Sprintf(
				`{"id":"c-%d","name":"Coin %d","symbol":"C%d","rank":1,"is_new":false,"is_active":true,"type":"coin"}`, i, i, i)
		}
	}
	var rows []string
	for i := range 40 {
		if r.URL.Query().Get("page") > "1" {
			break
		}
		if text := row(i); text != "" {
			rows = append(rows, text)
		}
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, "[%s]", strings.Join(rows, ","))
}

// provider starts p and returns its source address.
func (s *scene) provider(p *paprika, options string) string {
	server := httptest.NewServer(p)
	s.t.Cleanup(server.Close)
	name := "coinpaprika"
	if p.gecko {
		name = "coingecko"
	}
	return "--source=" + name + ":?slow=0&base=" + server.URL + "/v1" + options
}

// provided starts a builder whose source is p.
func provided(s *scene, p *paprika, options string) *daemon {
	return s.run(s.provider(p, options), "--state-dir="+s.beside("provider"))
}

// age moves all times in the recording.json of a cache folder into the past.
func age(t *testing.T, file string, by time.Duration) {
	t.Helper()
	b, err := os.ReadFile(file)
	must(t, err)
	b = regexp.MustCompile(`"(fetched|last|time)": ?"([^"]+)"`).ReplaceAllFunc(b, func(field []byte) []byte {
		name, text, _ := strings.Cut(strings.Trim(string(field), `"`), `"`)
		at, err := time.Parse(time.RFC3339, strings.TrimLeft(text, `: "`))
		must(t, err)
		return fmt.Appendf(nil, `"%s":%q`, name, at.Add(-by).Format(time.RFC3339Nano))
	})
	must(t, os.WriteFile(file, b, 0o600))
}
