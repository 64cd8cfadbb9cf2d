package provider

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"
)

// Part describes one thing that is requested from a provider.
type Part struct {
	// Name is the name of the part in recordings, logs and reports: KIND, or KIND/ID if there is
	// one part of the kind for each coin or category. Round.Each sets the names of its parts.
	Name string
	// Path and Query are the path and the query of the request's URL.
	Path  string
	Query url.Values
	// At is the path of the rows, or of the object, in an answer. It consists of names joined by
	// dots, such as data.coins. Empty means the whole answer.
	At string
	// Pager is set if the part comes in pages. Pages limits the number of requested pages; zero
	// means all. More than MaxPages pages are an error.
	Pager *Pager
	Pages int
	// Every is how long an answer counts as new. During this time the part is not requested again.
	Every time.Duration
	// Value says how valuable the part's calls are. Round.Lists and Round.Each set it for most
	// parts.
	Value Value
	// Cost is the maximum number of calls that a page takes from the quota; zero means one. If
	// RowsPerCall is set, a page takes one call for every RowsPerCall rows, rounded up.
	Cost, RowsPerCall int
	// Check counts the rows in body, which is the value at At. It returns an error if body is not
	// valid.
	Check func(body []byte) (rows int, err error)
	// MayBeEmpty allows an answer without rows, which is a failure otherwise.
	MayBeEmpty bool
	// Reduce, if set, removes what the provider's package does not use from the value at At. It is
	// applied to answers that stay in memory between rounds, since there may be thousands of them.
	// A folder receives an answer as the provider sent it, unless the answer is recorded in a later
	// round than the one that requested it.
	Reduce func(body []byte) []byte

	// whole, if set, returns an error if a new answer is incomplete.
	whole func(a *Answer) error
}

// check applies Check to the value at At in body.
func (p *Part) check(body []byte) (rows int, err error) {
	part, err := at(body, p.At)
	if err != nil {
		return 0, err
	}
	return p.Check(part)
}

var errEmpty = errors.New("no rows at all")

// checkRows returns errEmpty if an answer has no rows but must have some.
func (p *Part) checkRows(a *Answer) error {
	if a.rows() == 0 && !p.MayBeEmpty && !a.Gone {
		return errEmpty
	}
	return nil
}

func (p *Part) cost() int { return max(1, p.Cost) }

const (
	// maxStale is how long the last good answer for a part with prices may be used after a new
	// answer was due.
	maxStale = time.Hour
	// keepForever is the same limit for all other parts.
	keepForever = 100 * 365 * 24 * time.Hour
)

func (p *Part) keep() time.Duration {
	if p.Value == Tickers {
		return maxStale
	}
	return keepForever
}

// same reports whether two pages have the same rows. The rest of the pages may differ, for example
// in a time.
func (p *Part) same(x, y Page) bool {
	a, err := at(x.Body, p.At)
	b, err2 := at(y.Body, p.At)
	return err == nil && err2 == nil && string(a) == string(b)
}

// alone reports whether only a comparison with the last good answer can show that a page of a list
// is missing.
func (p *Part) alone() bool { return p.Pager != nil && p.whole == nil && p.Value != Details }

// partsOf returns the parts of a kind, one for each id.
func partsOf(kind string, ids []string, part func(id string) Part) []Part {
	parts := make([]Part, len(ids))
	for i, id := range ids {
		parts[i] = part(id)
		parts[i].Name, parts[i].MayBeEmpty, parts[i].Value = kind+"/"+id, true, Details
	}
	return parts
}

// List is a part that is an array of rows.
type List struct {
	Part
	// Into receives the rows. It receives none if the part is missing.
	Into *[]Row
	// Required reports whether the rows are prices, without which there is no feed. Time is the
	// path, as in Part.At, of the time of a page, for lists whose rows have no times.
	Required bool
	Time     string
	// Directory reports whether the rows are the assets. Without them there is no feed either,
	// since all assets would disappear. Only a recording may lack them.
	Directory bool
	// Has lists members that more than half of the rows must have; a null counts. If a provider
	// renames one, the list fails, so that the feed does not silently lose a field.
	Has []string
	// Of is the directory with which the rows of all pages are compared. It is collected before
	// this list. Sorted reports whether the rows are sorted by id. Most, if not 0, is the maximum
	// number of requested rows.
	Of     *[]Row
	Sorted bool
	Most   int
}

