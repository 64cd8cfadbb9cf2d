package ledger

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
)

// FuzzParseRoot takes the plain form, which the fuzzer can change.
func FuzzParseRoot(f *testing.F) {
	fuzzed := time.Unix(1_800_000_000, 0).UTC()
	d := artifacts.Sum([]byte("x"))
	plain, err := artifacts.DecompressBounded((&Root{
		Format: artifacts.Format, IDs: map[string]idSegments{"assets": {Count: 1, Segments: []artifacts.Ref{{Digest: d, Size: 5}}}},
		Returns: [3]returnLog{{Segments: []returnSegment{{artifacts.Ref{Digest: d, Size: 6}, fuzzed}}}}, Groups: map[string]artifacts.Ref{"chains": {Digest: d, Size: 7}},
		Totals: []Total{{fuzzed, "5"}}, Top: []TopPrice{{1, "5"}},
	}).encode(), maxRootPlain)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(plain)
	f.Add([]byte(`{"format":2}`))
	f.Fuzz(func(t *testing.T, plain []byte) {
		if _, err := parseRoot(plain); err == nil {
			t.Fatal("what is not compressed is taken")
		}
		if len(plain) == 0 {
			return
		}
		l, err := parseRoot(artifacts.Compress(nil, plain))
		if err != nil {
			if errors.Is(err, artifacts.ErrFormat) == errors.Is(err, artifacts.ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		if again, err := parseRoot(l.encode()); err != nil || !reflect.DeepEqual(l.refs(), again.refs()) {
			t.Fatalf("%+v is read back as %+v, %v", l, again, err)
		}
	})
}
