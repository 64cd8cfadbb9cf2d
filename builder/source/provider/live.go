package provider

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"example.com/marketdata/builder/source"
)

// MaxPages is the maximum number of pages in a part.
const MaxPages = 400

// live is the backend that sends requests to a provider.
type live struct {
	source string
	client *client
	budget *budget
	log    *slog.Logger
	now    func() time.Time

	mu    sync.Mutex // one round at a time
	cache *cache
}

type liveRound struct {
	*live
	outcome
	// calls is the number of calls left for Each. left is the time left for all optional requests;
	// see optionalTime.
	calls int
	left  time.Duration
	// reuseTimes has, by list name, how long the list's answer must be reused to stay within the
	// quota. It is nil if there is no quota.
	reuseTimes map[string]time.Duration
	// sizes maps the names of parts to the numbers of calls that they took. unused is the number of
	// calls that were counted but turned out not to be used.
	sizes  map[string]int
	unused int
}

func (l *live) collect(ctx context.Context, ask func(Round) error) (*outcome, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := &liveRound{
		live: l, outcome: newOutcome(l.now().UTC()),
		calls: l.budget.slow, left: optionalTime, sizes: map[string]int{},
	}
	var err error
	if r.reuseTimes, err = l.budget.intervals(ctx); err != nil {
		return nil, err
	}
	err = ask(r)
	// Keep answers even if the round failed, so that the next round has fewer requests to make.
	for _, u := range r.used {
		r.cache.reduce(u.part, u.answer)
	}
	if err := r.budget.note(r.unused, r.sizes); err != nil {
		r.log.Warn("provider: calls that were counted but not used stay counted", "err", err)
	}
	r.cache.commit(r.time)
	return &r.outcome, err
}

func (l *live) use() *source.Quota { return l.budget.use(l.source) }

func (l *live) memory() *Memory {
	f := l.cache.folder
	if f == nil {
		return &Memory{Provider: l.source}
	}
	return &Memory{Provider: l.source, Cache: f.dir, Filled: len(f.index.Parts) > 0}
}

// Lists implements Round.
func (r *liveRound) Lists(ctx context.Context, lists ...List) error {
	slices.SortStableFunc(lists, func(a, b List) int { return a.late() - b.late() })
	for i := range lists {
		l := &lists[i]
		l.prepare()
		a, err := r.list(ctx, &l.Part)
		if err != nil {
			if l.Required || l.Directory || ctx.Err() != nil {
				return err
			}
			continue
		}
		*l.Into = a.Rows()
		p := &r.parts[len(r.parts)-1]
		l.eachTime(a, func(t time.Time) {
			if t.After(p.Newest) && !t.After(r.time.Add(maxAhead)) {
				p.Newest = t
			}
		})
		p.Quotes, p.Untimed = l.Required, l.Required && p.Newest.IsZero()
		if p.Untimed {
			r.log.Warn("provider: no row says when it was updated, so the age of prices is unknown", "part",
				l.Name)
		}
	}
	return nil
}

// list returns the answer for a list's part, logs its problems, and records the part's state.
func (r *liveRound) list(ctx context.Context, p *Part) (*Answer, error) {
	a, state, err := r.get(ctx, p)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	s := source.Part{Name: p.Name, State: state, Every: p.Every, Failures: r.cache.failing[p.Name].Times}
	if a != nil {
		s.Fetched = a.Fetched
	}
	if err != nil {
		s.Reason = err.Error()
	}
	r.parts = append(r.parts, s)
	switch {
	case state == source.PartStale:
		r.log.Warn("provider: a part is unavailable; its last good rows are used", "part", p.Name, "fetched", s.Fetched,
			"err", err)
	case state == source.PartMissing:
		r.log.Warn("provider: a part is unavailable, and its last good rows are too old", "part", p.Name, "err", err)
		return nil, fmt.Errorf("%s: %w", p.Name, err)
	case err != nil:
		r.log.Warn("provider: a doubtful answer is used, but not cached", "part", p.Name, "err", err)
	}
	return a, nil
}

// get returns the cached answer for a part if it still counts as new. Otherwise it requests the
// part. If that fails, it returns the last good answer, provided that this answer is not too old.
// get may return both an answer and an error. The error then says why the answer is doubtful or out
// of date.
func (r *liveRound) get(ctx context.Context, p *Part) (*Answer, source.PartState, error) {
	a, state, err := r.find(ctx, p)
	if a != nil {
		r.used[p.Name] = usedAnswer{p, a}
	}
	return a, state, err
}

