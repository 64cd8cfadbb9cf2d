package model

import (
	"cmp"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"
)

// The collections of a feed, and the listings of a snapshot.
const (
	assets     = "assets"
	quotes     = "quotes"
	exchanges  = "exchanges"
	categories = "categories"
	chains     = "chains"
	rates      = "rates"
	markets    = "markets"
)

// An asset of the feed, with its quote.
type asset struct {
	key, name, symbol, slug, logo string
	id                            int64
	explorers                     []string
	website, whitepaper           string
	active                        bool
	platforms                     []platform

	price     *big.Rat // nil if the asset has no quote
	marketCap *big.Rat // nil if unknown
	volume    *big.Rat
	supplies  [len(supplies)]*big.Rat // nil if unknown

	rank    int // 0 if it has none
	changes []*big.Rat
	// since is the time of the base price of the longest window if that price is much younger than
	// the window, and otherwise zero.
	since   time.Time
	moved   *big.Rat        // the price change over 24 hours
	covered map[string]bool // windows that have prices for at least nine tenths of their length
}

// An exchange of the feed.
type exchange struct {
	key, name, slug, logo string
	id                    int64
	links                 exchangeLinks
	maker, taker          *big.Rat
	market                *exchangeMarket // nil if the feed has none
}

type exchangeMarket struct {
	volume         *big.Rat // like the other fields, nil if the feed has null
	markets, coins *int64
	dataTime       *time.Time
}

// A group is a category or a chain of the feed.
type group struct {
	key, name, slug string
	id              int64
	active          bool // whether status is active
	members         []string

	// The following fields are only for chains.
	displayName string
	evmChainID  *int64
	native      string // key of an asset, or "" if there is none
}

// feed holds the accepted rows of a feed folder.
type feed struct {
	head
	assets    []*asset
	exchanges []*exchange
	groups    map[string][]*group // categories and chains
	rates     []Rate
	rejected  map[string]int // rows set aside, by file
	warned    map[string]int // number of dropped values plus rows with a cleaned string, by file
	rows      map[string]int // rows read, by file
}

// claims are the keys, ids and slugs that the accepted rows of one file have taken.
type claims struct {
	known  map[string]int64 // permanent ids from earlier builds, by key
	ids    map[string]int64 // ids in this file, by key; 0 means not yet assigned
	owners map[int64]string // the keys in both of the maps above, by id
	slugs  map[string]bool  // folded
}

func newClaims(known map[string]int64) *claims {
	c := &claims{known: known, ids: map[string]int64{}, owners: map[int64]string{}, slugs: map[string]bool{}}
	for key, id := range known {
		c.owners[id] = key
	}
	return c
}

// take accepts a row, or returns the reason why it must be set aside. A row that is set aside
// claims nothing.
func (c *claims) take(r row) error {
	key, given, slug := r.key, r.given, r.slug
	if _, seen := c.ids[key]; seen {
		return errors.New("key seen before")
	}
	if slug != "" && c.slugs[Fold(slug)] {
		return errors.New("slug of another row")
	}
	id, known := c.known[key]
	if given != nil {
		if known && id != *given {
			return errors.New("id differs from the key's")
		}
		if owner, owned := c.owners[*given]; owned && owner != key {
			return errors.New("id of another key")
		}
		if !known && *given > maxInteger-1<<32 {
			return errors.New("id of a new key leaves too few above it")
		}
		id = *given
		c.owners[id] = key
	}
	c.ids[key] = id
	if slug != "" {
		c.slugs[Fold(slug)] = true
	}
	return nil
}

// assign gives an id to every key of the file that has none, in byte order of the keys. Each new
// id is one greater than the highest id ever used.
func (c *claims) assign() error {
	var highest int64
	for id := range c.owners {
		if id <= maxInteger-1<<32 { // Higher ids were given before this limit existed.
			highest = max(highest, id)
		}
	}
	var without []string
	for key, id := range c.ids {
		if id == 0 {
			without = append(without, key)
		}
	}
	slices.Sort(without)
	for _, key := range without {
		for highest++; c.owners[highest] != ""; highest++ {
		}
		if highest > maxInteger {
			return errors.New("no id is left")
		}
		c.ids[key] = highest
	}
	return nil
}

