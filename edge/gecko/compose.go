package gecko

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

// scratch is the memory that composing reuses.
type scratch struct {
	inner  query.Query // asks for a listing
	items  []byte      // of a listing
	folded []byte
	names  []byte // JSON, of coins
	coins  []coin
	rates  []rate
}

// rate is a currency: its code, and what one unit is worth in US dollars.
type rate struct {
	code []byte
	usd  number
	// dollars: it is the US dollar, in which figures stand as they are.
	dollars bool
}

// coin is an asset that a request names.
type coin struct {
	id  uint64
	key []byte // JSON, under which it stands in the answer
}

// composer composes one answer.
type composer struct {
	*rows.Finder
	*Query
	state *snapshot.State
	s     *snapshot.Snapshot
	wait  time.Duration

	byText, listed, quotes, figures, prices rows.Cursor
	visited                                 int
}

var (
	errNoSnapshot = &reply.Refusal{Status: http.StatusServiceUnavailable, Message: "there is no snapshot yet"}
	errNoCoin     = &reply.Refusal{Status: http.StatusNotFound, Message: "coin not found"}
)

// Compose implements reply.Composer.
func (q *Query) Compose(f *rows.Finder, state *snapshot.State, s *snapshot.Snapshot, wait time.Duration) error {
	if s == nil {
		return errNoSnapshot
	}
	c := composer{Finder: f, Query: q, state: state, s: s, wait: wait}
	err := c.compose()
	f.Bill.Settle(c.visited)
	clear(q.coins[:cap(q.coins)]) // keys are in shards
	clear(q.rates[:cap(q.rates)])
	return err
}

func (c *composer) compose() error {
	switch c.Endpoint {
	case SimplePrice, TokenPrice:
		return c.simplePrice()
	case Currencies:
		return c.currencies()
	case CoinsList:
		return c.coinsList()
	case Markets:
		return c.markets()
	case CategoriesList, Categories:
		return c.categories()
	case Coin, Contract:
		return c.coin()
	case Chart, ChartRange, ContractChart, ContractRange:
		return c.chart()
	case Past:
		return c.past()
	case ExchangeRates:
		return c.exchangeRates()
	case AssetPlatforms:
		return c.assetPlatforms()
	case ExchangesList, Exchanges:
		return c.exchanges()
	case Trending:
		return c.trending()
	case Search:
		return c.search()
	default:
		return c.global()
	}
}

// add appends texts to the body.
func (c *composer) add(texts ...string) {
	for _, s := range texts {
		c.Body = append(c.Body, s...)
	}
}

// field appends name, with its punctuation, and a JSON value; null if value is nil.
func (c *composer) field(name string, value []byte) {
	c.Body = append(c.Body, name...)
	if value == nil {
		value = null
	}
	c.Body = append(c.Body, value...)
}

var null = []byte("null")

// comma separates an element of an object or array from the one before it.
func (c *composer) comma() {
	if last := c.Body[len(c.Body)-1]; last != '[' && last != '{' {
		c.Body = append(c.Body, ',')
	}
}

// amount appends a figure in US dollars in another currency; null if it is not known. Prices are
// rounded to the decimals that were asked for.
func (c *composer) amount(name string, dollars []byte, r *rate, places int) {
	c.Body = append(c.Body, name...)
	from := len(c.Body)
	if dollars != nil {
		if places < 0 && r.dollars {
			c.Body = append(c.Body, dollars...)
			return
		}
		if places < 0 {
			places = full
		}
		var x number
		if x.parse(dollars) {
			c.Body, _ = appendQuotient(c.Body, &x, &r.usd, places)
		}
	}
	if len(c.Body) == from {
		c.add("null")
	}
}

// eachRate calls do with all currencies: code and value as they stand in the snapshot, and the row.
func (c *composer) eachRate(do func(code, usd, row []byte)) error {
	v := c.s.CoinView(snapshot.Rates)
	if v == nil || v.Rows == 0 {
		do([]byte(`"usd"`), []byte("1"), []byte(`{"id":1,"code":"usd","name":"usd","unit":"usd","type":"fiat","usd":"1"}`))
		return nil
	}
	return c.each(v, func(row, _ []byte) { do(textOf(row, `,"code":`), digitsOf(row, `,"usd":`), row) })
}

// each calls do with the rows of a view.
func (c *composer) each(v *snapshot.View, do func(row, tail []byte)) error {
	var at rows.Cursor
	for row := range v.Rows {
		s, i, err := c.At(&at, v, row)
		if err != nil {
			return err
		}
		do(s.Row(i), s.Tail(i))
	}
	return nil
}

// allRates makes c.rates all currencies.
func (c *composer) allRates() error {
	c.rates = c.rates[:0]
	return c.eachRate(func(code, usd, _ []byte) {
		r := rate{code: code[1 : len(code)-1], dollars: string(code) == `"usd"`}
		if r.usd.parse(usd) && !r.usd.v.IsZero() {
			c.rates = append(c.rates, r)
		}
	})
}

