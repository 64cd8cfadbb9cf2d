package sim

import (
	"encoding/json"
	"fmt"
	"math/bits"
	"strings"
)

// supplyScale is a factor that preserves digits when a market cap is divided by a price.
const supplyScale = 1_000_000_000

// supplyOf returns the number of an asset's coins, as coins × 10^coinsExp. marketCap is the asset's
// initial market cap, in cents, and digits × 10^exp is its initial price, in dollars.
func supplyOf(marketCap, digits uint64, exp int) (coins uint64, coinsExp int) {
	hi, lo := bits.Mul64(marketCap, supplyScale)
	coins, _ = bits.Div64(hi, lo, digits)
	return coins, -9 - 2 - exp
}

// addSupplies adds all or some of an asset's supplies to its quote. The total supply is at least
// the circulating supply, and the maximum supply is at least the total supply.
func (row *quoteRow) addSupplies(a *asset, coins uint64, exp int) {
	h, style := a.hash.with(ofSupply), a.hash.with(ofStyle)
	if r := a.real(); r != nil {
		for i, field := range []*json.RawMessage{&row.Circulating, &row.Total, &row.Max} {
			if r.supplies[i] > 0 {
				*field = spell(r.supplies[i], 0, 19, style.with(uint64(5+i)))
			}
		}
		return
	}
	total := coins
	if !h.with(0).percent(40) {
		total = coins / 100 * h.with(1).between(101, 180)
	}
	if h.with(2).percent(80) {
		row.Circulating = spell(coins, exp, 10, style.with(5))
	}
	if h.with(3).percent(75) {
		row.Total = spell(total, exp, 10, style.with(6))
	}
	if h.with(4).percent(40) {
		if h.with(5).percent(50) {
			total = total / 100 * h.with(6).between(110, 300)
		}
		row.Max = spell(total, exp, 10, style.with(7))
	}
}

// otherPlatforms are platforms that are not chains of the feed.
var otherPlatforms = [...]string{"sim-ledger", "Token Factory", "bridge.sim"}

// platforms returns an asset's contracts, by platform.
func (m *moment) platforms(a *asset) map[string]string {
	if r := a.real(); r != nil {
		return r.contracts
	}
	h := a.hash.with(ofPlatforms)
	n := 0
	switch kind := h.below(100); {
	case kind < 25:
	case kind < 80:
		n = 1
	default:
		n = 1 + int(h.with(0).below(4))
	}
	if n == 0 {
		return nil
	}
	all := map[string]string{}
	for i := range n {
		at := h.with(1).with(uint64(i))
		chain := min(int(at.with(0).below(8)), int(at.with(1).below(8))) // most are on the first chains
		if at.with(2).percent(15) {
			chain = int(at.with(3).below(uint64(m.chains)))
		}
		name := m.chainSlugs[chain%m.chains]
		if at.with(4).percent(5) {
			name, chain = at.pick(otherPlatforms[:]), 2
		}
		all[name] = address(at.with(5), chain < len(realChains) && realChains[chain].evm == "")
	}
	return all
}

// address returns an address. It has the form of an EVM address, sometimes in upper case, unless
// nonEVM is true.
func address(h hash, nonEVM bool) string {
	text := fmt.Sprintf("%016x%016x%08x", uint64(h.with(0)), uint64(h.with(1)), uint64(h.with(2))>>32)
	switch {
	case nonEVM:
		return "Sim" + text[1:]
	case h.with(3).percent(20):
		return "0x" + strings.ToUpper(text)
	}
	return "0x" + text
}

type rateRow struct {
	Code  string          `json:"code"`
	USD   json.RawMessage `json:"usd,omitempty"`
	Asset string          `json:"asset,omitempty"`
	Name  string          `json:"name"`
	Unit  string          `json:"unit,omitempty"`
	Type  string          `json:"type,omitempty"`
}

// currencies are the rates of currencies. worth is the initial value of a unit, in 1e-8 dollars,
// and volatility says how much it moves (see walk).
var currencies = [...]struct {
	code, name, unit, kind string
	worth                  uint64
	volatility             int64
}{
	{"usd", "US Dollar", "$", "fiat", unit, 0}, {"eur", "Euro", "€", "fiat", 108_450_000, 4},
	{"gbp", "British Pound Sterling", "£", "fiat", 126_900_000, 4}, {"jpy", "Japanese Yen", "¥", "fiat", 671_000, 5},
	{"chf", "Swiss Franc", "Fr.", "fiat", 113_600_000, 4}, {"cny", "Chinese Yuan", "¥", "fiat", 13_900_000, 1},
	{"inr", "Indian Rupee", "₹", "fiat", 1_190_000, 2}, {"krw", "South Korean Won", "₩", "fiat", 72_300, 4},
	{"brl", "Brazil Real", "R$", "fiat", 17_600_000, 6}, {"idr", "Indonesian Rupiah", "Rp", "fiat", 6_310, 3},
	{"try", "Turkish Lira", "₺", "fiat", 2_910_000, 8}, {"aud", "Australian Dollar", "A$", "fiat", 65_800_000, 4},
	{"cad", "Canadian Dollar", "CA$", "fiat", 72_100_000, 3}, {"pln", "Polish Zloty", "zł", "fiat", 24_900_000, 5},
	{"xau", "Gold - Troy Ounce", "XAU", "commodity", 265_000_000_000, 15},
	{"xag", "Silver - Troy Ounce", "XAG", "commodity", 3_105_000_000, 25},
}

// coinRates are the rates that refer to assets, with the place of each asset.
var coinRates = [...]struct {
	code  string
	place int
}{{"btc", 0}, {"eth", 1}, {"sol", 5}}

// sats is the code of the rate for a hundred-millionth of the largest asset's coin.
const sats = "sats"

const rates = len(currencies) + len(coinRates) + 1

// rateRow returns rate i. The rates of currencies are in dollars and move little.
func (m *moment) rateRow(i int) any {
	if i < len(currencies) {
		c := &currencies[i]
		h := m.seed.with(ofRate).with(uint64(i))
		return &rateRow{Code: c.code, USD: spell(times(c.worth, h.walk(m.unix, c.volatility)), -8, 10, h.with(0)),
			Name: c.name, Unit: c.unit, Type: c.kind}
	}
	if i -= len(currencies); i < len(coinRates) {
		a := m.asset(coinRates[i].place)
		name, symbol := a.names()
		return &rateRow{Code: coinRates[i].code, Asset: a.key(), Name: name, Unit: symbol, Type: "crypto"}
	}
	a := m.asset(0)
	f := m.figures(&a)
	return &rateRow{Code: sats, USD: spell(f.price, f.exp-8, 8, 3), Name: "Satoshi", Type: "crypto"}
}
