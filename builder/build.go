package builder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/changes"
	"example.com/marketdata/builder/files"
	"example.com/marketdata/builder/history"
	"example.com/marketdata/builder/internal/walk"
	"example.com/marketdata/builder/ledger"
	"example.com/marketdata/builder/market"
	"example.com/marketdata/builder/past"
	"example.com/marketdata/builder/publish"
	"example.com/marketdata/builder/render"
	"example.com/marketdata/builder/source"
	"github.com/holiman/uint256"
)

const (
	// BuildDeadline is the maximum time between a build's first put and the swap of the pointer.
	// Because of this limit, gc may delete objects while a build runs: see upkeep/README.md.
	BuildDeadline = 30 * time.Minute
	// DefaultRetain is how long snapshots are retained by default (INTERFACE.md, "Pinned paging").
	DefaultRetain = time.Hour
	// MaxRetain is the maximum for Config.Retain. It limits the size of the manifest.
	MaxRetain = 7 * 24 * time.Hour
)

// The steps of a build, in order. The builder logs each step as it begins.
const (
	StepOpen    = "open"    // self-test the store; read pointer, manifest and ledger
	StepRead    = "read"    // read the feed
	StepCompute = "compute" // read the ledger's prices and compute the figures
	StepObjects = "objects" // make and put rows, views and ledger
	StepHistory = "history" // make and put the history views
	StepFiles   = "files"   // write the price files and their list; only for snapshots with files
	StepDone    = "done"    // follows the steps of package publish
)

// Progress receives the progress of a long step. total is 0 while it is unknown. Several goroutines
// may call a Progress concurrently.
type Progress func(step string, done, total int)

// Show calls p, unless it is nil.
func (p Progress) Show(step string, done, total int) {
	if p != nil {
		p(step, done, total)
	}
}

// Config configures a Builder.
type Config struct {
	Store  artifacts.Store
	Source source.Source
	// Settings are the inputs of a snapshot in addition to its feed.
	Settings market.Settings
	// Retain is the maximum age of a retained snapshot relative to the newest one, from 0 to
	// MaxRetain. The previous snapshot is always retained.
	Retain time.Duration
	// ActivateAfter is the delay between a build's swap and the activation of its snapshot by
	// edges, up to artifacts.MaxActivateAfter. If it is 0, each edge activates the snapshot as soon
	// as it can.
	ActivateAfter time.Duration
	// Files says which files the Builder writes, and how long they are kept.
	Files  files.Settings
	Guards Guards
	// Notice is the snapshots' notice. If it is nil, the source's notice is used, if there is one.
	Notice *artifacts.Notice
	// Seen is the last known state of the store. Build fails if the store has gone back to an older
	// state. A Builder updates Seen at the start of each build.
	Seen publish.Seen
	Log  *slog.Logger
	// Progress may be nil.
	Progress Progress
	// Now is this machine's clock. It is used for the pointer's Published field and the guard rail
	// "ahead". If it is nil, time.Now is used.
	Now func() time.Time
}

// Builder builds snapshots from one source into one store, one at a time.
type Builder struct {
	Config
	tested bool // the store has passed its self-test
}

