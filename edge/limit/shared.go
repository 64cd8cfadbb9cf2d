package limit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"example.com/marketdata/edge/upstream"
)

const (
	// defaultWait is the longest that an answer waits for shared limits.
	defaultWait = 5 * time.Millisecond

	// leaseTime is how long tokens that were taken from the store may be used,
	// and so by how much time's worth of them a limit may be exceeded.
	leaseTime = 100 * time.Millisecond
	// minPause is how long nothing is asked after the store had less than was
	// wanted: a flood of requests is refused without calls.
	minPause = 5 * time.Millisecond

	// maxMisses is how many calls in a row must fail or come too late to end
	// sharing: one that is slow, for a pause of the collector or a packet that was
	// lost, says nothing of the next.
	maxMisses = 3
	// Between two probes of a store that is away or slow: twice as long each time,
	// from the first again once sharing has lasted for steady.
	firstPause, longestPause = 100 * time.Millisecond, 10 * time.Second
	steady                   = time.Second
	// probeTimeout bounds the part of a probe in which connections are made.
	probeTimeout = time.Second
)

// Store keeps buckets that several edges share. Its methods are safe for
// concurrent use, return when ctx is done, and make one attempt.
type Store interface {
	// Take returns back tokens, which were taken and not used, to the bucket
	// called name, which is under l; a negative number is of tokens that were
	// used and not taken. Then it takes want tokens, or as many as there are.
	Take(ctx context.Context, name string, l Limit, want, back int) (Grant, error)
	// Ping asks whether the store answers.
	Ping(ctx context.Context) error
	io.Closer
}

// Grant is what a Store gave.
type Grant struct {
	Tokens int
	// Missing is the time until the bucket is full again.
	Missing time.Duration
}

// Shared keeps limits together with other edges, through a Store.
//
// An edge takes tokens from the store for what it will need in the next
// instants, a lease, and uses them up without asking: the more of them the
// faster they go, up to half of what comes in leaseTime; one at a time when
// requests are rare. Tokens that are not used within leaseTime go back with the
// next call. So the limit holds over all edges, however many:
//
//	admitted in t ≤ rate · (t + leaseTime) + burst
//
// and a busy key costs some twenty calls a second.
//
// An answer waits for the store no longer than Wait; who waited for so long is
// admitted or not by the edge itself, and reported with the next call. When
// maxMisses calls in a row take longer than that, or fail, the edge limits all
// requests by itself (what it admitted so far counts), until a probe is answered
// in time again.
// Each edge then admits up to the whole limit.
type Shared struct {
	store Store
	wait  time.Duration
	log   *slog.Logger

	up     atomic.Bool
	failed chan error   // what ended being up; holds one
	misses atomic.Int64 // calls in a row that failed or came too late

	calls, faults, local atomic.Int64

	mu     sync.Mutex
	status SharedStatus // but for the counts
}

// SharedConfig says how limits are shared.
type SharedConfig struct {
	// Store keeps the limits. Required. Close closes it.
	Store Store
	// Wait bounds how long an answer waits for Store; 0: 5 ms.
	Wait time.Duration
	// Logger gets changes of state; nil: none.
	Logger *slog.Logger
}

// SharedStatus describes how limits are shared.
type SharedStatus struct {
	upstream.Status
	// Calls of the store since the start, and Faults of them that failed or
	// came too late; Local are the requests that the edge decided by itself.
	Calls  int64 `json:"calls"`
	Faults int64 `json:"faults"`
	Local  int64 `json:"decided_locally"`
}

// NewShared returns a Shared that limits locally until the store has answered Run.
func NewShared(cfg SharedConfig) *Shared {
	if cfg.Wait <= 0 {
		cfg.Wait = defaultWait
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Shared{
		store: cfg.Store, wait: cfg.Wait, log: cfg.Logger, failed: make(chan error, 1),
		status: SharedStatus{Status: upstream.Start()},
	}
}

// Close closes the store. Limits are local from then on.
func (s *Shared) Close() error {
	s.up.Store(false)
	return s.store.Close()
}

// Run probes the store whenever it is away, until ctx is done. It may be called
// once.
func (s *Shared) Run(ctx context.Context) {
	pause := firstPause
	for {
		err := s.probe(ctx)
		if err == nil {
			s.setState(upstream.Valid, nil)
			began := time.Now()
			s.misses.Store(0)
			s.up.Store(true)
			select {
			case <-ctx.Done():
				return
			case err = <-s.failed:
			}
			if time.Since(began) > steady {
				pause = firstPause
			}
		}
		if ctx.Err() != nil {
			return
		}
		s.setState(upstream.Interrupted, err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause - rand.N(pause/5)):
		}
		pause = min(2*pause, longestPause)
	}
}

