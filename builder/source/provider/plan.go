package provider

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Quota bounds the calls of an account. Calls is the number in a month, or zero if the provider
// states none. PerMinute is the number in a minute, or zero for the Plan's number.
type Quota struct {
	Name             string
	Calls, PerMinute int
}

const (
	// mark is the interval between snapshots. month is the time for which costs are computed.
	mark  = 10 * time.Minute
	month = 31 * 24 * time.Hour
	// slack lets a round that begins a little early still make the requests of its own mark.
	slack = 30 * time.Second
)

// slowest returns the longest interval to which requests for a list may be stretched, so that more
// valuable lists can be requested more often. Details may wait for ever.
func slowest(v Value) time.Duration {
	if v == Tickers {
		return time.Hour
	}
	return 24 * time.Hour
}

// Cost is the cost of a part in a month of 31 days.
type Cost struct {
	Part  string `json:"part"`
	Value string `json:"value"`
	// Calls is the number of calls for one request of the whole part. Measured reports whether they
	// were counted the last time, and not estimated.
	Calls    int  `json:"calls"`
	Measured bool `json:"measured"`
	// EverySeconds is the part's own interval, and AskedSeconds the interval that the quota allows
	// (0 means never). Wanted and Month are the calls of a month at these intervals. The option
	// slow may limit single items further.
	EverySeconds int64 `json:"every_seconds"`
	AskedSeconds int64 `json:"asked_seconds"`
	Wanted       int   `json:"wanted"`
	Month        int   `json:"month"`

	value Value
	most  int  // maximum number of calls counted at the same time
	kind  bool // a kind of single items
}

// Costs is the cost of a month of a source.
type Costs struct {
	Source string `json:"source"`
	Plan   string `json:"plan,omitempty"`
	// Quota is the number of calls allowed in a month, or 0 for no limit. Used is the number on the
	// last 32 dates.
	Quota     int    `json:"quota"`
	Used      int    `json:"used"`
	PerMinute int    `json:"per_minute"`
	Cache     string `json:"cache,omitempty"`
	Wanted    int    `json:"wanted"`
	Month     int    `json:"month"`
	Parts     []Cost `json:"parts"`
}

// budget divides a quota among the parts that a market requests.
type budget struct {
	*quota
	plan   Quota
	calls  map[string]int // Plan.Calls
	slow   int            // Plan.Slow
	market func() Market
}

// month returns the costs of a month.
func (b *budget) month(ctx context.Context) (*Costs, error) {
	state, err := b.read()
	if err != nil {
		return nil, err
	}
	parts, err := b.costs(ctx, state)
	if err != nil {
		return nil, err
	}
	c := &Costs{
		Plan: b.plan.Name, Quota: b.limit, Used: state.used(), PerMinute: b.plan.PerMinute, Cache: b.dir, Parts: parts,
	}
	for _, p := range parts {
		c.Wanted += p.Wanted
		c.Month += p.Month
	}
	return c, nil
}

// costs finds out in a dry run which parts the market requests, and divides the quota among them.
func (b *budget) costs(ctx context.Context, state *quotaState) ([]Cost, error) {
	var list []Cost
	err := b.market().Collect(ctx, dryRun(func(p *Part, kind bool) {
		c := Cost{
			Part: p.Name, Value: p.Value.String(), value: p.Value, kind: kind, most: p.cost(),
			EverySeconds: int64(p.Every / time.Second),
		}
		c.Calls = b.size(p, nil, state)
		_, c.Measured = state.Sizes[p.Name]
		list = append(list, c)
	}))
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(list, func(a, b Cost) int { return int(a.value - b.value) })
	b.share(list, b.slow)
	return list, nil
}

// size returns the number of calls for a part: the number of the last time, or of its last good
// answer, or else the plan's estimate.
func (b *budget) size(p *Part, last *Answer, state *quotaState) int {
	calls := cmp.Or(max(state.Sizes[p.Name], pages(last)*p.cost()), b.calls[p.Name], p.cost())
	if p.Pages > 0 {
		calls = min(calls, p.Pages*p.cost())
	}
	return calls
}

