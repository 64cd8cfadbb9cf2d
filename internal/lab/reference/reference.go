// Package reference gives the reference model (loadtest/model) to the tests of packages that
// do not import the load tester. From the model's snapshots, Coins answers programs of CoinGecko.
package reference

import (
	"time"

	"example.com/marketdata/loadtest/model"
)

// The model's types, see there.
type (
	Query  = model.Query
	Filter = model.Filter
	Answer = model.Answer
	Change = model.Change
)

const (
	// Prefix is the path of all endpoints.
	Prefix = model.Prefix
	// TimeFormat is how answers write a time, UTC.
	TimeFormat = model.TimeFormat
)

// Parse reads path and query of a request; the refusal is nil when a snapshot answers it.
func Parse(target string) (*Query, *Answer) { return model.Parse(target) }

// ParsePin reads the time of a pin.
func ParsePin(text string) (time.Time, bool) { return model.ParsePin(text) }

// Fold returns a text as filters and searches compare it.
func Fold(text string) string { return model.Fold(text) }

// Coding is the content coding of a body of a length for the Accept-Encoding lines of a request.
func Coding(lines []string, length int) string { return model.Coding(lines, length) }

// Finds reports whether a search for a folded text finds the asset of a published row.
func Finds(text string, published []byte) bool {
	row, _ := model.ReadRow("assets", published) // its spelling is not judged
	return len(model.Search(text, []*model.Row{&row})) > 0
}
