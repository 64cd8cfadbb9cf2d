package gen

import (
	"fmt"
	"strings"
	"time"

	"example.com/marketdata/internal/model"
	"pgregory.net/rapid"
)

// Pasts generates long histories of a few assets. Assets and prices come and go, in bursts and with
// gaps, around the ages at which kept prices are thinned.
func Pasts(moments int) *rapid.Generator[History] {
	return rapid.Custom(func(t *rapid.T) History {
		d := draw{t}
		const assets = 12
		var restless [assets]int // how often a price comes, in a hundred moments
		var away [assets]bool    // out of the directory
		for i := range assets {
			restless[i] = []int{3, 10, 30, 60}[i%4]
			away[i] = d.chance(20)
		}
		at := time.Date(2025, 1, d.between(1, 31), d.upTo(23), 10*d.upTo(5), 0, 0, time.UTC)
		var h History
		var there [][assets]bool // at each moment
		now := [assets]bool{}
		for n := range moments {
			var directory, quotes strings.Builder
			scale := 0
			if d.chance(10) { // the total moves by more than its change may show
				scale = d.between(6, 12)
			}
			for i := range now {
				if !now[i] {
					now[i] = d.chance(restless[i])
				} else if d.chance(50) {
					now[i] = false
				}
				away[i] = away[i] != d.chance(3)
				if away[i] {
					now[i] = false
					continue
				}
				fmt.Fprintf(&directory, `{"key":"%d","name":"%[1]d","symbol":"%[1]d","slug":"%[1]d"}`+"\n", i)
				if now[i] {
					// Prices that differ from moment to moment, so that each base shows.
					cap := fmt.Sprintf(`"%de%d"`, 1+(i*7+n)%assets*(n+1), scale) // whose order changes, too
					if i%5 == 4 {
						cap = "null"
					}
					price := fmt.Sprint(n + 1)
					if i%4 == 1 {
						price += ".000000000000000001"
					}
					fmt.Fprintf(&quotes, `{"key":"%d","price":%s,"market_cap":%s,"volume":%d}`+"\n", i, price, cap, n%4)
				}
			}
			there = append(there, now)
			h = append(h, Moment{At: at, Changes: d.chance(20), After: time.Second, Files: model.Files{
				"feed.json":     fmt.Sprintf(`{"format":1,"database":"d","time":%q}`, at.Format(time.RFC3339)),
				"assets.ndjson": directory.String(),
				"quotes.ndjson": quotes.String(),
				"chains.ndjson": `{"key":"c","name":"c","slug":"c","members":["0","1"]}`,
				"rates.ndjson":  `{"code":"btc","asset":"3"}` + "\n" + `{"code":"eur","usd":"1.25"}`,
			}})
			switch {
			case d.chance(8):
				at = at.Add(pick(d, steps))
			case d.chance(50):
				// Go to where an older moment reaches one of the ages, with the assets of that
				// moment.
				old := n - d.upTo(min(n, 30))
				to := h[old].At.Add(pick(d, borders) + time.Duration(d.upTo(2)-1)*10*time.Minute)
				if to.After(at) && to.Sub(at) < 120*24*time.Hour {
					at = to
					for i := range now {
						now[i] = there[old][i] && !d.chance(20)
					}
					continue
				}
				fallthrough
			default:
				at = at.Add(time.Duration(d.between(1, 8)) * 10 * time.Minute)
			}
		}
		return h
	})
}

// borders are the ages at which kept prices are thinned or leave a window.
var borders = []time.Duration{
	48 * time.Hour, 90 * 24 * time.Hour, 24 * time.Hour, 7 * 24 * time.Hour, 12 * time.Hour, 30 * 24 * time.Hour,
	6 * time.Hour, time.Hour, 365 * 24 * time.Hour,
}
