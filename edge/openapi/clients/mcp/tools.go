package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	marketdata "example.com/marketdata/edge/openapi/clients/go"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const day = 24 * time.Hour

// windows contains the windows of percent_change. interval is the interval between the points of the history
// window with the same name, or 0 if there is no such window.
var windows = []struct {
	name             string
	length, interval time.Duration
}{
	{"1h", time.Hour, 0}, {"6h", 6 * time.Hour, 0}, {"12h", 12 * time.Hour, 0}, {"24h", day, 10 * time.Minute},
	{"7d", 7 * day, time.Hour}, {"30d", 30 * day, 4 * time.Hour}, {"90d", 90 * day, 12 * time.Hour},
	{"1y", 365 * day, day},
}

// moment is a time as an assistant writes it.
type moment time.Time

// UnmarshalText parses a time or a date. A date means its first moment in UTC.
func (m *moment) UnmarshalText(b []byte) error {
	t, err := time.Parse(time.RFC3339, string(b))
	if err != nil {
		t, err = time.Parse(time.DateOnly, string(b))
	}
	if *m = moment(t); err != nil {
		return fmt.Errorf("%.40q is no time: want 2026-11-21T10:15:00Z, in any zone, or 2026-11-21 for its first moment in UTC", b)
	}
	return nil
}

// stamp formats a time. It returns "" if there is none.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// Arguments that several tools share.
type (
	pinned struct {
		Snapshot moment `json:"snapshot,omitzero" jsonschema:"Answer from this snapshot: the snapshot of an earlier answer. Without: the newest."`
	}
	named struct {
		ID     []int64  `json:"id,omitempty" jsonschema:"Ids of assets, which search gives."`
		Slug   []string `json:"slug,omitempty" jsonschema:"Slugs of assets, such as bitcoin."`
		Symbol []string `json:"symbol,omitempty" jsonschema:"Symbols, such as BTC; unrelated assets may share one."`
	}
	paged struct {
		Page int `json:"page,omitempty" jsonschema:"From 1. Ask for further pages with the snapshot of page 1."`
		Size int `json:"size,omitempty" jsonschema:"Rows of a page: 20 unless given, up to 100, of history up to 20."`
	}
)

func (p pinned) at() time.Time { return time.Time(p.Snapshot) }

// The parts of the client's rows that answers contain. They leave out the URLs of logos and explorers.
type (
	asset struct {
		marketdata.Asset
		Logo      *string `json:"logo,omitempty"`
		Explorers *string `json:"explorers,omitempty"`
	}
	quote struct {
		marketdata.Market
		Logo       *string  `json:"logo,omitempty"`
		NotCovered []string `json:"not_covered,omitempty" jsonschema:"Windows that begin before since, the time of the first known price. Their percent_change is the change since that time."`
	}
	series struct {
		ID       int64               `json:"id"`
		Name     string              `json:"name"`
		Symbol   string              `json:"symbol"`
		Slug     string              `json:"slug"`
		Interval string              `json:"interval"`
		Points   []marketdata.Point  `json:"points,omitempty" jsonschema:"Time and price, oldest first."`
		Candles  []marketdata.Candle `json:"candles,omitempty" jsonschema:"Time of the begin, open, high, low, close, market cap and volume, oldest first; null is not known."`
	}
)

func (s *service) addTools(server *mcp.Server) {
	add(server, s, "search", "Find assets",
		"Finds up to 20 assets by beginnings of words of their name, by symbol or slug. Use their ids with the other tools.",
		map[string][]any{}, s.search)
	add(server, s, "quotes", "Prices now",
		"Price, market cap, 24-hour volume and changes of assets that id, slug or symbol name, in US dollars. For lists use markets.",
		map[string][]any{}, s.quotes)
	add(server, s, "markets", "Rankings",
		"Lists assets with their quotes by rank, market cap, volume, price or change, also those of a category or chain.",
		map[string][]any{"sort": {"rank", "market_cap", "volume", "price", "percent_change.1h", "percent_change.24h",
			"percent_change.7d", "percent_change.30d", "name", "symbol"}, "direction": {"asc", "desc"}}, s.markets)
	add(server, s, "history", "Prices over time",
		"The course of prices of assets that id, slug or symbol name: points over a window, or candles (open, high, low, close) of hours of the last 90 days or of days. For prices at given times use price_at.",
		map[string][]any{"kind": {"points", "candles"}, "window": {"24h", "7d", "30d", "90d", "1y", "max"},
			"interval": {"1h", "1d"}}, s.history)
	add(server, s, "price_at", "Prices at given times",
		"What assets that id, slug or symbol name were worth at given times; at most 1,000 prices in all. snapshot_time says when a price was taken.",
		map[string][]any{}, s.priceAt)
	add(server, s, "changes", "What is new and what changed",
		"What changed in the directory, newest first: assets, categories, chains and exchanges that were added, removed, came back or changed, with the fields that did. Changes are held for about 30 days.",
		map[string][]any{"collection": {"assets", "categories", "chains", "exchanges"},
			"kind": {"added", "back", "changed", "removed"}}, s.changes)
	add(server, s, "global", "Totals",
		"Market cap and volume of all assets of this directory, and the change of the market cap over 24 hours.",
		map[string][]any{}, s.global)
	add(server, s, "verify_proof", "Prove a price",
		"Proves that the operator published the price of an asset: reads its row from the signed files of a snapshot, and verifies the signature, with the key that the user trusts, and the digest. It shows what was published, not that it was right. It loads a large file: call it only if the user wants a proof.",
		map[string][]any{}, s.verifyProof)
}

