package provider

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"sync"
	"time"

	"example.com/marketdata/builder/source"
)

// maxStale is how long after its time a last good answer may stand in for one
// that is unavailable, unless its part says otherwise.
const maxStale = time.Hour

// keepForever is the Part.Keep of all that prices do not need: what was known of it
// stays in use until the provider says more.
const keepForever = 100 * 365 * 24 * time.Hour

// MaxPages bounds the pages of a part.
const MaxPages = 400

// Part is one thing that a provider is asked for.
type Part struct {
	// Name names it in recordings, logs and reports: KIND, or KIND/ID when there
	// is one of the kind for each coin, category or the like.
	Name string
	// Path and Query are where to ask.
	Path  string
	Query url.Values
	// At is where in an answer the rows stand, or the object: names joined by dots,
	// such as data.coins; "": the answer itself.
	At string
	// Pager is not nil when the part comes in pages. No more than Pages of them are
	// asked for; zero: all, and more than MaxPages are an error.
	Pager *Pager
	Pages int
	// Every is how long an answer counts as new, and is not asked for again.
	Every time.Duration
	// Keep is how much longer it may stand in when the provider fails; zero:
	// maxStale. Lists and Each set it for all but prices.
	Keep time.Duration
	// Value is what its calls are worth; Lists and Each say so of most.
	Value Value
	// Cost is how many calls of the quota a page takes, at most; zero: one. With
	// RowsPerCall it takes one for each so many rows, in the end.
	Cost, RowsPerCall int
	// Check counts the rows of what stands At a body, or says why it is not what was
	// asked for.
	Check func(body []byte) (rows int, err error)
	// Whole, if not nil, says what an answer of the provider lacks.
	Whole func(a *Answer) error
	// MayBeEmpty: no rows at all is an answer too, and not a failure.
	MayBeEmpty bool
	// Reduce, if not nil, drops from what stands At a body all that the provider's
	// package does not use. It is applied to answers that stay in memory between rounds, where there
	// may be thousands of them. Folders get what was sent, but for an answer that
	// is recorded in a later round than the one that asked for it.
	Reduce func(body []byte) []byte
}

// check is Check of what stands At a body.
func (p *Part) check(body []byte) (rows int, err error) {
	part, err := at(body, p.At)
	if err != nil {
		return 0, err
	}
	return p.Check(part)
}

func (p *Part) cost() int { return max(1, p.Cost) }

func (p *Part) keep() time.Duration {
	if p.Keep == 0 {
		return maxStale
	}
	return p.Keep
}

// Config says how a Collector works.
type Config struct {
	// Source is the provider's name: that of its scheme, and in recordings.
	Source string
	// Client asks the provider.
	Client *Client
	// Cache is a folder for the last good answers; "": they are in memory only.
	Cache string
	// Replay is a recording to answer from; then no provider is asked, and all
	// else but Source and Log is unused.
	Replay string
	// SlowCalls is how many of the requests that are made for each coin,
	// category or the like a round may make, at most.
	SlowCalls int
	Log       *slog.Logger
	// Now is the clock; nil: time.Now.
	Now func() time.Time
}

// Collector gets parts and caches their last good answers.
type Collector struct {
	Config
	replay, cache *folder

	mu   sync.Mutex // one round at a time
	kept map[string]*Answer
	// failing are the parts that fail and are put off, by name; those of the cache
	// if there is one.
	failing map[string]failure
	// intervals, if not nil, gives what Round.every has.
	intervals func(context.Context) (map[string]time.Duration, error)
}

// NewCollector returns a Collector, or an error when a folder cannot be used. A
// cache that cannot be read is emptied, which is logged.
func NewCollector(cfg Config) (*Collector, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	c := &Collector{Config: cfg, kept: map[string]*Answer{}, failing: map[string]failure{}}
	var err error
	switch {
	case cfg.Replay != "":
		if _, err = fs.Stat(os.DirFS(cfg.Replay), "."); err == nil {
			c.replay, err = openFolder(cfg.Replay, cfg.Source)
		}
		if err != nil {
			return nil, fmt.Errorf("replay: %w", err)
		}
	case cfg.Cache != "":
		if c.cache, err = openFolder(cfg.Cache, cfg.Source); err != nil {
			cfg.Log.Warn("provider: the cache cannot be read and is emptied", "source", cfg.Source, "cache", cfg.Cache, "err", err)
			c.cache = emptyFolder(cfg.Cache, cfg.Source)
		}
		c.failing = c.cache.index.Failing
	}
	return c, nil
}

