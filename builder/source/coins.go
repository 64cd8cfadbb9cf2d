package source

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/market"
	"github.com/zeebo/xxh3"
)

// Bounds for data that only the answers under /api/v3/ use.
const (
	maxPlatforms = 100 // per asset
	maxRates     = 500
)

// platformsPath is the prefix of a platform's name in messages and column names.
const platformsPath = "platforms."

// platform is a platform's name with its id.
type platform struct {
	id, name string
	hash     uint64 // of the id
}

// maxPlatformNames bounds the number of names whose ids are cached.
const maxPlatformNames = 1 << 16

// found is a contract in a row that has not been accepted yet.
type found struct {
	*platform
	address []byte
	hash    uint64 // hash of id and address
}

// claim is one asset's claim to a contract that several assets claim.
type claim struct {
	market.Platform
	asset int32
}

// platforms reads an asset's contracts and drops bad ones. It claims none of them. The result is
// valid until the next call.
func (r *reader) platforms(o *object, field int) []found {
	within := r.platformNames
	r.found = r.found[:0]
	known := len(o.unknown)
	if !r.row.sub(o, field, within) {
		return nil
	}
	o.unknown = o.unknown[:known] // platform names are not field names
	all := within.unknown
	slices.SortStableFunc(all, func(a, b member) int { return bytes.Compare(a.name, b.name) })
	for i := range all {
		if i+1 < len(all) && bytes.Equal(all[i].name, all[i+1].name) {
			continue // if a name is repeated, the last one counts
		}
		if err := r.platform(&all[i]); err != nil {
			r.row.drop(platformsPath+shorten(all[i].name), all[i].value, err)
		}
	}
	slices.SortStableFunc(r.found, func(a, b found) int { return strings.Compare(a.id, b.id) })
	r.found = slices.CompactFunc(r.found, func(b, a found) bool {
		if a.id == b.id {
			r.row.drop(platformsPath+b.name, quoted(string(b.address)), fmt.Errorf("the same platform as %q", a.name))
		}
		return a.id == b.id
	})
	if len(r.found) > maxPlatforms {
		r.row.fail(o, field, "%d beyond the first %d", len(r.found)-maxPlatforms, maxPlatforms)
		r.found = r.found[:maxPlatforms]
	}
	return r.found
}

// platform adds a contract, with its platform and address, to r.found unless the address is empty.
func (r *reader) platform(m *member) error {
	switch {
	case m.value[0] == 'n':
		return nil
	case len(m.name) > maxName:
		return fmt.Errorf("a name of %d bytes: want at most %d", len(m.name), maxName)
	case m.value[0] != '"':
		return errors.New("want a string")
	}
	address := r.row.unquote(m.value)
	if !isClean(address) {
		address = r.row.cleanAs(platformsPath+shorten(m.name), address)
	}
	if len(address) == 0 {
		return nil
	}
	p := r.platformOf(m.name)
	switch {
	case p.id == "":
		return errors.New("a name without a letter or a digit")
	case len(address) > maxName:
		return fmt.Errorf("an address of %d bytes: want at most %d", len(address), maxName)
	case bytes.ContainsFunc(address, func(c rune) bool {
		return unicode.IsSpace(c) || unicode.In(c, unicode.Cc, unicode.Cf)
	}):
		return errors.New("an address with white space or an invisible character in it")
	}
	from := len(r.row.scratch)
	r.row.scratch = artifacts.AppendAddress(r.row.scratch, address)
	address = r.row.scratch[from:]
	r.found = append(r.found, found{p, address, xxh3.HashSeed(address, p.hash)})
	return nil
}

func (r *reader) platformOf(name []byte) *platform {
	p := r.platformsOf[string(name)]
	if p == nil {
		p = &platform{name: string(name)}
		if p.id = market.PlatformID(p.name); p.id == p.name {
			p.id = p.name // share one copy
		}
		p.hash = xxh3.HashString(p.id)
		if len(r.platformsOf) < maxPlatformNames {
			r.platformsOf[p.name] = p
		}
	}
	return p
}

// claimPlatforms claims contracts for the next asset and returns them. It also records the ones
// that another asset has claimed before.
func (r *reader) claimPlatforms(all []found) []market.Platform {
	at := int32(len(r.feed.Assets))
	var kept []market.Platform
	for i, f := range all {
		kept = append(kept, market.Platform{ID: f.id, Name: f.name, Address: string(f.address)})
		owner, taken := r.addresses[f.hash]
		switch {
		case !taken:
			r.addresses[f.hash] = at
		case owner < at: // otherwise two contracts of this asset have the same hash
			r.contested = append(r.contested, claim{kept[i], at})
			for _, p := range r.feed.Assets[owner].Platforms {
				if p.ID == f.id && p.Address == kept[i].Address { // equal, not just with the same hash
					r.contested = append(r.contested, claim{p, owner})
				}
			}
		}
	}
	return kept
}

