package shards

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/internal/durable"
)

// disk is a folder of whole objects under their store keys. Files are created by renaming, so a
// reader sees either a whole file or none. Two edges may share a folder, and either may remove a
// file that the other uses.
type disk struct {
	root     string
	limit    int64
	counters *Counters
	log      *slog.Logger
	trimming sync.Mutex
	full     atomic.Int64           // until this Unix time nothing is written
	fault    atomic.Pointer[string] // the last write's error, or nil
	chunks   atomic.Int64           // the bytes of chunks on disk, as far as known
}

// maxChunks bounds the size of the file chunks on disk, in bytes, if the disk copy has no bound.
const maxChunks = 1 << 30

const (
	// staleTemp is the age from which a temporary file counts as abandoned.
	staleTemp = time.Hour
	// fullPause is the pause after a failed write.
	fullPause = 30 * time.Second
	// trialSize is the size of the file with which retry tests whether the disk is writable.
	trialSize = 64 << 10
)

func openDisk(root string, limit int64, counters *Counters, log *slog.Logger) (*disk, error) {
	d := &disk{root: root, limit: limit, counters: counters, log: log}
	if err := durable.MkdirAll(filepath.Join(root, "objects"), 0o755); err != nil {
		return nil, fmt.Errorf("cache folder: %w", err)
	}
	_, all, chunks := d.walk()
	counters.DiskBytes.Store(all)
	d.chunks.Store(chunks)
	return d, nil
}

func (d *disk) path(ref artifacts.Ref) string { return d.pathOf(artifacts.ObjectKey(ref.Digest)) }

func (d *disk) pathOf(key artifacts.Key) string {
	return filepath.Join(d.root, filepath.FromSlash(key.String()))
}

// chunk reads and verifies a file chunk.
func (d *disk) chunk(ref artifacts.Ref) ([]byte, error) {
	b, err := os.ReadFile(d.pathOf(artifacts.FileKey(ref.Digest)))
	if err == nil {
		err = ref.Check(b)
	}
	return b, err
}

// writeChunk writes a chunk of a file, unless it is larger than a quarter of the disk copy's bound.
func (d *disk) writeChunk(ref artifacts.Ref, b []byte) {
	if d.write(artifacts.FileKey(ref.Digest), b, d.limit/4, nil) {
		d.chunks.Add(ref.Size)
	}
}

// chunkLimit returns the size limit for the chunks on disk.
func (d *disk) chunkLimit() int64 {
	if d.limit > 0 {
		return d.limit / 4
	}
	return maxChunks
}

// has reports whether the object's file exists and has the right size.
func (d *disk) has(ref artifacts.Ref) bool {
	fi, err := os.Stat(d.path(ref))
	return err == nil && fi.Size() == ref.Size
}

// whole reads the object's file, if it has the right size.
func (d *disk) whole(ref artifacts.Ref, p *Pace) ([]byte, error) {
	if !d.has(ref) {
		return nil, fs.ErrNotExist
	}
	f, err := os.Open(d.path(ref))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b := make([]byte, ref.Size)
	return b, p.blocks(b, func(b []byte) error {
		_, err := io.ReadFull(f, b)
		return err
	})
}

// part reads n bytes at an offset. If the file is too short, the error wraps artifacts.ErrCorrupt.
func (d *disk) part(ref artifacts.Ref, at, n int64) ([]byte, error) {
	f, err := os.Open(d.path(ref))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b := make([]byte, n)
	if _, err := f.ReadAt(b, at); err != nil {
		return nil, fmt.Errorf("%w: %w", artifacts.ErrCorrupt, err)
	}
	return b, nil
}

// writeObject writes the object, and reports whether it did.
func (d *disk) writeObject(ref artifacts.Ref, b []byte, p *Pace) bool {
	return d.write(artifacts.ObjectKey(ref.Digest), b, d.limit, p)
}

// write writes a file, unless it is larger than maxSize (0 means no bound), and reports whether it did. It
// does not make the file durable, because the digest reveals files that a crash damaged.
func (d *disk) write(key artifacts.Key, b []byte, maxSize int64, p *Pace) bool {
	size := int64(len(b))
	if maxSize > 0 && size > maxSize || time.Now().Unix() < d.full.Load() {
		return false
	}
	path := d.pathOf(key)
	err := durable.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = durable.ReplaceFile(path, &pacedReader{bytes.NewReader(b), b, p}, 0o600)
	}
	if err != nil {
		d.failed(err)
		return false
	}
	d.fault.Store(nil)
	d.counters.DiskBytes.Add(size)
	return true
}

