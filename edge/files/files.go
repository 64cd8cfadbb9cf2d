// Package files finds the files of snapshots, lists them, and reads their bytes (INTERFACE.md, "Files").
package files

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"strconv"
	"sync"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge/limit"
	"example.com/marketdata/edge/query"
	"example.com/marketdata/edge/reply"
	"example.com/marketdata/edge/rows"
	"example.com/marketdata/edge/shards"
	"example.com/marketdata/edge/snapshot"
)

// ErrNone means that the snapshot has no such file. ErrOff means that the snapshot has no files at all.
var (
	ErrNone = errors.New("no such file")
	ErrOff  = errors.New("the snapshot has no files")
)

// keptLists bounds the number of parsed lists kept in memory.
const keptLists = 8

// Files finds files of snapshots. It is safe for concurrent use.
type Files struct {
	Refresher *snapshot.Refresher
	Cache     *shards.Cache

	mu    sync.Mutex
	named artifacts.Ref // the object from which the sets below were parsed
	sets  *artifacts.FileSets
	lists []*list // most recently used first
}

// list is the list of a file set, and the body of the answer that returns it.
type list struct {
	*artifacts.FileList
	ref       artifacts.Ref
	raw, body []byte
}

// File is a file of a snapshot, or the stored list of a set.
type File struct {
	artifacts.File
	// Time is the time of the file's snapshot.
	Time time.Time
	// Tag is the file's entity tag.
	Tag    []byte
	raw    []byte // the stored list; nil if the bytes must be read in chunks
	cache  *shards.Cache
	places chan struct{} // the key's slots for fetches
}

// setsOf returns the sets of files that a snapshot names, ordered by time.
func (f *Files) setsOf(ctx context.Context, p *limit.Places, s *snapshot.Snapshot) (*artifacts.FileSets, error) {
	if s == nil || s.Files.Digest.IsZero() {
		return &artifacts.FileSets{}, nil
	}
	f.mu.Lock()
	sets := f.sets
	same := f.named == s.Files
	f.mu.Unlock()
	if same {
		return sets, nil
	}
	raw, err := f.Cache.Chunk(ctx, s.Files, p.Of(limit.Chunk))
	if err == nil {
		sets, err = artifacts.ParseFileSets(raw)
	}
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.named, f.sets = s.Files, sets
	return sets, nil
}

// listOf returns the list of files of a set.
func (f *Files) listOf(ctx context.Context, p *limit.Places, set *artifacts.FileSet) (*list, error) {
	f.mu.Lock()
	for i, l := range f.lists {
		if l.ref == set.Files {
			copy(f.lists[1:i+1], f.lists[:i])
			f.lists[0] = l
			f.mu.Unlock()
			return l, nil
		}
	}
	f.mu.Unlock()
	raw, err := f.Cache.Chunk(ctx, set.Files, p.Of(limit.Chunk))
	if err != nil {
		return nil, err
	}
	parsed, err := artifacts.ParseFileList(raw)
	if err != nil {
		return nil, err
	}
	l := &list{parsed, set.Files, raw, appendList(nil, parsed)}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lists = append([]*list{l}, f.lists[:min(len(f.lists), keptLists-1)]...)
	return l, nil
}

func appendList(dst []byte, l *artifacts.FileList) []byte {
	dst = append(dst, `{"code":0,"message":"OK","message_key":"OK","result":{"time":"`...)
	dst = append(l.Time.AppendFormat(dst, time.RFC3339), `","items":[`...)
	for i := range l.Items {
		it := &l.Items[i]
		dst = append(append(append(dst, ","[:min(i, 1)]...), `{"name":"`...), it.Name...)
		dst = strconv.AppendInt(append(dst, `","bytes":`...), it.Bytes, 10)
		dst = strconv.AppendInt(append(dst, `,"rows":`...), it.Rows, 10)
		dst = append(append(dst, `,"sha256":"`...), it.SHA256.String()...)
		dst = append(append(dst, `","media_type":"`...), it.MediaType...)
		dst = l.Time.AppendFormat(append(dst, `","url":"/at/`...), "20060102T150405Z")
		dst = append(append(append(dst, "/openapi/v1/files/"...), it.Name...), `"}`...)
	}
	return append(dst, "]}}"...)
}

// Find returns the file with the requested name. It looks in the set of the pinned snapshot or, without a
// pin, in the newest set that the current snapshot names. It returns ErrNone, ErrOff, reply.ErrUnavailable,
// or the errors of package snapshot for pins.
func (f *Files) Find(r *reply.Request, name []byte) (*File, error) {
	set, err := f.set(r)
	if err != nil {
		return nil, err
	}
	l, err := f.listOf(r.Context, r.Places, set)
	if err != nil {
		return nil, err
	}
	file := &File{Time: set.Time, cache: f.Cache, places: r.Places.Of(limit.Chunk)}
	if string(name) == artifacts.FilesJSON {
		file.raw = l.raw
		file.File = artifacts.File{Name: artifacts.FilesJSON, Bytes: int64(len(l.raw)), SHA256: set.Files.Digest,
			MediaType: "application/json"}
	} else if found := l.Find(string(name)); found != nil {
		file.File = *found
	} else {
		return nil, ErrNone
	}
	file.Tag = append(hex.AppendEncode([]byte{'"'}, file.SHA256[:]), '"')
	return file, nil
}

