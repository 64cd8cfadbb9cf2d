package artifacts

import (
	"fmt"
	"strings"
)

// The small objects that move. Everything else in a store is immutable.
const (
	// IdentityKey says which store this is. It is signed as those that move are,
	// and never says anything else.
	IdentityKey = "identity"
	// CurrentKey is the pointer: which snapshot is published.
	CurrentKey = "current"
	// ChangeKey is the record of the change job
	// (FEED.md, "Change of the total").
	ChangeKey = "change"
	// KeysKey is the set of API keys (INTERFACE.md, "Keys").
	KeysKey = "keys"
	// LeaseKey is the lease of builders (FEED.md, "The lease"). It is not
	// signed, and no edge reads it.
	LeaseKey = "lease"
)

// The folders of the immutable objects.
const (
	ObjectPrefix   = "objects/"
	ManifestPrefix = "manifests/"
	// ProbePrefix is where a store's self-test, and a backup's, write; gc clears it.
	ProbePrefix = "probe/"
)

// ObjectKey returns the key of the immutable object with digest d. The first
// two digits stand as a folder of their own, so that no folder of a directory
// store grows large.
func ObjectKey(d Digest) string {
	s := d.String()
	return ObjectPrefix + s[:2] + "/" + s[2:]
}

// ManifestKey returns the key of the manifest with digest d.
func ManifestKey(d Digest) string { return ManifestPrefix + d.String() }

// ParseObjectKey is the inverse of ObjectKey; any other key is an error.
func ParseObjectKey(key string) (Digest, error) {
	rest, ok := strings.CutPrefix(key, ObjectPrefix)
	if !ok || len(rest) < 3 || rest[2] != '/' {
		return Digest{}, fmt.Errorf("key %.100q is not an object's", key)
	}
	return ParseDigest(rest[:2] + rest[3:])
}

// Names reports whether key is that of an immutable object and data are the
// bytes that it is named after.
func Names(key string, data []byte) bool {
	d, err := ParseObjectKey(key)
	if err != nil {
		d, err = ParseManifestKey(key)
	}
	return err == nil && d == Sum(data)
}

// ParseManifestKey is the inverse of ManifestKey; any other key is an error.
func ParseManifestKey(key string) (Digest, error) {
	rest, ok := strings.CutPrefix(key, ManifestPrefix)
	if !ok {
		return Digest{}, fmt.Errorf("key %.100q is not a manifest's", key)
	}
	return ParseDigest(rest)
}
