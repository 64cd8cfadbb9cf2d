package provider

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"example.com/marketdata/builder/source"
)

// Env is what a provider's source needs of its surroundings.
type Env struct {
	Log *slog.Logger
	// Getenv returns an environment variable, such as one with a key.
	Getenv func(name string) string
	// Cache is where sources without the option cache have their folders, each one
	// of its provider's name; "": nowhere.
	Cache string
	// Costs: the source is opened for what it says of its costs, without asking
	// anyone; a key is not needed.
	Costs bool
	// Transport and Now are for tests; nil: the network and the clock.
	Transport http.RoundTripper
	Now       func() time.Time
}

// Opener returns what opens sources in these surroundings.
func (e Env) Opener(open func(rest string, env Env) (*Source, error)) source.Opener {
	return func(_ context.Context, rest string) (source.Source, error) { return open(rest, e) }
}