// row holds the key, id and slug that a line of a file claims, and a function that adds the line to
// the feed.
type row struct {
	key   string
	given *int64
	slug  string // empty if slugs need not be unique in this file
	add   func()
}

// readFeed reads a feed folder. knownIDs contains the ids from earlier builds, by collection and
// key. The result contains these ids and the ids of new keys.
func readFeed(files Files, knownIDs map[string]map[string]int64) (*feed, map[string]map[string]int64, error) {
	h, err := readHead(files)
	if err != nil {
		return nil, nil, err
	}
	f := &feed{head: h, groups: map[string][]*group{}, rejected: map[string]int{},
		warned: map[string]int{}, rows: map[string]int{}}
	directory := map[string]*asset{}
	ids := map[string]map[string]int64{}
	for _, file := range []struct {
		name string
		read func(*reader) row
	}{
		{assets, func(r *reader) row { return f.asset(r, directory) }},
		{quotes, func(r *reader) row { return quoteOf(r, directory) }},
		{exchanges, f.exchange}, {categories, f.category}, {chains, f.chain},
		{rates, func(r *reader) row { return f.rate(r, directory) }},
	} {
		c := newClaims(knownIDs[file.name])
		for _, line := range lines(files[file.name+".ndjson"]) {
			f.rows[file.name]++
			warnings, err := c.read(line, file.read)
			if err != nil {
				f.rejected[file.name]++
			}
			f.warned[file.name] += warnings
		}
		if file.name == quotes || file.name == rates {
			continue // Their rows have no ids of their own.
		}
		if err := c.assign(); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", file.name, err)
		}
		ids[file.name] = c.ids
	}

	for _, a := range f.assets {
		a.id = ids[assets][a.key]
	}
	for _, e := range f.exchanges {
		e.id = ids[exchanges][e.key]
	}
	slices.SortFunc(f.assets, func(a, b *asset) int { return cmp.Compare(a.id, b.id) })
	f.settleContracts()
	slices.SortFunc(f.exchanges, func(a, b *exchange) int { return cmp.Compare(a.id, b.id) })
	for collection, groups := range f.groups {
		for _, g := range groups {
			g.id = ids[collection][g.key]
		}
		slices.SortFunc(groups, func(a, b *group) int { return cmp.Compare(a.id, b.id) })
	}
	return f, ids, nil
}

// read accepts a line and returns the number of its warnings, or it returns the reason why the line
// must be set aside.
func (c *claims) read(line []byte, read func(*reader) row) (warnings int, err error) {
	if len(line) > maxLine {
		return 0, errors.New("line too long")
	}
	values, err := readObject(line)
	if err != nil {
		return 0, err
	}
	r := &reader{fields: values}
	row := read(r)
	if r.err != nil {
		return 0, r.err
	}
	if err := c.take(row); err != nil {
		return 0, err
	}
	row.add()
	if r.cleaned {
		r.warnings++
	}
	return r.warnings, nil
}

// settleContracts gives each contract that several assets claim to the one with the largest market
// cap or, if those are equal, the lowest id. f.assets must be sorted by id.
func (f *feed) settleContracts() {
	owners := map[string]*asset{}
	worth := func(a *asset) *big.Rat { return cmp.Or(a.marketCap, new(big.Rat)) }
	for _, a := range f.assets {
		for _, p := range a.platforms {
			if owner := owners[p.claim()]; owner == nil || worth(a).Cmp(worth(owner)) > 0 {
				owners[p.claim()] = a
			}
		}
	}
	for _, a := range f.assets {
		all := a.platforms
		a.platforms = nil
		for _, p := range all {
			if owners[p.claim()] == a {
				a.platforms = append(a.platforms, p)
			} else {
				f.warned[assets]++
			}
		}
	}
}

