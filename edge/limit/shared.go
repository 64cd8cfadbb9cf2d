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
	// defaultWait is the longest time that a request waits for the store.
	defaultWait = 5 * time.Millisecond

	// leaseTime is how long an edge may use tokens that it took from the store. The limit may be exceeded by
	// the tokens that become available in this time.
	leaseTime = 100 * time.Millisecond
	// minPause is the shortest pause after the store had fewer tokens than the edge wanted. During the pause
	// the edge refuses requests without asking the store, so that a flood causes few calls.
	minPause = 5 * time.Millisecond

	// maxMisses is the number of consecutive calls that must fail or be late before the edge stops sharing. A
	// single slow call, caused by a garbage collection or a lost packet, does not predict the next one.
	maxMisses = 3
	// While the store is unavailable or slow, the pause between two probes doubles from firstPause to
	// longestPause. It starts again from firstPause once sharing has worked for longer than steadyAfter.
	firstPause, longestPause = 100 * time.Millisecond, 10 * time.Second
	steadyAfter              = time.Second
	// probeTimeout bounds the first part of a probe, which may have to connect.
	probeTimeout = time.Second
)

// Store keeps the buckets that edges share. Its methods are safe for concurrent use, return when ctx is done,
// and make only one attempt.
type Store interface {
	// Take updates the bucket called name, whose limit is l. First it returns the tokens that the edge took and
	// did not use. unused is the number of these tokens; it is negative if the edge used tokens that it had not
	// taken. Then Take takes the wanted number of tokens, or as many as are available.
	Take(ctx context.Context, name string, l Limit, wanted, unused int) (Grant, error)
	// Ping checks whether the store answers.
	Ping(ctx context.Context) error
	io.Closer
}

// Grant is the result of Store.Take.
type Grant struct {
	Tokens int
	// Missing is the time until the bucket is full again.
	Missing time.Duration
}

// Shared shares limits with other edges through a Store.
//
// An edge takes several tokens from the store in one call, as a lease, and uses them without further calls.
// The faster requests arrive, the larger the lease, up to half of the tokens that become available in
// leaseTime. If requests are rare, the edge takes one token at a time. The next call returns tokens that were
// not used within leaseTime. So the limit applies to all edges together, however many there are:
//
//	admitted in t ≤ rate · (t + leaseTime) + burst
//
// A busy key causes about twenty calls per second.
//
// A request waits for the store for at most Wait. After that the edge decides by itself, and reports the
// decision with the next call. If maxMisses consecutive calls fail or take longer than Wait, the edge limits
// all requests by itself, taking into account what it has admitted so far, until a probe is answered in time
// again. Meanwhile each edge admits up to the full limit.
type Shared struct {
	store Store
	wait  time.Duration
	log   *slog.Logger

	up     atomic.Bool
	failed chan error   // the error that ended sharing; has room for one
	misses atomic.Int64 // consecutive calls that failed or were late

	calls, faults, local atomic.Int64

	mu     sync.Mutex
	status SharedStatus // without the counts
}

// SharedConfig configures a Shared.
type SharedConfig struct {
	// Store keeps the limits. Required. Shared.Close closes the store.
	Store Store
	// Wait bounds how long a request waits for Store; 0 means 5 ms.
	Wait time.Duration
	// Logger receives changes of state. It may be nil.
	Logger *slog.Logger
}

// SharedStatus describes the state of shared limits.
type SharedStatus struct {
	upstream.Status
	// Calls is the number of calls to the store since startup. Faults is the number of calls that failed or
	// were late. Local is the number of requests that the edge decided by itself.
	Calls  int64 `json:"calls"`
	Faults int64 `json:"faults"`
	Local  int64 `json:"decided_locally"`
}

// NewShared returns a Shared. It limits locally until Run has reached the store.
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

// Close closes the store. From then on limits are local.
func (s *Shared) Close() error {
	s.up.Store(false)
	return s.store.Close()
}

// Run probes the store whenever it is unavailable, until ctx is done. It may be called once.
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
			if time.Since(began) > steadyAfter {
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

// probe checks whether the store answers within s.wait over an open connection.
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

// setState sets the state, and logs it if it changed.
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
		s.log.Warn("the limit store does not answer in time; this edge limits by itself", "err", err)
	default:
		s.log.Info("limits are shared with other edges")
	}
}

// miss counts a call that failed or was late. After maxMisses consecutive misses, sharing ends until Run has
// reached the store again.
func (s *Shared) miss(err error) {
	if s.misses.Add(1) >= maxMisses && s.up.CompareAndSwap(true, false) {
		s.failed <- err
	}
}

