package builder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/internal/walk"
	"example.com/marketdata/builder/ledger"
	"example.com/marketdata/builder/market"
	"example.com/marketdata/builder/publish"
	"example.com/marketdata/builder/render"
	"example.com/marketdata/builder/source"
	"example.com/marketdata/internal/durable"
)

// PastFeed is a recorded feed from an earlier time.
type PastFeed struct {
	// Name identifies the feed in messages.
	Name string
	// Time is the time of the feed's snapshot: a whole multiple of ten minutes, UTC.
	Time  time.Time
	Files source.Files
}

// ReadPastFeeds lists the feeds in the folders of dir in time order, for Backfill. It ignores
// files, and folders whose names begin with a dot; any other folder that is not a feed is an error.
// If several feeds fall into the same ten minutes, only the earliest one counts (FEED.md,
// "Figures"). skipped holds the names of the others.
func ReadPastFeeds(ctx context.Context, dir string) (feeds []PastFeed, skipped []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, nil, err
	}
	type dated struct {
		PastFeed
		exact time.Time
	}
	var all []dated
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if info, err := os.Stat(path); err != nil || !info.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		files := source.FS(durable.DirFS(path))
		_, exact, err := source.ReadInfo(ctx, files)
		if err != nil {
			return nil, nil, fmt.Errorf("feed %s: %w", e.Name(), err)
		}
		t, err := snapshotTime(exact)
		if err != nil {
			return nil, nil, fmt.Errorf("feed %s: %w", e.Name(), err)
		}
		all = append(all, dated{PastFeed{Name: e.Name(), Time: t, Files: files}, exact})
	}
	slices.SortFunc(all, func(a, b dated) int {
		return cmp.Or(a.exact.Compare(b.exact), cmp.Compare(a.Name, b.Name))
	})
	for _, f := range all {
		if n := len(feeds); n > 0 && feeds[n-1].Time.Equal(f.Time) {
			skipped = append(skipped, f.Name)
			continue
		}
		feeds = append(feeds, f.PastFeed)
	}
	if len(feeds) == 0 {
		return nil, nil, fmt.Errorf("%s holds no feeds; want a folder of feed folders", dir)
	}
	return feeds, skipped, nil
}

// errNotNewer is returned wrapped in an error that names the feed and both times.
var errNotNewer = errors.New("not newer than the published snapshot")

// Backfill builds feeds that are newer than the published snapshot, in time order. Windows, the
// board and groups become what they would be if each feed had been built at its time. The newest
// feed becomes a snapshot; the ledger remembers the earlier feeds as if they had been built.
// Backfill does not use the Builder's Source. Prices from feeds older than the published snapshot
// can be added with Import.
//
// The guard rails compare each feed with its predecessor. If a guard rail stops a feed, Backfill
// keeps the earlier feeds, publishes the last of them as a snapshot, and says so in the error.
// Readers see nothing until the pointer is swapped at the end. The report is never nil.
func (b *Builder) Backfill(ctx context.Context, feeds []PastFeed) (*Report, error) {
	return b.run(func(run *build) error {
		err := run.backfill(ctx, feeds)
		if err == nil && run.report.Published {
			if err := run.kept(ctx, feeds); err != nil { // the feeds are published, so this error is not a failure
				b.Log.Warn("cannot tell how many feeds are kept", "err", err)
			}
		}
		return err
	})
}

// kept counts the feeds that the published ledger keeps.
func (b *build) kept(ctx context.Context, feeds []PastFeed) error {
	head, err := publish.ReadHead(ctx, b.Store)
	if err != nil {
		return err
	}
	root, err := ledger.ReadRoot(ctx, b.Store, head.Manifest.Ledger)
	if err != nil {
		return err
	}
	for _, f := range slices.Backward(feeds) {
		if kept, _ := root.Remembers(f.Time); kept {
			b.report.Kept++
			b.report.KeptFrom = f.Time
		}
	}
	return nil
}

