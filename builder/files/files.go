// Package files writes the collections of a snapshot as files (FEED.md, "Files of a snapshot"): as
// Parquet, and as JSON lines compressed with zstd. It streams the files in chunks and never keeps a
// whole file in memory. It reads no clock: equal arguments produce equal bytes.
package files

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"hash"
	"io"
	"slices"
	"strings"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/internal/walk"
	"example.com/marketdata/builder/ledger"
	"example.com/marketdata/builder/market"
	"example.com/marketdata/builder/render"
	"github.com/klauspost/compress/zstd"
	pzstd "github.com/parquet-go/parquet-go/compress/zstd"
	"golang.org/x/sync/errgroup"
)

const (
	// DefaultKeep is how long file sets are kept by default. MaxKeep is the maximum.
	DefaultKeep = 30 * 24 * time.Hour
	MaxKeep     = 366 * 24 * time.Hour

	day = 24 * time.Hour
	// putting is the maximum number of chunks of a file that are put concurrently.
	putting = 4
)

// Cadence says which snapshots get files. The zero Cadence is Off.
type Cadence string

// The cadences: no snapshot, every snapshot, or the first snapshot of each hour or day, by its time
// T.
const (
	Off    Cadence = "off"
	Build  Cadence = "build"
	Hourly Cadence = "hourly"
	Daily  Cadence = "daily"
)

// due reports whether the snapshot at t gets files. last is the time of the newest snapshot with
// files, or the zero time if there is none.
func (c Cadence) due(last, t time.Time) bool {
	switch c {
	case Build:
		return true
	case Hourly:
		return last.Before(t.Truncate(time.Hour))
	case Daily:
		return last.Before(t.Truncate(day))
	}
	return false
}

// Settings say which files are written and how long they are kept.
type Settings struct {
	Cadence Cadence
	// Keep is the maximum age of a file set, or of a finished day of prices, relative to the newest
	// snapshot. Its limit is MaxKeep. 0 means DefaultKeep.
	Keep time.Duration
	// GroupRows is the number of rows in a row group of a collection's Parquet file. 0 means
	// 262,144.
	GroupRows int
	// Sign holds the keys that sign the file list.
	Sign []artifacts.SignKey
}

// Put stores an object, which is a chunk, a file list or a list of sets, and returns its reference.
type Put func(ctx context.Context, data []byte) (artifacts.Ref, error)

// Writer writes the file set of one snapshot.
type Writer struct {
	Settings
	Put    Put
	Feed   *market.Feed
	Result *market.Result
	// Sets are the file sets of the previous snapshot. The files with a day's prices are written
	// once, and each later set names them again.
	Sets *artifacts.FileSets
	// Named is the reference to Sets.
	Named artifacts.Ref
	// Last is the newest readable list in Sets, or nil if there is none.
	Last *artifacts.FileList
	// Reader reads Past and Changes: the blocks of past figures that belong to the snapshot, and
	// its days with changes. Finish needs them.
	Reader  artifacts.ObjectReader
	Past    []artifacts.View
	Changes []artifacts.View

	list  artifacts.FileList
	lz    *zstd.Encoder // for JSON lines
	codec pzstd.Codec   // for Parquet
}

// Due reports whether the snapshot gets files.
func (w *Writer) Due() bool {
	var last time.Time
	if n := len(w.Sets.Sets); n > 0 {
		last = w.Sets.Sets[n-1].Time
	}
	return w.Cadence.due(last, w.Result.T)
}

// oldest returns the time before which file sets are dropped.
func (w *Writer) oldest() time.Time { return w.Result.T.Add(-cmp.Or(w.Keep, DefaultKeep)) }

// Table writes the files of a collection from its rendered rows. It ignores tables that do not
// belong to a collection.
func (w *Writer) Table(ctx context.Context, t *render.Table) error {
	write := rowWriters[t.Collection]
	if write == nil {
		return nil
	}
	order := make([]int32, len(t.IDs))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int { return cmp.Compare(t.IDs[a], t.IDs[b]) })
	line := func(dst []byte, i int32) []byte { return append(dst, t.Rows[i]...) }
	switch t.Collection {
	case "assets":
		line = func(dst []byte, i int32) []byte {
			return append(append(dst, t.Rows[i][:len(t.Rows[i])-1]...), t.Tails[i]...)
		}
	case "quotes":
		line = func(dst []byte, i int32) []byte { return w.appendQuote(dst, t.Rows[i], i) }
	}
	return w.both(ctx, t.Collection, len(order), func(out io.Writer) error { return write(w, out, order) },
		func(dst []byte, i int) []byte { return line(dst, order[i]) })
}

// appendQuote appends a quote's row. If the asset has a rank, appendQuote inserts it after the id.
func (w *Writer) appendQuote(dst, row []byte, q int32) []byte {
	rank := w.Result.Rank[w.Feed.Quotes[q].Asset]
	if rank == 0 {
		return append(dst, row...)
	}
	head, rest, _ := strings.Cut(string(row), ",")
	return fmt.Appendf(dst, `%s,"rank":%d,%s`, head, rank, rest)
}

