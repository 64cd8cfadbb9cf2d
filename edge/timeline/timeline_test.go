package timeline

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
)

// snapshot is the type of a Timeline's snapshots.
type snapshot struct{ Facts }

// TestRandomEvents compares a Timeline with a simple model of its rules after each event of random sequences.
// A seed always gives the same sequence.
func TestRandomEvents(t *testing.T) {
	sequences := uint64(100_000)
	if testing.Short() {
		sequences /= 20
	}
	for seed := range sequences {
		if err := (&world{rnd: rand.New(rand.NewPCG(seed, 0))}).run(); err != nil {
			again := &world{rnd: rand.New(rand.NewPCG(seed, 0)), logf: t.Logf}
			_ = again.run()
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

// world is a builder, a store, and the owner of a Timeline.
type world struct {
	rnd       *rand.Rand
	logf      func(format string, args ...any)
	now       time.Time     // monotonic
	skew      time.Duration // how far the wall clock is ahead
	published []published   // in the order of publication; the last one is in the store
	digests   uint64
	line      Timeline[*snapshot]
	pins      []*snapshot // pinned snapshots that are being loaded
	held      map[*snapshot]bool
	model     model
}

// published is a pointer and the manifest that it names.
type published struct {
	pointer  artifacts.Pointer
	manifest Facts
}

var start = time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)

func (w *world) run() error {
	w.now, w.held = start, map[*snapshot]bool{}
	w.line.Budget = 30 * time.Second
	for range 4 + w.rnd.IntN(16) {
		if err := w.event(); err != nil {
			return err
		}
		if err := w.compare(); err != nil {
			return err
		}
	}
	return w.drop(w.line.End(), w.model.waiting(w.now))
}

func (w *world) event() error {
	switch n := w.rnd.IntN(20); {
	case n < 4 || len(w.published) == 0:
		w.publish()
		return nil
	case n < 11:
		return w.poll()
	case n < 13:
		return w.pass(time.Duration(w.rnd.IntN(200)) * time.Second)
	case n < 17:
		return w.pin()
	case n < 19:
		return w.loaded()
	}
	w.skew = time.Duration(w.rnd.IntN(300)-150) * time.Second
	w.log("the wall clock is %v ahead", w.skew)
	return nil
}

func (w *world) log(format string, args ...any) {
	if w.logf != nil {
		w.logf(format, args...)
	}
}

func (w *world) wall() time.Time { return w.now.Add(w.skew) }

func (w *world) digest() (d artifacts.Digest) {
	w.digests++
	d[0], d[1] = byte(w.digests), byte(w.digests>>8)
	return d
}

// publish moves the pointer in the store. It moves to a later snapshot, to an earlier one by a rollback or a
// restore, or to another store.
func (w *world) publish() {
	p := published{manifest: Facts{Store: "a", Sequence: 1, Time: start, Manifest: w.digest()}}
	if n := len(w.published); n > 0 {
		last := w.published[n-1].manifest
		p.manifest.Store, p.manifest.Sequence = last.Store, last.Sequence+1
		retained := append([]artifacts.Retained{{Time: last.Time, Manifest: ref(last.Manifest)}}, last.Retained...)
		switch kind := w.rnd.IntN(10); {
		case kind < 2 && len(last.Retained) > 0: // rollback
			i := w.rnd.IntN(len(last.Retained))
			p.manifest.Time, p.manifest.Retained = last.Retained[i].Time, last.Retained[i+1:]
			p.manifest.Withdrawn = slices.Clone(last.Withdrawn)
			for _, r := range retained[:i+1] {
				p.manifest.Withdrawn = append(p.manifest.Withdrawn, r.Time)
			}
		case kind == 2: // restore, of any snapshot
			sequence, store, digest := p.manifest.Sequence, last.Store, p.manifest.Manifest
			p.manifest = w.published[w.rnd.IntN(n)].manifest
			p.manifest.Store, p.manifest.Sequence = store, sequence
			if w.rnd.IntN(2) == 0 {
				p.manifest.Manifest, p.manifest.WithdrawnThrough = digest, last.Time
			}
		default:
			if kind == 3 {
				p.manifest.Store, p.manifest.Sequence = last.Store+"b", uint64(w.rnd.IntN(3))
			}
			p.manifest.Retained = retained[:min(len(retained), 1+w.rnd.IntN(3))]
			p.manifest.Withdrawn, p.manifest.WithdrawnThrough = last.Withdrawn, last.WithdrawnThrough
			p.manifest.Time = last.Time.Add(artifacts.Step)
			for slices.ContainsFunc(last.Withdrawn, p.manifest.Time.Equal) ||
				!p.manifest.Time.After(last.WithdrawnThrough) {
				p.manifest.Time = p.manifest.Time.Add(artifacts.Step)
			}
		}
	}
	m := &p.manifest
	p.pointer = artifacts.Pointer{Store: m.Store, Sequence: m.Sequence, Time: m.Time, Manifest: ref(m.Manifest)}
	if w.rnd.IntN(3) > 0 {
		p.pointer.ActivateAt = w.wall().Add(time.Duration(w.rnd.IntN(400)-20) * time.Second)
	}
	w.published = append(w.published, p)
	w.log("publish %s %d: %v, digest %v, at %v", m.Store, m.Sequence, m.Time, m.Manifest[0], p.pointer.ActivateAt)
}

func ref(d artifacts.Digest) artifacts.Ref { return artifacts.Ref{Digest: d, Size: 1} }

// poll reads the pointer, fetches its snapshot, and schedules it.
func (w *world) poll() error {
	p := w.published[len(w.published)-1]
	switch w.rnd.IntN(10) {
	case 0: // the store returns an old state
		p = w.published[w.rnd.IntN(len(w.published))]
	case 1:
		p.pointer.Manifest.Digest[31]++
		p.manifest.Manifest[31]++
	case 2:
		w.line.Empty()
		w.model.known = true
		return nil
	}
	action, err := w.line.Seen(&p.pointer, w.now)
	want, refused := w.model.see(&p.pointer, w.now)
	w.log("%v: see %s %d: %v, %v", w.now, p.pointer.Store, p.pointer.Sequence, action, err)
	if action != want || (err != nil) != refused {
		return fmt.Errorf("pointer: %v, %v; want %v, refused %v", action, err, want, refused)
	}
	if action != Fetch {
		return nil
	}
	if accepted, err := w.fetch(); err != nil || !accepted {
		return err
	}
	if err := w.pass(time.Duration(w.rnd.IntN(20)) * time.Second); err != nil { // the time for warming
		return err
	}
	s := &snapshot{Facts: p.manifest}
	waited := w.model.waiting(w.now)
	plan := w.line.Ready(s, p.pointer.ActivateAt, w.wall(), w.now)
	if w.held[s] = true; !w.model.accept(s, &p, w.wall(), w.now) {
		waited = nil // not a rollback
	}
	w.log("%v: ready %v: %+v", w.now, s.Time, plan)
	if err := w.drop(plan.Dropped, waited); err != nil {
		return err
	}
	if plan.Wait == 0 {
		return w.advance()
	}
	return nil
}

// fetch performs one round of fetching.
func (w *world) fetch() (accepted bool, err error) {
	deadline, begun := w.line.Fetching(w.now)
	wantDeadline, wantBegun := w.model.fetch(w.now, w.line.Budget)
	if deadline != wantDeadline || begun != wantBegun {
		return false, fmt.Errorf("deadline %v, begun %v; want %v, %v", deadline, begun, wantDeadline, wantBegun)
	}
	if deadline.IsZero() {
		return true, nil
	}
	if err := w.pass(time.Duration(w.rnd.IntN(20)) * time.Second); err != nil {
		return false, err
	}
	missing := w.rnd.IntN(3) / 2
	damaged, answers := missing > 0 && w.rnd.IntN(6) == 0, w.rnd.IntN(2) == 0
	verdict := w.line.Fetched(missing, damaged, answers, w.now)
	want := w.model.fetched(missing, damaged, answers, w.now)
	w.log("%v: fetched, missing %d, damaged %v, answers %v: %v", w.now, missing, damaged, answers, verdict)
	if verdict != want {
		return false, fmt.Errorf("verdict %v, want %v", verdict, want)
	}
	return verdict == Accept, nil
}

// pass advances the clock.
func (w *world) pass(d time.Duration) error {
	w.now = w.now.Add(d)
	return w.advance()
}

// advance makes all snapshots that are due current, in order.
func (w *world) advance() error {
	for {
		previous := w.line.current
		c, ok := w.line.Advance(w.now)
		if !ok {
			return nil
		}
		i := slices.IndexFunc(w.model.accepted, func(a accepted) bool { return a.s == c.Current })
		w.log("%v: current %v, dropped %d, retained %d", w.now, c.Current.Time, len(c.Dropped), len(c.Retained))
		switch {
		case c.Previous != previous || c.Current != w.line.current:
			return errors.New("the change is not that of the current snapshot")
		case i != w.model.next(c.Previous):
			return fmt.Errorf("%v became current out of order", c.Current.Time)
		case previous != nil && !c.Current.Time.After(previous.Time) && !w.model.rollback(i):
			return fmt.Errorf("back from %v to %v without a rollback", previous.Time, c.Current.Time)
		}
		if err := w.drop(c.Dropped, w.model.activated(c.Current)); err != nil {
			return err
		}
		for _, s := range c.Retained {
			if !w.model.loaded[s] {
				return fmt.Errorf("%v is reported as retained", s.Time)
			}
		}
	}
}

// pin requests the snapshot of a random time, and begins to load it if necessary.
func (w *world) pin() error {
	at := start.Add(time.Duration(w.rnd.IntN(12)-2) * artifacts.Step)
	switch w.rnd.IntN(20) {
	case 0:
		at = at.Add(time.Second)
	case 1: // almost too far in the future
		w.skew = at.Add(-12 * time.Minute).Sub(w.now)
	}
	s, ref, err := w.line.Pin(at, w.wall())
	want, wantErr := w.model.pin(at, w.wall(), w.now)
	w.log("%v: pin %v: %v, %v", w.now, at, s != nil, err)
	switch {
	case err != wantErr:
		return fmt.Errorf("pin of %v: %v, want %v", at, err, wantErr)
	case err != nil:
		return nil
	case s != nil && (s.Manifest != want || !w.held[s]):
		return fmt.Errorf("pin of %v: it is not that snapshot, or was dropped", at)
	case s == nil && ref.Digest != want:
		return fmt.Errorf("pin of %v: loads another snapshot", at)
	}
	if s == nil {
		i := slices.IndexFunc(w.published, func(p published) bool { return p.manifest.Manifest == want })
		w.pins = append(w.pins, &snapshot{Facts: w.published[max(i, 0)].manifest})
	}
	return nil
}

// loaded completes the load of a pinned snapshot.
func (w *world) loaded() error {
	if len(w.pins) == 0 {
		return nil
	}
	s := w.pins[0]
	w.pins = w.pins[1:]
	kept, want := w.line.Loaded(s), w.model.load(s, w.now)
	w.log("%v: loaded %v: %v", w.now, s.Time, kept)
	if kept {
		w.held[s] = true
	}
	if kept != want {
		return fmt.Errorf("loaded %v: kept %v, want %v", s.Time, kept, want)
	}
	return nil
}

// drop releases the snapshots in got, which must be those that the model drops.
func (w *world) drop(got, want []*snapshot) error {
	for _, s := range got {
		if !w.held[s] || !slices.Contains(want, s) {
			return fmt.Errorf("%v is dropped", s.Time)
		}
		delete(w.held, s)
	}
	if len(got) != len(want) {
		return fmt.Errorf("%d are dropped, want %d", len(got), len(want))
	}
	return nil
}

// compare compares the snapshots that the Timeline holds with the model, and their number with its bound.
func (w *world) compare() error {
	cur, waiting := w.model.current(w.now), w.model.waiting(w.now)
	n, recent := 0, 0
	for _, s := range w.line.Held() {
		if n++; !w.held[s] || s != cur && !slices.Contains(waiting, s) && !w.model.loaded[s] {
			return fmt.Errorf("%v is held", s.Time)
		}
	}
	bound := len(waiting)
	if cur != nil {
		bound += 1 + len(cur.Retained)
	}
	for _, a := range w.model.accepted {
		if w.now.Sub(a.seen) < artifacts.MaxActivateAfter {
			recent++
		}
	}
	switch {
	case n != len(w.held) || n > bound || len(waiting) > recent:
		return fmt.Errorf(
			"%d are held, of %d that were not dropped; bound %d, %d are recent", n, len(w.held), bound, recent)
	case w.line.current != cur:
		return fmt.Errorf("current is %v, want %v", w.line.current, cur)
	case w.line.NotBefore() != w.model.notBefore:
		return fmt.Errorf("not before %v, want %v", w.line.NotBefore(), w.model.notBefore)
	case len(w.model.accepted) > 0 && w.line.Newest() != w.model.newest().s:
		return errors.New("another snapshot is the newest")
	}
	return nil
}
