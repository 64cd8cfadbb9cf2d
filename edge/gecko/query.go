package gecko

import (
	"bytes"
	"cmp"
	"encoding/binary"
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
	maxValues  = 500
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

// lookup is how coins are named.
type lookup uint8

const (
	byNothing lookup = iota
	byID
	byName
	bySymbol
	byAddress
)

// Query is one request below Prefix, and the memory that its answer is composed with. It is a
// reply.Composer. What it holds is valid until the next Parse.
type Query struct {
	Endpoint Endpoint

	flags   paramSet  // the parameters of yes or no that are yes
	path    [2][]byte // the coin; or platform and address
	by      lookup
	values  [][]byte // as sent, sorted, without repeats
	all     bool     // include_tokens=all
	codes   [][]byte // currencies, folded, sorted, without repeats
	places  int      // of prices; -1: all
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

// The 400s, made beforehand: none repeats what was sent.
var (
	errMissing = func() (list [params]*reply.Refusal) {
		for p, name := range paramNames {
			list[p] = refuse("Missing parameter " + name)
		}
		return list
	}()
	errTooMany = func() (list [params]*reply.Refusal) {
		for p, name := range paramNames {
			list[p] = refuse(name + ": more than 500 elements")
		}
		return list
	}()
	errBool = func() (list [params]*reply.Refusal) {
		for p, name := range paramNames {
			list[p] = refuse(name + ": not true or false")
		}
		return list
	}()
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
	// No value grows when it is unescaped and folded.
	q.buf = slices.Grow(q.buf, len(path)+2*len(raw))
	elements, n := elementsOf(path)
	at := 0
	for i := range n {
		if want := endpoints[e].path[i]; want[0] == '{' && at < len(q.path) {
			q.path[at] = q.keep(appendElement(q.buf, elements[i]))
			at++
		}
	}
	var sent [params][]byte
	q.split(&sent, path, raw)
	if p := endpoints[e].requires; p != none && len(sent[p]) == 0 {
		return errMissing[p]
	}
	return cmp.Or(q.readFlags(&sent), q.readLookup(&sent), q.readCurrencies(&sent), q.readPage(&sent),
		q.readChanges(&sent), q.readTimes(&sent), q.readText(&sent))
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

// split finds the first values of the parameters that the endpoint reads, still escaped; an empty
// one is one that was not sent. It notes them in q.source.
func (q *Query) split(sent *[params][]byte, path, raw []byte) {
	q.source = append(append(q.source, path...), '?')
	var seen paramSet
	for more := len(raw) > 0; more; {
		var pair []byte
		pair, raw, more = bytes.Cut(raw, []byte{'&'})
		name, value, _ := bytes.Cut(pair, []byte{'='})
		var b [48]byte
		if len(name) > len(b) {
			continue
		}
		name = query.AppendUnescaped(b[:0], name)
		for p := ids; p < params; p++ {
			if endpoints[q.Endpoint].reads.has(p) && string(name) == paramNames[p] && !seen.has(p) {
				seen |= setOf(p)
				sent[p] = value
				q.source = append(append(q.source, pair...), '&')
			}
		}
	}
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
	if v := sent[precision]; len(v) > 0 {
		if v = q.fold(v); string(v) != "full" {
			n, ok := query.ParseInt(v)
			if !ok || n < 0 || n > full {
				return errPrecision
			}
			q.places = int(n)
		}
	}
	switch string(q.fold(sent[tokens])) {
	case "", "top":
	case "all":
		q.all = true
	default:
		return errTokens
	}
	return nil
}

// readLookup reads how coins are named: the first of ids, names and symbols that is sent counts.
func (q *Query) readLookup(sent *[params][]byte) *reply.Refusal {
	q.group = q.unescape(sent[category])
	for _, l := range [...]struct {
		param
		lookup
	}{{ids, byID}, {names, byName}, {symbols, bySymbol}, {addresses, byAddress}} {
		v := sent[l.param]
		if len(v) == 0 || q.by != byNothing || len(q.group) > 0 {
			continue
		}
		q.by = l.lookup
		v = q.unescape(v)
		for more := true; more; {
			var value []byte
			value, v, more = bytes.Cut(v, []byte{','})
			if value = bytes.TrimSpace(value); len(value) == 0 {
				continue
			}
			if len(q.values) == maxValues {
				return errTooMany[l.param]
			}
			switch {
			case q.by == byAddress:
				value = artifacts.AppendAddress(value[:0], value)
			case q.by == bySymbol && q.all: // coins stand under their ids
				value = artifacts.AppendFold(value[:0], value)
			}
			q.values = append(q.values, value)
		}
		q.values = sorted(q.values)
	}
	if q.by != bySymbol {
		q.all = false
	}
	if q.Endpoint == SimplePrice && q.by == byNothing {
		return errLookup
	}
	return nil
}

// sorted sorts values and drops repeats.
func sorted(values [][]byte) [][]byte {
	slices.SortFunc(values, bytes.Compare)
	return slices.CompactFunc(values, bytes.Equal)
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
	for more := true; more; {
		var code []byte
		code, v, more = bytes.Cut(v, []byte{','})
		if code = bytes.TrimSpace(code); len(code) == 0 {
			continue
		}
		if len(q.codes) == maxValues {
			return errTooMany[p]
		}
		q.codes = append(q.codes, code)
	}
	if q.codes = sorted(q.codes); len(q.codes) == 0 {
		return errCurrency
	}
	return nil
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
	if v := sent[perPage]; len(v) > 0 {
		n, ok := query.ParseInt(q.unescape(v))
		if !ok || n < 1 || n > maxPerPage {
			return errPerPage
		}
		q.perPage = int(n)
	}
	if v := sent[page]; len(v) > 0 {
		n, ok := query.ParseInt(q.unescape(v))
		if !ok || n < 1 {
			return errPage
		}
		q.page = min(n, furthest)
	}
	return nil
}

// windows are what price_change_percentage may name, and which of them a snapshot has.
var windows = [...]struct {
	name  string
	known bool
}{{"1h", true}, {"24h", true}, {"7d", true}, {"14d", false}, {"30d", true}, {"200d", false}, {"1y", true}}

func (q *Query) readChanges(sent *[params][]byte) *reply.Refusal {
	v := q.fold(sent[changes])
	for more := len(v) > 0; more; {
		var name []byte
		name, v, more = bytes.Cut(v, []byte{','})
		if name = bytes.TrimSpace(name); len(name) == 0 {
			continue
		}
		known := false
		for i := range windows {
			if windows[i].name == string(name) {
				known = true
				q.changes |= 1 << i
			}
		}
		if !known {
			return errChanges
		}
	}
	return nil
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
		v := q.fold(sent[days])
		if string(v) == "max" {
			q.begin = math.MaxInt64
			return nil
		}
		n, ok := query.ParseInt(v)
		if !ok || n < 1 {
			return errDays
		}
		q.begin = n
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

// Name implements reply.Composer.
func (q *Query) Name() string { return q.Endpoint.Name() }

// Source implements reply.Composer.
func (q *Query) Source() []byte { return q.source }

// Whole implements reply.Composer.
func (q *Query) Whole() bool { return endpoints[q.Endpoint].whole }

// FollowsChange implements reply.Composer.
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
	all := byte(0)
	if q.all {
		all = 1
	}
	dst = append(dst, keyStart+byte(q.Endpoint), byte(q.by), all, byte(q.places), q.order, byte(q.perPage), q.changes)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(q.flags))
	for _, n := range [...]int64{q.page, q.begin, q.end, q.step} {
		dst = binary.AppendVarint(dst, n)
	}
	dst = appendKeyText(appendKeyText(dst, q.path[0]), q.path[1])
	dst = appendKeyText(appendKeyText(dst, q.group), q.text)
	for _, list := range [...][][]byte{q.values, q.codes} {
		dst = binary.AppendUvarint(dst, uint64(len(list)))
		for _, v := range list {
			dst = appendKeyText(dst, v)
		}
	}
	return dst
}

func appendKeyText(dst, text []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(text))), text...)
}
