package gecko

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"net/http"
	"slices"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge/query"
	"example.com/marketdata/edge/reply"
)

// param is a parameter that any endpoint reads.
type param uint8

const (
	none param = iota
	ids
	names
	symbols
	tokens
	currency
	currencies
	addresses
	withCap
	withVolume
	withChange
	withTime
	precision
	platforms
	category
	order
	perPage
	page
	sparkline
	changes
	marketData
	details
	days
	from
	to
	interval
	date
	text
	params = iota
)

var paramNames = [params]string{ids: "ids", names: "names", symbols: "symbols", tokens: "include_tokens",
	currency: "vs_currency", currencies: "vs_currencies", addresses: "contract_addresses",
	withCap: "include_market_cap", withVolume: "include_24hr_vol", withChange: "include_24hr_change",
	withTime: "include_last_updated_at", precision: "precision", platforms: "include_platform",
	category: "category", order: "order", perPage: "per_page", page: "page", sparkline: "sparkline",
	changes: "price_change_percentage", marketData: "market_data", details: "include_categories_details",
	days: "days", from: "from", to: "to", interval: "interval", date: "date", text: "query"}

type paramSet uint32

func setOf(list ...param) (set paramSet) {
	for _, p := range list {
		set |= 1 << p
	}
	return set
}

func (s paramSet) has(p param) bool { return s&(1<<p) != 0 }

// Bounds of parameters.
const (
	maxValues = 500
	// maxPrices bounds coins times currencies, and with it what one answer takes: 8 MB.
	maxPrices  = 50_000
	maxPerPage = 250
	usualPage  = 100
	// furthest is the highest page: none is that far, and sums with its first row do not overflow.
	furthest = 1 << 40
)

// IsKey reports whether a parameter of the query, its name as sent, is an API key.
func IsKey(name []byte) bool {
	const longest = "x_cg_demo_api_key"
	if len(name) > 3*len(longest) {
		return false
	}
	var b [3 * len(longest)]byte
	switch string(query.AppendUnescaped(b[:0], name)) {
	case longest, "x_cg_pro_api_key":
		return true
	}
	return false
}

// Query is one request below Prefix, and the memory that its answer is composed with. It is a
// reply.Composer. What it holds is valid until the next Parse.
type Query struct {
	Endpoint Endpoint

	flags   paramSet  // the parameters of yes or no that are yes; tokens: all
	path    [2][]byte // the coin; or platform and address
	by      param     // how coins are named: ids, names, symbols, addresses or none
	values  [][]byte  // as sent, sorted, without repeats
	codes   [][]byte  // currencies, folded, sorted, without repeats
	places  int       // of prices; -1: all
	order   uint8
	page    int64
	perPage int
	changes uint8 // windows of price_change_percentage, by bit
	begin   int64 // days before T; or a Unix time in seconds
	end     int64
	step    int64  // seconds of interval; 0: all points
	group   []byte // category
	text    []byte // as sent

	buf    []byte // behind all these
	source []byte

	scratch
}

func refuse(message string) *reply.Refusal {
	return &reply.Refusal{Status: http.StatusBadRequest, Message: message}
}

// refusals are those of all parameters.
func refusals(format string) (list [params]*reply.Refusal) {
	for p, name := range paramNames {
		list[p] = refuse(fmt.Sprintf(format, name))
	}
	return list
}

// The 400s, made beforehand: none repeats what was sent.
var (
	errMissing   = refusals("Missing parameter %s")
	errTooMany   = refusals("%s: more than 500 elements")
	errBool      = refusals("%s: not true or false")
	errLookup    = refuse("Missing parameter ids, names or symbols")
	errCurrency  = refuse("invalid vs_currency")
	errPrecision = refuse("precision: it takes full, or a whole number from 0 to 18")
	errTokens    = refuse("include_tokens: it takes top or all")
	errOrder     = refuse("order: not one that is served")
	errPerPage   = refuse("per_page: it takes a whole number from 1 to 250")
	errPage      = refuse("page: it takes a whole number from 1")
	errChanges   = refuse("price_change_percentage: it takes 1h, 24h, 7d, 14d, 30d, 200d and 1y, separated by commas")
	errDays      = refuse("days: it takes a whole number from 1, or max")
	errTimes     = refuse("from, to: they take Unix seconds, yyyy-mm-dd or yyyy-mm-ddThh:mm, the earlier one first")
	errInterval  = refuse("interval: it takes 5m, hourly or daily")
	errDate      = refuse("date: it takes a day of the form dd-mm-yyyy or yyyy-mm-dd")
	errText      = refuse("query: it takes 1 to 64 bytes, up to eight words with blanks between")
)

