package files

import (
	"cmp"
	"context"
	"encoding/binary"
	"io"
	"strings"
	"time"

	"example.com/marketdata/builder/ledger"
	"example.com/marketdata/builder/market"
	"github.com/holiman/uint256"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
)

const (
	// groupRows is the number of rows in a row group. The writer keeps one row group in memory,
	// compressed.
	groupRows = 1 << 18
	// dayGroupRows is the row group size for a day's prices, whose rows are small and numerous. It
	// yields 16 MiB of prices.
	dayGroupRows = 1 << 20
	// batch is the number of rows that are passed to the writer in one call.
	batch = 1024
)

// decimal is a DECIMAL in a FIXED_LEN_BYTE_ARRAY: big-endian, in two's complement. All current
// readers support this form.
type decimal [16]byte

func fixed(u market.U128) (d decimal) {
	binary.BigEndian.PutUint64(d[:8], u.Hi)
	binary.BigEndian.PutUint64(d[8:], u.Lo)
	return d
}

// most is the largest value with 36 digits.
var most = uint256.MustFromDecimal(strings.Repeat("9", 36))

// computed returns nil for a value of more than 36 digits. Otherwise it stores the value in *dst
// and returns dst. A feed's own figures have at most 36 digits, and computed figures exceed that
// only for a hostile feed.
func computed(neg bool, u *uint256.Int, dst *decimal) *decimal {
	if u.Gt(most) {
		return nil
	}
	v := *u
	if neg {
		v.Neg(&v)
	}
	*dst = fixed(market.U128{Hi: v[1], Lo: v[0]})
	return dst
}

// The row types have the fields of the API's items, with the same names in the same order. A
// nullable field is a pointer, since parquet-go 0.32 writes some zeros as null if the field has the
// tag "optional".
type (
	asset struct {
		ID        int64      `parquet:"id"`
		Rank      *int64     `parquet:"rank"`
		Name      string     `parquet:"name"`
		Symbol    string     `parquet:"symbol"`
		Slug      string     `parquet:"slug"`
		Logo      string     `parquet:"logo"`
		Explorers []string   `parquet:"explorers,list"`
		Links     assetLinks `parquet:"links"`
	}
	assetLinks struct {
		Website    string `parquet:"website"`
		Whitepaper string `parquet:"whitepaper"`
	}
	quote struct {
		ID        int64    `parquet:"id"`
		Rank      *int64   `parquet:"rank"`
		Name      string   `parquet:"name"`
		Symbol    string   `parquet:"symbol"`
		Slug      string   `parquet:"slug"`
		Logo      string   `parquet:"logo"`
		Price     decimal  `parquet:"price,decimal(18:36)"`
		MarketCap *decimal `parquet:"market_cap,decimal(8:36)"`
		Volume    decimal  `parquet:"volume,decimal(8:36)"`
		Changes   changes  `parquet:"percent_change"`

		Since *time.Time `parquet:"since,timestamp(millisecond)"`
	}
	changes struct {
		H1  *decimal `parquet:"1h,decimal(12:36)"`
		H6  *decimal `parquet:"6h,decimal(12:36)"`
		H12 *decimal `parquet:"12h,decimal(12:36)"`
		H24 *decimal `parquet:"24h,decimal(12:36)"`
		D7  *decimal `parquet:"7d,decimal(12:36)"`
		D30 *decimal `parquet:"30d,decimal(12:36)"`
		D90 *decimal `parquet:"90d,decimal(12:36)"`
		Y1  *decimal `parquet:"1y,decimal(12:36)"`
	}
	exchange struct {
		ID     int64           `parquet:"id"`
		Name   string          `parquet:"name"`
		Slug   string          `parquet:"slug"`
		Logo   string          `parquet:"logo"`
		Links  exchangeLinks   `parquet:"links"`
		Fees   fees            `parquet:"fees"`
		Market *exchangeMarket `parquet:"market"`
	}
	exchangeLinks struct {
		Website  string `parquet:"website"`
		Twitter  string `parquet:"twitter"`
		Telegram string `parquet:"telegram"`
		Reddit   string `parquet:"reddit"`
		Facebook string `parquet:"facebook"`
		Chat     string `parquet:"chat"`
	}
	fees struct {
		Maker decimal `parquet:"maker,decimal(8:36)"`
		Taker decimal `parquet:"taker,decimal(8:36)"`
	}
	exchangeMarket struct {
		Volume       *decimal   `parquet:"volume_24h,decimal(8:36)"`
		MarketsCount *int64     `parquet:"markets_count"`
		CoinsCount   *int64     `parquet:"coins_count"`
		DataTime     *time.Time `parquet:"data_time,timestamp(millisecond)"`
	}
	category struct {
		ID     int64       `parquet:"id"`
		Name   string      `parquet:"name"`
		Slug   string      `parquet:"slug"`
		Market groupMarket `parquet:"market"`
	}
	chain struct {
		ID          int64       `parquet:"id"`
		Name        string      `parquet:"name"`
		DisplayName string      `parquet:"display_name"`
		Slug        string      `parquet:"slug"`
		EVMChainID  *int64      `parquet:"evm_chain_id"`
		Logo        string      `parquet:"logo"`
		Market      groupMarket `parquet:"market"`
	}
	groupMarket struct {
		MarketCap    *decimal  `parquet:"market_cap,decimal(8:36)"`
		Volume       *decimal  `parquet:"volume_24h,decimal(8:36)"`
		Coins        int64     `parquet:"coins_count"`
		Share        decimal   `parquet:"market_cap_share,decimal(12:36)"`
		SnapshotTime time.Time `parquet:"snapshot_time,timestamp(millisecond)"`
		TopGainers   []gainer  `parquet:"top_gainers,list"`
	}
	gainer struct {
		ID     int64  `parquet:"id"`
		Symbol string `parquet:"symbol"`
		Name   string `parquet:"name"`
		Slug   string `parquet:"slug"`
		Logo   string `parquet:"logo"`
	}
	// member is an active member of a listed group.
	member struct {
		Collection string `parquet:"collection,dict"` // categories or chains
		Group      int64  `parquet:"group"`
		Asset      int64  `parquet:"asset"`
	}
	price struct {
		Time  time.Time `parquet:"time,dict,timestamp(millisecond)"`
		Asset int64     `parquet:"asset,delta"`
		Price decimal   `parquet:"price,decimal(18:36)"`
	}
)

