package source

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/market"
)

// The first fields of assets, exchanges, categories and chains, in this order. Quotes have only the
// key.
const (
	fieldKey = iota
	fieldID
	fieldName
	fieldSlug
	firstOwnField
)

// claims holds the keys, ids and slugs of a file's accepted rows.
type claims struct {
	collection string
	keys       map[string]int32  // maps keys to row indices
	ids        map[uint64]string // maps given ids to keys
	slugs      map[string]string // maps folded slugs to keys
	folded     []byte
}

func newClaims(collection string) *claims {
	return &claims{
		collection: collection, keys: map[string]int32{}, ids: map[uint64]string{}, slugs: map[string]string{},
	}
}

// identity holds the fields that identify a row. Its slices are valid until the next line is read.
type identity struct {
	key, name, slug []byte
	id              uint64 // 0 if the row has none
}

func (r *row) identity(o *object) identity {
	id, _ := r.count(o, fieldID, 1)
	return identity{
		key: r.name(o, fieldKey), id: id,
		name: r.name(o, fieldName), slug: r.name(o, fieldSlug),
	}
}

// named is an accepted identity. Its strings are copies that the feed can keep.
type named struct {
	key, name, slug string
	id              uint64
}

// claim is the last step of accepting a row whose other fields are valid. If the row's key, id and
// slug are all free, the row claims them. Otherwise it claims none of them, and claim returns an
// error. index is the row's index in its collection.
func (r *reader) claim(c *claims, i identity, index int) (n named, err error) {
	if r.row.err != nil {
		return n, r.row.err
	}
	if _, taken := c.keys[string(i.key)]; taken {
		return n, &fieldError{"key", quoted(string(i.key)), errKeySeen}
	}
	uniqueSlug := c.collection != "exchanges"
	if uniqueSlug {
		c.folded = artifacts.AppendFold(c.folded[:0], i.slug)
		if owner, taken := c.slugs[string(c.folded)]; taken {
			return n, &fieldError{"slug", strconv.AppendQuote(nil, string(i.slug)),
				fmt.Errorf("%q is that of key %q", shorten(i.slug), shorten([]byte(owner)))}
		}
	}
	if i.id != 0 {
		if err := r.checkID(c, i); err != nil {
			return n, err
		}
	}
	n.id = i.id
	n.key = string(i.key)
	n.name = string(i.name)
	n.slug = stringLike(i.slug, n.key)
	c.keys[n.key] = int32(index)
	if uniqueSlug {
		c.slugs[stringLike(c.folded, n.slug)] = n.key
	}
	if n.id != 0 {
		c.ids[n.id] = n.key
	}
	return n, nil
}

var errKeySeen = errors.New("seen before in this file")

// stringLike returns text as a string. To save memory, it returns the given string if that equals
// text, which is often the case.
func stringLike(text []byte, other string) string {
	if string(text) == other {
		return other
	}
	return string(text)
}

// checkID returns an error in three cases: the given id belongs to another key, in this file or
// among all ids ever assigned; the key has another id; or the id of a new key is too high.
func (r *reader) checkID(c *claims, i identity) error {
	wrong := func(format string, args ...any) error {
		return &fieldError{"id", strconv.AppendUint(nil, i.id, 10), fmt.Errorf(format, args...)}
	}
	owner, taken := c.ids[i.id]
	if !taken && r.opts.Owner != nil {
		owner, taken = r.opts.Owner(c.collection, i.id)
	}
	if taken && owner != string(i.key) {
		return wrong("%d is that of key %q", i.id, shorten([]byte(owner)))
	}
	known, ok := uint64(0), false
	if r.opts.Known != nil {
		known, ok = r.opts.Known(c.collection, string(i.key))
	}
	switch {
	case ok && known != i.id:
		return wrong("the key has id %d, not %d", known, i.id)
	case !ok && i.id > market.MaxNewID:
		return wrong("%d of a new key: want at most %d, which leaves ids to be assigned", i.id, uint64(market.MaxNewID))
	}
	return nil
}

const (
	assetSymbol = firstOwnField + iota
	assetLogo
	assetExplorers
	assetWebsite
	assetWhitepaper
	assetActive
	assetPlatforms
)

func assetObject() *object {
	return newObject("", 5, "key", "id", "name", "slug", "symbol", "logo", "explorers", "website", "whitepaper",
		"active", "platforms")
}

