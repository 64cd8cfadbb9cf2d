package artifacts

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// MarketsCollection has the orders of /markets (see the package documentation).
const MarketsCollection = "markets"

// GroupSorts are the views of MarketsCollection that list the members of groups, and the
// collections of these groups.
var GroupSorts = [...]struct{ Sort, Groups string }{{"category", "categories"}, {"chain", "chains"}}

// IsMembers reports whether a view lists the members of groups: an asset in several groups has
// several rows, one in none has no row.
func (v *View) IsMembers() bool {
	return v.Collection == MarketsCollection && (v.Sort == GroupSorts[0].Sort || v.Sort == GroupSorts[1].Sort)
}

var groupsTail = []byte(`,"groups":`)

// memberSum stands for the rows of the views of members that an asset needs whose row and tail
// are given: the sum of their hashes.
func memberSum(row, tail []byte) (sum uint64, err error) {
	var groups map[string][]string
	if err := json.Unmarshal(bytes.TrimSuffix(tail[len(groupsTail):], []byte{'}'}), &groups); err != nil {
		return 0, fmt.Errorf("groups of %s: %w", row, err)
	}
	for _, of := range GroupSorts {
		for _, slug := range groups[of.Groups] {
			sum += hashWord([]byte(Fold(slug)), row)
		}
	}
	return sum, nil
}