// New returns a Builder with the configuration cfg. It returns an error if a value in cfg is out of
// range.
func New(cfg Config) (*Builder, error) {
	if cfg.Retain < 0 || cfg.Retain > MaxRetain {
		return nil, fmt.Errorf("retain %v: want 0 to %v", cfg.Retain, MaxRetain)
	}
	if cfg.ActivateAfter < 0 || cfg.ActivateAfter > artifacts.MaxActivateAfter {
		return nil, fmt.Errorf("activate after %v: want 0 to %v", cfg.ActivateAfter, artifacts.MaxActivateAfter)
	}
	if k := cfg.Files.Keep; k < 0 || k > files.MaxKeep {
		return nil, fmt.Errorf("files keep %v: want 0 to %v", k, files.MaxKeep)
	}
	if cfg.Notice != nil {
		if err := cfg.Notice.Check(); err != nil {
			return nil, err
		}
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Builder{Config: cfg}, nil
}

// Build makes and publishes one snapshot. Its time is t, or the feed's own time if t is zero.
// Either is rounded down to ten minutes.
//
// The report is never nil. If the error is nil, either this snapshot is published, or a snapshot
// with the same time and input was already published, as the report says. Otherwise the published
// snapshot is unchanged as far as is known. The error is, or wraps, ErrGuard, ErrOlder, ErrOther,
// ErrWithdrawn or a *publish.LostError if one of those is the reason.
func (b *Builder) Build(ctx context.Context, t time.Time) (*Report, error) {
	return b.run(func(run *build) error { return run.build(ctx, t) })
}

// BuildMark works like Build for a Loop's ten-minute mark. The snapshot's time is the mark if the
// feed's time is later than the mark, or earlier by less than ten minutes (FEED.md, "Figures"). For
// an older feed, the snapshot's time is the feed's time, rounded down. If the feed's time has not
// advanced, the published snapshot stays, as the report says.
func (b *Builder) BuildMark(ctx context.Context, mark time.Time) (*Report, error) {
	return b.run(func(run *build) error {
		run.mark = mark
		return run.build(ctx, time.Time{})
	})
}

// run calls fn for a new build, and completes the build's report with the quota, steps and
// duration.
func (b *Builder) run(fn func(*build) error) (*Report, error) {
	run := &build{Builder: b, report: newReport()}
	began := time.Now()
	err := fn(run)
	if m, ok := b.Source.(source.Metered); ok {
		run.report.Quota = m.Quota()
	}
	run.step(StepDone)
	run.report.DurationMS = time.Since(began).Milliseconds()
	return run.report, err
}

// build is one run of a Builder: a Build, BuildMark, Backfill or Import.
type build struct {
	*Builder
	report  *Report
	scratch *scratch      // in a backfill: the ledgers of its earlier feeds; else nil
	before  *past.Builder // in a backfill: makes the past blocks; else nil
	blocks  *scratch
	mark    time.Time // set by BuildMark; else zero

	// current is the name of the running step, and since is when it began.
	current string
	since   time.Time
}

// input is a feed that has been read for the snapshot at time t.
type input struct {
	t      time.Time
	feed   *market.Feed
	rows   *source.Report
	digest artifacts.Digest
	past   iter.Seq2[*market.Feed, error] // the source's earlier states; only for an empty store
}

// step records that a step begins, and the duration of the previous one.
func (b *build) step(name string) {
	now := time.Now()
	if b.current != "" {
		b.report.Steps = append(b.report.Steps, StepTime{b.current, now.Sub(b.since).Milliseconds()})
	}
	b.current, b.since = name, now
	b.Log.Info("build", "step", name)
}

// build runs all steps. Readers see the result only after the last step. After any failure the old
// snapshot is still published, and the next build starts from it.
func (b *build) build(ctx context.Context, t time.Time) error {
	b.step(StepOpen)
	head, err := b.open(ctx)
	if err != nil {
		return err
	}
	prior, err := ledger.Load(ctx, b.Store, ledgerOf(head))
	if err != nil {
		return publish.Mendable(err)
	}

	b.step(StepRead)
	if r, ok := b.Source.(source.Recaller); ok {
		r.Recall(head.Manifest == nil)
	}
	var in *input
	name := "feed"
	err = source.Use(ctx, b.Source, t, func(files source.Files) (err error) {
		name = b.Source.String()
		in, err = b.read(ctx, files, prior, t)
		if r, ok := files.(source.Remembered); ok && err == nil && head.Manifest == nil {
			in.past = r.Past(ctx)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if head.Manifest != nil {
		if b.standsStill(head, in.t) {
			b.Log.Warn("the feed stands still: nothing is published", "feed", in.feed.Time, "mark", b.mark)
			b.report.Leave(head, "the feed stands still: its time is "+in.feed.Time.UTC().Format(time.RFC3339))
			return nil
		}
		if in.isSnapshot(head) {
			b.report.Leave(head, "this snapshot is published already")
			return nil
		}
		if err := b.mayFollow(head, in.t); err != nil {
			return err
		}
	}
	if in.past != nil {
		return b.found(ctx, head, prior, in)
	}
	b.step(StepCompute)
	result, err := b.compute(ctx, in, prior, lastPublished(b.Store, head.Manifest))
	if err != nil {
		return err
	}
	return b.publish(ctx, head, prior, in, result)
}

// open tests the store, once per Builder, and reads the published snapshot.
func (b *build) open(ctx context.Context) (*publish.Head, error) {
	if !b.tested {
		if err := b.Store.SelfTest(ctx); err != nil {
			return nil, fmt.Errorf("store: %w", err)
		}
		b.tested = true
	}
	head, err := publish.ReadHeadSince(ctx, b.Store, b.Seen)
	if err != nil {
		return head, publish.Mendable(err)
	}
	b.Seen = publish.Seen{}
	if p := head.Pointer; p != nil {
		b.Seen = publish.Seen{Store: p.Store, Sequence: p.Sequence}
	}
	return head, nil
}

// compute assigns ids to the feed's rows, checks the guard rails and computes all figures. previous
// is the previous snapshot, or nil if there is none.
func (b *build) compute(ctx context.Context, in *input, prior *ledger.Ledger, previous *lastSnapshot,
) (*market.Result, error) {
	if err := prior.AssignIDs(in.feed); err != nil {
		return nil, err
	}
	if err := b.guard(ctx, in, previous); err != nil {
		return nil, err
	}
	past, err := prior.Past(ctx, in.feed, in.t)
	if err != nil {
		return nil, publish.Mendable(err)
	}
	return market.Compute(in.feed, in.t, past, &b.Settings), nil
}

// publish puts the objects of a computed snapshot and publishes it.
func (b *build) publish(ctx context.Context, head *publish.Head, prior *ledger.Ledger, in *input, result *market.Result,
) error {
	return b.put(ctx, head, func(ctx context.Context, objects *publish.Objects) error {
		return b.assemble(ctx, head, objects, prior, in, result)
	})
}

// assemble does the work of publish, using the given object writer.
func (b *build) assemble(ctx context.Context, head *publish.Head, objects *publish.Objects, prior *ledger.Ledger,
	in *input, result *market.Result,
) error {
	set, err := b.files(ctx, head, objects, in.feed, result)
	if err != nil {
		return err
	}
	views, err := b.putViews(ctx, objects, in.feed, result, set)
	if err != nil {
		return err
	}
	directory := source.DirectoryDigest(in.feed, result)
	same, err := b.putDirectory(ctx, head, objects, in.feed, result, directory)
	if err != nil {
		return err
	}
	changed, about, err := b.changes(ctx, head, objects, prior, in.feed, result)
	if err != nil {
		return err
	}
	next, err := prior.Advance(ctx, in.feed, result, in.t)
	if err != nil {
		return publish.Mendable(err)
	}
	root, err := b.putLedger(ctx, objects, next)
	if err != nil {
		return err
	}
	b.step(StepHistory)
	charts, err := b.history(ctx, in.t, head.Manifest, objects, prior, next.After)
	if err != nil {
		return err
	}
	before, err := b.past(ctx, in, b.beforeOf(head, prior), objects, next.After)
	if err != nil {
		return fmt.Errorf("past: %w", err)
	}
	set.Reader, set.Past, set.Changes = b.Store, before, changed
	named, err := b.putFiles(ctx, set, prior)
	if err != nil {
		return err
	}
	manifest := &artifacts.Manifest{
		Format: artifacts.Format, Time: in.t, Database: in.feed.Database, Unicode: unicode.Version,
		Input:  in.digest,
		Counts: b.report.Counts, RowsPerShard: render.RowsPerShard, ShardsPerObject: render.ShardsPerObject,
		Views: slices.Concat(views, same, charts, before, changed), Directory: directory, Changes: about,
		Global: global(result), Retained: retained(head, in.t, b.Retain), Ledger: root, Files: named,
		Notice: b.notice(),
	}
	if m := head.Manifest; m != nil {
		publish.Withdraw(manifest, m.Withdrawn, m.WithdrawnThrough)
	}
	timing := publish.Timing{Now: b.Now, ActivateAfter: b.ActivateAfter, DataTimes: b.report.dataTimes()}
	err = b.swap(ctx, head, objects, manifest, next.Root, timing)
	var lost *publish.LostError
	if errors.As(err, &lost) && in.isSnapshot(lost.Head) {
		b.report.Leave(lost.Head, "another builder published the same snapshot first")
		return nil
	}
	return err
}

// notice returns the snapshot's notice, or nil if it has none.
func (b *Builder) notice() *artifacts.Notice {
	if src, ok := b.Source.(source.Noticed); ok && b.Notice == nil {
		return src.Notice()
	}
	return b.Notice
}

// put calls fn with an object writer for the snapshot that follows head.
func (b *build) put(ctx context.Context, head *publish.Head, fn func(context.Context, *publish.Objects) error,
) error {
	b.step(StepObjects)
	ctx, cancel := context.WithTimeout(ctx, BuildDeadline)
	defer cancel()
	objects, err := b.objects(ctx, head)
	if err != nil {
		return err
	}
	defer func() { b.report.ObjectsWritten, b.report.BytesWritten = objects.Written() }()
	return fn(ctx, objects)
}

// swap publishes a manifest whose objects have been put. root is its encoded ledger root. swap also
// reports objects that the snapshot names and the store lacks. They belong to history, so this
// build neither makes them nor needs them for its figures.
func (b *build) swap(ctx context.Context, head *publish.Head, objects *publish.Objects, m *artifacts.Manifest,
	root []byte, at publish.Timing,
) error {
	refs, err := ledger.Refs(root)
	if err != nil {
		return err
	}
	if keys := objects.Missing(m, refs); len(keys) > 0 {
		b.report.missing(keys)
		b.Log.Error("objects are missing from the store or truncated; run builder repair",
			"objects", len(keys), "first", keys[0])
	}
	pointer, err := head.Publish(ctx, objects, m, at, b.step)
	if err != nil {
		return err
	}
	b.report.Published, b.report.Sequence = true, pointer.Sequence
	if err := head.LogError; err != nil {
		b.report.LogError = err.Error()
		b.Log.Error("the snapshot is published, and its leaf is missing from the log; the next publication writes it",
			"err", err)
	}
	return nil
}

// changes makes and puts the snapshot's change views, and sets in prior the directory that the next
// ledger will hold.
func (b *build) changes(ctx context.Context, head *publish.Head, objects *publish.Objects, prior *ledger.Ledger,
	feed *market.Feed, result *market.Result,
) ([]artifacts.View, *artifacts.Changes, error) {
	c := &changes.Builder{Reader: b.Store, Head: head.Manifest, Ledger: prior, Has: objects.Has,
		Put: b.putter(ctx, objects), PutObject: func(o []byte) (artifacts.Ref, error) { return objects.Put(ctx, o) },
		Lost: func(err error) {
			b.Log.Error("cannot read the changes; the list of changes starts over", "err", err)
		}}
	return c.Views(ctx, feed, result)
}

// history makes and puts the history views for the snapshot at t. prior is the ledger before that
// snapshot, and newRoot is the ledger root that includes it. If prior follows an import, the head's
// views lack the imported prices, so history makes all views again.
func (b *build) history(ctx context.Context, t time.Time, head *artifacts.Manifest, objects *publish.Objects,
	prior *ledger.Ledger, newRoot *ledger.Root,
) ([]artifacts.View, error) {
	if prior.Root().Past != nil {
		head = nil
	}
	h := &history.Builder{
		Reader: b.Store, Head: head, Root: newRoot, Time: t, Has: objects.Has,
		Put: b.putter(ctx, objects),
	}
	if b.scratch != nil {
		h.Reader = b.scratch
	}
	return h.Views(ctx)
}

// past makes and puts the past blocks, which extend oldBlocks. newRoot is the ledger root that
// includes the snapshot.
func (b *build) past(
	ctx context.Context, in *input, oldBlocks []artifacts.View, objects *publish.Objects, newRoot *ledger.Root,
) ([]artifacts.View, error) {
	points, err := newRoot.Points(ctx, b.Store, in.t) // held in memory, so nothing is read
	if err != nil {
		return nil, err
	}
	own := figures(in.t, points, in.feed)
	if b.before == nil {
		return b.pastBuilder(oldBlocks, b.Store, b.putter(ctx, objects)).Views(ctx, own, newRoot)
	}
	views, err := b.before.Views(ctx, own, newRoot)
	if err != nil {
		return nil, err
	}
	var refs []artifacts.Ref
	for i := range views {
		for _, o := range views[i].Objects {
			refs = append(refs, o.Ref)
		}
	}
	return views, b.putScratch(ctx, objects, b.blocks, refs)
}

// pastBuilder returns a past.Builder that extends the given blocks. The past.Builder reads blocks
// from the given reader and calls put to store them.
func (b *build) pastBuilder(before []artifacts.View, from artifacts.ObjectReader,
	put func(*render.Table) (artifacts.View, error)) *past.Builder {
	return &past.Builder{Reader: from, Before: before, Put: put, Lost: func(collection string, err error) {
		b.Log.Error("cannot read a block of the past; it is replaced by an empty one", "block", collection, "err", err)
	}}
}

// figures returns the figures of the given points, for the past blocks. The points belong to the
// snapshot at t, which was made from feed.
func figures(t time.Time, points []ledger.Point, feed *market.Feed) past.Snapshot {
	s := past.Snapshot{Time: t, Figures: make([]past.Figures, len(points))}
	for i := range points {
		q := &feed.Quotes[points[i].Quote]
		s.Figures[i] = past.Figures{ID: points[i].ID, Price: q.Price, MarketCap: q.MarketCap, Volume: q.Volume,
			HasVolume: true}
	}
	return s
}

// ledgerOf returns the reference to the head's ledger, or nil if there is none.
func ledgerOf(head *publish.Head) *artifacts.Ref {
	if head.Manifest == nil {
		return nil
	}
	return &head.Manifest.Ledger
}

// read reads the feed for a snapshot and reports it. The snapshot's time is t, or the feed's own
// time if t is zero, or b.mark in the cases that BuildMark describes.
func (b *build) read(ctx context.Context, files source.Files, prior *ledger.Ledger, t time.Time) (*input, error) {
	in, err := b.readFeed(ctx, files, prior, t, b.Progress)
	if err != nil {
		return nil, err
	}
	if !b.mark.IsZero() && b.mark.Sub(in.t) < artifacts.Step {
		in.t = b.mark
	}
	if in.t, err = snapshotTime(in.t); err != nil {
		return nil, err
	}
	for _, f := range in.rows.Files {
		for _, r := range f.Rejections[:min(len(f.Rejections), maxReportedRejections)] {
			b.Log.Warn("row set aside", "file", r.File, "line", r.Line, "key", r.Key, "reason", r.Text())
		}
	}
	b.report.feed(in)
	for _, w := range b.report.Warnings {
		b.Log.Warn("feed", "warning", w)
	}
	if n := b.report.Warned - len(b.report.Warnings); n > 0 {
		b.Log.Warn("feed: builder check lists more warnings", "more", n)
	}
	return in, nil
}

// readFeed reads a feed. It sets aside rows whose given id contradicts the ledger.
func (b *build) readFeed(ctx context.Context, files source.Files, prior *ledger.Ledger, t time.Time, progress Progress,
) (*input, error) {
	feed, rows, err := source.Read(ctx, files, source.ReadOptions{
		Known: prior.Known, Owner: prior.Owner,
		Progress: func(file string, read, total int64) {
			progress.Show("read "+file, int(read), int(max(0, total)))
		},
	})
	if err != nil {
		return nil, err
	}
	if t.IsZero() {
		t = feed.Time
	}
	// The digest covers the rows as given, before ids are assigned to them.
	return &input{t: t, feed: feed, rows: rows, digest: inputDigest(feed, &b.Settings)}, nil
}

// snapshotTime rounds t down to ten minutes. It refuses times near the zero time and times that
// RFC 3339 cannot express.
func snapshotTime(t time.Time) (time.Time, error) {
	t = t.UTC().Truncate(artifacts.Step)
	if y := t.Year(); y < 2 || y > 9998 {
		return t, fmt.Errorf("snapshot time of year %d: want 2 to 9998", y)
	}
	return t, nil
}

// inputDigest returns the digest of a snapshot's input. Retain is not part of it, since it affects
// only other snapshots.
func inputDigest(f *market.Feed, set *market.Settings) artifacts.Digest {
	floor := func(u market.U128) []byte { return market.AppendDecimal(nil, u, market.MoneyDecimals) }
	of := [][]byte{floor(set.TrendingMinMarketCap), floor(set.TrendingMinVolume)}
	if n := set.HistoryAssets; n != market.DefaultHistoryAssets { // by default, the same digest as without this setting
		of = append(of, strconv.AppendInt(nil, int64(n), 10))
	}
	return source.InputDigest(f, of...)
}

// global returns the totals in the form that answers use.
func global(r *market.Result) artifacts.Global {
	total := func(u *uint256.Int) string { return string(market.AppendWide(nil, false, u, market.MoneyDecimals)) }
	return artifacts.Global{TotalMarketCap: total(&r.TotalMarketCap), TotalVolume24h: total(&r.TotalVolume),
		ActiveAssets: r.ActiveAssets}
}

// isSnapshot reports whether the head was built from this input for this time.
func (in *input) isSnapshot(head *publish.Head) bool {
	return head.Manifest != nil && head.Manifest.Time.Equal(in.t) && head.Manifest.Input == in.digest
}

// standsStill reports whether a feed that lags behind b.mark has not advanced since the head was
// built. t is the feed's time, rounded down. The head may be up to one step later than t, since a
// snapshot has the time of its mark if the feed is less than a step older. If the head is even
// later, it was built from another feed.
func (b *build) standsStill(head *publish.Head, t time.Time) bool {
	last := head.Manifest.Time
	return t.Before(b.mark) && !t.After(last) && last.Sub(t) <= artifacts.Step
}

// mayFollow returns an error if t is not later than the head's time, or was withdrawn.
func (b *build) mayFollow(head *publish.Head, t time.Time) error {
	switch last := head.Manifest.Time; {
	case t.Before(last) && Ahead(last, b.clock()) != nil:
		return fmt.Errorf("snapshot %s: %w, %s, which lies in the future; roll it back with builder rollback",
			publish.Stamp(t), ErrOlder, publish.Stamp(last))
	case t.Before(last):
		return fmt.Errorf("snapshot %s: %w, %s; build again from %s on", publish.Stamp(t), ErrOlder,
			publish.Stamp(last), publish.Stamp(last.Add(artifacts.Step)))
	case t.Equal(last):
		next, wait := t.Add(artifacts.Step), ""
		if Ahead(next, b.clock()) != nil { // the guard rail "ahead" would stop it
			wait = ", from " + publish.Stamp(t) + " on"
		}
		return fmt.Errorf("snapshot %s: %w; a snapshot cannot be replaced: publish the correction with the next time, --time"+
			" %s%s; until then, builder rollback publishes the previous snapshot again",
			publish.Stamp(t), ErrOther, publish.Stamp(next), wait)
	case !t.After(head.Manifest.WithdrawnThrough):
		return fmt.Errorf("snapshot %s: %w than %s: a restore cannot tell what was published before",
			publish.Stamp(t), ErrWithdrawn, publish.Stamp(head.Manifest.WithdrawnThrough))
	case head.Manifest.IsWithdrawn(t):
		return fmt.Errorf("snapshot %s: %w", publish.Stamp(t), ErrWithdrawn)
	}
	return nil
}

// clock returns the store's time if the store's responses include it, and this machine's time
// otherwise.
func (b *build) clock() time.Time {
	skew, _ := artifacts.SkewOf(b.Store)
	return b.Now().Add(-skew)
}

// guard checks the feed against the guard rails. previous is the previous snapshot, or nil if there
// is none. If that snapshot is damaged, guard skips the comparison and reports this, since a new
// snapshot repairs the service.
func (b *build) guard(ctx context.Context, in *input, previous *lastSnapshot) error {
	stops, err := b.Guards.check(ctx, in, previous)
	if err != nil && !artifacts.IsDamage(err) {
		return err
	}
	if err := Ahead(in.t, b.clock()); err != nil {
		stops = append(stops, err)
	}
	if left := slices.DeleteFunc(slices.Clone(stops), b.Guards.overrides); len(left) > 0 {
		return errors.Join(left...)
	}
	if err != nil {
		stops = append(stops, err)
	}
	for _, e := range stops {
		b.Log.Warn("a guard rail is overridden", "err", e)
		b.report.Forced = append(b.report.Forced, e.Error())
	}
	return nil
}

// putViews makes and puts the objects of all views, and returns the views.
func (b *build) putViews(ctx context.Context, objects *publish.Objects, feed *market.Feed, result *market.Result,
	set *files.Writer,
) ([]artifacts.View, error) {
	var all []artifacts.View
	for table := range render.Tables(feed, result) {
		views, err := b.putTable(ctx, objects, table)
		if err == nil && set.Due() {
			err = set.Table(ctx, table)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, views...)
	}
	return all, nil
}

// putDirectory returns the views of render.Directory. directoryDigest is the digest of their input.
// If the head's views were made from the same input and the store has their objects, it returns the
// head's views. Otherwise it makes and puts new ones.
func (b *build) putDirectory(ctx context.Context, head *publish.Head, objects *publish.Objects, feed *market.Feed,
	result *market.Result, directoryDigest artifacts.Digest,
) (all []artifacts.View, err error) {
	if m := head.Manifest; m != nil && m.Directory == directoryDigest {
		for i := range m.Views {
			if v := &m.Views[i]; artifacts.IsDirectory(v.Collection) {
				all = append(all, *v)
			}
		}
		if objects.HasAll(all) {
			return all, nil
		}
		all = nil
	}
	for table := range render.Directory(feed, result) {
		views, err := b.putTable(ctx, objects, table)
		if err != nil {
			return nil, err
		}
		all = append(all, views...)
	}
	return all, nil
}

// putTable makes and puts the objects of a table's views, and returns the views.
func (b *build) putTable(ctx context.Context, objects *publish.Objects, t *render.Table) ([]artifacts.View, error) {
	views, pieces := render.Views(t)
	return views, b.putPieces(ctx, objects, t.Collection, views, pieces)
}

// putter returns a function that makes and puts the objects of a table with one view, and returns
// that view.
func (b *build) putter(ctx context.Context, objects *publish.Objects) func(*render.Table) (artifacts.View, error) {
	return func(t *render.Table) (artifacts.View, error) {
		views, err := b.putTable(ctx, objects, t)
		return views[0], err
	}
}

// files returns the writer for the snapshot's files. If the list of file sets is damaged, it starts
// a new list, since a build must not fail because of files.
func (b *build) files(ctx context.Context, head *publish.Head, objects *publish.Objects, feed *market.Feed,
	result *market.Result,
) (*files.Writer, error) {
	w := &files.Writer{Settings: b.Files, Put: objects.PutFile, Feed: feed, Result: result,
		Sets: &artifacts.FileSets{Format: artifacts.Format}}
	if head.Manifest == nil {
		return w, nil
	}
	sets, err := artifacts.ReadFileSets(ctx, b.Store, head.Manifest)
	if err == nil {
		w.Sets, w.Named = sets, head.Manifest.Files
		for i := len(sets.Sets) - 1; i >= 0 && w.Last == nil && publish.UnlessDamage(err) == nil && w.Due(); i-- {
			last, _, lerr := artifacts.ReadFileList(ctx, b.Store, &sets.Sets[i])
			if err = cmp.Or(lerr, err); lerr == nil {
				w.Last = last
			}
		}
	}
	if artifacts.IsDamage(err) {
		b.Log.Error("a list of files is damaged or missing; run builder repair", "err", err)
	}
	return w, publish.UnlessDamage(err)
}

// putFiles completes the file set, if the snapshot gets one, and returns the reference to the list
// of sets.
func (b *build) putFiles(ctx context.Context, set *files.Writer, prior *ledger.Ledger) (artifacts.Ref, error) {
	if !set.Due() {
		return set.Renew(ctx, false)
	}
	b.step(StepFiles)
	ref, err := set.Finish(ctx, prior)
	return ref, publish.Mendable(err)
}

// putPieces makes and puts objects, and sets their references in the views.
func (b *build) putPieces(
	ctx context.Context, objects *publish.Objects, collection string, views []artifacts.View, pieces []render.Piece,
) error {
	var done atomic.Int64
	what, _, _ := strings.Cut(collection, "/") // all history blocks share one name
	return walk.Parallel(ctx, len(pieces), func(ctx context.Context, i int) error {
		p := &pieces[i]
		body, first := p.Bytes()
		ref, err := objects.Put(ctx, body)
		if err != nil {
			return err
		}
		views[p.View].Objects[p.Object] = artifacts.ViewObject{Ref: ref, Rows: p.Rows, First: first}
		b.Progress.Show("put "+what, int(done.Add(1)), len(pieces))
		return nil
	})
}

// putLedger puts the ledger after the snapshot and returns the reference to its root.
func (b *build) putLedger(ctx context.Context, objects *publish.Objects, next *ledger.Next) (artifacts.Ref, error) {
	if b.scratch != nil {
		if err := b.putPast(ctx, objects, next); err != nil {
			return artifacts.Ref{}, err
		}
	}
	err := walk.Parallel(ctx, len(next.Objects), func(ctx context.Context, i int) error {
		_, err := objects.Put(ctx, next.Objects[i])
		return err
	})
	if err != nil {
		return artifacts.Ref{}, err
	}
	return objects.Put(ctx, next.Root)
}

// objects returns the object writer for the snapshot that follows head.
func (b *build) objects(ctx context.Context, head *publish.Head) (*publish.Objects, error) {
	var named []artifacts.Ref
	if head.Manifest != nil {
		root, err := ledger.ReadRoot(ctx, b.Store, head.Manifest.Ledger)
		if err != nil {
			return nil, publish.Mendable(err)
		}
		named = root.Refs()
	}
	return head.Objects(ctx, b.Store, named)
}

// retained lists the earlier snapshots that clients can pin: the previous one, and all snapshots
// that are older than t by at most retain.
func retained(head *publish.Head, t time.Time, retain time.Duration) []artifacts.Retained {
	list := []artifacts.Retained{}
	if head.Manifest == nil {
		return list
	}
	list = append(list, artifacts.Retained{Time: head.Manifest.Time, Manifest: head.Pointer.Manifest})
	for _, r := range head.Manifest.Retained {
		if t.Sub(r.Time) <= retain {
			list = append(list, r)
		}
	}
	return list
}
