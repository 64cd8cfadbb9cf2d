package builder

import (
	"context"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/files"
	"example.com/marketdata/builder/source"
	"example.com/marketdata/internal/test/buildtest"
	"example.com/marketdata/internal/test/must"
)

type (
	world = buildtest.World
	given = buildtest.Given
	fault = buildtest.Fault
)

var (
	epoch, discard                  = buildtest.Epoch, buildtest.Discard
	head, republish, verify         = buildtest.Head, buildtest.Republish, buildtest.Verify
	contents, stored, overwrite     = buildtest.Contents, buildtest.Stored, buildtest.Overwrite
	clone, copyTo, all, tap         = buildtest.Clone, buildtest.CopyTo, buildtest.All, buildtest.Tap
	everyStore, everyFault, fewPuts = buildtest.EveryStore, buildtest.EveryFault, buildtest.FewPuts
	changeRecord, ledgerRoot        = buildtest.ChangeRecord, buildtest.Ledger
	ok                              = must.OK
)

// config returns the configuration of a Builder with the command's defaults.
func config(s artifacts.Store, src source.Source) Config {
	return Config{
		Store: s, Source: src, Retain: DefaultRetain, Guards: DefaultGuards, Log: discard, Settings: buildtest.Settings,
		Files: files.Settings{Cadence: files.Build, Keep: 40 * time.Minute},
	}
}

// tryBuild builds a snapshot.
func tryBuild(ctx context.Context, s artifacts.Store, src source.Source, change ...func(*Config)) (*Report, error) {
	cfg := config(s, src)
	for _, f := range change {
		f(&cfg)
	}
	b, err := New(cfg)
	if err != nil {
		return nil, err
	}
	return b.Build(ctx, time.Time{})
}

// mustBuild builds and publishes a snapshot.
func mustBuild(t *testing.T, s artifacts.Store, src source.Source, change ...func(*Config)) *Report {
	t.Helper()
	r := must.Get(tryBuild(t.Context(), s, src, change...))(t)
	if !r.Published {
		t.Fatalf("snapshot %s was not published: %s", r.SnapshotTime, r.Reason)
	}
	return r
}
