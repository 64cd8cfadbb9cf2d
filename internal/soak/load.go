package main

import (
	"bytes"
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"example.com/marketdata/internal/model"
	"example.com/marketdata/loadtest/check"
	"example.com/marketdata/loadtest/client"
	"example.com/marketdata/loadtest/engine"
	"example.com/marketdata/loadtest/streams"
	"example.com/marketdata/loadtest/traffic"
)

// scenario is what is asked: pages of every listing in every order, filters,
// prices over time, and the two that are no listing.
var scenario = `
zipf: 1
mix:
  - {endpoint: assets, weight: 8, sizes: [20, 100], sorts: [` + sorts("assets") + `], deep: 1, offset: 0.3, links: 0.2}
  - {endpoint: quotes, weight: 8, sizes: [20, 100], sorts: [` + sorts("quotes") + `], deep: 1, offset: 0.3}
  - {endpoint: exchanges, weight: 4, sizes: [100], sorts: [` + sorts("exchanges") + `], deep: 1, offset: 0.3}
  - {endpoint: categories, weight: 4, sizes: [100], sorts: [` + sorts("categories") + `], deep: 1, offset: 0.3}
  - {endpoint: chains, weight: 4, sizes: [100], sorts: [` + sorts("chains") + `], deep: 1, offset: 0.3}
  - {endpoint: quotes, weight: 2, by: symbol, values: 3}
  - {endpoint: assets, weight: 1, by: slug, values: 3}
  - {endpoint: exchanges, weight: 1, by: id, values: 20}
  - {endpoint: history, weight: 2, by: id, windows: ["24h", "7d", "30d", "90d", "1y"]}
  - {endpoint: history, weight: 2, by: slug, values: 20, windows: ["24h", "7d"], sizes: [0, 3]}
  - {endpoint: trending, weight: 2}
  - {endpoint: global, weight: 2}
conditional: 0.25
compressed: 0.3
codings: [gzip, zstd, br]
head: 0.01
pinned: 0.15
own_id: 0.05
bad_parameter: 0.01
`

// sorts are an endpoint's sort keys in both directions.
func sorts(endpoint string) string {
	keys := strings.Join(model.SortKeys(endpoint), ", ")
	return keys + ", " + strings.ReplaceAll(keys, ",", ":desc,") + ":desc"
}

const (
	// patience bounds a request. An edge answers or gives up within a few
	// seconds, whatever the store does.
	patience = 15 * time.Second
	// streamsPerEdge is how many streams of events each edge has.
	streamsPerEdge = 50
	// think is the pause between two requests of a connection.
	think = 2 * time.Millisecond
)

// load begins to ask the edges, each by a closed loop of the load tester, until
// ctx is done. The function that it returns waits for the end, and takes down
// what the oracle has found wrong.
func (s *soak) load(ctx context.Context) (wait func(), err error) {
	var endpoints []*client.Endpoint
	sc, err := traffic.ParseScenario([]byte(scenario))
	if err != nil {
		return nil, err
	}
	var loops sync.WaitGroup
	for i, n := range s.edges {
		e, err := client.ParseEndpoint("http://"+n.addr, false)
		if err != nil {
			return nil, err
		}
		endpoints = append(endpoints, e)
		dir, err := traffic.ReadDirectory(ctx, e, "", s.cfg.Assets, nil)
		if err != nil {
			return nil, err
		}
		checker := check.New(check.Config{Share: 1, Store: s.vault})
		mix, err := traffic.NewMix(sc, dir, s.cfg.Seed+uint64(i), nil, checker)
		if err != nil {
			return nil, err
		}
		loops.Go(func() {
			_, err := engine.Run(ctx, engine.Config{
				Endpoints: []*client.Endpoint{e}, Source: &source{mix, s, n, ctx}, Connections: clientsPerEdge, Timeout: patience,
				Duration: 1000 * time.Hour, // until ctx is done
			})
			if err != nil {
				s.report.breaks(unexpected, "%s: the load ended: %v", n.name, err)
			}
			s.judge(n, checker)
		})
	}
	held := streams.Hold(ctx, streams.Config{Endpoints: endpoints, Count: streamsPerEdge * len(endpoints), Store: s.vault})
	return func() {
		loops.Wait()
		s.judgeStreams(held.Close())
	}, nil
}

