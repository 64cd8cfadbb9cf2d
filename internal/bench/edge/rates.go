package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"example.com/marketdata/loadtest/client"
	"example.com/marketdata/loadtest/engine"
	"example.com/marketdata/loadtest/pace"
	"golang.org/x/sync/errgroup"
)

const (
	// rateConns is how many connections the load keeps open to each server and asks in turn.
	rateConns = 256
	// rateTurn is how long a server is asked before the next one. It is the length of the engine's
	// intervals.
	rateTurn = time.Second
	// openingTime is the time in which rateConns requests are due at the start: each opens a connection.
	openingTime = time.Millisecond
	// rateRounds bounds the rounds: a second for each server at each rate.
	rateRounds = 25
	// minTurns is how many turns without a late load a median needs.
	minTurns = 5
)

// fixedRates are rates at which machines run: far below saturation. A server that waits between two
// requests pays for going to sleep and for waking up, and finds the caches of its core cold.
var fixedRates = []struct {
	perSecond int
	target    float64 // of the ratio to the first of the others
}{{1_000, 1.10}, {4_000, 1.03}, {12_000, 1.00}}

// rates compares a server with others under an open load with Poisson arrivals.
func (b *bench) rates(ctx context.Context, server load, others ...load) error {
	for _, rate := range fixedRates {
		what := func(other load) string {
			return fmt.Sprintf("a cached page at %s/s, beside %s", thousands(rate.perSecond), other.name)
		}
		if !slices.ContainsFunc(others, func(l load) bool { return !b.skipped(what(l)) }) {
			continue
		}
		turns, err := b.turns(ctx, float64(rate.perSecond), append([]load{server}, others...))
		if err != nil {
			return fmt.Errorf("%s requests a second: %w", thousands(rate.perSecond), err)
		}
		for i, other := range others {
			target := 0.0
			if i == 0 {
				target = rate.target
			}
			b.fixedRate(what(other), target, turns[0], turns[i+1])
		}
	}
	return nil
}

// turn is what a server did in one turn.
type turn struct {
	figures
	calm bool // the load was not late
}

// fixedRate reports what one server did beside another one.
func (b *bench) fixedRate(what string, target float64, server, other []turn) {
	var cpu, beside, ratios, p99, besideP99 []float64
	for i := range min(len(server), len(other)) {
		s, o := server[i], other[i]
		if s.calm && o.calm {
			cpu, beside = append(cpu, float64(s.cpu)/1e3), append(beside, float64(o.cpu)/1e3)
			ratios = append(ratios, float64(s.cpu)/float64(o.cpu))
			p99, besideP99 = append(p99, float64(s.p99)/1e6), append(besideP99, float64(o.p99)/1e6)
		}
	}
	r := row{what: what, measured: "the machine was busy"}
	if target > 0 {
		r.target = fmt.Sprintf("≤ %.2f", target)
	}
	if len(ratios) >= minTurns {
		slices.Sort(ratios)
		figure := func(us, ms []float64) string {
			self := func(f float64) float64 { return f }
			return fmt.Sprintf("%.1f µs, p99 %.2f ms", median(us, self), median(ms, self))
		}
		r.measured, r.beside = figure(cpu, p99), figure(beside, besideP99)
		r.ratio = ratios[len(ratios)/2]
		r.met = r.ratio <= target
		fmt.Printf("%-58s beside it %s, ratio %.3f (half of %d turns: %.3f to %.3f)\n", what, r.beside, r.ratio,
			len(ratios),
			ratios[len(ratios)/4], ratios[len(ratios)*3/4])
	}
	b.single(r)
}

// turns asks the servers of loads in turn and returns, for each, what it did in its turns.
func (b *bench) turns(ctx context.Context, rate float64, loads []load) ([][]turn, error) {
	all := make([][]turn, len(loads))
	var g errgroup.Group
	for i := range loads {
		g.Go(func() (err error) {
			all[i], err = b.takeTurns(ctx, rate, &loads[i], i, len(loads))
			return err
		})
	}
	return all, g.Wait()
}

// takeTurns loads one server in its turns, the place-th of each round. Each turn is an interval of
// the engine. Connections stay open from turn to turn. The first turn opens them and the second one
// warms up: neither counts.
func (b *bench) takeTurns(ctx context.Context, rate float64, l *load, place, of int) (turns []turn, err error) {
	endpoint, err := client.ParseEndpoint("http://"+l.server.addr, false)
	if err != nil {
		return nil, err
	}
	before, err := cpu(l.server.worker)
	if err != nil {
		return nil, err
	}
	var failed error
	seen := 0
	res, err := engine.Run(ctx, engine.Config{
		Endpoints: []*client.Endpoint{endpoint}, Source: newRepeated(l), Stages: b.stages(rate, place, of),
		Arrivals: pace.Poisson, Seed: 1, Connections: rateConns, Timeout: silence,
		Tick: func(iv *engine.Interval) {
			after, err := cpu(l.server.worker)
			if err != nil {
				failed = err
			}
			if seen%of == place && seen/of >= 2 && iv.Answered > 0 {
				turns = append(turns, turn{figures{
					cpu:  (after - before) / time.Duration(iv.Answered),
					rate: float64(iv.Answered) / (iv.End - iv.Start).Seconds(),
					p99:  time.Duration(iv.Due.ValueAtQuantile(99)),
				}, iv.LagP99 <= maxLagMS*time.Millisecond})
			}
			before = after
			seen++
		},
	})
	switch {
	case err != nil:
		return nil, err
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case failed != nil:
		return nil, failed
	}
	for _, c := range res.Classes {
		for failure, n := range c.Failures {
			return nil, fmt.Errorf("%s: %d requests failed: %s", l.name, n, failure)
		}
	}
	return turns, nil
}

// stages returns the schedule of one of several servers: its turns, with pauses for the others.
func (b *bench) stages(rate float64, place, of int) (stages []pace.Stage) {
	pause := func(turns int) {
		if turns > 0 {
			stages = append(stages, pace.Constant(0, time.Duration(turns)*rateTurn)...)
		}
	}
	for round := range min(b.Rounds, rateRounds) + 2 {
		pause(place)
		if round == 0 {
			stages = append(stages, pace.Constant(rateConns/openingTime.Seconds(), openingTime)...)
			stages = append(stages, pace.Constant(0, rateTurn-openingTime)...)
		} else {
			stages = append(stages, pace.Constant(rate, rateTurn)...)
		}
		pause(of - 1 - place)
	}
	// The last interval ends before the run does.
	return append(stages, pace.Constant(0, rateTurn/2)...)
}

// repeated is one request over and over. It is an engine.Source, and an engine.Session.
type repeated struct{ request engine.Request }

func newRepeated(l *load) *repeated {
	request := append(l.ask([]byte("GET "), rand.New(rand.NewPCG(1, 1))), " HTTP/1.1\r\nHost: "+l.server.addr+"\r\n"...)
	for k, v := range l.headers {
		request = append(request, k+": "+v+"\r\n"...)
	}
	return &repeated{engine.Request{Bytes: append(request, "\r\n"...)}}
}

// Classes implements engine.Source.
func (r *repeated) Classes() []string { return []string{"page"} }

// Session implements engine.Source.
func (r *repeated) Session() engine.Session { return r }

// Request implements engine.Session.
func (r *repeated) Request(uint64, *client.Endpoint) *engine.Request { return &r.request }

// Answer implements engine.Session.
func (r *repeated) Answer(res *client.Response) engine.Verdict {
	if res.Status != http.StatusOK {
		return engine.Unexpected
	}
	return engine.OK
}
