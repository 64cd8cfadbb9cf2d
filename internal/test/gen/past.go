package gen

import (
	"fmt"
	"strings"
	"time"

	"example.com/marketdata/internal/model"
	"pgregory.net/rapid"
)

// Pasts generates long histories of a few assets. Assets and prices appear and disappear, in bursts
// and with gaps, around the ages at which the store thins kept prices.
func Pasts(moments int) *rapid.Generator[History] {
	return rapid.Custom(func(t *rapid.T) History {
		d := draw{t}
		const assets = 12
		var restless [assets]int // percent chance, at each moment, that an asset without a price gets one
		var away [assets]bool    // whether the asset is not in the directory
		for i := range assets {
			restless[i] = []int{3, 10, 30, 60}[i%4]
			away[i] = d.chance(20)
		}
		at := time.Date(2025, 1, d.between(1, 31), d.upTo(23), 10*d.upTo(5), 0, 0, time.UTC)
		var h History
		var there [][assets]bool // whether each asset has a price, by moment
		now := [assets]bool{}
		for n := range moments {
			var directory, quotes strings.Builder
			scale := 0
			if d.chance(10) { // The total changes by more than the change record can show.
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
					// Every moment has a different price, so that a test can tell which one a base is.
					// The order of the market caps changes, too.
					cap := fmt.Sprintf(`"%de%d"`, 1+(i*7+n)%assets*(n+1), scale)
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
				// Advance to the time at which an older moment reaches one of the ages, with the
				// assets of that moment.
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

// borders are the ages at which the store thins kept prices, or at which they leave a window.
var borders = []time.Duration{
	48 * time.Hour, 90 * 24 * time.Hour, 24 * time.Hour, 7 * 24 * time.Hour, 12 * time.Hour, 30 * 24 * time.Hour,
	6 * time.Hour, time.Hour, 365 * 24 * time.Hour,
}