// places holds the values to which a row points, so that filling a row needs no allocations.
type places struct {
	rank    int64
	cap     decimal
	changes [8]decimal
	since   time.Time
}

func (p *places) setRank(rank uint32) *int64 {
	if rank == 0 {
		return nil
	}
	p.rank = int64(rank)
	return &p.rank
}

func (m member) compare(n member) int {
	return cmp.Or(cmp.Compare(m.Collection, n.Collection), cmp.Compare(m.Group, n.Group), cmp.Compare(m.Asset, n.Asset))
}

// groupCollections are the collections whose groups have members.
var groupCollections = [...]string{"categories", "chains"}

// rowWriters write the rows of each collection. order lists the row indices.
var rowWriters = map[string]func(w *Writer, out io.Writer, order []int32) error{
	"assets": func(w *Writer, out io.Writer, order []int32) error {
		at := make([]places, batch)
		return writeRows(w, out, len(order), func(row *asset, i int) { w.asset(row, order[i], &at[i%batch]) })
	},
	"quotes": func(w *Writer, out io.Writer, order []int32) error {
		at := make([]places, batch)
		return writeRows(w, out, len(order), func(row *quote, i int) { w.quote(row, order[i], &at[i%batch]) })
	},
	"exchanges": func(w *Writer, out io.Writer, order []int32) error {
		return writeRows(w, out, len(order), func(row *exchange, i int) { w.exchange(row, order[i]) })
	},
	"categories": func(w *Writer, out io.Writer, order []int32) error {
		return writeRows(w, out, len(order), func(row *category, i int) {
			l := &w.Result.Categories[order[i]]
			g := &w.Feed.Categories[l.Group]
			*row = category{int64(g.ID), g.Name, g.Slug, w.market(&l.Market)}
		})
	},
	"chains": func(w *Writer, out io.Writer, order []int32) error {
		return writeRows(w, out, len(order), func(row *chain, i int) {
			l := &w.Result.Chains[order[i]]
			g := &w.Feed.Chains[l.Group]
			*row = chain{int64(g.ID), g.Name, g.DisplayName, g.Slug, signed(g.EVMChainID), "", w.market(&l.Market)}
			if g.Native >= 0 {
				row.Logo = w.Feed.Assets[g.Native].Logo
			}
		})
	},
}

func (w *Writer) asset(row *asset, i int32, at *places) {
	a := &w.Feed.Assets[i]
	*row = asset{int64(a.ID), at.setRank(w.Result.Rank[i]), a.Name, a.Symbol, a.Slug, a.Logo, a.Explorers,
		assetLinks{a.Website, a.Whitepaper}}
}