// share sets how often to request each part. Every list is requested at least at its slowest
// interval. The rest of the quota goes to the most valuable parts first.
func (q *quota) share(list []Cost, slow int) {
	largest := 0
	leasts := make([]int64, len(list)) // calls of lists at their slowest intervals
	var reserved int64                 // the sum of leasts
	slowLeft := int64(slow) * int64(month/mark)
	for i := range list {
		c := &list[i]
		c.EverySeconds = max(c.EverySeconds, int64(mark/time.Second))
		wanted := callsOf(c.Calls, c.EverySeconds)
		if c.kind {
			wanted = min(wanted, slowLeft)
			slowLeft -= wanted
		} else {
			largest = max(largest, c.Calls, c.most)
			leasts[i] = callsOf(c.Calls, max(c.EverySeconds, int64(slowest(c.value)/time.Second)))
			reserved += leasts[i]
		}
		if c.Wanted, c.Month = int(wanted), int(wanted); wanted > 0 {
			c.AskedSeconds = c.EverySeconds
		}
	}
	if q.limit == 0 {
		return
	}
	// Leave room for three times the largest part, since a part of the burst is not available to
	// less valuable calls.
	q.burst = max(1, min(q.limit/2, max(q.limit/(quotaDays-1), 3*largest)))
	left := int64(month / q.each())
	if needed := reserved; needed > left { // not even the slowest intervals fit
		reserved = 0
		for i := range leasts {
			leasts[i] = leasts[i] * left / needed
			reserved += leasts[i]
		}
	}
	for i := range list {
		c := &list[i]
		reserved -= leasts[i]
		given := max(0, left-reserved)
		switch {
		case given >= int64(c.Wanted):
		case c.kind:
			c.Month, c.AskedSeconds = int(given), 0
			if given > 0 {
				c.AskedSeconds = int64(month/time.Second) * int64(c.Calls) / given
			}
		default:
			marks := max(1, given) * int64(mark/time.Second)
			c.AskedSeconds = (int64(month/time.Second)*int64(c.Calls) + marks - 1) / marks * int64(mark/time.Second)
			c.Month = int(callsOf(c.Calls, c.AskedSeconds))
		}
		left -= int64(c.Month)
	}
}

// callsOf returns the number of calls in a month at an interval in seconds.
func callsOf(calls int, every int64) int64 {
	return (int64(calls)*int64(month/time.Second) + every - 1) / every
}

// intervals returns how long the answers to lists count as new, by part, if the quota makes that
// longer than the parts themselves.
func (b *budget) intervals(ctx context.Context) (map[string]time.Duration, error) {
	if b.limit == 0 {
		return nil, nil
	}
	state, err := b.read()
	if err != nil {
		return nil, err
	}
	list, err := b.costs(ctx, state)
	every := map[string]time.Duration{}
	for _, c := range list {
		if !c.kind {
			every[c.Part] = time.Duration(max(c.EverySeconds, c.AskedSeconds))*time.Second - slack
		}
	}
	return every, err
}

// choosePlan returns the plan with the quota that the options name. The first quota is the default.
func choosePlan(o *Options, plan Plan) (Plan, Quota, error) {
	var quota Quota
	var names []string
	found := !o.values.Has("plan")
	for i, q := range plan.Quotas {
		names = append(names, q.Name)
		if wanted := o.Text("plan", ""); wanted == q.Name || i == 0 && wanted == "" {
			quota, found = q, true
		}
	}
	if !found {
		return plan, quota, fmt.Errorf("plan=%.80s: want %s; another key, or no key, has other plans", o.Text("plan", ""),
			strings.Join(names, ", "))
	}
	var err error
	if o.Text("quota", "") == "none" {
		quota.Calls = 0
	} else if quota.Calls, err = o.Number("quota", quota.Calls, 1, maxQuota); err != nil {
		return plan, quota, fmt.Errorf("%w, or none", err)
	}
	if quota.PerMinute > 0 {
		plan.PerMinute = quota.PerMinute
	}
	if plan.PerMinute, err = o.Number("rate", plan.PerMinute, 1, 100_000); err != nil {
		return plan, quota, err
	}
	quota.PerMinute = plan.PerMinute
	return plan, quota, nil
}
