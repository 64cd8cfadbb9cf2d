package upkeep

import (
	"context"
	"errors"
	"fmt"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/signed"
	"example.com/marketdata/builder/publish"
	"example.com/marketdata/builder/transparency"
)

// logProblems describes the problems of a store's log, one for each object if possible.
func logProblems(ctx context.Context, r artifacts.ObjectReader, p *artifacts.Pointer, m *artifacts.Manifest,
) (problems []string, err error) {
	wrong := transparency.Check(ctx, r, p, m)
	if errors.Is(wrong, transparency.ErrBehind) {
		return []string{wrong.Error()}, nil
	}
	if wrong == nil {
		return logLate(ctx, r, p, time.Now())
	}
	if publish.UnlessDamage(wrong) != nil {
		return nil, wrong
	}
	name := func(key artifacts.Key, _ []byte) error {
		problems = append(problems, "log: "+key.String()+" is missing or damaged")
		return nil
	}
	left, _, err := transparency.Mend(ctx, r, p, m, nil, name)
	for _, key := range left {
		_ = name(key, nil)
	}
	if len(problems) == 0 {
		problems = append(problems, wrong.Error())
	}
	return problems, err
}

// lateAfter is the longest time that a publication normally takes to reach the log.
const lateAfter = time.Minute

// logLate returns a problem if the published snapshot has been missing from the log for longer than
// lateAfter.
func logLate(ctx context.Context, r artifacts.ObjectReader, p *artifacts.Pointer, now time.Time,
) (problems []string, err error) {
	lacks, err := transparency.Lacks(ctx, r, p)
	if lacks && now.Sub(p.Published) > lateAfter {
		problems = append(problems, fmt.Sprintf("log: it lacks snapshot %s, since the log could not be written."+
			" The next publication or builder repair writes it, or reports why it cannot", publish.Stamp(p.Time)))
	}
	return problems, err
}

// log repairs the log of published snapshots. It stores the remaining problems in r.logLeft.
func (r *repairer) log(ctx context.Context) error {
	m, err := artifacts.ReadManifest(ctx, r.mender, r.pointer.Manifest)
	if artifacts.IsDamage(err) {
		m, err = &artifacts.Manifest{}, nil
	}
	if err == nil {
		r.logLeft, err = logProblems(ctx, r.Store, r.pointer, m)
	}
	if err != nil || len(r.logLeft) == 0 {
		return err
	}
	var copies []artifacts.ObjectReader
	for _, c := range r.From {
		copies = append(copies, c)
	}
	_, solved, err := transparency.Mend(ctx, r.Store, r.pointer, m, copies,
		func(key artifacts.Key, b []byte) error {
			r.mended = append(r.mended, Mended{key, "the rest of the log"})
			return transparency.Put(ctx, r.Store, key, b)
		})
	if err == nil && solved {
		err = r.checkpoint(ctx)
	}
	if err == nil {
		r.logLeft, err = logProblems(ctx, r.Store, r.pointer, m)
	}
	return err
}

// checkpoint replaces a lost or damaged checkpoint with a newly signed one, whose size and root
// come from the pointer.
func (r *repairer) checkpoint(ctx context.Context) error {
	if r.pointer.Log == nil || !signed.Signs(r.Store) {
		return nil
	}
	want := transparency.Checkpoint{Origin: transparency.Origin(r.pointer.Store), Tree: transparency.HeadOf(r.pointer)}
	have, version, err := transparency.ReadCheckpoint(ctx, r.Store, want.Origin)
	if err == nil && have.N >= want.N || publish.UnlessDamage(err) != nil {
		return err
	}
	if _, err := publish.DropOversized(ctx, r.Store, artifacts.CheckpointKey, err); err != nil {
		return err
	}
	r.mended = append(r.mended, Mended{artifacts.CheckpointKey, "the pointer"})
	return settle(ctx, r.Store, artifacts.CheckpointKey, version, want.Text())
}
