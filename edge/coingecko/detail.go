package coingecko

import (
	"bytes"
	"unicode"
	"unicode/utf8"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge/query"
	"example.com/marketdata/edge/snapshot"
)

// coin answers /coins/{id} and /coins/{platform}/contract/{address}.
func (c *composer) coin() {
	id := c.q.mem.coins[0].id
	row, links := c.asset(id)
	c.identity(row)
	c.texts(row, `,"web_slug":`, slugKey)
	quote := c.quote(id)
	c.platformsOf(id)
	c.add(`,"block_time_in_minutes":0,"hashing_algorithm":null`)
	c.groupsOf(id)
	c.add(`,"preview_listing":false,"public_notice":null,"additional_notices":[],"has_supply_breakdown":false,` +
		`"localization":{"en":`)
	c.texts(row, "", nameKey)
	c.add(`},"description":{"en":""}`)
	c.links(row, links)
	c.image(row)
	c.add(`,"country_origin":"","genesis_date":null`)
	c.add(`,"sentiment_votes_up_percentage":null,"sentiment_votes_down_percentage":null,` +
		`"watchlist_portfolio_users":0`)
	rank := rankOf(row, id)
	c.rank(`,"market_cap_rank":`, rank)
	c.add(`,"market_cap_rank_with_rehypothecated":null`)
	if c.q.flags.has(marketData) {
		c.marketData(id, rank, quote)
	}
	c.add(`,"community_data":{`, community, `,"telegram_channel_user_count":null},"developer_data":{`, developers,
		`,"last_4_weeks_commit_activity_series":[]},"status_updates":[]`)
	c.updated(`,"last_updated":`, quote)
	c.add(`,"tickers":[]}`)
}

// community and developers are members that every answer contains, although a snapshot has no data for them.
const (
	community = `"facebook_likes":null,"reddit_average_posts_48h":null,"reddit_average_comments_48h":null,` +
		`"reddit_subscribers":null,"reddit_accounts_active_48h":null`
	developers = `"forks":null,"stars":null,"subscribers":null,"total_issues":null,"closed_issues":null,` +
		`"pull_requests_merged":null,"pull_request_contributors":null,` +
		`"code_additions_deletions_4_weeks":{"additions":null,"deletions":null},"commit_count_4_weeks":null`
)

// identity begins an object with the members that identify an asset. CoinGecko's symbols are in lower case.
func (c *composer) identity(row []byte) {
	c.texts(row, `{"id":`, slugKey)
	c.add(`,"symbol":`)
	c.lower(textOf(row, symbolKey))
	c.texts(row, `,"name":`, nameKey)
}

// lower appends a JSON string in lower case. Its escapes are in lower case already.
func (c *composer) lower(text []byte) {
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		c.f.Body, text = utf8.AppendRune(c.f.Body, unicode.ToLower(r)), text[n:]
	}
}

// image appends the URLs of an asset's image. All sizes have the same URL.
func (c *composer) image(row []byte) {
	c.texts(row, `,"image":{"thumb":`, logoKey, `,"small":`, logoKey)
	if c.q.Endpoint != Past {
		c.texts(row, `,"large":`, logoKey)
	}
	c.add(`}`)
}

// nowhere is the "platforms" object of an asset without contracts.
var nowhere = []byte(`{"":""}`)

// platformsOf appends the platforms on which an asset has contracts. If there are several,
// asset_platform_id is null, because it is unknown which one is the main one.
func (c *composer) platformsOf(id uint64) {
	_, tail := c.rowByID(&c.prices, c.s.CoinView(snapshot.Coins), id)
	object := nowhere
	if tail != nil && len(artifacts.CoinPlatforms(tail)) > len("{}") {
		object = artifacts.CoinPlatforms(tail)
	}
	only, rest := nextText(object)
	contract, rest := nextText(rest)
	if len(rest) > 1 || len(only) == len(`""`) {
		only, contract = nil, nil
	}
	if c.q.Endpoint == Contract {
		contract = c.q.mem.coins[0].key
	}
	c.field(`,"asset_platform_id":`, only)
	if len(object) > len(nowhere) {
		c.field(`,"contract_address":`, contract)
	}
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
	from := len(c.q.mem.names) // where the details begin
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
		c.q.mem.names = append(append(append(c.q.mem.names, `,{"id":`...), slug...), `,"name":`...)
		c.q.mem.names = append(append(c.q.mem.names, name...), '}')
	}
	c.add(`]`)
	if c.q.flags.has(details) {
		c.put(`,"categories_details":[`, c.q.mem.names[min(from+1, len(c.q.mem.names)):])
		c.add("]")
	}
}

// category returns the row of a listed category, or nil if there is none.
func (c *composer) category(slug []byte) []byte {
	v := c.s.View(query.Categories, query.SortSlug)
	c.q.mem.folded = artifacts.AppendFold(c.q.mem.folded[:0], slug)
	start, end := c.rowsByKey(v, c.q.mem.folded)
	if start == end {
		return nil
	}
	_, row, _ := c.row(&c.byText, v, start)
	if !isText(textOf(row, slugKey), slug, &c.q.mem.folded) {
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

// unknown contains the market_data members for which a snapshot has no data.
const unknown = `,"market_cap_fdv_ratio":null,"price_change_percentage_60d":null,"market_cap_change_24h":null,` +
	`"market_cap_change_percentage_24h":null,"max_supply_infinite":null,"high_24h":{},"low_24h":{},"ath":{},"ath_change_percentage":{},"ath_date":{},"atl":{},` +
	`"atl_change_percentage":{},"atl_date":{},"market_cap_change_24h_in_currency":{},` +
	`"market_cap_change_percentage_24h_in_currency":{},"price_change_percentage_60d_in_currency":{}`

// marketData appends the figures of an asset.
func (c *composer) marketData(id, rank uint64, quote []byte) {
	c.allRates()
	figures := c.figuresOf(id)
	c.grow(4096 + len(c.q.mem.rates)*200)
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
	dollar := &rate{usd: one, dollars: true}
	c.changed("price_change_24h", "", figures.moved(dollar))
	for i := range windows {
		w := &windows[i]
		c.changed("price_change_percentage_", w.name, figures.change(w, quote, dollar))
	}
	c.add(unknown)
	c.field(`,"total_supply":`, figures.of[total])
	c.field(`,"circulating_supply":`, figures.of[circulating])
	c.field(`,"max_supply":`, figures.of[maximum])
	c.add(`,"outstanding_supply":null`)
	c.updated(`,"last_updated":`, quote)
	if c.q.flags.has(sparkline) {
		c.add(`,"sparkline_7d":[`)
		c.sparkline(id, dollar)
		c.add(`]`)
	}
	c.add(`}`)
}

// changed appends a change in US dollars, first as a plain value and then by currency. The 1h change exists
// only by currency.
func (c *composer) changed(name, window string, change []byte) {
	if window != "1h" {
		c.add(`,"`, name, window)
		c.field(`":`, change)
	}
	c.add(`,"`, name, window, `_in_currency":{`)
	if change != nil {
		c.field(`"usd":`, change)
	}
	c.add(`}`)
}
