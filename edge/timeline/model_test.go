package timeline

import (
	"slices"
	"time"

	"example.com/marketdata/artifacts"
)

// model states the rules in terms of all past events, and computes each answer anew.
type model struct {
	known     bool
	accepted  []accepted // in the order of acceptance
	notBefore time.Time
	offered   artifacts.Digest // the snapshot last seen
	seen      time.Time
	rounds    []round            // rounds of fetching that snapshot
	loaded    map[*snapshot]bool // loaded snapshots that may be pinned, besides the current one
}

// accepted is a snapshot that became ready.
type accepted struct {
	s                *snapshot
	seen, ready, due time.Time
	withdrawn        []time.Time
}

// round is a round of fetching.
type round struct {
	begun, ended     time.Time
	missing          int
	damaged, refused bool
}

// rollback reports whether the i-th accepted snapshot is a rollback from the previous one.
func (m *model) rollback(i int) bool {
	return i > 0 && !m.accepted[i].s.Time.After(m.accepted[i-1].s.Time)
}

// activation returns the time when the i-th accepted snapshot becomes current, which is when it or a later
// one is due. ok is false if a rollback came first.
func (m *model) activation(i int) (at time.Time, ok bool) {
	at = m.accepted[i].due
	for j := i + 1; j < len(m.accepted); j++ {
		if m.rollback(j) {
			return at, !at.After(m.accepted[j].ready)
		}
		if m.accepted[j].due.Before(at) {
			at = m.accepted[j].due
		}
	}
	return at, true
}

func (m *model) current(now time.Time) *snapshot {
	for i := len(m.accepted) - 1; i >= 0; i-- {
		if at, ok := m.activation(i); ok && !at.After(now) {
			return m.accepted[i].s
		}
	}
	return nil
}

func (m *model) waiting(now time.Time) (s []*snapshot) {
	for i, a := range m.accepted {
		if at, ok := m.activation(i); ok && at.After(now) {
			s = append(s, a.s)
		}
	}
	return s
}

// next returns the index of the accepted snapshot that becomes current after s.
func (m *model) next(s *snapshot) int {
	i := slices.IndexFunc(m.accepted, func(a accepted) bool { return a.s == s })
	for i++; i < len(m.accepted); i++ {
		if _, ok := m.activation(i); ok {
			break
		}
	}
	return i
}

func (m *model) newest() *accepted { return &m.accepted[len(m.accepted)-1] }

func (m *model) see(p *artifacts.Pointer, now time.Time) (action Action, refused bool) {
	if len(m.accepted) > 0 {
		newest := m.newest().s
		if p.Store == newest.Store && p.Sequence <= newest.Sequence {
			same := p.Sequence == newest.Sequence && p.Manifest.Digest == newest.Manifest
			if same && m.current(now) == newest {
				return Confirm, false
			}
			return Ignore, !same
		}
	}
	if m.offered != p.Manifest.Digest {
		m.offered, m.seen, m.rounds = p.Manifest.Digest, now, nil
	}
	return Fetch, false
}

// fetch begins a round of fetching, in a new attempt or within the budget of the current one.
func (m *model) fetch(now time.Time, budget time.Duration) (deadline time.Time, begun bool) {
	if len(m.accepted) == 0 {
		return time.Time{}, false
	}
	n := len(m.rounds)
	if begun = n == 0 || m.rounds[n-1].refused; begun {
		deadline = now.Add(budget)
	} else {
		deadline = m.rounds[n-1].ended
	}
	m.rounds = append(m.rounds, round{begun: now, ended: deadline})
	return deadline, begun
}

func (m *model) fetched(missing int, damaged, answers bool, now time.Time) Verdict {
	r := &m.rounds[len(m.rounds)-1]
	r.missing, r.damaged = missing, damaged
	spoilt := slices.ContainsFunc(m.rounds, func(r round) bool { return r.damaged })
	late := !now.Before(r.ended)
	r.refused = spoilt || late
	switch {
	case missing == 0, late && answers && !spoilt:
		return Accept
	case late && !spoilt:
		return Unreachable
	}
	return Retry
}

