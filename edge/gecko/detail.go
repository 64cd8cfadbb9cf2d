package gecko

import (
	"bytes"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge/query"
	"example.com/marketdata/edge/snapshot"
)

// coin answers /coins/{id} and /coins/{platform}/contract/{address}.
func (c *composer) coin() {
	id := c.coins[0].id
	row, links := c.asset(id)
	c.identity(row)
	c.texts(row, `,"web_slug":`, slugKey)
	c.platformsOf(id)
	c.add(`,"block_time_in_minutes":0,"hashing_algorithm":null`)
	c.groupsOf(id)
	c.add(`,"preview_listing":false,"public_notice":null,"additional_notices":[],"has_supply_breakdown":false,` +
		`"localization":{},"description":{}`)
	c.links(row, links)
	c.image(row)
	c.add(`,"country_origin":"","genesis_date":null`)
	if c.Endpoint == Contract {
		c.field(`,"contract_address":`, c.coins[0].key)
	}
	c.add(`,"sentiment_votes_up_percentage":null,"sentiment_votes_down_percentage":null,` +
		`"watchlist_portfolio_users":0`)
	rank := rankOf(row, id)
	c.rank(`,"market_cap_rank":`, rank)
	c.add(`,"market_cap_rank_with_rehypothecated":null`)
	if c.flags.has(marketData) {
		c.marketData(id, rank)
	}
	c.add(`,"community_data":{},"developer_data":{},"status_updates":[]`)
	c.updated(`,"last_updated":`)
	c.add(`,"tickers":[]}`)
}

// identity begins an object with what names an asset.
func (c *composer) identity(row []byte) {
	c.texts(row, `{"id":`, slugKey, `,"symbol":`, symbolKey, `,"name":`, nameKey)
}

// image appends an asset's picture, of which there is one size.
func (c *composer) image(row []byte) {
	c.add(`,"image":{`)
	if len(textOf(row, logoKey)) > len(`""`) {
		c.texts(row, `"thumb":`, logoKey, `,"small":`, logoKey)
		if c.Endpoint != Past {
			c.texts(row, `,"large":`, logoKey)
		}
	}
	c.add(`}`)
}

var empty = []byte("{}")

// platformsOf appends where an asset has contracts.
func (c *composer) platformsOf(id uint64) {
	_, tail := c.rowByID(&c.prices, c.s.CoinView(snapshot.Coins), id)
	object := empty
	if tail != nil {
		object = artifacts.CoinPlatforms(tail)
	}
	only, rest := nextText(object)
	if _, rest = nextText(rest); len(rest) > 1 {
		only = nil
	}
	c.field(`,"asset_platform_id":`, only)
	c.field(`,"platforms":`, object)
	c.add(`,"detail_platforms":{`)
	for name, rest := nextText(object); name != nil; name, rest = nextText(rest) {
		var address []byte
		address, rest = nextText(rest)
		c.comma()
		c.put("", name)
		c.put(`:{"decimal_place":null,"contract_address":`, address)
		c.add("}")
	}
	c.add(`}`)
}

// groupsOf appends the categories of an asset.
func (c *composer) groupsOf(id uint64) {
	_, tail := c.rowByID(&c.prices, c.s.View(query.Markets, query.SortID), id)
	from := len(c.names) // of the details
	c.add(`,"categories":[`)
	slugs := after(tail, `"categories":`)
	for slug, rest := nextText(slugs); slug != nil; slug, rest = nextText(rest) {
		group := c.category(unescaped(slug))
		if group == nil {
			continue
		}
		name := textOf(group, nameKey)
		c.comma()
		c.put("", name)
		c.names = append(append(append(c.names, `,{"id":`...), slug...), `,"name":`...)
		c.names = append(append(c.names, name...), '}')
	}
	c.add(`]`)
	if c.flags.has(details) {
		c.put(`,"categories_details":[`, c.names[min(from+1, len(c.names)):])
		c.add("]")
	}
}

