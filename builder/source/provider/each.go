package provider

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"example.com/marketdata/builder/source"
)

// maxUnused is how long an answer of Each is cached without being asked for.
const maxUnused = 90 * 24 * time.Hour

// Parts that are asked for one by one and fail are asked for again after failedFirst,
// which doubles with each failure up to failedMost. maxInARow failures in a row are
// the provider's rather than the parts': then the kind is put off, as lists are.
const (
	failedFirst = time.Hour
	failedMost  = 7 * 24 * time.Hour
	maxInARow   = 3
)

// maxNamed bounds how many failing parts a report names.
const maxNamed = 5

// Each returns answers to parts of one kind, by id, as far as there are any: it
// makes no more requests than the round has left for such parts, for those first
// that were never asked for, in the order given, then for those whose answers are
// oldest, and last for those that failed before, each of them ever more rarely. Some
// failures in a row put the kind off, and a provider that asks to be left alone
// ends it for other kinds, too. part describes the part of an id; its name is given
// to it here, and no rows are an answer, too.
func (r *Round) Each(ctx context.Context, kind string, ids []string, part func(id string) Part) (map[string]*Answer, error) {
	if r.dry != nil {
		any := part("")
		any.Name, any.Value = kind+"/*", Details
		r.dry(&any, true)
		return nil, nil
	}
	parts := make([]Part, len(ids))
	for i, id := range ids {
		parts[i] = part(id)
		parts[i].Name, parts[i].MayBeEmpty, parts[i].Value, parts[i].Keep = kind+"/"+id, true, Details, keepForever
	}
	answers := make(map[string]*Answer, len(ids))
	if r.c.replay != nil {
		return answers, r.replayEach(ctx, kind, ids, parts, answers)
	}
	s := source.Part{Name: kind + "/*", State: source.PartKept}
	asked, inARow := 0, 0
	all := Part{Name: kind + "/*", Value: Details}
	putOff := r.putOff(&all)
	for _, i := range r.due(parts) {
		if putOff != nil {
			break
		}
		if r.slow <= 0 || inARow == maxInARow {
			break
		}
		p := &parts[i]
		a, _, err := r.get(ctx, p)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if errors.As(err, new(*quotaError)) || errors.Is(err, errNoTime) {
			putOff = err
			break
		}
		var gone errGone
		if errors.As(err, &gone) {
			a, err = &Answer{Fetched: r.time, Gone: true}, nil
			r.c.kept[p.Name] = a
			if r.c.cache != nil {
				_ = r.c.cache.save(p, a) // writes no file
			}
		}
		r.slow -= max(1, pages(a))
		asked++
		if err == nil {
			delete(r.c.failing, p.Name)
			delete(r.c.failing, all.Name)
			inARow = 0
			continue
		}
		inARow++
		r.fail(p.Name, err)
		r.c.Log.Warn("provider: a single item failed and is put off", "source", r.c.Source, "part", p.Name, "err", err)
		if inARow == maxInARow || r.left <= 0 {
			r.fail(all.Name, err)
		}
		var paused *pausedError
		var status *StatusError
		if errors.As(err, &paused) || errors.As(err, &status) && status.Status == http.StatusTooManyRequests {
			r.slow = 0
		}
	}
	s.Reason = r.failing(parts)
	if putOff != nil {
		s.Reason = putOff.Error() + prefix("; ", s.Reason)
	}
	if s.Reason != "" {
		s.State = source.PartStale
	}
	for i := range parts {
		p := &parts[i]
		if u, ok := r.used[p.Name]; ok {
			answers[ids[i]] = u.answer
		} else if a := r.cached(p); a != nil && r.age(a) <= p.Every+p.keep() {
			answers[ids[i]] = a
			r.used[p.Name] = usedAnswer{p, a}
		}
	}
	if r.forget(kind); len(answers) > 0 {
		r.sizes[kind+"/*"] = sizeOf(parts, answers)
	}
	if s.Failures = r.c.failing[all.Name].Times; s.Reason == "" && len(answers) < len(parts) {
		s.Reason = "the others follow, some each time"
	}
	s.Reason = fmt.Sprintf("%d of %d cached, %d asked for now", len(answers), len(parts), asked) + prefix("; ", s.Reason)
	r.states = append(r.states, s)
	return answers, nil
}

// failing names those of some parts that fail; "" when there is none.
func (r *Round) failing(parts []Part) string {
	var named []string
	n := 0
	for i := range parts {
		name := parts[i].Name
		if f, ok := r.c.failing[name]; ok {
			if n++; n <= maxNamed {
				named = append(named, fmt.Sprintf("%s (%d times: %s)", name, f.Times, f.Reason))
			}
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d failing: %s", n, strings.Join(named, ", ")) + prefix(", ", strings.Repeat("…", min(1, n-len(named))))
}

// sizeOf is how many calls it takes to ask for all parts, going by those answers
// that there are.
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

// due lists the parts that are to be asked for, the most urgent first.
func (r *Round) due(parts []Part) []int {
	var list, again []int
	fetched := make(map[int]time.Time, len(parts))
	for i := range parts {
		if _, used := r.used[parts[i].Name]; used {
			continue
		}
		a := r.cached(&parts[i])
		if f, failed := r.c.failing[parts[i].Name]; failed {
			if fetched[i] = f.Last; !r.time.Before(f.due()) {
				again = append(again, i)
			}
		} else if a == nil {
			list = append(list, i)
		} else if r.age(a) >= parts[i].Every {
			list = append(list, i)
			fetched[i] = a.Fetched
		}
	}
	for _, l := range [][]int{list, again} {
		slices.SortStableFunc(l, func(a, b int) int { return fetched[a].Compare(fetched[b]) })
	}
	return append(list, again...)
}

// forget drops what is known of parts of a kind that were not asked for in a long
// time.
func (r *Round) forget(kind string) {
	maps.DeleteFunc(r.c.failing, func(name string, f failure) bool {
		return strings.HasPrefix(name, kind+"/") && r.time.Sub(f.Last) > maxUnused
	})
	for name, a := range r.c.kept {
		if strings.HasPrefix(name, kind+"/") && r.age(a) > maxUnused {
			delete(r.c.kept, name)
			if r.c.cache != nil {
				delete(r.c.cache.index.Parts, name)
			}
		}
	}
}

func (r *Round) replayEach(ctx context.Context, kind string, ids []string, parts []Part, answers map[string]*Answer) error {
	for i := range parts {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		p := &parts[i]
		a, _, err := r.get(ctx, p)
		if err != nil && !errors.Is(err, errNotRecorded) {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
		if a != nil {
			answers[ids[i]] = a
		}
	}
	r.states = append(r.states, source.Part{Name: kind + "/*", State: source.PartNew, Reason: fmt.Sprintf("%d of %d recorded", len(answers), len(parts))})
	return nil
}