func (s *service) search(ctx context.Context, in struct {
	Words string `json:"words" jsonschema:"Up to eight beginnings of words, at most 64 bytes: bitc, or dollar tok."`
	pinned
}) (*answer[asset], error) {
	got, err := s.client.Search(ctx, in.Words, marketdata.SearchQuery{At: in.at()})
	if err != nil {
		return nil, err
	}
	return reply(got, got.Result.Items, func(a marketdata.Asset) asset { return asset{Asset: a} }), nil
}

func (s *service) quotes(ctx context.Context, in struct {
	named
	paged
	pinned
}) (*answer[quote], error) {
	return s.listed(ctx, marketdata.MarketsQuery{ID: in.ID, Slug: in.Slug, Symbol: in.Symbol, Page: in.Page,
		Size: in.Size, At: in.at()})
}

func (s *service) markets(ctx context.Context, in struct {
	Sort      string   `json:"sort,omitempty" jsonschema:"rank unless given."`
	Direction string   `json:"direction,omitempty" jsonschema:"Unless given, figures descend, rank and texts ascend."`
	Category  []string `json:"category,omitempty" jsonschema:"Only assets of one of these categories: slugs, such as stablecoins."`
	Chain     []string `json:"chain,omitempty" jsonschema:"Only assets on one of these blockchains: slugs, such as ethereum."`
	paged
	pinned
}) (*answer[quote], error) {
	if in.Direction != "" {
		in.Sort = cmp.Or(in.Sort, "rank") + ":" + in.Direction
	}
	return s.listed(ctx, marketdata.MarketsQuery{Category: in.Category, Chain: in.Chain, Sort: in.Sort, Page: in.Page,
		Size: in.Size, At: in.at()})
}

// listed lists quotes, and states which windows their changes do not fully cover.
func (s *service) listed(ctx context.Context, q marketdata.MarketsQuery) (*answer[quote], error) {
	got, err := s.client.Markets(ctx, q)
	a, err := ofPage(got, err, func(m marketdata.Market) quote {
		row := quote{Market: m}
		for _, w := range windows {
			if m.Since != nil && got.SnapshotTime.Add(-w.length).Before(*m.Since) {
				row.NotCovered = append(row.NotCovered, w.name)
			}
		}
		return row
	})
	if err == nil && slices.ContainsFunc(a.Items, func(q quote) bool { return q.NotCovered != nil }) {
		a.remark("Not every window is covered: the percent_change of a window in not_covered is the change since the time in since.")
	}
	return a, err
}

func same[T any](v T) T { return v }

