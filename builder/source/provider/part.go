package provider

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"
)

// Part is one thing that a provider is asked for.
type Part struct {
	// Name names the part in recordings, logs and reports: KIND, or KIND/ID when there
	// is one of the kind for each coin or category. Each sets it.
	Name string
	// Path and Query are where to ask.
	Path  string
	Query url.Values
	// At is where the rows, or the object, stand in an answer: names joined by dots,
	// such as data.coins. Empty means the whole answer.
	At string
	// Pager is set if the part comes in pages. Pages limits how many are asked for;
	// zero means all, and then more than MaxPages are an error.
	Pager *Pager
	Pages int
	// Every is how long an answer counts as new and is not asked for again.
	Every time.Duration
	// Value says how valuable the part's calls are. Lists and Each set most of them.
	Value Value
	// Cost is how many calls of the quota a page takes at most; zero means one. With
	// RowsPerCall, a page takes one call for every RowsPerCall rows, rounded up.
	Cost, RowsPerCall int
	// Check counts the rows at At, or says why the body is not what was asked for.
	Check func(body []byte) (rows int, err error)
	// MayBeEmpty accepts an answer without rows, which is a failure otherwise.
	MayBeEmpty bool
	// Reduce, if set, drops what the provider's package does not use from what stands
	// at At. It is applied to answers that stay in memory between rounds, where there
	// may be thousands. A folder gets what the provider sent, unless the answer is
	// recorded in a later round than the one that asked for it.
	Reduce func(body []byte) []byte

	// whole, if set, says what an answer of the provider lacks.
	whole func(a *Answer) error
}

// check applies Check to what stands at At in body.
func (p *Part) check(body []byte) (rows int, err error) {
	part, err := at(body, p.At)
	if err != nil {
		return 0, err
	}
	return p.Check(part)
}

var errEmpty = errors.New("no rows at all")

// checkRows returns errEmpty for an answer that lacks rows.
func (p *Part) checkRows(a *Answer) error {
	if a.rows() == 0 && !p.MayBeEmpty && !a.Gone {
		return errEmpty
	}
	return nil
}

func (p *Part) cost() int { return max(1, p.Cost) }

const (
	// maxStale is how long after its time the last good answer to a part with prices
	// may stand in for one that is unavailable.
	maxStale = time.Hour
	// keepForever is the same for all other parts.
	keepForever = 100 * 365 * 24 * time.Hour
)

func (p *Part) keep() time.Duration {
	if p.Value == Tickers {
		return maxStale
	}
	return keepForever
}

// same reports whether two pages have the same rows. What stands around the rows may
// differ, such as a time.
func (p *Part) same(x, y Page) bool {
	a, err := at(x.Body, p.At)
	b, err2 := at(y.Body, p.At)
	return err == nil && err2 == nil && string(a) == string(b)
}

// alone reports whether only the last good answer can show that a page of a list is missing.
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
	// Into receives the rows; none when the part is missing.
	Into *[]Row
	// Required lists are prices: without one there is no feed. Time is where its pages
	// say how old they are (see Part.At), if rows do not.
	Required bool
	Time     string
	// Directory says that these rows are the assets. Without them there is no feed
	// either, since the assets would disappear; only a recording may lack them.
	Directory bool
	// Has are members that more than half of the rows must have, null or not. If a
	// provider renames one, the list fails instead of changing our rows.
	Has []string
	// Of is the directory, collected before this list, that the rows of all pages are
	// compared with. Sorted says that the rows come in the order of their ids. Most,
	// if not 0, is how many rows are asked for.
	Of     *[]Row
	Sorted bool
	Most   int
}

// late is 1 for lists that come last, since their pages can use up the time of all others.
func (l *List) late() int {
	if l.Pager == nil || l.Pages == 1 || l.Required || l.Directory {
		return 0
	}
	return 1
}

// prepare sets what follows from the kind of list.
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

// CheckRows returns a Part.Check for an array in which more than half of the rows have
// all these members, null or not.
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

// maxMissing is how many assets, neighbours in the order of their ids, may be without a row. A
// recorded market of 21,498 coins has at most 35; a provider's page has hundreds.
const maxMissing = 100

// missing says what an answer lacks of the directory. An empty or repeated page ends
// the paging, and must not end the market.
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
