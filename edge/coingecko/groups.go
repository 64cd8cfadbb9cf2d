package coingecko

import (
	"bytes"
	"slices"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge/query"
	"example.com/marketdata/edge/reply"
	"example.com/marketdata/edge/snapshot"
)

// categories answers /coins/categories and /coins/categories/list.
func (c *composer) categories() {
	byID := c.s.View(query.Categories, query.SortID)
	by, desc := query.SortID, false
	if c.q.Endpoint == Categories {
		switch c.q.order {
		case 0, 1:
			by, desc = query.SortMarketCap, c.q.order == 0
		case 2, 3:
			by, desc = query.SortName, c.q.order == 2
		}
	}
	c.ask(query.Categories, by, desc, max(byID.Rows, 1), 1)
	c.items(128, func(item []byte, id uint64) { // bytes for the category and its three largest coins
		if c.q.Endpoint == CategoriesList {
			c.texts(item, `{"category_id":`, slugKey, `,"name":`, nameKey)
			c.add("}")
			return
		}
		c.texts(item, `{"id":`, slugKey, `,"name":`, nameKey)
		c.field(`,"market_cap":`, digitsOf(item, `{"market_cap":`))
		c.add(`,"market_cap_change_24h":0,"content":""`)
		leaders, _ := c.rowByID(&c.prices, c.s.CoinView(snapshot.Leaders), id)
		if rest := after(leaders, `,"top_3_coins_id":`); rest != nil {
			c.field(`,"top_3_coins_id":`, rest[:len(rest)-1]) // without the row's closing brace
		} else {
			c.add(`,"top_3_coins_id":[],"top_3_coins":[]`)
		}
		c.field(`,"volume_24h":`, digitsOf(item, `,"volume_24h":`))
		c.updated(`,"updated_at":`, item)
		c.add("}")
	})
}

// assetPlatforms answers /asset_platforms. The snapshot already contains the items in the form that the answer needs.
func (c *composer) assetPlatforms() {
	c.list(c.s.CoinView(snapshot.Platforms), func(row, _ []byte) { c.put("", artifacts.CoinItem(row)) })
}

// exchangesList answers /exchanges/list.
func (c *composer) exchangesList() {
	c.list(c.s.View(query.Exchanges, query.SortID), func(row, _ []byte) {
		c.texts(row, `{"id":`, slugKey, `,"name":`, nameKey)
		c.add("}")
	})
}

// exchanges answers /exchanges, sorted by volume.
func (c *composer) exchanges() {
	bitcoin := c.rateOf([]byte("btc"))
	c.ask(query.Exchanges, query.SortVolume, true, c.q.perPage, c.q.page)
	c.items(512, func(item []byte, _ uint64) {
		c.texts(item, `{"id":`, slugKey, `,"name":`, nameKey,
			`,"year_established":null,"country":null,"description":"","url":`, `{"website":`, `,"image":`, logoKey)
		c.add(`,"has_trading_incentive":false,"trust_score":null,"trust_score_rank":null`)
		c.inBitcoin(`,"trade_volume_24h_btc":`, digitsOf(item, `{"volume_24h":`), &bitcoin, "0")
		c.add(`,"trade_volume_24h_btc_normalized":null}`)
	})
}

// inBitcoin appends a figure in bitcoin. If the figure or the rate is not known, it appends placeholder
// instead.
func (c *composer) inBitcoin(name string, dollars []byte, bitcoin *rate, placeholder string) {
	if dollars == nil || !bitcoin.known() {
		c.add(name, placeholder)
	} else {
		c.amount(name, dollars, bitcoin, -1)
	}
}

// search answers /search with coins only. It follows the rules of /openapi/v1/search.
func (c *composer) search() {
	c.add(`{"coins":`)
	c.items(512, func(item []byte, id uint64) {
		c.texts(item, `{"id":`, slugKey, `,"name":`, nameKey, `,"api_symbol":`, slugKey, `,"symbol":`, symbolKey)
		c.rank(`,"market_cap_rank":`, rankOf(item, id))
		c.texts(item, `,"thumb":`, logoKey, `,"large":`, logoKey)
		c.add("}")
	})
	c.add(`,"exchanges":[],"icos":[],"categories":[],"nfts":[]}`)
}

