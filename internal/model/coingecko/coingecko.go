// Package coingecko is a model of the CoinGecko-compatible API, written only from the text of
// edge/COINGECKO.md. [Coins] answers requests from a snapshot of package model.
package coingecko

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/big"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"example.com/marketdata/internal/model"
)

// Prefix is the prefix of the paths of all endpoints.
const Prefix = "/api/v3/"

// Coins answers requests from a snapshot of a feed. It follows edge/COINGECKO.md literally, with
// rationals, maps and encoding/json.
type Coins struct {
	*model.Snapshot
	change  string // change of the total, in percent
	assets  []row  // sorted by id
	quotes  map[int64]row
	rates   map[string]*big.Rat
	assetOf map[string]int64 // for each rate that is the price of an asset, the id of that asset
}

// An Answer is the answer that the service must give.
type Answer struct {
	Status  int
	Blame   []string // for a 400: the message must contain one of these
	Shape   string   // for a 200: the name of the published shape that it must have
	Body    any      // for a 200, and for the 404 of a coin: the known members
	Ignored string   // the value of X-Ignored, for a 200

	NotFound string // the value of X-Not-Found, for a 200
}

// row is a decoded row of a listing. Its numbers keep their original text.
type row map[string]any

func decode(text string) (r row) {
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.UseNumber()
	if err := d.Decode(&r); err != nil {
		panic("model/coingecko: " + err.Error())
	}
	return r
}

// at returns the value at a path in r, or nil if there is none.
func (r row) at(path ...string) any {
	var v any = map[string]any(r)
	for _, name := range path {
		object, _ := v.(map[string]any)
		v = object[name]
	}
	return v
}

func (r row) text(path ...string) string { return cmp.Or(r.at(path...), any("")).(string) }
func (r row) slug() string               { return r.text("slug") }

func (r row) id() int64 {
	n, _ := r.at("id").(json.Number).Int64()
	return n
}

// rank returns the rank, or 0 if the row has none.
func (r row) rank() int64 {
	n, _ := cmp.Or(r.at("rank"), any(json.Number("0"))).(json.Number).Int64()
	return n
}

// number returns a decimal of the row, or nil if it is null or missing.
func (r row) number(path ...string) *big.Rat {
	text, _ := r.at(path...).(string)
	x, _ := new(big.Rat).SetString(text)
	return x
}

// NewCoins prepares a snapshot for answering. c is the change record in force, or nil if there is
// none.
func NewCoins(s *model.Snapshot, c *model.Change) *Coins {
	q, _ := model.Parse(model.Prefix + "global")
	global := decode(s.Answer(q, c).Body)
	all := &Coins{Snapshot: s, quotes: map[int64]row{}, rates: map[string]*big.Rat{},
		assetOf: map[string]int64{},
		change:  cmp.Or(global.text("result", "total_market_cap_change_percentage_24h"), "0")}
	for _, r := range s.Lists["assets"] {
		all.assets = append(all.assets, decode(r.WithTail))
	}
	for _, r := range s.Lists["markets"] {
		all.quotes[r.ID] = decode(r.WithTail)
	}
	for _, r := range s.Coins.Rates {
		all.rates[r.Code], all.assetOf[r.Code] = r.USD, r.Asset
	}
	return all
}

// coinQuestion is one request: the variable elements of its path, its parameters, the invalid
// parameters, and the parameters that had no effect.
type coinQuestion struct {
	*Coins
	path []string
	sent map[string]string
	bad  []string
	vain []string

	missed string // the value of X-Not-Found
}

const (
	priceReads  = "vs_currencies include_market_cap include_24hr_vol include_24hr_change include_last_updated_at precision"
	namesReads  = " ids names symbols include_tokens"
	coinReads   = "market_data sparkline include_categories_details"
	chartReads  = "vs_currency days interval precision"
	rangeReads  = "vs_currency from to interval precision"
	marketReads = "vs_currency category order per_page page sparkline price_change_percentage precision" + namesReads
)

// coinLists are the parameters whose values are lists.
var coinLists = []string{"ids", "names", "symbols", "vs_currencies", "contract_addresses", "price_change_percentage"}

