package coingecko

import (
	"bytes"
	"net/http"
	"strconv"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge/query"
	"example.com/marketdata/edge/reply"
	"example.com/marketdata/edge/rows"
	"example.com/marketdata/edge/snapshot"
)

// scratch is memory that a Query reuses for each answer.
type scratch struct {
	inner  query.Query // the query for a listing
	items  []byte      // the items of a listing
	folded []byte
	names  []byte // names of coins, as JSON
	points []point
	worths []worth
	coins  []coin
	rates  []rate
	missed []int // indexes into Query.values of the values that name no coin
	c      *composer
}

// rate is a currency with its code and the price of one unit in US dollars.
type rate struct {
	code    []byte
	usd     number
	dollars bool   // whether it is the US dollar, whose figures need no conversion
	asset   uint64 // the asset whose price is the rate, or 0
}

// coin is an asset that a request names.
type coin struct {
	id  uint64
	key []byte // the coin's key in the answer, as JSON
}

// composer composes the body of one answer.
type composer struct {
	f     *rows.Finder
	q     *Query
	state *snapshot.State
	s     *snapshot.Snapshot
	wait  time.Duration

	byText, listed, quotes, figures, prices, rated, passed rows.Cursor

	worthOf uint64 // the asset whose prices are in q.mem.worths, or 0
	err     error  // the first error
}

var (
	errNoSnapshot = &reply.Refusal{Status: http.StatusServiceUnavailable, Message: "there is no snapshot yet"}
	errManyPrices = refuse("too many prices: coins times vs_currencies are more than 50000")
	errNoCoin     = &reply.Refusal{Status: http.StatusNotFound, Message: "coin not found"}
)

// Compose implements reply.Composer.
func (q *Query) Compose(f *rows.Finder, state *snapshot.State, s *snapshot.Snapshot, wait time.Duration) error {
	if s == nil {
		return errNoSnapshot
	}
	if q.mem.c == nil {
		q.mem.c = new(composer)
	}
	*q.mem.c = composer{f: f, q: q, state: state, s: s, wait: wait}
	if q.mem.c.prepare(); q.mem.c.err == nil {
		endpoints[q.Endpoint].answer(q.mem.c)
	}
	err := q.mem.c.err
	*q.mem.c = composer{} // do not keep its shards in memory
	clear(q.mem.coins[:cap(q.mem.coins)])
	clear(q.mem.rates[:cap(q.mem.rates)])
	clear(q.mem.points[:cap(q.mem.points)])
	return err
}

// prepare finds the requested currencies and coins.
func (c *composer) prepare() {
	c.q.mem.names = c.q.mem.names[:0]
	c.askedRates()
	c.named()
	if c.q.Endpoint.aboutOne() && len(c.q.mem.coins) == 0 {
		c.fail(errNoCoin)
	}
}

// fail records an error. After an error, composer reads no more rows, and the body is not sent.
func (c *composer) fail(err error) {
	if c.err == nil {
		c.err = err
	}
}

// grow makes room for n more bytes in the body.
func (c *composer) grow(n int) {
	if c.err == nil {
		c.fail(c.f.Grow(n))
	}
}

// add appends strings to the body.
func (c *composer) add(texts ...string) {
	for _, s := range texts {
		c.f.Body = append(c.f.Body, s...)
	}
}

// put appends a string and a JSON value.
func (c *composer) put(name string, value []byte) {
	c.f.Body = append(append(c.f.Body, name...), value...)
}

// field appends a member's name, including punctuation, and a JSON value. A nil value is null.
func (c *composer) field(name string, value []byte) {
	if value == nil {
		value = null
	}
	c.put(name, value)
}

var null = []byte("null")

// texts appends strings from a row. Each pair consists of a member's name, including punctuation, and the
// string's key in the row.
func (c *composer) texts(row []byte, pairs ...string) {
	for i := 0; i < len(pairs); i += 2 {
		c.put(pairs[i], textOf(row, pairs[i+1]))
	}
}

func (c *composer) integer(name string, n int64) {
	c.add(name)
	c.f.Body = strconv.AppendInt(c.f.Body, n, 10)
}

// comma appends a comma, unless the body ends with an opening bracket or brace.
func (c *composer) comma() {
	if last := c.f.Body[len(c.f.Body)-1]; last != '[' && last != '{' {
		c.f.Body = append(c.f.Body, ',')
	}
}

// amount converts a figure from US dollars to another currency and appends it. It appends null if the figure
// is unknown. places is the number of decimal places to round to. If it is negative, a figure in dollars is
// appended unchanged, and any other figure is rounded to 18 decimal places.
func (c *composer) amount(name string, dollars []byte, r *rate, places int) {
	if places < 0 && r.dollars && dollars != nil {
		c.f.Body = append(append(c.f.Body, name...), dollars...)
		return
	}
	if places < 0 {
		places = full
	}
	var x number
	x.parse(dollars)
	c.value(name, &x, r, places)
}

