// Package files finds files of snapshots, their lists, and their bytes (INTERFACE.md, "Files").
package files

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strconv"
	"sync"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge/query"
	"example.com/marketdata/edge/reply"
	"example.com/marketdata/edge/rows"
	"example.com/marketdata/edge/shards"
	"example.com/marketdata/edge/snapshot"
)

// ErrNone: the snapshot has no such file.
var ErrNone = errors.New("no such file")

// keptLists bounds the parsed lists in memory.
const keptLists = 8

// Files reads sets and lists. It is safe for concurrent use.
type Files struct {
	Refresher *snapshot.Refresher
	Cache     *shards.Cache

	mu    sync.Mutex
	named artifacts.Ref // sets
	sets  *artifacts.FileSets
	lists []*list // the last used first
}

// list is a set's list, and the body that answers with it.
type list struct {
	*artifacts.FileList
	ref       artifacts.Ref
	raw, body []byte
}

// File is a file, or the list of its set as it is stored.
type File struct {
	artifacts.File
	// Time is its snapshot's.
	Time time.Time
	// Tag is its ETag.
	Tag   []byte
	raw   []byte // of the list; nil: read chunks
	cache *shards.Cache
	chunk []byte // the one that was read last, and its number
	held  int64
}

// setsOf returns the sets of a snapshot, by time.
func (f *Files) setsOf(s *snapshot.Snapshot) (*artifacts.FileSets, error) {
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
	b, err := f.Cache.Chunk(s.Files)
	if err == nil {
		sets, err = artifacts.ParseFileSets(b)
	}
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.named, f.sets = s.Files, sets
	return sets, nil
}

// listOf returns the list of a set.
func (f *Files) listOf(set *artifacts.FileSet) (*list, error) {
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
	b, err := f.Cache.Chunk(set.Files)
	if err != nil {
		return nil, err
	}
	parsed, err := artifacts.ParseFileList(b)
	if err != nil {
		return nil, err
	}
	l := &list{parsed, set.Files, b, appendList(nil, parsed)}
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

// Find returns the file of a request by its name: of the set of the pin, else of the newest one of
// the current snapshot. Errors are ErrNone, reply.ErrUnavailable, and those for pins of package
// snapshot.
func (f *Files) Find(r *reply.Request, name []byte) (*File, error) {
	set, err := f.set(r)
	if err != nil {
		return nil, err
	}
	l, err := f.listOf(set)
	if err != nil {
		return nil, err
	}
	file := &File{Time: set.Time, cache: f.Cache}
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

// set returns the set that a request asks for. One that the current snapshot does not name may be of
// a snapshot that has not arrived here.
func (f *Files) set(r *reply.Request) (*artifacts.FileSet, error) {
	for asked := false; ; asked = true {
		state := f.Refresher.State()
		if state == nil {
			return nil, reply.ErrUnavailable
		}
		sets, err := f.setsOf(state.Snapshot)
		if err != nil {
			return nil, err
		}
		n := len(sets.Sets)
		switch set := sets.Find(r.Pin); {
		case !r.Pinned && n > 0:
			return &sets.Sets[n-1], nil
		case r.Pinned && set != nil:
			return set, nil
		case !r.Pinned || asked:
			return nil, ErrNone
		}
		s, err := f.Refresher.Pinned(r.Context, r.Pin)
		if err != nil {
			return nil, err
		}
		if sets, err = f.setsOf(s); err != nil { // it may be loaded and not yet current
			return nil, err
		}
		if set := sets.Find(r.Pin); set != nil {
			return set, nil
		}
	}
}

// Part returns at most n bytes from an offset on, verified, from one chunk. They must not be changed.
// It keeps the chunk until it is asked for another, and is for one goroutine.
func (f *File) Part(at, n int64) ([]byte, error) {
	if f.raw != nil {
		return f.raw[at : at+min(n, f.Bytes-at)], nil
	}
	if i := at / f.ChunkBytes; f.chunk == nil || i != f.held {
		b, err := f.cache.Chunk(f.Chunk(int(i)))
		if err != nil {
			return nil, err
		}
		f.chunk, f.held = b, i
	}
	b := f.chunk[at-f.held*f.ChunkBytes:]
	return b[:min(n, int64(len(b)))], nil
}

// Held is how many bytes the file holds in memory, beside those of the list.
func (f *File) Held() int64 { return int64(len(f.chunk)) }

// Drop gives back what Part keeps, until it is called again.
func (f *File) Drop() { f.chunk = nil }

// Listing composes the answer with the newest set's files; see reply.Composer.
type Listing struct{ *Files }

// Name implements reply.Composer.
func (Listing) Name() string { return "files" }

// AppendKey implements reply.Composer.
func (Listing) AppendKey(dst []byte) []byte { return append(dst, "\xfefiles"...) }

// Source implements reply.Composer: it is not made ahead.
func (Listing) Source() []byte { return nil }

// Whole implements reply.Composer.
func (Listing) Whole() bool { return false }

// FollowsChange implements reply.Composer.
func (Listing) FollowsChange() bool { return false }

// Compose implements reply.Composer.
func (l Listing) Compose(f *rows.Finder, _ *snapshot.State, s *snapshot.Snapshot, _ time.Duration) error {
	sets, err := l.setsOf(s)
	if err != nil {
		return err
	}
	n := len(sets.Sets)
	if n == 0 {
		f.Body = append(f.Body, `{"code":0,"message":"OK","message_key":"OK","result":{"time":null,"items":[]}}`...)
		return nil
	}
	found, err := l.listOf(&sets.Sets[n-1])
	if err == nil {
		f.Body = append(f.Body, found.body...)
	}
	return err
}

// Range returns the part that a Range header asks for, [from, to). A header that asks for more
// than one, or is not valid, is ignored: ok is false then, and whole is meant. from is to where there
// is no such part.
func (f *File) Range(header []byte) (from, to int64, ok bool) {
	unit, spec, _ := bytes.Cut(header, []byte{'='})
	first, last, cut := bytes.Cut(bytes.Trim(spec, " \t"), []byte{'-'})
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
