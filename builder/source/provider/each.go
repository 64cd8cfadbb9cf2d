package provider

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"example.com/marketdata/builder/source"
)

// maxInARow is the number of consecutive failures after which the provider, rather than the parts,
// is considered at fault. The kind is then postponed, as failing lists are.
const maxInARow = 3

// maxNamed is the maximum number of failing parts that a report names.
const maxNamed = 5

// Each implements Round. After each failure of a part, it waits longer before requesting the part
// again. After maxInARow consecutive failures it postpones the kind. If the provider demands a
// pause, no more individual items are requested in this round, not even of other kinds.
func (r *liveRound) Each(ctx context.Context, kind string, ids []string,
	part func(string) Part) (map[string]*Answer, error) {
	parts := partsOf(kind, ids, part)
	all := kind + "/*"
	asked, putOff, err := r.askEach(ctx, all, parts)
	if err != nil {
		return nil, err
	}
	s := source.Part{Name: all, State: source.PartKept, Reason: r.failing(parts)}
	if putOff != nil {
		s.Reason = putOff.Error() + prefix("; ", s.Reason)
	}
	if s.Reason != "" {
		s.State = source.PartStale
	}
	answers := make(map[string]*Answer, len(ids))
	for i := range parts {
		p := &parts[i]
		if u, ok := r.used[p.Name]; ok {
			answers[ids[i]] = u.answer
		} else if a := r.cache.answer(p); a != nil && age(a.Fetched, r.time) <= p.Every+p.keep() {
			answers[ids[i]] = a
			r.used[p.Name] = usedAnswer{p, a}
		}
	}
	if r.cache.forget(kind, r.time); len(answers) > 0 {
		r.sizes[all] = sizeOf(parts, answers)
	}
	if s.Failures = r.cache.failing[all].Times; s.Reason == "" && len(answers) < len(parts) {
		s.Reason = "the others follow, a few with each build"
	}
	s.Reason = fmt.Sprintf("%d of %d cached, %d requested now", len(answers), len(parts), asked) +
		prefix("; ", s.Reason)
	r.parts = append(r.parts, s)
	return answers, nil
}

// askEach requests the parts that are due, as far as calls and time permit. putOff is the reason if
// the kind is postponed or a request was not sent.
func (r *liveRound) askEach(ctx context.Context, all string, parts []Part) (asked int, putOff, err error) {
	kind := Part{Name: all, Value: Groups}
	if putOff = decide(&kind, r.known(&kind), r.time); putOff != nil {
		return 0, putOff, nil
	}
	inARow := 0
	for _, p := range r.due(parts) {
		if r.calls <= 0 || inARow == maxInARow {
			break
		}
		a, _, err := r.get(ctx, p)
		switch {
		case ctx.Err() != nil:
			return asked, nil, context.Cause(ctx)
		case errors.As(err, new(errNotSent)):
			return asked, err, nil
		}
		r.calls -= max(1, pages(a))
		asked++
		if err == nil {
			delete(r.cache.failing, all)
			inARow = 0
			continue
		}
		inARow++
		r.log.Warn("provider: a single item failed and is put off", "part", p.Name, "err", err)
		if inARow == maxInARow || r.left <= 0 {
			r.fail(all, err)
		}
		var status *statusError
		tooMany := errors.As(err, &status) && status.status == http.StatusTooManyRequests
		if tooMany || errors.As(err, new(*pausedError)) {
			r.calls = 0
		}
	}
	return asked, nil, nil
}

// failing returns a string that counts and names the failing parts, or "" if there are none.
func (r *liveRound) failing(parts []Part) string {
	var named []string
	n := 0
	for i := range parts {
		name := parts[i].Name
		if f, ok := r.cache.failing[name]; ok {
			if n++; n <= maxNamed {
				named = append(named, fmt.Sprintf("%s (%d times: %s)", name, f.Times, f.Reason))
			}
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d failing: %s", n, strings.Join(named, ", ")) +
		prefix(", ", strings.Repeat("…", min(1, n-len(named))))
}

// sizeOf estimates, from the answers so far, how many calls it takes to request all parts.
func sizeOf(parts []Part, answers map[string]*Answer) int {
	calls := 0
	for _, a := range answers {
		calls += max(1, pages(a))
	}
	return (calls*len(parts) + len(answers) - 1) / len(answers) * parts[0].cost()
}

func prefix(with, s string) string {
	if s == "" {
		return ""
	}
	return with + s
}

func pages(a *Answer) int {
	if a == nil {
		return 0
	}
	return len(a.Pages)
}

// due lists the parts to request now: first the parts that were never requested, then the ones with
// the oldest answers, and finally the ones that failed.
func (r *liveRound) due(parts []Part) (due []*Part) {
	failed, last := map[*Part]int{}, map[*Part]time.Time{}
	for i := range parts {
		p := &parts[i]
		k := r.known(p)
		if _, used := r.used[p.Name]; used || decide(p, k, r.time) != nil {
			continue
		}
		due = append(due, p)
		if k.failed.Times > 0 {
			failed[p], last[p] = 1, k.failed.Last
		} else if k.answer != nil {
			last[p] = k.answer.Fetched
		}
	}
	slices.SortStableFunc(due, func(a, b *Part) int {
		return cmp.Or(failed[a]-failed[b], last[a].Compare(last[b]))
	})
	return due
}
