// Package follow reads the cells of a store for an edge, verifies them, and asks a store
// that does not answer until it does.
package follow

import (
	"context"
	"errors"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge/floor"
)

const (
	// ProbeEvery is the time between two probes of a store that is away. Edges see that it
	// is back within this time of each other, and must fetch and verify a snapshot in what
	// is left of a second. At rest an edge asks about as often.
	ProbeEvery = 500 * time.Millisecond
	// MaxProbes bounds the probes that run at once: as many as begin within a read's usual
	// timeout, and some, so that a fresh probe asks a store that hangs all the while.
	MaxProbes = 12
)

// Cells reads the cells of one store. It is safe for concurrent use.
type Cells struct {
	Reader artifacts.CellReader
	// Verify checks the signature of a cell before anybody believes it; nil: nothing does.
	Verify func(key artifacts.Key, data []byte) error
	// Floor learns which store this is before anything of it is taken.
	Floor *floor.Floor
	// Timeout bounds each request.
	Timeout time.Duration
}

// Learn finds out which store this is. It must have succeeded before a cell is believed.
func (c *Cells) Learn(ctx context.Context) error {
	return c.Floor.Learn(ctx, func(ctx context.Context, key artifacts.Key) ([]byte, error) {
		b, _, err := c.Read(ctx, key, "")
		return b, err
	})
}

// Read returns a cell and its version, like artifacts.Reader.GetIf. An error for which IsAway does
// not hold is an answer of the store, or says why Verify refused the cell.
func (c *Cells) Read(
	ctx context.Context, key artifacts.Key, known artifacts.Version,
) ([]byte, artifacts.Version, error) {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	b, v, err := c.Reader.GetIf(ctx, key, known, key.Limit())
	switch {
	case err == nil && c.Verify != nil:
		err = c.Verify(key, b)
	case err != nil && !answered(err):
		err = awayError{err}
	}
	return b, v, err
}

// awayError says that the store gave no answer about a cell.
type awayError struct{ error }

func (e awayError) Unwrap() error { return e.error }

// IsAway reports whether err says that the store gave no answer about a cell.
func IsAway(err error) bool {
	var e awayError
	return errors.As(err, &e)
}

// answered reports whether err is an answer of the store.
func answered(err error) bool {
	return errors.Is(err, artifacts.ErrNotFound) || errors.Is(err, artifacts.ErrNotModified) ||
		errors.Is(err, artifacts.ErrTooLarge)
}

// Probe calls ask after each pause until ctx is done, also while earlier calls have no answer yet:
// a store answers what an outage swallowed never, or much later. It sends what the calls return.
// slots bound the calls that run at once; background runs its goroutines.
func Probe(
	ctx context.Context, pause time.Duration, slots chan struct{}, background func(func()),
	ask func(context.Context) error,
) <-chan error {
	results := make(chan error)
	probe := func() {
		defer func() { <-slots }()
		err := ask(ctx)
		select {
		case results <- err:
		case <-ctx.Done():
		}
	}
	background(func() {
		probes := time.NewTicker(pause)
		defer probes.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-probes.C:
			}
			select {
			case slots <- struct{}{}:
				background(probe)
			default:
			}
		}
	})
	return results
}
