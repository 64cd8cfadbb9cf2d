package check

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"
)

// paprika is CoinPaprika with forty coins.
type paprika struct {
	updated time.Time // of each price; zero: none says
}

func (p *paprika) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	row := func(int) string { return "" }
	switch strings.TrimPrefix(r.URL.Path, "/v1") {
	case "/tickers":
		row = func(i int) string {
			said := ""
			if !p.updated.IsZero() {
				said = fmt.Sprintf(`"last_updated":%q,`, p.updated.UTC().Format(time.RFC3339))
			}
			return fmt.Sprintf(`{"id":"c-%d","name":"Coin %d","symbol":"C%d",%s"quotes":{"USD":{"price":%d.5,"volume_24h":5000000,"market_cap":%d}}}`, i, i, i, said, 1000-i, 100_000_000-i)
		}
	case "/coins":
		row = func(i int) string {
			return fmt.Sprintf(`{"id":"c-%d","name":"Coin %d","symbol":"C%d","rank":1,"is_new":false,"is_active":true,"type":"coin"}`, i, i, i)
		}
	}
	var rows []string
	for i := range 40 {
		if text := row(i); text != "" {
			rows = append(rows, text)
		}
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, "[%s]", strings.Join(rows, ","))
}

// provided starts a builder on a provider that says what p does.
func provided(s *scene, p *paprika, options string, args ...string) *daemon {
	server := httptest.NewServer(p)
	s.t.Cleanup(server.Close)
	return s.run(append(args, "--source=coinpaprika:?slow=0&base="+server.URL+"/v1"+options, "--source-cache="+s.beside("provider"))...)
}
