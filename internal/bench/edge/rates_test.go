package main

import (
	"testing"
	"time"

	"example.com/marketdata/loadtest/pace"
)

// TestStages: in each turn exactly one server is loaded, at its rate.
func TestStages(t *testing.T) {
	const rate, servers, rounds = 1000, 3, 5
	b := &bench{runCmd: &runCmd{Rounds: rounds}}
	for place := range servers {
		asked := make([]int, servers*(rounds+2))
		schedule := pace.New(b.stages(rate, place, servers), pace.Poisson, 1)
		for due, ok := schedule.Next(); ok; due, ok = schedule.Next() {
			asked[due/rateTurn]++
		}
		for turn, n := range asked {
			want := 0
			switch {
			case turn%servers != place:
			case turn < servers:
				want = rateConns
			default:
				want = rate
			}
			// Five standard deviations of a Poisson distribution of 1,000 are 158.
			if n < want-160 || n > want+160 || want == 0 && n > 0 {
				t.Errorf("place %d, turn %d: %d requests are due, want some %d", place, turn, n, want)
			}
		}
	}
}

// TestFixedRate: rounds with a late load do not count, and too few rounds give no result.
func TestFixedRate(t *testing.T) {
	turns := func(calm bool, cpu ...time.Duration) (turns []turn) {
		for _, d := range cpu {
			turns = append(turns, turn{figures{cpu: d, p99: time.Millisecond}, calm})
		}
		return turns
	}
	for _, test := range []struct {
		name          string
		server, other []turn
		ratio         float64
		met           bool
	}{
		{"met", turns(true, 11, 11, 11, 11, 11), turns(true, 10, 10, 10, 10, 10), 1.1, true},
		{"missed", turns(true, 12, 12, 12, 12, 12), turns(true, 10, 10, 10, 10, 10), 1.2, false},
		{"late", turns(false, 11, 11, 11, 11, 11), turns(true, 10, 10, 10, 10, 10), 0, false},
		{"too few", turns(true, 11, 11), turns(true, 10, 10), 0, false},
	} {
		b := &bench{runCmd: &runCmd{}}
		b.fixedRate(test.name, 1.1, test.server, test.other)
		if r := b.rows[0]; r.ratio != test.ratio || r.met != test.met || r.target != "≤ 1.10" {
			t.Errorf("%s: %+v", test.name, r)
		}
	}
}
