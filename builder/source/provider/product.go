package provider

import (
	"encoding/json"

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

func isNumber(raw json.RawMessage) bool {
	return raw[0] == '-' || '0' <= raw[0] && raw[0] <= '9'
}