func (r *reader) assets() accepter {
	claimed := newClaims("assets")
	r.directory = claimed.keys
	r.platformNames = newObject(platformsPath, 0)
	r.platformsOf, r.addresses = map[string]*platform{}, map[uint64]int32{}
	return accepter{object: assetObject(), within: []*object{r.platformNames}, accept: func(o *object) error {
		row := &r.row
		id := row.identity(o)
		symbol := row.name(o, assetSymbol)
		logo := row.url(o, assetLogo)
		website := row.url(o, assetWebsite)
		whitepaper := row.url(o, assetWhitepaper)
		active := row.boolean(o, assetActive, true)
		explorers := row.urls(o, assetExplorers)
		platforms := r.platforms(o, assetPlatforms)
		n, err := r.claim(claimed, id, len(r.feed.Assets))
		if err != nil {
			return err
		}
		r.assetLines = append(r.assetLines, int32(r.lines.number))
		r.feed.Assets = append(r.feed.Assets, market.Asset{
			Key: n.key, ID: n.id, Name: n.name, Slug: n.slug,
			Symbol: string(symbol), Logo: string(logo), Explorers: texts(explorers),
			Website: string(website), Whitepaper: string(whitepaper), Active: active,
			Platforms: r.claimPlatforms(platforms),
		})
		return nil
	}}
}

func texts(from [][]byte) (all []string) {
	for _, text := range from {
		all = append(all, string(text))
	}
	return all
}

const (
	quotePrice = 1 + iota
	quoteMarketCap
	quoteVolume
	quoteSupplies // the first supply field
)

func quoteObject() *object {
	return newObject("", 2, append([]string{"key", "price", "market_cap", "volume"}, market.SupplyNames[:]...)...)
}

func (r *reader) quotes() accepter {
	seen := make([]bool, len(r.feed.Assets))
	return accepter{object: quoteObject(), accept: func(o *object) error {
		row := &r.row
		key := row.name(o, fieldKey)
		price, ok := row.decimal(o, quotePrice, market.PriceDecimals, market.PriceIntDigits)
		if !ok {
			row.missing(o, quotePrice)
		}
		marketCap, _ := row.decimal(o, quoteMarketCap, market.MoneyDecimals, market.MoneyIntDigits)
		volume, _ := row.decimal(o, quoteVolume, market.MoneyDecimals, market.MoneyIntDigits)
		quote := market.Quote{Price: price, MarketCap: marketCap, Volume: volume}
		for i := range quote.Supplies {
			quote.Supplies[i], _ = row.decimal(o, quoteSupplies+i, market.MoneyDecimals, market.MoneyIntDigits)
		}
		if row.err != nil {
			return row.err
		}
		asset, ok := r.directory[string(key)]
		switch {
		case !ok:
			return &fieldError{"key", quoted(string(key)), errNoAsset}
		case seen[asset]:
			return &fieldError{"key", quoted(string(key)), errKeySeen}
		}
		seen[asset] = true
		quote.Asset = int(asset)
		r.feed.Quotes = append(r.feed.Quotes, quote)
		return nil
	}}
}

var errNoAsset = errors.New("no asset in the directory has it")

const (
	exchangeLogo = firstOwnField + iota
	exchangeLinks
	exchangeFees
	exchangeMarket
)

const (
	feesMaker = iota
	feesTaker
)

const (
	marketVolume = iota
	marketMarkets
	marketCoins
	marketDataTime
)

func exchangeObject() *object {
	return newObject("", 4, "key", "id", "name", "slug", "logo", "links", "fees", "market")
}

func (r *reader) exchanges() accepter {
	claimed := newClaims("exchanges")
	links := newObject("links.", 0, market.ExchangeLinks[:]...)
	fees := newObject("fees.", 0, "maker", "taker")
	aggregate := newObject("market.", 0, "volume_24h", "markets_count", "coins_count", "data_time")
	return accepter{object: exchangeObject(), within: []*object{links, fees, aggregate}, accept: func(o *object) error {
		row := &r.row
		id := row.identity(o)
		logo := row.url(o, exchangeLogo)
		var urls [len(market.ExchangeLinks)][]byte
		if row.sub(o, exchangeLinks, links) {
			for i := range urls {
				urls[i] = row.url(links, i)
			}
		}
		var e market.Exchange
		if row.sub(o, exchangeFees, fees) {
			e.Maker, _ = row.decimal(fees, feesMaker, market.MoneyDecimals, market.FeeIntDigits)
			e.Taker, _ = row.decimal(fees, feesTaker, market.MoneyDecimals, market.FeeIntDigits)
		}
		badTime := false
		if row.sub(o, exchangeMarket, aggregate) {
			e.Market, badTime = row.exchangeMarket(aggregate)
		}
		n, err := r.claim(claimed, id, len(r.feed.Exchanges))
		if err != nil {
			return err
		}
		e.Key, e.ID, e.Name, e.Slug, e.Logo = n.key, n.id, n.name, n.slug, string(logo)
		for i, url := range urls {
			e.Links[i] = string(url)
		}
		if badTime {
			r.report.BadDataTimes++
			r.badTime(o, aggregate.values[marketDataTime])
		}
		r.feed.Exchanges = append(r.feed.Exchanges, e)
		return nil
	}}
}

