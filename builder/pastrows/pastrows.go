// Package pastrows reads rows of past prices from files, in any order, and returns them in time
// order (../FEED.md, "Importing a past"). It sorts the rows in pieces in a folder on disk, so
// memory is bounded whatever the number of rows.
//
//	rows, err := pastrows.Read(ctx, []string{"bitcoin.csv", "feeds/"}, pastrows.Options{Known: known, Dir: dir})
//	for moment, err := range rows.Moments(ctx) {
//		…
//	}
package pastrows

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/market"
	"example.com/marketdata/builder/past"
	"example.com/marketdata/builder/source"
)

// Options are the options of Read.
type Options struct {
	// Known returns the id of the asset with this key. ok is false if no asset has the key.
	Known func(key string) (id uint64, ok bool)
	// Newest is the time of the published snapshot. Later rows are not in the past.
	Newest time.Time
	// Dir is an empty folder for intermediate files.
	Dir string
	// Progress, if not nil, is called with the number of bytes read from a file, and the file's
	// size.
	Progress func(file string, read, total int64)
}

// Place is the location of a row in the files.
type Place struct {
	File string `json:"file"`
	// Line counts from 1. The header of a CSV file is line 1. For Parquet, Line is the row number.
	Line int `json:"line"`
}

func (p Place) String() string { return fmt.Sprintf("%s:%d", p.File, p.Line) }

// Problem says why a row was set aside.
type Problem struct {
	Place
	Reason string `json:"reason"`
}

// UnknownKey is a key that no asset has.
type UnknownKey struct {
	Key   string `json:"key"`
	Rows  int    `json:"rows"`
	First Place  `json:"first"`
}

// Limits for the lists in a report.
const (
	MaxProblems    = 20
	MaxUnknownKeys = 1000
	maxIgnored     = 20
)

// Report counts the rows that were read, by what happened to them. Moments returns the rows that
// are counted in Rows but in no other field.
type Report struct {
	// Rows is the number of rows. Blank lines and headers do not count.
	Rows int `json:"rows"`
	// Unusable counts rows that were set aside. Problems describes the first of them. It also
	// describes bad market caps and volumes, which do not set their rows aside.
	Unusable int       `json:"unusable"`
	Problems []Problem `json:"problems,omitempty"`
	// Unknown counts rows whose key belongs to no asset. UnknownKeys are the first such keys.
	Unknown     int          `json:"unknown"`
	UnknownKeys []UnknownKey `json:"unknown_keys,omitempty"`
	// Ignored lists the table columns that were not read, each with its file.
	Ignored []string `json:"ignored,omitempty"`
	// Repeated counts rows that follow another row for the same asset in the same ten minutes.
	Repeated int `json:"repeated"`
	// Newer counts rows that are later than the published snapshot.
	Newer int `json:"newer"`
}

// Rows are the rows that Read has read.
type Rows struct {
	// Report is complete once the iteration over Moments has ended.
	Report Report
	// Files are the file names. Figures.File is an index into Files.
	Files []string

	opts   Options
	keys   map[string]int // index in Report.UnknownKeys, by key
	sorter sorter
	totals map[int64]string // by Unix time of the snapshot
}

// Moment holds the figures of all assets in the same ten minutes.
type Moment struct {
	past.Snapshot
	// Total is the market cap of the whole market in units of 1e-8 dollars, or "" if it is unknown.
	Total string
}

// errNames lists the kinds of files that can be read.
var errNames = errors.New("want a .csv, .ndjson, .jsonl or .parquet file, or a folder of feeds")

// Read reads files and folders. It sets aside and reports rows that it cannot use. It returns an
// error if it cannot read a file at all.
func Read(ctx context.Context, names []string, opts Options) (*Rows, error) {
	r := &Rows{opts: opts, keys: map[string]int{}, sorter: sorter{dir: opts.Dir}, totals: map[int64]string{}}
	for _, name := range names {
		if err := r.read(ctx, name); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return r, r.sorter.end()
}

func (r *Rows) read(ctx context.Context, name string) error {
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return r.folder(ctx, name)
	}
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close() // the file was only read
	r.Files = append(r.Files, name)
	in := &progressReader{Reader: f, ctx: ctx, name: name, size: info.Size(), progress: r.opts.Progress}
	switch strings.ToLower(filepath.Ext(name)) {
	case ".csv":
		return r.csv(in)
	case ".ndjson", ".jsonl":
		return r.ndjson(in)
	case ".parquet":
		return r.parquet(ctx, f, info.Size())
	}
	return errNames
}

