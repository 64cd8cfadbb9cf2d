package loadtest

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/loadtest/check"
	"example.com/marketdata/loadtest/engine"
	"example.com/marketdata/loadtest/pace"
	"example.com/marketdata/loadtest/result"
	"github.com/HdrHistogram/hdrhistogram-go"
)

// service simulates a service and a load tester on a simulated clock. The figures of a step are computed from
// the queue of requests.
type service struct {
	slots   int           // how many requests it handles at a time
	takes   time.Duration // how long it takes to handle a request
	errors  float64       // share of requests that it answers with a 503
	limit   float64       // rate limit in requests a second; 0 means none
	stalls  float64       // probability that the service stops for 40 ms ten times a second during a step
	sending time.Duration // how long the load tester takes to send a request
	late    time.Duration // how long the load tester stops, ten times a second

	rand    *rand.Rand
	elapsed time.Duration
}

// run simulates a step of three seconds and judges it.
func (s *service) run(t *testing.T, rate float64, connections, most int, thresholds []*result.Assertion) Try {
	t.Helper()
	const warmup, length = 600 * time.Millisecond, 3600 * time.Millisecond
	e := &engine.Result{
		Length: length - warmup, Wall: length, CPUs: 1, Lag: engine.NewHistogram(), Connect: engine.NewHistogram()}
	class := engine.ClassResult{Name: "all", Failures: map[engine.Failure]uint64{}, Statuses: map[int]uint64{},
		Due: engine.NewHistogram(), Service: engine.NewHistogram()}
	setup := result.Setup{Mode: "open", Connections: most}
	schedule := pace.New(pace.Constant(rate, length), pace.Poisson, 1)
	if connections > 0 {
		setup.Mode, setup.Connections = "closed", connections
	}
	var generator time.Duration // when the load tester can send the next request
	slots, conns := make([]time.Duration, s.slots), make([]time.Duration, setup.Connections)
	stalled := s.rand.Float64() < s.stalls
	first := func(times []time.Duration) *time.Duration { return &times[slices.Index(times, slices.Min(times))] }
	var sends, last time.Duration
	bucket := bucket{tokens: 50}
	for {
		conn := first(conns)
		due := *conn
		if connections == 0 {
			var ok bool
			if due, ok = schedule.Next(); !ok {
				break
			}
		} else if due > length {
			break
		}
		sent := held(max(due, *conn, generator), s.late)
		generator = sent + s.sending
		sends++
		if connections > 0 {
			due = sent
		}
		done, status := s.answer(sent, first(slots), &bucket, stalled)
		if due < warmup {
			*conn = done
			continue
		}
		if *conn > due {
			e.Waited++
		}
		*conn = done
		last = max(last, done)
		e.Asked++
		class.Sent++
		class.Statuses[status]++
		if status != 200 {
			class.Failures[engine.FailStatus]++
		}
		if sent <= length {
			e.InTime++
		}
		for h, d := range map[*hdrhistogram.Histogram]time.Duration{
			e.Lag: sent - due, class.Due: done - due, class.Service: done - sent} {
			if status == 200 || h == e.Lag {
				must.OK(t, h.RecordValue(int64(d)))
			}
		}
	}
	e.CPU = min(length, sends*s.sending)
	e.Classes = []engine.ClassResult{class}
	s.elapsed += max(length, last)
	r := must.Get(result.New(setup, result.Tool{}, e, &check.Report{}))(t)
	must.OK(t, r.Judge(thresholds))
	return judge(rate, connections, r, thresholds)
}

// bucket is the token bucket of a key's rate limit.
type bucket struct {
	tokens   float64
	refilled time.Duration
}

