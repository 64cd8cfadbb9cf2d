package provider

import (
	"fmt"
	"net/url"
	"strconv"
)

// Pager says how to ask for the pages of a part, one after the other.
type Pager struct {
	name     string // of the query's parameter
	first    int    // its value for the first page or row
	byOffset bool
	least    int // a page with fewer rows is the last
}

// Numbered asks for pages by number, from 1, until one has fewer than least rows. With
// least 1 only an empty page ends the list, even if a page before it is short; a higher
// one saves the call for the empty page.
func Numbered(name string, least int) *Pager { return &Pager{name: name, first: 1, least: least} }

// Offset asks for the rows after those collected so far, which are numbered from first,
// until a page has fewer than least rows.
func Offset(name string, first, least int) *Pager {
	return &Pager{name: name, first: first, byOffset: true, least: least}
}

// more returns the query for an answer's next page; nil when the answer is whole. A nil
// Pager stands for one page without a query.
func (g *Pager) more(a *Answer) (url.Values, error) {
	n := len(a.Pages)
	switch {
	case g == nil && n == 0:
		return url.Values{}, nil
	case g == nil:
		return nil, nil
	case n == MaxPages:
		return nil, fmt.Errorf("more pages than the %d that are asked for", MaxPages)
	case n > 0 && a.Pages[n-1].rows < g.least:
		return nil, nil
	}
	if g.byOffset {
		n = a.rows()
	}
	return url.Values{g.name: {strconv.Itoa(g.first + n)}}, nil
}
