package e2e

import (
	"cmp"
	"context"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/marketdata/builder/source/coincap"
	"example.com/marketdata/builder/source/coingecko"
	"example.com/marketdata/builder/source/coinmarketcap"
	"example.com/marketdata/builder/source/coinpaprika"
	"example.com/marketdata/builder/source/provider"
	"example.com/marketdata/internal/model"
)

// A fakeMarket is the market that the fake providers describe, and from which a snapshot must be
// made. Values are JSON literals.
type fakeMarket struct {
	coins     []fakeCoin
	exchanges []fakeExchange
	groups    []fakeGroup
}

type fakeCoin struct {
	id                 string // for providers whose ids are strings
	num                int    // for the provider whose ids are numbers
	name, symbol       string
	price, cap, volume string
	circulating, most  string // supplies
	unlisted, unquoted bool   // whether a snapshot must not have the asset, or a quote for it
	bare               bool   // whether the figures are missing that only the quote's row has
	updated            string
}

type fakeExchange struct {
	id, volume string
	num        int
}

// fakeGroup is a category, or a chain with the name of its first member.
type fakeGroup struct {
	id      string
	members []int // indexes into coins
}

// newFakeMarket returns the market at one of several moments, between which prices differ.
func newFakeMarket(moment int) *fakeMarket {
	m := &fakeMarket{}
	now := time.Now().UTC().Format(time.RFC3339)
	for i := range 40 {
		c := fakeCoin{
			id: fmt.Sprintf("coin-%02d", i), num: 100 + i, name: fmt.Sprintf(`"Coin %d"`, i),
			symbol: fmt.Sprintf(`"C%d"`, i%30),
			price:  fmt.Sprintf("%d.%d", 1000-20*i, 10+moment), cap: fmt.Sprintf("%d.5", 100_000_000-1_000_000*i),
			volume: strconv.Itoa(5_000_000 - 1000*i), updated: now,
			circulating: fmt.Sprintf("%d.25", 1_000_000+i), most: "null",
		}
		if i%3 == 0 {
			c.most = strconv.Itoa(21_000_000 + i)
		}
		switch i {
		case 0:
			c.id, c.num = "bitcoin", 1
		case 30:
			c.price, c.volume = fmt.Sprintf("0.0000000123456789%d", moment), "1.5e3"
		case 31:
			c.cap, c.volume = "null", "null"
		}
		m.coins = append(m.coins, c)
	}
	m.exchanges = []fakeExchange{{"north", "1234.56789012", 300}, {"south", "0", 301}}
	m.groups = []fakeGroup{{"layer-1", []int{0, 1, 2}}, {"memes", []int{2, 3, 39}}}
	return m
}

// A fakeAPI is a provider that behaves according to its documentation.
type fakeAPI struct {
	scheme, base, options string
	env, header, key      string
	quotes, groups        string // the parts that contain quotes and groups
	denied                string // body with status 200 for a refusal
	rates                 string // rates that a snapshot must have
	open                  func(string, provider.Env) (*provider.Source, error)
	// answer finds the rows for a request. It returns the name of their list, the rows, the index
	// of the first row on the page (-1 if the list has no pages), and the text before and after the
	// rows.
	answer func(m *fakeMarket, path string, q url.Values) (list string, rows []string, from int, before, after string)
	// feed returns what a snapshot must contain: a function for the row of an asset, and the rows
	// of exchanges, categories and chains.
	feed func(m *fakeMarket) (asset func(c *fakeCoin) string, exchanges, categories, chains []string)
}

// fakePage is the number of rows on a page, which is fewer than requests ask for.
const fakePage = 15

