package render

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"testing"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/internal/test/must"
	"pgregory.net/rapid"
)

// randomTable returns a table with enough rows for several shards, and sometimes several objects,
// and with few different keys, so that runs cross shard and object boundaries.
func randomTable(t *rapid.T) Table {
	n := rapid.SampledFrom([]int{0, 1, 2, 127, 128, 129, 300, RowsPerShard * ShardsPerObject,
		RowsPerShard*ShardsPerObject + 1}).Draw(t, "rows")
	kinds := rapid.SampledFrom([]int{1, 3, 50, 100_000}).Draw(t, "kinds")
	seed := rapid.Uint64().Draw(t, "seed")
	random := func(i int) int { // evenly distributed, and cheaper than a draw for each row
		x := (uint64(i) + 1) * (seed | 1) * 0x9e3779b97f4a7c15
		return int(x>>33) % kinds
	}
	table := Table{Collection: "assets", RowsPerShard: rapid.SampledFrom([]int{0, 32}).Draw(t, "rows a shard")}
	number := make([]int, n)
	keys := make([][]byte, n)
	for i := range n {
		id := uint64((i*7919)%max(n, 1))*3 + 1 // not in order
		if n%7919 == 0 {
			id = uint64(i) + 1
		}
		table.IDs = append(table.IDs, id)
		table.Rows = append(table.Rows, fmt.Appendf(nil, `{"id":%d,"x":"%d"}`, id, random(i)))
		table.Tails = append(table.Tails, fmt.Appendf(nil, `,"tail":%d}`, i))
		keys[i], number[i] = fmt.Appendf(nil, "k%d", random(i)), random(i)/2
	}
	table.Orders = []Order{
		{Sort: "id", Index: true},
		{Sort: "symbol", Index: true, Keys: keys},
		{Sort: "name", Keys: keys},
		{Sort: "rank", Compare: func(a, b int32) int { return cmp.Compare(number[a], number[b]) },
			Prefix: func(i int32) uint64 { return uint64(number[i]) / 3 },
			Last:   func(i int32) bool { return number[i] == kinds/2 }},
	}
	table.TailsByID = rapid.Bool().Draw(t, "tails by id")
	table.Members = []Members{{Sort: "group", Starts: []int32{0}}}
	for g := range rapid.IntRange(0, 9).Draw(t, "groups") {
		m := &table.Members[0]
		for i := range n {
			if (random(i)+i)%(g+1) == 0 {
				m.Rows = append(m.Rows, int32(i))
			}
		}
		if start := m.Starts[len(m.Starts)-1]; len(m.Rows) > int(start) {
			slices.SortFunc(m.Rows[start:], func(a, b int32) int { return cmp.Compare(table.IDs[a], table.IDs[b]) })
			m.Keys, m.Starts = append(m.Keys, fmt.Appendf(nil, "g%d", g)), append(m.Starts, int32(len(m.Rows)))
		}
	}
	return table
}

// slowOrder sorts a table's rows in the simplest way.
func slowOrder(t *Table, o *Order) (rows []int, same func(a, b int) bool) {
	var compare func(a, b int) int
	switch {
	case o.Keys != nil:
		compare = func(a, b int) int { return bytes.Compare(o.Keys[a], o.Keys[b]) }
	case o.Compare != nil:
		compare = func(a, b int) int { return o.Compare(int32(a), int32(b)) }
	default:
		compare = func(a, b int) int { return cmp.Compare(t.IDs[a], t.IDs[b]) }
	}
	for i := range t.Rows {
		rows = append(rows, i)
	}
	slices.SortFunc(rows, func(a, b int) int { return cmp.Compare(t.IDs[a], t.IDs[b]) })
	slices.SortStableFunc(rows, compare)
	return rows, func(a, b int) bool { return compare(a, b) == 0 }
}

// TestViews reads the views back and compares them with the simple order.
func TestViews(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := randomTable(t)
		views, pieces := Views(&table)
		bodies := make([][][]byte, len(views))
		for i := range views {
			bodies[i] = make([][]byte, len(views[i].Objects))
		}
		for i := range pieces {
			p := &pieces[i]
			body, first := p.Bytes()
			bodies[p.View][p.Object] = body
			views[p.View].Objects[p.Object] = artifacts.ViewObject{
				Ref: artifacts.RefOf(body), Rows: p.Rows, First: first,
			}
		}
		members := len(table.Orders)
		if len(views) != members+1 {
			t.Fatalf("%d views, want %d", len(views), members+1)
		}
		checkMembers(t, &table, &views[members], bodies[members])
		views = views[:members]
		runs := make([][]int, len(views)) // by order and row
		orders := make([][]int, len(views))
		for v := range views {
			order, same := slowOrder(&table, &table.Orders[v])
			orders[v] = order
			runs[v] = make([]int, len(order))
			run := -1
			for i, row := range order {
				if i == 0 || !same(order[i-1], row) {
					run++
				}
				runs[v][row] = run
			}
			if views[v].Runs != run+1 || views[v].Rows != len(order) {
				t.Fatalf("%s: %d rows, %d runs; want %d, %d", views[v].Sort, views[v].Rows, views[v].Runs, len(order),
					run+1)
			}
		}
		for v := range views {
			checkView(t, &table, &views[v], &table.Orders[v], bodies[v], orders[v], runs, v)
		}
	})
}

