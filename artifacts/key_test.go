package artifacts

import (
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
		ObjectKey(d), ManifestKey(d), IdentityKey, CurrentKey, ChangeKey, KeysKey, LeaseKey, CheckpointKey,
		ProbeKey("x")} {
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
