package gecko

import (
	"bytes"
	"slices"
	"strconv"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge/query"
	"example.com/marketdata/edge/reply"
	"example.com/marketdata/edge/snapshot"
)

// categories answers /coins/categories and /coins/categories/list.
func (c *composer) categories() error {
	byID := c.s.View(query.Categories, query.SortID)
	by, desc := query.SortID, false
	if c.Endpoint == Categories {
		switch c.order {
		case 0, 1:
			by, desc = query.SortMarketCap, c.order == 0
		case 2, 3:
			by, desc = query.SortName, c.order == 2
		}
	}
	c.ask(query.Categories, by, desc, max(byID.Rows, 1), 1)
	items, err := c.find()
	if err != nil {
		return err
	}
	if err := c.Grow(len(items)*2 + 2); err != nil {
		return err
	}
	c.add("[")
	for len(items) > 0 {
		var item []byte
		item, items = nextItem(items)
		c.comma()
		name, slug := textOf(item, `,"name":`), textOf(item, `,"slug":`)
		if c.Endpoint == CategoriesList {
			c.field(`{"category_id":`, slug)
			c.field(`,"name":`, name)
			c.add("}")
			continue
		}
		c.field(`{"id":`, slug)
		c.field(`,"name":`, name)
		c.field(`,"market_cap":`, digitsOf(item, `{"market_cap":`))
		c.add(`,"market_cap_change_24h":0,"content":""`)
		id, _ := strconv.ParseUint(string(digitsOf(item, `{"id":`)), 10, 64)
		leaders, _, err := c.rowByID(&c.prices, c.s.CoinView(snapshot.Leaders), id)
		if err != nil {
			return err
		}
		if rest := after(leaders, `,"top_3_coins_id":`); rest != nil {
			c.field(`,"top_3_coins_id":`, rest)
			c.Body = c.Body[:len(c.Body)-1] // the row's brace
		} else {
			c.add(`,"top_3_coins_id":[],"top_3_coins":[]`)
		}
		c.field(`,"volume_24h":`, digitsOf(item, `,"volume_24h":`))
		c.updated(`,"updated_at":`)
		c.add("}")
	}
	c.add("]")
	c.items = nil
	return nil
}

// assetPlatforms answers /asset_platforms: the items stand in the snapshot as they are answered.
func (c *composer) assetPlatforms() error {
	c.add("[")
	if v := c.s.CoinView(snapshot.Platforms); v != nil {
		if err := c.each(v, func(row, _ []byte) {
			c.comma()
			c.Body = append(c.Body, artifacts.CoinItem(row)...)
		}); err != nil {
			return err
		}
	}
	c.add("]")
	return nil
}

// exchanges answers /exchanges, by volume, and /exchanges/list.
func (c *composer) exchanges() error {
	if c.Endpoint == ExchangesList {
		c.add("[")
		err := c.each(c.s.View(query.Exchanges, query.SortID), func(row, _ []byte) {
			c.comma()
			c.field(`{"id":`, textOf(row, `,"slug":`))
			c.field(`,"name":`, textOf(row, `,"name":`))
			c.add("}")
		})
		c.add("]")
		return err
	}
	bitcoin, known, err := c.rateOf([]byte("btc"))
	if err != nil {
		return err
	}
	c.ask(query.Exchanges, query.SortVolume, true, c.perPage, c.page)
	items, err := c.find()
	if err != nil {
		return err
	}
	if err := c.Grow(len(items) + 300*c.perPage); err != nil {
		return err
	}
	c.add("[")
	for len(items) > 0 {
		var item []byte
		item, items = nextItem(items)
		c.comma()
		c.field(`{"id":`, textOf(item, `,"slug":`))
		c.field(`,"name":`, textOf(item, `,"name":`))
		c.field(`,"year_established":null,"country":null,"description":"","url":`, textOf(item, `{"website":`))
		c.field(`,"image":`, textOf(item, `,"logo":`))
		c.add(`,"has_trading_incentive":false,"trust_score":null,"trust_score_rank":null`)
		volume := digitsOf(item, `{"volume_24h":`)
		if volume == nil || !known {
			volume = zero
		}
		c.amount(`,"trade_volume_24h_btc":`, volume, &bitcoin, -1)
		c.add("}")
	}
	c.add("]")
	return nil
}

// zero stands where a shape requires a number that is not known.
var zero = []byte("0")

// search answers /search: coins, by the rules of our own search.
func (c *composer) search() error {
	items, err := c.find()
	if err != nil {
		return err
	}
	c.add(`{"coins":[`)
	for len(items) > 0 {
		var item []byte
		item, items = nextItem(items)
		slug, logo := textOf(item, `,"slug":`), textOf(item, `,"logo":`)
		id, _ := strconv.ParseUint(string(digitsOf(item, `{"id":`)), 10, 64)
		c.comma()
		c.field(`{"id":`, slug)
		c.field(`,"name":`, textOf(item, `,"name":`))
		c.field(`,"api_symbol":`, slug)
		c.field(`,"symbol":`, textOf(item, `,"symbol":`))
		c.add(`,"market_cap_rank":`)
		c.rank(rankOf(item, id))
		c.field(`,"thumb":`, logo)
		c.field(`,"large":`, logo)
		c.add("}")
	}
	c.add(`],"exchanges":[],"icos":[],"categories":[],"nfts":[]}`)
	return nil
}

