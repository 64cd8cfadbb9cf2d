package upkeep

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/retry"
	"example.com/marketdata/builder"
	"example.com/marketdata/builder/internal/walk"
	"example.com/marketdata/builder/publish"
	"example.com/marketdata/builder/transparency"
)

// DefaultGrace is how long gc keeps unreachable objects by default.
const DefaultGrace = time.Hour

// GCConfig configures Collect.
type GCConfig struct {
	Store artifacts.Store
	// Grace protects two kinds of objects: those that are younger than Grace by the store's clock,
	// and those that a snapshot could reach less than Grace ago. It must be longer than
	// builder.BuildDeadline if a builder may run.
	Grace time.Duration
	// DryRun makes Collect count objects without deleting any. It then uses Now, since reading the
	// store's clock requires a write.
	DryRun bool
	// Now is this machine's clock. If it is nil, time.Now is used.
	Now func() time.Time
	// Log may be nil.
	Log *slog.Logger
	// Progress may be nil.
	Progress builder.Progress
}

// GCReport says what Collect found and did.
type GCReport struct {
	// Kept counts the remaining objects and manifests, which are reachable or too young.
	Kept int `json:"kept"`
	// Deleted and DeletedBytes count the removed objects. In a dry run, they count the objects that
	// would be removed.
	Deleted      int   `json:"deleted"`
	DeletedBytes int64 `json:"deleted_bytes"`
	DryRun       bool  `json:"dry_run"`
	// Snapshot is false for a store without a snapshot, from which Collect removes only what
	// self-tests left behind.
	Snapshot bool `json:"snapshot"`
}

