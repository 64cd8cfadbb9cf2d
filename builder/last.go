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

// lastSnapshot is the snapshot before, as the guard rails compare a feed with it.
type lastSnapshot struct {
	time   time.Time
	counts map[string]int
	// rows calls f with all rows of a collection, some at a time, in an order
	// that is always the same. Of groups there are those that are listed.
	rows func(ctx context.Context, collection string, f func([]lastRow)) error
}

// lastRow is a row of the snapshot before: the last three fields are a quote's,
// the texts everything else's (an exchange's and a group's symbol is "").
type lastRow struct {
	id                       uint64
	name, symbol, slug       string
	price, marketCap, volume market.U128
}

// lastPublished is the snapshot that a manifest describes. Its rows come from
// the views by id, so reading them costs as much as the snapshot is large,
// however long the past is. m is nil before the first one.
func lastPublished(r artifacts.Reader, m *artifacts.Manifest) *lastSnapshot {
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

// parseLast reads what a guard rail looks at of a row, all of which stands before
// the first member that is an array or an object. A JSON decoder, which would read
// the rest too, takes five times as long, and a build reads every row.
func parseLast(b []byte) (row lastRow, err error) {
	rest := bytes.TrimPrefix(b, []byte("{"))
	for len(rest) > 0 && err == nil {
		var key, value []byte
		key, rest = token(rest)
		value, rest = token(bytes.TrimPrefix(rest, []byte(":")))
		rest = bytes.TrimPrefix(rest, []byte(","))
		// Rounding may have made a digit more than a feed may have.
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

// token cuts a JSON string, number or word off b; of anything else both are nil.
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

// lastFeed is the snapshot of a feed that was not published, but remembered.
func lastFeed(t time.Time, feed *market.Feed) *lastSnapshot {
	return &lastSnapshot{t, counts(feed), func(_ context.Context, collection string, f func([]lastRow)) error {
		f(rowsOf(feed, collection))
		return nil
	}}
}

// rowsOf are a feed's rows of a collection, each with its id.
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
