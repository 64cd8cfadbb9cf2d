package builder

import (
	"slices"
	"strings"
	"testing"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/ledger"
	"example.com/marketdata/builder/publish"
	"example.com/marketdata/internal/test/buildtest"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
)

// missing returns the keys of the objects that the head itself refers to and that are missing from
// the store or damaged.
func missing(t *testing.T, s artifacts.Store) (keys []artifacts.Key) {
	t.Helper()
	h := head(t, s)
	refs := publish.Reached(h.Manifest)
	root := must.Get(artifacts.ReadObject(t.Context(), s, h.Manifest.Ledger))(t)
	named := must.Get(ledger.Refs(root))(t)
	for _, ref := range append(refs, named...) {
		if _, err := artifacts.ReadObject(t.Context(), s, ref); err != nil {
			keys = append(keys, artifacts.ObjectKey(ref.Digest))
		}
	}
	for _, r := range h.Manifest.Retained {
		if _, err := artifacts.ReadManifest(t.Context(), s, r.Manifest); err != nil {
			keys = append(keys, artifacts.ManifestKey(r.Manifest.Digest))
		}
	}
	return keys
}

// TestMissing removes or truncates each object that is reachable from a store's snapshots. The next
// build must write the object again, report it, fail and name it, or not need it. Once the object
// is back, the next build must succeed.
func TestMissing(t *testing.T) {
	next, first := world{Assets: 12, At: epoch}, memstore.New()
	for range 5 {
		mustBuild(t, first, next)
		next = next.Later(artifacts.Step)
	}
	all, outcomes := contents(t, first), map[string]int{}
	for _, key := range buildtest.Keys(all) {
		for _, cut := range []bool{false, true} {
			s, whole := clone(t, first, func(artifacts.Key) bool { return true }), []byte(all[key])
			var left []byte
			if cut {
				left = whole[:len(whole)/2]
			}
			overwrite(t, s, key, left)
			r, err := tryBuild(t.Context(), s, next)
			switch {
			case err != nil:
				outcomes["stops"]++
				if !strings.Contains(err.Error(), key.String()) || !strings.Contains(err.Error(), "builder repair") {
					t.Errorf("%s: %v", key, err)
				}
			case r.MissingObjects > 0:
				outcomes["names"]++
				if got := missing(t, s); !slices.Equal(r.Missing, []artifacts.Key{key}) ||
					!slices.Equal(got, r.Missing) || r.MissingObjects != 1 {
					t.Errorf("%s: names %d, %v; missing are %v", key, r.MissingObjects, r.Missing, got)
				}
			default:
				outcomes["writes or needs not"]++
				if got := missing(t, s); len(got) > 0 {
					t.Errorf("%s: missing are %v", key, got)
				}
			}
			ok(t, s.Put(t.Context(), key, whole))
			mustBuild(t, s, next.Later(artifacts.Step))
			verify(t, s)
		}
	}
	if len(outcomes) != 3 {
		t.Errorf("outcomes: %v", outcomes)
	}
}
