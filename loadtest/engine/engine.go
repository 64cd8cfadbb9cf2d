// Package engine sends requests and measures. In an open loop, requests are due at fixed times, whatever the
// server does. In a closed loop, each connection sends its next request when it has received the answer to
// the last one (README.md, "What the figures mean").
//
// In an open loop nothing changes the due times. The engine sends a request on a free connection or on a new
// one, up to Config.Connections. Requests wait only if all connections wait for answers. Then each answer
// lets the next request be sent, in order. So no burst follows a stall, and no request is skipped or added.
// The wait is included in the latency from the due time, and in the send lag.
package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"example.com/marketdata/loadtest/client"
	"example.com/marketdata/loadtest/pace"
)

// Source provides requests and judges their answers.
type Source interface {
	// Classes returns the names of the kinds of requests. Results are kept for each kind.
	Classes() []string
	// Session returns the part of the source for one connection. The engine calls it from several goroutines,
	// but uses each Session from one goroutine only.
	Session() Session
}

// Session provides a connection's requests and judges their answers.
type Session interface {
	// Request returns request number i of the run, for endpoint e. It is valid until the next call.
	Request(i uint64, e *client.Endpoint) *Request
	// Answer judges the answer to the last request. The bytes of the answer are valid only during the call.
	Answer(resp *client.Response) Verdict
}

// Observer is implemented by a Session that wants to know why its last request got no answer. The error wraps
// one of the errors of package client.
type Observer interface{ Failed(err error) }

// Request is a request to send.
type Request struct {
	Bytes []byte // the complete request
	Head  bool   // whether its method is HEAD, so that the answer has no body
	Class int    // the index in Source.Classes
}

// Verdict is a session's judgment of an answer.
type Verdict uint8

const (
	// OK means that the session found nothing wrong.
	OK Verdict = iota
	// Unexpected means a correct answer that reports a failure of the service, such as 503 or 429. It counts
	// as an error.
	Unexpected
	// Wrong means that the answer violates the contract of the service.
	Wrong
)

// Config configures a run.
type Config struct {
	// Endpoints receive the requests in turn.
	Endpoints []*client.Endpoint
	Source    Source
	// Stages, Arrivals and Seed define the schedule of the open loop. Without stages, the loop is closed and
	// lasts for Duration.
	Stages   []pace.Stage
	Arrivals pace.Arrivals
	Seed     uint64
	Duration time.Duration
	// Connections is the largest number of connections over all endpoints. In a closed loop it is the exact
	// number.
	Connections int
	// Timeout bounds the time from sending a request to the end of its answer.
	Timeout time.Duration
	// Warmup is the time at the start during which requests are not counted.
	Warmup time.Duration
	// Tick, if not nil, is called at the end of each second.
	Tick func(*Interval)
}

func (c *Config) check() error {
	switch {
	case len(c.Endpoints) == 0:
		return errors.New("no endpoint")
	case c.Connections < len(c.Endpoints):
		return fmt.Errorf(
			"%d connections for %d endpoints: want one for each at least", c.Connections, len(c.Endpoints))
	case c.Timeout <= 0:
		return fmt.Errorf("timeout %v: want more than 0", c.Timeout)
	case c.Warmup < 0 || c.Warmup >= c.length():
		return fmt.Errorf("warm-up %v: want less than the run's %v", c.Warmup, c.length())
	}
	if len(c.Stages) > 0 {
		return pace.Check(c.Stages)
	}
	if c.Duration <= 0 {
		return fmt.Errorf("duration %v: want more than 0", c.Duration)
	}
	return nil
}

func (c *Config) length() time.Duration {
	if len(c.Stages) > 0 {
		return pace.Duration(c.Stages)
	}
	return c.Duration
}