// retry writes and removes a trial file, if a write has failed and the pause is over.
func (d *disk) retry() {
	if d.fault.Load() == nil || time.Now().Unix() < d.full.Load() {
		return
	}
	dir := filepath.Join(d.root, "objects")
	err := durable.MkdirAll(dir, 0o755)
	var path string
	if err == nil {
		path, err = durable.Temp(dir, bytes.NewReader(make([]byte, trialSize)), 0o600, nil)
	}
	if err == nil {
		err = os.Remove(path)
	}
	if err != nil {
		d.failed(err)
		return
	}
	d.fault.Store(nil)
}

func (d *disk) failed(err error) {
	d.counters.DiskErrors.Add(1)
	d.full.Store(time.Now().Add(fullPause).Unix())
	text := err.Error()
	d.fault.Store(&text)
	d.log.Warn("cannot write the cache folder; continuing without it", "wait", fullPause, "err", err)
}

// pacedReader makes io.Copy write its bytes in blocks, at the given pace.
type pacedReader struct {
	*bytes.Reader
	b []byte
	p *Pace
}

func (r *pacedReader) WriteTo(w io.Writer) (n int64, err error) {
	err = r.p.blocks(r.b, func(b []byte) error {
		m, err := w.Write(b)
		n += int64(m)
		return err
	})
	return n, err
}

func (d *disk) remove(ref artifacts.Ref) {
	if err := os.Remove(d.path(ref)); err == nil {
		d.counters.DiskBytes.Add(-ref.Size)
	}
}

type file struct {
	path   string
	digest artifacts.Digest
	size   int64
	mtime  int64
	chunk  bool // a chunk of a file
	need   int  // files with a lower need are removed first
	used   int64
}

// walk lists the files of objects and chunks, and returns the total number of bytes and the number of
// bytes in chunks. It removes temporary files that a crash left behind.
func (d *disk) walk() (files []file, all, chunks int64) {
	old := time.Now().Add(-staleTemp)
	_ = filepath.WalkDir(d.root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return nil // gone or unreadable, so it does not count
		}
		fi, err := e.Info()
		if err != nil {
			return nil
		}
		if strings.HasPrefix(e.Name(), durable.Prefix) {
			if fi.ModTime().Before(old) {
				_ = os.Remove(path) // the next walk tries again
			}
			return nil
		}
		rel, err := filepath.Rel(d.root, path)
		if err != nil {
			return nil
		}
		key, err := artifacts.ParseKey(filepath.ToSlash(rel))
		if err != nil || key.Kind() != artifacts.ObjectKind && key.Kind() != artifacts.FileKind {
			return nil // another program's file
		}
		f := file{path: path, digest: key.Digest(), size: fi.Size(), mtime: fi.ModTime().Unix(),
			chunk: key.Kind() == artifacts.FileKind}
		if all += f.size; f.chunk {
			chunks += f.size
		}
		files = append(files, f)
		return nil
	})
	return files, all, chunks
}

// Eviction classes: unused, history, snapshot.
const (
	needNone = iota
	needSpare
	needAll
)

// Trimmed returns the size to which a trim reduces a disk copy that exceeds the given bound. The result is less
// than the bound, because each trim visits all files and should therefore be rare.
func Trimmed(bound int64) int64 { return bound - bound/16 }

// trim reduces the disk copy to its bound by removing files whose class is not above maxClass, and reduces the
// file chunks to their bound. It removes files of lower classes first, and within each class the least recently
// used first.
func (d *disk) trim(maxClass int, usageOf func(artifacts.Digest) (need int, used int64)) {
	d.trimming.Lock()
	defer d.trimming.Unlock()
	goal := func(have, limit int64) int64 {
		if limit <= 0 || have <= limit {
			return math.MaxInt64
		}
		return Trimmed(limit)
	}
	toAll, toChunks := goal(d.counters.DiskBytes.Load(), d.limit), goal(d.chunks.Load(), d.chunkLimit())
	if toAll == math.MaxInt64 && toChunks == math.MaxInt64 {
		return
	}
	files, all, chunks := d.walk()
	for i := range files {
		files[i].need, files[i].used = usageOf(files[i].digest)
	}
	slices.SortFunc(files, func(a, b file) int {
		return cmp.Or(cmp.Compare(a.need, b.need), cmp.Compare(a.used, b.used), cmp.Compare(a.mtime, b.mtime),
			cmp.Compare(a.path, b.path))
	})
	for _, f := range files {
		if !(all > toAll && f.need <= maxClass || chunks > toChunks && f.chunk) || os.Remove(f.path) != nil {
			continue
		}
		if all -= f.size; f.chunk {
			chunks -= f.size
		}
	}
	d.counters.DiskBytes.Store(all)
	d.chunks.Store(chunks)
}
