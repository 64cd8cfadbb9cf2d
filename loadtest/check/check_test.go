package check_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/internal/model"
	"example.com/marketdata/internal/test/faultedge"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/teststore"
	"example.com/marketdata/loadtest/check"
	"example.com/marketdata/loadtest/client"
	"example.com/marketdata/loadtest/engine"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var t0 = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// bench connects an edge with a checker.
type bench struct {
	srv     *faultedge.Edge
	c       *check.Checker
	session *check.Session
	wrong   int // number of answers that the checker found wrong immediately
}

func newBench(srv *faultedge.Edge, cfg check.Config) *bench {
	c := check.New(cfg)
	return &bench{srv: srv, c: c, session: c.Session()}
}

// start runs an edge with one snapshot of n assets for each seed. The last snapshot is current.
func start(t *testing.T, n int, seeds ...uint64) *faultedge.Edge {
	t.Helper()
	s := memstore.New()
	teststore.PublishAwkward(t, s, n, t0, seeds...)
	return faultedge.Start(t, s)
}

// ask sends one request and returns the entity tag of its answer and the checker's verdict.
func (b *bench) ask(method, target string, expect check.Expect, headers ...string) (tag string, v engine.Verdict) {
	req := httptest.NewRequest(method, target, nil)
	req.Header.Set("X-Api-Key", b.srv.Key)
	a := &check.Ask{Target: []byte(target), Head: method == "HEAD", Expect: expect}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
		value := []byte(headers[i+1])
		switch headers[i] {
		case "If-None-Match":
			a.Tag = value
		case "X-Snapshot-Time":
			a.Pin = value
		case "Accept-Encoding":
			a.Accept = value
		case "X-Request-Id":
			a.ID = value
		}
	}
	rec := httptest.NewRecorder()
	b.srv.ServeHTTP(rec, req)
	resp := &client.Response{Status: rec.Code, Body: rec.Body.Bytes()}
	for name, values := range rec.Header() {
		for _, value := range values {
			resp.Fields = append(resp.Fields, client.Field{Name: []byte(name), Value: []byte(value)})
		}
	}
	v = b.session.Answer(a, resp)
	if v == engine.Wrong {
		b.wrong++
	}
	return rec.Header().Get("ETag"), v
}

func (b *bench) finish() *check.Report { return b.c.Finish(context.Background(), nil) }

// traffic sends n random requests of many kinds.
func (b *bench) traffic(t *testing.T, n int) {
	w := teststore.Read(t, b.srv.Store).Oracle(t, b.srv.Store)
	r := rand.New(rand.NewPCG(3, 4))
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	for range n {
		list := pick("assets", "quotes", "exchanges", "categories", "chains", "trending", "global")
		sorts := map[string][]string{
			"assets": {"id", "name", "rank", "symbol"}, "quotes": {"id", "slug", "symbol"}, "exchanges": {"id",
				"volume", "name"}, "categories": {"market_cap", "volume_24h"}, "chains": {"market_cap", "name"}}[list]
		target := model.Prefix + list
		if sorts != nil {
			target += "?sort=" + pick(sorts...) + pick("", ":desc")
			rows := w.Lists[list]
			row := rows[r.IntN(len(rows))]
			switch r.IntN(4) {
			case 0:
				target += fmt.Sprintf("&page=%d&size=10", 1+r.IntN(4))
			case 1:
				target += "&slug=" + url.QueryEscape(row.Slug+","+pick("none", "ſ")) + fmt.Sprintf("&id=%d,999", row.ID)
			case 2:
				target += "&symbol=" + url.QueryEscape(row.Symbol+","+pick("ſ", "k", "S"))
			}
		}
		switch r.IntN(8) {
		case 0:
			tag, _ := b.ask("GET", target, check.Success, "Accept-Encoding", "gzip")
			b.ask("GET", target, check.Success, "Accept-Encoding", "gzip", "If-None-Match", tag)
		case 1:
			b.ask("HEAD", target, check.Success)
		case 2:
			b.ask("GET", target, check.Unauthorized, "X-Api-Key", "bad")
		case 3:
			b.ask("GET", model.Prefix+"quotes?size="+pick("101", "0x1"), check.BadRequest)
			b.ask("GET", model.Prefix+"quotes?size=0", check.Success)
			b.ask("GET", model.Prefix+"nothing", check.NotFound)
			b.ask("GET", model.Prefix+"history", check.BadRequest)
			b.ask("GET", model.Prefix+"search?q=+", check.BadRequest)
		case 4:
			b.ask("GET", target, check.Success, "X-Request-Id", pick("mine", "yours"))
		case 5:
			window := []string{"24h", "7D", "30d", "90d", "1y", ""}[len(target)%6]
			b.ask("GET", fmt.Sprintf("%shistory?window=%s&size=3&page=%d&symbol=btc,k,S,none", model.Prefix, window,
				1+len(target)%3), check.Success)
			fallthrough
		case 6:
			b.ask("GET", model.Prefix+"search?q="+
				pick("s", "coin-", "b", "bi", "same", "SAME+co", "ether+%26+co", "eth", "none", "k+kel"), check.Success)
			fallthrough
		default:
			b.ask("GET", target, check.Success)
		}
	}
}

// found maps each fault to the kind of finding that it causes, without and with the oracle. "" means that
// it is not found.
var found = map[string][2]check.Kind{
	"zero-is-refused":      {check.Status, check.Status},
	"size-is-clamped":      {check.Status, check.Status},
	"long-s-is-no-s":       {"", check.Oracle},
	"filter-is-ignored":    {check.Filter, check.Oracle},
	"takes-any-key":        {check.Status, check.Status},
	"no-request-id":        {check.Headers, check.Headers},
	"other-request-id":     {check.Headers, check.Headers},
	"same-request-id":      {check.Headers, check.Headers},
	"no-not-found":         {"", check.Oracle},
	"no-ignored":           {check.Headers, check.Headers},
	"unasked-coding":       {check.Headers, check.Headers},
	"stale-tag":            {check.Tag, check.Tag},
	"tag-without-coding":   {check.Tag, check.Tag},
	"other-modified":       {"", check.Headers},
	"other-length-of-head": {"", check.Oracle},
	"errors-are-cached":    {check.Headers, check.Headers},
	"always-not-modified":  {"", ""},                       // see TestWrongNotModified for a new snapshot
	"stale-snapshot":       {check.Envelope, check.Oracle}, // /global contains the snapshot's time
	"two-swapped":          {check.Order, check.Oracle},
	"ties-are-reversed":    {check.Order, check.Oracle},
	"unranked-first":       {check.Order, check.Oracle},
	"case-matters":         {check.Order, check.Oracle},
	"row-is-missing":       {check.Paging, check.Oracle},
	"row-is-repeated":      {check.Repeat, check.Oracle},
	"wrong-total":          {check.Envelope, check.Oracle},
	"wrong-total-page":     {check.Envelope, check.Oracle},
	"wrong-price":          {"", check.Oracle},
	"escapes-html":         {check.Envelope, check.Oracle},
	"trailing-zero":        {check.Envelope, check.Oracle},
	"page-first":           {check.Envelope, check.Oracle},
	"point-twice":          {check.Envelope, check.Oracle},
	"point-missing":        {"", check.Oracle},
	"cut":                  {check.Envelope, check.Oracle},
	"other-error":          {check.Envelope, check.Envelope},
}

func TestFaultsAreFound(t *testing.T) {
	srv := start(t, 60, 1, 2)
	for i, tc := range []struct {
		name string
		cfg  check.Config
	}{
		{"alone", check.Config{Share: 1}},
		{"oracle", check.Config{Share: 1, Store: srv.Store}},
		{"no memory", check.Config{Share: 1, Store: srv.Store, MaxPending: 1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			srv.Break("")
			b := newBench(srv, tc.cfg)
			b.traffic(t, 700)
			rep := b.finish()
			if len(rep.Findings) > 0 || b.wrong > 0 || rep.Wrong > 0 {
				t.Fatalf("a good edge: %d wrong, %s", b.wrong, describe(rep))
			}
			if rep.Checked < 700 || rep.Distinct < 100 || rep.Skipped != 0 ||
				(tc.cfg.Store != nil) != (rep.Compared > 100) || rep.Uncompared != 0 || rep.OracleError != "" {
				t.Errorf("%+v", rep)
			}
			for name := range faultedge.Faults {
				kinds, ok := found[name]
				if !ok {
					t.Errorf("nothing says how %s is found", name)
				}
				if tc.cfg.MaxPending == 1 {
					continue
				}
				srv.Break(name)
				b := newBench(srv, tc.cfg)
				b.traffic(t, 300)
				rep, want := b.finish(), kinds[i]
				of := slices.ContainsFunc(rep.Findings, func(f check.Finding) bool { return f.Kind == want })
				wrong := uint64(b.wrong) + rep.Wrong
				if of != (want != "") || (wrong > 0) != of || (want == "") != (len(rep.Findings) == 0) {
					t.Errorf("%s: %d wrong, want %q: %s", name, wrong, want, describe(rep))
				}
			}
		})
	}
}

func describe(rep *check.Report) string {
	var b strings.Builder
	for _, f := range rep.Findings {
		fmt.Fprintf(&b, "%s %d\n", f.Kind, f.Count)
		for _, e := range f.Examples {
			fmt.Fprintf(&b, "  %s of %s: status %d: %s\n", e.Target, e.Snapshot, e.Status, e.Detail)
		}
	}
	return b.String()
}

// One byte in one of ten thousand answers is wrong while snapshots change. The checker finds it, and nothing
// else.
func TestOneByteInTenThousand(t *testing.T) {
	srv := start(t, 120, 0)
	const n = 10_000
	asked := 0
	srv.Spoil(func(e *faultedge.Edge, r *http.Request) *faultedge.Answer {
		a := e.Ask(r)
		if asked++; asked == 6180 {
			a.Body[len(a.Body)/2] ^= 1
			a.Header.Set("ETag", `"of the wrong body"`)
		}
		return a
	})
	b := newBench(srv, check.Config{Share: 1, Store: srv.Store})
	// Many requests have the same answer, like requests for popular assets.
	targets := make([]string, 500)
	r := rand.New(rand.NewPCG(1, 1))
	for i := range targets {
		targets[i] = fmt.Sprintf(
			"%squotes?id=%d,%d,%d", model.Prefix, 1+3*r.IntN(120), 1+3*r.IntN(120), 1+3*r.IntN(120))
	}
	for i := range n {
		if i%(n/4) == n/8 && i/(n/4) > 0 {
			srv.Publish(120, uint64(i/(n/4)))
		}
		b.ask("GET", targets[r.IntN(len(targets))], check.Success)
	}
	rep := b.finish()
	if len(rep.Findings) != 1 || rep.Findings[0].Kind != check.Oracle || rep.Findings[0].Count != 1 ||
		uint64(b.wrong)+rep.Wrong != 1 {
		t.Fatalf("%d wrong at once, %d later, findings: %s", b.wrong, rep.Wrong, describe(rep))
	}
	if rep.Checked != uint64(n) || rep.Compared != rep.Distinct || len(rep.Swaps) != 4 {
		t.Errorf("%+v", rep)
	}
}

// The checker finds a 304 that confirms a body that the snapshot no longer has.
func TestWrongNotModified(t *testing.T) {
	srv := start(t, 60, 1)
	b := newBench(srv, check.Config{Share: 1, Store: srv.Store, MaxPending: 1})
	tag, _ := b.ask("GET", model.Prefix+"quotes", check.Success)
	if _, v := b.ask("GET", model.Prefix+"quotes", check.Success, "If-None-Match", tag); v != engine.OK {
		t.Error("a right 304 was refused")
	}
	srv.Publish(60, 2)
	srv.Break("always-not-modified")
	if _, v := b.ask("GET", model.Prefix+"quotes", check.Success, "If-None-Match", tag); v != engine.Wrong {
		t.Error("a 304 for another body was taken")
	}
	b.finish()
}

// The answer to a pinned request may be 410 only when two newer snapshots are known.
func TestGone(t *testing.T) {
	srv := start(t, 40, 1)
	pin := t0.Add(-10 * time.Minute).Format(model.TimeFormat)
	b := newBench(srv, check.Config{Share: 1})
	for i, want := range []engine.Verdict{engine.Wrong, engine.OK, engine.OK} {
		if i > 0 {
			srv.Publish(40, 1)
		}
		b.ask("GET", model.Prefix+"quotes", check.Success)
		if _, v := b.ask("GET", model.Prefix+"quotes", check.Success, "X-Snapshot-Time", pin); v != want {
			t.Errorf("410 with %d newer snapshots: %v, want %v", i+1, v, want)
		}
	}
	if want := t0.Add(2 * artifacts.Step).Format(model.TimeFormat); b.c.Latest() != want {
		t.Errorf("latest is %s, want %s", b.c.Latest(), want)
	}
	b.finish()
}

// If the store does not have the snapshot, answers count as not compared, and the report says why.
func TestUncompared(t *testing.T) {
	other := memstore.New()
	teststore.PublishAwkward(t, other, 40, t0, 1)
	b := newBench(start(t, 40, 1, 2), check.Config{Share: 1, Store: other})
	b.ask("GET", model.Prefix+"quotes", check.Success)
	if rep := b.finish(); rep.Uncompared != 1 || rep.Compared != 0 || rep.OracleError == "" || len(rep.Findings) > 0 {
		t.Errorf("%+v", rep)
	}
}

func TestShare(t *testing.T) {
	srv := start(t, 100, 1)
	b := newBench(srv, check.Config{Share: 0.25})
	for i := range 800 {
		b.ask("GET", fmt.Sprintf("%squotes?size=%d&page=%d&id=%d", model.Prefix, 1+i%100, 1+i/100, i), check.Success)
	}
	rep := b.finish()
	if rep.Checked+rep.Skipped != 800 || rep.Checked < 120 || rep.Checked > 280 {
		t.Errorf("%d checked, %d skipped", rep.Checked, rep.Skipped)
	}
	b = newBench(srv, check.Config{})
	srv.Break("no-request-id")
	if _, v := b.ask("GET", model.Prefix+"quotes", check.Success); v != engine.OK {
		t.Error("checked with a share of 0")
	}
	b.finish()
}

// For paths of other services, only the status matters.
func TestOtherService(t *testing.T) {
	c := check.New(check.Config{Share: 1})
	s := c.Session()
	for status, want := range map[int]engine.Verdict{
		200: engine.OK, 302: engine.OK, 404: engine.Unexpected, 500: engine.Unexpected} {
		if v := s.Answer(&check.Ask{Target: []byte("/x")}, &client.Response{Status: status}); v != want {
			t.Errorf("status %d: %v, want %v", status, v, want)
		}
	}
	if rep := c.Finish(context.Background(), nil); rep.Checked != 0 {
		t.Errorf("%+v", rep)
	}
}

// Many connections share one checker.
func TestConcurrent(t *testing.T) {
	srv := start(t, 60, 1)
	c := check.New(check.Config{Share: 1, Store: srv.Store, MaxPending: 100_000})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			b := &bench{srv: srv, c: c, session: c.Session()}
			b.traffic(t, 200)
			if b.wrong > 0 {
				t.Error("a good answer was found wrong")
			}
		})
	}
	all.Wait()
	if rep := c.Finish(context.Background(), func(int) {}); len(rep.Findings) > 0 || rep.Wrong > 0 {
		t.Error(describe(rep))
	}
}

// If its context is done, Finish leaves the remaining answers unexamined, and reports how many there are.
func TestFinishCut(t *testing.T) {
	srv := start(t, 60, 1)
	b := newBench(srv, check.Config{Share: 1, Store: srv.Store})
	b.traffic(t, 300)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	rep := b.c.Finish(ctx, nil)
	if rep.Compared+rep.Uncompared == 0 {
		t.Errorf("%+v", rep)
	}
}
