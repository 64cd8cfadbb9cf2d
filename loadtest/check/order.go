package check

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
	"sync"

	"github.com/zeebo/xxh3"

	"example.com/marketdata/loadtest/oracle"
)

// inOrder checks that neighbouring items stand as the sort says, ties by id
// ascending.
func inOrder(items []item, sort string, desc bool) (Kind, string) {
	for i := 1; i < len(items); i++ {
		a, b := &items[i-1], &items[i]
		d := compareItems(a, b, sort)
		if desc && (sort != "rank" || a.Rank != nil && b.Rank != nil) {
			d = -d
		}
		if d == 0 {
			d = compareIDs(a.ID, b.ID)
			if d == 0 {
				return Repeat, fmt.Sprintf("id %s twice on one page", a.ID)
			}
		}
		if d > 0 {
			return Order, fmt.Sprintf("sorted by %s (descending: %v), item %d of id %s stands before the one of id %s", sort, desc, i-1, a.ID, b.ID)
		}
	}
	return "", ""
}

func compareIDs(a, b json.Number) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a.String(), b.String()))
}

// compareItems compares two items by a sort key, ascending; items without a
// rank stand behind those with one.
func compareItems(a, b *item, sort string) int {
	switch sort {
	case "id":
		return compareIDs(a.ID, b.ID)
	case "name":
		return strings.Compare(oracle.Fold(a.Name), oracle.Fold(b.Name))
	case "symbol":
		return strings.Compare(oracle.Fold(a.Symbol), oracle.Fold(b.Symbol))
	case "slug":
		return strings.Compare(oracle.Fold(a.Slug), oracle.Fold(b.Slug))
	case "rank":
		const none = 1 << 62
		ra, rb := uint64(none), uint64(none)
		if a.Rank != nil {
			ra = *a.Rank
		}
		if b.Rank != nil {
			rb = *b.Rank
		}
		return cmp.Compare(ra, rb)
	}
	va, vb := sortNumber(a, sort), sortNumber(b, sort)
	switch {
	case va == nil && vb == nil:
		return 0
	case va == nil:
		return -1
	case vb == nil:
		return 1
	}
	return va.Cmp(vb)
}

// sortNumber returns the number that an item is sorted by, nil for none.
func sortNumber(it *item, sort string) *big.Rat {
	var text string
	switch {
	case sort == "24h":
		text = it.Changes.Day.String()
	case it.Market == nil:
		return nil
	case sort == "market_cap" && it.Market.Cap != nil:
		text = *it.Market.Cap
	case sort != "market_cap" && it.Market.Volume != nil:
		text = *it.Market.Volume
	}
	if text == "" || len(text) > 100 || strings.ContainsAny(text, "eE/") {
		return nil
	}
	v, ok := new(big.Rat).SetString(text)
	if !ok {
		return nil
	}
	return v
}

// placeBook remembers which row stands where in the listings of snapshots. In
// one snapshot each place has one row and each row one place, whatever pages
// the listing is read in: a row on two pages is one at two places.
type placeBook struct {
	mu       sync.Mutex
	listings map[string]*places
	size     int
}

type places struct {
	total int64
	id    map[int64]json.Number
	place map[json.Number]int64
}

// maxPlaces bounds the places remembered over all listings; further ones are
// not checked.
const maxPlaces = 4 << 20

func (b *placeBook) check(an *answer, q *oracle.Query, r *result) string {
	if len(q.Filters) > 0 || an.snapshot == "" {
		return ""
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.listings == nil {
		b.listings = map[string]*places{}
	}
	name := fmt.Sprintf("%s %s %v %s", q.Endpoint, q.Sort, q.Desc, an.snapshot)
	l := b.listings[name]
	if l == nil {
		l = &places{total: *r.Total, id: map[int64]json.Number{}, place: map[json.Number]int64{}}
		b.listings[name] = l
	}
	if l.total != *r.Total {
		return fmt.Sprintf("total is %d, another page of the same snapshot says %d", *r.Total, l.total)
	}
	for i := range *r.Items {
		id, at := (*r.Items)[i].ID, q.Offset+int64(i)
		if other, ok := l.place[id]; ok && other != at {
			return fmt.Sprintf("id %s stands at place %d and at place %d of one snapshot's listing", id, other, at)
		}
		if other, ok := l.id[at]; ok && other != id {
			return fmt.Sprintf("place %d has id %s and id %s in one snapshot's listing", at, other, id)
		}
		if _, ok := l.id[at]; !ok && b.size < maxPlaces {
			l.place[id], l.id[at] = at, id
			b.size++
		}
	}
	return ""
}

func bodyHash(b []byte) xxh3.Uint128 { return xxh3.Hash128(b) }

// tagBook remembers which body an entity tag stands for.
type tagBook struct {
	mu     sync.Mutex
	bodies map[string]xxh3.Uint128
	tags   map[xxh3.Uint128]string
}

// maxTags bounds the tags remembered.
const maxTags = 1 << 20

// check holds an answer's tag against those seen before: equal bodies have
// equal tags and the reverse, apart from the coding's name at the end
// (INTERFACE.md, "Headers").
func (b *tagBook) check(an *answer, plain []byte) string {
	bare := string(bareTag([]byte(an.etag)))
	want := bare
	if an.coding != "" {
		want += "-" + an.coding
	}
	if an.etag != `"`+want+`"` {
		return fmt.Sprintf("ETag %s with Content-Encoding %q", an.etag, an.coding)
	}
	h := bodyHash(plain)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.bodies == nil {
		b.bodies, b.tags = map[string]xxh3.Uint128{}, map[xxh3.Uint128]string{}
	}
	if other, ok := b.bodies[bare]; ok && other != h {
		return fmt.Sprintf("ETag %s stands for two bodies", an.etag)
	}
	if other, ok := b.tags[h]; ok && other != bare {
		return fmt.Sprintf("ETag %s, an equal body had %s", an.etag, other)
	}
	if len(b.bodies) < maxTags {
		b.bodies[bare], b.tags[h] = h, bare
	}
	return ""
}

// bodyOf returns the body that a tag stands for, if it was seen.
func (b *tagBook) bodyOf(tag string) (xxh3.Uint128, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	h, ok := b.bodies[string(bareTag([]byte(tag)))]
	return h, ok
}
