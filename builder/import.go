package builder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/ledger"
	"example.com/marketdata/builder/market"
	"example.com/marketdata/builder/past"
	"example.com/marketdata/builder/pastrows"
	"example.com/marketdata/builder/publish"
	"example.com/marketdata/builder/render"
)

// StepPast is the step that adds prices of earlier times to the ledger and to the past blocks.
const StepPast = "past"

// ImportReport says what happened to the rows of past prices. Each row is counted once.
// pastrows.Report counts it if it is unusable, unknown, repeated or newer than the snapshot.
// Otherwise it is in one of the other counts or in a zone.
type ImportReport struct {
	pastrows.Report
	// Zones counts the accepted rows by age: up to 48 hours, up to 90 days, and older.
	Zones [len(artifacts.PastIntervals)]ImportZone `json:"zones"`
	// Same counts rows that the store already has.
	Same int `json:"same"`
	// Refused counts rows that would change a candle or price that edges may have served.
	Refused int `json:"refused"`
	// Early counts rows that are earlier than the first snapshot of their hour or day.
	Early int `json:"early"`
	// NoHistory counts rows for assets without history. Only the largest assets have history.
	NoHistory int `json:"no_history"`
	// Examples has the first row that was refused, the first that was early, and the first without
	// history, under the keys "refused", "early" and "no_history".
	Examples map[string]pastrows.Place `json:"examples,omitempty"`
	// Published reports whether the import changed the store. SnapshotTime is the time of the published
	// snapshot. The next snapshot shows the imported prices.
	Published    bool   `json:"published"`
	SnapshotTime string `json:"snapshot_time"`
	Sequence     uint64 `json:"sequence"`
	DurationMS   int64  `json:"duration_ms"`
}

// ImportZone counts the accepted rows of one age zone.
type ImportZone struct {
	// Interval says which snapshots are kept at this age: the first of each "10m", "1h" or "1d".
	Interval string `json:"interval"`
	// Kept counts rows whose price is kept at its time. Candles counts rows that only became part
	// of a candle.
	Kept    int `json:"kept"`
	Candles int `json:"candles"`
}

// ErrNoSnapshot means that the store has no snapshot, so an import does not know the assets' ids.
var ErrNoSnapshot = errors.New("the store has no snapshot: build one first, so that each asset has its id")

// ErrNoRow means that an import cannot use any of its rows. The report says why.
var ErrNoRow = errors.New("no row can be used")

// Import adds prices of earlier times to the store in one publication. The published snapshot does
// not change, and the next one has the longer history (FEED.md, "Importing a past"). files are as
// in pastrows.Read. If rewrite is set, rows replace prices that the store already has. The report
// is never nil.
func (b *Builder) Import(ctx context.Context, files []string, rewrite bool) (*ImportReport, error) {
	report := &ImportReport{Examples: map[string]pastrows.Place{}}
	for i := range report.Zones {
		report.Zones[i].Interval = artifacts.PastIntervals[i].Name
	}
	ran, err := b.run(func(run *build) error { return run.importFiles(ctx, files, rewrite, report) })
	report.Published, report.SnapshotTime, report.Sequence = ran.Published, ran.SnapshotTime, ran.Sequence
	report.DurationMS = ran.DurationMS
	return report, err
}