func (f *feed) asset(r *reader, directory map[string]*asset) row {
	a := &asset{
		key: r.required("key"), name: r.required("name"), symbol: r.required("symbol"), slug: r.required("slug"),
		logo: r.text("logo", ""), explorers: r.texts("explorers"),
		website: r.text("website", ""), whitepaper: r.text("whitepaper", ""),
		active: r.boolean("active", true), platforms: r.platforms(),
	}
	return row{a.key, r.id(), a.slug, func() {
		f.assets = append(f.assets, a)
		directory[a.key] = a
	}}
}

func quoteOf(r *reader, directory map[string]*asset) row {
	key := r.required("key")
	price := r.needed("price", pricePlaces, priceDigits)
	if price == nil {
		r.fail("price", "missing")
	}
	marketCap := r.decimal("market_cap", amountPlaces, amountDigits)
	volume := r.decimal("volume", amountPlaces, amountDigits)
	var known [len(supplies)]*big.Rat
	for i, name := range supplies {
		if n := r.decimal(name, amountPlaces, amountDigits); n != nil && n.Sign() > 0 { // Zero means unknown.
			known[i] = n
		}
	}
	a := directory[key]
	if a == nil {
		r.fail("key", "not in the directory")
	}
	return row{key: key, add: func() {
		a.supplies = known
		a.price, a.volume = price, cmp.Or(volume, new(big.Rat))
		if marketCap != nil && marketCap.Sign() > 0 { // Zero means unknown.
			a.marketCap = marketCap
		}
	}}
}

func (f *feed) exchange(r *reader) row {
	e := &exchange{
		key: r.required("key"), name: r.required("name"), slug: r.required("slug"), logo: r.text("logo", ""),
		maker: new(big.Rat), taker: new(big.Rat),
	}
	given := r.id()
	if links := r.object("links"); links != nil {
		l := &e.links
		for kind, to := range map[string]*text{
			"website": &l.Website, "twitter": &l.Twitter, "telegram": &l.Telegram, "reddit": &l.Reddit,
			"facebook": &l.Facebook, "chat": &l.Chat,
		} {
			*to = text(links.text(kind, ""))
		}
		r.absorb(links)
	}
	if fees := r.object("fees"); fees != nil {
		e.maker = cmp.Or(fees.decimal("maker", feePlaces, feeDigits), e.maker)
		e.taker = cmp.Or(fees.decimal("taker", feePlaces, feeDigits), e.taker)
		r.absorb(fees)
	}
	if market := r.object("market"); market != nil {
		e.market = &exchangeMarket{
			volume:  market.decimal("volume_24h", amountPlaces, amountDigits),
			markets: market.integer("markets_count", 0), coins: market.integer("coins_count", 0),
		}
		if raw, given := market.fields["data_time"]; given {
			if raw[0] == '"' {
				raw = []byte(unquote(raw))
			}
			if e.market.dataTime = readDataTime(string(raw)); e.market.dataTime == nil {
				r.warnings++
			}
		}
		r.absorb(market)
	}
	return row{key: e.key, given: given, add: func() { f.exchanges = append(f.exchanges, e) }}
}

func (f *feed) category(r *reader) row {
	g, given := readGroup(r)
	return row{g.key, given, g.slug, func() { f.groups[categories] = append(f.groups[categories], g) }}
}

func (f *feed) chain(r *reader) row {
	g, given := readGroup(r)
	g.displayName = r.text("display_name", g.name)
	g.evmChainID = r.integer("evm_chain_id", 0)
	g.native = r.text("native", "")
	return row{g.key, given, g.slug, func() { f.groups[chains] = append(f.groups[chains], g) }}
}

// absorb adds the warnings of an inner object to those of the row.
func (r *reader) absorb(inner *reader) { r.warnings += inner.warnings }

func readGroup(r *reader) (*group, *int64) {
	g := &group{key: r.required("key"), name: r.required("name"), slug: r.required("slug")}
	for _, key := range r.texts("members") {
		g.members = append(g.members, r.clean(key))
	}
	switch status := r.text("status", "active"); status {
	case "active":
		g.active = true
	case "disabled", "deleted":
	default:
		g.active = true
		r.warnings++
	}
	return g, r.id()
}

