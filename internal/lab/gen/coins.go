package gen

import "fmt"

// platformNames are names of platforms, some of which are the same one.
var platformNames = []string{
	"ethereum", "Ethereum", " ETHEREUM!", "binance-smart-chain", "Binance Smart Chain", "solana", "ǅ-日本", "ΣΑΣ", "σας",
	"\u212A", "a\"b\\", "--", "", "chat",
}

// platforms generates an asset's contracts: on chains, too, and seldom those of another asset.
func (m *market) platforms(d draw) []member {
	var all []member
	for range d.upTo(3) - d.upTo(2) {
		name := d.text(platformNames)
		if chains := m.here["chains"]; len(chains) > 0 && d.chance(40) {
			name = pick(d, chains).slug
		}
		m.next++
		n := m.next
		if d.chance(8) {
			n = d.between(1, n)
		}
		address := d.literal(fmt.Sprintf(pick(d, []string{"0x%040x", "0x%040X", "0xabCDEF%034x", "0x%039x", "0X%040x",
			"%040x", "So1%dana", "so1%dANA", "ibc/%d", "0x%039xg"}), n))
		if d.chance(3) {
			address = pick(d, odd)
		}
		all = append(all, member{name, address})
	}
	return all
}

// rateFile writes rates in US dollars and by assets.
func (m *market) rateFile(d draw) string {
	var rows [][]member
	for range d.upTo(5) {
		r := []member{{"code", d.literal(pick(d, []string{"eur", "gbp", "jpy", "btc", "eth", "xau", "usd", "sats", "0x",
			"EUR", "e", "abcdefghij", "abcdefghijk", "e-r"}))}}
		switch {
		case d.chance(60):
			r = append(r, member{"usd", d.decimal(price)})
		case d.chance(90):
			r = append(r, member{"asset", d.literal(m.member(d))})
		}
		r = d.optional(r, "name", d.literal(pick(d, []string{"", "Euro", "ß\n"})), `""`)
		r = d.optional(r, "unit", d.literal(pick(d, []string{"", "€", "\""})), `""`)
		r = d.optional(r, "type", pick(d, []string{`"crypto"`, `"fiat"`, `"commodity"`, `"Fiat"`}), `"fiat"`)
		rows = append(rows, r)
	}
	return m.lines(d, rows, nil)
}