// answer returns when and with what status a request sent at sent is answered.
func (s *service) answer(
	sent time.Duration, slot *time.Duration, b *bucket, stalled bool,
) (done time.Duration, status int) {
	status = 200
	if s.limit > 0 {
		if b.tokens = min(50, b.tokens+s.limit*(sent-b.refilled).Seconds()); b.tokens < 1 {
			status = 429
		} else {
			b.tokens--
		}
		b.refilled = sent
	}
	if s.rand.Float64() < s.errors {
		status = 503
	}
	if status != 200 {
		return sent + time.Millisecond, status
	}
	start := max(sent, *slot)
	if stalled {
		start = held(start, 40*time.Millisecond)
	}
	*slot = start + s.takes
	return *slot, status
}

// held returns at or, if at is in the first part (of length by) of a tenth of a second, the end of that part.
func held(at, by time.Duration) time.Duration {
	if tenth := at % (100 * time.Millisecond); tenth < by {
		return at - tenth + by
	}
	return at
}

func parse(t *testing.T, texts ...string) []*result.Assertion {
	t.Helper()
	var all []*result.Assertion
	for _, text := range texts {
		a := must.Get(result.ParseAssertion(text))(t)
		all = append(all, a)
	}
	return all
}

// The capacity found holds, a rate a tenth higher does not, and the search takes at most three minutes. A
// search without a result ends within one minute and states the reason.
func TestSearch(t *testing.T) {
	for name, tc := range map[string]struct {
		service  service
		slo      string
		most     int
		capacity [2]float64 // the range in which the found capacity must be
		why      string     // why no capacity is found
	}{
		"fixed time": {
			service{slots: 4, takes: 2 * time.Millisecond}, "p99<50ms", 1000, [2]float64{1800, 2010}, ""},
		"strict threshold": {service{slots: 1, takes: time.Millisecond}, "p99<3ms", 1000, [2]float64{300, 800}, ""},
		"more connections": {
			service{slots: 200, takes: 100 * time.Millisecond}, "p99<200ms", 1000, [2]float64{1750, 2050}, ""},
		"few connections": {
			service{slots: 500, takes: 100 * time.Millisecond}, "p99<200ms", 20, [2]float64{150, 201}, ""},
		"stalls now and then": {
			service{slots: 4, takes: 2 * time.Millisecond, stalls: 0.2}, "p99<50ms", 1000, [2]float64{1500, 2010}, ""},
		"a little late": {service{slots: 4, takes: 2 * time.Millisecond, late: 3 * time.Millisecond}, "p99<50ms",
			1000, [2]float64{1700, 2010}, ""},
		"too fast for us": {service{slots: 100, takes: time.Millisecond, sending: time.Millisecond}, "p99<50ms",
			1000, [2]float64{}, "of the 1 processors"},
		"we are late": {service{slots: 4, takes: 2 * time.Millisecond, late: 20 * time.Millisecond}, "p99<10ms",
			1000, [2]float64{}, "the generator itself was late"},
		"late from sent": {service{slots: 4, takes: 2 * time.Millisecond, late: 20 * time.Millisecond},
			"service.p99<50ms", 1000, [2]float64{}, "the generator itself was late"},
		"more than sent": {
			service{slots: 500, takes: 100 * time.Millisecond}, "p50<5s", 20, [2]float64{150, 199}, ""},
		"late at high rates": {service{slots: 4, takes: 2 * time.Millisecond, late: 20 * time.Millisecond}, "p99<22ms",
			1000, [2]float64{}, "that the service may do, the load tester itself was the limit: p99<22ms was"},
		"errors": {service{slots: 4, takes: 2 * time.Millisecond, errors: 0.01}, "p99<50ms", 1000,
			[2]float64{}, "errors<0.1% was"},
		"errors, late": {service{slots: 4, takes: 2 * time.Millisecond, errors: 0.01,
			late: 20 * time.Millisecond}, "p99<50ms", 1000, [2]float64{}, "errors<0.1% was"},
		"nothing but errors": {service{slots: 4, takes: 2 * time.Millisecond, errors: 1}, "p99<50ms", 1000,
			[2]float64{}, "no request was answered as it should be (status: "},
		"limited key": {service{slots: 4, takes: 2 * time.Millisecond, limit: 100}, "p99<50ms", 1000,
			[2]float64{}, "429: the key or the address is limited"},
		"never": {
			service{slots: 4, takes: 10 * time.Millisecond}, "p99<5ms", 1000, [2]float64{}, "p99<5ms was 10"},
		"too slow to judge": {
			service{slots: 1, takes: 100 * time.Millisecond}, "p99<5s", 1000, [2]float64{}, "try --step 19s"},
	} {
		t.Run(name, func(t *testing.T) {
			svc, thresholds := tc.service, parse(t, tc.slo, "errors<0.1%")
			svc.rand = rand.New(rand.NewPCG(1, 2))
			c := &Capacity{Nodes: 1}
			s := searcher{
				Capacity: c, step: 3 * time.Second, most: tc.most, elapsed: func() time.Duration { return svc.elapsed }}
			s.run = func(rate float64, connections int) (Try, error) {
				return svc.run(t, rate, connections, tc.most, thresholds), nil
			}
			must.OK(t, s.search())
			for i, try := range c.Tries {
				t.Logf("%.1f/s %d %s %s", try.Rate, try.Connections, try.Verdict, try.Why)
				at := func(i int) bool { return i < len(c.Tries) && c.Tries[i].Rate == try.Rate }
				if try.Connections == 0 && try.Verdict != Held && !at(i+1) && !at(i-1) {
					t.Error("not made again")
				}
			}
			t.Logf("%v after %v", c, svc.elapsed)
			if tc.why != "" {
				last := c.Tries[len(c.Tries)-1]
				failed := last.Verdict == Failed && strings.HasPrefix(last.Why, "errors")
				if strings.HasPrefix(name, "errors") != failed {
					t.Errorf("the last step %s: %s", last.Verdict, last.Why)
				}
				if c.Found || c.Exit() != ExitInvalid || !strings.Contains(c.Why, tc.why) ||
					c.NodesFor(1000, 0.3) != 0 || svc.elapsed > time.Minute {
					t.Errorf("%+v after %v", c, svc.elapsed)
				}
				return
			}
			if !c.Found || c.Exit() != ExitOK || c.Rate < tc.capacity[0] || c.Rate > tc.capacity[1] ||
				c.Rate > c.Closed || svc.elapsed > 3*time.Minute {
				t.Errorf("%+v after %v", c, svc.elapsed)
			}
			svc.stalls = 0
			if above := svc.run(t, 1.12*c.Rate, 0, tc.most, thresholds); above.Verdict == Held &&
				c.Rate < 0.9*c.Closed {
				t.Errorf("%v/s holds too", above.Rate)
			}
		})
	}
}