// trending answers /search/trending.
func (c *composer) trending() error {
	bitcoin, known, err := c.rateOf([]byte("btc"))
	if err != nil {
		return err
	}
	c.ask(query.Trending, query.SortBoard, false, 0, 1)
	items, err := c.find()
	if err != nil {
		return err
	}
	c.add(`{"coins":[`)
	for score := 0; len(items) > 0; score++ {
		var item []byte
		item, items = nextItem(items)
		digits := digitsOf(item, `{"id":`)
		id, _ := strconv.ParseUint(string(digits), 10, 64)
		row, _, err := c.asset(id)
		if err != nil {
			return err
		}
		slug, logo := textOf(item, `,"slug":`), textOf(item, `,"logo":`)
		quote := after(item, `,"logo":`)
		// In bitcoin, without a rate, nothing is known.
		inBitcoin := func(dollars []byte) []byte {
			if !known || dollars == nil {
				return nil
			}
			from := len(c.Body)
			c.amount("", dollars, &bitcoin, -1)
			value := c.Body[from:]
			c.Body = c.Body[:from]
			c.folded = append(c.folded[:0], value...)
			return c.folded
		}
		quoted := func(name string, value []byte) {
			c.add(name, `"`)
			c.Body = append(append(c.Body, value...), '"')
		}
		c.comma()
		c.field(`{"item":{"id":`, slug)
		c.field(`,"coin_id":`, digits)
		c.field(`,"name":`, textOf(item, `,"name":`))
		c.field(`,"symbol":`, textOf(item, `,"symbol":`))
		c.add(`,"market_cap_rank":`)
		c.Body = strconv.AppendUint(c.Body, rankOf(row, id), 10)
		for _, name := range [...]string{`,"thumb":`, `,"small":`, `,"large":`} {
			c.field(name, logo)
		}
		c.field(`,"slug":`, slug)
		price, volume := digitsOf(quote, `,"price":`), digitsOf(quote, `,"volume":`)
		worth := digitsOf(quote, `,"market_cap":`)
		if b := inBitcoin(price); b != nil {
			c.field(`,"price_btc":`, b)
		} else {
			c.field(`,"price_btc":`, zero)
		}
		c.add(`,"score":`)
		c.Body = strconv.AppendInt(c.Body, int64(score), 10)
		c.field(`,"data":{"price":`, price)
		quoted(`,"price_btc":`, inBitcoin(price))
		c.field(`,"price_change_percentage_24h":{"usd":`, digitsOf(quote, `,"24h":`))
		quoted(`},"market_cap":`, worth)
		quoted(`,"market_cap_btc":`, inBitcoin(worth))
		quoted(`,"total_volume":`, volume)
		quoted(`,"total_volume_btc":`, inBitcoin(volume))
		c.add(`,"sparkline":"","content":null}}}`)
	}
	c.add(`],"nfts":[],"categories":[]}`)
	return nil
}

// leading is how many coins' shares of the total market cap are answered.
const leading = 10

// global answers /global.
func (c *composer) global() error {
	if err := c.allRates(); err != nil {
		return err
	}
	g := &c.s.Global
	c.add(`{"data":{"active_cryptocurrencies":`)
	c.Body = strconv.AppendInt(c.Body, int64(g.ActiveAssets), 10)
	c.add(`,"upcoming_icos":0,"ongoing_icos":0,"ended_icos":0,"markets":`)
	c.Body = strconv.AppendInt(c.Body, int64(c.s.View(query.Exchanges, query.SortID).Rows), 10)
	total := []byte(g.TotalMarketCap)
	c.inAll(`,"total_market_cap":`, total)
	c.inAll(`,"total_volume":`, []byte(g.TotalVolume24h))
	c.add(`,"market_cap_percentage":{`)
	if err := c.shares(total); err != nil {
		return err
	}
	change, ok := "", false
	if c.state != nil {
		change, ok = reply.Change(c.state, c.s)
	}
	if !ok {
		change = "0"
	}
	c.add(`},"market_cap_change_percentage_24h_usd":`, change, `,"volume_change_percentage_24h_usd":0,"updated_at":`)
	c.Body = strconv.AppendInt(c.Body, c.s.Time.Unix(), 10)
	c.add("}}")
	return nil
}

// shares appends the percentages of the coins with the best ranks, by symbol in lower case; of several
// coins with one symbol that of the best rank.
func (c *composer) shares(total []byte) error {
	var all number
	v := c.s.View(query.Markets, query.SortRank)
	if v == nil || !all.parse(total) || all.v.IsZero() {
		return nil
	}
	all.places += 2 // percent
	c.ask(query.Markets, query.SortRank, false, leading, 1)
	items, err := c.find()
	if err != nil {
		return err
	}
	var seen [][]byte
	for len(items) > 0 {
		var item []byte
		item, items = nextItem(items)
		symbol := bytes.ToLower(textOf(item, `,"symbol":`))
		id, _ := strconv.ParseUint(string(digitsOf(item, `{"id":`)), 10, 64)
		var worth number
		if rankOf(item, id) == 0 || !worth.parse(digitsOf(item, `,"market_cap":`)) ||
			slices.ContainsFunc(seen, func(s []byte) bool { return string(s) == string(symbol) }) {
			continue
		}
		seen = append(seen, symbol)
		from := len(c.Body)
		c.comma()
		c.field("", symbol)
		c.add(":")
		var ok bool
		if c.Body, ok = appendQuotient(c.Body, &worth, &all, percentPlaces); !ok {
			c.Body = c.Body[:from]
		}
	}
	return nil
}

// percentPlaces are the decimals of percentages.
const percentPlaces = 12