// both writes the Parquet and JSON files of a collection of n rows concurrently.
func (w *Writer) both(ctx context.Context, name string, n int, parquet func(io.Writer) error,
	line func(dst []byte, i int) []byte,
) error {
	lines := func(out io.Writer) error {
		if w.lz == nil {
			w.lz, _ = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
				zstd.WithWindowSize(1<<20), zstd.WithZeroFrames(true), zstd.WithSingleSegment(true))
		}
		var buf []byte
		var size int64
		for i := range n {
			buf = line(buf[:0], i)
			size += int64(len(buf)) + 1
		}
		// Decoders that take a whole file in one call, such as Python's zstandard, need the size in its header.
		if size == 0 { // in a stream, size 0 means "unknown"
			_, err := out.Write(w.lz.EncodeAll(nil, nil))
			return err
		}
		w.lz.ResetContentSize(out, size)
		for i := range n {
			buf = append(line(buf[:0], i), '\n')
			if _, err := w.lz.Write(buf); err != nil {
				return err
			}
		}
		return w.lz.Close()
	}
	var made [2]artifacts.File
	g, ctx := errgroup.WithContext(ctx)
	for i, f := range []struct {
		name, media string
		write       func(io.Writer) error
	}{{name + ".ndjson.zst", artifacts.NDJSONType, lines}, {name + ".parquet", artifacts.ParquetType, parquet}} {
		g.Go(func() (err error) {
			made[i], err = w.file(ctx, f.name, f.media, int64(n), artifacts.FileChunk, f.write)
			return err
		})
	}
	err := g.Wait()
	w.list.Items = append(w.list.Items, made[:]...)
	return err
}

// file writes one file in chunks.
func (w *Writer) file(ctx context.Context, name, media string, rows, chunk int64, write func(io.Writer) error,
) (artifacts.File, error) {
	c := &chunker{file: artifacts.File{Name: name, MediaType: media, Rows: rows, ChunkBytes: chunk},
		put: w.Put, whole: sha256.New()}
	c.group, c.ctx = errgroup.WithContext(ctx)
	c.group.SetLimit(putting)
	err := write(c)
	if err == nil {
		c.flush()
	}
	if perr := c.group.Wait(); perr != nil {
		err = perr // perr made write fail
	}
	if err != nil {
		return c.file, fmt.Errorf("file %s: %w", name, err)
	}
	for _, d := range c.digests {
		c.file.Chunks = append(c.file.Chunks, *d)
	}
	c.file.SHA256 = artifacts.Digest(c.whole.Sum(nil))
	return c.file, nil
}

// chunker cuts the bytes written to it into chunks and puts them.
type chunker struct {
	ctx     context.Context
	put     Put
	group   *errgroup.Group
	file    artifacts.File
	whole   hash.Hash
	buf     []byte
	digests []*artifacts.Digest
}

func (c *chunker) Write(b []byte) (int, error) {
	n := len(b)
	c.whole.Write(b)
	c.file.Bytes += int64(n)
	for len(b) > 0 {
		part := b[:min(len(b), int(c.file.ChunkBytes)-len(c.buf))]
		c.buf, b = append(c.buf, part...), b[len(part):]
		if len(c.buf) == int(c.file.ChunkBytes) {
			c.flush()
		}
	}
	return n, c.ctx.Err()
}

func (c *chunker) flush() {
	if len(c.buf) == 0 {
		return
	}
	data, digest := c.buf, new(artifacts.Digest)
	c.buf, c.digests = nil, append(c.digests, digest)
	c.group.Go(func() error {
		ref, err := c.put(c.ctx, data)
		*digest = ref.Digest
		return err
	})
}

// Finish writes the files that do not come from a table, and the file list. It adds the snapshot's
// files to the list of file sets, and returns the reference to that list. prior is the ledger
// before the snapshot.
func (w *Writer) Finish(ctx context.Context, prior *ledger.Ledger) (artifacts.Ref, error) {
	w.list.Format, w.list.Time = artifacts.Format, w.Result.T
	if err := w.members(ctx); err != nil {
		return artifacts.Ref{}, err
	}
	if err := w.days(ctx, prior); err != nil {
		return artifacts.Ref{}, err
	}
	slices.SortFunc(w.list.Items, func(a, b artifacts.File) int { return strings.Compare(a.Name, b.Name) })
	body := w.list.Encode(w.Sign...)
	if len(body) > artifacts.MaxFileList {
		return artifacts.Ref{}, fmt.Errorf("the list of files has %d bytes; readers take %d", len(body),
			artifacts.MaxFileList)
	}
	ref, err := w.Put(ctx, body)
	if err != nil {
		return artifacts.Ref{}, err
	}
	w.Sets.Sets = append(w.Sets.Sets, artifacts.FileSet{Time: w.Result.T, Files: ref})
	return w.Renew(ctx, true)
}

