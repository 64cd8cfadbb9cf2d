package provider

import (
	"errors"
	"fmt"
	"time"

	"example.com/marketdata/internal/redact"
)

// optionalTime limits the total time of all requests in a round that are not for prices, including
// retries. Prices must be published within two minutes of their mark, so half a minute remains for
// prices, the directory and the rest of the build.
const optionalTime = 90 * time.Second

// A failing list, or a failing kind of individual item, is postponed until the next mark, and a
// failing individual item for an hour. After each further failure, the delay doubles, up to a
// limit.
const (
	putOffFirst, putOffMost = mark, 2 * time.Hour
	failedFirst, failedMost = time.Hour, 7 * 24 * time.Hour
)

// failure describes the consecutive failures of a part. A cache folder keeps it across restarts.
type failure struct {
	Times  int       `json:"times"`
	Last   time.Time `json:"last"`
	Reason string    `json:"reason"`
}

// due returns the time at which to retry a failed part.
func (f failure) due(p *Part) time.Time {
	first, most := putOffFirst, putOffMost
	if p.Value == Details {
		first, most = failedFirst, failedMost
	}
	return f.Last.Add(min(most, first<<min(max(0, f.Times-1), 10)) - slack)
}

// known describes the state of a part before a round requests it.
type known struct {
	answer *Answer // the last good answer, or nil if there is none
	failed failure // the last failure, or zero if the last request did not fail
	// left is the time that remains for optional requests. needs is the time that the part needs.
	left, needs time.Duration
	quota       error // the quota's error if it does not allow the part's calls
}

// decide decides whether to request a part now. If not, it returns errKept, or an errNotSent that
// says what the part must wait for. Prices wait only for the quota.
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

// errKept means that the last good answer still counts as new.
var errKept = errors.New("kept")

// errNotSent is the error for a request that was not sent. Its part has not failed.
type errNotSent struct{ error }

func (e errNotSent) Unwrap() error { return e.error }

// errNoTime means that a request was not sent, so that prices do not have to wait for it.
var errNoTime = errors.New("not requested: the rate of requests leaves no time for it in this build")

// optional reports whether a build can continue without a new answer for the part. Prices are
// required, and so is a directory until one has been received.
func (p *Part) optional(last *Answer) bool {
	return p.Value != Tickers && (p.Value != Directory || last != nil)
}

// maxAhead is how far the provider's clock may be ahead of this machine's clock. A row with a later
// time would hide that all other rows are out of date.
const maxAhead = 10 * time.Minute

// isAhead reports whether t was recorded while this machine's clock was ahead.
func isAhead(t, now time.Time) bool { return t.After(now.Add(maxAhead)) }

// age returns the age of an answer. If an answer was fetched while the clock was ahead, its real
// age is unknown. age then returns keepForever, so that the part is requested again and old prices
// are not used.
func age(fetched, now time.Time) time.Duration {
	if isAhead(fetched, now) {
		return keepForever
	}
	return max(0, now.Sub(fetched))
}

// known returns the state of a part, except for time and quota.
func (r *liveRound) known(p *Part) known {
	return known{answer: r.cache.answer(p), failed: r.cache.failing[p.Name]}
}

// decideNow calls decide with the time and the quota that requests for all pages of the part need.
func (r *liveRound) decideNow(p *Part, k known) error {
	state, err := r.budget.read()
	calls := r.budget.size(p, k.answer, state)
	k.left, k.needs = r.left, r.client.timeOf((calls+p.cost()-1)/p.cost())
	if k.quota = err; err == nil {
		k.quota = r.budget.check(state, r.budget.now().UTC(), calls, p.Value, false)
	}
	return decide(p, k, r.time)
}

// note updates the number of a part's consecutive failures. A request that was not sent is not a
// failure.
func (r *liveRound) note(p *Part, err error) {
	if err == nil {
		delete(r.cache.failing, p.Name)
	} else if !errors.As(err, new(errNotSent)) {
		r.fail(p.Name, err)
	}
}

// fail records a failure of a part or a kind.
func (r *liveRound) fail(name string, err error) {
	r.cache.failing[name] = failure{r.cache.failing[name].Times + 1, r.time, redact.Text(err.Error())}
}