// probe asks whether the store answers in time, once there is a connection.
func (s *Shared) probe(ctx context.Context) error {
	for _, timeout := range []time.Duration{probeTimeout, s.wait} {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		err := s.store.Ping(ctx)
		cancel()
		if err != nil {
			return err
		}
	}
	return nil
}

// setState enters a state, and logs it when it is another than before.
func (s *Shared) setState(state upstream.State, err error) {
	s.mu.Lock()
	changed := s.status.Set(state)
	if err != nil {
		s.status.Fail(err)
	}
	s.mu.Unlock()
	switch {
	case !changed:
	case err != nil:
		s.log.Warn("limit store is away or slow; this edge limits by itself", "err", err)
	default:
		s.log.Info("limits are shared with other edges")
	}
}

// miss counts a call that failed or came too late. Several in a row end sharing
// until Run has probed the store.
func (s *Shared) miss(err error) {
	if s.misses.Add(1) >= maxMisses && s.up.CompareAndSwap(true, false) {
		s.failed <- err
	}
}

// Status describes how limits are shared.
func (s *Shared) Status() SharedStatus {
	s.mu.Lock()
	status := s.status
	s.mu.Unlock()
	status.Calls, status.Faults, status.Local = s.calls.Load(), s.faults.Load(), s.local.Load()
	return status
}

// Lease is this edge's part in one limit that edges share. It is safe for
// concurrent use.
type Lease struct {
	shared *Shared
	name   string
	limit  Limit

	granted atomic.Pointer[granted]
	owed    atomic.Int64 // tokens that were used and not taken: the next call reports them

	mu   sync.Mutex
	call chan struct{} // of the call under way, closed when it is done; nil: there is none
	late bool          // that call takes too long: no request waits for it any more
	want int           // requests that wait for it
	size int           // of the last lease
}

// granted is what the store gave.
type granted struct {
	left  atomic.Int64 // tokens, all of them taken from the bucket already
	until int64        // when they go back
	full  int64        // when the bucket will be full
	again int64        // when to ask the store again, though there are none left
}

// NewLease returns a lease on the bucket called name, which is under l on every
// edge.
func (s *Shared) NewLease(name string, l Limit) *Lease {
	return &Lease{shared: s, name: fmt.Sprintf("%s:%d:%d", name, l.interval, l.burst), limit: l}
}

var (
	errLate = errors.New("no answer in time")
	// answered is the call that is done.
	answered = make(chan struct{})
)

func init() { close(answered) }

// Take takes a token, as Bucket.Take does: from the lease, or, while limits are
// not shared, from local. It does not allocate but when the store is asked.
func (s *Lease) Take(local *Bucket, now int64) Decision {
	up := s.shared.up.Load()
	if up {
		d, h, known := s.fromGranted(now)
		if !known {
			d, known = s.ask(h, now)
		}
		if known {
			if d.OK {
				local.Charge(s.limit, now, 1)
			}
			return d
		}
	}
	s.shared.local.Add(1)
	d := local.Take(s.limit, now)
	if d.OK && up {
		s.owed.Add(1)
	}
	return d
}

// Charge takes n tokens more for what d admitted, as Bucket.Charge does; the store
// hears of them with the next call.
func (s *Lease) Charge(local *Bucket, d Decision, now int64, n int) Decision {
	own := local.Charge(s.limit, now, n)
	if !s.shared.up.Load() {
		return own
	}
	s.owed.Add(int64(n))
	if h := s.granted.Load(); d.leased && h != nil {
		return s.decide(h, now)
	}
	return own
}

