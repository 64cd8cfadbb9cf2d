package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/internal/model"
	"example.com/marketdata/loadtest/check"
	"example.com/marketdata/loadtest/client"
	"example.com/marketdata/loadtest/engine"
	"example.com/marketdata/loadtest/streams"
	"example.com/marketdata/loadtest/traffic"
)

// scenario requests pages of every listing in every order, filters, prices over time, and the two
// endpoints that are not listings.
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

// sorts returns the sort keys of an endpoint, in both directions, separated by commas.
func sorts(endpoint string) string {
	keys := strings.Join(model.SortKeys(endpoint), ", ")
	return keys + ", " + strings.ReplaceAll(keys, ",", ":desc,") + ":desc"
}

const (
	// patience limits the duration of a request. An edge answers or gives up within a few seconds,
	// whatever the store does.
	patience = 15 * time.Second
	// streamsPerEdge is the number of event streams that each edge serves.
	streamsPerEdge = 50
	// think is the pause between two requests of a connection.
	think = 2 * time.Millisecond
)

// load starts a closed loop of the load tester for each edge, until ctx is done. The returned
// function waits for the end and records the oracle's findings.
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
		s.checkers = append(s.checkers, checker)
		mix, err := traffic.NewMix(sc, dir, s.cfg.Seed+uint64(i), nil, checker)
		if err != nil {
			return nil, err
		}
		loops.Go(func() {
			_, err := engine.Run(ctx, engine.Config{
				Endpoints: []*client.Endpoint{e}, Source: &source{mix, s, n, ctx}, Connections: clientsPerEdge,
				Timeout:  patience,
				Duration: 1000 * time.Hour, // until ctx is done
			})
			if err != nil {
				s.report.breaks(unexpected, "%s: the load ended: %v", n.name, err)
			}
			s.judge(n, checker)
		})
	}
	held := streams.Hold(
		ctx, streams.Config{Endpoints: endpoints, Count: streamsPerEdge * len(endpoints), Store: s.vault})
	return func() {
		loops.Wait()
		s.judgeStreams(held.Close())
	}, nil
}

// judgeStreams records the outcome of the event streams. Each kill of an edge may end each of its
// streams once. Nothing else may end a stream.
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
	if r.Early > killed*streamsPerEdge { // an edge that starts without a snapshot announces the first one immediately
		s.report.breaks(offTime, "%d events came before their snapshots were to become current", r.Early)
	}
	if r.Open != r.Count || r.Events == 0 {
		s.report.breaks(
			stuck, "%d of %d streams of events were open at the end, after %d events", r.Open, r.Count, r.Events)
	}
}

// judge records the checker's findings.
func (s *soak) judge(n *node, c *check.Checker) {
	rep := c.Finish(context.Background(), nil)
	for _, f := range rep.Findings {
		for i := range f.Count {
			e := f.Examples[min(i, uint64(len(f.Examples)-1))]
			s.report.breaks(wrongAnswers, "%s: %s: %s, snapshot %s, at %s: %s", n.name, f.Kind, e.Target, e.Snapshot,
				e.At.UTC().Format("15:04:05.000"), e.Detail)
		}
	}
	if rep.Uncompared > 0 {
		s.report.breaks(wrongAnswers, "%s: %d could not be judged: %s", n.name, rep.Uncompared, rep.OracleError)
	}
}

// source is the source of requests to one edge. The soak kills the edge from time to time.
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

	began  time.Time // when the last request began
	life   int64     // the life of the edge at that time
	latest string    // snapshot of the last answer without a pin in this life
	head   bool      // whether the last request was a HEAD
	pin    string    // the pin of the last request, or ""

	rollback int // number of the newest rollback that an answer in this life has shown
}

// told records what an edge has told clients in one life. Snapshots are identified by their times,
// whose text form sorts by time.
type told struct {
	mu       sync.Mutex
	life     int64
	newest   string               // the newest snapshot of any answer, unless it was withdrawn
	inForce  string               // the newest snapshot of an answer without a pin
	prepared map[string]time.Time // due times of the snapshots that pinned requests have received early
}

// lateness limits how long after its time a waiting snapshot may become current. All programs share
// one machine, so an edge may have to wait for the processor.
const lateness = time.Second

