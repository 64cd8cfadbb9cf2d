package upkeep

import (
	"context"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder"
	"example.com/marketdata/builder/files"
	"example.com/marketdata/builder/source"
	"example.com/marketdata/internal/test/buildtest"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
)

type (
	world = buildtest.World
	given = buildtest.Given
	fault = buildtest.Fault
)

var (
	epoch, discard, moving            = buildtest.Epoch, buildtest.Discard, buildtest.Moving
	head, republish, verify           = buildtest.Head, buildtest.Republish, buildtest.Verify
	contents, stored, overwrite       = buildtest.Contents, buildtest.Stored, buildtest.Overwrite
	clone, all, tap                   = buildtest.Clone, buildtest.All, buildtest.Tap
	everyFault, few                   = buildtest.EveryFault, buildtest.Few
	storeWithClock                    = buildtest.StoreWithClock
	changeRecord, ledgerRoot, reached = buildtest.ChangeRecord, buildtest.Ledger, buildtest.Reached
	ok                                = must.OK
)

// rounds returns the number of rounds that a test runs: all at night (make test-long), and day
// otherwise.
func rounds(day, all int) int {
	if os.Getenv("TEST_LONG") == "1" {
		return all
	}
	return day
}

// config returns the configuration of a Builder with the command's defaults.
func config(s artifacts.Store, src source.Source) builder.Config {
	return builder.Config{
		Store: s, Source: src, Retain: builder.DefaultRetain, Guards: builder.DefaultGuards, Log: discard,
		Settings: buildtest.Settings,
		Files:    files.Settings{Cadence: files.Build, Keep: 40 * time.Minute},
	}
}

// noFiles turns files off, since files of a day's prices read the whole day.
func noFiles(cfg *builder.Config) { cfg.Files.Cadence = files.Off }

// tryBuild builds a snapshot.
func tryBuild(ctx context.Context, s artifacts.Store, src source.Source, change ...func(*builder.Config),
) (*builder.Report, error) {
	cfg := config(s, src)
	for _, f := range change {
		f(&cfg)
	}
	b, err := builder.New(cfg)
	if err != nil {
		return nil, err
	}
	return b.Build(ctx, time.Time{})
}

// mustBuild builds and publishes a snapshot.
func mustBuild(t *testing.T, s artifacts.Store, src source.Source, change ...func(*builder.Config)) *builder.Report {
	t.Helper()
	r := must.Get(tryBuild(t.Context(), s, src, change...))(t)
	if !r.Published {
		t.Fatalf("snapshot %s was not published: %s", r.SnapshotTime, r.Reason)
	}
	return r
}

// inBubble is like synctest.Test, for tests that build. The compressor's channels are made on first
// use. They must not belong to a bubble, so inBubble builds a snapshot before it starts the bubble.
func inBubble(t *testing.T, f func(t *testing.T)) {
	mustBuild(t, memstore.New(), world{Assets: 10, At: epoch})
	synctest.Test(t, f)
}

func mustBackfill(t *testing.T, s artifacts.Store, feeds []builder.PastFeed, change ...func(*builder.Config)) {
	t.Helper()
	cfg := config(s, nil)
	for _, f := range change {
		f(&cfg)
	}
	b := must.Get(builder.New(cfg))(t)
	if r, err := b.Backfill(t.Context(), feeds); err != nil || !r.Published {
		t.Fatalf("%+v, %v", r, err)
	}
}
