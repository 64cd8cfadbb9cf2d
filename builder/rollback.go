package builder

import (
	"context"
	"fmt"
	"slices"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/ledger"
	"example.com/marketdata/builder/publish"
)

// Rollback publishes the retained snapshot of time t again as the current one,
// under a new sequence. The ledger keeps every id that was ever given out and
// loses prices, totals and groups later than t; snapshots later than t are no
// longer retained, so that pins on them are answered 410. Of the earlier ones
// those stay retained that the newest snapshot still retained: the others may
// be gone. If t is the current snapshot's time nothing is done.
func Rollback(ctx context.Context, s artifacts.Store, t time.Time, now func() time.Time) (*Report, error) {
	head, err := publish.ReadHead(ctx, s)
	if err != nil {
		return nil, err
	}
	if head.Manifest == nil {
		return nil, fmt.Errorf("roll back to %s: the store holds no snapshot", stamp(t))
	}
	newest := head.Manifest
	if newest.Time.Equal(t) {
		return reportOf(newest).leave(head, "it is the current snapshot"), nil
	}
	at := slices.IndexFunc(newest.Retained, func(r artifacts.Retained) bool { return r.Time.Equal(t) })
	if at < 0 {
		return nil, fmt.Errorf("roll back to %s: not retained; there are %s", stamp(t), stamps(newest.Retained))
	}
	target, err := artifacts.ReadManifest(ctx, s, newest.Retained[at].Manifest)
	if err != nil {
		return nil, err
	}
	root, err := ledger.Rollback(ctx, s, newest.Ledger, target.Ledger)
	if err != nil {
		return nil, mendable(err)
	}
	objects, err := head.Objects(ctx, s, publish.Reached(target))
	if err != nil {
		return nil, err
	}
	// Edges could not follow. What the ledger lacks, the next build says.
	if keys := objects.Missing(&artifacts.Manifest{Views: target.Views, Ledger: target.Ledger}, nil); len(keys) > 0 {
		return nil, fmt.Errorf("roll back to %s: %d of its objects are missing from the store, or cut, such as %s; builder repair mends it", stamp(t), len(keys), keys[0])
	}
	return publishAgain(ctx, s, head, newest, at, target, root, now)
}

// publishAgain replaces the head by target, which is newest's retained snapshot
// at, or newest itself at -1, with the ledger root.
func publishAgain(ctx context.Context, s artifacts.Store, head *publish.Head, newest *artifacts.Manifest, at int, target *artifacts.Manifest, root []byte, now func() time.Time) (*Report, error) {
	ctx, cancel := context.WithTimeout(ctx, BuildDeadline)
	defer cancel()
	next := *target
	objects, err := new(publish.Head).Objects(ctx, s, nil)
	if err != nil {
		return nil, err
	}
	next.Retained = slices.Clone(newest.Retained[at+1:])
	next.Retained = slices.DeleteFunc(next.Retained, func(r artifacts.Retained) bool { return !slices.Contains(target.Retained, r) })
	next.Withdrawn = withdrawn(newest, at, target.Time)
	if next.Ledger, err = objects.Put(ctx, root); err != nil {
		return nil, err
	}
	p, err := head.Publish(ctx, objects, &next, now(), func(string) {})
	if err != nil {
		return nil, err
	}
	r := reportOf(&next)
	r.Published, r.Sequence = true, p.Sequence
	r.ObjectsWritten, r.BytesWritten = objects.Written()
	return r, nil
}

// withdrawn lists the times later than t, ascending, that going back to t takes
// from what can be pinned: the newest snapshot, those retained between the two,
// and those that an earlier rollback took. Edges answer pins on them with 410,
// where any other later time is one that has not arrived.
func withdrawn(newest *artifacts.Manifest, at int, t time.Time) []time.Time {
	var times []time.Time
	if at >= 0 {
		times = append(times, newest.Time)
		for _, r := range newest.Retained[:at] {
			times = append(times, r.Time)
		}
	}
	times = append(times, stillWithdrawn(newest, t)...)
	slices.SortFunc(times, time.Time.Compare)
	return slices.CompactFunc(times, time.Time.Equal)
}

// stillWithdrawn returns the withdrawn times of m that are later than t.
func stillWithdrawn(m *artifacts.Manifest, t time.Time) []time.Time {
	var times []time.Time
	if m != nil {
		for _, w := range m.Withdrawn {
			if w.After(t) {
				times = append(times, w.UTC())
			}
		}
	}
	return times
}