// Collect removes objects and manifests that are older than the grace period and that nothing
// needs: neither the published snapshot, nor a retained one, nor any manifest younger than the
// grace period. It also removes objects that a self-test of the store left behind, and partial log
// tiles that also exist as full tiles.
//
// Young manifests count for two reasons. First, slow readers may use a snapshot for a grace period
// after it has left the retained list. Second, a build that has put its manifest but has not yet
// moved the pointer must not lose anything. README.md, "Deleting", explains why Collect is safe
// during a build.
//
// From a store without a pointer, Collect removes only what self-tests left behind, since the
// pointer may have been lost.
func Collect(ctx context.Context, cfg GCConfig) (*GCReport, error) {
	c, err := newCollector(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if err := c.sweep(ctx, artifacts.ProbePrefix, func(artifacts.Key) bool { return true }); err != nil {
		return nil, err
	}
	if err := c.markYoung(ctx); err != nil {
		return nil, err
	}
	if err := c.markPublished(ctx); err != nil || !c.report.Snapshot {
		return &c.report, err
	}
	// Delete manifests before objects, so that any manifest in the store still has all its objects.
	err = c.sweepMarked(ctx, artifacts.ManifestPrefix, c.unmarked)
	// Sweep folder by folder, so that each listing is fresh when its deletions begin.
	for i := 0; i < 256 && err == nil; i++ {
		err = c.sweepMarked(ctx, fmt.Sprintf("%s%02x/", artifacts.ObjectPrefix, i), c.unmarked)
		c.Progress.Show("collect", i+1, 256)
	}
	if err == nil && c.log != nil {
		kept := c.report.Kept // Kept counts only objects
		err = c.sweepMarked(ctx, artifacts.TilePrefix, func(key artifacts.Key) bool {
			return transparency.Superseded(key, c.log.Size-1) // the last leaf may not have been written yet
		})
		c.report.Kept = kept
	}
	for i := 0; i < 16 && err == nil; i++ {
		err = c.sweepMarked(ctx, fmt.Sprintf("%s%x", artifacts.FilePrefix, i), c.unmarked)
	}
	if err != nil {
		return nil, err
	}
	c.Log.Info("collected garbage", "kept", c.report.Kept, "deleted", c.report.Deleted, "bytes", c.report.DeletedBytes,
		"dry_run", cfg.DryRun)
	return &c.report, nil
}

type collector struct {
	GCConfig
	before    time.Time // only older objects may be removed
	report    GCReport
	marked    map[artifacts.Digest]bool                // objects to keep
	manifests map[artifacts.Digest]*artifacts.Manifest // manifests whose objects are marked
	version   artifacts.Version                        // the pointer version that was marked last
	log       *artifacts.LogHead                       // the log that this pointer names
	lists     map[artifacts.Digest]bool                // file lists whose chunks are marked
	filesErr  error                                    // why a file list cannot be read, in which case all files stay
}

func newCollector(ctx context.Context, cfg GCConfig) (*collector, error) {
	c := &collector{GCConfig: cfg, report: GCReport{DryRun: cfg.DryRun}, marked: map[artifacts.Digest]bool{},
		manifests: map[artifacts.Digest]*artifacts.Manifest{}, lists: map[artifacts.Digest]bool{}}
	var now time.Time
	var err error
	switch {
	case !cfg.DryRun:
		now, err = cfg.Store.Now(ctx)
	case cfg.Now != nil:
		now = cfg.Now()
	default:
		now = time.Now()
	}
	if err != nil {
		return nil, fmt.Errorf("store's clock: %w", err)
	}
	c.before = now.Add(-cfg.Grace)
	return c, nil
}

// unmarked reports whether key belongs to a manifest or an object that nothing needs.
func (c *collector) unmarked(key artifacts.Key) bool {
	if key.Kind() == artifacts.ManifestKind {
		return c.manifests[key.Digest()] == nil
	}
	if key.Kind() == artifacts.FileKind && c.filesErr != nil {
		return false
	}
	return key.Immutable() && !c.marked[key.Digest()]
}

// markYoung marks the objects that are reachable from manifests younger than the grace period.
// Unlike the published manifest, such a manifest may name objects that no longer exist.
func (c *collector) markYoung(ctx context.Context) error {
	young, err := listManifests(ctx, c.Store, func(info artifacts.Info) bool { return !info.Modified.Before(c.before) })
	if err != nil {
		return fmt.Errorf("list manifests: %w", err)
	}
	for _, ref := range young {
		if _, err := c.mark(ctx, ref, true); err != nil && !errors.Is(err, artifacts.ErrNotFound) {
			return err
		}
	}
	return nil
}

// markPublished marks the objects that are reachable from the pointer, if it has moved since the
// last call.
func (c *collector) markPublished(ctx context.Context) error {
	b, version, err := c.Store.GetIf(ctx, artifacts.CurrentKey, c.version, artifacts.MaxPointerSize)
	switch {
	case errors.Is(err, artifacts.ErrNotModified):
		return nil
	case errors.Is(err, artifacts.ErrNotFound) && !c.report.Snapshot:
		return publish.CheckPointer(ctx, c.Store, nil, publish.Seen{})
	case err != nil:
		return fmt.Errorf("read pointer: %w", err)
	}
	p, err := artifacts.ParsePointer(b)
	if err != nil {
		return err
	}
	if _, err = c.mark(ctx, p.Manifest, true); err != nil {
		return fmt.Errorf("published snapshot: %w", err)
	}
	if err := publish.CheckPointer(ctx, c.Store, p, publish.Seen{}); err != nil {
		return err // otherwise objects reachable from the newest pointer would count as garbage
	}
	c.version, c.log, c.report.Snapshot = version, p.Log, true
	return nil
}

// mark marks the objects of a manifest. If withRetained is set, it also marks the objects of the
// snapshots that the manifest retains. It returns the manifest.
func (c *collector) mark(ctx context.Context, ref artifacts.Ref, withRetained bool) (*artifacts.Manifest, error) {
	m := c.manifests[ref.Digest]
	if m == nil {
		var err error
		if m, err = artifacts.ReadManifest(ctx, c.Store, ref); err != nil {
			return nil, err
		}
		refs, err := needs(ctx, c.Store, m)
		keep := func(ref artifacts.Ref) { c.marked[ref.Digest] = true }
		for _, ref := range refs {
			keep(ref)
		}
		if err != nil {
			return nil, err
		}
		if err := artifacts.FileRefs(ctx, c.Store, m, c.lists, keep); artifacts.IsDamage(err) {
			if c.filesErr = err; c.Log != nil {
				c.Log.Error("a list of files is damaged or missing: all files stay until no snapshot needs it", "err", err)
			}
		} else if err != nil {
			return nil, err
		}
		m.Views = nil // saves memory, since gc may read a thousand manifests
		c.manifests[ref.Digest] = m
	}
	if withRetained {
		for _, r := range m.Retained {
			if _, err := c.mark(ctx, r.Manifest, false); err != nil {
				return nil, err
			}
		}
	}
	return m, nil
}

// sweepTries is the maximum number of sweeps of a folder if deletions fail.
const sweepTries = 3

// sweepMarked marks from the pointer again and sweeps. It does not repeat a failed deletion, since
// a build may have put the object in the meantime. Instead it lists the folder again. An object
// that was put since then is young in the new listing.
func (c *collector) sweepMarked(ctx context.Context, prefix string, garbage func(key artifacts.Key) bool) error {
	for try := 1; ; try++ {
		if err := c.markPublished(ctx); err != nil {
			return err
		}
		kept := c.report.Kept
		err := c.sweep(ctx, prefix, garbage)
		if err == nil || try == sweepTries || ctx.Err() != nil {
			return err
		}
		c.report.Kept = kept
		c.Log.Warn("a deletion failed; listing the folder again", "prefix", prefix, "err", err)
	}
}

// sweep deletes garbage under prefix that is older than the grace period.
func (c *collector) sweep(ctx context.Context, prefix string, garbage func(key artifacts.Key) bool) error {
	var old []artifacts.Info
	err := c.Store.List(ctx, prefix, func(info artifacts.Info) error {
		if info.Modified.Before(c.before) && garbage(info.Key) {
			old = append(old, info)
		} else {
			c.report.Kept++
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("list %s: %w", prefix, err)
	}
	var deleted, bytes atomic.Int64
	err = walk.Parallel(ctx, len(old), func(ctx context.Context, i int) error {
		if !c.DryRun {
			if err := c.Store.Delete(retry.Once(ctx), old[i].Key); err != nil {
				return fmt.Errorf("delete %s: %w", old[i].Key, err)
			}
		}
		deleted.Add(1)
		bytes.Add(old[i].Size)
		return nil
	})
	c.report.Deleted += int(deleted.Load())
	c.report.DeletedBytes += bytes.Load()
	return err
}
