// Package sim is a simulated market: a source of feeds (FEED.md) of any size, for trying things out
// and for measurements.
//
// A market is computed from a seed and the time by integer arithmetic. The same seed, size and time
// give the same bytes on every machine, and no moment depends on earlier ones. The sixty largest
// assets are well-known real ones, with plausible prices and supplies (real.tsv). Assets that are
// pegged to the dollar stay near one dollar. The volumes of the exchanges add up to about the
// volume of all assets. The first chains are real ones. Everything else is invented.
//
// Prices follow random walks. Most of them also follow the whole market and a sector. Assets
// appear, vanish and come back, and quotes are missing for a while. The market has the oddities of
// real feeds: a long tail of tiny prices, tickers shared by thousands of assets, unknown market
// caps, exchanges without a market, empty groups, and numbers in every form. Names in any script,
// names with letters that fold in surprising ways, and slugs with & and parentheses occur only in
// the smallest quarter, so that the first pages of lists look plain. A dirty market also has values
// that the feed reader warns about: control characters in names, invalid times, members that do not
// exist.
//
//	src, err := sim.Open(ctx, "?assets=2000&seed=1") // sim:?assets=2000&seed=1
//	files, err := src.Files(ctx, time.Date(2026, 11, 21, 7, 30, 0, 0, time.UTC))
package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/source"
)

const (
	// minAssets and maxAssets bound the size of a market. defaultAssets is the default size.
	minAssets     = 10
	maxAssets     = 2_000_000
	defaultAssets = 2_000
	// defaultSeed is the seed of a market whose name does not state one.
	defaultSeed = 1
)

// Market is a simulated market. It implements source.Source and never changes.
type Market struct {
	assets int
	number uint64 // the seed as given
	dirty  bool   // whether it has rows that the feed reader warns about
	year   bool   // whether it has a year of past prices
	seed   hash
	now    func() time.Time

	exchanges, categories, chains int
	chainSlugs                    []string
	// traded is the average daily volume of all assets, in cents. The exchanges share it in
	// proportion to their weights. venues is the sum of these weights. The first exchange has a
	// weight of a million.
	traded, venues uint64
}

// Open opens the market that rest describes. rest is the part of a source's name after sim:. It is
// empty or a query with assets (minAssets to maxAssets), seed (a whole number from 0), dirty (on or
// off) and past (year or none). Open is a source.Opener.
func Open(_ context.Context, rest string) (source.Source, error) {
	m, err := parse(rest)
	if err != nil {
		return nil, fmt.Errorf("%w; want sim:?assets=N&seed=S&dirty=on&past=year, all optional, N from %d to %d, "+
			"S a whole number from 0", err, minAssets, maxAssets)
	}
	market := newMarket(m.assets, m.number, m.dirty, time.Now)
	market.year = m.year
	return market, nil
}

// parse returns a market in which only the fields that the query can set are valid.
func parse(rest string) (m Market, err error) {
	m.assets, m.number = defaultAssets, defaultSeed
	query, found := strings.CutPrefix(rest, "?")
	if !found && rest != "" {
		return m, fmt.Errorf("unexpected %.80q", rest)
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return m, fmt.Errorf("query %.80q: %w", query, err)
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		value := values[name][0]
		if n := len(values[name]); n > 1 {
			return m, fmt.Errorf("%s is given %d times", name, n)
		}
		switch name {
		case "assets":
			m.assets, err = strconv.Atoi(value)
			if err != nil || m.assets < minAssets || m.assets > maxAssets {
				return m, fmt.Errorf("assets=%.80s is out of range or no whole number", value)
			}
		case "seed":
			if m.number, err = strconv.ParseUint(value, 10, 64); err != nil {
				return m, fmt.Errorf("seed=%.80s is out of range or no whole number", value)
			}
		case "dirty":
			if m.dirty = value == "on"; !m.dirty && value != "off" {
				return m, fmt.Errorf("dirty=%.80s is neither on nor off", value)
			}
		case "past":
			if m.year = value == "year"; !m.year && value != "none" {
				return m, fmt.Errorf("past=%.80s is neither year nor none", value)
			}
		default:
			return m, fmt.Errorf("unknown parameter %.80q", name)
		}
	}
	return m, nil
}

func newMarket(assets int, seed uint64, dirty bool, now func() time.Time) *Market {
	m := &Market{
		assets: assets, number: seed, dirty: dirty, seed: hash(0).with(seed), now: now,
		exchanges:  max(20, min(1000, assets/50)),
		categories: max(8, min(300, assets/40)),
		chains:     max(len(realChains), min(200, assets/100)),
	}
	for place := range assets {
		if place < settled {
			m.traded += reals[place].cap() / 28
		} else {
			m.traded += capOf(place) / 80
		}
	}
	for i := range m.chains {
		_, slug, _ := (&moment{Market: m}).chainName(i)
		m.chainSlugs = append(m.chainSlugs, slug)
	}
	for i := range m.exchanges {
		m.venues += capOf(i) / (topCap / 1_000_000)
	}
	return m
}

// String returns the name of the source with all parameters.
func (m *Market) String() string {
	name := fmt.Sprintf("sim:?assets=%d&seed=%d%s", m.assets, m.number, m.onlyDirty("&dirty=on"))
	if m.year {
		name += "&past=year"
	}
	return name
}