// category returns the row of a listed category; nil: there is none.
func (c *composer) category(slug []byte) []byte {
	v := c.s.View(query.Categories, query.SortSlug)
	c.folded = artifacts.AppendFold(c.folded[:0], slug)
	start, end := c.rowsByKey(v, c.folded)
	if start == end {
		return nil
	}
	_, row, _ := c.row(&c.byText, v, start)
	if !isText(textOf(row, slugKey), slug, &c.folded) {
		return nil
	}
	return row
}

func (c *composer) links(row, tail []byte) {
	c.add(`,"links":{"homepage":[`)
	if website := textOf(tail, `{"website":`); len(website) > len(`""`) {
		c.field("", website)
	}
	c.texts(tail, `],"whitepaper":`, `,"whitepaper":`)
	c.field(`,"blockchain_site":`, bytes.TrimSuffix(after(row, `,"explorers":`), []byte("}")))
	c.add(`,"official_forum_url":[],"chat_url":[],"announcement_url":[],"snapshot_url":null,` +
		`"twitter_screen_name":"","facebook_username":"","bitcointalk_thread_identifier":null,` +
		`"telegram_channel_identifier":"","subreddit_url":"","repos_url":{"github":[],"bitbucket":[]}}`)
}

// unknown are the parts of market_data that a snapshot does not have.
const unknown = `,"high_24h":{},"low_24h":{},"ath":{},"ath_change_percentage":{},"ath_date":{},"atl":{},` +
	`"atl_change_percentage":{},"atl_date":{},"market_cap_change_24h_in_currency":{},` +
	`"market_cap_change_percentage_24h_in_currency":{},"price_change_percentage_14d_in_currency":{},` +
	`"price_change_percentage_60d_in_currency":{},"price_change_percentage_200d_in_currency":{}`

// marketData appends an asset's figures.
func (c *composer) marketData(id, rank uint64) {
	c.allRates()
	quote := c.quote(id)
	figures := c.figuresOf(id)
	c.grow(4096 + len(c.rates)*200)
	quote = after(quote, logoKey)
	price := digitsOf(quote, priceKey)
	c.add(`,"market_data":{`)
	c.dollarsInAll(`"current_price":`, price)
	c.add(`,"total_value_locked":null,"mcap_to_tvl_ratio":null,"fdv_to_tvl_ratio":null,"roi":null`)
	c.dollarsInAll(`,"market_cap":`, digitsOf(quote, capKey))
	c.dollarsInAll(`,"total_volume":`, digitsOf(quote, volumeKey))
	diluted := figures.diluted(price)
	c.inAll(`,"fully_diluted_valuation":`, &diluted)
	c.rank(`,"market_cap_rank":`, rank)
	c.add(`,"outstanding_token_value_usd":null,"market_cap_rank_with_rehypothecated":null`)
	if change := figures[change24h]; change != nil {
		c.field(`,"price_change_24h":`, change)
		c.field(`,"price_change_24h_in_currency":{"usd":`, change)
		c.add(`}`)
	}
	for i := range windows {
		w := &windows[i]
		percent := w.of(quote)
		if percent == nil {
			continue
		}
		if w.name != "1h" {
			c.add(`,"price_change_percentage_`, w.name, `":`)
			c.field("", percent)
		}
		c.add(`,"price_change_percentage_`, w.name, `_in_currency":{"usd":`)
		c.field("", percent)
		c.add(`}`)
	}
	c.add(unknown)
	if n := figures[total]; n != nil {
		c.field(`,"total_supply":`, n)
	}
	if n := figures[circulating]; n != nil {
		c.field(`,"circulating_supply":`, n)
	}
	c.field(`,"max_supply":`, figures[maximum])
	c.add(`,"outstanding_supply":null`)
	c.updated(`,"last_updated":`)
	if c.flags.has(sparkline) {
		c.add(`,"sparkline_7d":[`)
		c.sparkline(id, &rate{usd: one, dollars: true})
		c.add(`]`)
	}
	c.add(`}`)
}
