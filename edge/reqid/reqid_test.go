package reqid

import (
	"regexp"
	"strings"
	"sync"
	"testing"
)

// grammar is the grammar of INTERFACE.md, "Request ids".
var grammar = regexp.MustCompile(`^[A-Za-z0-9._:=+/-]{1,128}$`)

func FuzzValid(f *testing.F) {
	for _, id := range []string{"", "a", strings.Repeat("a", 128), strings.Repeat("a", 129), "A-z.0_9:=+/", "a b",
		"a\n", "a\r\nSet-Cookie: x=y", "é"} {
		f.Add([]byte(id))
	}
	for c := range 256 {
		f.Add([]byte{byte(c)})
		f.Add([]byte{'x', byte(c), 'y'})
	}
	f.Fuzz(func(t *testing.T, id []byte) {
		if got, want := Valid(id), grammar.Match(id) && id[len(id)-1] != '\n'; got != want {
			t.Errorf("Valid(%q) = %v, want %v", id, got, want)
		}
	})
}

// TestAppend checks that generated ids are unique, even across goroutines, and that Valid accepts them.
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

// TestEveryBit checks that each of the 128 bits takes both values.
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

// traceGrammar is the grammar of W3C Trace Context, extended by what later versions may append. It also
// matches the two invalid ids.
var traceGrammar = regexp.MustCompile(`^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-(?s:.*))?$`)

func FuzzTraceID(f *testing.F) {
	const valid = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	zeros := strings.Repeat("0", 32)
	for _, value := range []string{valid, "", "00", valid + "-", valid + "-x", "01" + valid[2:], "ff" + valid[2:],
		"01" + valid[2:] + "-what.the-future.brings", "01" + valid[2:] + ".", strings.ToUpper(valid), valid[:54],
		"00-" + zeros + valid[35:], valid[:36] + zeros[:16] + valid[52:], valid[:40] + "\r\nA: b" + valid[47:],
		valid[:10] + "\xff" + valid[11:], "-" + valid[1:], strings.ReplaceAll(valid, "-", "0"), valid + "\n"} {
		f.Add([]byte(value))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		want := ""
		if m := traceGrammar.FindSubmatch(value); m != nil && strings.Trim(string(m[2]), "0") != "" &&
			strings.Trim(string(m[3]), "0") != "" && string(m[1]) != "ff" && (m[4] == nil || string(m[1]) != "00") {
			want = string(m[2])
		}
		if got := string(TraceID(value)); got != want {
			t.Errorf("TraceID(%q) = %q, want %q", value, got, want)
		}
	})
}