func (r *liveRound) find(ctx context.Context, p *Part) (*Answer, source.PartState, error) {
	p.Every = max(p.Every, r.reuseTimes[p.Name])
	k := r.known(p)
	cached := k.answer
	err := r.decideNow(p, k)
	if err == errKept {
		return cached, source.PartKept, nil
	}
	if err == nil {
		var a *Answer
		if a, err = r.ask(ctx, p, cached); err == nil {
			if err = r.keep(p, a, cached); err == nil || p.Value == Tickers && !p.alone() {
				r.note(p, nil)
				return a, source.PartNew, err
			}
		}
	}
	if ctx.Err() == nil { // otherwise the program is stopping
		r.note(p, err)
	}
	if cached != nil && age(cached.Fetched, r.time) <= p.Every+p.keep() {
		return cached, source.PartStale, err
	}
	return nil, source.PartMissing, err
}

// ask requests all pages of a part. cached may be nil.
func (r *liveRound) ask(ctx context.Context, p *Part, cached *Answer) (*Answer, error) {
	if p.optional(cached) {
		var cancel context.CancelFunc
		began := time.Now()
		ctx, cancel = context.WithTimeout(ctx, r.left)
		defer func() {
			cancel()
			r.left -= time.Since(began)
		}()
	}
	a := &Answer{Fetched: r.time, at: p.At}
	calls := 0
	for n := 0; p.Pages == 0 || n < p.Pages; n++ {
		more, err := p.Pager.more(a)
		if err != nil {
			return nil, err
		}
		if more == nil {
			break
		}
		var old Page
		if cached != nil && n < len(cached.Pages) {
			old = cached.Pages[n]
		}
		page, used, err := r.askPage(ctx, p, more, old)
		var status *statusError
		if p.Value == Details && p.Pager == nil && errors.As(err, &status) &&
			(status.status == http.StatusNotFound || status.status == http.StatusGone) {
			a.Gone = true
			return a, nil
		}
		if err != nil {
			if n > 0 && p.Value != Details && errors.As(err, new(errNotSent)) {
				r.takesMore(p, cached, (n+1)*p.cost())
			}
			return nil, err
		}
		calls += used
		if n > 0 && p.same(page, a.Pages[n-1]) {
			return nil, fmt.Errorf("page %d has the rows of page %d", n+1, n)
		}
		a.Pages = append(a.Pages, page)
	}
	if p.Value != Details { // there may be thousands of individual items
		r.sizes[p.Name] = calls
	}
	err := p.checkRows(a)
	if err == nil && p.whole != nil {
		err = p.whole(a)
	}
	return a, err
}

// takesMore records that a part takes at least the given number of calls. The part was not
// completed, so its exact number of calls is unknown.
func (r *liveRound) takesMore(p *Part, cached *Answer, calls int) {
	if state, err := r.budget.read(); err == nil && calls > r.budget.size(p, cached, state) {
		r.sizes[p.Name] = calls
	}
}

// askPage requests one page, with extraQuery added to the part's query. It returns the page and the
// number of calls that the page took from the quota. cached is the cached page, if there is one.
func (r *liveRound) askPage(ctx context.Context, p *Part, extraQuery url.Values, cached Page,
) (page Page, calls int, err error) {
	req := request{
		path: p.Path, query: url.Values{}, headers: cached.headers, call: call{p.cost(), p.Value, false},
		check: func(b []byte) (err error) {
			page.rows, err = p.check(b)
			return err
		},
	}
	maps.Copy(req.query, p.Query)
	maps.Copy(req.query, extraQuery)
	body, headers, err := r.client.get(ctx, req)
	if err != nil {
		return page, 0, err
	}
	if body == nil {
		return cached, p.cost(), nil
	}
	page.Body, page.headers, calls = body, headers, p.cost()
	if p.RowsPerCall > 0 {
		back := max(0, calls-max(1, (page.rows+p.RowsPerCall-1)/p.RowsPerCall))
		r.unused += back
		calls -= back
	}
	return page, calls, nil
}

// keep caches a good answer. While there is a last good answer that is not too old, keep returns an
// error for an answer that has lost more than half of its rows. If p.alone returns true, a loss of
// more than a fifth is also an error until the last good answer is an hour overdue. After that,
// keep accepts a loss of up to half, as the guard rails do. Unless p.alone returns true, the caller
// uses prices despite the error, so that the guard rails can judge them, and requests them again the
// next time. Any other answer with such an error counts as unavailable.
func (r *liveRound) keep(p *Part, a, cached *Answer) error {
	if cached != nil && !cached.Gone && !a.Gone && age(cached.Fetched, r.time) <= p.Every+p.keep() {
		was, now := cached.rows(), a.rows()
		spare := was / 2
		if p.alone() && age(cached.Fetched, r.time) <= p.Every+min(p.keep(), maxStale) {
			spare = was / 5
		}
		if now < was-spare {
			return fmt.Errorf("%d rows, after %d", now, was)
		}
	}
	r.cache.store(p, a, cached)
	return nil
}
