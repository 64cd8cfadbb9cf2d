package model

import (
	"cmp"
	"fmt"
	"maps"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// A platform is a blockchain on which an asset has a contract.
type platform struct{ id, name, address string }

// A Rate is a rate of the feed: the value of one unit of a currency in US dollars.
type Rate struct {
	Code, Name, Unit, Type string
	USD                    *big.Rat
	Asset                  int64 // id of the asset whose price is the rate; 0 for a rate in US dollars
	asset                  *asset
}

// Coins is the part of a feed's snapshot that only the CoinGecko-compatible API shows, in addition
// to the rows of the listings.
type Coins struct {
	Active int                         // number of active assets
	Rates  []Rate                      // by code, including the US dollar's
	Chains map[string]Platform         // all platforms, by id
	On     map[int64]map[string]string // for each asset, its addresses by platform
	// Supplies are the circulating, total and maximum supplies of each quoted asset; an unknown
	// supply is nil. Moved is the asset's price change over 24 hours.
	Supplies map[int64][len(supplies)]*big.Rat
	Moved    map[int64]*big.Rat
	// Covered contains, by the id of each quoted asset, the windows that have prices for at least
	// nine tenths of their length.
	Covered map[int64]map[string]bool
}

// A Platform describes a platform, without its id.
type Platform struct {
	Name, ShortName, Native, Logo string // Native is the slug of the native coin
	EVMChainID                    *int64
}

var (
	evmAddress = regexp.MustCompile(`^0x[0-9a-fA-F]{40}$`)
	rateCode   = regexp.MustCompile(`^[a-z0-9]{2,10}$`)
	rateKinds  = []string{"fiat", "crypto", "commodity"}
	supplies   = [3]string{"circulating_supply", "total_supply", "max_supply"}
)

// platformID returns the id of a platform, which is its name as a slug.
func platformID(name string) string {
	words := strings.FieldsFunc(name, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	return strings.Map(unicode.ToLower, strings.Join(words, "-"))
}

// platforms returns the platforms in an asset's row, in the order of their ids.
func (r *reader) platforms() []platform {
	object := r.object("platforms")
	if object == nil {
		return nil
	}
	var all []platform
	for _, name := range slices.Sorted(maps.Keys(object.fields)) {
		raw := object.fields[name]
		if len(name) > 256 || raw[0] != '"' {
			r.warnings++
			continue
		}
		p := platform{platformID(name), name, r.clean(unquote(raw))}
		if evmAddress.MatchString(p.address) {
			p.address = strings.ToLower(p.address)
		}
		if p.address == "" {
			continue
		}
		odd := func(c rune) bool { return unicode.In(c, unicode.White_Space, unicode.Cc, unicode.Cf) }
		twice := slices.ContainsFunc(all, func(q platform) bool { return q.id == p.id })
		if p.id == "" || len(p.address) > 256 || strings.ContainsFunc(p.address, odd) || twice {
			r.warnings++
			continue
		}
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b platform) int { return strings.Compare(a.id, b.id) })
	if len(all) > 100 {
		r.warnings++
		all = all[:100]
	}
	return all
}

// claim returns a string that identifies the contract. Only one asset may have the contract.
func (p platform) claim() string { return p.id + "\x00" + p.address }

func (f *feed) rate(r *reader, directory map[string]*asset) row {
	v := Rate{Code: r.required("code"), Type: r.text("type", rateKinds[0])}
	if !slices.Contains(rateKinds, v.Type) {
		v.Type = rateKinds[0]
		r.warnings++
	}
	v.Name, v.Unit = r.text("name", ""), r.text("unit", "")
	for _, text := range []*string{&v.Name, &v.Unit} {
		if *text == "" {
			*text = v.Code
		}
	}
	if !rateCode.MatchString(v.Code) || len(f.rates) == 500 {
		r.fail("code", "not one that is taken")
	}
	v.USD = r.needed("usd", pricePlaces, priceDigits)
	if _, given := r.fields["asset"]; given {
		a := directory[r.required("asset")]
		if v.USD != nil || a == nil {
			r.fail("asset", "not known, or a second value")
			return row{}
		}
		v.USD, v.asset = a.price, a
	}
	if one := big.NewRat(1, 1); v.Code == "usd" {
		if _, given := r.fields["asset"]; given || v.USD != nil && v.USD.Cmp(one) != 0 {
			r.fail("usd", "not 1")
		}
		v.USD = one
	}
	if v.USD == nil || v.USD.Sign() == 0 {
		r.fail("usd", "not above 0")
	}
	return row{key: v.Code, add: func() { f.rates = append(f.rates, v) }}
}

// newCoins collects the data of a snapshot for the CoinGecko-compatible API.
func newCoins(f *feed, st state) *Coins {
	c := &Coins{Rates: slices.Clone(f.rates), Chains: map[string]Platform{}, On: map[int64]map[string]string{},
		Supplies: map[int64][len(supplies)]*big.Rat{}, Moved: map[int64]*big.Rat{},
		Covered: map[int64]map[string]bool{}}
	for i, r := range c.Rates {
		if r.asset != nil {
			c.Rates[i].Asset = r.asset.id
		}
	}
	if !slices.ContainsFunc(c.Rates, func(r Rate) bool { return r.Code == "usd" }) {
		c.Rates = append(c.Rates, Rate{Code: "usd", Name: "US Dollar", Unit: "$", Type: rateKinds[0],
			USD: big.NewRat(1, 1)})
	}
	slices.SortFunc(c.Rates, func(a, b Rate) int { return strings.Compare(a.Code, b.Code) })
	directory := map[string]*asset{"": {}}
	for _, a := range f.assets {
		directory[a.key] = a
	}
	chainOf := map[string]*group{} // by the platform id that the chain's slug yields
	add := func(g *group) {
		native := cmp.Or(directory[g.native], directory[""])
		c.Chains[g.slug] = Platform{g.name, g.displayName, native.slug, native.logo, g.evmChainID}
	}
	for _, g := range f.groups[chains] {
		if other := chainOf[platformID(g.slug)]; other == nil || g.slug < other.slug {
			chainOf[platformID(g.slug)] = g
		}
	}
	for _, g := range visibleGroups(f, st, chains) {
		add(g)
	}
	for _, a := range f.assets {
		if a.active {
			c.Active++
		}
		if a.price != nil {
			c.Supplies[a.id], c.Moved[a.id], c.Covered[a.id] = a.supplies, a.moved, a.covered
		}
		c.On[a.id] = map[string]string{}
		for _, p := range a.platforms {
			id := p.id
			if g := chainOf[id]; g != nil {
				id = g.slug
				add(g)
			} else if known := c.Chains[id]; known.Name == "" || p.name < known.Name {
				c.Chains[id] = Platform{Name: p.name}
			}
			c.On[a.id][id] = p.address
		}
	}
	return c
}

// shown formats the platforms of an asset and the supplies of its quote for Accept.
func (a *asset) shown(units func(x *big.Rat, places int) string) (platforms, supplies string) {
	var texts []string
	for _, p := range a.platforms {
		texts = append(texts, p.id, p.name, p.address)
	}
	var numbers []string
	for _, s := range a.supplies {
		numbers = append(numbers, units(cmp.Or(s, new(big.Rat)), amountPlaces))
	}
	return fmt.Sprintf(" %q", texts), " " + strings.Join(numbers, " ")
}
