package gen

import (
	"strings"

	"pgregory.net/rapid"
)

// kind is a kind of decimal field.
type kind struct {
	plain  []string // ordinary values
	limits []string // values at the limits of the field
}

const (
	nines18 = "999999999999999999"
	nines28 = "9999999999999999999999999999"
)

// odd are values that some fields reject, and others accept and round.
var odd = []string{
	"null", `""`, "5", "true", `"true"`, "[]", "{}", `["a"]`, "[5]", "[[]]", `"x"`, `"5"`, "0", "1.5", "1e5",
	"9007199254740991", "9007199254740992",
	"-1", `"-1"`, "-1e-30", "1e10", "1e18", "1" + nines18, "1e28", "1" + nines28, "1e400", "1e999999999",
	"1e99999999999999999999", "99999999999999999999",
	`"01"`, `"1."`, `".5"`, `"+1"`, `"NaN"`, `"Infinity"`, `"0x1"`, `" 1"`, `"1 "`, `"1_000"`, `"1,5"`, `"1e"`, `"e5"`,
	`"--1"`, `"-"`, `"١"`, `["1"]`,
}

var anyLimits = []string{"0", "0.0", "-0", `"-0.00e5"`, "0e999999999", "0e-99999999999999999999", "1e-999999999",
	"1e-30", "5E-1", "1.50", `"1e+2"`, "100e-2", "1E0"}

var price = kind{
	plain: []string{"1", "2", "4", "0.5", "3", "1.1", "63000.12", "0.00001234", "7e-7", "123456789.123456789"},
	limits: append([]string{
		"0.0000000000000000005", "0.0000000000000000015", "5e-19", "15e-19", "25e-19",
		"0.00000000000000000050000000000000000000001",
		"1.0000000000000000005", "1.0000000000000000015", "1e-18", "1e17", "9.99e17",
		nines18, nines18 + ".999999999999999999", nines18 + ".9999999999999999995", "0." + strings.Repeat("3", 200),
		"333333333333333333.333333333333333333", "1e-15", "0.000000000000000001", "0.1e-17",
	}, anyLimits...),
}

var amount = kind{
	plain: []string{
		"10000000", "25000000.5", "1000000", "123456789012.34", "5", "1.5", "1e9", "20000000", "2000000", "999999999"},
	limits: append([]string{
		"9999999.99999999", "9999999.999999995", "9999999.999999985", "10000000.00000001", "999999.999999995",
		"999999.99999999", "1000000.00000001",
		"0.000000005", "0.000000015", "0.000000025", "5e-9", "15e-9", "1e-8", "1e27", nines28, nines28 + ".99999999",
		nines28 + ".999999995",
		"12345678901234567890.123456785", "1e13", "0.3333333333333333333",
	}, anyLimits...),
}

var fee = kind{
	plain: []string{"0.001", "0.1", "0", "0.00100000", "0.25"},
	limits: append([]string{"9999999999", "9999999999.999999995", "0.000000005", "0.000000015", "0.00000000", "1e9"},
		anyLimits...),
}

// decimal returns a value that the field accepts, as JSON.
func (d draw) decimal(k kind) string {
	var literal string
	switch {
	case d.chance(12):
		literal = pick(d, k.limits)
	case d.chance(40):
		literal = d.digits(d.between(1, 9))
		if d.chance(70) {
			literal += "." + d.fraction()
		}
	default:
		literal = pick(d, k.plain)
	}
	if literal[0] != '"' && d.chance(30) {
		literal = `"` + literal + `"`
	}
	return literal
}

// Numbers generates JSON values for a number field: values that a field accepts, in any notation,
// and values that some fields reject.
func Numbers() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		d := draw{t}
		if d.chance(25) {
			return pick(d, odd)
		}
		return d.decimal(pick(d, []kind{price, amount}))
	})
}

// digits returns a whole number of n digits.
func (d draw) digits(n int) string {
	s := string(rune('1' + d.upTo(8)))
	for range n - 1 {
		s += string(rune('0' + d.upTo(9)))
	}
	return s
}

func (d draw) fraction() string {
	s := ""
	for range d.between(1, 20) {
		s += string(rune('0' + d.upTo(9)))
	}
	return s
}

var counts = []string{"0", "1", "42", "9007199254740991", "1000"}

var times = []string{
	"2025-06-01T12:00:00Z", "2025-06-01T12:00:00+02:00", "2025-06-01T00:00:00.999999999Z", "1970-01-01T00:00:01Z",
	"1970-01-01T01:00:00+02:00",
	"2024-02-29T23:59:59-11:30", "1970-01-01T00:00:00Z", "1969-12-31T23:59:59Z", "0001-01-01T00:00:00Z",
	"2025-02-30T00:00:00Z", "2025-06-01", "", "now",
	"2025-06-01T12:00Z", "2025-06-01T24:00:00Z", "2025-06-01T12:00:00", "1717243200", "2025-13-01T00:00:00Z",
	"2025-06-01T12:00:00Z ", "9999-12-31T23:59:59Z",
}

// Spoilt generates JSON values that most fields cannot use: values that have a wrong type or are too
// large or too long, lists with too many elements, texts with invisible characters, or a contract
// address that other assets claim.
func Spoilt() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		d := draw{t}
		long := strings.Repeat("x", d.between(1, 5000))
		return pick(d, append(odd, `"`+long+`"`, `["`+long+`"]`, "1"+strings.Repeat("0", len(long)),
			"["+strings.Repeat(`"x",`, len(long))+"5]", `{"ethereum":"0x1","Ethereum":"0x2","--":"x"}`,
			`{"ethereum":"0x1","solana":["x"],"sui":"0x1 "}`, `{"`+long+`":"`+long+`","solana":"`+long+`"}`,
			"\"\\u0000\u202e\\n\"", `{"a":"\u200b","b":"\u00a0x"}`, `"N/A"`, `"null"`))
	})
}