// Renew drops the sets that are too old and returns the reference to the remaining ones. It stores
// them only if a set was added or dropped.
func (w *Writer) Renew(ctx context.Context, added bool) (artifacts.Ref, error) {
	old := func(s artifacts.FileSet) bool { return s.Time.Before(w.oldest()) }
	n := len(w.Sets.Sets)
	if w.Sets.Sets = slices.DeleteFunc(w.Sets.Sets, old); n == len(w.Sets.Sets) && !added {
		return w.Named, nil
	}
	return w.Put(ctx, w.Sets.Encode())
}

// members writes the active members of the listed groups.
func (w *Writer) members(ctx context.Context) error {
	var all []member
	for k, groups := range [...][]market.Group{w.Feed.Categories, w.Feed.Chains} {
		listed := [...][]market.ListedGroup{w.Result.Categories, w.Result.Chains}[k]
		for i := range listed {
			g := &groups[listed[i].Group]
			for _, a := range g.Members {
				if asset := &w.Feed.Assets[a]; asset.Active {
					all = append(all, member{groupCollections[k], int64(g.ID), int64(asset.ID)})
				}
			}
		}
	}
	slices.SortFunc(all, member.compare)
	return w.both(ctx, "members", len(all), func(out io.Writer) error {
		return writeRows(w, out, len(all), func(row *member, i int) { *row = all[i] })
	}, func(dst []byte, i int) []byte {
		m := &all[i]
		return fmt.Appendf(dst, `{"collection":"%s","group":%d,"asset":%d}`, m.Collection, m.Group, m.Asset)
	})
}

// days lists the day files that the previous set has, and writes files for days that have ended
// since then. If repair has dropped the prices of the newest day, days writes them again.
func (w *Writer) days(ctx context.Context, prior *ledger.Ledger) error {
	t := w.Result.T
	next, oldest := t.Truncate(day).Add(-day), w.oldest()
	if w.Last != nil {
		for _, f := range w.Last.Items {
			of, err := time.Parse(dayName, f.Name)
			if err == nil {
				next = of.Add(day)
			} else if of, err = time.Parse(candlesName, f.Name); err != nil {
				if of, err = time.Parse(changesName, f.Name); err != nil {
					continue
				}
			}
			if !of.Add(day).Before(oldest) {
				w.list.Items = append(w.list.Items, f)
			}
		}
	}
	for _, d := range prior.Days(next, t) {
		if d.Add(day).Before(oldest) {
			continue
		}
		if err := w.dayFile(ctx, d.Format(dayName), func(out io.Writer) (rows int64, err error) {
			return w.writeDay(ctx, out, d, prior)
		}); err != nil {
			return err
		}
		if err := w.changes(ctx, d); err != nil {
			return err
		}
		name := d.Format(candlesName)
		if slices.ContainsFunc(w.list.Items, func(f artifacts.File) bool { return f.Name == name }) {
			continue // only the day's prices were lost
		}
		candles, err := w.candles(ctx, d)
		if err != nil {
			return err
		}
		if candles == nil {
			continue
		}
		if err := w.dayFile(ctx, name, func(out io.Writer) (rows int64, err error) {
			return int64(len(candles)), writeRows(w, out, len(candles), func(row *candle, i int) { *row = candles[i] })
		}); err != nil {
			return err
		}
	}
	return nil
}

// changes writes the changes of a day, oldest first, if it has any. It omits a damaged day.
func (w *Writer) changes(ctx context.Context, d time.Time) error {
	name := d.Format(changesName)
	if slices.ContainsFunc(w.list.Items, func(f artifacts.File) bool { return f.Name == name }) {
		return nil // only the day's prices were lost
	}
	i := slices.IndexFunc(w.Changes, func(v artifacts.View) bool { return v.Collection == artifacts.ChangesOf(d) })
	if i < 0 {
		return nil
	}
	var lines []byte
	err := walk.Rows(ctx, w.Reader, w.Changes[i].Objects, func(_ uint64, row []byte) error {
		lines = append(append(lines, artifacts.CoinItem(row)...), '\n')
		return nil
	})
	if artifacts.IsDamage(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	f, err := w.file(ctx, name, artifacts.NDJSONType, int64(w.Changes[i].Rows), artifacts.DayChunk,
		func(out io.Writer) error {
			_, err := out.Write(artifacts.Compress(nil, lines))
			return err
		})
	w.list.Items = append(w.list.Items, f)
	return err
}

// dayFile writes one of a day's files and adds it to the list.
func (w *Writer) dayFile(ctx context.Context, name string, write func(io.Writer) (rows int64, err error)) error {
	var rows int64
	f, err := w.file(ctx, name, artifacts.ParquetType, 0, artifacts.DayChunk, func(out io.Writer) (err error) {
		rows, err = write(out)
		return err
	})
	f.Rows = rows
	w.list.Items = append(w.list.Items, f)
	return err
}

const (
	dayName     = "prices/2006-01-02.parquet"
	candlesName = "candles/2006-01-02.parquet"
	changesName = "changes/2006-01-02.ndjson.zst"
)
