package artifacts

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"time"
)

const (
	// FilesJSON is the file name under which clients get the list of a set. The list is signed
	// under the same name.
	FilesJSON = "files.json"
	// FileChunk is the size of a file's chunks in bytes. DayChunk is the size for the daily price
	// files, which are larger.
	FileChunk = 1 << 20
	DayChunk  = 2 << 20
	// MaxFileList is the maximum size of a set's list, in bytes.
	MaxFileList = 4 << 20

	maxFiles = 2000 // in a set
)

// The media types of files.
const (
	ParquetType = "application/vnd.apache.parquet"
	NDJSONType  = "application/zstd"
)

// FileSets lists the sets of files that are kept, in ascending order of time.
type FileSets struct {
	Format int       `json:"format"`
	Sets   []FileSet `json:"sets"`
}

// FileSet names the list of the files that were written for the snapshot of a given time.
type FileSet struct {
	Time  time.Time `json:"time"`
	Files Ref       `json:"files"`
}

// FileList lists the files of a set. Clients get it as FilesJSON, with its signatures.
type FileList struct {
	Format int       `json:"format"`
	Time   time.Time `json:"time"`
	Items  []File    `json:"items"`
}

// File is a file of a set.
type File struct {
	// Name is unique in the set, for example quotes.parquet or prices/2026-11-22.parquet.
	Name      string `json:"name"`
	Bytes     int64  `json:"bytes"`
	Rows      int64  `json:"rows"`
	SHA256    Digest `json:"sha256"`
	MediaType string `json:"media_type"`
	// The file is the concatenation of its chunks. All chunks but the last have ChunkBytes bytes.
	ChunkBytes int64    `json:"chunk_bytes"`
	Chunks     []Digest `json:"chunks"`
}

var fileName = regexp.MustCompile(`^([a-z]+/)?[a-z0-9-]{1,64}\.(parquet|ndjson\.zst)$`)

// Chunk returns the reference of chunk i of the file.
func (f *File) Chunk(i int) Ref {
	return Ref{f.Chunks[i], min(f.ChunkBytes, f.Bytes-int64(i)*f.ChunkBytes)}
}

// Whole reports whether isMissing returns false for every chunk.
func (f *File) Whole(isMissing func(Ref) bool) bool {
	for i := range f.Chunks {
		if isMissing(f.Chunk(i)) {
			return false
		}
	}
	return true
}

func (f *File) check() error {
	switch {
	case !fileName.MatchString(f.Name):
		return fmt.Errorf("name %.80q", f.Name)
	case f.Bytes < 1 || f.Rows < 0 || f.SHA256.IsZero() || f.ChunkBytes < 1 || f.ChunkBytes > MaxObjectSize,
		int64(len(f.Chunks)) != (f.Bytes-1)/f.ChunkBytes+1:
		return fmt.Errorf("%s: %d chunks of %d bytes for %d", f.Name, len(f.Chunks), f.ChunkBytes, f.Bytes)
	}
	return nil
}

// Find returns the file with the given name, or nil.
func (l *FileList) Find(name string) *File {
	for i := range l.Items {
		if l.Items[i].Name == name {
			return &l.Items[i]
		}
	}
	return nil
}

// Find returns the set of the snapshot at t, or nil.
func (s *FileSets) Find(t time.Time) *FileSet {
	i, ok := slices.BinarySearchFunc(s.Sets, t, func(a FileSet, t time.Time) int { return a.Time.Compare(t) })
	if !ok {
		return nil
	}
	return &s.Sets[i]
}

// Encode returns the stored form of s.
func (s *FileSets) Encode() []byte { return encodeLine(s) }

// Encode returns the stored form of l, signed by each of keys.
func (l *FileList) Encode(keys ...SignKey) []byte {
	return Sign(MustKey(FilesJSON), encodeLine(l), keys...)
}

func encodeLine(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("BUG: files: " + err.Error())
	}
	return append(b, '\n')
}

// ParseFileSets parses the stored form of FileSets. It returns ErrFormat for a newer format and
// ErrCorrupt for any other fault.
func ParseFileSets(b []byte) (*FileSets, error) {
	var s FileSets
	if err := ParseFormat("sets of files", b, &s); err != nil {
		return nil, err
	}
	for i := range s.Sets {
		set := &s.Sets[i]
		err := checkSnapshotTime(&set.Time)
		if err == nil && (i > 0 && !s.Sets[i-1].Time.Before(set.Time) || set.Files.Digest.IsZero() ||
			set.Files.Size < 1 || set.Files.Size > MaxFileList) {
			err = fmt.Errorf("set of %v is out of order, or its list has %d bytes", set.Time, set.Files.Size)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: sets of files: %w", ErrCorrupt, err)
		}
	}
	return &s, nil
}