// coinPaths lists the paths under /api/v3/, with the parameters that each reads and the function that
// answers it. A more specific path comes before a more general one that also matches.
// The answer functions return nil if the coin is not known.
var coinPaths = []struct {
	path, reads, shape string
	answer             func(*coinQuestion) any
}{
	{"ping", "", "PingServer", func(*coinQuestion) any { return row{"gecko_says": "(V3) To the Moon!"} }},
	{"simple/price", priceReads + namesReads, "SimplePrice", (*coinQuestion).simplePrice},
	{"simple/token_price/{}", priceReads + " contract_addresses", "SimplePrice", (*coinQuestion).simplePrice},
	{"simple/supported_vs_currencies", "", "SupportedCurrencies", (*coinQuestion).currencies},
	{"coins/list", "include_platform", "CoinsList", (*coinQuestion).list},
	{"coins/markets", marketReads, "CoinsMarkets", (*coinQuestion).markets},
	{"coins/categories/list", "", "CategoriesList", (*coinQuestion).categoryNames},
	{"coins/categories", "order", "Categories", (*coinQuestion).categories},
	{"coins/{}", coinReads, "CoinsID", (*coinQuestion).coin},
	{"coins/{}/market_chart", chartReads, "CoinsMarketChart", (*coinQuestion).chart},
	{"coins/{}/market_chart/range", rangeReads, "CoinsMarketChart", (*coinQuestion).chartRange},
	{"coins/{}/history", "date", "CoinsIdHistory", (*coinQuestion).past},
	{"coins/{}/ohlc", chartReads, "CoinsOHLC", (*coinQuestion).candles},
	{"coins/{}/ohlc/range", "vs_currency from to interval", "CoinsOHLC", (*coinQuestion).candleRange},
	{"coins/{}/contract/{}", coinReads, "CoinsContractAddress", (*coinQuestion).coin},
	{"coins/{}/contract/{}/market_chart", chartReads, "CoinsMarketChart", (*coinQuestion).chart},
	{"coins/{}/contract/{}/market_chart/range", rangeReads, "CoinsMarketChart", (*coinQuestion).chartRange},
	{"exchange_rates", "", "ExchangeRates", (*coinQuestion).exchangeRates},
	{"asset_platforms", "", "AssetPlatforms", (*coinQuestion).platforms},
	{"exchanges/list", "", "ExchangesList", (*coinQuestion).exchangeNames},
	{"exchanges", "per_page page", "Exchanges", (*coinQuestion).exchanges},
	{"search/trending", "", "TrendingSearch", (*coinQuestion).trending},
	{"search", "query", "Search", (*coinQuestion).search},
	{"global", "", "Global", (*coinQuestion).global},
}

// Answer returns the right answer to a request. target is the part of the request target after
// Prefix.
func (c *Coins) Answer(target string) Answer {
	path, raw, _ := strings.Cut(target, "?")
	path = strings.TrimSuffix(path, "/")
	for _, p := range coinPaths {
		q := &coinQuestion{Coins: c}
		want, got := strings.Split(p.path, "/"), strings.Split(path, "/")
		same := len(want) == len(got)
		for i := 0; same && i < len(want); i++ {
			if same = want[i] == got[i] || want[i] == "{}" && got[i] != ""; want[i] == "{}" {
				// In a path, a plus sign is literal.
				q.path = append(q.path, model.Unescape(strings.ReplaceAll(got[i], "+", "%2B")))
			}
		}
		if !same {
			continue
		}
		q.read(raw, strings.Fields(p.reads))
		switch body := p.answer(q); {
		case len(q.bad) > 0:
			return Answer{Status: 400, Blame: q.bad}
		case body == nil:
			return Answer{Status: 404, Body: row{"error": "coin not found"}}
		default:
			return Answer{Status: 200, Shape: p.shape, Body: body, Ignored: model.NameIgnored(q.vain),
				NotFound: q.missed}
		}
	}
	return Answer{Status: 404}
}

// Parsing of parameters.

// read stores the parameters that an endpoint reads, and records those that it does not read or
// that have no effect.
func (q *coinQuestion) read(raw string, reads []string) {
	lists := slices.DeleteFunc(slices.Clone(coinLists), func(name string) bool { return !slices.Contains(reads, name) })
	q.sent = map[string]string{}
	for name, value := range model.Parameters(raw, lists...) {
		if slices.Contains(reads, name) {
			q.sent[name] = value
		}
	}
	for name, values := range model.AllParameters(raw, lists) {
		unread := !slices.Contains(reads, name) || len(values) > 1 && !slices.Contains(lists, name)
		if unread && name != "" && !strings.HasPrefix(name, "x_cg_") && !strings.Contains(name, "mdk_live_") {
			q.vain = append(q.vain, name)
		}
	}
}

func (q *coinQuestion) blame(name string) { q.bad = append(q.bad, name) }

// miss records the values of a parameter that match nothing.
func (q *coinQuestion) miss(name string, values []string) {
	slices.Sort(values)
	for i, v := range slices.Compact(values) {
		next := q.missed + "," + model.PercentEncode(v)
		if i == 0 {
			next = name + "=" + model.PercentEncode(v)
		}
		if len(next) > 1024 {
			break
		}
		q.missed = next
	}
}

func (q *coinQuestion) ignore(name string) { q.vain = append(q.vain, name) }

// word returns a parameter's value in the form in which values are compared.
func (q *coinQuestion) word(name string) string { return strings.TrimSpace(model.Fold(q.sent[name])) }

func (q *coinQuestion) has(name string, otherwise bool) bool {
	return strings.Contains("true 1", q.one(name, strconv.FormatBool(otherwise), "true", "1", "false", "0"))
}

// one returns the value of a request's parameter if that is among the given values, or else the given
// default.
func (q *coinQuestion) one(name, otherwise string, values ...string) string {
	if v := q.word(name); slices.Contains(values, v) {
		return v
	}
	if q.sent[name] != "" {
		q.ignore(name)
	}
	return otherwise
}

var decimalGrammar = regexp.MustCompile(`^-?[0-9]+(\.[0-9]+)?$`)

