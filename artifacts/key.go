package artifacts

import (
	"fmt"
	"strings"
)

// Kind says what a Key names.
type Kind uint8

// The kinds of keys.
const (
	OtherKind    Kind = iota // nothing of the format: a probe, a feed's file
	ObjectKind               // an immutable object, by its digest
	ManifestKind             // a manifest, by its digest
	CellKind                 // a cell: identity, pointer, change record, key set, lease, checkpoint
	FileKind                 // an immutable object that only files need, by its digest
)

// Key names one thing in a store. Keys are comparable; two keys are equal if
// and only if their names are. The zero Key names nothing, and no store takes it.
type Key struct {
	kind   Kind
	digest Digest // of what is immutable
	name   string // of everything else
}

// The cells. Everything else of the format is immutable.
var (
	// IdentityKey says which store this is. It is signed like the other cells,
	// and its Store never changes.
	IdentityKey = Key{kind: CellKind, name: "identity"}
	// CurrentKey is the pointer: which snapshot is published.
	CurrentKey = Key{kind: CellKind, name: "current"}
	// ChangeKey is the record of the change job (FEED.md, "Change of the total").
	ChangeKey = Key{kind: CellKind, name: "change"}
	// KeysKey is the set of API keys (INTERFACE.md, "Keys").
	KeysKey = Key{kind: CellKind, name: "keys"}
	// LeaseKey is the lease of builders (STORE.md, "The lease"). It is not
	// signed, and no edge reads it.
	LeaseKey = Key{kind: CellKind, name: "lease"}
	// CheckpointKey is the checkpoint of the log of published snapshots. It is a signed note, and no
	// edge reads it.
	CheckpointKey = Key{kind: CellKind, name: "log/checkpoint"}
)

// The folders of everything else.
const (
	ObjectPrefix   = "objects/"
	ManifestPrefix = "manifests/"
	// TilePrefix is where the tiles and entries of the log are.
	TilePrefix = "log/tile/"
	FilePrefix = "files/"
	// ProbePrefix is where a store's self-test, and a backup's, write; gc clears it.
	ProbePrefix = "probe/"
)

// ObjectKey returns the key of the object with digest d.
func ObjectKey(d Digest) Key { return Key{kind: ObjectKind, digest: d} }

// ManifestKey returns the key of the manifest with digest d.
func ManifestKey(d Digest) Key { return Key{kind: ManifestKind, digest: d} }

// FileKey returns the key of the object with digest d below FilePrefix.
func FileKey(d Digest) Key { return Key{kind: FileKind, digest: d} }

// ProbeKey returns a key under ProbePrefix; name must be legal in a key.
func ProbeKey(name string) Key { return MustKey(ProbePrefix + name) }

// MustKey is ParseKey for a name that the program itself makes; it panics if the name is not legal.
func MustKey(name string) Key {
	k, err := ParseKey(name)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return k
}

// ParseKey returns the key with the given name. Legal names are the same for every store, so that
// everything in one can be copied to any other: 1 to 512 bytes of printable ASCII without the
// backslash, in segments of 1 to 128 bytes separated by a slash. (A file's name may have 255 bytes,
// but versitygw appends to it.) No segment begins with a dot: such names, ".." among them, belong
// to the file system or to the store itself. A store may keep a key as a path, so no key may be the
// folder of another one ("a" beside "a/b"), and keys that differ in case only are best avoided.
func ParseKey(name string) (Key, error) {
	if name == "" {
		return Key{}, fmt.Errorf("the key is empty")
	}
	if err := checkKey(name, false); err != nil {
		return Key{}, err
	}
	if rest, ok := strings.CutPrefix(name, ManifestPrefix); ok {
		if d, err := ParseDigest(rest); err == nil {
			return ManifestKey(d), nil
		}
	}
	for prefix, key := range map[string]func(Digest) Key{ObjectPrefix: ObjectKey, FilePrefix: FileKey} {
		if rest, ok := strings.CutPrefix(name, prefix); ok && len(rest) > 2 && rest[2] == '/' {
			if d, err := ParseDigest(rest[:2] + rest[3:]); err == nil {
				return key(d), nil
			}
		}
	}
	for _, cell := range [...]Key{IdentityKey, CurrentKey, ChangeKey, KeysKey, LeaseKey, CheckpointKey} {
		if name == cell.name {
			return cell, nil
		}
	}
	return Key{name: name}, nil
}

// CheckPrefix returns an error unless prefix is empty or the beginning of a legal name.
func CheckPrefix(prefix string) error { return checkKey(prefix, true) }

func checkKey(name string, open bool) error {
	const maxKey, maxSegment = 512, 128
	if len(name) > maxKey {
		return fmt.Errorf("key %.80q... has %d bytes, at most %d are taken", name, len(name), maxKey)
	}
	for i := range len(name) {
		if c := name[i]; c < ' ' || c > '~' || c == '\\' {
			return fmt.Errorf("key %q has the byte %q: printable ASCII without the backslash is taken", name, c)
		}
	}
	for rest, more := name, true; more; {
		var segment string
		segment, rest, more = strings.Cut(rest, "/")
		switch {
		case segment == "" && !(open && !more):
			return fmt.Errorf("key %q has an empty segment", name)
		case strings.HasPrefix(segment, "."):
			return fmt.Errorf("key %q has a segment that begins with a dot", name)
		case len(segment) > maxSegment:
			return fmt.Errorf(
				"key %.80q... has a segment of %d bytes, at most %d are taken", name, len(segment), maxSegment)
		}
	}
	return nil
}

// Check returns an error if k is the zero Key.
func (k Key) Check() error {
	if k == (Key{}) {
		return fmt.Errorf("the key is empty")
	}
	return nil
}

// Kind returns what the key names.
func (k Key) Kind() Kind { return k.kind }

// Immutable reports whether the key names an object, of files or others, or a manifest.
func (k Key) Immutable() bool {
	return k.kind == ObjectKind || k.kind == ManifestKind || k.kind == FileKind
}

// Digest returns the digest of what is immutable; zero for other kinds.
func (k Key) Digest() Digest { return k.digest }

// Signed reports whether the key names a cell that may be signed: all but the lease.
func (k Key) Signed() bool { return k.kind == CellKind && k != LeaseKey }

// Limit returns the most bytes that a cell may have.
func (k Key) Limit() int64 {
	if k == KeysKey {
		return MaxKeySetSize
	}
	return MaxPointerSize
}

// Names reports whether the key names data by its digest.
func (k Key) Names(data []byte) bool { return k.Immutable() && k.digest == Sum(data) }

// String returns the name in the store. The first two digits of an object's
// digest are a folder, so that no folder of a directory store grows large.
func (k Key) String() string {
	switch k.kind {
	case ObjectKind, FileKind:
		s, prefix := k.digest.String(), ObjectPrefix
		if k.kind == FileKind {
			prefix = FilePrefix
		}
		return prefix + s[:2] + "/" + s[2:]
	case ManifestKind:
		return ManifestPrefix + k.digest.String()
	}
	return k.name
}

// Compare orders keys by their names.
func (k Key) Compare(other Key) int { return strings.Compare(k.String(), other.String()) }

// MarshalText implements encoding.TextMarshaler with String's form.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler with ParseKey's form.
func (k *Key) UnmarshalText(b []byte) (err error) {
	*k, err = ParseKey(string(b))
	return err
}