// exchangeMarket reads the market of an exchange. badTime reports whether its data_time is
// unusable.
func (r *row) exchangeMarket(o *object) (m *market.ExchangeMarket, badTime bool) {
	m = &market.ExchangeMarket{}
	if volume, ok := r.decimal(o, marketVolume, market.MoneyDecimals, market.MoneyIntDigits); ok {
		m.Volume = &volume
	}
	if n, ok := r.count(o, marketMarkets, 0); ok {
		m.MarketsCount = &n
	}
	if n, ok := r.count(o, marketCoins, 0); ok {
		m.CoinsCount = &n
	}
	raw := o.values[marketDataTime]
	if raw == nil {
		return m, false
	}
	if raw[0] == '"' {
		raw = r.unquote(raw)
	}
	// Drop the fraction before checking the time: 1970-01-01T00:00:00.5Z would be shown as the date
	// that means "no time".
	t, err := ParseTime(raw)
	t = t.Truncate(time.Second)
	if err != nil || t.Unix() <= 0 {
		return m, true
	}
	m.DataTime = &t
	return m, false
}

const (
	groupStatus = firstOwnField + iota
	groupMembers
	chainDisplayName
	chainEVMChainID
	chainNative
)

func groupObject() *object {
	return newObject("", 4, "key", "id", "name", "slug", "status", "members")
}

func chainObject() *object {
	return newObject("", 4, "key", "id", "name", "slug", "status", "members", "display_name", "evm_chain_id",
		"native")
}

func (r *reader) categories() accepter {
	return r.groups("categories", groupObject(), &r.feed.Categories)
}

func (r *reader) chains() accepter {
	return r.groups("chains", chainObject(), &r.feed.Chains)
}

func (r *reader) groups(collection string, o *object, into *[]market.Group) accepter {
	claimed := newClaims(collection)
	var members []int
	var unknown [][]byte
	return accepter{object: o, accept: func(o *object) error {
		row := &r.row
		id := row.identity(o)
		g := market.Group{Active: row.groupIsActive(o), Native: -1}
		var displayName []byte
		var unknownNative []byte
		if collection == "chains" {
			displayName = id.name
			if text, ok := row.shortName(o, chainDisplayName); ok {
				displayName = text
			}
			if n, ok := row.count(o, chainEVMChainID, 0); ok {
				g.EVMChainID = &n
			}
			if native, ok := row.cleanText(o, chainNative); ok {
				if asset, ok := r.directory[string(native)]; ok {
					g.Native = int(asset)
				} else {
					unknownNative = native
				}
			}
		}
		members, unknown = members[:0], unknown[:0]
		for _, key := range row.array(o, groupMembers) {
			key = row.clean(o, groupMembers, key)
			if asset, ok := r.directory[string(key)]; ok {
				members = append(members, int(asset))
			} else {
				unknown = append(unknown, key)
			}
		}
		n, err := r.claim(claimed, id, len(*into))
		if err != nil {
			return err
		}
		slices.Sort(members)
		members = slices.Compact(members)
		g.Members = slices.Clone(members)
		g.Key, g.ID, g.Name, g.Slug = n.key, n.id, n.name, n.slug
		g.DisplayName = string(displayName)
		for _, key := range unknown {
			r.report.UnknownMembers++
			r.unknownAsset(o, groupMembers, key)
		}
		if len(unknownNative) > 0 {
			r.report.UnknownNatives++
			r.unknownAsset(o, chainNative, unknownNative)
		}
		*into = append(*into, g)
		return nil
	}}
}

func (r *row) groupIsActive(o *object) bool {
	status, given := r.text(o, groupStatus)
	if given && !slices.Contains(statuses, string(status)) {
		r.fail(o, groupStatus, "%q is none of %s", shorten(status), strings.Join(statuses, ", "))
		given = false
	}
	return !given || string(status) == statuses[0]
}

var statuses = []string{"active", "disabled", "deleted"}
