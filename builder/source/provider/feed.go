package provider

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"example.com/marketdata/builder/market"
	"example.com/marketdata/builder/source"
)

// Feed is an in-memory feed: the files described in FEED.md. It implements source.Files.
type Feed struct {
	Assets, Quotes, Exchanges, Categories, Chains, Rates Table

	// Before are earlier states of the market, oldest first, as source.Remembered describes them.
	Before []*market.Feed

	info  []byte
	parts []source.Part
}

// Past implements source.Remembered.
func (f *Feed) Past(context.Context) iter.Seq2[*market.Feed, error] {
	if len(f.Before) == 0 {
		return nil
	}
	return func(yield func(*market.Feed, error) bool) {
		for _, before := range f.Before {
			if !yield(before, nil) {
				return
			}
		}
	}
}

// NewFeed returns an empty feed for a database and a time. parts say where its rows came from.
func NewFeed(database string, t time.Time, parts []source.Part) *Feed {
	return &Feed{info: source.Info(database, t), parts: parts}
}

// Open implements source.Files.
func (f *Feed) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	return source.Memory{
		source.InfoFile: f.info, source.AssetsFile: f.Assets.buf.Bytes(), source.QuotesFile: f.Quotes.buf.Bytes(),
		source.ExchangesFile:  f.Exchanges.buf.Bytes(),
		source.CategoriesFile: f.Categories.buf.Bytes(), source.ChainsFile: f.Chains.buf.Bytes(),
		source.RatesFile: f.Rates.buf.Bytes(),
	}.Open(ctx, name)
}

// Parts implements source.Provenance.
func (f *Feed) Parts() []source.Part { return f.parts }

// Table gathers the rows of one file of a feed.
type Table struct {
	buf  bytes.Buffer
	rows int
}

// Rows returns the number of rows that have been added.
func (t *Table) Rows() int { return t.rows }

// Field is a member of a row.
type Field struct {
	name string
	raw  json.RawMessage // nil omits the field
}

// Raw returns a field with a value exactly as the provider wrote it. A nil value omits the field.
func Raw(name string, value json.RawMessage) Field { return Field{name, value} }

// String returns a field with a string value. "" omits the field.
func String(name, value string) Field {
	if value == "" {
		return Field{name: name}
	}
	return Field{name, quote(value)}
}

// First returns a field with the first of several strings. An empty list omits the field.
func First(name string, values []string) Field {
	if len(values) == 0 {
		return Field{name: name}
	}
	return String(name, values[0])
}

// Number returns a field with a number. 0 omits the field.
func Number(name string, n uint64) Field {
	if n == 0 {
		return Field{name: name}
	}
	return Field{name, strconv.AppendUint(nil, n, 10)}
}

// Key returns a field with an id as a string. The provider may have written it as an integer.
func Key(name string, id json.RawMessage) Field {
	if integer.Match(id) {
		return String(name, string(id))
	}
	return Raw(name, id)
}

// Integer returns a field with an integer, which the provider may have written as a string.
func Integer(name string, value json.RawMessage) Field {
	if s := Text(value); integer.MatchString(s) {
		return Raw(name, json.RawMessage(s))
	}
	return Raw(name, value)
}

// DataTime returns a field with a time in the format of RFC 3339. If Time cannot parse the value,
// the field keeps the value unchanged.
func DataTime(name string, value json.RawMessage) Field {
	for _, raw := range []json.RawMessage{value, json.RawMessage(Text(value))} {
		if at := Time(raw); !at.IsZero() && !(len(raw) > 0 && raw[0] == '"') {
			return String(name, at.Format(time.RFC3339))
		}
	}
	return Raw(name, value)
}

// Or returns f, or other if f is omitted.
func (f Field) Or(other Field) Field {
	if f.raw == nil {
		return other
	}
	return f
}

// Strings returns a field with an array of strings. An empty array omits the field.
func Strings(name string, values []string) Field {
	if len(values) == 0 {
		return Field{name: name}
	}
	return Field{name, quote(values)}
}

// Struct returns a field with an object, which may be empty.
func Struct(name string, members ...Field) Field { return Field{name, appendObject(nil, members)} }

// Platforms returns the field with an asset's contracts. enumerate must call add with every
// platform's name and the contract's address on that platform. If a name is repeated, the first
// address counts. If there are no contracts, the field is omitted.
func Platforms(enumerate func(add func(name string, address json.RawMessage))) Field {
	var members []Field
	enumerate(func(name string, address json.RawMessage) {
		if name != "" && address != nil && !slices.ContainsFunc(members, func(f Field) bool { return f.name == name }) {
			members = append(members, Raw(name, address))
		}
	})
	if members == nil {
		return Field{name: "platforms"}
	}
	slices.SortFunc(members, func(a, b Field) int { return strings.Compare(a.name, b.name) })
	return Struct("platforms", members...)
}

// Named returns a row that begins with the usual fields: the id as key and slug, and the name.
func Named(of Fields, more ...Field) []Field {
	id := of.Get("id")
	return append([]Field{Key("key", id), Raw("name", of.Get("name")), Key("slug", id)}, more...)
}

// Quote returns a quote's row, or nil for a coin without a price. supplyNames are the names of the
// coin's members that contain the circulating, total and maximum supply.
func Quote(coin Fields, price, marketCap, volume json.RawMessage, supplyNames [3]string) []Field {
	if price == nil && coin.ID() != "" {
		return nil
	}
	row := []Field{
		Key("key", coin.Get("id")), Raw("price", price), Raw("market_cap", marketCap), Raw("volume", volume),
	}
	for i, name := range market.SupplyNames {
		row = append(row, Raw(name, coin.Get(supplyNames[i])))
	}
	return row
}

// AddRows calls convert with the fields of each of the given rows. It adds the resulting fields, if
// there are any, as a row. A row that is not an object is added unchanged, and the feed reader sets
// it aside.
func (t *Table) AddRows(rows []Row, convert func(of Fields) []Field) {
	for _, r := range rows {
		if r.Fields == nil {
			t.AddRaw(r.Raw)
		} else if fields := convert(r.Fields); fields != nil {
			t.Add(fields...)
		}
	}
}

// Add adds a row.
func (t *Table) Add(fields ...Field) { t.AddRaw(appendObject(nil, fields)) }

// AddRaw adds a row unchanged, except that it puts the row on one line.
func (t *Table) AddRaw(row json.RawMessage) {
	if err := json.Compact(&t.buf, row); err != nil {
		panic(fmt.Sprintf("BUG: a row that is not JSON: %v", err))
	}
	t.buf.WriteByte('\n')
	t.rows++
}

func appendObject(b []byte, fields []Field) []byte {
	b = append(b, '{')
	for _, f := range fields {
		if f.raw == nil {
			continue
		}
		if b[len(b)-1] != '{' {
			b = append(b, ',')
		}
		b = append(append(append(b, quote(f.name)...), ':'), f.raw...)
	}
	return append(b, '}')
}

// quote encodes one or more strings as JSON, without the escapes that HTML would need.
func quote[T string | []string](s T) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		panic(fmt.Sprintf("BUG: a string that is not JSON: %v", err))
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
