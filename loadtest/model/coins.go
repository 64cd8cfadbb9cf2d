package model

import (
	"cmp"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// A platform is where an asset has a contract.
type platform struct{ id, name, address string }

// A rate of the feed: what a unit is worth in US dollars.
type rate struct {
	code, name, unit, kind string
	usd                    *big.Rat
}

var (
	evmAddress = regexp.MustCompile(`^0x[0-9a-fA-F]{40}$`)
	rateCode   = regexp.MustCompile(`^[a-z0-9]{2,10}$`)
	rateKinds  = []string{"fiat", "crypto", "commodity"}
	supplies   = [3]string{"circulating_supply", "total_supply", "max_supply"}
)

// platformID is a platform's name as a slug.
func platformID(name string) string {
	words := strings.FieldsFunc(name, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	return strings.Map(unicode.ToLower, strings.Join(words, "-"))
}

// platforms are those of an asset's row, in the order of their ids.
func (r *reader) platforms() []platform {
	object := r.object("platforms")
	if object == nil {
		return nil
	}
	var all []platform
	for name, raw := range object.fields {
		if raw[0] != '"' {
			r.fail("platforms", "not a string")
			return nil
		}
		p := platform{platformID(name), name, unquote(raw)}
		if evmAddress.MatchString(p.address) {
			p.address = strings.ToLower(p.address)
		}
		if p.address == "" {
			continue
		}
		odd := func(c rune) bool { return c <= ' ' || c == 0x7f }
		if p.id == "" || len(name) > 256 || len(p.address) > 256 || strings.ContainsFunc(p.address, odd) {
			r.fail("platforms", "not a name and an address")
		}
		if slices.ContainsFunc(all, func(q platform) bool { return q.id == p.id }) {
			r.fail("platforms", "twice the same")
		}
		all = append(all, p)
	}
	if len(all) > 100 {
		r.fail("platforms", "too many")
	}
	slices.SortFunc(all, func(a, b platform) int { return strings.Compare(a.id, b.id) })
	return all
}

// claim is what no other asset may claim.
func (p platform) claim() string { return p.id + "\x00" + p.address }

func (f *feed) rate(r *reader, directory map[string]*asset) row {
	v := &rate{code: r.required("code"), kind: r.text("type", rateKinds[0])}
	v.name, v.unit = r.text("name", ""), r.text("unit", "")
	for _, text := range []*string{&v.name, &v.unit} {
		if *text == "" {
			*text = v.code
		}
	}
	if !rateCode.MatchString(v.code) || !slices.Contains(rateKinds, v.kind) || len(f.rates) == 500 {
		r.fail("code", "not one that is taken")
	}
	v.usd = r.decimal("usd", pricePlaces, priceDigits)
	if key, given := r.fields["asset"]; given {
		a := directory[r.text("asset", "")]
		if v.usd != nil || a == nil || key[0] != '"' {
			r.fail("asset", "not known, or a second value")
			return row{}
		}
		v.usd = a.price
	}
	if one := big.NewRat(1, 1); v.code == "usd" {
		if _, given := r.fields["asset"]; given || v.usd != nil && v.usd.Cmp(one) != 0 {
			r.fail("usd", "not 1")
		}
		v.usd = one
	}
	if v.usd == nil || v.usd.Sign() == 0 {
		r.fail("usd", "not above 0")
	}
	return row{key: v.code, add: func() { f.rates = append(f.rates, v) }}
}

// shown formats an asset's platforms, and a quote's supplies, for Accept.
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
