package provider

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Quota limits the calls of an account. Name is the name of the provider's plan. Calls is the limit
// per month, or zero if the provider states none. PerMinute is the limit per minute, or zero for
// the limit in Plan.
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

// slowest returns the maximum interval between two requests for a list. Lists of little value are
// requested at longer intervals, so that more of the quota is left for more valuable lists. There
// is no maximum for individual items.
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
	// Calls is the number of calls that it takes to request the whole part. Measured reports
	// whether this number was counted the last time, rather than estimated.
	Calls    int  `json:"calls"`
	Measured bool `json:"measured"`
	// EverySeconds is the part's own interval, and AskedSeconds the interval that the quota allows
	// (0 means never). Wanted is the number of calls in a month at the part's own interval, and
	// Month the number at the interval that the quota allows. The slow option may limit individual
	// items further.
	EverySeconds int64 `json:"every_seconds"`
	AskedSeconds int64 `json:"asked_seconds"`
	Wanted       int   `json:"wanted"`
	Month        int   `json:"month"`

	value Value
	most  int  // maximum number of calls for one page
	kind  bool // whether this entry stands for all parts of one kind of individual item
}

// Costs describes what a month of snapshots from a source costs.
type Costs struct {
	Source string `json:"source"`
	Plan   string `json:"plan,omitempty"`
	// Quota is the number of calls allowed in a month, or 0 for no limit. Used is the number of
	// calls over the last 32 dates.
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

// month returns the cost of each part in a month, and the totals.
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

// costs determines in a dry run which parts the market requests, and divides the quota among them.
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

// size returns the number of calls that a part takes. It is the larger of the numbers for the last
// request and for the last good answer, or the plan's estimate if neither is known.
func (b *budget) size(p *Part, last *Answer, state *quotaState) int {
	calls := cmp.Or(max(state.Sizes[p.Name], pages(last)*p.cost()), b.calls[p.Name], p.cost())
	if p.Pages > 0 {
		calls = min(calls, p.Pages*p.cost())
	}
	return calls
}

// share sets how often to request each part. The quota first covers all lists at their slowest
// intervals. The rest goes to the most valuable parts first.
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
	// Make the burst at least three times as large as the largest part, if the quota permits, since
	// less valuable calls cannot use the whole burst.
	q.burst = max(1, min(q.limit/2, max(q.limit/(quotaDays-1), 3*largest)))
	left := int64(month / q.callInterval())
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

// callsOf returns the number of calls in a month if the given number of calls is made once in each
// interval. The interval is in seconds.
func callsOf(calls int, every int64) int64 {
	return (int64(calls)*int64(month/time.Second) + every - 1) / every
}

// intervals returns, by list name, how long the list's answer must be reused to stay within the
// quota. It returns nil if there is no quota.
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

// choosePlan returns the plan and the quota that the plan option names, both adjusted by the quota
// and rate options. The plan's first quota is the default.
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