// accept adds a snapshot that is ready, and reports whether it is a rollback.
func (m *model) accept(s *snapshot, p *published, wall, now time.Time) bool {
	a := accepted{s: s, seen: m.seen, ready: now, due: now, withdrawn: slices.Clone(p.manifest.Withdrawn)}
	if len(m.accepted) > 0 {
		before := m.newest()
		times := append(slices.Clone(before.withdrawn), before.s.Time)
		for _, r := range before.s.Retained {
			times = append(times, r.Time)
		}
		for _, t := range times {
			if t.After(s.Time) {
				a.withdrawn = append(a.withdrawn, t)
			}
		}
	}
	m.accepted = append(m.accepted, a)
	i := len(m.accepted) - 1
	due := now
	if at := p.pointer.ActivateAt; !m.rollback(i) && !at.IsZero() {
		due = now.Add(at.Sub(wall))
		if latest := m.seen.Add(artifacts.MaxActivateAfter); latest.Before(due) {
			due = latest
		}
	}
	switch {
	case !due.After(now):
		m.notBefore = time.Time{}
	case i == 0:
		m.notBefore = due
	default:
		m.accepted[i].due = due
	}
	m.offered, m.rounds = artifacts.Digest{}, nil
	return m.rollback(i)
}

// activated records that s became current, and returns the snapshots that are dropped.
func (m *model) activated(s *snapshot) (dropped []*snapshot) {
	if m.loaded == nil {
		m.loaded = map[*snapshot]bool{}
	}
	for i, a := range m.accepted {
		if a.s == s {
			for i--; i >= 0; i-- { // the previous one, unless a rollback dropped it
				if _, ok := m.activation(i); ok {
					m.loaded[m.accepted[i].s] = true
					break
				}
			}
			break
		}
	}
	for old := range m.loaded {
		if !retains(s, old) {
			dropped = append(dropped, old)
			delete(m.loaded, old)
		}
	}
	m.known = true
	return dropped
}

func retains(s, old *snapshot) bool {
	return slices.ContainsFunc(s.Retained, func(r artifacts.Retained) bool {
		return r.Manifest.Digest == old.Manifest && r.Time.Equal(old.Time)
	})
}

// load reports whether a snapshot loaded for a pin is kept.
func (m *model) load(s *snapshot, now time.Time) bool {
	for old := range m.loaded {
		if old.Manifest == s.Manifest {
			return false
		}
	}
	kept := retains(m.current(now), s)
	if kept {
		m.loaded[s] = true
	}
	return kept
}

// pin returns the manifest of the snapshot that answers a pin.
func (m *model) pin(at, wall, now time.Time) (d artifacts.Digest, err error) {
	newest := wall
	cur := m.current(now)
	if cur != nil {
		answers := []artifacts.Retained{{Time: cur.Time, Manifest: ref(cur.Manifest)}}
		answers = append(answers, cur.Retained...)
		for _, s := range m.waiting(now) {
			answers = append(answers, artifacts.Retained{Time: s.Time, Manifest: ref(s.Manifest)})
		}
		for _, a := range answers {
			if a.Time.Equal(at) {
				return a.Manifest.Digest, nil
			}
		}
		if t := m.newest().s.Time; t.After(newest) {
			newest = t
		}
	}
	switch {
	case at.Unix()%int64(artifacts.Step/time.Second) != 0:
		return d, ErrUneven
	case cur != nil && (at.Before(cur.Time) || m.withdrawn(cur, at)):
		return d, ErrGone
	case at.After(newest.Add(12 * time.Minute)):
		return d, ErrAhead
	case !m.known:
		return d, ErrUnknown
	}
	return d, ErrLater
}

// withdrawn reports whether the current snapshot withdraws a time.
func (m *model) withdrawn(cur *snapshot, at time.Time) bool {
	i := slices.IndexFunc(m.accepted, func(a accepted) bool { return a.s == cur })
	return !at.After(cur.WithdrawnThrough) || slices.Contains(m.accepted[i].withdrawn, at)
}
