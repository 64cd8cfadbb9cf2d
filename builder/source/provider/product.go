package provider

import (
	"encoding/json"
	"strings"

	"example.com/marketdata/builder/market"
	"github.com/cockroachdb/apd/v3"
)

// Product multiplies two numbers exactly. Each is a JSON number or a string that contains one.
// Product returns nil if a is nil. If b is nil or a factor cannot be parsed, it returns a string
// that is not a number, so that the feed reader drops the value with a warning.
func Product(a, b json.RawMessage) json.RawMessage {
	if a == nil {
		return nil
	}
	x, y := number(a), number(b)
	if x == nil || y == nil {
		return noProduct(a, b)
	}
	exact := apd.BaseContext.WithPrecision(2 * market.MaxDigits)
	if cond, err := exact.Mul(x, x, y); err != nil || cond.Any() {
		return noProduct(a, b)
	}
	return x.Append(nil, 'G')
}

// Quotient divides a by b and rounds the result, half to even, to the number of decimals of a
// price. Each is a JSON number or a string that contains one. Quotient returns nil if one of them
// cannot be parsed, or if b is 0.
func Quotient(a, b json.RawMessage) json.RawMessage {
	x, y := number(a), number(b)
	if x == nil || y == nil {
		return nil
	}
	q := market.Quotient(x, y, market.PriceDecimals)
	if q == nil {
		return nil
	}
	return q.Append(nil, 'G')
}

// number parses a JSON number, or a string that contains one, as the feed reader does. It returns
// nil if raw is not a number or is too long.
func number(raw json.RawMessage) *apd.Decimal {
	text := string(raw)
	if strings.HasPrefix(text, `"`) {
		text = Text(raw)
	}
	if len(text) > market.MaxDigits || !market.IsNumber([]byte(text)) {
		return nil
	}
	x, _, err := apd.NewFromString(text)
	if err != nil {
		return nil
	}
	return x
}

// noProduct returns a JSON string that shows the factors.
func noProduct(a, b json.RawMessage) json.RawMessage {
	show := func(raw json.RawMessage) string {
		const most = 40
		text := strings.ToValidUTF8(string(raw[:min(len(raw), most)]), "")
		if raw == nil {
			text = "null"
		}
		return strings.Trim(text, `"`)
	}
	return quote(show(a) + " * " + show(b))
}