// set returns the file set that a request asks for. If the current snapshot does not name a pinned set, the
// method waits for the pinned snapshot, which may not have arrived here yet.
func (f *Files) set(r *reply.Request) (*artifacts.FileSet, error) {
	for asked := false; ; asked = true {
		state := f.Refresher.State()
		if state == nil {
			return nil, reply.ErrUnavailable
		}
		sets, err := f.setsOf(r.Context, r.Places, state.Snapshot)
		if err != nil {
			return nil, err
		}
		n := len(sets.Sets)
		switch set := sets.Find(r.Pin); {
		case !r.Pinned && n > 0:
			return &sets.Sets[n-1], nil
		case r.Pinned && set != nil:
			return set, nil
		case !r.Pinned:
			return nil, ErrOff
		case asked:
			return nil, ErrNone
		}
		s, err := f.Refresher.Pinned(r.Context, r.Pin)
		if err != nil {
			return nil, err
		}
		if sets, err = f.setsOf(r.Context, r.Places, s); err != nil { // the snapshot may be loaded, but not current yet
			return nil, err
		}
		if set := sets.Find(r.Pin); set != nil {
			return set, nil
		}
	}
}

// Part returns the bytes from offset "at" up to offset "to" or the end of the chunk, whichever comes first.
// The bytes are verified, and the caller must not change them. The errors are those of shards.Cache.Chunk.
func (f *File) Part(ctx context.Context, at, to int64) ([]byte, error) {
	if f.raw != nil {
		return f.raw[at:to], nil
	}
	i := at / f.ChunkBytes
	b, err := f.cache.Chunk(ctx, f.Chunk(int(i)), f.places)
	if err != nil {
		return nil, err
	}
	start := i * f.ChunkBytes
	return b[at-start : min(to-start, int64(len(b)))], nil
}

// ChunkAt returns the size of the chunk that contains the byte at an offset, and the offset at which that
// chunk ends. A stored list counts as one chunk.
func (f *File) ChunkAt(at int64) (size, end int64) {
	if f.raw != nil {
		return f.Bytes, f.Bytes
	}
	ref := f.Chunk(int(at / f.ChunkBytes))
	return ref.Size, at - at%f.ChunkBytes + ref.Size
}

// Listing composes the answer that lists the files of the newest set; see reply.Composer.
type Listing struct{ *Files }

// Name implements reply.Composer.
func (Listing) Name() string { return "files" }

// AppendKey implements reply.Composer.
func (Listing) AppendKey(dst []byte) []byte { return append(dst, "\xfefiles"...) }

// Ignored implements reply.Composer.
func (Listing) Ignored() query.Names { return nil }

// Whole implements reply.Composer.
func (Listing) Whole() bool { return false }

// FollowsChange implements reply.Composer.
func (Listing) FollowsChange() bool { return false }

// Compose implements reply.Composer.
func (l Listing) Compose(f *rows.Finder, _ *snapshot.State, s *snapshot.Snapshot, _ time.Duration) error {
	sets, err := l.setsOf(context.Background(), f.Places, s)
	if err != nil {
		return err
	}
	n := len(sets.Sets)
	if n == 0 {
		f.Body = append(f.Body, `{"code":0,"message":"OK","message_key":"OK","result":{"time":null,"items":[]}}`...)
		return nil
	}
	found, err := l.listOf(context.Background(), f.Places, &sets.Sets[n-1])
	if err == nil {
		f.Body = append(f.Body, found.body...)
	}
	return err
}

// Range returns the part [from, to) that a Range header asks for. If the header is invalid or asks for
// several parts, ok is false and the caller must ignore the header. If there is no such part, the two bounds
// are equal. The unit is case-insensitive, and the list may have empty elements (RFC 9110, 14.1 and 5.6.1.2).
func (f *File) Range(header []byte) (from, to int64, ok bool) {
	unit, spec, _ := bytes.Cut(header, []byte{'='})
	first, last, cut := bytes.Cut(bytes.Trim(spec, " 	,"), []byte{'-'})
	a, aok := query.ParseCount(first)
	b, bok := query.ParseCount(last)
	switch {
	case !bytes.EqualFold(unit, rangeUnit) || !cut,
		!aok && len(first) > 0, !bok && len(last) > 0, !aok && !bok, aok && bok && b < a:
		return 0, f.Bytes, false
	case !aok:
		return f.Bytes - min(b, f.Bytes), f.Bytes, true
	case a >= f.Bytes:
		return 0, 0, true
	case !bok:
		return a, f.Bytes, true
	}
	return a, min(b, f.Bytes-1) + 1, true
}

var rangeUnit = []byte("bytes")
