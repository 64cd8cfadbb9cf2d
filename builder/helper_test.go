package builder

import (
	"context"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/market"
	"example.com/marketdata/builder/source"
	"example.com/marketdata/internal/lab/buildtest"
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
	ok                              = buildtest.OK
)

// config is a Builder's with the defaults of the command.
func config(s artifacts.Store, src source.Source) Config {
	floor := func(units uint64) market.U128 { return market.U128{Lo: units * 100_000_000} }
	return Config{
		Store: s, Source: src, Retain: DefaultRetain, Guards: DefaultGuards, Log: discard, Settings: market.Settings{
			TrendingMinMarketCap: floor(10_000_000), TrendingMinVolume: floor(1_000_000),
			HistoryAssets: market.DefaultHistoryAssets,
		},
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
	r, err := tryBuild(t.Context(), s, src, change...)
	ok(t, err)
	if !r.Published {
		t.Fatalf("snapshot %s was not published: %s", r.SnapshotTime, r.Reason)
	}
	return r
}