func (w *Writer) quote(row *quote, i int32, at *places) {
	q := &w.Feed.Quotes[i]
	a := &w.Feed.Assets[q.Asset]
	*row = quote{int64(a.ID), at.setRank(w.Result.Rank[q.Asset]), a.Name, a.Symbol, a.Slug, a.Logo, fixed(q.Price),
		nil, fixed(q.Volume), changes{}, nil}
	if since, short := w.Result.Since(int(i)); short {
		at.since = since
		row.Since = &at.since
	}
	if !q.MarketCap.IsZero() {
		at.cap = fixed(q.MarketCap)
		row.MarketCap = &at.cap
	}
	c := &row.Changes
	for k, to := range [...]**decimal{&c.H1, &c.H6, &c.H12, &c.H24, &c.D7, &c.D30, &c.D90, &c.Y1} {
		change := w.Result.Change(w.Feed, k, int(i))
		*to = computed(change.Neg, &change.V, &at.changes[k])
	}
}

func (w *Writer) exchange(row *exchange, i int32) {
	e := &w.Feed.Exchanges[i]
	l := &e.Links
	*row = exchange{int64(e.ID), e.Name, e.Slug, e.Logo, exchangeLinks{l[0], l[1], l[2], l[3], l[4], l[5]},
		fees{fixed(e.Maker), fixed(e.Taker)}, nil}
	m := e.Market
	if m == nil {
		return
	}
	row.Market = &exchangeMarket{nil, signed(m.MarketsCount), signed(m.CoinsCount), m.DataTime}
	if m.Volume != nil {
		v := fixed(*m.Volume)
		row.Market.Volume = &v
	}
}

// signed returns a count as a signed integer, since readers in Java and Spark have no unsigned
// integers. A count has at most 53 bits.
func signed(n *uint64) *int64 {
	if n == nil {
		return nil
	}
	s := int64(*n)
	return &s
}

func (w *Writer) market(m *market.GroupMarket) groupMarket {
	row := groupMarket{computed(false, &m.MarketCap, new(decimal)), computed(false, &m.Volume, new(decimal)),
		int64(m.Coins), fixed(market.U128{Lo: m.Share}), m.Time.UTC(), nil}
	for _, id := range m.TopGainers {
		if i, ok := w.Result.ByID[id]; ok {
			a := &w.Feed.Assets[i]
			row.TopGainers = append(row.TopGainers, gainer{int64(id), a.Symbol, a.Name, a.Slug, a.Logo})
		}
	}
	return row
}

// table is a Parquet file that is being written.
type table[T any] struct {
	*parquet.GenericWriter[T]
	out *bounded
}

func newParquet[T any](w *Writer, out io.Writer, rows int64) table[T] {
	w.codec.Level = zstd.SpeedFastest
	t := table[T]{out: &bounded{out: out}}
	options := append(decimals(parquet.SchemaOf(new(T))), parquet.Compression(&w.codec),
		parquet.MaxRowsPerRowGroup(rows), parquet.CreatedBy("marketdata", "1", "0"), parquet.DataPageVersion(1))
	t.GenericWriter = parquet.NewGenericWriter[T](t.out, options...)
	return t
}

// Close writes the footer.
func (t table[T]) Close() error {
	if err := t.GenericWriter.Close(); err != nil {
		return err
	}
	return t.out.close()
}

// writeRows writes n rows. fill sets row i.
func writeRows[T any](of *Writer, out io.Writer, n int, fill func(row *T, i int)) error {
	w := newParquet[T](of, out, int64(cmp.Or(of.GroupRows, groupRows)))
	rows := make([]T, batch)
	for i := 0; i < n; i += batch {
		part := rows[:min(batch, n-i)]
		for j := range part {
			fill(&part[j], i+j)
		}
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	return w.Close()
}

// writeDay writes a day's prices, ordered by time, then asset.
func (w *Writer) writeDay(ctx context.Context, out io.Writer, day time.Time, from *ledger.Ledger,
) (n int64, err error) {
	p := newParquet[price](w, out, dayGroupRows)
	rows := make([]price, 0, batch)
	flush := func() {
		if err == nil {
			_, err = p.Write(rows)
		}
		n, rows = n+int64(len(rows)), rows[:0]
	}
	rerr := from.EachPrice(ctx, day, func(t time.Time, id uint64, u market.U128) {
		if rows = append(rows, price{t, int64(id), fixed(u)}); len(rows) == batch {
			flush()
		}
	})
	flush()
	if err = cmp.Or(rerr, err); err == nil {
		err = p.Close()
	}
	return n, err
}
