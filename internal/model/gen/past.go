package gen

import (
	"fmt"
	"strings"
	"time"

	"example.com/marketdata/internal/model"
	"pgregory.net/rapid"
)

// Pasts are long histories of a few assets whose prices come and go, in bursts
// and with gaps, around the borders at which held prices thin out.
func Pasts(moments int) *rapid.Generator[History] {
	return rapid.Custom(func(t *rapid.T) History {
		d := draw{t}
		const assets = 4
		var directory strings.Builder
		for i := range assets {
			fmt.Fprintf(&directory, `{"key":"%d","name":"%[1]d","symbol":"%[1]d","slug":"%[1]d"}`+"\n", i)
		}
		at := time.Date(2025, 1, d.between(1, 31), d.upTo(23), 10*d.upTo(5), 0, 0, time.UTC)
		var h History
		var there [assets]bool
		for range moments {
			var quotes strings.Builder
			for i := range there {
				if d.chance(50) {
					there[i] = !there[i]
				}
				if there[i] {
					// Prices that differ from moment to moment, so that each base shows.
					fmt.Fprintf(&quotes, `{"key":"%d","price":%d,"market_cap":%d}`+"\n", i, len(h)+1, (i+1)*(len(h)+1))
				}
			}
			h = append(h, Moment{At: at, Changes: d.chance(20), After: time.Second, Files: model.Files{
				"feed.json":     fmt.Sprintf(`{"format":1,"database":"d","time":%q}`, at.Format(time.RFC3339)),
				"assets.ndjson": directory.String(),
				"quotes.ndjson": quotes.String(),
				"chains.ndjson": `{"key":"c","name":"c","slug":"c","members":["0","1"]}`,
			}})
			switch {
			case d.chance(12):
				at = at.Add(pick(d, steps))
			case d.chance(30): // to where an older moment is at a border
				border := pick(d, []time.Duration{48 * time.Hour, 24 * time.Hour, 12 * time.Hour, 7 * 24 * time.Hour, 30 * 24 * time.Hour, 90 * 24 * time.Hour, 365 * 24 * time.Hour})
				to := pick(d, h).At.Add(border + time.Duration(d.upTo(4)-2)*10*time.Minute)
				at = at.Add(max(10*time.Minute, min(to.Sub(at), 120*24*time.Hour)))
			default:
				at = at.Add(time.Duration(d.between(1, 8)) * 10 * time.Minute)
			}
		}
		return h
	})
}