// ParseFileList parses the stored form of a FileList. It ignores signatures, which Trust.Verify
// checks.
func ParseFileList(b []byte) (*FileList, error) {
	var l FileList
	if err := ParseFormat(FilesJSON, Unsigned(b), &l); err != nil {
		return nil, err
	}
	err := checkSnapshotTime(&l.Time)
	if err == nil && len(l.Items) > maxFiles {
		err = fmt.Errorf("%d files, at most %d are read", len(l.Items), maxFiles)
	}
	seen := map[string]bool{}
	for i := range l.Items {
		if err == nil {
			err = l.Items[i].check()
		}
		if name := l.Items[i].Name; err == nil && seen[name] {
			err = fmt.Errorf("%s is listed twice", name)
		}
		seen[l.Items[i].Name] = true
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrCorrupt, FilesJSON, err)
	}
	return &l, nil
}

// ReadFileSets reads and checks the sets that a manifest names. It returns an empty FileSets if the
// manifest names none.
func ReadFileSets(ctx context.Context, r ObjectReader, m *Manifest) (*FileSets, error) {
	if m.Files.Digest.IsZero() {
		return &FileSets{Format: Format}, nil
	}
	b, err := ReadFile(ctx, r, m.Files)
	if err != nil {
		return nil, err
	}
	return ParseFileSets(b)
}

// ReadFileList reads and checks the list of a set. It also returns the list's bytes.
func ReadFileList(ctx context.Context, r ObjectReader, set *FileSet) (*FileList, []byte, error) {
	b, err := ReadFile(ctx, r, set.Files)
	if err != nil {
		return nil, nil, err
	}
	l, err := ParseFileList(b)
	if err == nil && !l.Time.Equal(set.Time) {
		err = fmt.Errorf("%w: %s of %v, want %v", ErrCorrupt, FilesJSON, l.Time, set.Time)
	}
	return l, b, err
}

// ReadFile reads and checks an object under FilePrefix.
func ReadFile(ctx context.Context, r ObjectReader, ref Ref) ([]byte, error) {
	return read(ctx, r, FileKey(ref.Digest), ref)
}

// FileRefs calls f for each object under FilePrefix that is reachable from a manifest: the object
// that lists the sets, each set's list, and each chunk. It calls f several times for a chunk that
// occurs several times. It skips lists whose digests are in seenLists, together with their chunks,
// and adds the digests of the others to it; if seenLists is nil, it reads all lists. It continues
// after a damaged list, and at the end returns the error for the first one.
func FileRefs(ctx context.Context, r ObjectReader, m *Manifest, seenLists map[Digest]bool, f func(Ref)) error {
	if m.Files.Digest.IsZero() {
		return nil
	}
	f(m.Files)
	sets, damage := ReadFileSets(ctx, r, m)
	if damage != nil {
		return damage
	}
	for i := range sets.Sets {
		set := &sets.Sets[i]
		if seenLists[set.Files.Digest] {
			continue
		}
		if seenLists != nil {
			seenLists[set.Files.Digest] = true
		}
		f(set.Files)
		l, _, err := ReadFileList(ctx, r, set)
		if err != nil && !IsDamage(err) {
			return err
		}
		damage = cmp.Or(damage, err)
		for j := 0; err == nil && j < len(l.Items); j++ {
			for k := range l.Items[j].Chunks {
				f(l.Items[j].Chunk(k))
			}
		}
	}
	return damage
}

// VerifyFile checks the digest and size of a file against list, which is FilesJSON as an edge
// serves it. name is the file's name in the list. Unless trust is empty, VerifyFile also verifies
// the list's signature. It returns the time of the set.
func VerifyFile(list []byte, trust Trust, name string, digest Digest, size int64) (setTime time.Time, err error) {
	if len(trust) > 0 {
		if err := trust.Verify(MustKey(FilesJSON), list); err != nil {
			return setTime, err
		}
	}
	l, err := ParseFileList(list)
	if err != nil {
		return setTime, err
	}
	f := l.Find(name)
	switch {
	case f == nil:
		return setTime, fmt.Errorf("%s of %s does not list %s", FilesJSON, l.Time.Format(time.RFC3339), name)
	case f.Bytes != size:
		return setTime, fmt.Errorf("%w: %s has %d bytes, want %d", ErrCorrupt, name, size, f.Bytes)
	case f.SHA256 != digest:
		return setTime, fmt.Errorf("%w: %s has digest %s, want %s", ErrCorrupt, name, digest, f.SHA256)
	}
	return l.Time, nil
}
