// Package fakeapi is a small market-data service over made-up data, for the
// load tester's own tests: it publishes snapshots into a store and answers from
// them, rightly or, when told so, with a fault.
package fakeapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sort"
	"strings"
	"time"

	"example.com/marketdata/artifacts"
)

// TimeFormat is how the service writes a time.
const TimeFormat = "2006-01-02T15:04:05Z"

// World is one snapshot of made-up data.
type World struct {
	Time   time.Time
	Lists  map[string][]*Row // by collection, ascending by id; trending as ranked
	Totals artifacts.Global
}

// Row is one row of a listing, with what it is matched and sorted by. Numbers
// are whole here, so that they compare as integers.
type Row struct {
	ID                 uint64
	Name, Symbol, Slug string
	Rank               int // 0: none
	Volume, Cap        int64
	NoVolume           bool
	Text, Tail         string // JSON; Tail as in an artifacts.Shard
}

// NewWorld makes a snapshot of n assets and some of everything else. Names and
// slugs hold what is hard to write, match and sort.
func NewWorld(t time.Time, n int, seed uint64) *World {
	r := rand.New(rand.NewPCG(seed, uint64(t.Unix())))
	w := &World{Time: t, Lists: map[string][]*Row{}, Totals: artifacts.Global{TotalMarketCap: "123456.5", TotalVolume24h: fmt.Sprint(r.IntN(1e9))}}
	names := []string{"Bitcoin", "Ether & Co", `The "Quoted"`, `Back\slash`, "<b>Bold</b>", "Line\u2028Break", "Tab\tBell\a", "Ünïcode", "Kelvin \u212a", "long ſ", "same", "same", "SAME"}
	symbols := []string{"BTC", "ETH", "eth", "K", "\u212a", "ſ", "s", "$A$", "一", "UNIQUE"}
	for i := range n {
		id := uint64(i*3 + 1)
		row := &Row{ID: id, Name: names[r.IntN(len(names))], Symbol: symbols[r.IntN(len(symbols))], Slug: fmt.Sprintf("Coin-%d", id)}
		if i%7 == 3 {
			row.Slug = fmt.Sprintf("a&b (%d) 100%%", id)
		}
		if i%5 != 4 {
			row.Rank = n - i
		}
		rank := ""
		if row.Rank > 0 {
			rank = fmt.Sprintf(`,"rank":%d`, row.Rank)
		}
		texts := fmt.Sprintf(`"name":%s,"symbol":%s,"slug":%s,"logo":%s`, text(row.Name), text(row.Symbol), text(row.Slug), text(fmt.Sprintf("https://img.example/%d.png", id)))
		row.Text = fmt.Sprintf(`{"id":%d%s,%s,"explorers":["https://x.example/?a=1&b=2"]}`, id, rank, texts)
		row.Tail = fmt.Sprintf(`,"links":{"website":%s,"whitepaper":""}}`, text("https://w.example/<"+row.Slug+">"))
		w.add("assets", row)
		if i%4 == 3 {
			continue // no price
		}
		marketCap := `"` + fmt.Sprint(r.IntN(1e9)+1) + `"`
		if i%6 == 2 {
			marketCap = "null"
		}
		q := *row
		q.Tail = ""
		q.Volume = int64(r.IntN(2000)) - 1000 // for the board: its 24-hour change
		q.Text = fmt.Sprintf(`{"id":%d,%s,"price":"%d.%d5","market_cap":%s,"volume":"%d","percent_change":{"1h":"0","6h":"-0.5","12h":"1","24h":"%d","7d":"0","30d":"0","90d":"0","1y":"12.000000000001"}}`,
			id, texts, r.IntN(1000), r.IntN(1000), marketCap, r.IntN(1e6), q.Volume)
		w.add("quotes", &q)
	}
	board := append([]*Row(nil), w.Lists["quotes"]...)
	sort.SliceStable(board, func(i, j int) bool { return board[i].Volume > board[j].Volume })
	w.Lists["trending"] = board[:min(20, len(board))]
	for i := range n/10 + 30 {
		w.add("exchanges", exchange(r, uint64(i+1)))
		w.add("categories", group(t, r, uint64(i*2+1), ""))
		w.add("chains", group(t, r, uint64(i*2+5), fmt.Sprintf(`,"display_name":"Chain","slug":%%s,"evm_chain_id":%d,"logo":""`, i)))
	}
	return w
}

func (w *World) add(list string, r *Row) { w.Lists[list] = append(w.Lists[list], r) }