var fakeAPIs = []*fakeAPI{
	{
		scheme: "coinpaprika", base: "https://api-pro.coinpaprika.com/v1", env: "COINPAPRIKA_API_KEY",
		header: "Authorization", key: "s3cret",
		quotes: "tickers", groups: "tags",
		denied: `{"type":"hard limit exceeded","soft_limit":20000,"error":"too many requests"}`,
		open:   coinpaprika.Open,
		answer: func(m *fakeMarket, path string, q url.Values) (string, []string, int, string, string) {
			of := func(list string, rows []string) (string, []string, int, string, string) {
				return list, rows, -1, "[", "]"
			}
			one, isOne := strings.CutPrefix(path, "/contracts/")
			switch {
			case path == "/tickers":
				return of("quotes", each(m.coins, func(c *fakeCoin) string {
					return fmt.Sprintf(`{"id":%q,"name":%s,"symbol":%s,"last_updated":%q,"circulating_supply":%s,"max_supply":%s,"quotes":{"USD":{"price":%s,"volume_24h":%s,"market_cap":%s}}}`,
						c.id, c.name, c.symbol, c.updated, c.circulating, c.most, c.price, c.volume, c.cap)
				}))
			case path == "/coins":
				return of("assets", each(m.coins, func(c *fakeCoin) string {
					return fmt.Sprintf(`{"id":%q,"name":%s,"symbol":%s,"rank":1,"is_new":false,"is_active":true,"type":"coin"}`,
						c.id, c.name, c.symbol)
				}))
			case path == "/exchanges":
				return of("exchanges", each(m.exchanges, func(e *fakeExchange) string {
					return fmt.Sprintf(`{"id":%q,"name":%q,"links":{"website":["https://%s.test/"]},"markets_data_fetched":true,"currencies":7,"markets":9,"quotes":{"USD":{"reported_volume_24h":%s}},"last_updated":"2000-01-01T00:00:00Z"}`,
						e.id, e.id, e.id, e.volume)
				}))
			case path == "/tags":
				return of("groups", each(m.groups, func(g *fakeGroup) string {
					return fmt.Sprintf(`{"id":%q,"name":%q,"coins":%s}`, g.id, g.id, m.members(g))
				}))
			case path == "/contracts":
				return of("chains",
					each(m.groups, func(g *fakeGroup) string { return strconv.Quote(m.coins[g.members[0]].id) }))
			case isOne:
				for i := range m.groups {
					if m.coins[m.groups[i].members[0]].id == one {
						return of("members", each(m.groups[i].members,
							func(c *int) string { return fmt.Sprintf(`{"id":%q,"active":true}`, m.coins[*c].id) }))
					}
				}
			}
			return "", nil, -1, "", ""
		},
		feed: func(m *fakeMarket) (func(c *fakeCoin) string, []string, []string, []string) {
			return func(c *fakeCoin) string {
					return fmt.Sprintf(`{"key":%q,"name":%s,"symbol":%s,"slug":%q,"logo":"https://static.coinpaprika.com/coin/%s/logo.png"}`,
						c.id, c.name, c.symbol, c.id, c.id)
				}, each(m.exchanges, func(e *fakeExchange) string {
					return fmt.Sprintf(`{"key":%q,"name":%q,"slug":%q,"logo":"https://static.coinpaprika.com/exchanges/%s/logo.png","links":{"website":"https://%s.test/"},"market":{"volume_24h":%s,"markets_count":9,"coins_count":7,"data_time":"2000-01-01T00:00:00Z"}}`,
						e.id, e.id, e.id, e.id, e.id, e.volume)
				}), each(m.groups, func(g *fakeGroup) string {
					return fmt.Sprintf(`{"key":%q,"name":%q,"slug":%q,"members":%s}`, g.id, g.id, g.id, m.members(g))
				}),
				each(m.groups, func(g *fakeGroup) string {
					c := m.coins[g.members[0]]
					return fmt.Sprintf(`{"key":%q,"name":%s,"slug":%q,"native":%q,"members":%s}`, c.id, c.name, c.id,
						c.id, m.members(g))
				})
		},
	},
	{
		scheme: "coingecko", base: "https://pro-api.coingecko.com/api/v3", env: "COINGECKO_PRO_API_KEY",
		header: "x-cg-pro-api-key", key: "s3cret",
		quotes: "coins_markets", groups: "categories",
		rates: `{"code":"eur","usd":1.25,"name":"Euro","unit":"€"}` + "\n" +
			`{"code":"usd","name":"US Dollar","unit":"$"}`,
		denied: `{"status":{"error_code":429,"error_message":"You've exceeded the Rate Limit."}}`,
		open:   coingecko.Open,
		answer: func(m *fakeMarket, path string, q url.Values) (string, []string, int, string, string) {
			page, _ := strconv.Atoi(q.Get("page"))
			market := func(c *fakeCoin) string {
				return fmt.Sprintf(`{"id":%q,"symbol":%s,"name":%s,"image":"https://img.test/%s.png","current_price":%s,"market_cap":%s,"total_volume":%s,"circulating_supply":%s,"max_supply":%s,"last_updated":%q}`,
					c.id, lower(c.symbol), c.name, c.id, c.price, c.cap, c.volume, c.circulating, c.most, c.updated)
			}
			switch path {
			case "/coins/markets":
				for i := range m.groups {
					if m.groups[i].id == q.Get("category") {
						return "members", each(m.groups[i].members,
							func(c *int) string { return market(&m.coins[*c]) }), (page - 1) * fakePage, "[", "]"
					}
				}
				return "quotes", each(m.coins, market), (page - 1) * fakePage, "[", "]"
			case "/coins/list":
				return "assets", each(m.coins, func(c *fakeCoin) string {
					return fmt.Sprintf(`{"id":%q,"symbol":%s,"name":%s,"platforms":{}}`, c.id, lower(c.symbol), c.name)
				}), -1, "[", "]"
			case "/exchanges":
				return "exchanges", each(m.exchanges, func(e *fakeExchange) string {
					return fmt.Sprintf(`{"id":%q,"name":%q,"url":"https://%s.test/","image":"https://img.test/%s.png","trade_volume_24h_btc":%s}`,
						e.id, e.id, e.id, e.id, e.volume)
				}), (page - 1) * fakePage, "[", "]"
			case "/coins/categories":
				return "groups", each(m.groups,
					func(g *fakeGroup) string { return fmt.Sprintf(`{"id":%q,"name":%q}`, g.id, g.id) }), -1, "[", "]"
			case "/asset_platforms":
				return "chains", nil, -1, "[", "]"
			case "/exchange_rates":
				return "rates", []string{`"usd":{"name":"US Dollar","unit":"$","value":1e5,"type":"fiat"}`,
					`"eur":{"name":"Euro","unit":"€","value":80000,"type":"fiat"}`}, -1, `{"rates":{`, "}}"
			}
			return "", nil, -1, "", ""
		},
		feed: func(m *fakeMarket) (func(c *fakeCoin) string, []string, []string, []string) {
			return func(c *fakeCoin) string {
					logo := "https://img.test/" + c.id + ".png"
					if c.bare {
						logo = ""
					}
					return fmt.Sprintf(
						`{"key":%q,"name":%s,"symbol":%s,"slug":%q,"logo":%q}`, c.id, c.name, c.symbol, c.id, logo)
				}, each(m.exchanges, func(e *fakeExchange) string {
					usd, _ := new(big.Rat).SetString(e.volume)
					bitcoin, ok := new(big.Rat).SetString(m.coins[0].price)
					volume := "null"
					if ok {
						volume = usd.Mul(usd, bitcoin).FloatString(30)
					}
					return fmt.Sprintf(`{"key":%q,"name":%q,"slug":%q,"logo":"https://img.test/%s.png","links":{"website":"https://%s.test/"},"market":{"volume_24h":%s}}`,
						e.id, e.id, e.id, e.id, e.id, volume)
				}), each(m.groups, func(g *fakeGroup) string {
					return fmt.Sprintf(`{"key":%q,"name":%q,"slug":%q,"members":%s}`, g.id, g.id, g.id, m.members(g))
				}), nil
		},
	},
	{
		scheme: "coinmarketcap", base: "https://pro-api.coinmarketcap.com", options: "&coins=all",
		env: "COINMARKETCAP_API_KEY", header: "X-CMC_PRO_API_KEY", key: "s3cret",
		quotes: "listings", groups: "categories",
		denied: `{"status":{"timestamp":"2000-01-01T00:00:00Z","error_code":1008,"error_message":"You've exceeded your API Key's HTTP request rate limit.","credit_count":0}}`,
		open:   coinmarketcap.Open,
		answer: func(m *fakeMarket, path string, q url.Values) (string, []string, int, string, string) {
			const before, after = `{"status":{"timestamp":"2000-01-01T00:00:00Z","error_code":0,"error_message":null,"credit_count":1},"data":`, `}`
			start, _ := strconv.Atoi(q.Get("start"))
			of := func(list string, rows []string) (string, []string, int, string, string) {
				return list, rows, start - 1, before + "[", "]" + after
			}
			listing := func(c *fakeCoin) string {
				return fmt.Sprintf(`{"id":%d,"name":%s,"symbol":%s,"slug":%q,"last_updated":%q,"circulating_supply":%s,"max_supply":%s,"quote":{"USD":{"price":%s,"volume_24h":%s,"market_cap":%s}}}`,
					c.num, c.name, c.symbol, c.id, c.updated, c.circulating, c.most, c.price, c.volume, c.cap)
			}
			switch path {
			case "/v1/cryptocurrency/listings/latest":
				return of("quotes", each(m.coins, listing))
			case "/v1/cryptocurrency/map":
				if q.Get("listing_status") != "active" {
					return of("inactive", nil)
				}
				return of("assets", each(m.coins, func(c *fakeCoin) string {
					return fmt.Sprintf(`{"id":%d,"name":%s,"symbol":%s,"slug":%q,"is_active":1,"platform":null}`, c.num,
						c.name, c.symbol, c.id)
				}))
			case "/v1/exchange/listings/latest":
				return of("exchanges", each(m.exchanges, func(e *fakeExchange) string {
					return fmt.Sprintf(`{"id":%d,"name":%q,"slug":%q,"num_market_pairs":9,"last_updated":"2000-01-01T00:00:00.000Z","quote":{"USD":{"volume_24h":%s}}}`,
						e.num, e.id, e.id, e.volume)
				}))
			case "/v1/cryptocurrency/categories":
				return of("groups",
					each(m.groups, func(g *fakeGroup) string { return fmt.Sprintf(`{"id":%q,"name":%q}`, g.id, g.id) }))
			case "/v1/cryptocurrency/category":
				for i := range m.groups {
					if m.groups[i].id == q.Get("id") {
						return "members", each(m.groups[i].members, func(c *int) string {
							return listing(&m.coins[*c])
						}), start - 1, before + `{"coins":[`, "]}" + after
					}
				}
			case "/v2/cryptocurrency/info", "/v1/exchange/info":
				return "infos", nil, -1, before + "{", "}" + after
			}
			return "", nil, -1, "", ""
		},
		feed: func(m *fakeMarket) (func(c *fakeCoin) string, []string, []string, []string) {
			const logo = "https://s2.coinmarketcap.com/static/img/"
			return func(c *fakeCoin) string {
					return fmt.Sprintf(`{"key":"%d","name":%s,"symbol":%s,"slug":%q,"logo":"%scoins/64x64/%d.png"}`,
						c.num, c.name, c.symbol, c.id, logo, c.num)
				}, each(m.exchanges, func(e *fakeExchange) string {
					return fmt.Sprintf(`{"key":"%d","name":%q,"slug":%q,"logo":"%sexchanges/64x64/%d.png","market":{"volume_24h":%s,"markets_count":9,"data_time":"2000-01-01T00:00:00Z"}}`,
						e.num, e.id, e.id, logo, e.num, e.volume)
				}), each(m.groups, func(g *fakeGroup) string {
					members := each(g.members, func(c *int) string { return fmt.Sprintf(`"%d"`, m.coins[*c].num) })
					return fmt.Sprintf(
						`{"key":%q,"name":%q,"slug":%q,"members":[%s]}`, g.id, g.id, g.id, strings.Join(members, ","))
				}), nil
		},
	},
	{
		scheme: "coincap", base: "https://rest.coincap.io/v3", env: "COINCAP_API_KEY", header: "Authorization",
		key:    "Bearer s3cret",
		quotes: "assets", denied: `{"error":"You have exceeded your credit limit","timestamp":946684800000}`,
		open: coincap.Open,
		answer: func(m *fakeMarket, path string, q url.Values) (string, []string, int, string, string) {
			offset, _ := strconv.Atoi(q.Get("offset"))
			before := fmt.Sprintf(`{"timestamp":%d,"data":[`, time.Now().UnixMilli())
			if at, err := time.Parse(time.RFC3339, m.coins[0].updated); err == nil {
				before = fmt.Sprintf(`{"timestamp":%d,"data":[`, at.UnixMilli())
			}
			text := func(number string) string { // numbers are strings in this API
				if strings.ContainsAny(number[:1], "0123456789-+.") {
					return strconv.Quote(number)
				}
				return number
			}
			switch path {
			case "/assets":
				rank := 0
				return "quotes", each(m.coins, func(c *fakeCoin) string {
					rank++
					return fmt.Sprintf(`{"id":%q,"rank":"%d","symbol":%s,"name":%s,"priceUsd":%s,"marketCapUsd":%s,"volumeUsd24Hr":%s,"supply":%s,"maxSupply":%s,"explorer":null,"tokens":{}}`,
						c.id, rank, c.symbol, c.name, text(c.price), text(c.cap), text(c.volume),
						text(c.circulating), text(c.most))
				}), offset, before, "]}"
			case "/exchanges":
				return "exchanges", each(m.exchanges, func(e *fakeExchange) string {
					return fmt.Sprintf(`{"exchangeId":%q,"name":%q,"volumeUsd":%q,"tradingPairs":"9","exchangeUrl":"https://%s.test/","updated":946684800000}`,
						e.id, e.id, e.volume, e.id)
				}), offset, before, "]}"
			}
			return "", nil, -1, "", ""
		},
		feed: func(m *fakeMarket) (func(c *fakeCoin) string, []string, []string, []string) {
			return func(c *fakeCoin) string {
					return fmt.Sprintf(`{"key":%q,"name":%s,"symbol":%s,"slug":%q}`, c.id, c.name, c.symbol, c.id)
				}, each(m.exchanges, func(e *fakeExchange) string {
					return fmt.Sprintf(`{"key":%q,"name":%q,"slug":%q,"links":{"website":"https://%s.test/"},"market":{"volume_24h":%s,"markets_count":9,"data_time":"2000-01-01T00:00:00Z"}}`,
						e.id, e.id, e.id, e.id, e.volume)
				}), nil, nil
		},
	},
}

