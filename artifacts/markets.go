package artifacts

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// MarketsCollection has the sort orders of /markets (see the package documentation).
const MarketsCollection = "markets"

// GroupSorts names the views of MarketsCollection that list the members of groups, and the
// collections of these groups.
var GroupSorts = [...]struct{ Sort, Groups string }{{"category", "categories"}, {"chain", "chains"}}

// IsMembers reports whether the view lists the members of groups. In such a view an asset has one
// row for each of its groups, and none if it has no group.
func (v *View) IsMembers() bool {
	return v.Collection == MarketsCollection && (v.Sort == GroupSorts[0].Sort || v.Sort == GroupSorts[1].Sort)
}

var groupsTail = []byte(`,"groups":`)

// memberSum returns the sum of the hashes of all rows that the views of members must have for the
// asset with this row and tail.
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