// Run sends the requests, waits for their answers, and returns the result. When ctx is done, it sends no more
// requests, and the result contains what was measured so far. An error means that the configuration is
// invalid, or that no timer could be created.
func Run(ctx context.Context, cfg Config) (*Result, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	r := &run{cfg: cfg, length: cfg.length(), rec: newRecorder(cfg.Source.Classes())}
	for i, e := range cfg.Endpoints {
		n := cfg.Connections / len(cfg.Endpoints)
		if i < cfg.Connections%len(cfg.Endpoints) {
			n++
		}
		r.pools = append(r.pools, &pool{run: r, endpoint: e, limit: n, idleWorkers: make(chan *worker, n)})
	}
	sending, stop := context.WithCancel(ctx)
	defer stop()
	r.start = time.Now()
	ticks := make(chan struct{})
	var ticking sync.WaitGroup
	ticking.Go(func() { r.tick(ticks) })
	if len(cfg.Stages) > 0 {
		if err := r.open(sending); err != nil {
			close(ticks)
			ticking.Wait()
			return nil, err
		}
	} else {
		r.closed(sending)
	}
	close(ticks)
	ticking.Wait()
	return r.result(ctx.Err() != nil), nil
}

// run is the state of one call of Run.
type run struct {
	cfg    Config
	length time.Duration
	start  time.Time
	pools  []*pool
	rec    *recorder
	next   atomic.Uint64 // closed loop: index of the next request
}

// now returns the time since the run's start.
func (r *run) now() time.Duration { return time.Since(r.start) }

// pool contains the connections to an endpoint. Except for idleWorkers, only the dispatching goroutine changes
// it.
type pool struct {
	run         *run
	endpoint    *client.Endpoint
	limit       int
	started     atomic.Int32
	idleWorkers chan *worker
	workers     sync.WaitGroup
}

// job is a request of the open loop.
type job struct {
	index uint64
	due   time.Duration
}

// worker is a connection with its goroutine.
type worker struct {
	run     *run
	pool    *pool
	conn    *client.Conn
	session Session
	rec     *shard
	jobs    chan job
}

func (p *pool) worker() *worker {
	w := &worker{run: p.run, pool: p, conn: client.New(p.endpoint), session: p.run.cfg.Source.Session(),
		rec: p.run.rec.shard(), jobs: make(chan job, 1)}
	w.conn.Timeout = p.run.cfg.Timeout
	w.conn.Opened = w.rec.opened
	return w
}

// open performs a run in an open loop. Each endpoint has a dispatcher that walks through the whole schedule and
// takes its share, so that an endpoint that does not answer does not delay the others.
func (r *run) open(ctx context.Context) error {
	sleepers := make([]*sleeper, len(r.pools))
	for k := range r.pools {
		s, err := newSleeper()
		if err != nil {
			return fmt.Errorf("timer: %w", err)
		}
		defer s.close()
		sleepers[k] = s
	}
	var all sync.WaitGroup
	for k, p := range r.pools {
		all.Go(func() { p.dispatch(ctx, uint64(k), sleepers[k]) })
	}
	all.Wait()
	return nil
}

func (p *pool) dispatch(ctx context.Context, k uint64, sleep *sleeper) {
	r := p.run
	// Requests that still wait for a connection at the end of the schedule may wait for one more Timeout.
	// Requests that get no connection by then are never sent.
	drain, cancel := context.WithDeadline(ctx, r.start.Add(r.length+r.cfg.Timeout))
	defer cancel()
	defer context.AfterFunc(drain, sleep.wake)()
	schedule := pace.New(r.cfg.Stages, r.cfg.Arrivals, r.cfg.Seed)
	var asked, unsent, waited uint64
	for i := uint64(0); ; i++ {
		due, ok := schedule.Next()
		if !ok {
			break
		}
		if i%uint64(len(r.pools)) != k {
			continue
		}
		if wait := due - r.now(); wait > 0 && drain.Err() == nil {
			sleep.sleep(wait)
		}
		if ctx.Err() != nil && due > r.now() {
			break // interrupted, so this request was never due
		}
		w, immediate := p.take(drain)
		if w != nil {
			w.jobs <- job{i, due}
		}
		if due < r.cfg.Warmup {
			continue
		}
		asked++
		if !immediate {
			waited++
		}
		if w == nil {
			unsent++
		}
	}
	for p.started.Load() > 0 {
		close((<-p.idleWorkers).jobs)
		p.started.Add(-1)
	}
	p.workers.Wait()
	r.rec.dispatched(asked, unsent, waited)
}

