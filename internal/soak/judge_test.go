package main

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/memstore"
	"example.com/marketdata/builder"
	"example.com/marketdata/builder/source/sim"
	"example.com/marketdata/loadtest/oracle"
)

// TestJudge lets an edge that is made up answer rightly and wrongly: every
// promise that it breaks is noted, and no other.
func TestJudge(t *testing.T) {
	ctx := t.Context()
	store := memstore.New()
	feed, err := sim.Open(ctx, "?assets=60&seed=1")
	if err != nil {
		t.Fatal(err)
	}
	b, err := builder.New(builder.Config{Store: store, Source: feed, Retain: time.Hour, Guards: builder.DefaultGuards, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	first := time.Date(2026, 3, 1, 0, 10, 0, 0, time.UTC)
	bodies := map[string]string{}
	const target = "/openapi/v1/quotes"
	truth := &truth{vault: &vault{Store: store, right: map[string][]byte{}}, snapshots: map[string]*oracle.Snapshot{}}
	for _, at := range []time.Time{first, first.Add(artifacts.Step)} {
		if _, err := b.Build(ctx, at); err != nil {
			t.Fatal(err)
		}
		s, err := truth.snapshot(ctx, at.Format(oracle.TimeFormat))
		if err != nil {
			t.Fatal(err)
		}
		q, _ := oracle.Parse(target, "")
		bodies[at.Format(oracle.TimeFormat)] = string(s.Answer(q, nil).Body)
	}
	older, newer := first.Format(oracle.TimeFormat), first.Add(artifacts.Step).Format(oracle.TimeFormat)
	if bodies[older] == bodies[newer] {
		t.Fatal("both snapshots answer the same")
	}
	wrong := []byte(bodies[newer])
	wrong[len(wrong)/2] ^= 1
	const unavailable = `{"code":50300,"message":"m","message_key":"SERVICE_UNAVAILABLE","result":{}}`

	for name, c := range map[string]struct {
		status   int
		snapshot string
		body     string
		header   http.Header
		latest   string
		calm     bool
		want     string // the promise that is broken, "" for none
	}{
		"right":                      {200, newer, bodies[newer], nil, older, true, ""},
		"right, older":               {200, older, bodies[older], nil, "", true, ""},
		"one bit wrong":              {200, newer, string(wrong), nil, "", false, wrongAnswers},
		"of the other snapshot":      {200, newer, bodies[older], nil, "", false, wrongAnswers},
		"from nowhere":               {200, "2026-03-01T05:00:00Z", bodies[newer], nil, "", false, wrongAnswers},
		"back in time":               {200, older, bodies[older], nil, newer, false, wrongAnswers},
		"unasked 304":                {304, newer, "", nil, "", false, wrongAnswers},
		"server error":               {500, "", "{}", nil, "", false, unexpected},
		"not found":                  {404, "", "{}", nil, "", false, unexpected},
		"unavailable":                {503, "", unavailable, http.Header{"Retry-After": {"1"}}, "", false, ""},
		"unavailable without reason": {503, "", unavailable, http.Header{"Retry-After": {"1"}}, "", true, calm503},
		"unavailable without header": {503, "", unavailable, nil, "", false, wrongAnswers},
		"unavailable in other words": {503, "", "sorry", http.Header{"Retry-After": {"1"}}, "", false, wrongAnswers},
		"cut off":                    {200, newer, bodies[newer], http.Header{"Content-Length": {"1000000"}}, "", false, cutAnswers},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				for k, v := range c.header {
					w.Header()[k] = v
				}
				if c.snapshot != "" {
					w.Header().Set("X-Snapshot-Time", c.snapshot)
				}
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte(c.body)) // short of its length where that is the case
			}))
			defer server.Close()
			s := &soak{truth: truth, report: newReport()}
			if c.calm {
				s.quiet.Store(1)
			}
			asker := &client{
				soak: s, edge: &node{addr: server.Listener.Addr().String()}, tags: map[string]tagged{}, latest: c.latest, http: server.Client(),
			}
			asker.ask(ctx, target, plain)
			for _, p := range promises {
				want := int64(0)
				if p == c.want {
					want = 1
				}
				if got := s.report.breaches[p]; got != want {
					t.Errorf("%s: %d times, want %d: %q", p, got, want, s.report.examples)
				}
			}
			if s.report.requests != 1 {
				t.Errorf("%d requests counted", s.report.requests)
			}
		})
	}
}
