package artifacts

import (
	"fmt"
	"strings"
)

// Kind is what a Key names.
type Kind uint8

// The kinds of keys.
const (
	OtherKind    Kind = iota // not part of the format, such as a probe or a file of a feed
	ObjectKind               // an immutable object, named by its digest
	ManifestKind             // a manifest, named by its digest
	CellKind                 // a cell: identity, pointer, change record, key set, lease, checkpoint
	FileKind                 // an immutable object that belongs to files, named by its digest
)

// Key is the name of an object or cell in a store. Keys are comparable: two keys are equal if and
// only if their names are equal. The zero Key names nothing, and every store rejects it.
type Key struct {
	kind   Kind
	digest Digest // of an immutable object
	name   string // of anything else
}

// The cells. Everything else in the format is immutable.
var (
	// IdentityKey names the store's identity, whose field Store never changes.
	IdentityKey = Key{kind: CellKind, name: "identity"}
	// CurrentKey names the pointer, which says which snapshot is published.
	CurrentKey = Key{kind: CellKind, name: "current"}
	// ChangeKey names the record of the change job (FEED.md, "Change of the total").
	ChangeKey = Key{kind: CellKind, name: "change"}
	// KeysKey names the set of API keys (INTERFACE.md, "Keys").
	KeysKey = Key{kind: CellKind, name: "keys"}
	// LeaseKey names the lease of the builders (STORE.md, "The lease"). It is not signed, and edges
	// do not read it.
	LeaseKey = Key{kind: CellKind, name: "lease"}
	// CheckpointKey names the checkpoint of the log of published snapshots. It is a signed note,
	// and edges do not read it.
	CheckpointKey = Key{kind: CellKind, name: "log/checkpoint"}
)

// Prefixes of all other keys.
const (
	ObjectPrefix   = "objects/"
	ManifestPrefix = "manifests/"
	// TilePrefix is the prefix of the log's tiles and entries.
	TilePrefix = "log/tile/"
	FilePrefix = "files/"
	// ProbePrefix is the prefix under which self-tests and backups write temporary objects; gc
	// deletes them.
	ProbePrefix = "probe/"
)

// ObjectKey returns the key of the object with digest d.
func ObjectKey(d Digest) Key { return Key{kind: ObjectKind, digest: d} }

// ManifestKey returns the key of the manifest with digest d.
func ManifestKey(d Digest) Key { return Key{kind: ManifestKind, digest: d} }

// FileKey returns the key of the object with digest d under FilePrefix.
func FileKey(d Digest) Key { return Key{kind: FileKind, digest: d} }

// ProbeKey returns a key under ProbePrefix. name must be legal in a key.
func ProbeKey(name string) Key { return MustKey(ProbePrefix + name) }

// MustKey is ParseKey for names that the program itself generates. It panics if the name is not
// legal.
func MustKey(name string) Key {
	k, err := ParseKey(name)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return k
}

// ParseKey returns the key with the given name. The same names are legal in every store, so that
// everything in one store can be copied to any other. A legal name has 1 to 512 bytes of printable
// ASCII other than the backslash, in segments of 1 to 128 bytes separated by slashes. (File systems
// allow names of 255 bytes, but versitygw appends a suffix.) No segment begins with a dot, because
// such names, including "..", belong to the file system or to the store itself. A store may keep a
// key as a path, so no key may be a folder of another ("a" and "a/b"). Keys that differ only in
// case are best avoided.
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

// CheckPrefix returns an error unless prefix is empty or a prefix of a legal name.
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

// Kind returns the kind of the key.
func (k Key) Kind() Kind { return k.kind }

// Immutable reports whether the key names an object, a manifest, or an object that belongs to
// files.
func (k Key) Immutable() bool {
	return k.kind == ObjectKind || k.kind == ManifestKind || k.kind == FileKind
}

// Digest returns the digest of an immutable object. It is zero for other kinds.
func (k Key) Digest() Digest { return k.digest }

// Signed reports whether the key names a cell that may be signed: all but the lease.
func (k Key) Signed() bool { return k.kind == CellKind && k != LeaseKey }

// Limit returns the maximum size of the cell, in bytes.
func (k Key) Limit() int64 {
	if k == KeysKey {
		return MaxKeySetSize
	}
	return MaxPointerSize
}

// Names reports whether the key contains the digest of data.
func (k Key) Names(data []byte) bool { return k.Immutable() && k.digest == Sum(data) }

// String returns the key's name in the store. The first two digits of an object's digest form a
// folder, so that no folder of a directory store grows large.
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

// Compare compares keys by their names.
func (k Key) Compare(other Key) int { return strings.Compare(k.String(), other.String()) }

// MarshalText implements encoding.TextMarshaler. It returns the same text as String.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler. It accepts what ParseKey accepts.
func (k *Key) UnmarshalText(b []byte) (err error) {
	*k, err = ParseKey(string(b))
	return err
}