// late returns 1 for a list that must be requested after the others, since its pages could use up
// their time. It returns 0 for any other list.
func (l *List) late() int {
	if l.Pager == nil || l.Pages == 1 || l.Required || l.Directory {
		return 0
	}
	return 1
}

// prepare sets the fields that depend on the kind of list.
func (l *List) prepare() {
	if l.Check == nil {
		l.Check = CheckRows(l.Has...)
	}
	switch {
	case l.Required:
		l.Value = Tickers
	case l.Directory:
		l.Value = Directory
	case l.Value == Tickers:
		l.Value = Groups
	}
	if l.Of != nil {
		l.whole = l.missing
	}
}

// CheckRows returns a Part.Check for an array. More than half of the array's rows must have each of
// the given members; a null counts.
func CheckRows(has ...string) func(body []byte) (rows int, err error) {
	return func(body []byte) (int, error) {
		n, err := CheckArray(body)
		if err != nil || n == 0 || len(has) == 0 {
			return n, err
		}
		for _, name := range has {
			with := 0
			for _, row := range Rows(body) {
				if _, ok := row.Fields[name]; ok {
					with++
				}
			}
			if with <= n/2 {
				return 0, fmt.Errorf("%s: in %d of %d rows", name, with, n)
			}
		}
		return n, nil
	}
}

// maxMissing is the maximum number of consecutive assets, in the order of their ids, that may lack
// a row. In a recorded market of 21,498 coins, at most 35 consecutive coins lack one; a missing
// page leaves out hundreds.
const maxMissing = 100

// missing returns an error if an answer lacks too many assets of the directory. Otherwise, a page
// that is empty by mistake would end the list early.
func (l *List) missing(a *Answer) error {
	have := map[string]bool{}
	for _, row := range a.Rows() {
		have[row.Fields.ID()] = true
	}
	want := len(*l.Of)
	spare := want / 5 // not all assets are traded, but the largest are
	if l.Most > 0 && l.Most < want-spare {
		want, spare = l.Most, min(maxMissing, l.Most/20)
	}
	if len(have) < want-spare {
		return fmt.Errorf("%d rows on %d pages: want %d", len(have), len(a.Pages), want)
	}
	if !l.Sorted {
		return nil
	}
	ids := make([]string, len(*l.Of))
	for i, row := range *l.Of {
		ids[i] = row.Fields.ID()
	}
	slices.Sort(ids)
	missing := 0
	for i, id := range ids {
		if missing++; have[id] {
			missing = 0
		}
		if missing > maxMissing {
			return fmt.Errorf("no rows from %.80q to %.80q", ids[i-maxMissing], id)
		}
	}
	return nil
}

// Pager describes how to request the pages of a part, one after the other.
type Pager struct {
	name     string // name of the query parameter
	first    int    // the parameter's value for the first page or row
	byOffset bool
	minRows  int // a page with fewer rows is the last
}

// Numbered returns a Pager that requests pages by number, from 1, until one has fewer than minRows
// rows. If minRows is 1, only an empty page ends the list; a short page does not. A higher value
// saves the call for the empty page.
func Numbered(name string, minRows int) *Pager { return &Pager{name: name, first: 1, minRows: minRows} }

// Offset returns a Pager that requests the rows after those collected so far, until a page has
// fewer than minRows rows. Rows are numbered from first.
func Offset(name string, first, minRows int) *Pager {
	return &Pager{name: name, first: first, byOffset: true, minRows: minRows}
}

// more returns the query for an answer's next page, or nil if the answer is complete. For a nil
// Pager, there is one page, and its query is empty.
func (g *Pager) more(a *Answer) (url.Values, error) {
	n := len(a.Pages)
	switch {
	case g == nil && n == 0:
		return url.Values{}, nil
	case g == nil:
		return nil, nil
	case n == MaxPages:
		return nil, fmt.Errorf("more pages than the maximum of %d", MaxPages)
	case n > 0 && a.Pages[n-1].rows < g.minRows:
		return nil, nil
	}
	if g.byOffset {
		n = a.rows()
	}
	return url.Values{g.name: {strconv.Itoa(g.first + n)}}, nil
}
