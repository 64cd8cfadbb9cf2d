package provider

import (
	"encoding/json"

	"github.com/cockroachdb/apd/v3"
)

// maxFactor bounds the length of a number that is multiplied: a longer one is
// none that a provider writes.
const maxFactor = 200

// Product multiplies two numbers exactly. It returns nil when one is missing or
// is too long, and a when a is no number: that is for the reader to judge.
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
