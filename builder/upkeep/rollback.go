package upkeep

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder"
	"example.com/marketdata/builder/change"
	"example.com/marketdata/builder/ledger"
	"example.com/marketdata/builder/publish"
)

// Rollback publishes the retained snapshot at time t again, with a new sequence. The ledger keeps
// every id that was ever assigned, and loses prices, totals and groups later than t. Snapshots
// later than t are no longer retained, so edges answer requests pinned to them with 410. A snapshot
// earlier than t stays retained if the newest snapshot still retains it; otherwise its objects may
// be gone. Builds for a withdrawn time are refused (builder.ErrWithdrawn).
//
// Rollback makes the change record from the remaining totals before the pointer moves, and again
// afterwards. So once the pointer has moved, the record of the later totals is gone, even if the
// process dies, and a record that a change job writes in between is overwritten. If t is the time
// of the current snapshot, Rollback only makes the record.
func Rollback(ctx context.Context, s artifacts.Store, t time.Time, now func() time.Time) (*builder.Report, error) {
	head, err := publish.ReadHead(ctx, s)
	if err != nil {
		return nil, err
	}
	if head.Manifest == nil {
		return nil, fmt.Errorf("roll back to %s: the store holds no snapshot", publish.Stamp(t))
	}
	newest := head.Manifest
	if newest.Time.Equal(t) {
		_, err := change.Record(ctx, s, now)
		return builder.ReportOf(newest).Leave(head, "it is the current snapshot"), err
	}
	at := slices.IndexFunc(newest.Retained, func(r artifacts.Retained) bool { return r.Time.Equal(t) })
	if at < 0 {
		return nil, fmt.Errorf("roll back to %s: not retained; there are %s besides the published snapshot, %s",
			publish.Stamp(t), stamps(newest.Retained), publish.Stamp(newest.Time))
	}
	target, err := artifacts.ReadManifest(ctx, s, newest.Retained[at].Manifest)
	if err != nil {
		return nil, err
	}
	root, err := ledger.Rollback(ctx, s, newest, target)
	if err != nil {
		return nil, publish.Mendable(err)
	}
	objects, err := head.Objects(ctx, s, publish.Reached(target))
	if err != nil {
		return nil, err
	}
	// Edges could not load a snapshot with lost objects. Lost objects that the ledger names do not matter
	// to edges; the next build reports them.
	if keys := objects.Missing(&artifacts.Manifest{Views: target.Views, Ledger: target.Ledger}, nil); len(keys) > 0 {
		return nil, fmt.Errorf("roll back to %s: %d of its objects are missing from the store or truncated, such as %s; run"+
			" builder repair", publish.Stamp(t), len(keys), keys[0])
	}
	return publishAgain(ctx, s, head, newest, at, target, root, now)
}

// Shrink publishes the current snapshot again. The new manifest retains as few snapshots as a build
// with this retain setting would, so the next Collect removes the objects that only the other
// snapshots need. Shrink publishes nothing if no snapshot leaves the list.
func Shrink(ctx context.Context, s artifacts.Store, retain time.Duration, now func() time.Time,
) (*builder.Report, error) {
	head, err := publish.ReadHead(ctx, s)
	if err != nil {
		return nil, publish.Mendable(err)
	}
	if head.Manifest == nil {
		return nil, errors.New("the store holds no snapshot")
	}
	newest, target := head.Manifest, *head.Manifest
	from := newest.Time.Add(-retain)
	target.Retained = nil
	for i, ret := range newest.Retained {
		if i == 0 || !ret.Time.Before(from) {
			target.Retained = append(target.Retained, ret)
		}
	}
	if len(target.Retained) == len(newest.Retained) {
		return builder.ReportOf(newest).Leave(head, "nothing older is retained"), nil
	}
	root, err := artifacts.ReadObject(ctx, s, newest.Ledger)
	if err != nil {
		return nil, publish.Mendable(err)
	}
	return publishAgain(ctx, s, head, newest, -1, &target, root, now)
}

// publishAgain replaces the head with target and the ledger root. targetIndex is the index of
// target in newest's retained snapshots, or -1 if target is newest itself.
func publishAgain(ctx context.Context, s artifacts.Store, head *publish.Head, newest *artifacts.Manifest,
	targetIndex int, target *artifacts.Manifest, root []byte, now func() time.Time,
) (*builder.Report, error) {
	ctx, cancel := context.WithTimeout(ctx, builder.BuildDeadline)
	defer cancel()
	next := *target
	objects, err := new(publish.Head).Objects(ctx, s, nil)
	if err != nil {
		return nil, err
	}
	next.Retained = slices.Clone(newest.Retained[targetIndex+1:])
	next.Retained = slices.DeleteFunc(next.Retained,
		func(r artifacts.Retained) bool { return !slices.Contains(target.Retained, r) })
	if next.Ledger, err = objects.Put(ctx, root); err != nil {
		return nil, err
	}
	withdrawn := slices.Clone(newest.Withdrawn)
	if targetIndex >= 0 {
		withdrawn = append(withdrawn, newest.Time)
		for _, r := range newest.Retained[:targetIndex] {
			withdrawn = append(withdrawn, r.Time)
		}
	}
	publish.Withdraw(&next, withdrawn, newest.WithdrawnThrough)
	if _, err := change.RecordOf(ctx, s, now, func() (*artifacts.Manifest, *artifacts.Pointer, error) {
		return &next, head.Pointer, nil
	}); err != nil {
		return nil, err
	}
	r := builder.ReportOf(&next)
	p, err := head.Publish(ctx, objects, &next, publish.Timing{Now: now}, func(string) {})
	if err == nil {
		r.Published, r.Sequence = true, p.Sequence
	}
	r.ObjectsWritten, r.BytesWritten = objects.Written()
	_, changed := change.Record(ctx, s, now) // of the snapshot that is now published
	return r, errors.Join(err, changed)
}

// stamps lists the times of snapshots.
func stamps(list []artifacts.Retained) string {
	if len(list) == 0 {
		return "none"
	}
	var names []string
	for _, r := range list {
		names = append(names, publish.Stamp(r.Time))
	}
	return strings.Join(names, ", ")
}
