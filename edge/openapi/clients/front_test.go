package clients

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/network"
	"example.com/marketdata/internal/test/openapitest"
	"example.com/marketdata/internal/test/teststore"
)

// first is the newest snapshot of openapitest.Market.
var first = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// testCase is a case in cases.json. The runners read the fields down to Take.
type testCase struct {
	Name    string          `json:"name"`
	Base    *string         `json:"base"` // set by the test if it is missing, like Key
	Key     string          `json:"key"`
	Call    string          `json:"call"`
	Mode    string          `json:"mode,omitempty"`  // refresh, pages or rows; otherwise a single answer
	Words   string          `json:"words,omitempty"` // for search
	Query   json.RawMessage `json:"query,omitempty"`
	Retries *int            `json:"retries,omitempty"`
	Take    int             `json:"take,omitempty"` // for events

	// Edge selects the edge. "" has openapitest.Market, and "empty" has no snapshot. "swap" publishes a
	// second snapshot after the first answer, and "gone" publishes so many that the first one is no longer
	// retained. "limited" rejects the first request because of the rate limit, but not the later ones.
	Edge string `json:"edge,omitempty"`
	// Network is the name of a fault in internal/test/network.
	Network string `json:"network,omitempty"`
	// Script lists what happens to the requests, in order, instead of the edge's answer: "429 7" (a status
	// and Retry-After), "html 502", "redirect", "cut" (half of the answer), or "stream T …" (events,
	// "long", "reset", "open"; see stream). "" means the edge's answer, which all requests after the last
	// element also get.
	Script []string `json:"script,omitempty"`
	// Want contains required fields of a runner's output. null stands for a wait of any length.
	Want map[string]any `json:"want,omitempty"`
}

// front forwards the requests of one case to an edge, and does what the case says.
type front struct {
	*testCase
	t                *testing.T
	edge, key, agent string
	swap             func() // called before the second request

	mu       sync.Mutex
	requests int
	last     string // the id of the last event sent
	body     []byte // the decoded body of the edge's last answer with status 200
}

// fronts contains the edges and fronts for the run of one client.
type fronts struct {
	t                     *testing.T
	server                *httptest.Server
	cases                 map[string]*front // by name
	market, empty         string
	key, emptyKey, narrow string
	agent                 string
}

// newFronts starts the edges for the runner of a language, which its requests must name in User-Agent.
func newFronts(t *testing.T, language string) *fronts {
	store, empty := openapitest.Market(t), memstore.New()
	f := &fronts{
		t: t, cases: map[string]*front{}, agent: "conformance/1 marketdata-" + language + "/" + version,
		key:    teststore.Key(t, store, 1000, 1000).Key,
		narrow: teststore.Key(t, store, 1, 1).Key, emptyKey: teststore.Key(t, empty, 1000, 1000).Key,
	}
	f.market, f.empty = openapitest.Start(t, edge.Config{Reader: store}),
		openapitest.Start(t, edge.Config{Reader: empty})
	openapitest.Await(t, f.market, f.key)
	f.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, path, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		r.URL.Path = "/" + path
		s := f.cases[name]
		if s == nil {
			t.Errorf("somebody asked for %s: a redirect was followed", r.URL)
			return
		}
		s.serve(w, r)
	}))
	t.Cleanup(f.server.Close)
	return f
}

// add starts the servers that a case needs.
func (f *fronts) add(c testCase) {
	s := &front{testCase: &c, t: f.t, edge: f.market, key: f.key, agent: f.agent}
	switch c.Edge {
	case "":
	case "empty":
		s.edge, s.key = f.empty, f.emptyKey
	case "limited":
		s.key = f.narrow
	default:
		store := memstore.New()
		publish(f.t, store, []int{1, 2, 5, 7, 9, 12, 14}, first)
		s.key, s.edge = teststore.Key(f.t, store, 1000, 1000).Key, openapitest.Start(f.t, edge.Config{Reader: store})
		openapitest.Await(f.t, s.edge, s.key)
		s.swap = func() {
			times := []time.Time{first.Add(10 * time.Minute)}
			if c.Edge == "gone" {
				times = []time.Time{first.Add(2 * time.Hour), first.Add(3 * time.Hour)}
			}
			publish(f.t, store, []int{5, 6}, times...)
			for want := times[len(times)-1].Format(time.RFC3339); ask(f.t, s.edge, "/openapi/v1/assets", s.key).
				Header.Get("X-Snapshot-Time") != want; {
				if f.t.Context().Err() != nil {
					return
				}
				time.Sleep(5 * time.Millisecond)
			}
		}
	}
	addr := f.server.Listener.Addr().String()
	if c.Network != "" {
		proxy, err := network.Start(addr)
		must.OK(f.t, err)
		f.t.Cleanup(func() { _ = proxy.Close() })
		for _, fault := range network.Faults {
			if fault.Name == c.Network {
				err = proxy.Set(fault)
			}
		}
		must.OK(f.t, err)
		addr = proxy.Addr()
	}
	name := strconv.Itoa(len(f.cases))
	if c.Base == nil {
		base := "http://" + addr + "/" + name
		c.Base = &base
	}
	if c.Key == "" {
		c.Key = s.key
	}
	f.cases[name] = s
}