func TestNodesFor(t *testing.T) {
	if n := (&Capacity{Rate: 10, Nodes: 1}).NodesFor(100, 0.3); n != 0 {
		t.Errorf("%d nodes of a search without result", n)
	}
	for _, tc := range []struct {
		rate              float64
		nodes             int
		traffic, headroom float64
		want              int
	}{{10000, 1, 50000, 0, 6}, {20000, 2, 50000, 0.5, 11}, {10000, 1, 1, 0.3, 2}, {0, 1, 1, 0.3, 0},
		{10000, 1, 7000, 0.3, 2}} {
		c := &Capacity{Found: tc.rate > 0, Rate: tc.rate, Nodes: tc.nodes}
		if got := c.NodesFor(tc.traffic, tc.headroom); got != tc.want {
			t.Errorf("%+v: %d", tc, got)
		}
	}
}

// A rate that held may fail when it is repeated. Then the search tries slightly lower rates, but only a few.
func TestSearchNoise(t *testing.T) {
	for then, want := range map[float64]float64{1000: 1000, 970: 950, 920: 902.5, 800: 0, 0: 0} {
		s := searcher{
			Capacity: &Capacity{Nodes: 1}, step: 3 * time.Second, most: 64, elapsed: func() time.Duration { return 0 }}
		s.run = func(rate float64, connections int) (Try, error) {
			try := Try{Rate: rate, Connections: connections, Verdict: Held, Run: &result.Run{}}
			if connections > 0 {
				try.Rate = 1000
			} else if len(s.Tries) > 2 && rate > then { // after a closed run, a light run, and a run at the closed rate
				try.Verdict, try.Why = Failed, "p99<5ms was 6 ms"
			}
			return try, nil
		}
		if err := s.search(); err != nil || s.Found != (want > 0) || s.Found && s.Rate != want ||
			!s.Found && !strings.Contains(s.Why, "too noisy") || len(s.Tries) > 9 {
			t.Errorf("%v: %v, %v", then, err, s.Capacity)
		}
	}
}