// Parse reads a request for what is at e, without the keys that may be in its query. path is what
// stands behind Prefix, at which EndpointAt has found e. It returns nil, or what is wrong.
func (q *Query) Parse(e Endpoint, path, raw []byte) *reply.Refusal {
	*q = Query{Endpoint: e, values: q.values[:0], codes: q.codes[:0], buf: q.buf[:0], source: q.source[:0], places: -1,
		page: 1, perPage: usualPage, scratch: q.scratch}
	// No value grows when it is unescaped and folded; a list that is sent in parts is joined first.
	q.buf = slices.Grow(q.buf, 3*(len(path)+len(raw)))
	variable, _ := match(endpoints[e].path, path)
	for i, element := range variable {
		q.path[i] = q.keep(appendElement(q.buf, element))
	}
	var sent [params][]byte
	q.split(&sent, path, raw)
	if p := endpoints[e].requires; p != none && len(sent[p]) == 0 {
		return errMissing[p]
	}
	wrong := q.readChanges(&sent) // with the memory of readLookup
	return cmp.Or(q.readFlags(&sent), q.readLookup(&sent), q.readCurrencies(&sent), q.readPage(&sent),
		wrong, q.readTimes(&sent), q.readText(&sent))
}

// appendElement appends an element of a path, unescaped: there, other than in a query, + is itself.
func appendElement(dst, element []byte) []byte {
	for more := true; more; {
		var part []byte
		part, element, more = bytes.Cut(element, []byte{'+'})
		if dst = query.AppendUnescaped(dst, part); more {
			dst = append(dst, '+')
		}
	}
	return dst
}

// keep returns what was appended to q.buf.
func (q *Query) keep(longer []byte) []byte {
	value := longer[len(q.buf):len(longer):len(longer)]
	q.buf = longer
	return value
}

// lists are the parameters that take a list. Repeated, they are one list (INTERFACE.md, "Parameters").
var lists = setOf(ids, names, symbols, currencies, addresses, changes)

// param returns the parameter that a name, as sent, stands for; none if the endpoint does not read it.
func (q *Query) param(name []byte) param {
	var b [48]byte
	if len(name) > len(b) {
		return none
	}
	name = query.AppendUnescaped(b[:0], name)
	list, isList := query.ListName(name)
	for p := ids; p < params; p++ {
		if endpoints[q.Endpoint].reads.has(p) &&
			(string(name) == paramNames[p] || isList && lists.has(p) && string(list) == paramNames[p]) {
			return p
		}
	}
	return none
}

// split finds the values of the parameters that the endpoint reads, still escaped: the first of a
// scalar, and all of a list, joined by commas. An empty value is one that was not sent. It notes
// what it read in q.source.
func (q *Query) split(sent *[params][]byte, path, raw []byte) {
	q.source = append(append(q.source, path...), '?')
	var seen, repeated paramSet
	for rest := raw; len(rest) > 0; {
		var name, value []byte
		pair := rest
		name, value, rest = query.Cut(rest)
		p := q.param(name)
		if p == none || lists.has(p) && len(value) == 0 || !lists.has(p) && seen.has(p) {
			continue
		}
		if seen.has(p) {
			repeated |= setOf(p)
		} else {
			seen |= setOf(p)
			sent[p] = value
		}
		q.source = append(q.source, pair[:len(pair)-len(rest)]...) // with its ampersand
	}
	for p := ids; repeated != 0 && p < params; p++ {
		if repeated.has(p) {
			sent[p] = q.join(p, raw)
		}
	}
}

// join returns the values of a list that was sent more than once, in the order sent, still escaped.
func (q *Query) join(list param, raw []byte) []byte {
	joined := q.buf
	for len(raw) > 0 {
		var name, value []byte
		if name, value, raw = query.Cut(raw); len(value) == 0 || q.param(name) != list {
			continue
		}
		if len(joined) > len(q.buf) {
			joined = append(joined, ',')
		}
		joined = append(joined, value...)
	}
	return q.keep(joined)
}

func (q *Query) unescape(value []byte) []byte { return q.keep(query.AppendUnescaped(q.buf, value)) }

func (q *Query) fold(value []byte) []byte {
	value = q.unescape(value)
	return artifacts.AppendFold(value[:0], value)
}