func exchange(r *rand.Rand, id uint64) *Row {
	row := &Row{ID: id, Name: fmt.Sprintf("Exchange %d", id%7), Slug: fmt.Sprintf("ex-%d", id%11), Volume: int64(r.IntN(5)), NoVolume: id%4 == 0}
	market := "null"
	switch {
	case id%8 == 0: // listed without a market
	case row.NoVolume:
		market = `{"volume_24h":null,"markets_count":null,"coins_count":12,"data_time":null}`
	default:
		market = fmt.Sprintf(`{"volume_24h":"%d","markets_count":%d,"coins_count":null,"data_time":"2026-01-02T03:04:05Z"}`, row.Volume, id)
	}
	row.Text = fmt.Sprintf(`{"id":%d,"name":%s,"slug":%s,"logo":"","links":{"website":"","twitter":"","telegram":"","reddit":"","facebook":"","chat":""},"fees":{"maker":"0","taker":"0.25"},"market":%s}`,
		id, text(row.Name), text(row.Slug), market)
	return row
}

func group(t time.Time, r *rand.Rand, id uint64, chain string) *Row {
	row := &Row{ID: id, Name: fmt.Sprintf("Group %d", id%9), Slug: fmt.Sprintf("group-%d", id), Cap: int64(r.IntN(6)), Volume: int64(r.IntN(6))}
	rest := `,"slug":` + text(row.Slug)
	if chain != "" {
		rest = fmt.Sprintf(chain, text(row.Slug))
	}
	gainers := ""
	if id%3 == 0 {
		gainers = `{"id":1,"symbol":"A","name":"B","slug":"c","logo":""}`
	}
	row.Text = fmt.Sprintf(`{"id":%d,"name":%s%s,"market":{"market_cap":"%d","volume_24h":"%d","coins_count":3,"market_cap_share":"0.01","snapshot_time":"%s","top_gainers":[%s]}}`,
		id, text(row.Name), rest, row.Cap, row.Volume, t.Format(TimeFormat), gainers)
	return row
}

// text writes a JSON string. The standard library escapes two characters more
// than the interface does.
func text(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		panic(err)
	}
	return strings.ReplaceAll(strings.TrimSuffix(b.String(), "\n"), `\u2028`, "\u2028")
}

// Publish writes the worlds, oldest first, into an empty store or on top of
// those that Publish wrote before; all of them stay retained.
func Publish(ctx context.Context, store artifacts.Store, worlds ...*World) error {
	for _, w := range worlds {
		if err := publish(ctx, store, w); err != nil {
			return fmt.Errorf("publish %v: %w", w.Time, err)
		}
	}
	return nil
}

func publish(ctx context.Context, store artifacts.Store, w *World) error {
	m := &artifacts.Manifest{
		Format: artifacts.Format, Time: w.Time, Database: "fake", Unicode: artifacts.FoldUnicodeVersion, Counts: map[string]int{},
		RowsPerShard: 16, ShardsPerObject: 4, Global: w.Totals, Retained: []artifacts.Retained{},
	}
	p := &artifacts.Pointer{Format: artifacts.Format, Store: strings.Repeat("f", 32), Sequence: 1, Time: w.Time, Nonce: "n", Published: w.Time}
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
	for _, name := range []string{"assets", "quotes", "exchanges", "categories", "chains", "trending"} {
		v := artifacts.View{Collection: name, Sort: "id", Rows: len(w.Lists[name]), Runs: len(w.Lists[name])}
		if name == "trending" {
			v.Sort = "board"
		}
		per := m.RowsPerShard * m.ShardsPerObject
		for from := 0; from < v.Rows; from += per {
			rows := w.Lists[name][from:min(from+per, v.Rows)]
			ref, err := put(artifacts.ObjectKey, object(rows, m.RowsPerShard, from, name != "trending"))
			if err != nil {
				return err
			}
			o := artifacts.ViewObject{Ref: ref, Rows: len(rows)}
			if name != "trending" {
				o.First.ID = rows[0].ID
			}
			v.Objects = append(v.Objects, o)
		}
		m.Views = append(m.Views, v)
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

// object cuts rows into the shards of one object; from is the first one's
// place in its view.
func object(rows []*Row, perShard, from int, byID bool) []byte {
	var o artifacts.Object
	for i := 0; i < len(rows); i += perShard {
		part := rows[i:min(i+perShard, len(rows))]
		in := &artifacts.ShardRows{FirstRun: from + i}
		for _, r := range part {
			in.RunLens = append(in.RunLens, 1)
			in.Rows = append(in.Rows, []byte(r.Text))
			if r.Tail != "" {
				in.Tails = append(in.Tails, []byte(r.Tail))
			}
		}
		first := artifacts.Fence{}
		if byID {
			first.ID = part[0].ID
		}
		o.Add(artifacts.AppendShard(nil, in), len(part), first)
	}
	return o.Bytes()
}