func (s *service) history(ctx context.Context, in struct {
	Kind     string `json:"kind,omitempty" jsonschema:"points unless given."`
	Window   string `json:"window,omitempty" jsonschema:"Of points: 7d unless given; max is all days that are kept."`
	Interval string `json:"interval,omitempty" jsonschema:"Of candles: 1h unless given."`
	From     moment `json:"from,omitzero" jsonschema:"Of candles: a time or a date; without from and to the newest 168 hours or 365 days."`
	To       moment `json:"to,omitzero" jsonschema:"Of candles: a time or a date, which is included."`
	named
	paged
	pinned
}) (*answer[series], error) {
	if in.Kind == "candles" {
		got, err := s.client.Candles(ctx, marketdata.CandlesQuery{ID: in.ID, Slug: in.Slug, Symbol: in.Symbol,
			Interval: in.Interval, From: time.Time(in.From), To: time.Time(in.To), Page: in.Page,
			Size: in.Size, At: in.at()})
		a, err := ofPage(got, err, func(c marketdata.CandleSeries) series {
			return series{c.ID, c.Name, c.Symbol, c.Slug, c.Interval, nil, c.Candles}
		})
		return covered(a, err, time.Time(in.From), day)
	}
	got, err := s.client.History(ctx, marketdata.HistoryQuery{ID: in.ID, Slug: in.Slug, Symbol: in.Symbol,
		Window: in.Window, Page: in.Page, Size: in.Size, At: in.at()})
	a, err := ofPage(got, err, func(h marketdata.History) series {
		return series{h.ID, h.Name, h.Symbol, h.Slug, h.Interval, h.Points, nil}
	})
	for _, w := range windows {
		if err == nil && w.name == cmp.Or(in.Window, "7d") {
			return covered(a, err, got.SnapshotTime.Add(-w.length), w.interval)
		}
	}
	return covered(a, err, time.Time{}, 0)
}

// covered adds a remark about each series that is empty, or that begins more than an interval after the time
// "from". If that time is zero, only empty series get a remark.
func covered(a *answer[series], err error, from time.Time, interval time.Duration) (*answer[series], error) {
	if err != nil {
		return nil, err
	}
	for _, row := range a.Items {
		var first time.Time
		if len(row.Points) > 0 {
			first = row.Points[0].Time
		} else if len(row.Candles) > 0 {
			first = row.Candles[0].Time
		}
		if first.IsZero() {
			a.remark("%s: no prices are available for this time.", row.Name)
		} else if !from.IsZero() && first.After(from.Add(interval)) {
			a.remark("%s: not all of the time is covered. Prices are available from %s.", row.Name, stamp(first))
		}
	}
	return a, nil
}

func (s *service) priceAt(ctx context.Context, in struct {
	Time []moment `json:"time" jsonschema:"Times, such as 2026-11-21T10:15:00Z, or dates, which are their first moment in UTC."`
	named
	paged
	pinned
}) (*answer[marketdata.PriceSeries], error) {
	times := make([]time.Time, len(in.Time))
	for i, t := range in.Time {
		times[i] = time.Time(t)
	}
	got, err := s.client.Prices(ctx, marketdata.PricesQuery{ID: in.ID, Slug: in.Slug, Symbol: in.Symbol, Time: times,
		Page: in.Page, Size: in.Size, At: in.at()})
	a, err := ofPage(got, err, same[marketdata.PriceSeries])
	if err != nil {
		return nil, err
	}
	for _, row := range a.Items {
		if slices.ContainsFunc(row.Prices, func(p marketdata.PriceAt) bool { return p.Price == nil }) {
			a.remark("%s: no prices are available for the times whose price is null. Do not use the price of another time.", row.Name)
		}
	}
	return a, nil
}

func (s *service) changes(ctx context.Context, in struct {
	Since      moment   `json:"since,omitzero" jsonschema:"Only changes of later snapshots: a time or a date. Without: all that are held."`
	Collection []string `json:"collection,omitempty" jsonschema:"Only changes of these collections."`
	Kind       []string `json:"kind,omitempty" jsonschema:"Only changes of these kinds; back is an item that was listed before."`
	paged
	pinned
}) (*answer[marketdata.Change], error) {
	got, err := s.client.Changes(ctx, marketdata.ChangesQuery{Since: time.Time(in.Since), Collection: in.Collection,
		Kind: in.Kind, Page: in.Page, Size: in.Size, At: in.at()})
	if errors.Is(err, marketdata.ErrSnapshotGone) && in.at().IsZero() {
		return nil, errors.New("the changes since then are no longer kept. Ask again without since for all changes that are kept, and tell the user that earlier changes are not known")
	}
	a, err := ofPage(got, err, same[marketdata.Change])
	if err == nil && got.Result.Since != nil && time.Time(in.Since).IsZero() {
		a.remark("Changes are known from %s on; earlier changes are not known.", stamp(*got.Result.Since))
	}
	return a, err
}

func (s *service) global(ctx context.Context, in pinned) (*answer[marketdata.Global], error) {
	got, err := s.client.Global(ctx, marketdata.GlobalQuery{At: in.at()})
	if err != nil {
		return nil, err
	}
	got.Result.Notice = nil // the notice belongs to the answer
	return reply(got, []marketdata.Global{got.Result}, same), nil
}
