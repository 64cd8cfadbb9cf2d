package provider

import (
	"errors"
	"fmt"
	"time"

	"example.com/marketdata/internal/redact"
)

// optionalTime bounds all requests of a round that prices do not need, retries included.
// Prices must be published within two minutes of their mark: half a minute is left for
// prices, the directory and the rest of the build.
const optionalTime = 90 * time.Second

// A list that fails, or a kind of single items, is put off until the next mark, and a single
// item for an hour; then for twice as long each time, up to a limit.
const (
	putOffFirst, putOffMost = mark, 2 * time.Hour
	failedFirst, failedMost = time.Hour, 7 * 24 * time.Hour
)

// failure says how a part failed. It survives restarts.
type failure struct {
	Times  int       `json:"times"`
	Last   time.Time `json:"last"`
	Reason string    `json:"reason"`
}

// due returns when to ask again for a part that has failed.
func (f failure) due(p *Part) time.Time {
	first, most := putOffFirst, putOffMost
	if p.Value == Details {
		first, most = failedFirst, failedMost
	}
	return f.Last.Add(min(most, first<<min(max(0, f.Times-1), 10)) - slack)
}

// known is what is known of a part before a round asks for it.
type known struct {
	answer *Answer // the last good one; nil: there is none
	failed failure // of the last time; zero if that did not fail
	// left is the time that remains for what prices do not need, and needs what the part takes of it.
	left, needs time.Duration
	quota       error // why the quota does not allow its calls; nil: it does
}

// decide says whether to ask for a part now. If not, the error is errKept, or an errNotSent that says
// what the part has to wait for. Prices wait for the quota only.
func decide(p *Part, k known, now time.Time) error {
	due := k.failed.due(p)
	switch {
	case k.answer != nil && age(k.answer.Fetched, now) < p.Every:
		return errKept
	case !p.optional(k.answer):
	case k.failed.Times > 0 && now.Before(due) && !isAhead(k.failed.Last, now):
		return errNotSent{fmt.Errorf("put off until %s after %d failures: %s", due.UTC().Format(time.RFC3339),
			k.failed.Times, k.failed.Reason)}
	case k.left < k.needs:
		return errNotSent{errNoTime}
	}
	if k.quota != nil {
		return errNotSent{k.quota}
	}
	return nil
}

// errKept says that the last good answer still counts as new.
var errKept = errors.New("kept")

// errNotSent is the error of a request that was not sent. Its part has not failed.
type errNotSent struct{ error }

func (e errNotSent) Unwrap() error { return e.error }

// errNoTime says that a request was not sent, so that prices do not wait.
var errNoTime = errors.New("not asked for: the rate of requests leaves no time for it in this build")

// optional reports whether a build goes on without a new answer to the part. Prices are
// required, and so is a directory until one was received.
func (p *Part) optional(last *Answer) bool {
	return p.Value != Tickers && (p.Value != Directory || last != nil)
}

// maxAhead is how far the provider's clock may be ahead of ours. A row from a later
// time would hide that all others stand still.
const maxAhead = 10 * time.Minute

// isAhead reports whether t was noted while our clock was ahead.
func isAhead(t, now time.Time) bool { return t.After(now.Add(maxAhead)) }

// age returns how long ago an answer was fetched. The age of one that was fetched while the clock was
// ahead is unknown: it is asked for again, and its prices do not count.
func age(fetched, now time.Time) time.Duration {
	if isAhead(fetched, now) {
		return keepForever
	}
	return max(0, now.Sub(fetched))
}

// known returns what is known of a part, but for time and quota.
func (r *liveRound) known(p *Part) known {
	return known{answer: r.cache.answer(p), failed: r.cache.failing[p.Name]}
}

// decide says whether to ask for a part, which may take all its pages, now.
func (r *liveRound) decide(p *Part, k known) error {
	state, err := r.budget.read()
	calls := r.budget.size(p, k.answer, state)
	k.left, k.needs = r.left, r.client.timeOf((calls+p.cost()-1)/p.cost())
	if k.quota = err; err == nil {
		k.quota = r.budget.check(state, r.budget.now().UTC(), calls, p.Value, false)
	}
	return decide(p, k, r.time)
}

// note counts how often in a row a part has failed. A request that was not sent is no failure.
func (r *liveRound) note(p *Part, err error) {
	if err == nil {
		delete(r.cache.failing, p.Name)
	} else if !errors.As(err, new(errNotSent)) {
		r.fail(p.Name, err)
	}
}

// fail notes that a part, or a kind, has failed.
func (r *liveRound) fail(name string, err error) {
	r.cache.failing[name] = failure{r.cache.failing[name].Times + 1, r.time, redact.Text(err.Error())}
}