// settleContracts gives each contract that several assets claim to the asset with the largest
// market cap. Among assets with equal market caps it chooses the one with the lowest id (FEED.md,
// "Bad input"). It warns about each contract that another asset loses.
func (r *reader) settleContracts() {
	if len(r.contested) == 0 {
		return
	}
	caps := map[int32]market.U128{}
	for _, c := range r.contested {
		caps[c.asset] = market.U128{}
	}
	for i := range r.feed.Quotes {
		at := int32(r.feed.Quotes[i].Asset)
		if _, asked := caps[at]; asked {
			caps[at] = r.feed.Quotes[i].MarketCap
		}
	}
	slices.SortFunc(r.contested, func(a, b claim) int {
		return cmp.Or(strings.Compare(a.ID, b.ID), strings.Compare(a.Address, b.Address),
			caps[b.asset].Cmp(caps[a.asset]), r.compareIDs(a.asset, b.asset))
	})
	r.now, r.row.table = r.assetProblems, r.assetTable
	var owner claim
	for i, c := range r.contested {
		if i == 0 || c.ID != owner.ID || c.Address != owner.Address {
			owner = c
			continue
		}
		if c.asset == r.contested[i-1].asset {
			continue
		}
		a, winner := &r.feed.Assets[c.asset], r.feed.Assets[owner.asset].Key
		a.Platforms = slices.DeleteFunc(a.Platforms, func(p market.Platform) bool { return p.ID == c.ID })
		p := Problem{
			File: r.now.Shown, Line: int(r.assetLines[c.asset]), isRow: r.isRow(), Key: shorten([]byte(a.Key)),
			Field: platformsPath + c.Name, Value: shorten([]byte(c.Address)),
		}
		p.Reason = fmt.Sprintf("%s: key %q has this address, and the larger market cap or the lower id; dropped",
			p.Field, shorten([]byte(winner)))
		r.warn("contract", p, noSuggestion)
	}
}

// compareIDs compares the ids of two assets. Assets without an id come last, ordered by key, since
// the ledger assigns them ids in this order, higher than all existing ones.
func (r *reader) compareIDs(a, b int32) int {
	x, y := &r.feed.Assets[a], &r.feed.Assets[b]
	id := func(a *market.Asset) (id uint64, isNew int) {
		if id = a.ID; id == 0 && r.opts.Known != nil {
			id, _ = r.opts.Known("assets", a.Key)
		}
		if id == 0 {
			return market.MaxNewID, 1
		}
		return id, 0
	}
	idX, newX := id(x)
	idY, newY := id(y)
	return cmp.Or(cmp.Compare(idX, idY), cmp.Compare(newX, newY), strings.Compare(x.Key, y.Key))
}

const (
	rateCode = iota // instead of a key
	rateUSD
	rateAsset
	rateName
	rateUnit
	rateType
)

func rateObject() *object { return newObject("", 3, "code", "usd", "asset", "name", "unit", "type") }

// codeForm matches the code of a rate.
var codeForm = regexp.MustCompile(`^[a-z0-9]{2,10}$`)

func (r *reader) rates() accepter {
	seen := map[string]bool{}
	prices := map[int]market.U128{}
	for i := range r.feed.Quotes {
		prices[r.feed.Quotes[i].Asset] = r.feed.Quotes[i].Price
	}
	return accepter{object: rateObject(), accept: func(o *object) error {
		row := &r.row
		code := row.name(o, rateCode)
		if row.err == nil && !codeForm.Match(code) {
			row.fail(o, rateCode, "want 2 to 10 characters of a to z and 0 to 9")
		}
		rate := market.Rate{Type: r.rateType(o)}
		rate.USD, rate.Asset = r.rateValue(o, string(code) == market.USD, prices)
		name, _ := row.shortName(o, rateName)
		unit, _ := row.bounded(o, rateUnit, maxName)
		switch {
		case row.err != nil:
			return row.err
		case seen[string(code)]:
			return &fieldError{"code", o.values[rateCode], errKeySeen}
		case len(seen) == maxRates:
			return fmt.Errorf("more than %d rates", maxRates)
		}
		rate.Code = string(code)
		seen[rate.Code] = true
		if rate.Name, rate.Unit = string(name), string(unit); rate.Name == "" {
			rate.Name = rate.Code
		}
		if rate.Unit == "" {
			rate.Unit = rate.Code
		}
		r.feed.Rates = append(r.feed.Rates, rate)
		return nil
	}}
}

func (r *reader) rateType(o *object) string {
	text, given := r.row.text(o, rateType)
	if !given {
		return market.RateTypes[0]
	}
	i := slices.Index(market.RateTypes, string(text))
	if i < 0 {
		r.row.fail(o, rateType, "%q is none of %s", shorten(text), strings.Join(market.RateTypes, ", "))
		return market.RateTypes[0]
	}
	return market.RateTypes[i]
}

var (
	errTwoValues = errors.New("usd is there too: want one of the two")
	errNoPrice   = errors.New("the asset has no price above 0")
)

// rateValue reads the value of a unit. It also returns the index of the asset whose price is the
// value, or -1 if the value is not an asset's price. isUSD reports whether the rate is for the US
// dollar.
func (r *reader) rateValue(o *object, isUSD bool, prices map[int]market.U128) (usd market.U128, of int) {
	row := &r.row
	of = -1
	one := market.U128{Lo: 1e18}
	usd, given := row.decimal(o, rateUSD, market.PriceDecimals, market.PriceIntDigits)
	key, byAsset := row.cleanText(o, rateAsset)
	switch {
	case row.err != nil:
	case isUSD && (byAsset || given && usd != one):
		row.fail(o, rateCode, "usd itself is always 1")
	case isUSD:
		return one, of
	case given && byAsset:
		row.fail(o, rateAsset, "%w", errTwoValues)
	case given && usd.IsZero():
		row.fail(o, rateUSD, "want a decimal above 0")
	case byAsset:
		asset, ok := r.directory[string(key)]
		of = int(asset)
		if usd = prices[of]; !ok {
			row.fail(o, rateAsset, "%w", errNoAsset)
		} else if usd.IsZero() {
			row.fail(o, rateAsset, "%w", errNoPrice)
		}
	case !given:
		row.missing(o, rateUSD)
	}
	return usd, of
}