// The search ends in time, even if the next step takes as long as the longest step so far.
func TestSearchTime(t *testing.T) {
	var now time.Duration
	s := searcher{
		Capacity: &Capacity{Nodes: 1}, step: 3 * time.Second, most: 64, elapsed: func() time.Duration { return now }}
	s.run = func(rate float64, connections int) (Try, error) {
		now += 50 * time.Second
		return Try{Rate: max(rate, 1000*float64(connections)), Connections: connections, Verdict: Held,
			Run: &result.Run{}}, nil
	}
	if err := s.search(); err != nil || s.Found || !strings.Contains(s.Why, "3m0s were not enough") ||
		now > 3*time.Minute {
		t.Errorf("%v, %v after %v", err, s.Capacity, now)
	}
}

// On a machine that disturbs the search, a rate above the light rate must hold within one minute. On other
// machines, the search may take three minutes.
func TestSearchBusy(t *testing.T) {
	for _, disturbed := range []bool{true, false} {
		var now time.Duration
		s := searcher{Capacity: &Capacity{Nodes: 1}, step: 3 * time.Second, most: 64,
			elapsed: func() time.Duration { return now }}
		s.run = func(rate float64, connections int) (Try, error) {
			now += 6 * time.Second
			try := Try{Rate: max(rate, 16*float64(connections)), Connections: connections, Verdict: Held,
				Run: &result.Run{}}
			if connections == 0 && (rate > 150 || disturbed && len(s.Tries) == 1) {
				try.Verdict, try.Why = Failed, "p99<5ms was 6 ms"
			}
			return try, nil
		}
		if err := s.search(); err != nil || s.Found == disturbed || disturbed != (now <= time.Minute) ||
			disturbed != strings.Contains(
				s.Why, "too busy: in 1m0s nothing above 102 requests/s held; at 442 p99<5ms was 6 ms") {
			t.Errorf("disturbed %v: %v, %v after %v", disturbed, err, s.Capacity, now)
		}
	}
}

// TestCapacity searches the capacity of a real service, which handles four requests at a time for 10 ms each.
// If the machine is too busy to find it, the search must say so.
func TestCapacity(t *testing.T) {
	slots := make(chan struct{}, 4)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		slots <- struct{}{}
		time.Sleep(10 * time.Millisecond)
		<-slots
	}))
	defer srv.Close()
	lt := must.Get(New(context.Background(), Options{URLs: []string{srv.URL}, Targets: []string{"GET /"}}))(t)
	told := 0
	s := Search{
		Thresholds: parse(t, "p90<200ms"), Step: time.Second, Tried: func(Try) { told++ },
		Load: Load{Arrivals: pace.Poisson, Connections: 40, Timeout: 5 * time.Second},
	}
	c := must.Get(lt.Capacity(context.Background(), s))(t)
	if setup := c.Tries[0].Run.Setup; setup.WarmupS != 0.2 || setup.TimeoutS != 1 {
		t.Errorf("setup %+v", setup)
	}
	if told != len(c.Tries) || c.Closed > 420 || c.Rate > c.Closed || c.Found && c.Rate < 0.5*c.Closed ||
		c.Found == (c.Why != "") {
		t.Errorf("%+v", c)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := lt.Capacity(ctx, s); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	s.Step = 0
	if _, err := lt.Capacity(context.Background(), s); !errors.Is(err, ErrUsage) {
		t.Errorf("step of 0: %v", err)
	}
}
