// Package fakeapi is a small market-data service over made-up data, for the
// load tester's own tests: it publishes snapshots into a store and answers from
// them as loadtest/model does or, when told so, with a fault.
package fakeapi

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/loadtest/model"
)

// NewWorld makes a snapshot of n assets and some of everything else. Names and
// slugs hold what is hard to write, match and sort.
func NewWorld(t time.Time, n int, seed uint64) *model.Snapshot {
	w := model.New(model.Settings{MinMarketCap: "0", MinVolume: "0", Retain: time.Hour, History: n / 2})
	const day = 24 * time.Hour
	for _, ago := range []time.Duration{50 * day, 3 * day, 30 * time.Minute, 0} { // prices change in between
		at := t.Add(-ago)
		if _, err := w.Build(feed(rand.New(rand.NewPCG(seed, uint64(at.Unix()))), at, n), at); err != nil {
			panic(err)
		}
	}
	return w.Newest()
}

func feed(r *rand.Rand, at time.Time, n int) model.Files {
	names := []string{"Bitcoin", "Ether & Co", `The "Quoted"`, `Back\slash`, "<b>Bold</b>", "Line\u2028Break",
		"Tab\tBell\a", "Ünïcode", "Kelvin \u212a", "long ſ", "same", "same", "SAME"}
	symbols := []string{"BTC", "ETH", "eth", "K", "\u212a", "ſ", "s", "$A$", "一", "UNIQUE"}
	type object map[string]any
	files := map[string]*strings.Builder{}
	add := func(name string, row object) {
		if files[name] == nil {
			files[name] = &strings.Builder{}
		}
		if err := json.NewEncoder(files[name]).Encode(row); err != nil {
			panic(err)
		}
	}
	for i := range n {
		id := i*3 + 1
		slug := fmt.Sprintf("Coin-%d", id)
		if i%7 == 3 {
			slug = fmt.Sprintf("a&b (%d) 100%%", id)
		}
		key := fmt.Sprint("a", i)
		add("assets", object{
			"key": key, "id": id, "name": names[r.IntN(len(names))], "symbol": symbols[r.IntN(len(symbols))],
			"slug": slug,
			"logo": fmt.Sprintf("https://img.example/%d.png", id), "explorers": []string{"https://x.example/?a=1&b=2"},
			"website": "https://w.example/<" + slug + ">",
			"active":  i%11 != 5,
		})
		if i%4 == 3 {
			continue // no price
		}
		quote := object{"key": key, "price": fmt.Sprintf("%d.%d5", r.IntN(1000), r.IntN(1000)),
			"market_cap": r.IntN(1e9) + 1, "volume": r.IntN(1e6)}
		if i%6 == 2 {
			delete(quote, "market_cap")
		}
		add("quotes", quote)
	}
	coins := []string{"a0", "a1", "a4", "a6", "a9", "a10"}
	for i := range n/10 + 30 {
		exchange := object{"key": fmt.Sprint("e", i), "id": i + 1, "name": fmt.Sprintf("Exchange %d", i%7),
			"slug": fmt.Sprintf("ex-%d", i%11), "fees": object{"taker": 0.25}}
		switch {
		case i%8 == 0: // listed without a market
		case i%4 == 0:
			exchange["market"] = object{"coins_count": 12}
		default:
			exchange["market"] = object{
				"volume_24h": r.IntN(5), "markets_count": i, "data_time": "2026-01-02T03:04:05Z"}
		}
		add("exchanges", exchange)
		for name, id := range map[string]int{"categories": i*2 + 1, "chains": i*2 + 5} {
			add(name, object{"key": fmt.Sprint("g", i), "id": id, "name": fmt.Sprintf("Group %d", id%9),
				"slug": fmt.Sprintf("group-%d", id), "members": coins[i%3 : i%3+1+i%4], "evm_chain_id": i})
		}
	}
	out := model.Files{"feed.json": fmt.Sprintf(`{"format":1,"database":"fake","time":%q}`, at.Format(time.RFC3339))}
	for name, text := range files {
		out[name+".ndjson"] = text.String()
	}
	return out
}

// Publish writes the worlds, oldest first, into an empty store or on top of
// those that Publish wrote before; all of them stay retained.
func Publish(ctx context.Context, store artifacts.Store, worlds ...*model.Snapshot) error {
	for _, w := range worlds {
		if err := publish(ctx, store, w); err != nil {
			return fmt.Errorf("publish %v: %w", w.Time, err)
		}
	}
	return nil
}

