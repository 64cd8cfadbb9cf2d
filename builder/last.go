package builder

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/internal/walk"
	"example.com/marketdata/builder/market"
)

// lastSnapshot is the previous snapshot. The guard rails compare a feed with it.
type lastSnapshot struct {
	time   time.Time
	counts map[string]int
	// rows calls f with all rows of a collection, a batch at a time, in a fixed order. Categories
	// and chains are included only if they are listed.
	rows func(ctx context.Context, collection string, f func([]lastRow)) error
}

// lastRow is a row of the previous snapshot. Only quotes have the last three fields. Exchanges,
// categories and chains have no symbol.
type lastRow struct {
	id                       uint64
	name, symbol, slug       string
	price, marketCap, volume market.U128
}

// lastPublished returns the snapshot that m describes, or nil if m is nil. It reads the rows from
// the views by id, so the cost does not depend on the length of the history.
func lastPublished(r artifacts.ObjectReader, m *artifacts.Manifest) *lastSnapshot {
	if m == nil {
		return nil
	}
	return &lastSnapshot{m.Time, m.Counts, func(ctx context.Context, collection string, f func([]lastRow)) error {
		view := m.View(collection, "id")
		if view == nil {
			return fmt.Errorf("the last snapshot has no view %s by id", collection)
		}
		for some := range slices.Chunk(view.Objects, walk.AtOnce) {
			parts := make([][]lastRow, len(some))
			err := walk.Parallel(ctx, len(some), func(ctx context.Context, i int) error {
				err := walk.Rows(ctx, r, some[i:i+1], func(id uint64, b []byte) error {
					row, err := parseLast(b)
					if err != nil {
						return fmt.Errorf("%w: row of id %d: %w", artifacts.ErrCorrupt, id, err)
					}
					row.id = id
					parts[i] = append(parts[i], row)
					return nil
				})
				if err != nil {
					err = fmt.Errorf(
						"the last snapshot's %s: %s: %w", collection, artifacts.ObjectKey(some[i].Digest), err)
				}
				return err
			})
			if err != nil {
				return err
			}
			for _, rows := range parts {
				f(rows)
			}
		}
		return nil
	}}
}

// parseLast reads the members of a row that the guard rails use. All of them precede the first
// array or object in the row. A JSON decoder would also read the rest and take five times as long,
// and a build reads every row.
func parseLast(b []byte) (row lastRow, err error) {
	rest := bytes.TrimPrefix(b, []byte("{"))
	for len(rest) > 0 && err == nil {
		var key, value []byte
		key, rest = token(rest)
		value, rest = token(bytes.TrimPrefix(rest, []byte(":")))
		rest = bytes.TrimPrefix(rest, []byte(","))
		// Rounding may have added a digit, so a value may have more digits than a feed allows.
		switch string(key) {
		case `"name"`:
			row.name, err = unquote(value)
		case `"symbol"`:
			row.symbol, err = unquote(value)
		case `"slug"`:
			row.slug, err = unquote(value)
		case `"price"`:
			row.price, err = market.ParseDecimal(bytes.Trim(value, `"`), market.PriceDecimals, market.PriceIntDigits+1)
		case `"market_cap"`:
			if string(value) != "null" {
				row.marketCap, err = market.ParseDecimal(
					bytes.Trim(value, `"`), market.MoneyDecimals, market.MoneyIntDigits+1)
			}
		case `"volume"`:
			row.volume, err = market.ParseDecimal(bytes.Trim(value, `"`), market.MoneyDecimals, market.MoneyIntDigits+1)
		}
	}
	return row, err
}

func unquote(b []byte) (s string, err error) {
	if len(b) > 1 && b[0] == '"' && bytes.IndexByte(b, '\\') < 0 {
		return string(b[1 : len(b)-1]), nil
	}
	err = json.Unmarshal(b, &s)
	return s, err
}

// token cuts a JSON string, number or literal name off the front of b. If b is empty or starts with
// an array or object, both results are nil.
func token(b []byte) (token, rest []byte) {
	n := 0
	switch {
	case len(b) == 0 || b[0] == '[' || b[0] == '{':
		return nil, nil
	case b[0] == '"':
		for n = 1; n < len(b) && b[n] != '"'; n++ {
			if b[n] == '\\' {
				n++
			}
		}
		n = min(n+1, len(b))
	default:
		n = max(bytes.IndexAny(b, ",}"), 1)
	}
	return b[:n], b[n:]
}

// lastFeed returns a backfill's feed as the previous snapshot for the next feed.
func lastFeed(t time.Time, feed *market.Feed) *lastSnapshot {
	return &lastSnapshot{t, counts(feed), func(_ context.Context, collection string, f func([]lastRow)) error {
		f(rowsOf(feed, collection))
		return nil
	}}
}

// rowsOf returns the rows of a collection in a feed, including their ids.
func rowsOf(f *market.Feed, collection string) (rows []lastRow) {
	switch collection {
	case "assets":
		for i := range f.Assets {
			a := &f.Assets[i]
			rows = append(rows, lastRow{id: a.ID, name: a.Name, symbol: a.Symbol, slug: a.Slug})
		}
	case "quotes":
		for i := range f.Quotes {
			q := &f.Quotes[i]
			a := &f.Assets[q.Asset]
			rows = append(rows, lastRow{a.ID, a.Name, a.Symbol, a.Slug, q.Price, q.MarketCap, q.Volume})
		}
	case "exchanges":
		for i := range f.Exchanges {
			rows = append(rows, lastRow{id: f.Exchanges[i].ID, slug: f.Exchanges[i].Slug})
		}
	default:
		for _, g := range map[string][]market.Group{"categories": f.Categories, "chains": f.Chains}[collection] {
			rows = append(rows, lastRow{id: g.ID, slug: g.Slug})
		}
	}
	return rows
}
