package reqid

import (
	"regexp"
	"strings"
	"sync"
	"testing"
)

// The grammar as INTERFACE.md, "Request ids" writes it.
var grammar = regexp.MustCompile(`^[A-Za-z0-9._:=+/-]{1,128}$`)

func TestValid(t *testing.T) {
	ids := []string{"", "a", strings.Repeat("a", 128), strings.Repeat("a", 129), "A-z.0_9:=+/", "a b", "a\n",
		"a\r\nSet-Cookie: x=y", "\x00", "é", "a,b", "{}", `"a"`, "a%20", "a\t", "a;b"}
	for c := range 256 {
		ids = append(ids, string([]byte{byte(c)}), string([]byte{'x', byte(c), 'y'}))
	}
	for _, id := range ids {
		if got, want := Valid([]byte(id)), grammar.MatchString(id) && !strings.HasSuffix(id, "\n"); got != want {
			t.Errorf("Valid(%q) = %v, want %v", id, got, want)
		}
	}
}

func FuzzValid(f *testing.F) {
	f.Add([]byte("01JABC-x"))
	f.Add([]byte("a\r\nX: y"))
	f.Fuzz(func(t *testing.T, id []byte) {
		if got, want := Valid(id), grammar.Match(id) && id[len(id)-1] != '\n'; got != want {
			t.Errorf("Valid(%q) = %v, want %v", id, got, want)
		}
	})
}

// TestAppend: generated ids differ, from many goroutines too, and are taken
// over when a client sends one back.
func TestAppend(t *testing.T) {
	const goroutines, each = 8, 5000
	var wg sync.WaitGroup
	made := make([][]string, goroutines)
	for g := range goroutines {
		wg.Go(func() {
			for range each {
				made[g] = append(made[g], string(Append(nil)))
			}
		})
	}
	wg.Wait()
	seen := map[string]bool{}
	for _, ids := range made {
		for _, id := range ids {
			if len(id) != Length || !Valid([]byte(id)) {
				t.Fatalf("id %q", id)
			}
			if seen[id] {
				t.Fatalf("id %q twice", id)
			}
			seen[id] = true
		}
	}
	if got := string(Append([]byte("x"))); len(got) != 1+Length || got[0] != 'x' {
		t.Errorf("appended %q", got)
	}
}

// TestEveryBit: each of the 128 bits takes both values.
func TestEveryBit(t *testing.T) {
	var zero, one [Length]byte
	for range 200 {
		for i, c := range Append(nil) {
			v := byte(strings.IndexByte("0123456789abcdef", c))
			one[i] |= v
			zero[i] |= ^v
		}
	}
	for i := range Length {
		if one[i]&15 != 15 || zero[i]&15 != 15 {
			t.Errorf("digit %d has constant bits", i)
		}
	}
}
