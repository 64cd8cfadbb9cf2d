package coingecko

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"net/http"
	"slices"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge/query"
	"example.com/marketdata/edge/reply"
)

// param is a query parameter that at least one endpoint reads.
type param uint8

const (
	noParam param = iota
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

// nameBytes contains the parameter names in the form that query.Names needs.
var nameBytes = func() (list [params][]byte) {
	for p, name := range paramNames {
		list[p] = []byte(name)
	}
	return list
}()

type paramSet uint32

func setOf(list ...param) (set paramSet) {
	for _, p := range list {
		set |= 1 << p
	}
	return set
}

func (s paramSet) has(p param) bool { return s&(1<<p) != 0 }

// Bounds and defaults of parameters.
const (
	maxValues = 500
	// maxPrices bounds the number of coins times currencies, so that an answer takes at most 8 MB.
	maxPrices  = 50_000
	maxPerPage = 250
	usualPage  = 100
	// furthest is the highest page number. No listing has that many pages, and computing the first row of
	// that page does not overflow.
	furthest = 1 << 40
)

// keyPrefix is the prefix of the parameters that contain an API key. Other parameters with this prefix may be
// misspelled key parameters.
const keyPrefix = "x_cg_"

// IsKey reports whether the query parameter called name contains an API key. name may be escaped.
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

// Query is a request below Prefix, together with the memory for composing its answer. It implements
// reply.Composer. Its contents remain valid until the next Parse.
type Query struct {
	Endpoint Endpoint

	flags   paramSet  // the boolean parameters that are true; "include_tokens" counts as true if it is "all"
	path    [2][]byte // the coin, or the platform and address
	by      param     // the parameter that names the coins, or noParam
	values  [][]byte  // as sent, sorted, without duplicates
	codes   [][]byte  // the currencies, folded, sorted, without duplicates
	places  int       // the decimals of prices; -1 means all
	order   uint8
	page    int64
	perPage int
	changes uint8 // the windows of price_change_percentage, as bits
	begin   int64 // a Unix time; if the request has "days", a number of seconds before the snapshot
	end     int64
	step    int64  // the interval in seconds; for candles, the parameter "days" may imply it; 0 means all points
	group   []byte // category
	text    []byte // as sent

	noGroup bool        // the requested category does not exist
	vain    paramSet    // parameters that were sent but have no effect on the answer
	ignored query.Names // the names of these parameters and of unknown ones
	buf     []byte      // the memory behind the slices above

	mem scratch
}

func refuse(message string) *reply.Refusal {
	return &reply.Refusal{Status: http.StatusBadRequest, Message: message}
}

// refusals returns an error for each parameter.
func refusals(format string) (list [params]*reply.Refusal) {
	for p, name := range paramNames {
		list[p] = refuse(fmt.Sprintf(format, name))
	}
	return list
}

// The errors with status 400 are prepared at startup, since none repeats what the client sent. An optional
// value never causes an error: if Parse does not understand the value, it is ignored, and X-Ignored names the
// parameter.
var (
	errMissing  = refusals("Missing parameter %s")
	errTooMany  = refusals("%s: more than 500 elements")
	errTime     = refusals("%s: not a time; it takes Unix seconds, yyyy-mm-dd, dd-mm-yyyy or RFC 3339")
	errMillis   = refusals("%s: a time in milliseconds; it takes Unix seconds, so divide it by 1000")
	errLookup   = refuse("Missing parameter ids, names or symbols")
	errCurrency = refuse("invalid vs_currency")
	errDays     = refuse("days: it takes a number of days, or max")
	errOrder    = refuse("from: later than to")
	errInterval = refuse("interval: it takes hourly or daily")
	errText     = refuse("query: it takes 1 to 64 bytes, up to eight words with blanks between")
)

// Parse parses a request. path is the part of the URL's path after Prefix; EndpointAt has returned e for it.
// raw is the query string without API keys. Parse returns nil, or an error with status 400.
func (q *Query) Parse(e Endpoint, path, raw []byte) *reply.Refusal {
	*q = Query{Endpoint: e, values: q.values[:0], codes: q.codes[:0], ignored: q.ignored[:0], buf: q.buf[:0],
		places: -1, page: 1, perPage: usualPage, mem: q.mem}
	// Unescaping and folding never lengthen a value. Lists that were sent in parts are joined first.
	q.buf = slices.Grow(q.buf, 3*(len(path)+len(raw)))
	variable, _ := match(endpoints[e].path, path)
	for i, element := range variable {
		q.path[i] = q.keep(appendElement(q.buf, element))
	}
	var sent [params][]byte
	q.split(&sent, raw)
	if p := endpoints[e].requires; p != noParam && len(sent[p]) == 0 {
		return errMissing[p]
	}
	q.readOptions(&sent)
	refusal := cmp.Or(q.readLookup(&sent), q.readCurrencies(&sent), q.readTimes(&sent), q.readText(&sent))
	for p := ids; q.vain != 0 && p < params; p++ {
		if q.vain.has(p) {
			q.ignored.Add(nameBytes[p])
		}
	}
	return refusal
}

// appendElement appends an unescaped element of a path. In a path, unlike in a query, + stands for itself.
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

// keep sets q.buf to extended, which is q.buf with more bytes appended, and returns these bytes.
func (q *Query) keep(extended []byte) []byte {
	value := extended[len(q.buf):len(extended):len(extended)]
	q.buf = extended
	return value
}

// lists are the parameters that take a list. If such a parameter is repeated, its values form one list
// (INTERFACE.md, "Parameters").
var lists = setOf(ids, names, symbols, currencies, addresses, changes)

// param returns the parameter with the given name, which may still be escaped. It returns noParam if the
// endpoint does not read that parameter.
func (q *Query) param(name []byte) param {
	var b [48]byte
	if len(name) > len(b) {
		return noParam
	}
	name = query.AppendUnescaped(b[:0], name)
	list, isList := query.ListName(name)
	for p := ids; p < params; p++ {
		if endpoints[q.Endpoint].reads.has(p) &&
			(string(name) == paramNames[p] || isList && lists.has(p) && string(list) == paramNames[p]) {
			return p
		}
	}
	return noParam
}

// split finds the values of the parameters that the endpoint reads, still escaped. For a scalar it takes
// the first value, and for a list it joins all values with commas. A parameter with an empty value counts
// as not sent.
func (q *Query) split(sent *[params][]byte, raw []byte) {
	var seen, repeated paramSet
	for rest := raw; len(rest) > 0; {
		var name, value []byte
		name, value, rest = query.Cut(rest)
		p := q.param(name)
		switch {
		case p == noParam:
			q.ignore(name)
			continue
		case lists.has(p) && len(value) == 0:
			continue
		case !lists.has(p) && seen.has(p):
			q.vain |= setOf(p)
			continue
		}
		if seen.has(p) {
			repeated |= setOf(p)
		} else {
			seen |= setOf(p)
			sent[p] = value
		}
	}
	for p := ids; repeated != 0 && p < params; p++ {
		if repeated.has(p) {
			sent[p] = q.join(p, raw)
		}
	}
}

// ignore records an unknown parameter name, as sent. It skips names of parameters that may contain API keys.
func (q *Query) ignore(name []byte) {
	from := len(q.buf)
	if name = q.unescape(name); len(name) == 0 || bytes.HasPrefix(name, []byte(keyPrefix)) || !q.ignored.Add(name) {
		q.buf = q.buf[:from]
	}
}

// join returns all values of a list that was sent in parts, in the order sent, still escaped.
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

// word returns the value of an optional parameter, folded and without surrounding white space.
func (q *Query) word(sent []byte) []byte { return bytes.TrimSpace(q.fold(sent)) }

// number reads an optional number and clamps it to [low, high]. If no valid number was sent, it returns
// fallback.
func (q *Query) number(sent *[params][]byte, p param, low, high, fallback int64) int64 {
	if len(sent[p]) == 0 {
		return fallback
	}
	n, ok := query.ParseNumber(q.word(sent[p]))
	if !ok {
		q.vain |= setOf(p)
		return fallback
	}
	return min(max(n.Whole, low), high)
}

// choice returns the index of an optional value in values, or -1 if the value was not sent or is unknown.
func (q *Query) choice(sent *[params][]byte, p param, values ...string) int {
	if len(sent[p]) == 0 {
		return -1
	}
	word := q.word(sent[p])
	i := slices.IndexFunc(values, func(v string) bool { return v == string(word) })
	if i < 0 {
		q.vain |= setOf(p)
	}
	return i
}

// The values of the parameter "order". The first one is the default.
var (
	marketOrders = []string{"market_cap_desc", "market_cap_asc", "volume_desc", "volume_asc", "id_asc", "id_desc"}
	groupOrders  = []string{"market_cap_desc", "market_cap_asc", "name_desc", "name_asc", "market_cap_change_24h_desc",
		"market_cap_change_24h_asc"}
)

// steps contains the values of the parameter "interval". CoinGecko's 5m is missing because it would have no
// effect: snapshots are ten minutes apart.
var steps = []string{"hourly", "daily"}

// readOptions reads the optional parameters.
func (q *Query) readOptions(sent *[params][]byte) {
	for _, p := range [...]param{withCap, withVolume, withChange, withTime, platforms, sparkline, marketData, details} {
		switch i := q.choice(sent, p, "true", "1", "false", "0"); {
		case i == 0, i == 1, i < 0 && p == marketData && endpoints[q.Endpoint].reads.has(p):
			q.flags |= setOf(p)
		}
	}
	if string(q.word(sent[precision])) != "full" {
		q.places = int(q.number(sent, precision, 0, full, -1))
	}
	if q.choice(sent, tokens, "top", "all") == 1 {
		q.flags |= setOf(tokens)
	}
	orders := marketOrders
	if q.Endpoint == Categories {
		orders = groupOrders
	}
	q.order = uint8(max(q.choice(sent, order, orders...), 0))
	q.perPage = int(q.number(sent, perPage, 1, maxPerPage, usualPage))
	q.page = q.number(sent, page, 1, furthest, 1)
	switch q.choice(sent, interval, steps...) {
	case 0:
		q.step = hour
	case 1:
		q.step = day
	}
	for list := q.fold(sent[changes]); len(list) > 0; {
		var name []byte
		name, list, _ = bytes.Cut(list, []byte{','})
		name = bytes.TrimSpace(name)
		i := slices.IndexFunc(windows[:], func(w window) bool { return w.name == string(name) })
		if i >= 0 {
			q.changes |= 1 << i
		} else if len(name) > 0 {
			q.vain |= setOf(changes)
		}
	}
}

// readLookup reads how the request names coins. The parameter "category" takes precedence. Otherwise, the
// first of ids, names and symbols that was sent counts.
func (q *Query) readLookup(sent *[params][]byte) (refusal *reply.Refusal) {
	q.group, q.values = q.unescape(sent[category]), q.values[:0]
	for _, p := range [...]param{ids, names, symbols, addresses} {
		if len(sent[p]) == 0 {
			continue
		}
		if q.by != noParam || len(q.group) > 0 {
			q.vain |= setOf(p)
			continue
		}
		q.by = p
		v := q.unescape(sent[p])
		if p == symbols && q.flags.has(tokens) { // the answer's keys are ids, so the case of symbols does not matter
			v = artifacts.AppendFold(v[:0], v)
		}
		if q.values, refusal = readList(q.values, p, v); refusal != nil {
			return refusal
		}
	}
	if q.by != symbols {
		q.flags &^= setOf(tokens)
		if len(sent[tokens]) > 0 {
			q.vain |= setOf(tokens)
		}
	}
	switch q.Endpoint {
	case SimplePrice:
		if q.by == noParam {
			return errLookup
		}
	case Coin, Chart, ChartRange, Past, OHLC, OHLCRange:
		q.by, q.values = ids, append(q.values, q.path[0])
	case Contract, ContractChart, ContractRange:
		q.by, q.values = addresses, append(q.values, q.keep(artifacts.AppendAddress(q.buf, q.path[1])))
	}
	return nil
}

// readList appends the elements of a list to dst, without surrounding white space, sorts them, and removes
// duplicates.
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

// readCurrencies reads the requested currencies. Compose checks whether the snapshot has them.
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

// window is a value of price_change_percentage.
type window struct {
	name    string
	key     string // the key that precedes the change in the row of a quote
	covered uint8  // the number of its bit in artifacts.Covered
}

// unkept is the number of a bit for windows that no snapshot contains. That bit is never set.
const unkept = 63

var windows = [...]window{{"1h", `{"1h":`, 0}, {"24h", dayKey, 3}, {"7d", `,"7d":`, 4}, {"14d", "", unkept},
	{"30d", `,"30d":`, 5}, {"200d", "", unkept}, {"1y", `,"1y":`, 7}}

// day24h is the index of the 24-hour window.
const day24h = 1

func (q *Query) readText(sent *[params][]byte) *reply.Refusal {
	if q.Endpoint != Search {
		return nil
	}
	q.text = q.unescape(sent[text])
	q.mem.folded = append(append(q.mem.folded[:0], "q="...), sent[text]...)
	if q.mem.inner.Parse(query.Search, q.mem.folded) != nil {
		return errText
	}
	return nil
}

const (
	hour = 60 * 60
	day  = 24 * hour
)

// candleStep returns the default candle length for a range of this many seconds.
func candleStep(seconds int64) int64 {
	switch {
	case seconds <= 2*day:
		return hour
	case seconds <= 30*day:
		return 4 * hour
	}
	return day
}

// allDays is more than the number of days since 1970.
const allDays = math.MaxInt32

// readTimes reads the requested times.
func (q *Query) readTimes(sent *[params][]byte) *reply.Refusal {
	switch q.Endpoint {
	case Chart, ContractChart, OHLC:
		word := q.word(sent[days])
		n, ok := query.ParseNumber(word)
		switch {
		case string(word) == "max":
			n.Whole = allDays
		case !ok:
			return errDays
		}
		hi, lo := bits.Mul64(n.Fraction, day)
		seconds, _ := bits.Div64(hi, lo, query.FractionUnit)
		q.begin = min(max(n.Whole, 0), allDays)*day + int64(seconds)
		if q.Endpoint == OHLC && q.step == 0 {
			q.step = candleStep(q.begin)
		}
	case ChartRange, ContractRange, OHLCRange:
		switch {
		case len(sent[to]) == 0:
			return errMissing[to]
		case q.Endpoint == OHLCRange && len(sent[interval]) == 0:
			return errMissing[interval]
		case q.Endpoint == OHLCRange && q.step == 0:
			return errInterval
		}
		if refusal := cmp.Or(q.time(sent, from, &q.begin), q.time(sent, to, &q.end)); refusal != nil {
			return refusal
		}
		if q.end < q.begin {
			return errOrder
		}
	case Past:
		if refusal := q.time(sent, date, &q.begin); refusal != nil {
			return refusal
		}
		q.begin -= (q.begin%day + day) % day
		q.end = q.begin + day - 1
	}
	return nil
}

// time reads a time in one of the forms that clients use, and stores it as Unix seconds. The forms are Unix
// seconds, with any fraction cut off (JavaScript's getTime()/1000, Python's timestamp()); a UTC day as
// yyyy-mm-dd or dd-mm-yyyy, which means its first second; and RFC 3339, see query.ParseLooseTime.
func (q *Query) time(sent *[params][]byte, p param, to *int64) *reply.Refusal {
	const msDigits = 13 // since 2001, Unix times in milliseconds have at least 13 digits
	text := bytes.TrimSpace(q.unescape(sent[p]))
	if n, ok := query.ParseNumber(text); ok {
		if n.Digits >= msDigits {
			return errMillis[p]
		}
		*to = n.Whole
		return nil
	}
	t, ok := query.ParseLooseTime(text)
	if len(text) == len(time.DateOnly) {
		layout := time.DateOnly
		if text[2] == '-' {
			layout = "02-01-2006"
		}
		var err error
		t, err = time.Parse(layout, string(text))
		ok = err == nil
	}
	if !ok {
		return errTime[p]
	}
	*to = t.Unix()
	return nil
}

// The following methods implement reply.Composer.

func (q *Query) Name() string         { return q.Endpoint.Name() }
func (q *Query) Ignored() query.Names { return q.ignored }
func (q *Query) Whole() bool          { return endpoints[q.Endpoint].whole }
func (q *Query) FollowsChange() bool  { return q.Endpoint == Global }

// AppendNotFound appends the X-Not-Found value for the most recently composed answer: the request's values
// that match nothing.
func (q *Query) AppendNotFound(dst []byte) []byte {
	if q.noGroup {
		return appendMissed(dst, category, q.group)
	}
	for _, at := range q.mem.missed {
		before := len(dst)
		if dst = appendMissed(dst, q.by, q.values[at]); len(dst) == before {
			break
		}
	}
	return dst
}

// appendMissed appends a value of a parameter, unless the header would become too long.
func appendMissed(dst []byte, p param, value []byte) []byte {
	before := len(dst)
	if before == 0 {
		dst = append(append(dst, paramNames[p]...), '=')
	} else {
		dst = append(dst, ',')
	}
	if dst = query.AppendEscaped(dst, value); len(dst) > reply.MaxNotFound {
		return dst[:before]
	}
	return dst
}

// keyStart is the first byte of the cache keys of the first endpoint. The keys of listings begin with lower
// byte values.
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
