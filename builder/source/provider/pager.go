package provider

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
)

// Pager says how the pages of a part are asked for, one after the other.
type Pager struct {
	// query is what the next page of an answer is asked for with, beside the part's
	// own query; nil when the answer is whole.
	query func(a *Answer) (url.Values, error)
	// says is what a page says of the next one, in its body or its Link header; it
	// becomes Page.Next. nil: nothing.
	says func(body []byte, link string) string
}

// Numbered asks for pages by number, from 1, until one has fewer than least rows.
// With least 1 only an empty page ends the list, whatever pages before it lack; a
// higher one saves the call for the empty page.
func Numbered(name string, least int) *Pager {
	return &Pager{query: func(a *Answer) (url.Values, error) { return unless(a, least, name, len(a.Pages)+1), nil }}
}

// Offset asks for the rows that follow those that are there, the first of all
// being number first, until a page has fewer than least.
func Offset(name string, first, least int) *Pager {
	return &Pager{query: func(a *Answer) (url.Values, error) { return unless(a, least, name, first+a.rows()), nil }}
}

func unless(a *Answer, least int, name string, value int) url.Values {
	if n := len(a.Pages); n > 0 && a.Pages[n-1].rows < least {
		return nil
	}
	return url.Values{name: {strconv.Itoa(value)}}
}

// Cursor asks with the text or number that the page before has at a path (see
// Part.At), until there is none.
func Cursor(name, path string) *Pager {
	return &Pager{
		query: func(a *Answer) (url.Values, error) {
			return a.following(func(next string) url.Values { return url.Values{name: {next}} })
		},
		says: func(body []byte, _ string) string { return idAt(body, path) },
	}
}

// Link asks with the query of the URL that the page before has at a path (see
// Part.At), or with path "" in its Link header (RFC 8288, rel=next), until there is
// none. Nothing but the query counts: the key goes nowhere else.
func Link(path string) *Pager {
	return &Pager{
		query: func(a *Answer) (url.Values, error) {
			return a.following(func(next string) url.Values {
				u, err := url.Parse(next)
				if err != nil {
					return nil
				}
				return u.Query()
			})
		},
		says: func(body []byte, link string) string {
			if path != "" {
				return idAt(body, path)
			}
			if m := nextLink.FindStringSubmatch(link); m != nil {
				return m[1]
			}
			return ""
		},
	}
}

var nextLink = regexp.MustCompile(`<([^>]*)>\s*;[^<]*\brel="?next\b`)

// following is the query that asks for the page which the last one names.
func (a *Answer) following(query func(next string) url.Values) (url.Values, error) {
	n := len(a.Pages)
	if n == 0 {
		return url.Values{}, nil
	}
	next := a.Pages[n-1].Next
	if next == "" {
		return nil, nil
	}
	if q := query(next); len(q) > 0 {
		return q, nil
	}
	return nil, fmt.Errorf("page %d names as the next one what has no query", n)
}

// more is the query of an answer's next page; nil when it is whole.
func (g *Pager) more(a *Answer) (url.Values, error) {
	switch {
	case len(a.Pages) == 0 && g == nil:
		return url.Values{}, nil
	case g == nil:
		return nil, nil
	case len(a.Pages) == MaxPages:
		return nil, errors.New("more pages than the " + strconv.Itoa(MaxPages) + " that are asked for")
	}
	return g.query(a)
}
