package oracle

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"example.com/marketdata/artifacts"
)

// TimeFormat is how responses and the X-Snapshot-Time header write a time.
const TimeFormat = "2006-01-02T15:04:05Z"

// Snapshot is one snapshot, decoded.
type Snapshot struct {
	Time     time.Time
	Database string
	// Faults are rows of the snapshot that break the interface by themselves,
	// at most maxFaults of them.
	Faults []string

	global      artifacts.Global
	collections map[string]*collection
}

const maxFaults = 20

// collection is the rows of a listing, in ascending order of id but for
// trending, which stands as published.
type collection struct {
	rows   []row
	keys   []*names
	folded map[string][]string         // name, symbol, slug: folded text by row
	by     map[string]map[string][]int // id, slug, symbol: rows by value as a Query has it
	orders map[string][]int            // rows in order, by sort key and direction
}

var collections = []string{"assets", "quotes", "exchanges", "categories", "chains", "trending"}

// Load reads and decodes the snapshot of a manifest. The error says that
// something could not be read; rows that break the interface are Faults.
func Load(ctx context.Context, store artifacts.Reader, m *artifacts.Manifest) (*Snapshot, error) {
	s := &Snapshot{Time: m.Time, Database: m.Database, global: m.Global, collections: map[string]*collection{}}
	for _, name := range collections {
		sort := "id"
		if name == "trending" {
			sort = "board"
		}
		v := m.View(name, sort)
		if v == nil {
			return nil, fmt.Errorf("snapshot %s has no view %s/%s", m.Time.Format(TimeFormat), name, sort)
		}
		c := &collection{orders: map[string][]int{}}
		for _, o := range v.Objects {
			if err := s.object(ctx, store, name, c, o.Ref); err != nil {
				return nil, fmt.Errorf("snapshot %s, %s: %w", m.Time.Format(TimeFormat), name, err)
			}
		}
		c.index()
		s.collections[name] = c
	}
	for name, text := range map[string]string{"total_market_cap": m.Global.TotalMarketCap, "total_volume_24h": m.Global.TotalVolume24h} {
		if err := decimal(name, text, 8, false); err != nil {
			s.fault("global: %v", err)
		}
	}
	return s, nil
}

func (s *Snapshot) fault(format string, args ...any) {
	if len(s.Faults) < maxFaults {
		s.Faults = append(s.Faults, fmt.Sprintf(format, args...))
	}
}

func (s *Snapshot) object(ctx context.Context, store artifacts.Reader, name string, c *collection, ref artifacts.Ref) error {
	key := artifacts.ObjectKey(ref.Digest)
	b, _, err := store.Get(ctx, key, ref.Size)
	if err != nil {
		return fmt.Errorf("read %s: %w", key, err)
	}
	if artifacts.Sum(b) != ref.Digest {
		return fmt.Errorf("read %s: its bytes have another digest", key)
	}
	shards, err := artifacts.ParseObject(b)
	if err != nil {
		return fmt.Errorf("read %s: %w", key, err)
	}
	for _, shard := range shards {
		for i := range shard.Len() {
			text := slices.Clone(shard.Row(i))
			if tail := shard.Tail(i); tail != nil {
				text = append(text[:len(text)-1], tail...)
			}
			r, err := decodeRow(name, text)
			if r == nil {
				return fmt.Errorf("row of id %d: %w", shard.ID(i), err)
			}
			if err != nil {
				s.fault("%s, row of id %s: %v", name, r.key().ID, err)
			}
			c.rows = append(c.rows, r)
		}
	}
	return nil
}

func (c *collection) index() {
	n := len(c.rows)
	c.keys = make([]*names, n)
	c.folded = map[string][]string{"name": make([]string, n), "symbol": make([]string, n), "slug": make([]string, n)}
	c.by = map[string]map[string][]int{"id": {}, "slug": {}, "symbol": {}}
	for i, r := range c.rows {
		k := r.key()
		c.keys[i] = k
		c.folded["name"][i], c.folded["symbol"][i], c.folded["slug"][i] = Fold(k.Name), Fold(k.Symbol), Fold(k.Slug)
		c.by["id"][k.ID.String()] = append(c.by["id"][k.ID.String()], i)
		for _, f := range []string{"slug", "symbol"} {
			v := c.folded[f][i]
			c.by[f][v] = append(c.by[f][v], i)
		}
	}
}

// id returns a row's id as a number; decoding has checked that it is one.
func (c *collection) id(i int) uint64 {
	n, err := strconv.ParseUint(c.keys[i].ID.String(), 10, 64)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return n
}