// onlyDirty returns its argument for a dirty market, and "" for any other.
func (m *Market) onlyDirty(text string) string {
	if m.dirty {
		return text
	}
	return ""
}

// Notice implements source.Noticed.
func (m *Market) Notice() *artifacts.Notice {
	return &artifacts.Notice{Text: "Simulated market: these prices are invented"}
}

// Files returns the market's feed at t, or at the present if t is zero. Either time is rounded down
// to a multiple of ten minutes, since the market moves every ten minutes. The files are generated
// as they are read, and take at most a few megabytes of memory, whatever the size of the market.
// The year of t must be from 1 to 9999.
func (m *Market) Files(_ context.Context, t time.Time) (source.Files, error) {
	if t.IsZero() {
		t = m.now()
	}
	t = t.UTC().Truncate(artifacts.Step)
	if y := t.Year(); y < 1 || y > 9999 {
		return nil, fmt.Errorf("simulated market: year %d: want 1 to 9999", y)
	}
	return m.at(t), nil
}

// at returns the market at time t.
func (m *Market) at(t time.Time) *moment {
	at := &moment{Market: m, time: t, unix: t.Unix()}
	at.market = m.seed.with(ofMarket).walk(at.unix, 100)
	for i := range at.sector {
		at.sector[i] = m.seed.with(ofSector).with(uint64(i)).walk(at.unix, 50)
	}
	return at
}

// The numbers that distinguish the hashes of the things within a seed, and of the traits within a
// thing. Their order must not change, since another order would produce different markets.
const (
	ofMarket uint64 = iota
	ofSector
	ofPlace
	ofAsset
	ofExchange
	ofCategory
	ofChain

	ofLife
	ofName
	ofSymbol
	ofSlug
	ofKind
	ofPrice
	ofCap
	ofVolume
	ofLoss
	ofStyle
	ofLinks
	ofFees
	ofCounts
	ofTime
	ofStatus
	ofMembers
	ofNative
	ofPlatforms
	ofSupply
	ofRate
)

// sectors is the number of sectors. The assets of a sector move together.
const sectors = 16

// moment is a market at one point in time. It never changes.
type moment struct {
	*Market
	time   time.Time
	unix   int64
	market int64 // the factor by which the whole market has moved
	sector [sectors]int64
}

const (
	hour = 3600 // seconds
	day  = 24 * hour
	// yearOne is the Unix time before which there is no feed.
	yearOne = -62135596800
)

// turn divides time into turns of equal length and returns the number of the present one. The hash
// h determines the length, which is between shortest and longest, in seconds. The turns of
// different hashes begin at different times.
func (m *moment) turn(h hash, shortest, longest int64) int64 {
	length := shortest + int64(h.with(0).below(uint64(longest-shortest)))
	begin := int64(h.with(1).below(uint64(length)))
	return (m.unix - yearOne + begin) / length
}

// Open implements source.Files.
func (m *moment) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	switch name {
	case source.InfoFile:
		return m.rows(ctx, 1, m.info), nil
	case source.AssetsFile:
		return m.rows(ctx, m.assets, m.assetRow), nil
	case source.QuotesFile:
		return m.rows(ctx, m.assets, m.quoteRow), nil
	case source.ExchangesFile:
		return m.rows(ctx, m.exchanges, m.exchangeRow), nil
	case source.CategoriesFile:
		return m.rows(ctx, m.categories, m.categoryRow), nil
	case source.ChainsFile:
		return m.rows(ctx, m.chains, m.chainRow), nil
	case source.RatesFile:
		return m.rows(ctx, rates, m.rateRow), nil
	}
	return nil, fmt.Errorf("simulated market: file %.80q: %w", name, fs.ErrNotExist)
}

type infoRow struct {
	Format   int       `json:"format"`
	Database string    `json:"database"`
	Time     time.Time `json:"time"`
}

func (m *moment) info(int) any {
	return &infoRow{Format: 1, Database: m.database(), Time: m.time}
}

func (m *Market) database() string {
	return fmt.Sprintf("sim-%d-%d%s", m.assets, m.number, m.onlyDirty("-dirty"))
}

// rows returns a file of at most n rows. makeRow returns row i, or nil if the file does not have
// it.
func (m *moment) rows(ctx context.Context, n int, makeRow func(i int) any) io.ReadCloser {
	return &rowReader{ctx: ctx, n: n, row: makeRow}
}

// chunk is the minimum size, in bytes, of the rows that are generated at a time.
const chunk = 32 << 10

type rowReader struct {
	ctx  context.Context
	row  func(i int) any
	i, n int
	buf  bytes.Buffer
}

func (r *rowReader) Read(p []byte) (int, error) {
	for r.buf.Len() == 0 {
		if r.row == nil {
			return 0, fs.ErrClosed
		}
		if err := r.ctx.Err(); err != nil {
			return 0, err
		}
		if r.i == r.n {
			return 0, io.EOF
		}
		lines := json.NewEncoder(&r.buf)
		lines.SetEscapeHTML(false)
		for ; r.i < r.n && r.buf.Len() < chunk; r.i++ {
			row := r.row(r.i)
			if row == nil {
				continue
			}
			if err := lines.Encode(row); err != nil {
				return 0, err
			}
		}
	}
	return r.buf.Read(p)
}

func (r *rowReader) Close() error {
	r.row, r.buf = nil, bytes.Buffer{}
	return nil
}