// value converts x to a currency and appends it. It appends null if x is unknown.
func (c *composer) value(name string, x *number, r *rate, places int) {
	var ok bool
	if c.f.Body, ok = appendQuotient(append(c.f.Body, name...), x, &r.usd, places); !ok {
		c.add("null")
	}
}

// inAll appends an object with x in all currencies that have a known rate. If x is unknown, the object is
// empty.
func (c *composer) inAll(name string, x *number) {
	c.add(name, "{")
	for i := range c.q.mem.rates {
		from, ok := len(c.f.Body), false
		if c.q.mem.rates[i].usd.places < 0 {
			continue
		}
		c.currency(&c.q.mem.rates[i], "")
		if c.f.Body, ok = appendQuotient(c.f.Body, x, &c.q.mem.rates[i].usd, full); !ok {
			c.f.Body = c.f.Body[:from]
		}
	}
	c.add("}")
}

// dollarsInAll is like inAll, but takes a figure from a row.
func (c *composer) dollarsInAll(name string, dollars []byte) {
	var x number
	x.parse(dollars)
	c.inAll(name, &x)
}

// currency appends the name of a member: the currency's code and a suffix.
func (c *composer) currency(r *rate, suffix string) {
	c.comma()
	c.f.Body = append(append(append(append(c.f.Body, '"'), r.code...), suffix...), `":`...)
}

// dollarRow is used as the only rate if the snapshot contains no rates.
var dollarRow = []byte(`{"id":1,"code":"usd","name":"usd","unit":"usd","type":"fiat","usd":"1"}`)

const codeKey = `,"code":`

// rateIn parses the row of a rate.
func rateIn(row []byte) rate {
	code := textOf(row, codeKey)
	r := rate{code: code[1 : len(code)-1], dollars: string(code) == `"usd"`, asset: wholeAt(after(row, `,"asset":`))}
	r.usd.parse(digitsOf(row, `,"usd":`))
	return r
}

// known reports whether the rate exists.
func (r *rate) known() bool { return r.usd.places >= 0 && !r.usd.v.IsZero() }

// eachRate calls visit with each currency and its row.
func (c *composer) eachRate(visit func(r rate, row []byte)) {
	known := func(row, _ []byte) {
		if r := rateIn(row); r.known() {
			visit(r, row)
		}
	}
	if v := c.s.CoinView(snapshot.Rates); v != nil {
		c.each(v, known)
	} else {
		known(dollarRow, nil)
	}
}

// each calls visit with each row of a view and the row's tail.
func (c *composer) each(v *snapshot.View, visit func(row, tail []byte)) {
	var at rows.Cursor
	for i := 0; i < v.Rows && c.err == nil; i++ {
		if _, row, tail := c.row(&at, v, i); row != nil {
			visit(row, tail)
		}
	}
}

// list appends an array. It calls appendRow for each row of the view v, which may be nil.
func (c *composer) list(v *snapshot.View, appendRow func(row, tail []byte)) {
	c.add("[")
	if v != nil {
		c.each(v, func(row, tail []byte) {
			c.comma()
			appendRow(row, tail)
		})
	}
	c.add("]")
}

// allRates sets c.q.mem.rates to all currencies.
func (c *composer) allRates() {
	c.q.mem.rates = c.q.mem.rates[:0]
	c.eachRate(func(r rate, _ []byte) { c.q.mem.rates = append(c.q.mem.rates, r) })
}

// askedRates sets c.q.mem.rates to the requested currencies.
func (c *composer) askedRates() {
	c.q.mem.rates = c.q.mem.rates[:0]
	for _, code := range c.q.codes {
		r := c.rateOf(code)
		if !r.known() {
			c.fail(errCurrency)
		}
		c.q.mem.rates = append(c.q.mem.rates, r)
	}
}

// rateOf finds a rate by binary search, since rates are sorted by code.
func (c *composer) rateOf(code []byte) (r rate) {
	if string(code) == "usd" {
		return rate{code: code, usd: one, dollars: true}
	}
	v := c.s.CoinView(snapshot.Rates)
	if v == nil {
		return r
	}
	var at rows.Cursor
	for low, high := 0, v.Rows; low < high; {
		middle := int(uint(low+high) / 2)
		_, row, _ := c.row(&at, v, middle)
		have := textOf(row, codeKey)
		switch n := bytes.Compare(have[1:len(have)-1], code); {
		case n < 0:
			low = middle + 1
		case n > 0:
			high = middle
		default:
			return rateIn(row)
		}
	}
	return r
}