// fromGranted decides by what the store gave last; not known: it must be asked.
func (s *Lease) fromGranted(now int64) (d Decision, h *granted, known bool) {
	h = s.granted.Load()
	if h == nil {
		return Decision{}, nil, false
	}
	if now < h.until {
		for left := h.left.Load(); left > 0; left = h.left.Load() {
			if h.left.CompareAndSwap(left, left-1) {
				return s.decide(h, now), h, true
			}
		}
	}
	if now >= h.again {
		return Decision{}, h, false
	}
	missing := max(0, h.full-now)
	token := missing - (s.limit.burst-1)*s.limit.interval // until there is one
	return Decision{Reset: int(seconds(missing)), RetryAfter: max(1, int(seconds(token)))}, h, true
}

// decide returns the decision on a request that got its token.
func (s *Lease) decide(h *granted, now int64) Decision {
	unused := h.left.Load() - s.owed.Load()
	d := s.limit.after(min(max(0, h.full-now-unused*s.limit.interval), s.limit.interval*s.limit.burst))
	d.leased = true
	return d
}

// ask asks the store, or waits with others for its answer, until it is known
// what to do about a request that found h.
func (s *Lease) ask(h *granted, now int64) (d Decision, known bool) {
	timer := time.NewTimer(s.shared.wait)
	defer timer.Stop()
	for {
		call := s.join(h, now)
		if call == nil {
			return Decision{}, false
		}
		select {
		case <-call:
		case <-timer.C:
			return Decision{}, false
		}
		if !s.shared.up.Load() {
			return Decision{}, false
		}
		if d, h, known = s.fromGranted(now); known {
			return d, true
		}
	}
}

// join returns what is closed when a call of the store is done that began after
// h was looked at, or was under way then; nil: that call is late already.
func (s *Lease) join(h *granted, now int64) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.call == nil && s.granted.Load() != h {
		return answered
	}
	if s.call != nil && s.late {
		return nil
	}
	s.want++
	if s.call == nil {
		s.call, s.late = make(chan struct{}), false
		go s.callStore(s.call, h, now)
	}
	return s.call
}

// callStore takes a new lease in place of h, and closes call.
func (s *Lease) callStore(call chan struct{}, h *granted, now int64) {
	most := int(max(1, min(int64(leaseTime)/2/s.limit.interval, s.limit.burst)))
	back := -int(s.owed.Swap(0))
	s.mu.Lock()
	switch {
	case h == nil || now >= h.until:
		s.size = 1
	case now < h.until-int64(leaseTime)/2:
		s.size = min(2*s.size, most)
	}
	want := max(s.size, min(s.want, int(s.limit.burst)))
	s.mu.Unlock()
	if h != nil {
		back += int(h.left.Swap(0))
	}

	ctx, cancel := context.WithTimeout(context.Background(), s.shared.wait)
	stop := context.AfterFunc(ctx, func() { s.overdue(call) })
	s.shared.calls.Add(1)
	grant, err := s.shared.store.Take(ctx, s.name, s.limit, want, back)
	switch inTime := stop(); {
	case !inTime: // which was counted
	case err != nil:
		s.shared.miss(err)
	default:
		s.shared.misses.Store(0)
	}
	cancel()

	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.shared.faults.Add(1)
	} else {
		s.granted.Store(s.newGranted(grant, want, now))
	}
	close(call)
	s.call, s.want = nil, 0
}

// overdue counts a call that is late, once, and again for each wait that it goes
// on: a store that does not heed its context answers no other call meanwhile.
func (s *Lease) overdue(call chan struct{}) {
	s.shared.miss(errLate)
	s.mu.Lock()
	s.late = s.late || s.call == call
	s.mu.Unlock()
	for range maxMisses - 1 {
		timer := time.NewTimer(s.shared.wait)
		select {
		case <-call:
			timer.Stop()
			return
		case <-timer.C:
			s.shared.miss(errLate)
		}
	}
}

// newGranted returns what a store gave at time now. It is not believed to give
// what it cannot have.
func (s *Lease) newGranted(grant Grant, want int, now int64) *granted {
	missing := min(max(0, int64(grant.Missing)), s.limit.mostMissing())
	h := &granted{until: now + int64(leaseTime), full: now + missing}
	h.left.Store(int64(min(max(0, grant.Tokens), want)))
	if grant.Tokens < want {
		// No longer than half of the tokens of a bucket take, so that none run
		// over while there are no requests.
		pause := min(int64(minPause), s.limit.interval*s.limit.burst/2)
		h.again = max(h.full-(s.limit.burst-1)*s.limit.interval, now+pause)
	}
	return h
}
