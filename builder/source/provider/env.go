package provider

import (
	"context"
	"log/slog"
	"net/http"
	"time"
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

// Recorder is a source whose answers can be recorded.
type Recorder interface {
	// Record writes the answers that a feed would be made from now to a folder,
	// which must be missing or empty.
	Record(ctx context.Context, dir string) error
}