// publish builds snapshots of assets with these ids.
func publish(t *testing.T, store artifacts.Store, ids []int, times ...time.Time) {
	rows := map[string][]map[string]any{"quotes": nil, "exchanges": nil, "categories": nil, "chains": nil}
	for _, id := range ids {
		name := fmt.Sprint("asset-", id)
		rows["assets"] = append(
			rows["assets"], map[string]any{"key": name, "id": id, "name": name, "symbol": "A", "slug": name})
	}
	teststore.PublishAll(t, store, func(time.Time) map[string][]map[string]any { return rows }, times...)
}

func ask(t *testing.T, base, target, key string) *http.Response {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodHead, base+target, nil)
	must.OK(t, err)
	req.Header.Set("X-Api-Key", key)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Error(err)
		return new(http.Response)
	}
	_ = res.Body.Close()
	return res
}

func (s *front) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	step := ""
	if s.requests < len(s.Script) {
		step = s.Script[s.requests]
	}
	s.requests++
	if got := r.UserAgent(); got != s.agent {
		s.t.Errorf("%s: User-Agent %q, want %q", s.Name, got, s.agent)
	}
	if s.requests == 2 && s.swap != nil {
		s.swap()
	}
	word, rest, _ := strings.Cut(step, " ")
	switch word {
	case "redirect":
		http.Redirect(w, r, "http://"+r.Host, http.StatusFound)
	case "html":
		status, _ := strconv.Atoi(rest)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "<html>a proxy's page</html>")
	case "stream":
		s.stream(w, r, strings.Fields(rest))
	case "", "cut":
		s.forward(w, r, word == "cut")
	default:
		status, _ := strconv.Atoi(word)
		if rest != "" {
			w.Header().Set("Retry-After", rest)
		}
		w.WriteHeader(status)
		key := map[int]string{
			408: "REQUEST_TIMEOUT", 429: "TOO_MANY_REQUESTS", 500: "INTERNAL_ERROR", 503: "SERVICE_UNAVAILABLE"}[status]
		_, _ = fmt.Fprintf(
			w, `{"code":%d,"message":"as the script says","message_key":%q,"result":{}}`, status*100, key)
	}
}

// stream sends an event stream and ends it. If the last time is "open", it waits until the client has left;
// if it is "reset", it resets the connection. "long" sends a line of 250,000 bytes.
func (s *front) stream(w http.ResponseWriter, r *http.Request, times []string) {
	if got := r.Header.Get("Last-Event-ID"); got != s.last {
		s.t.Errorf("%s: Last-Event-ID %q, want %q", s.Name, got, s.last)
	}
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, "retry: 2000\n\n: a comment\n\n")
	for _, at := range times {
		switch at {
		case "open", "reset":
			_ = http.NewResponseController(w).Flush()
			if at == "reset" {
				panic(http.ErrAbortHandler)
			}
			<-r.Context().Done()
			return
		case "long":
			_, _ = io.WriteString(w, ": "+strings.Repeat("long ", 50_000))
			continue
		}
		_, _ = fmt.Fprintf(w, "event: snapshot\nid: %s\ndata: {\"snapshot_time\":%q}\n\n", at, at)
		s.last = at
	}
}

// plain sends requests unchanged, and does not decompress answers.
var plain = &http.Client{Transport: &http.Transport{DisableCompression: true}}

// forward forwards a request to the edge, and returns its answer, or half of it if cut is set.
func (s *front) forward(w http.ResponseWriter, r *http.Request, cut bool) {
	var res *http.Response
	for {
		req, err := http.NewRequestWithContext(r.Context(), r.Method, s.edge+r.URL.RequestURI(), nil)
		if err != nil {
			s.t.Error(err)
			return
		}
		req.Header = r.Header.Clone()
		if res, err = plain.Do(req); err != nil {
			if r.Context().Err() == nil {
				s.t.Error(err)
			}
			return
		}
		if s.Edge != "limited" || (res.StatusCode == http.StatusTooManyRequests) == (s.requests == 1) {
			break
		}
		_ = res.Body.Close()
	}
	defer res.Body.Close()
	for name, values := range res.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(res.StatusCode)
	var body bytes.Buffer
	from := io.Reader(res.Body)
	if cut {
		from = io.LimitReader(from, res.ContentLength/2)
	} else if res.StatusCode == http.StatusOK {
		from = io.TeeReader(from, &body)
	}
	_, _ = io.Copy(flusher{w}, from)
	if cut {
		panic(http.ErrAbortHandler)
	}
	if body.Len() > 0 && res.Header.Get("Content-Type") == "application/json" {
		s.body = body.Bytes()
		if res.Header.Get("Content-Encoding") != "" {
			z, err := gzip.NewReader(&body)
			if err == nil {
				s.body, err = io.ReadAll(z)
			}
			if err != nil {
				s.t.Errorf("%s: %v", s.Name, err)
			}
		}
	}
}

// flusher flushes each write immediately, as streams require.
type flusher struct{ http.ResponseWriter }

func (f flusher) Write(b []byte) (int, error) {
	n, err := f.ResponseWriter.Write(b)
	_ = http.NewResponseController(f.ResponseWriter).Flush()
	return n, err
}