func (q *Query) readFlags(sent *[params][]byte) *reply.Refusal {
	if endpoints[q.Endpoint].reads.has(marketData) {
		q.flags = setOf(marketData) // true unless it is sent
	}
	for _, p := range [...]param{withCap, withVolume, withChange, withTime, platforms, sparkline, marketData, details} {
		if len(sent[p]) == 0 {
			continue
		}
		switch string(q.fold(sent[p])) {
		case "true", "1":
			q.flags |= setOf(p)
		case "false", "0":
			q.flags &^= setOf(p)
		default:
			return errBool[p]
		}
	}
	if v := sent[precision]; string(q.fold(v)) != "full" && !whole(q, v, 0, full, &q.places) {
		return errPrecision
	}
	switch string(q.fold(sent[tokens])) {
	case "", "top":
	case "all":
		q.flags |= setOf(tokens)
	default:
		return errTokens
	}
	return nil
}

// readLookup reads how coins are named: the first of ids, names and symbols that is sent counts.
func (q *Query) readLookup(sent *[params][]byte) (refusal *reply.Refusal) {
	q.group, q.values = q.unescape(sent[category]), q.values[:0]
	for _, p := range [...]param{ids, names, symbols, addresses} {
		if len(sent[p]) == 0 || q.by != none || len(q.group) > 0 {
			continue
		}
		q.by = p
		v := q.unescape(sent[p])
		if p == symbols && q.flags.has(tokens) { // coins stand under their ids
			v = artifacts.AppendFold(v[:0], v)
		}
		if q.values, refusal = readList(q.values, p, v); refusal != nil {
			return refusal
		}
	}
	if q.by != symbols {
		q.flags &^= setOf(tokens)
	}
	switch q.Endpoint {
	case SimplePrice:
		if q.by == none {
			return errLookup
		}
	case Coin, Chart, ChartRange, Past:
		q.by, q.values = ids, append(q.values, q.path[0])
	case Contract, ContractChart, ContractRange:
		q.by, q.values = addresses, append(q.values, q.keep(artifacts.AppendAddress(q.buf, q.path[1])))
	}
	return nil
}

// readList appends the elements of a list, sorted, without repeats and blanks around them.
func readList(dst [][]byte, p param, list []byte) ([][]byte, *reply.Refusal) {
	for more := true; more; {
		var e []byte
		e, list, more = bytes.Cut(list, []byte{','})
		if e = bytes.TrimSpace(e); len(e) == 0 {
			continue
		}
		if len(dst) == maxValues {
			return dst, errTooMany[p]
		}
		if p == addresses {
			e = artifacts.AppendAddress(e[:0], e)
		}
		dst = append(dst, e)
	}
	slices.SortFunc(dst, bytes.Compare)
	return slices.CompactFunc(dst, bytes.Equal), nil
}

// whole reads a number from low to high, unless it was not sent.
func whole[T int | int64](q *Query, sent []byte, low, high int64, to *T) bool {
	if len(sent) == 0 {
		return true
	}
	n, ok := query.ParseInt(q.unescape(sent))
	*to = T(n)
	return ok && n >= low && n <= high
}

// readCurrencies reads which currencies are asked for. Whether the snapshot has them shows when the
// answer is composed.
func (q *Query) readCurrencies(sent *[params][]byte) *reply.Refusal {
	p := currency
	if endpoints[q.Endpoint].reads.has(currencies) {
		p = currencies
	} else if !endpoints[q.Endpoint].reads.has(currency) {
		return nil
	}
	v := q.fold(sent[p])
	switch {
	case len(v) == 0:
		return errMissing[p]
	case p == currency && bytes.IndexByte(v, ',') >= 0:
		return errCurrency
	}
	var refusal *reply.Refusal
	if q.codes, refusal = readList(q.codes, p, v); refusal == nil && len(q.codes) == 0 {
		refusal = errCurrency
	}
	return refusal
}

// The orders of the endpoints that have some: the first is the default.
var (
	marketOrders = []string{"market_cap_desc", "market_cap_asc", "volume_desc", "volume_asc", "id_asc", "id_desc"}
	groupOrders  = []string{"market_cap_desc", "market_cap_asc", "name_desc", "name_asc", "market_cap_change_24h_desc",
		"market_cap_change_24h_asc"}
)

func (q *Query) readPage(sent *[params][]byte) *reply.Refusal {
	if v := q.fold(sent[order]); len(v) > 0 {
		orders := marketOrders
		if q.Endpoint == Categories {
			orders = groupOrders
		}
		i := slices.IndexFunc(orders, func(o string) bool { return o == string(v) })
		if i < 0 {
			return errOrder
		}
		q.order = uint8(i)
	}
	if !whole(q, sent[perPage], 1, maxPerPage, &q.perPage) {
		return errPerPage
	}
	if !whole(q, sent[page], 1, math.MaxInt64, &q.page) {
		return errPage
	}
	q.page = min(q.page, furthest)
	return nil
}

