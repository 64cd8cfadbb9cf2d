//go:build !race

package query

import "testing"

// TestAllocations: a Query that is used again allocates nothing, whatever it
// is asked.
func TestAllocations(t *testing.T) {
	for _, raw := range []string{
		"page=3&size=50&sort=name:desc",
		"limit=%31%30&offset=40",
		"id=5,4,3,2,1&slug=a,B,%26c&symbol=%C3%84,btc&fields=links&%6eever=1",
		"sort=nonsense",
		"id=1,x",
		"id=1&id=2&a&b=%&%63&limit=5&page=1",
		distinctNames(16 << 10),
	} {
		query := []byte(raw)
		var q Query
		var key []byte
		if n := testing.AllocsPerRun(200, func() {
			for e := range Endpoint(Endpoints) {
				if err := q.Parse(e, query); err == nil {
					key = q.AppendIgnored(q.AppendKey(key[:0]))
				}
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", raw, n)
		}
	}
}