// Status describes the state of shared limits.
func (s *Shared) Status() SharedStatus {
	s.mu.Lock()
	status := s.status
	s.mu.Unlock()
	status.Calls, status.Faults, status.Local = s.calls.Load(), s.faults.Load(), s.local.Load()
	return status
}

// Lease is this edge's share of one shared limit. It is safe for concurrent use.
type Lease struct {
	shared *Shared
	name   string
	limit  Limit

	granted atomic.Pointer[granted]
	owed    atomic.Int64 // tokens that were used without being taken; the next call reports them

	mu   sync.Mutex
	call chan struct{} // closed when the call under way is done; nil if there is none
	late bool          // that call takes too long, so requests no longer wait for it
	want int           // the number of requests that wait for it
	size int           // the size of the last lease
}

// granted is the part of a grant that is left.
type granted struct {
	left  atomic.Int64 // tokens already taken from the bucket and not yet used
	until int64        // when the tokens expire
	full  int64        // when the bucket will be full
	again int64        // if none are left, when the edge may ask the store again
}

// NewLease returns a Lease on the bucket called name. All edges must use the same limit l for it.
func (s *Shared) NewLease(name string, l Limit) *Lease {
	return &Lease{shared: s, name: fmt.Sprintf("%s:%d:%d", name, l.interval, l.burst), limit: l}
}

var (
	errLate = errors.New("no answer in time")
	// answered is the channel of a call that is already done.
	answered = make(chan struct{})
)

func init() { close(answered) }

// Take takes a token, like Bucket.Take. It takes the token from the lease or, while limits are not shared,
// from localBucket. It allocates only when it calls the store.
func (s *Lease) Take(localBucket *Bucket, now int64) Decision {
	up := s.shared.up.Load()
	if up {
		d, h, decided := s.fromGranted(now)
		if !decided {
			d, decided = s.ask(h, now)
		}
		if decided {
			if d.OK {
				localBucket.Charge(s.limit, now, 1)
			}
			return d
		}
	}
	s.shared.local.Add(1)
	d := localBucket.Take(s.limit, now)
	if d.OK && up {
		s.owed.Add(1)
	}
	return d
}

// Charge takes n more tokens for a request that d admitted, like Bucket.Charge. The next call reports them to
// the store.
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

// fromGranted decides using the last grant. If decided is false, the store must be asked.
func (s *Lease) fromGranted(now int64) (d Decision, h *granted, decided bool) {
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
	token := missing - (s.limit.burst-1)*s.limit.interval // until a token is available
	return Decision{Reset: int(seconds(missing)), RetryAfter: max(1, int(seconds(token)))}, h, true
}

// decide returns the Decision for a request that got a token.
func (s *Lease) decide(h *granted, now int64) Decision {
	unused := h.left.Load() - s.owed.Load()
	d := s.limit.after(min(max(0, h.full-now-unused*s.limit.interval), s.limit.interval*s.limit.burst))
	d.leased = true
	return d
}

// ask decides about a request that found the grant h. It calls the store, or waits for the call under way. If
// decided is false, there was no decision in time.
func (s *Lease) ask(h *granted, now int64) (d Decision, decided bool) {
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
		if d, h, decided = s.fromGranted(now); decided {
			return d, true
		}
	}
}

// join starts a call to the store or joins the one under way. It returns a channel that is closed when the
// call is done. If the grant is no longer h, a call has ended in the meantime and the channel is closed
// already. join returns nil if the call under way is late.
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

// callStore replaces the grant h with a new one, and then closes done.
func (s *Lease) callStore(done chan struct{}, h *granted, now int64) {
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
	stop := context.AfterFunc(ctx, func() { s.countOverdue(done) })
	s.shared.calls.Add(1)
	grant, err := s.shared.store.Take(ctx, s.name, s.limit, want, back)
	switch inTime := stop(); {
	case !inTime: // countOverdue has counted this call
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
	close(done)
	s.call, s.want = nil, 0
}

// countOverdue counts a late call as a miss, and counts it again after each further wait. So sharing also ends
// if a store ignores its context and delays all other calls.
func (s *Lease) countOverdue(call chan struct{}) {
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

// newGranted returns the granted tokens. It clamps implausible values from the store.
func (s *Lease) newGranted(grant Grant, want int, now int64) *granted {
	missing := min(max(0, int64(grant.Missing)), s.limit.mostMissing())
	h := &granted{until: now + int64(leaseTime), full: now + missing}
	h.left.Store(int64(min(max(0, grant.Tokens), want)))
	if grant.Tokens < want {
		// Wait at most the time in which half of the bucket's tokens become available, so that the bucket
		// does not fill up and lose tokens while there are no requests.
		pause := min(int64(minPause), s.limit.interval*s.limit.burst/2)
		h.again = max(h.full-(s.limit.burst-1)*s.limit.interval, now+pause)
	}
	return h
}