// Round collects the parts of one snapshot.
type Round struct {
	c    *Collector
	time time.Time
	slow int // calls left for Each
	// left is the time left for all requests but those for prices and for a
	// directory that was never had; see optionalTime.
	left time.Duration
	// newest is the newest time of a required list; see date.
	newest time.Time
	// states has a line for each part and each kind asked one by one.
	states []source.Part
	// every are how long answers of lists count as new, to keep within the quota, by
	// part.
	every map[string]time.Duration
	// sizes are the calls that parts took, and back those that turned out not to
	// have been taken.
	sizes map[string]int
	back  int
	// dry, if not nil, is told of parts, and nobody is asked for them.
	dry func(p *Part, kind bool)
	// used are the answers that were given out, for a recording.
	used map[string]usedAnswer
}

type usedAnswer struct {
	part   *Part
	answer *Answer
}

// Collect runs gather, which asks the round for parts, while no other round
// runs. Afterwards the cache is brought up to date.
func (c *Collector) Collect(ctx context.Context, gather func(r *Round) error) (*Round, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := &Round{c: c, time: c.Now().UTC(), slow: c.SlowCalls, left: optionalTime, used: map[string]usedAnswer{}, sizes: map[string]int{}}
	if c.replay != nil {
		r.time = c.replay.index.Time
	} else if c.intervals != nil {
		var err error
		if r.every, err = c.intervals(ctx); err != nil {
			return nil, err
		}
	}
	err := gather(r)
	r.end()
	return r, err
}

// end reduces what stays in memory and writes the cache's recording.json. What
// was got is kept even if the round failed: the next one has to ask for less.
func (r *Round) end() {
	for _, u := range r.used {
		if u.part.Reduce == nil || u.answer.reduced || r.c.kept[u.part.Name] != u.answer {
			continue
		}
		reduced := *u.answer
		reduced.reduced = true
		reduced.Pages = slices.Clone(u.answer.Pages)
		for i := range reduced.Pages {
			if body, err := at(reduced.Pages[i].Body, u.part.At); err == nil {
				reduced.Pages[i].Body = within(u.part.At, u.part.Reduce(body))
			}
		}
		r.c.kept[u.part.Name] = &reduced
	}
	if r.c.replay == nil {
		if err := r.c.Client.quota.note(r.back, r.sizes); err != nil {
			r.c.Log.Warn("provider: calls that were not taken stay counted", "source", r.c.Source, "err", err)
		}
	}
	if r.c.cache != nil {
		if err := r.c.cache.commit(r.time); err != nil {
			r.c.Log.Warn("provider: cache not written", "source", r.c.Source, "err", err)
		}
	}
}

// Time is the moment of the round: now, or that of the recording, which is zero
// when a folder made by hand is replayed.
func (r *Round) Time() time.Time { return r.time }

// Parts says where each part came from.
func (r *Round) Parts() []source.Part { return r.states }

// Record writes the answers that were given out to a folder, as a recording.
func (r *Round) Record(dir string) error {
	f, err := createFolder(dir, r.c.Source)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(r.used)) {
		u := r.used[name]
		if err := f.save(u.part, u.answer); err != nil {
			return err
		}
	}
	return f.commit(r.time)
}

