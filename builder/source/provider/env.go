package provider

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"example.com/marketdata/builder/source"
)

// Env is the environment of a provider's source.
type Env struct {
	Log *slog.Logger
	// Getenv returns an environment variable, such as one with a key.
	Getenv func(name string) string
	// Cache is the parent of the cache folders of sources without the option cache,
	// each named after its provider; "" means none.
	Cache string
	// Costs says that the source is opened only for Source.Costs, which needs no key.
	Costs bool
	// Transport and Now are for tests; nil: the network and the clock.
	Transport http.RoundTripper
	Now       func() time.Time
}

// Opener returns the source.Opener of a provider in this environment.
func (e Env) Opener(open func(rest string, env Env) (*Source, error)) source.Opener {
	return func(_ context.Context, rest string) (source.Source, error) { return open(rest, e) }
}