// trending answers /search/trending.
func (c *composer) trending() {
	bitcoin := c.rateOf([]byte("btc"))
	c.ask(query.Trending, query.SortBoard, false, 0, 1)
	c.add(`{"coins":`)
	score := int64(0)
	c.items(1024, func(item []byte, id uint64) {
		row, _ := c.asset(id)
		quote := after(item, logoKey)
		price, worth, volume := digitsOf(quote, priceKey), digitsOf(quote, capKey), digitsOf(quote, volumeKey)
		c.texts(item, `{"item":{"id":`, slugKey)
		c.integer(`,"coin_id":`, int64(id))
		c.texts(item, `,"name":`, nameKey, `,"symbol":`, symbolKey)
		c.integer(`,"market_cap_rank":`, int64(rankOf(row, id)))
		c.texts(item, `,"thumb":`, logoKey, `,"small":`, logoKey, `,"large":`, logoKey, `,"slug":`, slugKey)
		c.inBitcoin(`,"price_btc":`, price, &bitcoin, "0")
		c.integer(`,"score":`, score)
		c.field(`,"data":{"price":`, price)
		c.inBitcoin(`,"price_btc":"`, price, &bitcoin, "")
		c.add(`","price_change_percentage_24h":{`)
		figures := c.figuresOf(id)
		if change := figures.change(&windows[day24h], quote, &rate{dollars: true}); change != nil {
			c.field(`"usd":`, change)
		}
		c.put(`},"market_cap":"`, worth)
		c.inBitcoin(`","market_cap_btc":"`, worth, &bitcoin, "")
		c.put(`","total_volume":"`, volume)
		c.inBitcoin(`","total_volume_btc":"`, volume, &bitcoin, "")
		c.add(`","sparkline":"","content":null}}}`)
		score++
	})
	c.add(`,"nfts":[],"categories":[]}`)
}

// leading is the number of coins in market_cap_percentage.
const leading = 10

// global answers /global.
func (c *composer) global() {
	c.allRates()
	g := &c.s.Global
	c.integer(`{"data":{"active_cryptocurrencies":`, int64(g.ActiveAssets))
	c.integer(`,"upcoming_icos":0,"ongoing_icos":0,"ended_icos":0,"markets":`,
		int64(c.s.View(query.Exchanges, query.SortID).Rows))
	total := []byte(g.TotalMarketCap)
	c.dollarsInAll(`,"total_market_cap":`, total)
	c.dollarsInAll(`,"total_volume":`, []byte(g.TotalVolume24h))
	c.add(`,"market_cap_percentage":{`)
	c.shares(total)
	change, ok := "", false
	if c.state != nil {
		change, ok = reply.Change(c.state, c.s)
	}
	if !ok {
		change = "0"
	}
	c.add(`},"market_cap_change_percentage_24h_usd":`, change)
	c.integer(`,"volume_change_percentage_24h_usd":0,"updated_at":`, c.s.Time.Unix())
	c.add("}}")
}

// shares appends, for each of the best-ranked coins, its market cap as a percentage of totalCap. The keys are
// symbols in lower case. If several coins have the same symbol, only the one with the best rank counts.
func (c *composer) shares(totalCap []byte) {
	var all number
	v := c.s.View(query.Markets, query.SortRank)
	if v == nil || !all.parse(totalCap) || all.v.IsZero() {
		return
	}
	all.places += 2 // percent
	var seen [][]byte
	for row := range min(leading, v.Rows) {
		id, listed, _ := c.row(&c.listed, v, row)
		quote := c.quote(id)
		symbol := bytes.ToLower(textOf(quote, symbolKey))
		var worth number
		if listed == nil || artifacts.SearchRank(listed) == 0 || !worth.parse(digitsOf(quote, capKey)) ||
			slices.ContainsFunc(seen, func(s []byte) bool { return string(s) == string(symbol) }) {
			continue
		}
		seen = append(seen, symbol)
		from, ok := len(c.f.Body), false
		c.comma()
		c.put("", symbol)
		c.add(":")
		if c.f.Body, ok = appendQuotient(c.f.Body, &worth, &all, percentPlaces); !ok {
			c.f.Body = c.f.Body[:from]
		}
	}
}

// percentPlaces is the number of decimals of percentages.
const percentPlaces = 12