// askedRates makes c.rates the currencies that are asked for, by binary search: rates stand in the
// order of their codes.
func (c *composer) askedRates() error {
	c.rates = c.rates[:0]
	for _, code := range c.codes {
		r, ok, err := c.rateOf(code)
		switch {
		case err != nil:
			return err
		case !ok:
			return errCurrency
		}
		c.rates = append(c.rates, r)
	}
	return nil
}

func (c *composer) rateOf(code []byte) (rate, bool, error) {
	r := rate{code: code, usd: one, dollars: string(code) == "usd"}
	v := c.s.CoinView(snapshot.Rates)
	if v == nil || r.dollars {
		return r, r.dollars, nil
	}
	var at rows.Cursor
	for low, high := 0, v.Rows; low < high; {
		row := int(uint(low+high) / 2)
		s, i, err := c.At(&at, v, row)
		if err != nil {
			return r, false, err
		}
		have := textOf(s.Row(i), `,"code":`)
		switch n := bytes.Compare(have[1:len(have)-1], code); {
		case n < 0:
			low = row + 1
		case n > 0:
			high = row
		default:
			return r, r.usd.parse(digitsOf(s.Row(i), `,"usd":`)) && !r.usd.v.IsZero(), nil
		}
	}
	return r, false, nil
}

// rowByID returns the row with id in a view by id, and its tail; nil: there is none.
func (c *composer) rowByID(at *rows.Cursor, v *snapshot.View, id uint64) (row, tail []byte, err error) {
	if v == nil {
		return nil, nil, nil
	}
	s, i, ok, err := c.ByID(at, v, id)
	if err != nil || !ok {
		return nil, nil, err
	}
	return s.Row(i), s.Tail(i), nil
}

// quote returns the row of /quotes of an asset; nil: it has none.
func (c *composer) quote(id uint64) ([]byte, error) {
	row, _, err := c.rowByID(&c.quotes, c.s.View(query.Quotes, query.SortID), id)
	return row, err
}

// figures are those of artifacts.Figures.
type figures [artifacts.FigureCount][]byte

// The places of figures.
const (
	change24h = iota
	circulating
	total
	maximum
)

func (c *composer) figuresOf(id uint64) (f figures, err error) {
	row, _, err := c.rowByID(&c.figures, c.s.CoinView(snapshot.Figures), id)
	if row != nil {
		f = artifacts.Figures(row)
	}
	return f, err
}

// asset returns the row of /assets of an asset, and its tail.
func (c *composer) asset(id uint64) (row, tail []byte, err error) {
	row, tail, err = c.rowByID(&c.listed, c.s.View(query.Assets, query.SortID), id)
	return row, tail, err
}

