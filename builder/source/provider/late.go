package provider

import (
	"context"
	"errors"
	"fmt"
	"time"

	"example.com/marketdata/internal/redact"
)

// optionalTime bounds all requests of a round that prices do not need, retries included.
// Prices must be published within two minutes of their mark: half a minute is left for
// prices, the directory and the rest of the build.
const optionalTime = 90 * time.Second

// A list that fails, or a kind of single items, is put off until the next mark, then for
// twice as long each time, up to putOffMost.
const putOffMost = 2 * time.Hour

// failure says how a part failed. It survives restarts.
type failure struct {
	Times  int       `json:"times"`
	Last   time.Time `json:"last"`
	Reason string    `json:"reason"`
}

// due returns when to ask again for a single item.
func (f failure) due() time.Time {
	return f.Last.Add(min(failedMost, failedFirst<<min(max(0, f.Times-1), 10)))
}

// listDue returns when to ask again for a list or a kind.
func (f failure) listDue() time.Time {
	return f.Last.Add(min(putOffMost, mark<<min(max(0, f.Times-1), 10)) - slack)
}

// errNotSent is the error of a request that was not sent. Its part has not failed.
type errNotSent struct{ error }

func (e errNotSent) Unwrap() error { return e.error }

// errNoTime says that a request was not sent, so that prices do not wait.
var errNoTime = errors.New("not asked for: the rate of requests leaves no time for it in this build")

// fail notes that a part has failed.
func (r *liveRound) fail(name string, err error) {
	r.cache.failing[name] = failure{r.cache.failing[name].Times + 1, r.time, redact.Text(err.Error())}
}

// putOff returns why it is too early to ask again for a list or a kind that failed; nil
// if it is not.
func (r *liveRound) putOff(name string) error {
	f, failed := r.cache.failing[name]
	if until := f.listDue(); failed && r.time.Before(until) && !f.Last.After(r.time) {
		return fmt.Errorf("put off until %s after %d failures: %s", until.UTC().Format(time.RFC3339), f.Times, f.Reason)
	}
	return nil
}

// optional reports whether a build goes on without a new answer to the part. Prices are
// required, and so is a directory until one was received.
func (p *Part) optional(cached *Answer) bool {
	return p.Value != Tickers && (p.Value != Directory || cached != nil)
}

// askInTime calls ask. Optional parts are put off when they fail, and share a time limit.
func (r *liveRound) askInTime(ctx context.Context, p *Part, cached *Answer) (*Answer, error) {
	if !p.optional(cached) {
		return r.ask(ctx, p, cached)
	}
	if p.Value != Details {
		if err := r.putOff(p.Name); err != nil {
			return nil, errNotSent{err}
		}
	}
	if r.left < r.client.timeOf(r.requests(p, cached)) {
		return nil, errNotSent{errNoTime}
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, r.left)
	defer cancel()
	a, err := r.ask(ctx, p, cached)
	r.left -= time.Since(began)
	return a, err
}

// requests is how many requests a part takes, as far as it is known.
func (r *liveRound) requests(p *Part, cached *Answer) int {
	n := max(pages(cached), r.unfinished[p.Name])
	if n == 0 {
		n = r.budget.calls[p.Name] / p.cost()
	}
	if n = max(1, n); p.Pages > 0 {
		n = min(n, p.Pages)
	}
	return n
}

// noteFailure counts how often in a row a list has failed; Each counts for single items. A request
// that was not made is not a failure, and neither is one that ended because the program stops.
func (r *liveRound) noteFailure(ctx context.Context, p *Part, err error) {
	switch {
	case p.Value == Details || ctx.Err() != nil:
	case err == nil:
		delete(r.cache.failing, p.Name)
	case errors.As(err, new(errNotSent)):
	default:
		r.fail(p.Name, err)
	}
}