// checkMembers reads the runs of groups back and checks them.
func checkMembers(t *rapid.T, table *Table, v *artifacts.View, bodies [][]byte) {
	m := &table.Members[0]
	if v.Sort != m.Sort || v.Rows != len(m.Rows) || v.Runs != len(m.Keys) {
		t.Fatalf("%s: %d rows in %d runs, want %d in %d", v.Sort, v.Rows, v.Runs, len(m.Rows), len(m.Keys))
	}
	at := 0
	for _, body := range bodies {
		shards := must.Get(artifacts.ParseObject(body))(t)
		for _, s := range shards {
			for i := range s.Len() {
				run, _, _ := s.Run(i)
				want, _ := slices.BinarySearch(m.Starts, int32(at)+1)
				if row := m.Rows[at]; s.ID(i) != table.IDs[row] || s.FirstRun+run != want-1 ||
					!bytes.Equal(s.Key(run), m.Keys[want-1]) || !bytes.Equal(s.Row(i), table.Rows[row]) {
					t.Fatalf("row %d is %s in run %d of key %q, want %s in %d", at, s.Row(i), s.FirstRun+run,
						s.Key(run), table.Rows[row], want-1)
				}
				at++
			}
		}
	}
	if at != len(m.Rows) {
		t.Fatalf("%d rows, want %d", at, len(m.Rows))
	}
}

func checkView(t *rapid.T, table *Table, v *artifacts.View, o *Order, bodies [][]byte, order []int, runs [][]int,
	number int) {
	wantColumns := []string(nil)
	if o.Index {
		wantColumns = []string{"symbol", "name", "rank"}
	}
	if !slices.Equal(v.Columns, wantColumns) {
		t.Fatalf("%s: columns %v, want %v", v.Sort, v.Columns, wantColumns)
	}
	last := 0
	for _, row := range order {
		if o.Last != nil && o.Last(int32(row)) {
			last++
		}
	}
	if v.Last != last {
		t.Fatalf("%s: %d stand last, want %d", v.Sort, v.Last, last)
	}
	at := 0
	for i, body := range bodies {
		shards, err := artifacts.ParseObject(body)
		if err != nil {
			t.Fatalf("%s: %v", v.Sort, err)
		}
		first := artifacts.Fence{}
		switch row := order[at]; {
		case v.Sort == "id":
			first.ID = table.IDs[row]
		case o.Index:
			first.Key = string(o.Keys[row])
		}
		if v.Objects[i].First != first {
			t.Fatalf("%s: object %d begins at %+v, want %+v", v.Sort, i, v.Objects[i].First, first)
		}
		rows := cmp.Or(v.RowsPerShard, RowsPerShard)
		if len(shards) > RowsPerShard*ShardsPerObject/rows {
			t.Fatalf("%s: %d shards in an object", v.Sort, len(shards))
		}
		for _, s := range shards {
			if s.Len() != min(rows, len(order)-at) {
				t.Fatalf("%s: a shard of %d rows at %d of %d", v.Sort, s.Len(), at, len(order))
			}
			mine := runs[number]
			in := func(rows []int, run int) (n int) {
				for _, row := range rows {
					if mine[row] == run {
						n++
					}
				}
				return n
			}
			firstRun, lastRun := mine[order[at]], mine[order[at+s.Len()-1]]
			if s.FirstRun != firstRun || s.Before != in(order[:at], firstRun) ||
				s.After != in(order[at+s.Len():], lastRun) || s.Runs() != lastRun-firstRun+1 {
				t.Fatalf("%s at %d: first run %d, before %d, after %d, runs %d", v.Sort, at, s.FirstRun, s.Before,
					s.After, s.Runs())
			}
			for r := range s.Len() {
				row := order[at+r]
				tail := table.Tails[row]
				if table.TailsByID && v.Sort != "id" {
					tail = nil
				}
				if s.ID(r) != table.IDs[row] || !bytes.Equal(s.Row(r), table.Rows[row]) ||
					!bytes.Equal(s.Tail(r), tail) {
					t.Fatalf("%s: row %d is %s, want %s", v.Sort, at+r, s.Row(r), table.Rows[row])
				}
				run, _, _ := s.Run(r)
				if s.FirstRun+run != mine[row] {
					t.Fatalf("%s: row %d is in run %d, want %d", v.Sort, at+r, s.FirstRun+run, mine[row])
				}
				if key := s.Key(run); o.Index && o.Keys != nil != (key != nil) || key != nil &&
					!bytes.Equal(key, o.Keys[row]) {
					t.Fatalf("%s: row %d has key %q, want %q", v.Sort, at+r, key, o.Keys[row])
				}
				for c := range v.Columns {
					if int(s.Ord(c, r)) != runs[c+1][row] {
						t.Fatalf("%s: row %d has number %d in %s, want %d", v.Sort, at+r, s.Ord(c, r), v.Columns[c],
							runs[c+1][row])
					}
				}
			}
			at += s.Len()
		}
	}
	if at != len(order) {
		t.Fatalf("%s: %d rows, want %d", v.Sort, at, len(order))
	}
}