// cost returns how many calls the provider counts for a request. Requests for the map are free, but
// the builder counts one call.
func (a *fakeAPI) cost(path string, rows int) int {
	if a.scheme != "coinmarketcap" || strings.HasSuffix(path, "/map") {
		return 1
	}
	return max(1, (rows+199)/200)
}

// lose changes a coin to what remains of it without its quote's row.
func (a *fakeAPI) lose(c *fakeCoin) {
	c.unquoted, c.bare = true, true
	c.unlisted = a.scheme == "coincap" // because its quotes are its directory
}

// lower returns a symbol in a provider's spelling, whatever bytes it contains.
func lower(symbol string) string {
	b := []byte(symbol)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] += 'a' - 'A'
		}
	}
	return string(b)
}

// each returns the result of row for each element.
func each[T any](of []T, row func(*T) string) (rows []string) {
	for i := range of {
		rows = append(rows, row(&of[i]))
	}
	return rows
}

// members returns the keys of a group's members, for providers whose keys are strings.
func (m *fakeMarket) members(g *fakeGroup) string {
	return "[" + strings.Join(each(g.members, func(c *int) string { return strconv.Quote(m.coins[*c].id) }), ",") + "]"
}

// files returns the feed that a snapshot of the market must correspond to.
func (a *fakeAPI) files(m *fakeMarket, at time.Time) model.Files {
	asset, exchanges, categories, chains := a.feed(m)
	var assets, quotes []string
	for i := range m.coins {
		c := &m.coins[i]
		if c.unlisted {
			continue
		}
		row := asset(c)
		if assets = append(assets, row); !c.unquoted {
			key, _, _ := strings.Cut(row, ",")
			quotes = append(
				quotes, fmt.Sprintf(`%s,"price":%s,"market_cap":%s,"volume":%s,"circulating_supply":%s,"max_supply":%s}`, key,
					c.price, c.cap, c.volume, c.circulating, c.most))
		}
	}
	file := func(rows []string) string { return strings.Join(rows, "\n") }
	return model.Files{
		"feed.json": fmt.Sprintf(
			`{"format":1,"database":%q,"time":%q}`, a.scheme, at.UTC().Format(time.RFC3339)),
		"assets.ndjson":     file(assets),
		"quotes.ndjson":     file(quotes),
		"exchanges.ndjson":  file(exchanges),
		"categories.ndjson": file(categories),
		"chains.ndjson":     file(chains),
		"rates.ndjson":      a.rates,
	}
}

