package shards

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
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

// disk is a folder of whole objects under their store keys. Files appear by rename, so a
// reader sees a whole file or none. Two edges may share a folder, and either may remove a
// file that the other uses.
type disk struct {
	root     string
	limit    int64
	counters *Counters
	log      *slog.Logger
	trimming sync.Mutex
	full     atomic.Int64           // until when nothing is written, in Unix seconds
	fault    atomic.Pointer[string] // why the last write failed; nil: it did not
	chunks   atomic.Int64           // bytes of what of files is there, as far as known
}

// maxChunks bounds what of files is there if the disk copy has no bound.
const maxChunks = 1 << 30

const (
	// staleTemp is how old a temporary file must be to have no writer.
	staleTemp = time.Hour
	// fullPause is how long after a failed write nothing is written.
	fullPause = 30 * time.Second
	// trialSize is the size of the file that shows whether there is room again.
	trialSize = 64 << 10
)

func openDisk(root string, limit int64, counters *Counters, log *slog.Logger) (*disk, error) {
	d := &disk{root: root, limit: limit, counters: counters, log: log}
	if err := durable.MkdirAll(filepath.Join(root, "objects"), 0o755); err != nil {
		return nil, fmt.Errorf("cache folder: %w", err)
	}
	files, total := d.walk()
	counters.DiskBytes.Store(total)
	for _, f := range files {
		if f.chunk {
			d.chunks.Add(f.size)
		}
	}
	return d, nil
}

func (d *disk) path(ref artifacts.Ref) string { return d.pathOf(artifacts.ObjectKey(ref.Digest)) }

func (d *disk) pathOf(key artifacts.Key) string {
	return filepath.Join(d.root, filepath.FromSlash(key.String()))
}

// chunk reads what is there of files.
func (d *disk) chunk(ref artifacts.Ref) ([]byte, error) {
	b, err := os.ReadFile(d.pathOf(artifacts.FileKey(ref.Digest)))
	if err == nil {
		err = ref.Check(b)
	}
	return b, err
}

// writeChunk writes something of files, where there is room for it.
func (d *disk) writeChunk(ref artifacts.Ref, b []byte) {
	if d.limit > 0 && ref.Size > d.limit/4 || time.Now().Unix() < d.full.Load() {
		return
	}
	if err := d.replace(d.pathOf(artifacts.FileKey(ref.Digest)), b, nil); err != nil {
		d.failed(err)
		return
	}
	d.counters.DiskBytes.Add(ref.Size)
	most := int64(maxChunks)
	if d.limit > 0 {
		most = d.limit / 4
	}
	if d.chunks.Add(ref.Size) <= most {
		return
	}
	d.trimming.Lock()
	defer d.trimming.Unlock()
	files, all := d.walk()
	left := int64(0)
	files = slices.DeleteFunc(files, func(f file) bool { return !f.chunk })
	for _, f := range files {
		left += f.size
	}
	slices.SortFunc(files, func(a, b file) int {
		return cmp.Or(cmp.Compare(a.mtime, b.mtime), cmp.Compare(a.path, b.path))
	})
	for _, f := range files {
		if left <= Trimmed(most) {
			break
		}
		if err := os.Remove(f.path); err == nil {
			left, all = left-f.size, all-f.size
		}
	}
	d.chunks.Store(left)
	d.counters.DiskBytes.Store(all)
}

// has reports whether a file of the object's size is there.
func (d *disk) has(ref artifacts.Ref) bool {
	fi, err := os.Stat(d.path(ref))
	return err == nil && fi.Size() == ref.Size
}

// whole reads a file of the object's size.
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

// part reads n bytes at an offset. A file that is too short is corrupt.
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

// write reports whether the object is on disk now. It does not make the file durable: the
// digest reveals a file that a crash damaged.
func (d *disk) write(ref artifacts.Ref, b []byte, p *Pace) bool {
	if d.limit > 0 && ref.Size > d.limit || time.Now().Unix() < d.full.Load() {
		return false
	}
	err := d.replace(d.path(ref), b, p)
	if err != nil {
		d.failed(err)
		return false
	}
	d.fault.Store(nil)
	d.counters.DiskBytes.Add(ref.Size)
	return true
}

// retry writes a file of a usual size and removes it, if a write has failed and the pause is over.
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
	d.log.Warn("cache folder cannot be written; going on without it", "wait", fullPause, "err", err)
}

func (d *disk) replace(path string, b []byte, p *Pace) error {
	if err := durable.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return durable.ReplaceFile(path, &pacedReader{bytes.NewReader(b), b, p}, 0o600)
}

// pacedReader makes io.Copy write its bytes at a pace.
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
	chunk  bool // of files
	need   int  // files with less are removed first
	used   int64
}

// walk lists the objects, and removes temporary files that a crash left behind.
func (d *disk) walk() (files []file, total int64) {
	old := time.Now().Add(-staleTemp)
	_ = filepath.WalkDir(d.root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return nil // gone, or unreadable: it does not count
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
			return nil // not ours
		}
		files = append(files, file{path: path, digest: key.Digest(), size: fi.Size(), mtime: fi.ModTime().Unix(),
			chunk: key.Kind() == artifacts.FileKind})
		total += fi.Size()
		return nil
	})
	return files, total
}

// Files are needed for nothing, for less than a snapshot, or for a snapshot.
const (
	needNone = iota
	needSpare
	needAll
)

// Trimmed returns how much of a disk copy stays once it exceeds its bound. It is less than
// the bound, since every trim walks over all files.
func Trimmed(bound int64) int64 { return bound - bound/16 }

// trim removes files needed for no more than most, until the bound is met.
func (d *disk) trim(most int, of func(artifacts.Digest) (need int, used int64)) {
	d.trimming.Lock()
	defer d.trimming.Unlock()
	if d.limit <= 0 || d.counters.DiskBytes.Load() <= d.limit {
		return
	}
	to := Trimmed(d.limit)
	files, total := d.walk()
	for i := range files {
		files[i].need, files[i].used = of(files[i].digest)
	}
	slices.SortFunc(files, func(a, b file) int {
		return cmp.Or(cmp.Compare(a.need, b.need), cmp.Compare(a.used, b.used), cmp.Compare(a.mtime, b.mtime),
			cmp.Compare(a.path, b.path))
	})
	for _, f := range files {
		if total <= to || f.need > most {
			break
		}
		if err := os.Remove(f.path); err == nil {
			total -= f.size
		}
	}
	d.counters.DiskBytes.Store(total)
}
