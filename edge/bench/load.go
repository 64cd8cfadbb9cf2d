package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"time"

	"example.com/marketdata/loadtest/client"
	"example.com/marketdata/loadtest/engine"
	"example.com/marketdata/loadtest/pace"
)

// loadCmd is an open loop at a set rate over pages of quotes, some asked for
// more often than others. It runs as a process of its own, pinned to the load's
// core.
type loadCmd struct {
	URL      string  `required:""`
	Key      string  `required:""`
	Rate     float64 `required:""`
	Duration time.Duration
}

// loadFigures is what it prints.
type loadFigures struct {
	P50, P99, P999 time.Duration
	LagP99         time.Duration
	Rate           float64
	Errors         uint64

	stolen float64 // of all cores' time, by the hypervisor
}

func (c *loadCmd) Run(ctx context.Context) error {
	e, err := client.ParseEndpoint(c.URL, false)
	if err != nil {
		return err
	}
	src := &pages{}
	for i := range 400 {
		path := fmt.Sprintf("/openapi/v1/quotes?page=%d", i%200+1)
		if i >= 200 {
			path += "&sort=name:desc"
		}
		src.requests = append(src.requests, fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: %s\r\nX-Api-Key: %s\r\n\r\n", path, e.Host, c.Key))
	}
	result, err := engine.Run(ctx, engine.Config{
		Endpoints: []*client.Endpoint{e}, Source: src, Stages: pace.Constant(c.Rate, c.Duration), Arrivals: pace.Poisson, Seed: 1,
		Connections: 256, Timeout: 10 * time.Second, Warmup: 2 * time.Second,
	})
	if err != nil {
		return err
	}
	cr := result.Classes[0]
	f := loadFigures{
		P50: time.Duration(cr.Due.ValueAtPercentile(50)), P99: time.Duration(cr.Due.ValueAtPercentile(99)), P999: time.Duration(cr.Due.ValueAtPercentile(99.9)),
		LagP99: time.Duration(result.Lag.ValueAtPercentile(99)), Rate: float64(cr.Sent) / result.Length.Seconds(),
	}
	for _, n := range cr.Failures {
		f.Errors += n
	}
	return json.NewEncoder(os.Stdout).Encode(f)
}

// pages asks for pages by a Zipf law.
type pages struct {
	requests [][]byte
	sessions atomic.Uint64
}

func (p *pages) Classes() []string { return []string{"quotes"} }

func (p *pages) Session() engine.Session {
	rnd := rand.New(rand.NewPCG(1, p.sessions.Add(1)))
	return &pageSession{p: p, zipf: rand.NewZipf(rnd, 1.1, 1, uint64(len(p.requests)-1))}
}

type pageSession struct {
	p    *pages
	zipf *rand.Zipf
	req  engine.Request
}

func (s *pageSession) Request(uint64, *client.Endpoint) *engine.Request {
	s.req.Bytes = s.p.requests[s.zipf.Uint64()]
	return &s.req
}

func (s *pageSession) Answer(r *client.Response) engine.Verdict {
	if r.Status != 200 {
		return engine.Unexpected
	}
	return engine.OK
}
