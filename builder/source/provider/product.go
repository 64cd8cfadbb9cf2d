package provider

import (
	"encoding/json"
	"strings"

	"example.com/marketdata/builder/market"
	"github.com/cockroachdb/apd/v3"
)

// Product multiplies two numbers exactly. Each is given as a JSON number or text. It returns nil if
// a is nil. If it cannot read a factor, or b is nil, it returns a text that is no number, so that
// the reader drops it with a warning.
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

// Quotient divides two numbers and rounds half to even to the decimals of a price. Each is given as
// a JSON number or text. It returns nil if it cannot read one of them, or if b is 0.
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

// number parses a number as the reader of the feed does, also from a text. It returns nil if raw is
// not a number or is too long.
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
