package upkeep

import (
	"context"
	"errors"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder"
	"example.com/marketdata/builder/ledger"
	"example.com/marketdata/builder/publish"
)

// Verify reads everything that is reachable from the pointer, as artifacts.Check does. It adds to
// the report the small objects that the store has lost, and problems with its log. progress may be
// nil.
func Verify(ctx context.Context, s artifacts.Store, progress builder.Progress) (*artifacts.CheckReport, error) {
	show := func(done, total int) { progress.Show("verify", done, total) }
	report, err := artifacts.Check(ctx, s, ledger.Refs, show)
	if err != nil {
		return report, err
	}
	lost := func(err error) error {
		if errors.Is(err, publish.ErrLost) || artifacts.IsDamage(err) {
			report.Problems = append(report.Problems, err.Error())
			return nil
		}
		return err
	}
	// Check has reported damage to the head, and the loop below reports missing small objects.
	if head, err := publish.ReadHead(ctx, s); head != nil && head.Manifest != nil {
		if err := lost(err); err != nil {
			return report, err
		}
		problems, err := logProblems(ctx, s, head.Pointer, head.Manifest)
		if err != nil {
			return report, err
		}
		report.Problems = append(report.Problems, problems...)
	}
	for _, key := range smallKeys {
		if _, _, err := s.Get(ctx, key, artifacts.MaxKeySetSize); !errors.Is(err, artifacts.ErrNotFound) {
			continue // Check has read it
		}
		if err := lost(publish.CheckMissing(ctx, s, key)); err != nil {
			return report, err
		}
	}
	return report, nil
}