// judgeTime checks the snapshot of an answer against the snapshots that the builder has published
// and against the edge's earlier answers. It returns the promise that the answer breaks, or "", and
// a description of the fault.
func (s *session) judgeTime(snapshot string) (promise, detail string) {
	k, n, now := s.source.soak, &s.source.edge.told, time.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.life != s.life {
		if n.life > s.life {
			return "", "" // the edge has since been killed
		}
		n.life, n.newest, n.inForce, n.prepared = s.life, "", "", map[string]time.Time{}
	}
	gone := k.withdrawn[snapshot]
	if gone > 0 && gone <= s.rollback {
		return wrongAnswers, fmt.Sprintf("answered from %s after the rollback that withdrew it", snapshot)
	}
	if k.withdrawn[n.newest] > 0 {
		n.newest = ""
	}
	if gone == 0 {
		n.newest = max(n.newest, snapshot)
	}
	due := k.due[snapshot]
	if s.pin != "" {
		if due.After(now) && n.inForce != "" && n.inForce < snapshot {
			n.prepared[snapshot] = due
			k.report.count(pinsEarly)
		}
		return "", ""
	}
	// An edge that starts without a snapshot answers from the first one immediately.
	if due.After(now) && n.inForce != "" && n.inForce != snapshot {
		promise, detail = offTime, fmt.Sprintf("%s was current %v early", snapshot, due.Sub(now))
	}
	n.inForce = max(n.inForce, snapshot)
	for waited, due := range n.prepared {
		switch {
		case k.withdrawn[waited] > 0 || snapshot >= waited:
			delete(n.prepared, waited)
		case s.began.Sub(due) > lateness:
			delete(n.prepared, waited)
			promise, detail = offTime, fmt.Sprintf("%s was not current %v after its time", waited, s.began.Sub(due))
		}
	}
	if snapshot < s.latest {
		if k.withdrawn[s.latest] == 0 {
			return wrongAnswers, fmt.Sprintf("answered from %q after %s", snapshot, s.latest)
		}
		s.rollback = k.withdrawn[s.latest]
		k.report.count("answers that show a rollback first")
	}
	s.latest = snapshot
	return promise, detail
}

// refused reports whether an edge may refuse the session's pin with this status. It may answer with
// 410 after a rollback withdrew the snapshot, with 503 if the snapshot is newer than every snapshot
// from which it has answered, and with 400 if the snapshot is, in addition, more than one step
// newer.
func (s *session) refused(status int) bool {
	k, n := s.source.soak, &s.source.edge.told
	k.mu.Lock()
	defer k.mu.Unlock()
	n.mu.Lock()
	defer n.mu.Unlock()
	newest := ""
	if n.life == s.life && k.withdrawn[n.newest] == 0 {
		newest = n.newest
	}
	switch status {
	case http.StatusGone:
		return k.withdrawn[s.pin] > 0
	case http.StatusServiceUnavailable:
		return s.pin > newest
	case http.StatusBadRequest:
		pin, _ := time.Parse(model.TimeFormat, s.pin)
		known, err := time.Parse(model.TimeFormat, newest)
		return err != nil || pin.Sub(known) > artifacts.Step
	}
	return false
}

// Request implements engine.Session. It pauses first, and waits while the edge is down.
func (s *session) Request(i uint64, e *client.Endpoint) *engine.Request {
	pause(s.source.ctx, think)
	for s.source.edge.down() && s.source.ctx.Err() == nil {
		pause(s.source.ctx, 10*time.Millisecond)
	}
	if life := s.source.edge.life.Load(); life != s.life { // answers of the killed edge do not bind the restarted one
		s.life, s.latest, s.rollback = life, "", 0
	}
	s.began = time.Now()
	req := s.Session.Request(i, e)
	s.head = req.Head
	var byPath bool
	if s.pin, byPath = pinOf(string(req.Bytes)); byPath {
		s.source.soak.report.count("requests below /at/")
	}
	return req
}

// pinOf returns the pin of a request, or "" if it has none. byPath reports whether the pin is in the
// path.
func pinOf(request string) (pin string, byPath bool) {
	if _, path, ok := strings.Cut(request[:strings.Index(request, "\r\n")], " /at/"); ok {
		t, _ := time.Parse("20060102T150405Z", path[:16]) // the load tester wrote it, so it is valid
		return t.Format(model.TimeFormat), true
	}
	_, pin, _ = strings.Cut(request, "\r\nX-Snapshot-Time: ")
	pin, _, _ = strings.Cut(pin, "\r\n")
	return pin, false
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
		after := res.Get("Retry-After")
		soon := len(after) == 1 && '1' <= after[0] && after[0] <= '5'
		if !soon || !s.head && (!bytes.HasPrefix(res.Body, []byte(`{"code":50300,`)) ||
			!bytes.HasSuffix(res.Body, []byte(`"result":{}}`))) {
			r.breaks(wrongAnswers, "%s: a 503 with Retry-After %q and %s", n, after, res.Body)
		}
		if s.source.soak.calm(s.began) && (s.pin == "" || !s.refused(res.Status)) {
			r.breaks(calm503, "%s: %s", n, res.Body)
		}
		return engine.Unexpected
	}
	if s.pin != "" && (res.Status == http.StatusGone || res.Status == http.StatusBadRequest) {
		if !s.refused(res.Status) {
			r.breaks(unexpected, "%s: status %d to the pin %s: %s", n, res.Status, s.pin, res.Body)
		}
		return engine.Unexpected
	}
	v := s.Session.Answer(res)
	if v == engine.Unexpected {
		r.breaks(unexpected, "%s: status %d: %s", n, res.Status, res.Body)
	} else if snapshot := string(res.Get("X-Snapshot-Time")); snapshot != "" {
		if promise, detail := s.judgeTime(snapshot); promise != "" {
			r.breaks(promise, "%s: %s", n, detail)
		}
	}
	return v
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