// window is what price_change_percentage may name.
type window struct {
	name string
	key  string // before it in the row of a quote; "": no snapshot has it
}

var windows = [...]window{{"1h", `{"1h":`}, {"24h", `,"24h":`}, {"7d", `,"7d":`}, {"14d", ""}, {"30d", `,"30d":`},
	{"200d", ""}, {"1y", `,"1y":`}}

func (q *Query) readChanges(sent *[params][]byte) (refusal *reply.Refusal) {
	if len(sent[changes]) == 0 {
		return nil
	}
	q.values, refusal = readList(q.values, changes, q.fold(sent[changes]))
	for _, name := range q.values {
		i := slices.IndexFunc(windows[:], func(w window) bool { return w.name == string(name) })
		if i < 0 {
			return errChanges
		}
		q.changes |= 1 << i
	}
	return refusal
}

func (q *Query) readText(sent *[params][]byte) *reply.Refusal {
	if q.Endpoint != Search {
		return nil
	}
	q.text = q.unescape(sent[text])
	q.folded = append(append(q.folded[:0], "q="...), sent[text]...)
	if q.inner.Parse(query.Search, q.folded) != nil {
		return errText
	}
	return nil
}

const (
	hour = 60 * 60
	day  = 24 * hour
)

func (q *Query) readTimes(sent *[params][]byte) *reply.Refusal {
	switch string(q.fold(sent[interval])) {
	case "", "5m": // no point is that near another
	case "hourly":
		q.step = hour
	case "daily":
		q.step = day
	default:
		return errInterval
	}
	switch q.Endpoint {
	case Chart, ContractChart:
		if string(q.fold(sent[days])) == "max" {
			q.begin = math.MaxInt64
		} else if !whole(q, sent[days], 1, math.MaxInt64, &q.begin) {
			return errDays
		}
	case ChartRange, ContractRange:
		if len(sent[to]) == 0 {
			return errMissing[to]
		}
		var ok, also bool
		q.begin, ok = unixTime(q.unescape(sent[from]))
		q.end, also = unixTime(q.unescape(sent[to]))
		if !ok || !also || q.begin < 0 || q.end < q.begin {
			return errTimes
		}
	case Past:
		t, ok := timeOf(q.unescape(sent[date]), "02-01-2006", time.DateOnly)
		if !ok {
			return errDate
		}
		q.begin, q.end = t, t+day-1
	}
	return nil
}

// unixTime reads a time in Unix seconds, or, as CoinGecko's own clients advise, a day or a minute in
// UTC, which stand for their first second.
func unixTime(text []byte) (int64, bool) {
	if n, ok := query.ParseInt(text); ok {
		return n, true
	}
	return timeOf(text, time.DateOnly, "2006-01-02T15:04")
}

// timeOf returns a time of one of these layouts in Unix seconds.
func timeOf(text []byte, layouts ...string) (int64, bool) {
	for _, layout := range layouts {
		if t, err := time.Parse(layout, string(text)); err == nil {
			return t.Unix(), true
		}
	}
	return 0, false
}

// The following make Query a reply.Composer.

func (q *Query) Name() string        { return q.Endpoint.Name() }
func (q *Query) Source() []byte      { return q.source }
func (q *Query) Whole() bool         { return endpoints[q.Endpoint].whole }
func (q *Query) FollowsChange() bool { return q.Endpoint == Global }

// FromSource returns the request that Source was taken from.
func FromSource(source []byte) reply.Composer {
	path, raw, _ := bytes.Cut(source, []byte{'?'})
	q := new(Query)
	e, ok := EndpointAt(path)
	if !ok || q.Parse(e, path, raw) != nil {
		return nil
	}
	return q
}

// keyStart begins the keys of these answers, above those of listings.
const keyStart = 0x80

// AppendKey implements reply.Composer.
func (q *Query) AppendKey(dst []byte) []byte {
	dst = append(dst, keyStart+byte(q.Endpoint), byte(q.by), q.order, q.changes)
	for _, n := range [...]int64{int64(q.flags), int64(q.places), int64(q.perPage), q.page, q.begin, q.end, q.step} {
		dst = binary.AppendVarint(dst, n)
	}
	for _, list := range [...][][]byte{q.path[:], {q.group, q.text}, q.values, q.codes} {
		dst = query.AppendTexts(dst, list)
	}
	return dst
}