// Get returns the answer to a part: kept, if it counts as new still, or the
// provider's, or the last good one if that is not too old. Otherwise it returns
// an error; one of ctx is ctx's.
func (r *Round) Get(ctx context.Context, p Part) (*Answer, error) {
	a, state, err := r.get(ctx, &p)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	s := source.Part{Name: p.Name, State: state, Every: p.Every, Failures: r.c.failing[p.Name].Times}
	if a != nil {
		s.Fetched = a.Fetched
	}
	if err != nil {
		s.Reason = err.Error()
	}
	r.states = append(r.states, s)
	switch state {
	case source.PartStale:
		r.c.Log.Warn("provider: a part is unavailable; its last good rows are used", "source", r.c.Source, "part", p.Name, "fetched", s.Fetched, "err", err)
	case source.PartMissing:
		if r.c.replay != nil {
			r.c.Log.Info("provider: no rows of a part", "source", r.c.Source, "part", p.Name, "err", err)
		} else {
			r.c.Log.Warn("provider: a part is unavailable, and its last good rows are too old", "source", r.c.Source, "part", p.Name, "err", err)
		}
		return nil, fmt.Errorf("%s: %w", p.Name, err)
	case source.PartNew:
		if err != nil {
			r.c.Log.Warn("provider: a doubtful answer is used, but not kept", "source", r.c.Source, "part", p.Name, "err", err)
		}
	}
	return a, nil
}

// get is Get without logging and reporting. An error beside an answer says why
// that is not what it should be.
func (r *Round) get(ctx context.Context, p *Part) (*Answer, source.PartState, error) {
	a, state, err := r.find(ctx, p)
	if a != nil {
		r.used[p.Name] = usedAnswer{p, a}
	}
	return a, state, err
}

func (r *Round) find(ctx context.Context, p *Part) (*Answer, source.PartState, error) {
	if r.dry != nil {
		r.dry(p, false)
		return &Answer{at: p.At}, source.PartNew, nil
	}
	p.Every = max(p.Every, r.every[p.Name])
	if r.c.replay != nil {
		a, err := r.c.replay.load(p)
		if errors.Is(err, fs.ErrNotExist) {
			err = errNotRecorded
		}
		if err != nil {
			return nil, source.PartMissing, err
		}
		return a, source.PartNew, nil
	}
	cached := r.cached(p)
	if cached != nil && r.age(cached) < p.Every {
		return cached, source.PartKept, nil
	}
	a, err := r.askInTime(ctx, p, cached)
	if err == nil {
		if err = r.keep(p, a, cached); err == nil || p.Value == Tickers && !p.alone() {
			r.noteFailure(ctx, p, nil)
			return a, source.PartNew, err
		}
	}
	r.noteFailure(ctx, p, err)
	if cached != nil && r.age(cached) <= p.Every+p.keep() {
		return cached, source.PartStale, err
	}
	return nil, source.PartMissing, err
}

var errNotRecorded = fmt.Errorf("not in the recording: %w", fs.ErrNotExist)

// age is how long ago an answer was fetched; a clock that was set back makes it
// zero.
func (r *Round) age(a *Answer) time.Duration { return max(0, r.time.Sub(a.Fetched)) }

// cached returns the last good answer, if there is one.
func (r *Round) cached(p *Part) *Answer {
	a := r.c.kept[p.Name]
	if a != nil || r.c.cache == nil {
		return a
	}
	if _, ok := r.c.cache.index.Parts[p.Name]; !ok {
		return nil
	}
	a, err := r.c.cache.load(p)
	if err != nil {
		r.c.Log.Warn("provider: left out of the cache", "source", r.c.Source, "part", p.Name, "err", err)
		delete(r.c.cache.index.Parts, p.Name)
		return nil
	}
	r.c.kept[p.Name] = a
	return a
}

var errEmpty = errors.New("no rows at all")

// checkRows finds fault with an answer that has no rows.
func (p *Part) checkRows(a *Answer) error {
	if a.rows() == 0 && !p.MayBeEmpty && !a.Gone {
		return errEmpty
	}
	return nil
}