// take returns a free worker, or starts one. It does so even after an interruption, because requests that
// were due by then are sent. If all connections are in use, it waits for one until ctx is done, and then
// returns nil.
func (p *pool) take(ctx context.Context) (w *worker, immediate bool) {
	select {
	case w := <-p.idleWorkers:
		return w, true
	default:
	}
	if int(p.started.Load()) < p.limit {
		p.started.Add(1)
		w := p.worker()
		p.workers.Go(w.serve)
		return w, true
	}
	select {
	case w := <-p.idleWorkers:
		return w, false
	case <-ctx.Done():
		return nil, false
	}
}

// serve sends the requests of its jobs until the channel is closed. It waits for answers even after an
// interruption, because the client's timeout bounds this wait.
func (w *worker) serve() {
	defer w.conn.Close()
	for j := range w.jobs {
		w.send(j.index, j.due)
		w.pool.idleWorkers <- w
	}
}

// send sends request i and records its outcome. dueAt is the time at which the request was due. If it is
// negative, the request is due now. send reports whether the connection can be used again.
func (w *worker) send(i uint64, dueAt time.Duration) bool {
	r := w.run
	req := w.session.Request(i, w.pool.endpoint)
	sent := r.now()
	if dueAt < 0 {
		dueAt = sent
	}
	resp, err := w.conn.Do(context.Background(), req.Bytes, req.Head)
	o := outcome{class: req.Class, due: dueAt, sent: sent, done: r.now(), written: len(req.Bytes), err: err}
	if err == nil {
		o.status, o.read, o.retried = resp.Status, resp.Size, resp.Retried
		o.verdict = w.session.Answer(resp)
	} else if observer, ok := w.session.(Observer); ok {
		observer.Failed(err)
	}
	w.rec.record(&o, r.length, dueAt >= r.cfg.Warmup)
	return !errors.Is(err, client.ErrConnect)
}

// closed performs a run in a closed loop.
func (r *run) closed(ctx context.Context) {
	ctx, cancel := context.WithDeadline(ctx, r.start.Add(r.length))
	defer cancel()
	var all sync.WaitGroup
	for _, p := range r.pools {
		for range p.limit {
			w := p.worker()
			all.Go(func() { w.loop(ctx) })
		}
	}
	all.Wait()
}

// Bounds of the pause after a failed attempt to open a connection. Without a pause, the closed loop would
// spin.
const (
	minBackoff = 10 * time.Millisecond
	maxBackoff = time.Second
)

func (w *worker) loop(ctx context.Context) {
	defer w.conn.Close()
	backoff := minBackoff
	for ctx.Err() == nil {
		if w.send(w.run.next.Add(1)-1, -1) {
			backoff = minBackoff
			continue
		}
		select {
		case <-ctx.Done():
		case <-time.After(backoff):
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

// maxIntervals bounds the number of intervals of a run. Longer runs have longer intervals.
const maxIntervals = 1200

// tick ends an interval each second until done is closed.
func (r *run) tick(done <-chan struct{}) {
	seconds := 1
	for r.length > time.Duration(seconds*maxIntervals)*time.Second {
		seconds++
	}
	cpus := usableCPUs()
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for n := 0; ; n++ {
		select {
		case <-t.C:
			iv := r.rec.cut(r.now(), cpus)
			if r.cfg.Tick != nil {
				iv.Classes = r.rec.counts()
				r.cfg.Tick(iv)
			}
			r.rec.keep(iv, n%seconds == 0)
		case <-done:
			r.rec.keep(r.rec.cut(r.now(), cpus), n%seconds == 0)
			return
		}
	}
}
