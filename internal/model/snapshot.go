package model

import (
	"cmp"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A Snapshot is the state of the service at one time. The creator of the rows sets the exported
// fields, which do not change afterwards: [World.Build] makes them from a feed, and the load
// tester's oracle from the shards of a store. A Snapshot is safe for concurrent use. Before the
// first snapshot, it is nil.
type Snapshot struct {
	Time     time.Time
	Database string
	// Lists contains the rows of each listing in ascending order of id, except that trending is
	// in the order of the board.
	Lists                       map[string][]Row
	TotalMarketCap, TotalVolume string
	// Notice is shown with all data of the snapshot; it may be nil.
	Notice *Notice
	// NoMarkets means that the builder did not write the views of /markets.
	NoMarkets bool
	// Series contains the available history windows, by name.
	Series map[string]*Series
	// Changes are the changes of the directory, or nil if the builder did not record them.
	Changes *Changes
	// Past is the data for /candles, /prices and the window "max", or nil if it is not known.
	Past *Past
	// Coins is the additional data for /api/v3/. Only snapshots created from feeds have it.
	Coins *Coins

	mu     sync.Mutex
	orders map[string][]*Row            // sorted whole listings
	found  map[string]map[string][]*Row // rows of a listing by the value of a filter

	files Files // the feed from which the snapshot was made
	items map[listedKey]Listed
	way   *way  // the way back from withdrawn snapshots
	state state // the state after the build of the snapshot
}

// trending is a listing that has no file in a feed.
const trending = "trending"

// Lists names all listings that have rows in a snapshot.
var Lists = []string{assets, quotes, exchanges, categories, chains, trending, markets}

// CheckTotals returns an error if a total is not in the form of FEED.md, "Numbers".
func (s *Snapshot) CheckTotals() error { return amounts(&s.TotalMarketCap, &s.TotalVolume) }

// Known returns values that occur in a listing, for generators of questions: its ids, and its slugs
// and symbols unchanged from the feed.
func (s *Snapshot) Known(collection string) (ids []int64, slugs, symbols []string) {
	if s == nil {
		return nil, nil, nil
	}
	if collection == history || collection == candles || collection == prices {
		collection = assets
	}
	for _, r := range s.Lists[collection] {
		ids = append(ids, r.ID)
		slugs = append(slugs, r.asSlug)
		symbols = append(symbols, r.asSymbol)
	}
	return ids, slugs, symbols
}

// Texts returns the names, symbols and slugs of the assets, unchanged from the feed.
func (s *Snapshot) Texts() (texts []string) {
	if s != nil {
		for _, r := range s.Lists[assets] {
			texts = append(texts, r.asName, r.asSymbol, r.asSlug)
		}
	}
	return texts
}

// A Change is the record of the change job.
type Change struct {
	Time     time.Time // when the job ran
	Database string
	Value    string // percent
}

// changeDigits is the maximum number of integer digits of the total's change. Larger values are
// answered as null (INTERFACE.md, "Global").
const changeDigits = 9

// shown returns the value from a change record that this snapshot's /global shows, or nil for null.
func (s *Snapshot) shown(c *Change) *string {
	if c == nil || c.Database != s.Database || !isDecimal(c.Value, percentPlaces, true) {
		return nil
	}
	if whole, _, _ := strings.Cut(strings.TrimPrefix(c.Value, "-"), "."); len(whole) > changeDigits {
		return nil
	}
	return &c.Value
}

// Notice is a remark that applies to all data of a snapshot.
type Notice struct {
	Text string `json:"text"`
	URL  string `json:"url"`
}

// Answer returns the answer to a query from this snapshot. c is the change record in force, or nil.
func (s *Snapshot) Answer(q *Query, c *Change) Answer {
	a := Answer{Status: 200, MessageKey: "OK", Ignored: q.Ignored}
	if s != nil {
		a.SnapshotTime, a.Modified = timestamp(s.Time), s.Time
	}
	switch {
	case q.Endpoint == "global" && s == nil:
		return failure(404, 40400, "NOT_FOUND")
	case q.Endpoint == "global":
		if c != nil && c.Time.After(s.Time) {
			a.Modified = c.Time.Truncate(time.Second)
		}
		a.Body = envelope(write(struct {
			MarketCap string  `json:"total_market_cap"`
			Volume    string  `json:"total_volume_24h"`
			Change    *string `json:"total_market_cap_change_percentage_24h"`
			Time      string  `json:"data_time"`
			Notice    *Notice `json:"notice,omitempty"`
		}{s.TotalMarketCap, s.TotalVolume, s.shown(c), timestamp(s.Time), s.Notice}))
	case q.Endpoint == markets && s != nil && s.NoMarkets:
		return failure(503, 50300, "SERVICE_UNAVAILABLE")
	case q.Endpoint == trending:
		var rows []*Row
		if s != nil {
			rows = pointers(s.Lists[trending])
		}
		a.Body = Body(q, rows, 0)
	case q.Endpoint == changes:
		s.changes(q, &a)
	case q.Endpoint == search:
		var rows []*Row
		if s != nil {
			rows = Search(q.Text, pointers(s.Lists[assets]))
		}
		a.Body = Body(q, rows, 0)
	default:
		rows := s.matching(q)
		total := int64(len(rows))
		from := min(q.Offset, total)
		page := rows[from:min(from+q.Size, total)]
		if q.Window != "" {
			page = s.withPoints(q.Window, page)
		}
		if s != nil && (q.Endpoint == candles || q.Endpoint == prices) {
			var refused *Answer
			if page, refused = s.withPast(q, page); refused != nil {
				return *refused
			}
		}
		a.Body = Body(q, page, total)
		a.NotFound = s.missing(q)
		if q.CSV {
			a.CSV, a.Body, a.Total = true, Table(q, a.Body), integer(total)
		}
	}
	return a
}

// Body returns the whole body of a page of a listing, of trending or of search, with the given
// rows. total is the number of rows on all pages.
func Body(q *Query, rows []*Row, total int64) string {
	var b strings.Builder
	b.WriteString(`{"items":[`)
	for i, r := range rows {
		if i > 0 {
			b.WriteByte(',')
		}
		if q.Tails {
			b.WriteString(r.WithTail)
		} else {
			b.WriteString(r.JSON)
		}
	}
	b.WriteByte(']')
	if q.Endpoint != trending && q.Endpoint != search {
		b.WriteString(`,"page":` + integer(q.Page) + `,"total":` + integer(total) + `,"total_page":` +
			integer(max(1, (total+q.Size-1)/q.Size)))
	}
	b.WriteByte('}')
	return envelope(b.String())
}

// envelope returns the body of a 200.
func envelope(result string) string {
	return `{"code":0,"message":"OK","message_key":"OK","result":` + result + "}"
}

// matching returns the rows of a whole listing that pass all filters, in order.
func (s *Snapshot) matching(q *Query) []*Row {
	if s == nil {
		return nil
	}
	if len(q.Filters) == 0 {
		return s.ordered(q.Endpoint, q.Sort, q.Desc)
	}
	var rows []*Row
	for _, v := range q.Filters[0].Values {
		for _, r := range s.having(q.Listing(), q.Filters[0].Name, v) {
			if !slices.ContainsFunc(q.Filters[1:], func(f Filter) bool { return !f.Matches(r) }) {
				rows = append(rows, r)
			}
		}
	}
	slices.SortFunc(rows, Order(q.Sort, q.Desc))
	return slices.Compact(rows) // A row that has several of the values appears several times.
}

// ordered returns a whole listing in sort order.
func (s *Snapshot) ordered(collection, key string, desc bool) []*Row {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := collection + " " + key + " " + strconv.FormatBool(desc)
	rows, ok := s.orders[name]
	if !ok {
		if s.orders == nil {
			s.orders = map[string][]*Row{}
		}
		rows = pointers(s.Lists[collection])
		slices.SortFunc(rows, Order(key, desc))
		s.orders[name] = rows
	}
	return rows
}

func pointers(rows []Row) []*Row {
	all := make([]*Row, len(rows))
	for i := range rows {
		all[i] = &rows[i]
	}
	return all
}

// having returns the rows of a whole listing with the given value in the field of a filter.
func (s *Snapshot) having(listing, filter, value string) []*Row {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	name := listing + " " + filter
	rows, ok := s.found[name]
	if !ok {
		if s.found == nil {
			s.found = map[string]map[string][]*Row{}
		}
		rows = map[string][]*Row{}
		for _, r := range s.listed(listing) {
			for _, v := range r.values(filter) {
				rows[v] = append(rows[v], r)
			}
		}
		s.found[name] = rows
	}
	return rows[value]
}

// values returns the values of a row in the field of a filter.
func (r *Row) values(filter string) []string {
	switch filter {
	case "id":
		return []string{integer(r.ID)}
	case "slug":
		return []string{r.Slug}
	case "symbol":
		return []string{r.Symbol}
	}
	return r.Groups[filter]
}

// Matches reports whether a row passes the filter.
func (f Filter) Matches(r *Row) bool {
	return slices.ContainsFunc(r.values(f.Name), func(v string) bool { return slices.Contains(f.Values, v) })
}

// Order returns the comparison for a sort key. Ties are broken by ascending id in both directions
// (INTERFACE.md, "Sorting"). The key "24h" selects the order of trending.
func Order(key string, desc bool) func(a, b *Row) int {
	return func(a, b *Row) int {
		var c int
		switch key {
		case "id":
			c = cmp.Compare(a.ID, b.ID)
		case "name":
			c = cmp.Compare(a.Name, b.Name)
		case "symbol":
			c = cmp.Compare(a.Symbol, b.Symbol)
		case "slug":
			c = cmp.Compare(a.Slug, b.Slug)
		case "market_cap":
			switch { // Only markets have rows without a market cap. They come last in both directions.
			case a.MarketCap == nil && b.MarketCap != nil:
				return 1
			case a.MarketCap != nil && b.MarketCap == nil:
				return -1
			}
			c = compareNullable(a.MarketCap, b.MarketCap)
		case "price", "percent_change.1h", "percent_change.24h", "percent_change.7d", "percent_change.30d":
			c = a.Figures[key].Cmp(b.Figures[key])
		case "volume", "volume_24h":
			c = compareNullable(a.Volume, b.Volume)
		case "24h":
			c = compareNullable(a.Day, b.Day)
		case "rank":
			switch { // Rows without a rank come last in both directions.
			case a.Rank == 0 && b.Rank == 0:
				return cmp.Compare(a.ID, b.ID)
			case a.Rank == 0:
				return 1
			case b.Rank == 0:
				return -1
			}
			c = cmp.Compare(a.Rank, b.Rank)
		default:
			panic("model: unknown sort key " + key)
		}
		if desc {
			c = -c
		}
		return cmp.Or(c, cmp.Compare(a.ID, b.ID))
	}
}

// compareNullable compares amounts. A null is less than any amount.
func compareNullable(a, b *big.Rat) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return -1
	case b == nil:
		return 1
	}
	return a.Cmp(b)
}