// number returns a parameter's value as a decimal number, or nil if it is not one.
func (q *coinQuestion) number(name string) *big.Rat {
	if v := q.word(name); decimalGrammar.MatchString(v) {
		x, _ := new(big.Rat).SetString(v)
		return x
	}
	return nil
}

// whole returns an optional number without its fraction, limited to the range from low to high.
func (q *coinQuestion) whole(name string, low, high, otherwise int64) int64 {
	x := q.number(name)
	if x == nil {
		if q.sent[name] != "" {
			q.ignore(name)
		}
		return otherwise
	}
	n := new(big.Int).Quo(x.Num(), x.Denom())
	if n.Cmp(big.NewInt(low)) < 0 {
		return low
	} else if n.Cmp(big.NewInt(high)) > 0 {
		return high
	}
	return n.Int64()
}

func (q *coinQuestion) elements(name, text string) (list []string) {
	for v := range strings.SplitSeq(text, ",") {
		if v = strings.TrimSpace(v); v != "" {
			list = append(list, v)
		}
	}
	if len(list) > 500 {
		q.blame(name)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// codes returns the currencies that a parameter names. maxCodes is the maximum number of them.
func (q *coinQuestion) codes(name string, maxCodes int) []string {
	list := q.elements(name, model.Fold(q.sent[name]))
	unknown := func(code string) bool { return q.rates[code] == nil }
	if len(list) == 0 || maxCodes == 1 && strings.Contains(q.sent[name], ",") || slices.ContainsFunc(list, unknown) {
		q.blame("vs_currenc")
		return []string{"usd"}
	}
	return list
}

func (q *coinQuestion) places() int {
	if q.word("precision") == "full" {
		return 18
	}
	return int(q.whole("precision", 0, 18, 18))
}

// Formatting of numbers.

// plain formats x in plain notation, rounded half to even.
func plain(x *big.Rat, places int) json.Number { return json.Number(model.Plain(x, places)) }

// in converts a figure from US dollars to another currency. The result is nil if the rate is
// unknown or the number has more than 256 bits.
func (q *coinQuestion) in(code string, x *big.Rat, places int) any {
	if x == nil {
		return nil
	}
	return inRate(x, q.rates[code], places)
}

func inRate(x, rate *big.Rat, places int) any {
	n := plain(new(big.Rat).Quo(x, rate), places)
	units, _ := new(big.Rat).SetString(fmt.Sprintf("%se%d", n, places))
	if units.Num().BitLen() > 256 {
		return nil
	}
	return n
}

func (q *coinQuestion) inAll(x *big.Rat) row {
	all := row{}
	for code := range q.rates {
		if v := q.in(code, x, 18); v != nil {
			all[code] = v
		}
	}
	return all
}

func exact(x *big.Rat) any {
	if x == nil {
		return nil
	}
	return plain(x, 18)
}

// percent returns the change over a window, or nil if less than nine tenths of the window are
// covered.
func (q *coinQuestion) percent(quote row, window string) any {
	if !q.Snapshot.Coins.Covered[quote.id()][window] {
		return nil
	}
	return exact(quote.number("percent_change", window))
}

// moved returns the price change over a day.
func (q *coinQuestion) moved(quote row) any {
	if !q.Snapshot.Coins.Covered[quote.id()]["24h"] {
		return nil
	}
	return exact(q.Snapshot.Coins.Moved[quote.id()])
}

// diluted returns the price of the maximum supply or, if that is not known, of the total supply.
func (q *coinQuestion) diluted(quote row) *big.Rat {
	known := q.Snapshot.Coins.Supplies[quote.id()]
	if supply := cmp.Or(known[2], known[1]); supply != nil {
		return new(big.Rat).Mul(quote.number("price"), supply)
	}
	return nil
}

// Finding coins.

// best returns the matching asset with the best rank, or nil if none matches.
func (c *Coins) best(match func(row) bool) (best row) {
	for _, a := range c.assets {
		if match(a) && (best == nil || a.rank() > 0 && (best.rank() == 0 || a.rank() < best.rank())) {
			best = a
		}
	}
	return best
}

func same(field, text string) func(row) bool {
	return func(a row) bool { return model.Fold(a.text(field)) == model.Fold(text) }
}

var evmAddress = regexp.MustCompile(`^0x[0-9a-fA-F]{40}$`)

// address returns a contract's address in the form that answers use.
func address(text string) string {
	if evmAddress.MatchString(text) {
		return strings.ToLower(text)
	}
	return text
}

func (q *coinQuestion) at(platform, contract string) row {
	return q.best(func(a row) bool {
		have, ok := q.Snapshot.Coins.On[a.id()][platform]
		return ok && have == address(contract)
	})
}

// named returns the assets that a request names, by their keys in the answer.
func (q *coinQuestion) named() (coins map[string]row, asked bool) {
	coins = map[string]row{}
	all := q.one("include_tokens", "top", "top", "all") == "all"
	if q.sent["include_tokens"] != "" && (q.sent["ids"] != "" || q.sent["names"] != "" || q.sent["symbols"] == "") {
		q.ignore("include_tokens")
	}
	for _, by := range []string{"ids", "names", "symbols", "contract_addresses"} {
		if q.sent[by] == "" {
			continue
		}
		if asked {
			q.ignore(by)
			continue
		}
		asked = true
		found := 0
		list := q.elements(by, q.sent[by])
		if by == "symbols" && all {
			list = q.elements(by, model.Fold(q.sent[by]))
		}
		var missed []string
		for _, v := range list {
			key, a := v, row(nil)
			switch by {
			case "ids":
				a = q.best(func(a row) bool { return a.slug() == v })
			case "names":
				a = q.best(same("name", v))
			case "contract_addresses":
				key, a = address(v), q.at(q.path[0], v)
			default:
				if a = q.best(same("symbol", v)); a == nil {
					missed = append(missed, key)
					continue
				}
				if all {
					for _, a := range q.assets {
						if found < 500 && same("symbol", v)(a) {
							coins[a.slug()] = a
							found++
						}
					}
					continue
				}
			}
			if a != nil {
				coins[key] = a
			} else {
				missed = append(missed, key)
			}
		}
		q.miss(by, missed)
	}
	return coins, asked
}

func (q *coinQuestion) simplePrice() any {
	codes, places := q.codes("vs_currencies", 500), q.places()
	marketCap, volume := q.has("include_market_cap", false), q.has("include_24hr_vol", false)
	change, at := q.has("include_24hr_change", false), q.has("include_last_updated_at", false)
	coins, asked := q.named()
	if !asked && len(q.path) == 0 {
		q.blame("ids, names or symbols")
	} else if !asked {
		q.blame("contract_addresses")
	}
	if len(coins)*len(codes) > 50_000 {
		q.blame("too many prices")
	}
	answer := row{}
	for key, a := range coins {
		figures, quote := row{}, q.quotes[a.id()]
		answer[key] = figures
		if quote == nil {
			continue
		}
		for _, code := range codes {
			figures[code] = q.in(code, quote.number("price"), places)
			if marketCap {
				figures[code+"_market_cap"] = q.in(code, quote.number("market_cap"), 18)
			}
			if volume {
				figures[code+"_24h_vol"] = q.in(code, quote.number("volume"), 18)
			}
			if change {
				figures[code+"_24h_change"] = nil
			}
			if change && code == "usd" {
				figures[code+"_24h_change"] = q.percent(quote, "24h")
			}
		}
		if at {
			figures["last_updated_at"] = q.Time.Unix()
		}
	}
	return answer
}

func (q *coinQuestion) updated() string { return q.Time.Format("2006-01-02T15:04:05.000Z") }

func identity(a row) row {
	return row{"id": a.slug(), "symbol": strings.ToLower(a.text("symbol")), "name": a.text("name")}
}

func (q *coinQuestion) list() any {
	with := q.has("include_platform", false)
	return each(q.assets, func(a row) row {
		item := identity(a)
		if with {
			item["platforms"] = q.Snapshot.Coins.On[a.id()]
		}
		return item
	})
}

// sorted returns the rows of a listing in an order such as volume_desc.
func (q *coinQuestion) sorted(listing, key string, desc bool) (rows []row) {
	var list []*model.Row
	for i := range q.Lists[listing] {
		list = append(list, &q.Lists[listing][i])
	}
	slices.SortFunc(list, model.Order(key, desc))
	for _, r := range list {
		rows = append(rows, decode(cmp.Or(r.WithTail, r.JSON)))
	}
	return rows
}

// page returns the requested page of a listing.
func (q *coinQuestion) page(list []row) []row {
	size, number := q.whole("per_page", 1, 250, 100), q.whole("page", 1, math.MaxInt64, 1)
	first := min(number-1, math.MaxInt32) * size
	return list[min(first, int64(len(list))):min(first+size, int64(len(list)))]
}

func (q *coinQuestion) markets() any {
	code, places, sparkline := q.codes("vs_currency", 1)[0], q.places(), q.has("sparkline", false)
	key, direction, _ := strings.Cut(strings.Replace(q.one("order", "market_cap_desc", "market_cap_desc",
		"market_cap_asc", "volume_desc", "volume_asc", "id_asc", "id_desc"), "market_cap", "cap", 1), "_")
	key = map[string]string{"cap": "market_cap", "volume": "volume"}[key]
	changes := map[string]bool{}
	for w := range strings.SplitSeq(model.Fold(q.sent["price_change_percentage"]), ",") {
		if w = strings.TrimSpace(w); slices.Contains([]string{"1h", "24h", "7d", "14d", "30d", "200d", "1y"}, w) {
			changes[w] = true
		} else if w != "" {
			q.ignore("price_change_percentage")
		}
	}
	group := q.sent["category"]
	for _, by := range []string{"ids", "names", "symbols"} {
		if group != "" && q.sent[by] != "" {
			q.sent[by] = ""
			q.ignore(by)
		}
	}
	if group != "" && !slices.ContainsFunc(q.sorted("categories", "id", false), func(g row) bool {
		return g.slug() == group
	}) {
		q.miss("category", []string{group})
	}
	named, asked := q.named()
	ids := map[int64]bool{}
	for _, a := range named {
		ids[a.id()] = true
	}
	list := q.page(slices.DeleteFunc(q.sorted("markets", cmp.Or(key, "slug"), direction == "desc"), func(m row) bool {
		in, _ := m.at("groups", "categories").([]any)
		return asked && !ids[m.id()] || group != "" && !slices.Contains(in, any(group))
	}))
	return each(list, func(m row) row {
		item := q.market(m, code, places, sparkline)
		for w := range changes {
			item["price_change_percentage_"+w+"_in_currency"] = nil
			if code == "usd" {
				item["price_change_percentage_"+w+"_in_currency"] = q.percent(m, w)
			}
		}
		return item
	})
}

func (q *coinQuestion) market(m row, code string, places int, sparkline bool) row {
	known := q.Snapshot.Coins.Supplies[m.id()]
	item := identity(m)
	maps.Copy(item, row{"image": m.text("logo"), "current_price": q.in(code, m.number("price"), places),
		"market_cap": q.in(code, m.number("market_cap"), 18), "market_cap_rank": m.at("rank"),
		"fully_diluted_valuation": q.in(code, q.diluted(m), 18),
		"total_volume":            q.in(code, m.number("volume"), 18), "circulating_supply": exact(known[0]),
		"total_supply": exact(known[1]), "max_supply": exact(known[2]), "last_updated": q.updated()})
	if code == "usd" {
		item["price_change_24h"] = q.moved(m)
		item["price_change_percentage_24h"] = q.percent(m, "24h")
	}
	if sparkline {
		item["sparkline_in_7d"] = row{"price": q.sparkline(m.id(), code, places)}
	}
	return item
}

// hourly is the suffix of a window whose newest part has hourly points.
const hourly = " hourly"

func (q *coinQuestion) points(window string, id int64) []model.Point {
	if of, ok := strings.CutSuffix(window, hourly); ok {
		return q.Hourly(of, id)
	}
	if s := q.SeriesOf(window); s != nil {
		return s.Points(id)
	}
	return nil
}

// rateAt returns the value of a currency at the time of a point of a window, or nil if it is not
// known.
func (q *coinQuestion) rateAt(code, window string, at time.Time) *big.Rat {
	if code == "usd" || at.Equal(q.Time) {
		return q.rates[code]
	}
	for _, p := range q.points(window, q.assetOf[code]) {
		if x, _ := new(big.Rat).SetString(p.Price); p.Time.Equal(at) && x.Sign() > 0 {
			return x
		}
	}
	return nil
}

func (q *coinQuestion) priceIn(code, window string, p model.Point, places int) any {
	x, _ := new(big.Rat).SetString(p.Price)
	if rate := q.rateAt(code, window, p.Time); rate != nil {
		return inRate(x, rate, places)
	}
	return nil
}

// amountIn converts a market cap or volume with the rate at the time of a point.
func (q *coinQuestion) amountIn(code, window string, at time.Time, x *big.Rat) any {
	if rate := q.rateAt(code, window, at); rate != nil && x != nil {
		return inRate(x, rate, 18)
	}
	return nil
}

// said returns an asset's figures in the snapshot at a given time. For the present snapshot, they
// are the quote's figures.
func (q *coinQuestion) said(at time.Time, id int64) model.Quoted {
	if quote := q.quotes[id]; at.Equal(q.Time) {
		return model.Quoted{MarketCap: quote.number("market_cap"), Volume: quote.number("volume")}
	}
	return q.Past.Said(at, id)
}

func (q *coinQuestion) sparkline(id int64, code string, places int) []any {
	prices := []any{}
	for _, p := range q.points("7d", id) {
		if price := q.priceIn(code, "7d", p, places); price != nil {
			prices = append(prices, price)
		}
	}
	return prices
}

// theCoin returns the asset that the path names, or nil if it is not known.
func (q *coinQuestion) theCoin() row {
	if len(q.path) == 2 {
		return q.at(q.path[0], q.path[1])
	}
	return q.best(func(a row) bool { return a.slug() == q.path[0] })
}

func (q *coinQuestion) coin() any {
	market, sparkline := q.has("market_data", true), q.has("sparkline", false)
	details := q.has("include_categories_details", false)
	a := q.theCoin()
	if a == nil {
		return nil
	}
	on, quote, item := q.Snapshot.Coins.On[a.id()], q.quotes[a.id()], identity(a)
	contracts, homepage, groups, named := row{}, []any{}, []any{}, []any{}
	for platform, address := range on {
		contracts[platform] = row{"contract_address": address}
		if len(on) == 1 {
			item["asset_platform_id"], item["contract_address"] = platform, address
		}
	}
	if len(on) > 1 {
		item["contract_address"] = nil
	}
	if len(on) == 0 {
		on, contracts = map[string]string{"": ""}, row{"": row{"contract_address": ""}}
	}
	if website := a.text("links", "website"); website != "" {
		homepage = append(homepage, website)
	}
	slugs, _ := quote.at("groups", "categories").([]any)
	for _, slug := range slugs {
		for _, g := range q.sorted("categories", "id", false) {
			if g.slug() == slug {
				groups = append(groups, g.text("name"))
				named = append(named, row{"id": slug, "name": g.text("name")})
			}
		}
	}
	maps.Copy(item, row{"web_slug": a.slug(), "platforms": on, "detail_platforms": contracts, "categories": groups,
		"image": image(a, "thumb", "small", "large"), "market_cap_rank": a.at("rank"), "last_updated": nil,
		"localization": row{"en": a.text("name")}, "description": row{"en": ""},
		"links": row{"homepage": homepage, "whitepaper": a.text("links", "whitepaper"),
			"blockchain_site": a.at("explorers")}})
	if quote != nil {
		item["last_updated"] = q.updated()
	}
	if len(q.path) == 2 {
		item["contract_address"] = address(q.path[1])
	}
	if details {
		item["categories_details"] = named
	}
	if market {
		item["market_data"] = q.marketData(a, quote, sparkline)
	}
	return item
}

func image(a row, sizes ...string) row {
	all := row{}
	for _, size := range sizes {
		all[size] = a.text("logo")
	}
	return all
}

func (q *coinQuestion) marketData(a, quote row, sparkline bool) row {
	known := q.Snapshot.Coins.Supplies[a.id()]
	data := row{"current_price": q.inAll(quote.number("price")), "market_cap": q.inAll(quote.number("market_cap")),
		"total_volume": q.inAll(quote.number("volume")), "market_cap_rank": a.at("rank"), "last_updated": nil}
	if sparkline {
		data["sparkline_7d"] = q.sparkline(a.id(), "usd", 18)
	}
	if quote == nil {
		return data
	}
	data["fully_diluted_valuation"] = q.inAll(q.diluted(quote))
	data["circulating_supply"], data["total_supply"] = exact(known[0]), exact(known[1])
	data["max_supply"], data["last_updated"] = exact(known[2]), q.updated()
	data["price_change_24h"], data["price_change_24h_in_currency"] = q.moved(quote), inDollars(q.moved(quote))
	for _, w := range []string{"1h", "24h", "7d", "30d", "1y"} {
		data["price_change_percentage_"+w+"_in_currency"] = inDollars(q.percent(quote, w))
		if w != "1h" {
			data["price_change_percentage_"+w] = q.percent(quote, w)
		}
	}
	return data
}

// inDollars returns an object that maps usd to a change, or an empty object if the change is not
// known.
func inDollars(change any) row {
	if change == nil {
		return row{}
	}
	return row{"usd": change}
}

// covering returns the finest window that reaches back to a time.
func (q *coinQuestion) covering(begin time.Time) string {
	window := "max"
	for _, w := range slices.Backward(model.Windows) {
		if !begin.Before(q.Time.Add(-w.Length)) {
			window = w.Name
		}
	}
	return window
}

func (q *coinQuestion) chart() any {
	return q.prices(time.Unix(q.Time.Unix()-q.ago(), 0), q.Time)
}

// ago returns how many seconds back the parameter "days" reaches.
func (q *coinQuestion) ago() int64 {
	const day, most = 24 * 60 * 60, math.MaxInt32 * 24 * 60 * 60
	ago := int64(most)
	if q.word("days") != "max" {
		days := q.number("days")
		if days == nil {
			q.blame("days")
			days = new(big.Rat)
		}
		seconds := days.Mul(days, big.NewRat(day, 1))
		if n := new(big.Int).Quo(seconds.Num(), seconds.Denom()); n.Sign() < 0 {
			ago = 0
		} else if n.IsInt64() {
			ago = min(ago, n.Int64())
		}
	}
	return ago
}

func (q *coinQuestion) chartRange() any {
	from, to := q.time("from"), q.time("to")
	if from.After(to) {
		q.blame("from")
	}
	return q.prices(from, to)
}

// The time formats that client programs use.
var (
	secondsGrammar = regexp.MustCompile(`^(-?[0-9]{1,12})(\.[0-9]+)?$`)
	millisGrammar  = regexp.MustCompile(`^-?[0-9]{13,}(\.[0-9]+)?$`)
	dayGrammar     = regexp.MustCompile(`^([0-9]{4})-([0-9]{2})-([0-9]{2})$`)
	turnedGrammar  = regexp.MustCompile(`^([0-9]{2})-([0-9]{2})-([0-9]{4})$`)
	timeGrammar    = regexp.MustCompile(`^([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})` +
		`(?:\.[0-9]+)?)?(?:[Zz]|([-+ ])([0-9]{2}):([0-9]{2}))?$`)
)

// time returns a parameter's value as a time in whole seconds.
func (q *coinQuestion) time(name string) time.Time {
	text := strings.TrimSpace(q.sent[name])
	number := func(digits string) int { n, _ := strconv.Atoi(digits); return n }
	date := func(year, month, day string) (time.Time, bool) {
		t := time.Date(number(year), time.Month(number(month)), number(day), 0, 0, 0, 0, time.UTC)
		return t, t.Format("2006-01-02") == year+"-"+month+"-"+day
	}
	if m := secondsGrammar.FindStringSubmatch(text); m != nil {
		return time.Unix(int64(number(m[1])), 0).UTC()
	}
	if m := dayGrammar.FindStringSubmatch(text); m != nil {
		if t, ok := date(m[1], m[2], m[3]); ok {
			return t
		}
	}
	if m := turnedGrammar.FindStringSubmatch(text); m != nil {
		if t, ok := date(m[3], m[2], m[1]); ok {
			return t
		}
	}
	if m := timeGrammar.FindStringSubmatch(text); m != nil {
		t, ok := date(m[1][:4], m[1][5:7], m[1][8:])
		hour, minute, second, east := number(m[2]), number(m[3]), number(m[4]), 60*number(m[6])+number(m[7])
		if m[5] == "-" {
			east = -east
		}
		// RFC 3339, section 5.6: the hours of an offset are 00 to 23, and its minutes 00 to 59.
		if ok && hour < 24 && minute < 60 && second < 60 && number(m[6]) < 24 && number(m[7]) < 60 {
			return t.Add(time.Duration((hour*60+minute-east)*60+second) * time.Second)
		}
	}
	if millisGrammar.MatchString(text) {
		q.blame(name + ": a time in milliseconds")
	} else {
		q.blame(name)
	}
	return time.Time{}
}

// prices returns a chart. With an interval it has the first price of each hour or day that begins
// in the range, and the newest price. Daily points have the time at which the day begins. Market
// caps and volumes come from the same snapshots.
func (q *coinQuestion) prices(begin, end time.Time) any {
	step := steps[q.one("interval", "", "hourly", "daily")]
	code, places, a, window := q.codes("vs_currency", 1)[0], q.places(), q.theCoin(), q.covering(begin)
	if a == nil {
		return nil
	}
	if step == time.Hour && window != "24h" && window != "7d" {
		window += hourly
	}
	prices, caps, volumes := []any{}, []any{}, []any{}
	taken := map[time.Time]bool{}
	for _, p := range q.points(window, a.id()) {
		newest, stand, interval := p.Time.Equal(q.Time), p.Time, p.Time.Truncate(step)
		if step == 24*time.Hour && !newest {
			stand = interval
		}
		late := step > 0 && !newest && (taken[interval] || interval.Before(begin))
		if late || stand.Before(begin) || stand.After(end) {
			continue
		}
		taken[interval] = true
		price := q.priceIn(code, window, p, places)
		if price == nil { // The price is not known in this currency.
			continue
		}
		said := q.said(p.Time, a.id())
		worth := q.amountIn(code, window, p.Time, said.MarketCap)
		volume := q.amountIn(code, window, p.Time, said.Volume)
		prices = append(prices, []any{stand.UnixMilli(), price})
		caps, volumes = append(caps, []any{stand.UnixMilli(), worth}), append(volumes, []any{stand.UnixMilli(), volume})
	}
	return row{"prices": prices, "market_caps": caps, "total_volumes": volumes}
}

func (q *coinQuestion) past() any {
	begin := q.time("date").Truncate(24 * time.Hour)
	a := q.theCoin()
	if a == nil {
		return nil
	}
	item := identity(a)
	price, worth, volume, window := row{}, row{}, row{}, q.covering(begin)
	for _, p := range q.points(window, a.id()) {
		if p.Time.Before(begin) || !p.Time.Before(begin.Add(24*time.Hour)) {
			continue
		}
		said := q.said(p.Time, a.id())
		for code := range q.rates {
			for to, v := range map[*row]any{&price: q.priceIn(code, window, p, 18),
				&worth:  q.amountIn(code, window, p.Time, said.MarketCap),
				&volume: q.amountIn(code, window, p.Time, said.Volume)} {
				if v != nil {
					(*to)[code] = v
				}
			}
		}
		break
	}
	item["image"], item["localization"] = image(a, "thumb", "small"), row{"en": a.text("name")}
	item["market_data"] = row{"current_price": price, "market_cap": worth, "total_volume": volume}
	return item
}

// Endpoints that list whole collections.

// each returns a list with the result of toItem for each row.
func each[T any](rows []T, toItem func(T) row) any {
	list := []any{}
	for _, r := range rows {
		list = append(list, toItem(r))
	}
	return list
}

func (q *coinQuestion) currencies() any {
	codes := []any{}
	for _, r := range q.Snapshot.Coins.Rates {
		codes = append(codes, r.Code)
	}
	return codes
}

func (q *coinQuestion) exchangeRates() any {
	rates := row{}
	if bitcoin := q.rates["btc"]; bitcoin != nil {
		for _, r := range q.Snapshot.Coins.Rates {
			rates[r.Code] = row{"name": r.Name, "unit": r.Unit, "type": r.Type, "value": q.in(r.Code, bitcoin, 18)}
		}
	}
	return row{"rates": rates}
}

func (q *coinQuestion) platforms() any {
	return each(slices.Sorted(maps.Keys(q.Snapshot.Coins.Chains)), func(id string) row {
		p := q.Snapshot.Coins.Chains[id]
		item := row{"id": id, "name": p.Name, "shortname": p.ShortName, "chain_identifier": p.EVMChainID,
			"native_coin_id": p.Native, "image": image(row{"logo": p.Logo}, "thumb", "small", "large")}
		if p.Native == "" {
			item["native_coin_id"] = nil
		}
		return item
	})
}

func (q *coinQuestion) categoryNames() any {
	return each(q.sorted("categories", "id", false), func(g row) row {
		return row{"category_id": g.slug(), "name": g.text("name")}
	})
}

func (q *coinQuestion) categories() any {
	order := q.one("order", "market_cap_desc", "market_cap_desc", "market_cap_asc", "name_desc", "name_asc",
		"market_cap_change_24h_desc",
		"market_cap_change_24h_asc")
	key := "market_cap"
	switch {
	case strings.Contains(order, "change"): // No such change is known for categories.
		key, order = "id", ""
	case strings.HasPrefix(order, "name"):
		key = "name"
	}
	ranked := q.sorted("markets", "rank", false)
	return each(q.sorted("categories", key, strings.HasSuffix(order, "desc")), func(g row) row {
		leaders, logos := []any{}, []any{}
		for _, m := range ranked {
			in, _ := m.at("groups", "categories").([]any)
			if m.rank() > 0 && slices.Contains(in, any(g.slug())) && len(leaders) < 3 {
				leaders, logos = append(leaders, m.slug()), append(logos, m.text("logo"))
			}
		}
		return row{"id": g.slug(), "name": g.text("name"), "market_cap": exact(g.number("market", "market_cap")),
			"volume_24h": exact(g.number("market", "volume_24h")), "top_3_coins_id": leaders, "top_3_coins": logos,
			"updated_at": q.updated()}
	})
}

func (q *coinQuestion) exchangeNames() any {
	return each(q.sorted("exchanges", "id", false), func(e row) row {
		return row{"id": e.slug(), "name": e.text("name")}
	})
}

func (q *coinQuestion) exchanges() any {
	return each(q.page(q.sorted("exchanges", "volume", true)), func(e row) row {
		volume := any(0)
		if x := e.number("market", "volume_24h"); x != nil && q.rates["btc"] != nil {
			volume = q.in("btc", x, 18)
		}
		return row{"id": e.slug(), "name": e.text("name"), "url": e.text("links", "website"), "image": e.text("logo"),
			"trade_volume_24h_btc": volume}
	})
}

func (q *coinQuestion) search() any {
	asked, _ := model.Parse(model.Prefix + "search?q=" + url.QueryEscape(q.sent["query"]))
	list := []any{}
	if asked == nil {
		q.blame("query")
		return list
	}
	found := decode(q.Snapshot.Answer(asked, nil).Body)
	for _, v := range found.at("result", "items").([]any) {
		a := row(v.(map[string]any))
		item := row{"id": a.slug(), "symbol": a.text("symbol"), "name": a.text("name")}
		item["api_symbol"], item["market_cap_rank"] = a.slug(), a.at("rank")
		item["thumb"], item["large"] = a.text("logo"), a.text("logo")
		list = append(list, item)
	}
	return row{"coins": list}
}

func (q *coinQuestion) trending() any {
	list := []any{}
	for i, r := range q.Lists["trending"] {
		t := decode(r.JSON)
		bitcoin := func(name string) string {
			if q.rates["btc"] == nil {
				return ""
			}
			return string(q.in("btc", t.number(name), 18).(json.Number))
		}
		item := row{"id": t.slug(), "symbol": t.text("symbol"), "name": t.text("name")}
		maps.Copy(item, row{"coin_id": t.id(), "market_cap_rank": q.quotes[t.id()].rank(), "thumb": t.text("logo"),
			"small": t.text("logo"), "large": t.text("logo"), "slug": t.slug(),
			"price_btc": json.Number(cmp.Or(bitcoin("price"), "0")), "score": i, "data": row{
				"price":     exact(t.number("price")),
				"price_btc": bitcoin("price"), "price_change_percentage_24h": inDollars(q.percent(t, "24h")),
				"market_cap": t.text("market_cap"), "market_cap_btc": bitcoin("market_cap"),
				"total_volume": t.text("volume"), "total_volume_btc": bitcoin("volume")}})
		list = append(list, row{"item": item})
	}
	return row{"coins": list}
}

func (q *coinQuestion) global() any {
	total, _ := new(big.Rat).SetString(q.TotalMarketCap)
	volume, _ := new(big.Rat).SetString(q.TotalVolume)
	shares := row{}
	for _, m := range q.sorted("markets", "rank", false) {
		symbol := strings.ToLower(m.text("symbol"))
		if m.rank() > 0 && m.rank() <= 10 && shares[symbol] == nil {
			share := new(big.Rat).Quo(m.number("market_cap"), total)
			shares[symbol] = plain(share.Mul(share, big.NewRat(100, 1)), 12)
		}
	}
	return row{"data": row{"active_cryptocurrencies": q.Snapshot.Coins.Active, "markets": len(q.Lists["exchanges"]),
		"total_market_cap": q.inAll(total), "total_volume": q.inAll(volume), "updated_at": q.Time.Unix(),
		"market_cap_percentage":                shares,
		"market_cap_change_percentage_24h_usd": json.Number(q.change), "volume_change_percentage_24h_usd": 0}}
}