// A fake answers for a provider, over HTTP but without a network, and misbehaves on demand.
type fake struct {
	t   testing.TB
	api *fakeAPI

	mu     sync.Mutex
	market *fakeMarket
	fault  *misbehaviour // nil if there is none
	calls  []time.Time   // calls that the provider counts; a request may count as more than one
}

// serve starts the fake. The transport connects only to it.
func (f *fake) serve() (transport http.RoundTripper, stop func()) {
	listener := &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
	server := &http.Server{Handler: f}
	done := make(chan error)
	go func() { done <- server.Serve(listener) }()
	dial := func(ctx context.Context, _, addr string) (net.Conn, error) {
		if u, _ := url.Parse(f.api.base); addr != u.Host+":443" {
			f.t.Errorf("%s is asked", addr)
		}
		client, end := net.Pipe()
		select {
		case listener.conns <- end:
			return client, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.Proxy, t.DialTLSContext, t.DialContext, t.ResponseHeaderTimeout, t.MaxResponseHeaderBytes = nil, dial, dial,
		30*time.Second, 64<<10
	return t, func() {
		t.CloseIdleConnections()
		_ = server.Close()
		<-done
	}
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	m, fault := f.market, f.fault
	f.mu.Unlock()
	if r.Header.Get(f.api.header) != f.api.key {
		f.t.Errorf("asked for %s with %q", r.URL, r.Header)
	}
	u, _ := url.Parse(f.api.base)
	path := strings.TrimPrefix(r.URL.Path, u.Path)
	if fault != nil && fault.bend != nil {
		bent := *m
		bent.coins = slices.Clone(m.coins)
		fault.bend(&bent)
		m = &bent
	}
	list, rows, from, before, after := f.api.answer(m, path, r.URL.Query())
	if fault != nil && list != cmp.Or(fault.on, "quotes") && (fault.on != "all but quotes" || list == "quotes") {
		fault = nil
	}
	if fault != nil && fault.rows != nil {
		rows = fault.rows(rows)
	}
	if from >= 0 {
		page := rows[min(from, len(rows)):min(from+fakePage, len(rows))]
		if fault != nil && fault.page != nil {
			page = fault.page(from, rows)
		}
		rows = page
	}
	f.mu.Lock()
	for range f.api.cost(path, len(rows)) {
		f.calls = append(f.calls, time.Now())
	}
	f.mu.Unlock()
	body := before + strings.Join(rows, ",") + after
	switch {
	case before == "": // unknown path
		w.WriteHeader(http.StatusNotFound)
	case fault != nil && fault.http != nil:
		fault.http(w, r, body)
	case fault != nil && fault.body != nil:
		_, _ = w.Write([]byte(fault.body(body)))
	default:
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		_, _ = w.Write([]byte(body))
	}
}

// pipeListener accepts ends of pipes as connections. The pipes of fasthttputil cannot be used,
// because setting a deadline does not wake their readers, which net/http relies on when a
// connection is hijacked.
type pipeListener struct {
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}
func (l *pipeListener) Close() error   { l.once.Do(func() { close(l.closed) }); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }
