package main

import (
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/memstore"
	"example.com/marketdata/builder"
	"example.com/marketdata/builder/source/sim"
	"example.com/marketdata/internal/model"
	"example.com/marketdata/loadtest/check"
	"example.com/marketdata/loadtest/client"
	"example.com/marketdata/loadtest/oracle"
	"example.com/marketdata/loadtest/traffic"
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
	v := &vault{Store: store, right: map[string][]byte{}}
	for _, at := range []time.Time{first, first.Add(artifacts.Step)} {
		if _, err := b.Build(ctx, at); err != nil {
			t.Fatal(err)
		}
		m, err := oracle.FindManifest(ctx, store, at)
		if err != nil {
			t.Fatal(err)
		}
		s, err := oracle.Load(ctx, store, m)
		if err != nil {
			t.Fatal(err)
		}
		q, _ := model.Parse(target)
		bodies[at.Format(model.TimeFormat)] = s.Answer(q, nil).Body
	}
	older, newer := first.Format(model.TimeFormat), first.Add(artifacts.Step).Format(model.TimeFormat)
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
		"not found":                  {404, "", "{}", nil, "", false, wrongAnswers},
		"without a tag":              {200, newer, bodies[newer], http.Header{"Etag": {""}}, "", false, wrongAnswers},
		"unavailable":                {503, "", unavailable, http.Header{"Retry-After": {"1"}}, "", false, ""},
		"unavailable without reason": {503, "", unavailable, http.Header{"Retry-After": {"1"}}, "", true, calm503},
		"unavailable without header": {503, "", unavailable, nil, "", false, wrongAnswers},
		"unavailable in other words": {503, "", "sorry", http.Header{"Retry-After": {"1"}}, "", false, wrongAnswers},
		"cut off":                    {200, newer, bodies[newer], http.Header{"Content-Length": {"1000000"}}, "", false, cutAnswers},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				h := w.Header()
				h.Set("Content-Type", "application/json")
				h.Set("ETag", fmt.Sprintf("%q", hex.EncodeToString([]byte(c.snapshot+c.body))))
				h.Set("X-Request-Id", "01234567890123456789")
				for k, v := range c.header {
					h[k] = v
				}
				if c.snapshot != "" {
					h.Set("X-Snapshot-Time", c.snapshot)
				}
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte(c.body)) // short of its length where that is the case
			}))
			defer server.Close()
			s := &soak{vault: v, report: newReport()}
			if c.calm {
				s.quiet.Store(1)
			}
			e, err := client.ParseEndpoint(server.URL, false)
			if err != nil {
				t.Fatal(err)
			}
			checker := check.New(check.Config{Share: 1, Store: v})
			src := &source{traffic.NewTargets([]traffic.Target{{Method: "GET", Path: target}}, nil, checker), s, &node{}, ctx}
			one := src.Session().(*session)
			one.latest = c.latest
			conn := client.New(e)
			defer conn.Close()
			res, err := conn.Do(ctx, one.Request(0, e).Bytes, false)
			if err != nil {
				one.Failed(err)
			} else {
				one.Answer(res)
			}
			s.judge(src.edge, checker)
			for _, p := range promises {
				want := int64(0)
				if p == c.want {
					want = 1
				}
				if got := s.report.breaches[p]; got != want {
					t.Errorf("%s: %d times, want %d: %q", p, got, want, s.report.examples)
				}
			}
			if s.report.counts[requests] != 1 {
				t.Errorf("%d requests counted", s.report.counts[requests])
			}
		})
	}
}