// ask asks the provider. cached may be nil.
func (r *Round) ask(ctx context.Context, p *Part, cached *Answer) (*Answer, error) {
	a := &Answer{Fetched: r.time, at: p.At}
	q := r.c.Client.quota
	if err := q.affords(r.expected(p), p.Value); err != nil {
		return nil, err // rather than after half of the pages
	}
	calls := 0
	for n := 0; p.Pages == 0 || n < p.Pages; n++ {
		more, err := p.Pager.more(a)
		if err != nil {
			return nil, err
		}
		if more == nil {
			break
		}
		var page Page
		req := request{Path: p.Path, Query: url.Values{}, call: call{p.cost(), p.Value, false}, Check: func(b []byte) (err error) {
			page.rows, err = p.check(b)
			return err
		}}
		maps.Copy(req.Query, p.Query)
		maps.Copy(req.Query, more)
		var old Page
		if cached != nil && n < len(cached.Pages) {
			old = cached.Pages[n]
			req.ETag, req.LastModified = old.ETag, old.LastModified
		}
		res, err := r.c.Client.get(ctx, req)
		var status *StatusError
		if p.Pager == nil && errors.As(err, &status) && (status.Status == http.StatusNotFound || status.Status == http.StatusGone) {
			a.Gone = true
			return a, errGone{err}
		}
		if err != nil {
			return nil, err
		}
		calls += p.cost()
		if p.RowsPerCall > 0 && !res.NotModified {
			back := max(0, p.cost()-max(1, (page.rows+p.RowsPerCall-1)/p.RowsPerCall))
			r.back += back
			calls -= back
		}
		if page.Body, page.ETag, page.LastModified = res.Body, res.ETag, res.LastModified; res.NotModified {
			page = old
		} else if p.Pager != nil && p.Pager.says != nil {
			page.Next = p.Pager.says(page.Body, res.Link)
		}
		if n > 0 && p.same(page, a.Pages[n-1]) {
			return nil, fmt.Errorf("page %d has the rows of page %d", n+1, n)
		}
		a.Pages = append(a.Pages, page)
	}
	if r.sizes[p.Name] = calls; p.Value == Details {
		delete(r.sizes, p.Name) // there may be thousands
	}
	err := p.checkRows(a)
	if err == nil && p.Whole != nil {
		err = p.Whole(a)
	}
	return a, err
}

// expected is how many calls it may take to ask for a part.
func (r *Round) expected(p *Part) int {
	n := p.cost()
	if a := r.c.kept[p.Name]; a != nil {
		n *= max(1, len(a.Pages))
	}
	return n
}

// errGone is that of an answer that says: there is no such thing.
type errGone struct{ error }

func (e errGone) Unwrap() error { return e.error }

// same reports whether two pages have the same rows; what stands around them may
// differ by a time.
func (p *Part) same(x, y Page) bool {
	a, err := at(x.Body, p.At)
	b, err2 := at(y.Body, p.At)
	return err == nil && err2 == nil && string(a) == string(b)
}

// alone reports whether nothing but the last good answer can tell that a page of a
// list is missing.
func (p *Part) alone() bool { return p.Pager != nil && p.Whole == nil && p.Value != Details }

// keep caches a good answer. One that has lost more than half of its rows, or a fifth
// when it stands alone, is not kept while there is one to compare with. That of a list
// of prices that does not stand alone is given out, for the guard rails to judge, and
// asked for again the next time; any other counts as unavailable. A loss of less than
// half, which no guard rail stops, is believed when the last good answer is an hour
// overdue.
func (r *Round) keep(p *Part, a, cached *Answer) error {
	if cached != nil && !cached.Gone && r.age(cached) <= p.Every+p.keep() {
		was, now := cached.rows(), a.rows()
		spare := was / 2
		if p.alone() && r.age(cached) <= p.Every+min(p.keep(), maxStale) {
			spare = was / 5
		}
		if now < was-spare {
			return fmt.Errorf("%d rows, after %d", now, was)
		}
	}
	r.c.kept[p.Name] = a
	if r.c.cache == nil {
		return nil
	}
	if cached != nil && slices.EqualFunc(cached.Pages, a.Pages, func(x, y Page) bool { return string(x.Body) == string(y.Body) }) {
		r.c.cache.renew(p, a.Fetched)
		return nil
	}
	if err := r.c.cache.save(p, a); err != nil {
		r.c.Log.Warn("provider: answer not cached", "source", r.c.Source, "part", p.Name, "err", err)
	}
	return nil
}