// row returns row i of a view and its tail. The row is nil after an error.
func (c *composer) row(at *rows.Cursor, v *snapshot.View, i int) (id uint64, row, tail []byte) {
	if c.err != nil {
		return 0, nil, nil
	}
	s, i, err := c.f.At(at, v, i)
	if err != nil {
		c.fail(err)
		return 0, nil, nil
	}
	return s.ID(i), s.Row(i), s.Tail(i)
}

// rowByID finds a row by its id in a view that is sorted by id. It returns the row and its tail, or nil if
// there is none.
func (c *composer) rowByID(at *rows.Cursor, v *snapshot.View, id uint64) (row, tail []byte) {
	if v == nil || c.err != nil {
		return nil, nil
	}
	s, i, ok, err := c.f.ByID(at, v, id)
	if c.fail(err); err != nil || !ok {
		return nil, nil
	}
	return s.Row(i), s.Tail(i)
}

// rowsByKey returns the range [start, end) of the rows of a view that have the given sort key.
func (c *composer) rowsByKey(v *snapshot.View, key []byte) (start, end int) {
	if v == nil || c.err != nil {
		return 0, 0
	}
	start, end, err := c.f.ByKey(&c.byText, v, key)
	c.fail(err)
	return start, end
}

// quote returns the asset's row in /quotes, or nil if there is none.
func (c *composer) quote(id uint64) []byte {
	row, _ := c.rowByID(&c.quotes, c.s.View(query.Quotes, query.SortID), id)
	return row
}

// figures contains the values that artifacts.Figures and artifacts.Covered return for an asset.
type figures struct {
	of      [artifacts.FigureCount][]byte
	covered uint64
}

// The indexes of figures.
const (
	change24h = iota
	circulating
	total
	maximum
)

func (c *composer) figuresOf(id uint64) (f figures) {
	if row, _ := c.rowByID(&c.figures, c.s.CoinView(snapshot.Figures), id); row != nil {
		f.of, f.covered = artifacts.Figures(row), artifacts.Covered(row)
	}
	return f
}

// asset returns the asset's row in /assets and its tail.
func (c *composer) asset(id uint64) (row, tail []byte) {
	return c.rowByID(&c.listed, c.s.View(query.Assets, query.SortID), id)
}

// named sets c.q.mem.coins to the assets that the request names. If the request asks for all assets that
// share a symbol, only the first maxValues assets count.
func (c *composer) named() {
	c.q.mem.coins, c.q.mem.missed = c.q.mem.coins[:0], c.q.mem.missed[:0]
	find := c.namedAs
	if c.q.by == addresses {
		find = c.namedAt
	}
	for i, value := range c.q.values {
		if !find(value) {
			c.q.mem.missed = append(c.q.mem.missed, i)
		}
	}
}

// key returns text as a JSON string.
func (c *composer) key(text []byte) []byte {
	at := len(c.q.mem.names)
	c.q.mem.names = artifacts.AppendString(c.q.mem.names, text)
	return c.q.mem.names[at:]
}

// namedAt appends to c.q.mem.coins the asset that has a contract at this address. It returns false if there
// is none.
func (c *composer) namedAt(address []byte) bool {
	v := c.s.CoinView(snapshot.Contracts)
	c.q.mem.folded = artifacts.AppendContractKey(c.q.mem.folded[:0], string(c.q.path[0]), address)
	start, end := c.rowsByKey(v, c.q.mem.folded)
	// Look for the quoted address in the asset's platforms. It cannot match inside a longer string, because
	// quotes in strings are escaped.
	key := c.key(address)
	c.q.mem.folded = append(append(artifacts.AppendString(c.q.mem.folded[:0], c.q.path[0]), ':'), key...)
	for i := start; i < end; i++ {
		id, _, _ := c.row(&c.byText, v, i)
		if _, tail := c.rowByID(&c.prices, c.s.CoinView(snapshot.Coins), id); bytes.Contains(tail, c.q.mem.folded) {
			c.q.mem.coins = append(c.q.mem.coins, coin{id, key})
			return true
		}
	}
	return false
}

var sorts = [...]query.Sort{ids: query.SortSlug, names: query.SortName, symbols: query.SortSymbol}