// named makes c.coins the assets that the request names, at most maxValues.
func (c *composer) named() error {
	c.coins = c.coins[:0]
	for _, value := range c.values {
		var err error
		switch c.by {
		case byAddress:
			var id uint64
			if id, err = c.atAddress(c.path[0], value); id != 0 {
				at := len(c.names)
				c.names = appendText(c.names, value)
				c.coins = append(c.coins, coin{id, c.names[at:]})
			}
		case byID:
			err = c.namedAs(value, query.SortSlug)
		case byName:
			err = c.namedAs(value, query.SortName)
		default:
			err = c.namedAs(value, query.SortSymbol)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// atAddress returns the id of the asset with a contract; 0: there is none.
func (c *composer) atAddress(platform, address []byte) (uint64, error) {
	v := c.s.CoinView(snapshot.Contracts)
	if v == nil {
		return 0, nil
	}
	c.folded = artifacts.AppendContractKey(c.folded[:0], string(platform), address)
	start, end, err := c.ByKey(&c.byText, v, c.folded)
	if err != nil || start == end {
		return 0, err
	}
	// What the asset's platforms have: no text has unescaped quotes.
	from := len(c.names)
	defer func() { c.names = c.names[:from] }()
	c.names = append(appendText(c.names, platform), ':')
	c.folded = artifacts.AppendAddress(c.folded[:0], address)
	c.names = appendText(c.names, c.folded)
	for row := start; row < end; row++ {
		s, i, err := c.At(&c.byText, v, row)
		if err != nil {
			return 0, err
		}
		id := s.ID(i)
		_, tail, err := c.rowByID(&c.prices, c.s.CoinView(snapshot.Coins), id)
		if err != nil {
			return 0, err
		}
		if bytes.Contains(tail, c.names[from:]) {
			return id, nil
		}
	}
	return 0, nil
}

// namedAs adds the assets with a slug, name or symbol. Of several with one name or symbol it is that
// of the best rank, unless all are asked for.
func (c *composer) namedAs(value []byte, by query.Sort) error {
	v := c.s.View(query.Assets, by)
	if v == nil {
		return rows.ErrNoView
	}
	c.folded = artifacts.AppendFold(c.folded[:0], value)
	start, end, err := c.ByKey(&c.byText, v, c.folded)
	if err != nil {
		return err
	}
	if c.visited += end - start; end-start > 1 && !c.Bill.Visit(end-start) {
		return rows.ErrLimited
	}
	var best coin
	bestRank := uint64(0)
	for row := start; row < end; row++ {
		s, i, err := c.At(&c.byText, v, row)
		if err != nil {
			return err
		}
		text, id := s.Row(i), s.ID(i)
		switch {
		case by == query.SortSlug:
			if slug := textOf(text, `,"slug":`); isText(slug, value, &c.folded) {
				c.coins = append(c.coins, coin{id, slug})
			}
			continue
		case c.all:
			if len(c.coins) < maxValues {
				c.coins = append(c.coins, coin{id, textOf(text, `,"slug":`)})
			}
			continue
		}
		rank := rankOf(text, id)
		if best.id == 0 || rank > 0 && (bestRank == 0 || rank < bestRank) {
			best.id, bestRank = id, rank
		}
	}
	if best.id != 0 {
		at := len(c.names)
		c.names = appendText(c.names, value)
		best.key = c.names[at:]
		c.coins = append(c.coins, best)
	}
	return nil
}

// rankOf returns the rank in a row of /assets; 0: it has none.
func rankOf(row []byte, id uint64) uint64 {
	rest, ok := bytes.CutPrefix(row[artifacts.IDEnd(id):], []byte(`,"rank":`))
	if !ok {
		return 0
	}
	n := uint64(0)
	for _, d := range digitsAt(rest) {
		n = 10*n + uint64(d-'0')
	}
	return n
}

// simplePrice answers /simple/price and /simple/token_price/{platform}.
func (c *composer) simplePrice() error {
	c.names = c.names[:0]
	if err := c.askedRates(); err != nil {
		return err
	}
	if err := c.named(); err != nil {
		return err
	}
	if err := c.Grow(len(c.coins) * (120 + len(c.rates)*40*(1+len(simpleFigures)))); err != nil {
		return err
	}
	c.add("{")
	for i := range c.coins {
		quote, err := c.quote(c.coins[i].id)
		if err != nil {
			return err
		}
		c.comma()
		c.field("", c.coins[i].key)
		c.add(":{")
		if quote != nil {
			c.simpleFigures(quote)
		}
		c.add("}")
	}
	c.add("}")
	return nil
}

// simpleFigures are those beside the price.
var simpleFigures = [...]struct {
	param
	suffix, key string
}{{withCap, "_market_cap", `,"market_cap":`}, {withVolume, "_24h_vol", `,"volume":`},
	{withChange, "_24h_change", `,"24h":`}}

func (c *composer) simpleFigures(quote []byte) {
	quote = after(quote, `,"logo":`) // figures follow
	price := digitsOf(quote, `,"price":`)
	var figures [len(simpleFigures)][]byte
	for i := range simpleFigures {
		if c.flags.has(simpleFigures[i].param) {
			figures[i] = digitsOf(quote, simpleFigures[i].key)
		}
	}
	for i := range c.rates {
		r := &c.rates[i]
		name := func(suffix string) {
			c.comma()
			c.Body = append(append(append(append(c.Body, '"'), r.code...), suffix...), '"', ':')
		}
		name("")
		c.amount("", price, r, c.places)
		for j := range simpleFigures {
			f := &simpleFigures[j]
			switch {
			case !c.flags.has(f.param):
			case f.param == withChange && r.dollars:
				name(f.suffix)
				c.field("", figures[j])
			case f.param == withChange: // the past of rates is not kept
				name(f.suffix)
				c.add("null")
			case figures[j] != nil: // a shape that takes no null
				name(f.suffix)
				c.amount("", figures[j], r, -1)
			}
		}
	}
	if c.flags.has(withTime) {
		c.comma()
		c.add(`"last_updated_at":`)
		c.Body = strconv.AppendInt(c.Body, c.s.Time.Unix(), 10)
	}
}

// currencies answers /simple/supported_vs_currencies.
func (c *composer) currencies() error {
	c.add("[")
	err := c.eachRate(func(code, _, _ []byte) {
		c.comma()
		c.field("", code)
	})
	c.add("]")
	return err
}

// exchangeRates answers /exchange_rates: what one bitcoin is worth.
func (c *composer) exchangeRates() error {
	bitcoin, ok, err := c.rateOf([]byte("btc"))
	if err != nil {
		return err
	}
	c.add(`{"rates":{`)
	if ok {
		err = c.eachRate(func(code, usd, row []byte) {
			var r rate
			if !r.usd.parse(usd) || r.usd.v.IsZero() {
				return
			}
			from := len(c.Body)
			c.comma()
			c.field("", code)
			c.field(`:{"name":`, textOf(row, `,"name":`))
			c.field(`,"unit":`, textOf(row, `,"unit":`))
			c.add(`,"value":`)
			if c.Body, ok = appendQuotient(c.Body, &bitcoin.usd, &r.usd, full); !ok {
				c.Body = c.Body[:from]
				return
			}
			c.field(`,"type":`, textOf(row, `,"type":`))
			c.add(`}`)
		})
	}
	c.add("}}")
	return err
}
