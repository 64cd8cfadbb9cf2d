package storekey

import (
	"path"
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	long := strings.Repeat("x", maxSegment)
	for key, want := range map[string]struct{ key, prefix bool }{
		"":                                     {false, true},
		"a":                                    {true, true},
		"a/":                                   {false, true},
		"a/b":                                  {true, true},
		"a.b/c.":                               {true, true},
		"objects/ab/cd":                        {true, true},
		" !\"#$%&'()*+,-./:;<=>":               {true, true},
		"?@[]^_`{|}~":                          {true, true},
		"/":                                    {false, false},
		"/a":                                   {false, false},
		"a//b":                                 {false, false},
		".":                                    {false, false},
		"..":                                   {false, false},
		"a/..":                                 {false, false},
		"a/../b":                               {false, false},
		".a":                                   {false, false},
		"a/.b":                                 {false, false},
		`a\b`:                                  {false, false},
		"a\x00":                                {false, false},
		"a\n":                                  {false, false},
		"a\x7f":                                {false, false},
		"ä":                                    {false, false},
		long:                                   {true, true},
		long + "x":                             {false, false},
		long + "/" + long:                      {true, true},
		strings.Repeat(long[1:]+"/", 3) + long: {true, true},
		strings.Repeat(long[1:]+"/", 3) + long + "x": {false, false},
		strings.Repeat("xx/", 170) + "xx":            {true, true},
		strings.Repeat("xx/", 170) + "xxx":           {false, false},
	} {
		if err := Check(key); (err == nil) != want.key {
			t.Errorf("Check(%.40q) = %v", key, err)
		}
		if err := CheckPrefix(key); (err == nil) != want.prefix {
			t.Errorf("CheckPrefix(%.40q) = %v", key, err)
		}
	}
}

// FuzzCheck: a key that is taken stays below the folder it is joined to, and
// every beginning of it is a prefix that is taken.
func FuzzCheck(f *testing.F) {
	for _, key := range []string{"a", "a/b", "../a", "a/./b", "a//b", "/a", ".tmp/x", `..\a`, "a/..", "%2e%2e/a"} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		if Check(key) != nil {
			return
		}
		if got := path.Join("/root", key); got != "/root/"+key {
			t.Errorf("key %q joins to %q", key, got)
		}
		for i := range len(key) {
			if err := CheckPrefix(key[:i]); err != nil {
				t.Errorf("CheckPrefix(%q) = %v, and %q is taken", key[:i], err, key)
			}
		}
	})
}
