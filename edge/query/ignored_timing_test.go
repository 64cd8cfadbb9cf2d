package query

import (
	"fmt"
	"strings"
	"testing"
)

// distinctNames is a query of that length in bytes at most, all of it names that
// nobody reads, in the order that gives the most work: each comes before all
// that were read before.
func distinctNames(length int) string {
	var b strings.Builder
	for n := 1<<15 - 1; b.Len()+4 < length; n-- {
		fmt.Fprintf(&b, "%c%c%c&", 'A'+n>>10&31, 'A'+n>>5&31, 'A'+n&31)
	}
	return b.String()
}

// BenchmarkParse reads queries, with parameters in vain and without.
func BenchmarkParse(b *testing.B) {
	for name, raw := range map[string]string{
		"page":             "page=3&size=50&sort=name:desc",
		"ids":              "id=5,4,3,2,1",
		"unread":           "page=3&size=50&utm_source=x&_=1",
		"4 KiB of names":   distinctNames(4 << 10),
		"16 KiB of names":  distinctNames(16 << 10),
		"16 KiB of repeat": strings.Repeat("id=&", 4<<10),
		"16 KiB one name":  strings.Repeat("n", 16<<10),
	} {
		b.Run(name, func(b *testing.B) {
			query := []byte(raw)
			var q Query
			var header []byte
			b.ReportAllocs()
			for b.Loop() {
				if err := q.Parse(Quotes, query); err != nil {
					b.Fatal(err)
				}
				header = q.AppendIgnored(header[:0])
			}
		})
	}
}