// folder reads a folder that is a feed or contains feeds.
func (r *Rows) folder(ctx context.Context, dir string) error {
	if _, err := os.Stat(filepath.Join(dir, source.InfoFile)); err == nil {
		return r.feed(ctx, dir)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	found := false
	for _, e := range entries {
		sub := filepath.Join(dir, e.Name())
		if _, err := os.Stat(filepath.Join(sub, source.InfoFile)); err != nil || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		found = true
		if err := r.feed(ctx, sub); err != nil {
			return fmt.Errorf("%s: %w", e.Name(), err)
		}
	}
	if !found {
		return fmt.Errorf("no feed: want %s in it, or in folders in it", source.InfoFile)
	}
	return nil
}

// feed reads a feed. Each row's line is its number among the accepted quotes.
func (r *Rows) feed(ctx context.Context, dir string) error {
	feed, report, err := source.Read(ctx, source.FS(os.DirFS(dir)), source.ReadOptions{})
	if err != nil {
		return err
	}
	name := filepath.Join(dir, source.QuotesFile)
	r.Files = append(r.Files, name)
	for _, f := range report.Files {
		r.Report.Unusable += f.Rejected
		for _, p := range f.Rejections {
			r.problem(Place{filepath.Join(dir, p.File), p.Line}, p.Text())
		}
	}
	mark := feed.Time.UTC().Truncate(artifacts.Step)
	if _, had := r.totals[mark.Unix()]; !had {
		r.totals[mark.Unix()] = market.TotalMarketCap(feed)
	}
	for i := range feed.Quotes {
		q := &feed.Quotes[i]
		err := r.add(feed.Assets[q.Asset].Key, record{time: feed.Time, line: uint32(i + 1), price: q.Price,
			marketCap: q.MarketCap, volume: q.Volume, hasVolume: true})
		if err != nil {
			return err
		}
	}
	return nil
}

// add adds a row to the sorter, or counts it as unknown or newer.
func (r *Rows) add(key string, row record) error {
	r.Report.Rows++
	row.file = uint32(len(r.Files) - 1)
	id, ok := r.opts.Known(key)
	if !ok {
		r.unknown(key, Place{r.Files[row.file], int(row.line)})
		return nil
	}
	if row.time.Truncate(artifacts.Step).After(r.opts.Newest) {
		r.Report.Newer++
		return nil
	}
	row.id = id
	return r.sorter.add(row)
}

func (r *Rows) unknown(key string, at Place) {
	r.Report.Unknown++
	i, ok := r.keys[key]
	if !ok {
		if len(r.keys) == MaxUnknownKeys {
			return
		}
		i = len(r.Report.UnknownKeys)
		r.keys[strings.Clone(key)] = i
		r.Report.UnknownKeys = append(r.Report.UnknownKeys, UnknownKey{Key: strings.Clone(key), First: at})
	}
	r.Report.UnknownKeys[i].Rows++
}

// setAside counts and reports a row that cannot be used.
func (r *Rows) setAside(line int, err error) {
	r.Report.Rows++
	r.Report.Unusable++
	r.problem(Place{r.Files[len(r.Files)-1], line}, err.Error())
}

func (r *Rows) problem(at Place, reason string) {
	if len(r.Report.Problems) < MaxProblems {
		r.Report.Problems = append(r.Report.Problems, Problem{at, reason})
	}
}

// The fields of a row, which are columns of a table or members of an object.
const (
	fieldKey = iota
	fieldTime
	fieldPrice
	fieldMarketCap
	fieldVolume
	fields
)

var fieldNames = [fields]string{"key", "time", "price", "market_cap", "volume"}

// texts adds a row whose values are strings. A nil value is missing.
func (r *Rows) texts(line int, values *[fields][]byte) error {
	for _, f := range []int{fieldKey, fieldTime, fieldPrice} {
		if len(values[f]) == 0 {
			r.setAside(line, fmt.Errorf("%s: missing", fieldNames[f]))
			return nil
		}
	}
	at, err := ParseTime(values[fieldTime])
	if err != nil {
		r.setAside(line, fmt.Errorf("time %.40q: %w", values[fieldTime], err))
		return nil
	}
	row := record{time: at, line: uint32(line)}
	row.price, err = market.ParseDecimal(values[fieldPrice], market.PriceDecimals, market.PriceIntDigits)
	if err != nil {
		r.setAside(line, fmt.Errorf("price %.40q: %w", values[fieldPrice], err))
		return nil
	}
	money := func(f int) (u market.U128, ok bool) {
		if len(values[f]) == 0 || bytes.EqualFold(values[f], []byte("nan")) { // pandas writes a missing value as NaN
			return u, false
		}
		u, err := market.ParseDecimal(values[f], market.MoneyDecimals, market.MoneyIntDigits)
		if err != nil { // a bad market cap or volume does not make the price unusable
			r.problem(Place{r.Files[len(r.Files)-1], line}, fmt.Sprintf("%s %.40q: %v; the row is taken without it",
				fieldNames[f], values[f], err))
		}
		return u, err == nil
	}
	row.marketCap, _ = money(fieldMarketCap)
	row.volume, row.hasVolume = money(fieldVolume)
	return r.add(string(values[fieldKey]), row)
}

var errTime = errors.New("want a time such as 2026-01-31T12:00:00Z, 2026-01-31 12:00 or 2026-01-31 (UTC without a zone), " +
	"or Unix seconds")

var timeForms = []string{time.DateOnly, time.DateTime, "2006-01-02T15:04:05", "2006-01-02 15:04", "2006-01-02T15:04",
	"2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05 UTC", "2006-01-02T15:04Z07:00", "2006-01-02 15:04Z07:00"}

// ParseTime parses the time of a row. It accepts RFC 3339, including variants with a space instead
// of the T, without seconds, or without a time zone, which means UTC. It also accepts a date, which
// means the beginning of that day, and Unix seconds.
func ParseTime(text []byte) (t time.Time, err error) {
	if n, err := strconv.ParseInt(string(text), 10, 64); err == nil {
		if n > 99999999999 {
			return t, errors.New("these look like milliseconds; want Unix seconds")
		}
		if d, err := time.Parse("20060102", string(text)); err == nil && d.Year() >= 1970 && d.Year() < 2100 {
			return t, fmt.Errorf("this looks like a date; write %s, or Unix seconds", d.Format(time.DateOnly))
		}
		t = time.Unix(n, 0).UTC()
	} else if t, err = source.ParseTime(text); err != nil {
		for _, form := range timeForms {
			if t, err = time.Parse(form, string(text)); err == nil {
				break
			}
		}
		if err != nil {
			return t, errTime
		}
	}
	if t = t.UTC(); t.Year() < 2 || t.Year() > 9998 {
		return t, fmt.Errorf("year %d: want 2 to 9998", t.Year())
	}
	return t, nil
}

// header finds the columns of a table by name. The index of a missing column is -1.
func (r *Rows) header(names []string) (at [fields]int, err error) {
	for f, want := range fieldNames {
		at[f] = -1
		for i, name := range names {
			if strings.EqualFold(strings.TrimSpace(name), want) {
				at[f] = i
				break
			}
		}
		if at[f] < 0 && f <= fieldPrice {
			return at, fmt.Errorf("no column %q: it has %.200s; want key, time and price, and optional market_cap and volume",
				want, strings.Join(names, ", "))
		}
	}
	for i, name := range names {
		if name != "" && !slices.Contains(at[:], i) && len(r.Report.Ignored) < maxIgnored {
			r.Report.Ignored = append(r.Report.Ignored, fmt.Sprintf("%.60q of %s", name, r.Files[len(r.Files)-1]))
		}
	}
	return at, nil
}

// progressReader reports its progress, and fails once its context is canceled.
type progressReader struct {
	io.Reader
	ctx        context.Context
	name       string
	read, size int64
	progress   func(file string, read, total int64)
}

func (p *progressReader) Read(b []byte) (int, error) {
	if err := p.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := p.Reader.Read(b)
	p.read += int64(n)
	if p.progress != nil {
		p.progress(p.name, p.read, p.size)
	}
	return n, err
}

// isText returns an error if line contains bytes that cannot occur in a UTF-8 text file.
func isText(line []byte) error {
	if bytes.IndexByte(line, 0) >= 0 {
		return errors.New("it looks like UTF-16; save it as UTF-8")
	}
	return nil
}
