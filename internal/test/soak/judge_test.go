package main

import (
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/internal/model"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/teststore"
	"example.com/marketdata/loadtest/check"
	"example.com/marketdata/loadtest/client"
	"example.com/marketdata/loadtest/traffic"
)

// judged is an answer of a fake edge.
type judged struct {
	status   int
	snapshot string
	body     string
	header   http.Header
	latest   string // snapshot of the preceding answer
	calm     bool
	want     string // the promise that the answer breaks, or ""
}

func (c judged) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("ETag", fmt.Sprintf("%q", hex.EncodeToString([]byte(c.snapshot+c.body))))
	h.Set("X-Request-Id", "01234567890123456789")
	maps.Copy(h, c.header)
	if c.snapshot != "" {
		h.Set("X-Snapshot-Time", c.snapshot)
	}
	w.WriteHeader(c.status)
	_, _ = w.Write([]byte(c.body)) // may be shorter than Content-Length
}

// TestJudge checks that the soak counts each promise that the answers of a fake edge break, and no other.
func TestJudge(t *testing.T) {
	store := memstore.New()
	const target, older, newer = "/openapi/v1/quotes", "2026-03-01T00:10:00Z", "2026-03-01T00:20:00Z"
	q, _ := model.Parse(target)
	bodies := map[string]string{}
	for _, name := range []string{older, newer} {
		at := must.Get(time.Parse(model.TimeFormat, name))(t)
		s := teststore.Publish(t, store, teststore.NewFeed(60, uint64(at.Unix())), at).Oracle(t, store)
		bodies[name] = s.Answer(q, nil).Body
	}
	if bodies[older] == bodies[newer] {
		t.Fatal("both snapshots answer the same")
	}
	wrong := []byte(bodies[newer])
	wrong[len(wrong)/2] ^= 1
	const unavailable = `{"code":50300,"message":"m","message_key":"SERVICE_UNAVAILABLE","result":{}}`
	v := &vault{Store: store, right: map[artifacts.Key][]byte{}}
	for name, c := range map[string]judged{
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
		"cut off": {
			200, newer, bodies[newer], http.Header{"Content-Length": {"1000000"}}, "", false, cutAnswers},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(c)
			defer server.Close()
			s := &soak{vault: v, report: newReport()}
			if c.calm {
				s.quiet.Store(1)
			}
			e := must.Get(client.ParseEndpoint(server.URL, false))(t)
			checker := check.New(check.Config{Share: 1, Store: v})
			targets := traffic.NewTargets([]traffic.Target{{Method: "GET", Path: target}}, nil, checker)
			src := &source{targets, s, &node{}, t.Context()}
			one := src.Session().(*session)
			one.latest = c.latest
			conn := client.New(e)
			defer conn.Close()
			if res, err := conn.Do(t.Context(), one.Request(0, e).Bytes, false); err != nil {
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

// TestJudgeTime judges answers from snapshots 1 and 2, which are current, and from snapshot 3, which is
// not due yet. A rollback has withdrawn the snapshots in withdrawn before the first answer.
func TestJudgeTime(t *testing.T) {
	names := []string{"", "2026-03-01T00:10:00Z", "2026-03-01T00:20:00Z", "2026-03-01T00:30:00Z"}
	due := time.Now().Add(time.Hour)
	type ask struct {
		pin      bool
		snapshot int
		at       time.Duration // when the request began, relative to due
	}
	for name, c := range map[string]struct {
		asks      []ask
		withdrawn []int
		want      string // the promise that the last answer breaks, or ""
	}{
		"early":                 {[]ask{{false, 1, -2}, {false, 3, -1}}, nil, offTime},
		"early, the first":      {[]ask{{false, 3, -2}, {false, 3, -1}}, nil, ""},
		"early, pinned":         {[]ask{{false, 1, -2}, {true, 3, -1}}, nil, ""},
		"late":                  {[]ask{{false, 1, -1}, {true, 3, -1}, {false, 2, lateness + 1}}, nil, offTime},
		"late, not loaded":      {[]ask{{false, 1, -1}, {true, 2, -1}, {false, 2, lateness + 1}}, nil, ""},
		"late, a little":        {[]ask{{false, 1, -1}, {true, 3, -1}, {false, 2, lateness}}, nil, ""},
		"late, withdrawn":       {[]ask{{false, 1, -1}, {true, 3, -1}, {false, 2, lateness + 1}}, []int{3}, ""},
		"back":                  {[]ask{{false, 2, -1}, {false, 1, -1}}, nil, wrongAnswers},
		"back, pinned":          {[]ask{{false, 2, -1}, {true, 1, -1}}, nil, ""},
		"back by a rollback":    {[]ask{{false, 2, -1}, {false, 1, -1}}, []int{2}, ""},
		"withdrawn again":       {[]ask{{false, 2, -1}, {false, 1, -1}, {false, 2, -1}}, []int{2}, wrongAnswers},
		"withdrawn and pinned":  {[]ask{{false, 2, -1}, {false, 1, -1}, {true, 2, -1}}, []int{2}, wrongAnswers},
		"withdrawn, not shown":  {[]ask{{false, 2, -1}, {true, 2, -1}}, []int{2}, ""},
		"back behind withdrawn": {[]ask{{false, 2, -1}, {false, 1, -1}, {false, 1, -1}}, []int{2}, ""},
	} {
		s := &soak{report: newReport(), due: map[string]time.Time{names[3]: due}, withdrawn: map[string]int{}}
		for _, i := range c.withdrawn {
			s.withdrawn[names[i]] = 1
		}
		one := &session{source: &source{soak: s, edge: &node{}}, life: 2}
		promise := ""
		for _, a := range c.asks {
			if promise != "" {
				t.Errorf("%s: %s broken early", name, promise)
			}
			one.pin = ""
			if a.pin {
				one.pin = names[a.snapshot]
			}
			one.began = due.Add(a.at)
			promise, _ = one.judgeTime(names[a.snapshot])
		}
		if promise != c.want {
			t.Errorf("%s: %q, want %q", name, promise, c.want)
		}
		// An edge whose newest snapshot is 1 may refuse some pins on 1, 2 and 3.
		one = &session{source: &source{soak: s, edge: &node{}}, life: 2}
		_, _ = one.judgeTime(names[1])
		for _, i := range c.withdrawn {
			_, _ = one.judgeTime(names[i])
		}
		for i := 1; i < len(names); i++ {
			one.pin = names[i]
			for status, may := range map[int]bool{http.StatusGone: slices.Contains(c.withdrawn, i),
				http.StatusServiceUnavailable: i > 1, http.StatusBadRequest: i > 2} {
				if got := one.refused(status); got != may {
					t.Errorf("%s: %d to a pin on snapshot %d: %v, want %v", name, status, i, got, may)
				}
			}
		}
	}
}

// TestPinOf checks that pinOf finds a pin in the header and in the path.
func TestPinOf(t *testing.T) {
	for request, want := range map[string]string{
		"GET /openapi/v1/assets HTTP/1.1\r\nHost: h\r\n\r\n":                                          "",
		"GET /openapi/v1/assets HTTP/1.1\r\nHost: h\r\nX-Snapshot-Time: 2026-03-01T00:10:00Z\r\n\r\n": "2026-03-01T00:10:00Z",
		"GET /at/20260301T001000Z/openapi/v1/assets HTTP/1.1\r\nHost: h\r\n\r\n":                      "2026-03-01T00:10:00Z",
	} {
		if got, byPath := pinOf(request); got != want || byPath != strings.Contains(request, "/at/") {
			t.Errorf("%q: %q, %v", request, got, byPath)
		}
	}
}
