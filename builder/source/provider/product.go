package provider

import (
	"encoding/json"

	"example.com/marketdata/builder/market"
	"github.com/cockroachdb/apd/v3"
)

// maxFactor bounds the length of a factor: no provider writes a longer number.
const maxFactor = 200

// Product multiplies two numbers exactly. It returns nil if one is missing or too long,
// and a if a is not a number, for the reader to judge.
func Product(a, b json.RawMessage) json.RawMessage {
	switch {
	case a == nil || !isNumber(a):
		return a
	case b == nil || !isNumber(b) || len(a) > maxFactor || len(b) > maxFactor:
		return nil
	}
	x, _, errX := apd.NewFromString(string(a))
	y, _, errY := apd.NewFromString(string(b))
	if errX != nil || errY != nil {
		return nil
	}
	exact := apd.BaseContext.WithPrecision(2 * maxFactor)
	if cond, err := exact.Mul(x, x, y); err != nil || cond.Any() {
		return nil
	}
	return x.Append(nil, 'G')
}

// Quotient divides two numbers, and rounds half to even to the decimals of a price. It returns nil if
// one is missing, too long or no number, or b is 0.
func Quotient(a, b json.RawMessage) json.RawMessage {
	if a == nil || b == nil || !isNumber(a) || !isNumber(b) || len(a) > maxFactor || len(b) > maxFactor {
		return nil
	}
	x, _, errX := apd.NewFromString(string(a))
	y, _, errY := apd.NewFromString(string(b))
	if errX != nil || errY != nil || y.IsZero() {
		return nil
	}
	c := apd.BaseContext.WithPrecision(3 * maxFactor) // digits enough to see which side of a half it is on
	c.Rounding = apd.RoundDown
	if _, err := c.Quo(x, x, y); err != nil {
		return nil
	}
	c.Rounding = apd.RoundHalfEven
	if _, err := c.Quantize(x, x, -market.PriceDecimals); err != nil {
		return nil
	}
	return x.Append(nil, 'G')
}

func isNumber(raw json.RawMessage) bool {
	return raw[0] == '-' || '0' <= raw[0] && raw[0] <= '9'
}