func (b *build) importFiles(ctx context.Context, files []string, rewrite bool, report *ImportReport) (err error) {
	b.step(StepOpen)
	head, err := b.open(ctx)
	if err != nil {
		return err
	}
	if head.Manifest == nil {
		return ErrNoSnapshot
	}
	prior, err := ledger.Load(ctx, b.Store, ledgerOf(head))
	if err != nil {
		return publish.Mendable(err)
	}
	dir, err := os.MkdirTemp("", "builder-import-*")
	if err != nil {
		return fmt.Errorf("cannot create a folder for intermediate results: %w: set TMPDIR to a writable folder", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	b.step(StepRead)
	rows, err := pastrows.Read(ctx, files, pastrows.Options{
		Known:  func(key string) (uint64, bool) { return prior.Known("assets", key) },
		Newest: head.Manifest.Time, Dir: dir,
		Progress: func(file string, read, total int64) { b.Progress.Show("read "+file, int(read), int(total)) },
	})
	if err != nil {
		return err
	}
	defer func() { report.Report = rows.Report }()
	if r := &rows.Report; r.Rows > 0 && r.Unusable+r.Unknown == r.Rows {
		return ErrNoRow
	}
	return b.put(ctx, head, func(ctx context.Context, objects *publish.Objects) error {
		before := b.beforeOf(head, prior)
		in := &bringing{build: b, objects: objects, prior: prior, T: head.Manifest.Time, before: before,
			rewrite: rewrite, report: report, rows: rows}
		if err := in.limit(ctx); err != nil {
			return err
		}
		next, err := in.bring(ctx, rows.Moments(ctx))
		if err != nil {
			return publish.Mendable(err)
		}
		if !in.changed {
			b.report.Leave(head, "the store has all of these prices")
			return nil
		}
		manifest := *head.Manifest
		root := next.Root().Encode()
		if manifest.Ledger, err = objects.Put(ctx, root); err != nil {
			return err
		}
		b.report.of(&manifest)
		return b.swap(ctx, head, objects, &manifest, root, publish.Timing{Now: b.Now})
	})
}

// beforeOf returns the past blocks that the snapshot after head extends. After an import they come
// from the ledger, and otherwise from the head.
func (b *build) beforeOf(head *publish.Head, prior *ledger.Ledger) (before []artifacts.View) {
	if imported := prior.Root().Past; imported != nil || head.Manifest == nil {
		return imported
	}
	for i := range head.Manifest.Views {
		if v := &head.Manifest.Views[i]; artifacts.IsPast(v.Collection) {
			before = append(before, *v)
		}
	}
	return before
}

// bringing is a running import. It adds prices of earlier times to a ledger and to the past blocks.
type bringing struct {
	*build
	objects *publish.Objects
	prior   *ledger.Ledger
	T       time.Time // time of the newest snapshot, which may not be built yet
	before  []artifacts.View
	rewrite bool
	// points holds the ids of the assets with history, if their number has reached the limit. If it
	// is nil, all assets have history.
	points  map[uint64]bool
	changed bool

	report *ImportReport  // nil if the import makes no report
	rows   *pastrows.Rows // where the figures come from; nil if report is nil
}

// found publishes a store's first snapshot together with the history that its source knows.
func (b *build) found(ctx context.Context, head *publish.Head, prior *ledger.Ledger, in *input) error {
	return b.put(ctx, head, func(ctx context.Context, objects *publish.Objects) error {
		if err := prior.AssignIDs(in.feed); err != nil {
			return err
		}
		b.step(StepPast)
		to := &bringing{build: b, objects: objects, prior: prior, T: in.t}
		if len(in.feed.Quotes) > b.Settings.HistoryAssets {
			to.points = map[uint64]bool{}
			ranked := market.Compute(in.feed, in.t, market.NoPast(in.feed), &b.Settings)
			for _, id := range ledger.Members(in.feed, ranked) {
				to.points[id] = true
			}
		}
		prior, err := to.bring(ctx, moments(in.past, prior, in.t))
		if err != nil {
			return err
		}
		b.step(StepCompute)
		result, err := b.compute(ctx, in, prior, nil)
		if err != nil {
			return err
		}
		return b.assemble(ctx, head, objects, prior, in, result)
	})
}

// moments returns the prices from feeds that are earlier than T, oldest first. It omits assets that
// have no id in the given ledger.
func moments(feeds iter.Seq2[*market.Feed, error], known *ledger.Ledger, T time.Time,
) iter.Seq2[pastrows.Moment, error] {
	return func(yield func(pastrows.Moment, error) bool) {
		for feed, err := range feeds {
			var m pastrows.Moment
			if err != nil {
				yield(m, err)
				return
			}
			if m.Time = feed.Time.UTC().Truncate(artifacts.Step); !m.Time.Before(T) {
				continue
			}
			for i := range feed.Quotes {
				q := &feed.Quotes[i]
				if id, ok := known.Known("assets", feed.Assets[q.Asset].Key); ok {
					m.Figures = append(m.Figures, past.Figures{ID: id, Price: q.Price, MarketCap: q.MarketCap,
						Volume: q.Volume, HasVolume: !q.Volume.IsZero()})
				}
			}
			slices.SortFunc(m.Figures, func(a, b past.Figures) int { return cmp.Compare(a.ID, b.ID) })
			m.Total = market.TotalMarketCap(feed)
			if !yield(m, nil) {
				return
			}
		}
	}
}

// limit sets in.points to the assets with history in the newest snapshot, if their number has
// reached the limit.
func (in *bringing) limit(ctx context.Context) error {
	points, err := in.prior.Root().Points(ctx, in.Store, in.T)
	if err != nil || len(points) < in.Settings.HistoryAssets {
		return err
	}
	in.points = make(map[uint64]bool, len(points))
	for i := range points {
		in.points[points[i].ID] = true
	}
	return nil
}

// bring adds moments, oldest first, and returns the resulting ledger. It sets in.changed if that
// ledger differs from in.prior.
func (in *bringing) bring(ctx context.Context, moments iter.Seq2[pastrows.Moment, error]) (*ledger.Ledger, error) {
	put := in.putter(ctx, in.objects)
	blocks := &past.Import{Rewrite: in.rewrite, Kept: in.prior.Root().Times(), Decided: in.decided,
		Builder: past.Builder{Reader: in.Store, Before: in.before,
			Put: func(table *render.Table) (artifacts.View, error) {
				in.changed = true
				return put(table)
			}}}
	blocks.Open(in.T)
	prices := &ledger.Import{Ledger: in.prior, T: in.T, Rewrite: in.rewrite, Put: func(object []byte) error {
		_, err := in.objects.Put(ctx, object)
		return err
	}}
	if err := prices.Open(); err != nil {
		return nil, err
	}
	done := 0
	for m, err := range moments {
		if err != nil {
			return nil, err
		}
		in.Progress.Show(StepPast, done, 0)
		done += len(m.Figures)
		m.Figures = in.withHistory(m.Figures)
		accepted, err := blocks.Add(ctx, m.Snapshot)
		if err != nil {
			return nil, err
		}
		if len(accepted) == 0 || !blocks.Keeps(m.Time) {
			continue
		}
		add := make([]ledger.Price, len(accepted))
		for i := range accepted {
			add[i] = ledger.Price{ID: accepted[i].ID, Price: accepted[i].Price}
		}
		if err := prices.Add(ctx, m.Time, add, m.Total); err != nil {
			return nil, err
		}
	}
	views, err := blocks.Close(ctx)
	if err != nil {
		return nil, err
	}
	in.changed = in.changed || prices.Changed
	return prices.Close(ctx, views)
}

// withHistory returns the figures of assets that have history, and counts all other figures as
// NoHistory.
func (in *bringing) withHistory(all []past.Figures) []past.Figures {
	with := all[:0:0]
	for i := range all {
		f := &all[i]
		if in.points != nil && !in.points[f.ID] || len(with) == in.Settings.HistoryAssets {
			if in.report != nil {
				in.report.NoHistory++
				in.example("no_history", f)
			}
			continue
		}
		with = append(with, *f)
	}
	return with
}

// decided counts the outcome of one row.
func (in *bringing) decided(t time.Time, f *past.Figures, o past.Outcome) {
	if in.report == nil {
		return
	}
	zone := len(artifacts.PastIntervals) - 1
	for i := range artifacts.PastIntervals[:zone] {
		if artifacts.PastIntervals[i].Keeps(in.T, t) {
			zone = i
			break
		}
	}
	switch o {
	case past.Kept:
		in.report.Zones[zone].Kept++
	case past.InCandles:
		in.report.Zones[zone].Candles++
	case past.Same:
		in.report.Same++
	case past.Refused:
		in.report.Refused++
		in.example("refused", f)
	case past.Early:
		in.report.Early++
		in.example("early", f)
	}
}

func (in *bringing) example(of string, f *past.Figures) {
	if _, had := in.report.Examples[of]; !had {
		in.report.Examples[of] = in.rows.Place(f)
	}
}
