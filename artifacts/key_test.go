package artifacts

import (
	"path"
	"strings"
	"testing"
)

func TestParseKey(t *testing.T) {
	long := strings.Repeat("x", 128)
	d := Sum(nil)
	for name, want := range map[string]struct{ key, prefix bool }{
		"": {false, true}, "a": {true, true}, "a/": {false, true}, "a/b": {true, true}, "a.b/c.": {true, true},
		" !\"#$%&'()*+,-./:;<=>": {true, true}, "?@[]^_`{|}~": {true, true},
		"/": {}, "/a": {}, "a//b": {}, ".": {}, "..": {}, "a/..": {}, "a/../b": {}, ".a": {}, "a/.b": {},
		`a\b`: {}, "a\x00": {}, "a\n": {}, "a\x7f": {}, "ä": {}, "\xff": {},
		long: {true, true}, long + "x": {}, long + "/" + long: {true, true},
		strings.Repeat(long[1:]+"/", 3) + long: {true, true}, strings.Repeat(long[1:]+"/", 3) + long + "x": {},
		strings.Repeat("xx/", 170) + "xx": {true, true}, strings.Repeat("xx/", 170) + "xxx": {},
	} {
		if key, err := ParseKey(name); (err == nil) != want.key ||
			err == nil && (key.Kind() != OtherKind || key.String() != name) {
			t.Errorf("ParseKey(%.40q) = %v, %v", name, key, err)
		}
		if err := CheckPrefix(name); (err == nil) != want.prefix {
			t.Errorf("CheckPrefix(%.40q) = %v", name, err)
		}
	}
	for _, want := range []Key{
		ObjectKey(d), ManifestKey(d), IdentityKey, CurrentKey, ChangeKey, KeysKey, LeaseKey, ProbeKey("x")} {
		got, err := ParseKey(want.String())
		if err != nil || got != want {
			t.Errorf("%v is read as %v, %v", want, got, err)
		}
		if immutable := want.Digest() == d; immutable != want.Immutable() || immutable != want.Names(nil) ||
			want.Names([]byte("x")) {
			t.Errorf("%v: immutable %v, digest %v", want, want.Immutable(), want.Digest())
		}
	}
	for _, name := range []string{
		ObjectPrefix + d.String(), ManifestPrefix + strings.ToUpper(d.String()), ManifestPrefix + d.String() + "0",
		"currentx", "x/current",
	} {
		if key, err := ParseKey(name); err != nil || key.Kind() != OtherKind {
			t.Errorf("%s is read as kind %v, %v", name, key.Kind(), err)
		}
	}
}

// FuzzParseKey: a key that is taken stays below the folder it is joined to, is written as it was
// read, and every beginning of it is a prefix that is taken.
func FuzzParseKey(f *testing.F) {
	d := Sum(nil)
	for _, name := range []string{
		"a", "a/b", "../a", "a/./b", "a//b", "/a", ".tmp/x", `..\a`, "a/..", "%2e%2e/a",
		ObjectKey(d).String(), ManifestKey(d).String(), CurrentKey.String(),
	} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		key, err := ParseKey(name)
		if err != nil {
			return
		}
		if key.String() != name {
			t.Errorf("key %q is written %q", name, key)
		}
		if got := path.Join("/root", name); got != "/root/"+name {
			t.Errorf("key %q joins to %q", name, got)
		}
		for i := range len(name) {
			if err := CheckPrefix(name[:i]); err != nil {
				t.Errorf("CheckPrefix(%q) = %v, and %q is taken", name[:i], err, name)
			}
		}
	})
}
