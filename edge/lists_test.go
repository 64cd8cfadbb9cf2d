package edge

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"example.com/marketdata/internal/lab/memstore"
	"example.com/marketdata/internal/lab/must"
	"example.com/marketdata/internal/lab/teststore"
)

// TestListsOfClients sends lists in each form that HTTP libraries and generated clients write by
// default. Each request asks for the assets 3 and 9, so these must come back: the requests are from
// reports to axios (2510), kubb (1270), orval (1285), openapi-typescript (1388),
// swagger-typescript-api (1541) and hey-api (1255), and from the documentation of the others.
func TestListsOfClients(t *testing.T) {
	mem := memstore.New()
	teststore.Publish(t, mem, teststore.NewFeed(20, 1), teststore.Start)
	e, _ := start(t, mem, func(cfg *Config) { cfg.Coins = true })
	until(t, "a snapshot", func() bool { return e.current() != nil })
	for _, form := range []string{
		"L=3,9",                   // as documented
		"L=3%2C9",                 // URLSearchParams of one text
		"L[]=3&L[]=9",             // axios, openapi-client-axios
		"L%5B%5D=3&L%5B%5D=9",     // orval, kubb, Rails
		"L[0]=3&L[1]=9",           // qs
		"L%5B0%5D=3&L%5B1%5D=9",   // PHP's http_build_query
		"L=3&L=9",                 // requests, httpx, aiohttp, Go, Ruby, Perl, openapi-fetch
		"L=3&L[]=9",               // a program that adds to a fixed address
		"L=&L=3&L=9&",             // a form with an empty field
		"L[10]=9&x=1&L[2]=3&L[]=", // in whatever order
	} {
		query := strings.ReplaceAll(form, "L", "id")
		ignored := ""
		if strings.Contains(form, "x=1") {
			ignored = "x"
		}
		for _, endpoint := range []string{"quotes", "assets", "markets"} {
			answer, body := e.get(t, "/openapi/v1/"+endpoint+"?"+query)
			var list struct {
				Result struct{ Items []struct{ ID int64 } }
			}
			err := json.Unmarshal(body, &list)
			var ids []int64
			for _, item := range list.Result.Items {
				ids = append(ids, item.ID)
			}
			got := answer.Header.Get("X-Ignored")
			if err != nil || len(ids) != 2 || ids[0]+ids[1] != 12 || got != ignored {
				t.Errorf("%s?%s: ids %v, %v, X-Ignored %q, want 3 and 9, %q", endpoint, query, ids, err, got, ignored)
			}
		}
		query = strings.NewReplacer("L", "ids", "=3", "=asset-3", "9", "asset-9").Replace(form)
		answer, body := e.get(t, "/api/v3/simple/price?vs_currencies[]=usd&"+query)
		var prices map[string]map[string]json.Number
		err := json.Unmarshal(body, &prices)
		if err != nil || answer.StatusCode != http.StatusOK || len(prices) != 2 || prices["asset-3"]["usd"] == "" ||
			prices["asset-9"]["usd"] == "" {
			t.Errorf("simple/price?%s: %d %s, %v", query, answer.StatusCode, body, err)
		}
	}
}

// get requests a path.
func (e *Edge) get(t *testing.T, path string) (*http.Response, []byte) {
	t.Helper()
	answer := must.Get(http.Get("http://" + e.Addr().String() + path))(t)
	defer answer.Body.Close()
	return answer, must.Get(io.ReadAll(answer.Body))(t)
}