// readDataTime parses the time of an exchange's figures and returns it in UTC, in whole seconds. It
// returns nil if text is not a time in RFC 3339, or if the time is not after the start of 1970 or
// is after the year 9999.
func readDataTime(text string) *time.Time {
	if len(text) < 20 || text[13] != ':' || strings.Contains(text, ",") { // time.Parse would accept these.
		return nil
	}
	t, err := readTime(text)
	if err != nil {
		return nil
	}
	_, offset := t.Zone()
	t = time.Unix(t.Unix(), 0).UTC()
	if max(offset, -offset) >= 24*60*60 || t.Unix() <= 0 || t.Year() > 9999 {
		return nil
	}
	return &t
}

// An Accepted is an accepted row of a feed: its id and all of its values.
type Accepted struct {
	ID  int64
	Row string
}

// Accept returns the accepted rows of a feed by collection and key, the numbers of rows set aside,
// and the numbers of warnings, not counting those for unknown fields. knownIDs contains the ids
// from earlier builds, by key. Accept is for tests that read a feed without building a snapshot. A
// Row contains strings as formatted by %q of [fmt.Sprintf], and numbers as multiples of the last
// decimal place.
func Accept(
	files Files, knownIDs map[string]map[string]int64,
) (rows map[string]map[string]Accepted, rejected, warned map[string]int, err error) {
	f, _, err := readFeed(files, knownIDs)
	if err != nil {
		return nil, nil, nil, err
	}
	rows = map[string]map[string]Accepted{assets: {}, quotes: {}, exchanges: {}, categories: {}, chains: {},
		rates: {}}
	units := func(x *big.Rat, places int) string {
		if x == nil {
			return "none"
		}
		return new(big.Rat).Mul(x, new(big.Rat).SetInt(tenTo(places))).RatString()
	}
	count := func(n *int64) string {
		if n == nil {
			return "none"
		}
		return integer(*n)
	}
	here := map[string]bool{}
	for _, a := range f.assets {
		here[a.key] = true
		platforms, supplies := a.shown(units)
		rows[assets][a.key] = Accepted{a.id, fmt.Sprintf("%q %t",
			append([]string{a.name, a.symbol, a.slug, a.logo, a.website, a.whitepaper}, a.explorers...), a.active) +
			platforms}
		if a.price != nil {
			marketCap := cmp.Or(a.marketCap, new(big.Rat))
			rows[quotes][a.key] = Accepted{Row: fmt.Sprint(
				units(a.price, pricePlaces), units(marketCap, amountPlaces), units(a.volume, amountPlaces)) + supplies}
		}
	}
	for _, e := range f.exchanges {
		l := e.links
		row := fmt.Sprintf("%q %s %s", []string{e.name, e.slug, e.logo, string(l.Website), string(l.Twitter),
			string(l.Telegram), string(l.Reddit), string(l.Facebook), string(l.Chat)},
			units(e.maker, feePlaces), units(e.taker, feePlaces))
		if m := e.market; m != nil {
			row += fmt.Sprintf(
				" %s %s %s %v", units(m.volume, amountPlaces), count(m.markets), count(m.coins), m.dataTime)
		}
		rows[exchanges][e.key] = Accepted{e.id, row}
	}
	for collection, groups := range f.groups {
		for _, g := range groups {
			members := slices.DeleteFunc(slices.Clone(g.members), func(key string) bool { return !here[key] })
			slices.Sort(members)
			f.warned[collection] += len(g.members) - len(members)
			native := ""
			if here[g.native] {
				native = g.native
			} else if g.native != "" {
				f.warned[collection]++
			}
			rows[collection][g.key] = Accepted{g.id, fmt.Sprintf("%q %t %s %q", []string{
				g.name, g.slug, g.displayName, native}, g.active, count(g.evmChainID), slices.Compact(members))}
		}
	}
	for _, v := range f.rates {
		rows[rates][v.Code] = Accepted{
			Row: fmt.Sprintf("%q %s", []string{v.Name, v.Unit, v.Type}, units(v.USD, pricePlaces))}
	}
	return rows, f.rejected, f.warned, nil
}