// maxNotFound is the maximum length of X-Not-Found, in bytes.
const maxNotFound = 1024

// missing returns the value of X-Not-Found: the values of each filter that match nothing in the
// whole listing.
func (s *Snapshot) missing(q *Query) string {
	header := ""
	for _, f := range q.Filters {
		first := true
		for _, v := range f.Values {
			groups := map[string]string{"category": categories, "chain": chains}[f.Name]
			if len(s.having(q.Listing(), f.Name, v)) > 0 || groups != "" && len(s.having(groups, "slug", v)) > 0 {
				continue
			}
			lead := ","
			if first {
				first = false
				if lead = "&"; header == "" {
					lead = ""
				}
				lead += f.Name + "="
			}
			if len(header)+len(lead)+len(PercentEncode(v)) > maxNotFound {
				return header
			}
			header += lead + PercentEncode(v)
		}
	}
	return header
}

// PercentEncode encodes all characters except the unreserved ones of RFC 3986.
func PercentEncode(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._~", c) >= 0 {
			b.WriteByte(c)
		} else {
			b.WriteString("%" + strings.ToUpper(strconv.FormatInt(int64(c)+0x100, 16)[1:]))
		}
	}
	return b.String()
}

func integer(n int64) string { return strconv.FormatInt(n, 10) }

// timestamp formats a time as the service does.
func timestamp(t time.Time) string { return t.UTC().Format(TimeFormat) }
