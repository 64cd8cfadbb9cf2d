package provider

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"example.com/marketdata/builder/source"
)

// maxUnused is how long an answer of Each is cached without being asked for.
const maxUnused = 90 * 24 * time.Hour

// Each returns answers to parts of one kind, by id, as far as there are any: it
// makes no more requests than the round has left for such parts, for those first
// that were never asked for, in the order given, then for those whose answers are
// oldest. The first failure ends it for the whole round: that is no time to ask
// for trifles. part describes the part of an id; its name is given to it here, and
// no rows are an answer, too.
func (r *Round) Each(ctx context.Context, kind string, ids []string, part func(id string) Part) (map[string]*Answer, error) {
	parts := make([]Part, len(ids))
	for i, id := range ids {
		parts[i] = part(id)
		parts[i].Name, parts[i].MayBeEmpty = kind+"/"+id, true
	}
	answers := make(map[string]*Answer, len(ids))
	if r.c.replay != nil {
		return answers, r.replayEach(ctx, kind, ids, parts, answers)
	}
	s := source.Part{Name: kind + "/*", State: source.PartKept}
	asked := 0
	for _, i := range r.due(parts) {
		if r.slow <= 0 {
			break
		}
		p := &parts[i]
		a, _, err := r.get(ctx, p)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
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
		if err != nil {
			r.slow = 0
			s.State, s.Reason = source.PartStale, err.Error()
			r.c.Log.Warn("provider: requests for single items are put off", "source", r.c.Source, "part", p.Name, "err", err)
		}
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
	r.forget(kind)
	if s.Reason == "" && len(answers) < len(parts) {
		s.Reason = "the others follow, some each time"
	}
	s.Reason = fmt.Sprintf("%d of %d cached, %d asked for now", len(answers), len(parts), asked) + prefix("; ", s.Reason)
	r.states = append(r.states, s)
	return answers, nil
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
	var list []int
	fetched := make(map[int]time.Time, len(parts))
	for i := range parts {
		if _, used := r.used[parts[i].Name]; used {
			continue
		}
		a := r.cached(&parts[i])
		if a == nil {
			list = append(list, i)
		} else if r.age(a) >= parts[i].Every {
			list = append(list, i)
			fetched[i] = a.Fetched
		}
	}
	slices.SortStableFunc(list, func(a, b int) int { return fetched[a].Compare(fetched[b]) })
	return list
}

// forget drops answers of a kind that were not asked for in a long time.
func (r *Round) forget(kind string) {
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