func (b *build) backfill(ctx context.Context, feeds []PastFeed) (err error) {
	if len(feeds) == 0 {
		return errors.New("no feeds")
	}
	b.step(StepOpen)
	head, err := b.open(ctx)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "builder-backfill-*")
	if err != nil {
		return fmt.Errorf("cannot create a folder for intermediate results: %w: set TMPDIR to a writable folder", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	b.scratch = newScratch(b.Store, dir)

	if head.Manifest == nil || feeds[0].Time.After(head.Manifest.Time) {
		return b.backfillUpTo(ctx, head, feeds)
	}
	return b.overlap(ctx, head, feeds)
}

// stopped is the error from a guard rail that stopped a feed. feed is the feed's index.
type stopped struct {
	error
	feed int
}

func (s *stopped) Unwrap() error { return s.error }

// backfillUpTo is like backfillAfter, but if a guard rail stops a feed, it starts again with only
// the feeds that precede the stopped one.
func (b *build) backfillUpTo(ctx context.Context, head *publish.Head, feeds []PastFeed) error {
	err := b.backfillAfter(ctx, head, feeds)
	var stop *stopped
	if !errors.As(err, &stop) || !errors.Is(err, ErrGuard) || stop.feed == 0 {
		return err
	}
	b.Log.Warn("a guard rail stopped the backfill; the feeds before it are kept", "feed", feeds[stop.feed].Name, "kept",
		stop.feed)
	if err := errors.Join(b.scratch.empty(), b.blocks.empty()); err != nil {
		return err
	}
	b.report.Past, b.report.Forced = 0, nil
	if kept := b.backfillAfter(ctx, head, feeds[:stop.feed]); kept != nil {
		return errors.Join(err, fmt.Errorf("the feeds before it are not kept: %w", kept))
	}
	return fmt.Errorf("%w; the %d feeds before it are kept, the last as snapshot %s: correct that feed"+
		" or override its guard rail, and continue with a folder of the feeds from %s on",
		err, stop.feed, publish.Stamp(feeds[stop.feed-1].Time), feeds[stop.feed].Name)
}

// backfillAfter remembers all feeds except the newest, and publishes the newest.
func (b *build) backfillAfter(ctx context.Context, head *publish.Head, feeds []PastFeed) error {
	prior, err := ledger.Load(ctx, b.Store, ledgerOf(head))
	if err != nil {
		return err
	}
	newest := feeds[len(feeds)-1]
	if head.Manifest != nil {
		if err := b.mayFollow(head, newest.Time); err != nil {
			return fmt.Errorf("feed %s: %w", newest.Name, err)
		}
	}
	if err := b.beginPast(b.beforeOf(head, prior), newest.Time); err != nil {
		return err
	}
	prior, last, err := b.remember(ctx, prior, lastPublished(b.Store, head.Manifest), feeds[:len(feeds)-1])
	if err != nil {
		return err
	}
	b.step(StepRead)
	in, err := b.read(ctx, newest.Files, prior, newest.Time)
	if err != nil {
		return fmt.Errorf("feed %s: %w", newest.Name, err)
	}
	b.step(StepCompute)
	result, err := b.compute(ctx, in, prior, last)
	if err != nil {
		return &stopped{fmt.Errorf("feed %s: %w", newest.Name, err), len(feeds) - 1}
	}
	return b.publish(ctx, head, prior, in, result)
}

// overlap handles feeds that are not all newer than the head. It returns nil if this backfill has
// already been done, and an error otherwise.
func (b *build) overlap(ctx context.Context, head *publish.Head, feeds []PastFeed) error {
	newest := feeds[len(feeds)-1]
	if newest.Time.Equal(head.Manifest.Time) {
		prior, err := ledger.Load(ctx, b.Store, ledgerOf(head))
		if err != nil {
			return err
		}
		in, err := b.readFeed(ctx, newest.Files, prior, newest.Time, b.Progress)
		if err != nil {
			return fmt.Errorf("feed %s: %w", newest.Name, err)
		}
		if in.isSnapshot(head) {
			b.report.feed(in)
			b.report.Leave(head, "the newest feed's snapshot is published already")
			return nil
		}
	}
	return fmt.Errorf("feed %s of %s: %w of %s; builder import brings the prices of older feeds", feeds[0].Name,
		publish.Stamp(feeds[0].Time), errNotNewer, publish.Stamp(head.Manifest.Time))
}

// remember builds the ledger after each feed. It returns the last ledger, and the last feed for the
// next feed's guard rails.
func (b *build) remember(ctx context.Context, prior *ledger.Ledger, last *lastSnapshot, feeds []PastFeed,
) (*ledger.Ledger, *lastSnapshot, error) {
	b.step(StepPast)
	for i, f := range feeds {
		b.Progress.Show(StepPast, i, len(feeds))
		next, feed, err := b.advance(ctx, prior, last, &f)
		if err == nil {
			err = b.scratch.advance(next)
		}
		if err == nil {
			prior, err = ledger.Load(ctx, b.scratch, &b.scratch.root)
		}
		if err != nil {
			return nil, nil, &stopped{fmt.Errorf("feed %s: %w", f.Name, err), i}
		}
		last = lastFeed(f.Time, feed)
		b.report.Past++
	}
	b.Progress.Show(StepPast, len(feeds), len(feeds))
	return prior, last, nil
}

// advance returns the ledger after a feed, and the feed with ids assigned.
func (b *build) advance(ctx context.Context, prior *ledger.Ledger, last *lastSnapshot, f *PastFeed,
) (*ledger.Next, *market.Feed, error) {
	in, err := b.readFeed(ctx, f.Files, prior, f.Time, nil)
	if err != nil {
		return nil, nil, err
	}
	for _, file := range in.rows.Files {
		if file.Rejected > 0 {
			b.Log.Warn("rows set aside", "feed", f.Name, "file", file.Name,
				"rows", file.Rejected, "first", file.Rejections[0].String())
		}
	}
	result, err := b.compute(ctx, in, prior, last)
	if err != nil {
		return nil, nil, err
	}
	next, err := prior.Advance(ctx, in.feed, result, f.Time)
	if err == nil && b.before != nil {
		own, _ := next.After.Points(ctx, b.scratch, f.Time) // no error: the points are in memory
		err = b.before.Add(ctx, figures(f.Time, own, in.feed))
	}
	return next, in.feed, err
}

// beginPast prepares b.before, to which the figures of earlier feeds are added, for a snapshot at
// t. Blocks that are already complete stay in b.blocks until the snapshot is published.
func (b *build) beginPast(before []artifacts.View, t time.Time) error {
	dir := filepath.Join(b.scratch.dir, "past")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	b.blocks = newScratch(b.Store, dir)
	b.before = b.pastBuilder(before, b.blocks, func(table *render.Table) (artifacts.View, error) {
		views, pieces := render.Views(table)
		for i := range pieces {
			p := &pieces[i]
			body, first := p.Bytes()
			if err := b.blocks.put([][]byte{body}); err != nil {
				return views[0], err
			}
			views[p.View].Objects[p.Object] = artifacts.ViewObject{
				Ref: artifacts.RefOf(body), Rows: p.Rows, First: first}
		}
		return views[0], nil
	})
	b.before.Open(t)
	return nil
}

// scratch keeps the intermediate ledgers of a backfill in a local folder. Most of their objects
// serve only the next feed, and no unused object may stay in the store for longer than a build may
// take (see upkeep/README.md, "Deleting").
type scratch struct {
	artifacts.ObjectReader // for objects that are not in dir
	dir                    string
	files                  map[artifacts.Key]bool // the objects in dir
	root                   artifacts.Ref          // the root of the newest ledger
}

func newScratch(store artifacts.ObjectReader, dir string) *scratch {
	return &scratch{ObjectReader: store, dir: dir, files: map[artifacts.Key]bool{}}
}

// Get implements artifacts.ObjectReader.
func (s *scratch) Get(ctx context.Context, key artifacts.Key, limit int64) ([]byte, artifacts.Version, error) {
	if !s.files[key] {
		return s.ObjectReader.Get(ctx, key, limit)
	}
	b, err := os.ReadFile(s.file(key))
	return b, "", err
}

func (s *scratch) file(key artifacts.Key) string {
	return filepath.Join(s.dir, strings.ReplaceAll(key.String(), "/", "-"))
}

// empty removes all objects.
func (s *scratch) empty() error {
	for key := range s.files {
		if err := os.Remove(s.file(key)); err != nil {
			return err
		}
	}
	clear(s.files)
	s.root = artifacts.Ref{}
	return nil
}

// put adds objects that a future ledger will name.
func (s *scratch) put(objects [][]byte) error {
	for _, body := range objects {
		key := artifacts.ObjectKey(artifacts.Sum(body))
		if err := os.WriteFile(s.file(key), body, 0o600); err != nil {
			return err
		}
		s.files[key] = true
	}
	return nil
}

// advance adds a ledger and removes the objects that it does not name.
func (s *scratch) advance(next *ledger.Next) error {
	needed := map[artifacts.Key]bool{}
	s.root = artifacts.RefOf(next.Root)
	refs, err := ledger.Refs(next.Root)
	if err != nil {
		return err
	}
	for _, ref := range append(refs, s.root) {
		needed[artifacts.ObjectKey(ref.Digest)] = true
	}
	if err := s.put(append(next.Objects, next.Root)); err != nil {
		return err
	}
	for key := range s.files {
		if !needed[key] {
			if err := os.Remove(s.file(key)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			delete(s.files, key)
		}
	}
	return nil
}

// putPast puts into the store the objects that a ledger names and b.scratch holds.
func (b *build) putPast(ctx context.Context, objects *publish.Objects, next *ledger.Next) error {
	refs, err := ledger.Refs(next.Root)
	if err != nil {
		return err
	}
	return b.putScratch(ctx, objects, b.scratch, refs)
}

// putScratch puts into the store the objects that refs name, if the scratch folder holds them.
func (b *build) putScratch(ctx context.Context, objects *publish.Objects, from *scratch, refs []artifacts.Ref) error {
	refs = slices.DeleteFunc(refs, func(r artifacts.Ref) bool { return !from.files[artifacts.ObjectKey(r.Digest)] })
	var done atomic.Int64
	return walk.Parallel(ctx, len(refs), func(ctx context.Context, i int) error {
		// The disk may have damaged the bytes, so check them against their digests.
		body, err := artifacts.ReadObject(ctx, from, refs[i])
		if err != nil {
			return fmt.Errorf("%s: %w", from.dir, err)
		}
		_, err = objects.Put(ctx, body)
		b.Progress.Show("put past", int(done.Add(1)), len(refs))
		return err
	})
}