// order returns all rows in the order of a sort key. Ties stand by id,
// ascending, in both directions (INTERFACE.md, "Sorting").
func (c *collection) order(sort string, desc bool) []int {
	name := sort
	if desc {
		name += ":desc"
	}
	if o, ok := c.orders[name]; ok {
		return o
	}
	compare := c.comparer(sort)
	o := make([]int, len(c.rows))
	for i := range o {
		o[i] = i
	}
	slices.SortFunc(o, func(a, b int) int {
		if sort == "rank" {
			// Those without a rank stand last in both directions.
			if ra, rb := c.rank(a) == 0, c.rank(b) == 0; ra != rb {
				if ra {
					return 1
				}
				return -1
			}
		}
		d := compare(a, b)
		if desc {
			d = -d
		}
		if d == 0 {
			d = cmp.Compare(c.id(a), c.id(b))
		}
		return d
	})
	c.orders[name] = o
	return o
}

func (c *collection) rank(i int) uint64 {
	r := c.rows[i].(*assetRow).Rank
	if r == nil {
		return 0
	}
	n, err := strconv.ParseUint(r.String(), 10, 64)
	if err != nil {
		return 0 // a fault, reported when it was decoded
	}
	return n
}

// comparer returns the comparison of two rows by a sort key, ascending.
func (c *collection) comparer(sort string) func(a, b int) int {
	switch sort {
	case "id":
		return func(a, b int) int { return cmp.Compare(c.id(a), c.id(b)) }
	case "rank":
		return func(a, b int) int { return cmp.Compare(c.rank(a), c.rank(b)) }
	case "name", "symbol", "slug":
		text := c.folded[sort]
		return func(a, b int) int { return strings.Compare(text[a], text[b]) }
	}
	values := make([]*big.Rat, len(c.rows)) // nil sorts below every number
	for i, r := range c.rows {
		values[i] = sortValue(r, sort)
	}
	return func(a, b int) int {
		va, vb := values[a], values[b]
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
}

// sortValue returns the number that a row is sorted by, nil for an exchange
// without a volume.
func sortValue(r row, sort string) *big.Rat {
	market := func(m *groupMarket) *big.Rat {
		if sort == "market_cap" {
			return parseNumber(m.MarketCap)
		}
		return parseNumber(m.Volume)
	}
	switch r := r.(type) {
	case *exchangeRow:
		if r.Market == nil || r.Market.Volume == nil {
			return nil
		}
		return parseNumber(*r.Market.Volume)
	case *categoryRow:
		return market(&r.Market)
	case *chainRow:
		return market(&r.Market)
	case *quoteRow:
		return parseNumber(r.PercentChange["24h"])
	}
	panic("BUG: sort " + sort)
}

// parseNumber returns a decimal's value; one that is none was reported as a
// fault and sorts like none.
func parseNumber(s string) *big.Rat {
	if !decimalText.MatchString(s) {
		return nil
	}
	v, ok := new(big.Rat).SetString(s)
	if !ok {
		return nil
	}
	return v
}

// match returns the rows that pass all filters, in the given order.
func (c *collection) match(q *Query) []int {
	order := c.order(q.Sort, q.Desc)
	if len(q.Filters) == 0 {
		return order
	}
	hits := map[int]int{} // row: filters that it passes
	for name, values := range q.Filters {
		for _, v := range values {
			for _, i := range c.by[name][v] {
				hits[i]++
			}
		}
	}
	var rows []int
	for i, n := range hits {
		if n == len(q.Filters) {
			rows = append(rows, i)
		}
	}
	place := make(map[int]int, len(rows))
	if len(rows) > 1 {
		for at, i := range order {
			if hits[i] > 0 {
				place[i] = at
			}
		}
	}
	slices.SortFunc(rows, func(a, b int) int { return cmp.Compare(place[a], place[b]) })
	return rows
}

// Answer is what the service must answer.
type Answer struct {
	Body []byte
	// NotFound is the X-Not-Found header, "" for none.
	NotFound string
}

const success = `{"code":0,"message":"OK","message_key":"OK","result":`

// Answer returns the answer to a query. change is the value of the change
// record for /global, nil when it is null.
func (s *Snapshot) Answer(q *Query, change *string) Answer {
	var b strings.Builder
	b.WriteString(success)
	o := begin(&b)
	var notFound string
	switch q.Endpoint {
	case "global":
		o.text("total_market_cap", s.global.TotalMarketCap)
		o.text("total_volume_24h", s.global.TotalVolume24h)
		o.textOrNull("total_market_cap_change_percentage_24h", change)
		o.text("data_time", s.Time.Format(TimeFormat))
	case "trending":
		c := s.collections["trending"]
		o.name("items")
		c.write(&b, c.order("24h", true), false)
	default:
		c := s.collections[q.Endpoint]
		rows := c.match(q)
		total := int64(len(rows))
		o.name("items")
		from := min(q.Offset, total)
		c.write(&b, rows[from:min(from+q.Size, total)], q.Links)
		o.number("page", integerText(q.Page))
		o.number("total", integerText(total))
		o.number("total_page", integerText(TotalPages(total, q.Size)))
		notFound = c.notFound(q)
	}
	o.end()
	b.WriteByte('}')
	return Answer{Body: []byte(b.String()), NotFound: notFound}
}

// TotalPages is how many pages a listing has: one at least.
func TotalPages(total, size int64) int64 { return max(1, (total+size-1)/size) }

// Change returns what /global shows of a change record in this snapshot: nil
// when the record is missing, of another database, or too large for the API
// (INTERFACE.md, "Global").
func (s *Snapshot) Change(c *artifacts.Change) *string {
	if c == nil || c.Database != s.Database || decimal("change", c.Value, 12, true) != nil {
		return nil
	}
	whole, _, _ := strings.Cut(strings.TrimPrefix(c.Value, "-"), ".")
	if len(whole) > 9 {
		return nil
	}
	return &c.Value
}

func (c *collection) write(b *strings.Builder, rows []int, links bool) {
	b.WriteByte('[')
	for n, i := range rows {
		if n > 0 {
			b.WriteByte(',')
		}
		c.rows[i].write(b, links)
	}
	b.WriteByte(']')
}

// maxNotFound bounds the X-Not-Found header (INTERFACE.md, "Values not found").
const maxNotFound = 1024

// notFound returns the values of the query's filters that match nothing in the
// whole listing.
func (c *collection) notFound(q *Query) string {
	var b strings.Builder
	for _, name := range []string{"id", "slug", "symbol"} {
		var missing []string
		for _, v := range q.Filters[name] {
			if len(c.by[name][v]) == 0 {
				missing = append(missing, v)
			}
		}
		slices.SortFunc(missing, func(a, b string) int {
			if name == "id" {
				return cmp.Compare(mustInt(a), mustInt(b))
			}
			return strings.Compare(a, b)
		})
		for i, v := range missing {
			piece := "," + percentEncode(v)
			if i == 0 {
				piece = name + "=" + percentEncode(v)
				if b.Len() > 0 {
					piece = "&" + piece
				}
			}
			if b.Len()+len(piece) > maxNotFound {
				return b.String()
			}
			b.WriteString(piece)
		}
	}
	return b.String()
}

// mustInt returns the value of an id that Parse has read.
func mustInt(s string) int64 {
	n, ok := parseInt(s)
	if !ok {
		panic("BUG: " + s + " was read as an id")
	}
	return n
}

func integerText(n int64) json.Number { return json.Number(strconv.FormatInt(n, 10)) }

func percentEncode(s string) string {
	var b strings.Builder
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("-._~", c) >= 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// ErrNoSnapshot: the store's published manifest does not list the time.
var ErrNoSnapshot = errors.New("snapshot not listed")

// FindManifest returns the manifest of the snapshot of time t, which the
// published one lists, or is.
func FindManifest(ctx context.Context, store artifacts.Reader, t time.Time) (*artifacts.Manifest, error) {
	b, _, err := store.Get(ctx, artifacts.CurrentKey, artifacts.MaxPointerSize)
	if err != nil {
		return nil, fmt.Errorf("read pointer: %w", err)
	}
	p, err := artifacts.ParsePointer(b)
	if err != nil {
		return nil, err
	}
	m, err := getManifest(ctx, store, p.Manifest)
	if err != nil || m.Time.Equal(t) {
		return m, err
	}
	for _, r := range m.Retained {
		if r.Time.Equal(t) {
			return getManifest(ctx, store, r.Manifest)
		}
	}
	return nil, fmt.Errorf("%w: %s (newest is %s)", ErrNoSnapshot, t.Format(TimeFormat), m.Time.Format(TimeFormat))
}

func getManifest(ctx context.Context, store artifacts.Reader, ref artifacts.Ref) (*artifacts.Manifest, error) {
	key := artifacts.ManifestKey(ref.Digest)
	b, _, err := store.Get(ctx, key, ref.Size)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", key, err)
	}
	if artifacts.Sum(b) != ref.Digest {
		return nil, fmt.Errorf("read %s: its bytes have another digest", key)
	}
	return artifacts.ParseManifest(b)
}

// GetChange reads the change record, nil when there is none or it cannot be
// understood.
func GetChange(ctx context.Context, store artifacts.Reader) (*artifacts.Change, error) {
	b, _, err := store.Get(ctx, artifacts.ChangeKey, artifacts.MaxPointerSize)
	if errors.Is(err, artifacts.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read change record: %w", err)
	}
	c, err := artifacts.ParseChange(b)
	if err != nil {
		return nil, nil // unreadable: /global shows null
	}
	return c, nil
}
