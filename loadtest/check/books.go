package check

import (
	"fmt"
	"sync"

	"example.com/marketdata/internal/model"
	"github.com/zeebo/xxh3"
)

// placeBook remembers the position of each row in the listings of snapshots. In a snapshot's listing, each
// position has one row and each row has one position, whatever the size of the pages. So placeBook detects a
// row that is on two pages.
type placeBook struct {
	mu       sync.Mutex
	listings map[string]*places
	size     int
}

type places struct {
	total int64
	id    map[int64]int64 // the id of the row at each position
	place map[int64]int64 // the position of each id
}

// maxPlaces bounds the number of positions remembered over all listings. Further positions are not checked.
const maxPlaces = 4 << 20

func (b *placeBook) check(an *answer, q *model.Query, rows []*model.Row, total int64) string {
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
		l = &places{total: total, id: map[int64]int64{}, place: map[int64]int64{}}
		b.listings[name] = l
	}
	if l.total != total {
		return fmt.Sprintf("total is %d, another page of the same snapshot says %d", total, l.total)
	}
	for i, r := range rows {
		id, at := r.ID, q.Offset+int64(i)
		if other, ok := l.place[id]; ok && other != at {
			return fmt.Sprintf("id %d stands at place %d and at place %d of one snapshot's listing", id, other, at)
		}
		if other, ok := l.id[at]; ok && other != id {
			return fmt.Sprintf("place %d has id %d and id %d in one snapshot's listing", at, other, id)
		}
		if _, ok := l.id[at]; !ok && b.size < maxPlaces {
			l.place[id], l.id[at] = at, id
			b.size++
		}
	}
	return ""
}

func bodyHash(b []byte) xxh3.Uint128 { return xxh3.Hash128(b) }

// tagBook remembers the hash of the body for each entity tag, and the tag for each hash.
type tagBook struct {
	mu     sync.Mutex
	bodies map[string]xxh3.Uint128
	tags   map[xxh3.Uint128]string
}

// maxTags bounds the number of remembered tags.
const maxTags = 1 << 20

// check compares the tag of an answer with earlier ones. Apart from the name of the coding at the end, equal
// bodies must have equal tags, and different bodies different tags (INTERFACE.md, "Headers").
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

// bodyOf returns the hash of the body that belongs to a tag, if the tag has been seen.
func (b *tagBook) bodyOf(tag string) (xxh3.Uint128, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	h, ok := b.bodies[string(bareTag([]byte(tag)))]
	return h, ok
}