// judgeStreams takes down what became of the streams of events. A kill ends each
// stream of its edge once; nothing else does.
func (s *soak) judgeStreams(r *streams.Result) {
	s.report.mu.Lock()
	s.report.streams = r
	killed := uint64(s.report.counts[kills+"edge"])
	s.report.mu.Unlock()
	for why, n := range r.Failures {
		switch {
		case why == engine.FailWrong:
			s.report.breaks(wrongAnswers, "%d streams of events: %s", n, r.Wrong)
		case why == engine.FailConnect, why == engine.FailClosed && n <= killed*streamsPerEdge:
		default:
			s.report.breaks(cutAnswers, "%d streams of events: %s", n, why)
		}
	}
	if r.Open != r.Count || r.Events == 0 {
		s.report.breaks(stuck, "%d of %d streams of events were open at the end, after %d events", r.Open, r.Count, r.Events)
	}
}

// judge takes down what the checker has found.
func (s *soak) judge(n *node, c *check.Checker) {
	rep := c.Finish(context.Background(), nil)
	for _, f := range rep.Findings {
		for i := range f.Count {
			e := f.Examples[min(i, uint64(len(f.Examples)-1))]
			s.report.breaks(wrongAnswers, "%s: %s: %s, snapshot %s, at %s: %s", n.name, f.Kind, e.Target, e.Snapshot, e.At.UTC().Format("15:04:05.000"), e.Detail)
		}
	}
	if rep.Uncompared > 0 {
		s.report.breaks(wrongAnswers, "%s: %d could not be judged: %s", n.name, rep.Uncompared, rep.OracleError)
	}
}

// source is traffic for an edge that is killed now and then.
type source struct {
	engine.Source
	soak *soak
	edge *node
	ctx  context.Context
}

// Session implements engine.Source.
func (s *source) Session() engine.Session { return &session{Session: s.Source.Session(), source: s} }

// session is one connection to the edge.
type session struct {
	engine.Session
	source *source

	began  time.Time // of the last request
	life   int64     // of the edge, at that time
	latest string    // newest snapshot that was answered in this life
	head   bool      // it was a HEAD
}

// Request implements engine.Session. It pauses, and waits while the edge is
// down.
func (s *session) Request(i uint64, e *client.Endpoint) *engine.Request {
	pause(s.source.ctx, think)
	for s.source.edge.down() && s.source.ctx.Err() == nil {
		pause(s.source.ctx, 10*time.Millisecond)
	}
	if life := s.source.edge.life.Load(); life != s.life { // what the edge that was killed had said is over
		s.life, s.latest = life, ""
	}
	s.began = time.Now()
	req := s.Session.Request(i, e)
	s.head = req.Head
	if bytes.Contains(req.Bytes[:min(12, len(req.Bytes))], []byte(" /at/")) {
		s.source.soak.report.count("requests below /at/")
	}
	return req
}

// Failed implements engine.Observer.
func (s *session) Failed(err error) {
	r := s.source.soak.report
	r.count(requests)
	if s.source.edge.life.Load() != s.life || s.source.ctx.Err() != nil {
		r.count(cutOff)
		return
	}
	r.breaks(cutAnswers, "%s: after %v: %v", s.source.edge.name, time.Since(s.began), err)
}

// Answer implements engine.Session.
func (s *session) Answer(res *client.Response) engine.Verdict {
	n, r := s.source.edge.name, s.source.soak.report
	r.count(requests)
	r.count("answers of status " + strconv.Itoa(res.Status))
	if res.Status == http.StatusServiceUnavailable {
		if string(res.Get("Retry-After")) != "1" || !s.head && (!bytes.HasPrefix(res.Body, []byte(`{"code":50300,`)) || !bytes.HasSuffix(res.Body, []byte(`"result":{}}`))) {
			r.breaks(wrongAnswers, "%s: a 503 with Retry-After %q and %s", n, res.Get("Retry-After"), res.Body)
		}
		if s.source.soak.calm(s.began) {
			r.breaks(calm503, "%s: %s", n, res.Body)
		}
		return engine.Unexpected
	}
	snapshot := string(res.Get("X-Snapshot-Time"))
	v := s.Session.Answer(res)
	switch {
	case v == engine.Unexpected:
		r.breaks(unexpected, "%s: status %d: %s", n, res.Status, res.Body)
	case snapshot != "" && snapshot < s.latest: // the format sorts as text
		r.breaks(wrongAnswers, "%s: answered from %q after %s", n, snapshot, s.latest)
	case snapshot != "":
		s.latest = snapshot
	}
	return v
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
