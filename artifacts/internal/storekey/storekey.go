// Package storekey says which keys a store takes, the same for every store, so
// that what was written to one can be copied to any other.
//
// A key is 1 to 512 bytes of printable ASCII without the backslash: segments
// of 1 to 128 bytes, separated by a slash. (A file's name may have 255 bytes,
// but versitygw appends to it.) No segment begins with a dot: such names, ".."
// among them, are the file system's or the store's own. A store may keep a key
// as a path, so no key may be the folder of another one ("a" beside "a/b"), and
// keys that differ in case only are best avoided.
package storekey

import (
	"fmt"
	"strings"
)

const (
	maxKey     = 512
	maxSegment = 128
)

// Check returns an error that says why key is not one that a store takes.
func Check(key string) error {
	if key == "" {
		return fmt.Errorf("the key is empty")
	}
	return check(key, false)
}

// CheckPrefix returns an error unless prefix is empty or the beginning of a
// key that a store takes.
func CheckPrefix(prefix string) error { return check(prefix, true) }

func check(key string, open bool) error {
	if len(key) > maxKey {
		return fmt.Errorf("key %.80q... has %d bytes, at most %d are taken", key, len(key), maxKey)
	}
	for i := range len(key) {
		if c := key[i]; c < ' ' || c > '~' || c == '\\' {
			return fmt.Errorf("key %q has the byte %q: printable ASCII without the backslash is taken", key, c)
		}
	}
	for rest, more := key, true; more; {
		var segment string
		segment, rest, more = strings.Cut(rest, "/")
		switch {
		case segment == "" && !(open && !more):
			return fmt.Errorf("key %q has an empty segment", key)
		case strings.HasPrefix(segment, "."):
			return fmt.Errorf("key %q has a segment that begins with a dot", key)
		case len(segment) > maxSegment:
			return fmt.Errorf("key %.80q... has a segment of %d bytes, at most %d are taken", key, len(segment), maxSegment)
		}
	}
	return nil
}
