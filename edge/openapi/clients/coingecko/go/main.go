// Command go makes a CoinGecko client call every endpoint that the client offers and COINGECKO.md
// lists. It prints each answer as a line of JSON.
package main

import (
	"encoding/json"
	"log"
	"net/http"
	"net/url"
	"os"
)

// redirect sends requests for api.coingecko.com to base instead, and adds a key. One of the clients supports
// neither setting.
type redirect struct {
	base *url.URL
	key  string
}

func (r redirect) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.URL.Scheme, req.URL.Host = r.base.Scheme, r.base.Host
	req.Header.Set("x-cg-demo-api-key", r.key)
	return http.DefaultTransport.RoundTrip(req)
}

func show(answer any, err error) {
	if err != nil {
		log.Fatal(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(answer); err != nil {
		log.Fatal(err)
	}
}

func main() {
	base, err := url.Parse(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	through := &http.Client{Transport: redirect{base, os.Args[3]}}
	coin, category, platform, address := os.Args[4], os.Args[7], os.Args[8], os.Args[9]
	if os.Args[1] == "go-gecko" {
		goGecko(through, coin)
	} else {
		goingecko(through, os.Args[3], coin, category, platform, address)
	}
}
