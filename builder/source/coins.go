package source

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/market"
	"github.com/zeebo/xxh3"
)

// Bounds of what only the answers below /api/v3/ show.
const (
	maxPlatforms = 100 // of an asset
	maxRates     = 500
)

// platformsPath precedes the name of a platform in messages and in names of columns.
const platformsPath = "platforms."

// platform is a name of a platform.
type platform struct {
	id, name string
	hash     uint64 // of the id
	line     int    // the last one that names it
}

// found is a contract in a row that is not accepted yet.
type found struct {
	*platform
	address []byte
	hash    uint64 // of both
}

// platforms reads an asset's contracts. It claims nothing; the result is valid until the next call.
func (r *reader) platforms(o *object, field int) []found {
	within := r.platformNames
	r.found = r.found[:0]
	known := len(o.unknown)
	if !r.row.sub(o, field, within) {
		return nil
	}
	o.unknown = o.unknown[:known] // their names are free
	for _, m := range slices.Backward(within.unknown) {
		f, err := r.platform(&m)
		if f.platform != nil && err == nil {
			if r.found = append(r.found, f); len(r.found) > maxPlatforms {
				err = fmt.Errorf("more than %d", maxPlatforms)
			}
		}
		if err != nil {
			r.row.fail(o, field, "%w", err)
			return nil
		}
	}
	slices.SortFunc(r.found, func(a, b found) int { return strings.Compare(a.id, b.id) })
	for i := 1; i < len(r.found); i++ {
		if a, b := r.found[i-1].name, r.found[i].name; r.found[i-1].id == r.found[i].id {
			r.row.fail(o, field, "%q and %q are the same platform", min(a, b), max(a, b))
		}
	}
	return r.found
}

// platform reads a name and its address; none if a later member has the name, or it has no address.
func (r *reader) platform(m *member) (f found, err error) {
	wrong := func(format string, args ...any) (found, error) {
		return found{}, fmt.Errorf("%q: %w", shorten(m.name), fmt.Errorf(format, args...))
	}
	if len(m.name) > maxName {
		return wrong("a name of %d bytes: want at most %d", len(m.name), maxName)
	}
	p := r.platformOf(m.name)
	if p.line == r.lines.number {
		return found{}, nil
	}
	p.line = r.lines.number
	switch {
	case m.value[0] == 'n':
		return found{}, nil
	case m.value[0] != '"':
		return wrong("want a string")
	}
	address := r.row.unquote(m.value)
	switch {
	case len(address) == 0:
		return found{}, nil
	case p.id == "":
		return wrong("a name without a letter or a digit")
	case len(address) > maxName:
		return wrong("an address of %d bytes: want at most %d", len(address), maxName)
	case bytes.ContainsFunc(address, func(c rune) bool { return c <= ' ' || c == 0x7f }):
		return wrong("an address with a blank or a control character")
	}
	from := len(r.row.scratch)
	r.row.scratch = artifacts.AppendAddress(r.row.scratch, address)
	address = r.row.scratch[from:]
	f = found{p, address, xxh3.HashSeed(address, p.hash)}
	if owner, taken := r.addresses[f.hash]; taken && hasContract(&r.feed.Assets[owner], &f) {
		return wrong("address %s is that of key %q", shorten(address), shorten([]byte(r.feed.Assets[owner].Key)))
	}
	return f, nil
}

// hasContract looks whether it is not merely the hash of a contract that an asset has.
func hasContract(a *market.Asset, f *found) bool {
	return slices.ContainsFunc(a.Platforms, func(p market.Platform) bool {
		return p.ID == f.id && p.Address == string(f.address)
	})
}

func (r *reader) platformOf(name []byte) *platform {
	p := r.platformsOf[string(name)]
	if p == nil {
		p = &platform{name: string(name)}
		if p.id = market.PlatformID(p.name); p.id == p.name {
			p.id = p.name // one copy
		}
		p.hash = xxh3.HashString(p.id)
		r.platformsOf[p.name] = p
	}
	return p
}

// claimPlatforms keeps the contracts of the asset at a place.
func (r *reader) claimPlatforms(all []found, at int) []market.Platform {
	kept := r.contracts.slice(len(all))
	for i, f := range all {
		kept[i] = market.Platform{ID: f.id, Name: f.name, Address: r.text.keep(f.address)}
		r.addresses[f.hash] = int32(at)
	}
	return kept
}

const (
	rateCode = iota // in the place of a key
	rateUSD
	rateAsset
	rateName
	rateUnit
	rateType
)

func rateObject() *object { return newObject("", "code", "usd", "asset", "name", "unit", "type") }

// codeForm is the form of a rate's code.
var codeForm = regexp.MustCompile(`^[a-z0-9]{2,10}$`)

func (r *reader) rates(int) accepter {
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
		rate.USD = r.rateValue(o, string(code) == market.USD, prices)
		name, _ := row.bounded(o, rateName, maxName)
		unit, _ := row.bounded(o, rateUnit, maxName)
		switch {
		case row.err != nil:
			return row.err
		case seen[string(code)]:
			return &fieldError{"code", o.values[rateCode], errKeySeen}
		case len(seen) == maxRates:
			return fmt.Errorf("more than %d rates", maxRates)
		}
		rate.Code = r.text.keep(code)
		seen[rate.Code] = true
		if rate.Name, rate.Unit = r.text.keep(name), r.text.keep(unit); rate.Name == "" {
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
		return ""
	}
	return market.RateTypes[i]
}

var (
	errTwoValues = errors.New("usd is there too: want one of the two")
	errNoPrice   = errors.New("the asset has no price above 0")
)

// rateValue reads what a unit is worth; isUSD says that it is the US dollar.
func (r *reader) rateValue(o *object, isUSD bool, prices map[int]market.U128) market.U128 {
	row := &r.row
	one := market.U128{Lo: 1e18}
	usd, given := row.decimal(o, rateUSD, market.PriceDecimals, market.PriceIntDigits)
	key, byAsset := row.text(o, rateAsset)
	switch {
	case row.err != nil:
	case isUSD && (byAsset || given && usd != one):
		row.fail(o, rateCode, "usd itself is always 1")
	case isUSD:
		return one
	case given && byAsset:
		row.fail(o, rateAsset, "%w", errTwoValues)
	case given && usd.IsZero():
		row.fail(o, rateUSD, "want a decimal above 0")
	case byAsset:
		asset, ok := r.directory[string(key)]
		if usd = prices[int(asset)]; !ok {
			row.fail(o, rateAsset, "%w", errNoAsset)
		} else if usd.IsZero() {
			row.fail(o, rateAsset, "%w", errNoPrice)
		}
	case !given:
		row.missing(o, rateUSD)
	}
	return usd
}
