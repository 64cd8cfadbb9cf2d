// Package gen generates markets and requests for property tests: feed folders that change over
// time, with everything that the feed format allows and much that it does not, and valid and
// invalid requests about the resulting snapshots.
//
// Everything is drawn through [pgregory.net/rapid], so that failures shrink and can be reproduced
// from their seed.
package gen

import "pgregory.net/rapid"

// draw is a source of choices.
type draw struct{ t *rapid.T }

// chance returns true in about the given percentage of cases. It shrinks to false.
func (d draw) chance(percent int) bool { return d.upTo(99) >= 100-percent }

// upTo returns a number from 0 to n, preferring small numbers.
func (d draw) upTo(n int) int { return rapid.IntRange(0, n).Draw(d.t, "") }

// between returns a number from low to high, preferring small numbers.
func (d draw) between(low, high int) int { return rapid.IntRange(low, high).Draw(d.t, "") }

// pick returns one of the choices, preferring those near the beginning.
func pick[T any](d draw, choices []T) T { return choices[d.upTo(len(choices)-1)] }