// namedAs appends to c.q.mem.coins the assets that have this slug, name or symbol. If several assets share
// the name or symbol, it appends only the one with the best rank, unless the request asks for all of them.
// It returns false if there is no such asset.
func (c *composer) namedAs(value []byte) (found bool) {
	v := c.s.View(query.Assets, sorts[c.q.by])
	if v == nil {
		c.fail(rows.ErrNoView)
	}
	c.q.mem.folded = artifacts.AppendFold(c.q.mem.folded[:0], value)
	start, end := c.rowsByKey(v, c.q.mem.folded)
	c.f.Visited += max(0, end-start-1) // the first coin of each value costs nothing extra, as in a lookup by id
	var best coin
	bestRank := uint64(0)
	for i := start; i < end && c.err == nil; i++ {
		id, row, _ := c.row(&c.byText, v, i)
		switch slug := textOf(row, slugKey); {
		case c.q.by == ids && !isText(slug, value, &c.q.mem.folded):
		case c.q.by == ids || c.q.flags.has(tokens):
			found = true
			if len(c.q.mem.coins) < maxValues {
				c.q.mem.coins = append(c.q.mem.coins, coin{id, slug})
			}
		default: // rank 0 means none, and sorts last
			if rank := rankOf(row, id); best.id == 0 || rank-1 < bestRank-1 {
				best.id, bestRank = id, rank
			}
		}
	}
	if best.id != 0 {
		best.key = c.key(value)
		c.q.mem.coins = append(c.q.mem.coins, best)
	}
	return found || best.id != 0
}

// rankOf returns the rank in a row of /assets, or 0 if the row has none.
func rankOf(row []byte, id uint64) uint64 {
	rest, ok := bytes.CutPrefix(row[min(artifacts.IDEnd(id), len(row)):], []byte(`,"rank":`))
	if !ok {
		return 0
	}
	return wholeAt(rest)
}

// simplePrice answers /simple/price and /simple/token_price/{platform}.
func (c *composer) simplePrice() {
	if len(c.q.mem.coins)*len(c.q.mem.rates) > maxPrices {
		c.fail(errManyPrices)
	}
	c.grow(len(c.q.mem.coins) * (120 + len(c.q.mem.rates)*40*(1+len(simpleFigures))))
	c.add("{")
	for i := range c.q.mem.coins {
		quote := c.quote(c.q.mem.coins[i].id)
		c.comma()
		c.field("", c.q.mem.coins[i].key)
		c.add(":{")
		if quote != nil {
			c.simpleFigures(quote, c.q.mem.coins[i].id)
		}
		c.add("}")
	}
	c.add("}")
}

// simpleFigures are the optional figures besides the price.
var simpleFigures = [...]struct {
	param
	suffix, key string
}{{withCap, "_market_cap", capKey}, {withVolume, "_24h_vol", volumeKey}}

func (c *composer) simpleFigures(quote []byte, id uint64) {
	quote = after(quote, logoKey) // the figures follow the logo
	price := digitsOf(quote, priceKey)
	var known figures
	if c.q.flags.has(withChange) {
		known = c.figuresOf(id)
	}
	var figures [len(simpleFigures)][]byte
	for i := range simpleFigures {
		if c.q.flags.has(simpleFigures[i].param) {
			figures[i] = digitsOf(quote, simpleFigures[i].key)
		}
	}
	for i := range c.q.mem.rates {
		r := &c.q.mem.rates[i]
		c.currency(r, "")
		c.amount("", price, r, c.q.places)
		for j := range simpleFigures {
			if f := &simpleFigures[j]; c.q.flags.has(f.param) {
				c.currency(r, f.suffix)
				c.amount("", figures[j], r, -1)
			}
		}
		if c.q.flags.has(withChange) {
			c.currency(r, "_24h_change")
			c.field("", known.change(&windows[day24h], quote, r))
		}
	}
	if c.q.flags.has(withTime) {
		c.comma()
		c.integer(`"last_updated_at":`, c.s.Time.Unix())
	}
}

// currencies answers /simple/supported_vs_currencies.
func (c *composer) currencies() {
	c.add("[")
	c.eachRate(func(_ rate, row []byte) {
		c.comma()
		c.texts(row, "", codeKey)
	})
	c.add("]")
}

// exchangeRates answers /exchange_rates with the price of one bitcoin in each currency.
func (c *composer) exchangeRates() {
	bitcoin := c.rateOf([]byte("btc"))
	c.add(`{"rates":{`)
	if bitcoin.known() {
		c.eachRate(func(r rate, row []byte) {
			from := len(c.f.Body)
			c.comma()
			c.texts(row, "", codeKey, `:{"name":`, nameKey, `,"unit":`, `,"unit":`)
			c.add(`,"value":`)
			var ok bool
			if c.f.Body, ok = appendQuotient(c.f.Body, &bitcoin.usd, &r.usd, full); !ok {
				c.f.Body = c.f.Body[:from]
				return
			}
			c.texts(row, `,"type":`, `,"type":`)
			c.add("}")
		})
	}
	c.add("}}")
}
