package gen

import (
	"fmt"
	"math/rand/v2"

	"pgregory.net/rapid"
)

// A crowd is a large number of plain rows that make listings span many shards. A single seed
// generates all of them, because drawing them one by one would be slow.
type crowd struct {
	count int
	seed  uint64
	gaps  bool                // whether the feed gives ids, with gaps
	rows  map[string][]string // by collection, at the current moment
}

func newCrowd(d draw, most int) *crowd {
	c := &crowd{gaps: d.chance(50)}
	if most > 0 {
		c.count, c.seed = d.between(1, most), rapid.Uint64().Draw(d.t, "")
		if c.count < most/2 && d.chance(50) {
			c.count = most - c.count
		}
	}
	return c
}

// move advances the crowd to its next moment.
func (c *crowd) move(d draw) {
	c.rows = map[string][]string{}
	if c.count == 0 {
		return
	}
	forever := rand.New(rand.NewPCG(c.seed, 1)) // decides the permanent properties of an asset
	// decides an asset's figures, and whether the asset is present
	now := rand.New(rand.NewPCG(c.seed, rapid.Uint64().Draw(d.t, "")))
	symbols := []string{"CROWD", "crowd", "cro\u017fd", "DUP", "dup", "SOLO"} // each shared by hundreds of assets
	amounts := func() string {
		if now.IntN(3) == 0 {
			return fmt.Sprintf("%d", 1+now.IntN(20)*1000000) // Many of these are equal.
		}
		return fmt.Sprintf("%d.%08d", now.Int64N(1e15), now.IntN(1e8))
	}
	id := func(i int) string {
		if c.gaps {
			return fmt.Sprintf(`"id":%d,`, 1000+7*i)
		}
		return ""
	}
	add := func(collection, format string, args ...any) {
		c.rows[collection] = append(c.rows[collection], fmt.Sprintf(format, args...))
	}
	for i := range c.count {
		symbol := symbols[forever.IntN(len(symbols))]
		name := fmt.Sprintf("Crowd %d", forever.IntN(c.count))
		active := now.IntN(10) > 0
		if now.IntN(20) == 0 {
			continue // It is missing this time.
		}
		add("assets", `{"key":"crowd%d",%s"name":%q,"symbol":%q,"slug":"Crowd-%d","active":%t,"website":"https://%d.example"}`, i, id(i), name,
			symbol, i, active, i)
		if now.IntN(10) > 0 {
			add("quotes", `{"key":"crowd%d","price":%d.%06d,"market_cap":%s,"volume":%s}`, i, now.IntN(50),
				now.IntN(1e6), amounts(), amounts())
		}
	}
	for i := range c.count / 3 {
		market := "null"
		if now.IntN(5) > 0 {
			market = fmt.Sprintf(`{"volume_24h":%s}`, amounts())
		}
		add("exchanges", `{"key":"crowd%d",%s"name":"Exchange %d","slug":"shared-%d","market":%s}`, i, id(i),
			forever.IntN(9), forever.IntN(5), market)
	}
	for _, collection := range []string{"categories", "chains"} {
		for i := range c.count / 4 {
			members := ""
			for j := range now.IntN(5) {
				if j > 0 {
					members += ","
				}
				members += fmt.Sprintf(`"crowd%d"`, now.IntN(c.count))
			}
			add(collection, `{"key":"crowd%d",%s"name":"Group %d","slug":"crowd-%d","members":[%s],"native":"crowd%d"}`, i, id(i),
				forever.IntN(9), i, members, i)
		}
	}
}