func publish(ctx context.Context, store artifacts.Store, w *model.Snapshot) error {
	m := &artifacts.Manifest{
		Format: artifacts.Format, Time: w.Time, Database: "fake", Unicode: artifacts.FoldUnicodeVersion,
		Counts:       map[string]int{},
		RowsPerShard: 16, ShardsPerObject: 4, Global: artifacts.Global{
			TotalMarketCap: w.TotalMarketCap, TotalVolume24h: w.TotalVolume}, Retained: []artifacts.Retained{},
	}
	p := &artifacts.Pointer{Format: artifacts.Format, Store: strings.Repeat("f", 32), Sequence: 1, Time: w.Time,
		Nonce: "n", Published: w.Time}
	b, version, err := store.Get(ctx, artifacts.CurrentKey, artifacts.MaxPointerSize)
	if err == nil {
		last, err := artifacts.ParsePointer(b)
		if err != nil {
			return err
		}
		p.Sequence = last.Sequence + 1
		mb, _, err := store.Get(ctx, artifacts.ManifestKey(last.Manifest.Digest), artifacts.MaxManifestSize)
		if err != nil {
			return err
		}
		lm, err := artifacts.ParseManifest(mb)
		if err != nil {
			return err
		}
		m.Retained = append([]artifacts.Retained{{Time: last.Time, Manifest: last.Manifest}}, lm.Retained...)
	}
	put := func(key func(artifacts.Digest) string, b []byte) (artifacts.Ref, error) {
		d := artifacts.Sum(b)
		return artifacts.Ref{Digest: d, Size: int64(len(b))}, store.Put(ctx, key(d), b)
	}
	view := func(name, sort string, times []time.Time, all []model.Row) error {
		v := artifacts.View{Collection: name, Sort: sort, Rows: len(all), Runs: len(all), Times: times}
		for rows := range slices.Chunk(all, m.RowsPerShard*m.ShardsPerObject) {
			from := len(v.Objects) * m.RowsPerShard * m.ShardsPerObject
			ref, err := put(artifacts.ObjectKey, object(rows, m.RowsPerShard, from, sort == "id"))
			if err != nil {
				return err
			}
			o := artifacts.ViewObject{Ref: ref, Rows: len(rows)}
			if sort == "id" {
				o.First.ID = uint64(rows[0].ID)
			}
			v.Objects = append(v.Objects, o)
		}
		m.Views = append(m.Views, v)
		return nil
	}
	for _, name := range model.Lists {
		sort := "id"
		if name == "trending" {
			sort = "board"
		}
		if err := view(name, sort, nil, w.Lists[name]); err != nil {
			return err
		}
	}
	for i := range artifacts.HistoryWindows {
		if err := publishHistory(view, w, &artifacts.HistoryWindows[i]); err != nil {
			return err
		}
	}
	if m.Ledger, err = put(artifacts.ObjectKey, []byte("no ledger")); err != nil {
		return err
	}
	if p.Manifest, err = put(artifacts.ManifestKey, m.Encode()); err != nil {
		return err
	}
	_, err = store.Swap(ctx, artifacts.CurrentKey, version, p.Encode())
	return err
}

// publishHistory writes a window's listing and its points in blocks of three.
func publishHistory(
	view func(name, sort string, times []time.Time, rows []model.Row) error, w *model.Snapshot,
	of *artifacts.HistoryWindow,
) error {
	var listed []model.Row
	prices := map[time.Time]map[int64]string{}
	series := w.Series[of.Name]
	for _, id := range slices.Sorted(maps.Keys(series.Listed)) {
		if !series.Listed[id] {
			continue
		}
		listed = append(listed, model.Row{ID: id, JSON: fmt.Sprintf(`{"id":%d}`, id)})
		for _, p := range series.Points(id) {
			if prices[p.Time] == nil {
				prices[p.Time] = map[int64]string{}
			}
			prices[p.Time][id] = p.Price
		}
	}
	if err := view(of.Collection(), "id", nil, listed); err != nil {
		return err
	}
	for times := range slices.Chunk(slices.SortedFunc(maps.Keys(prices), time.Time.Compare), 3) {
		var rows []model.Row
		for _, l := range listed {
			row, some := make([]*string, len(times)), false
			for i, t := range times {
				if p, ok := prices[t][l.ID]; ok {
					row[i], some = &p, true
				}
			}
			if some {
				b, err := json.Marshal(row)
				if err != nil {
					return err
				}
				rows = append(rows, model.Row{ID: l.ID, JSON: fmt.Sprintf(`{"id":%d,"prices":%s}`, l.ID, b)})
			}
		}
		if err := view(of.Block(times[0]), "id", times, rows); err != nil {
			return err
		}
	}
	return nil
}

// object cuts rows into the shards of one object; from is the first one's
// place in its view.
func object(rows []model.Row, perShard, from int, byID bool) []byte {
	var o artifacts.Object
	for i := 0; i < len(rows); i += perShard {
		part := rows[i:min(i+perShard, len(rows))]
		in := &artifacts.ShardRows{FirstRun: from + i}
		for _, r := range part {
			in.RunLens = append(in.RunLens, 1)
			in.Rows = append(in.Rows, []byte(r.JSON))
			if r.WithLinks != "" {
				in.Tails = append(in.Tails, []byte(r.WithLinks[len(r.JSON)-1:]))
			}
		}
		first := artifacts.Fence{}
		if byID {
			first.ID = uint64(part[0].ID)
		}
		o.Add(artifacts.AppendShard(nil, in), len(part), first)
	}
	return o.Bytes()
}
