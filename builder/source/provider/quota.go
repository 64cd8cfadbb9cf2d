package provider

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"sync"
	"time"

	"example.com/marketdata/builder/source"
	"example.com/marketdata/internal/durable"
	"golang.org/x/sys/unix"
)

// Value ranks the calls of a part. If the quota does not suffice, the least valuable calls are made
// less often.
type Value int

// The values, from the most to the least valuable.
const (
	Tickers Value = iota
	Directory
	Groups
	Exchanges
	Details
)

func (v Value) String() string {
	return [...]string{"tickers", "directory", "groups", "exchanges", "details"}[v]
}

// quotaDays is the number of dates in UTC that a quota covers. They cover any month, no matter on
// which day and at which hour the provider's month begins.
const quotaDays = 32

const (
	quotaFile = "quota.json"
	quotaLock = "quota.lock"
	// maxQuota bounds the size of quota.json, in bytes, and the value of the quota option, in
	// calls.
	maxQuota = 1 << 30
)

// quota counts the calls to a provider and refuses calls beyond a monthly limit. It counts calls in
// the cache folder before they are made, under a lock that all processes with this folder share, so
// that neither a crash nor a second process makes the count too low.
//
// The limit is spread over the month: the burst is available immediately, and the rest becomes
// available at a constant rate. Less valuable calls, and retries, can use only a part of the burst.
type quota struct {
	limit, burst int // calls in a month (0: no limit), and calls available immediately
	dir          string
	now          func() time.Time

	mu    sync.Mutex
	state quotaState
}

// quotaState is the content of quota.json.
type quotaState struct {
	Format int `json:"format"`
	// Full is the time at which the whole burst is available again.
	Full time.Time `json:"full"`
	// Calls maps the last dates in UTC to the numbers of calls on them.
	Calls map[string]int `json:"calls"`
	// Sizes maps the names of parts to the numbers of calls that they took the last time.
	Sizes map[string]int `json:"sizes,omitempty"`
}

// quotaError means that the quota does not allow a call now.
type quotaError struct {
	limit, used int
	until       time.Time // zero if unknown
}

func (e *quotaError) Error() string {
	s := fmt.Sprintf("not requested: the quota of %d calls a month, %d of them used, allows no such call now", e.limit, e.used)
	if !e.until.IsZero() {
		s += "; the next one is allowed at " + e.until.UTC().Format(time.RFC3339)
	}
	return s
}

// update calls f with the state. It saves the state if f returns true, or if it had to correct
// dates or times that a wrong clock left in the state.
func (q *quota) update(f func(s *quotaState, now time.Time) (changed bool, err error)) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.now().UTC()
	if q.dir == "" {
		q.tidy(&q.state, now)
		_, err := f(&q.state, now)
		return err
	}
	if err := durable.MkdirAll(q.dir, 0o777); err != nil {
		return err
	}
	lock, err := os.OpenFile(filepath.Join(q.dir, quotaLock), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	defer lock.Close() // drops the lock
	if err := durable.Inherit(lock); err != nil {
		return err
	}
	for err = unix.EINTR; errors.Is(err, unix.EINTR); {
		err = unix.Flock(int(lock.Fd()), unix.LOCK_EX)
	}
	if err != nil {
		return &fs.PathError{Op: "flock", Path: lock.Name(), Err: err}
	}
	s, err := q.load()
	if err != nil {
		return err
	}
	mended := q.tidy(s, now)
	changed, err := f(s, now)
	if changed || mended {
		if err := q.save(s); err != nil {
			return err
		}
	}
	return err
}

func (q *quota) save(s *quotaState) error {
	b, err := json.MarshalIndent(s, "", "\t")
	if err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(q.dir, quotaFile), bytes.NewReader(append(b, '\n')), 0o644)
}

// load reads quota.json. A file that cannot be used is an error, because its count must not be
// lost.
func (q *quota) load() (*quotaState, error) {
	s := &quotaState{}
	b, err := durable.ReadFile(filepath.Join(q.dir, quotaFile), maxQuota)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err == nil {
		err = json.Unmarshal(b, s)
	}
	if err == nil && s.Format != 1 {
		err = fmt.Errorf("format %d: want 1, the only one there is", s.Format)
	}
	if err != nil {
		return nil, fmt.Errorf("%s, which counts the calls of this month, cannot be used: %w",
			filepath.Join(q.dir, quotaFile), err)
	}
	return s, nil
}

// tidy drops dates older than a month. It also corrects dates and times in the future, which a
// wrong clock left, and reports whether it found any. Calls on future dates count as today's calls,
// and Full becomes at most the time at which a whole burst would be available.
func (q *quota) tidy(s *quotaState, now time.Time) (mended bool) {
	s.Format = 1
	today, first := now.Format(time.DateOnly), now.AddDate(0, 0, 1-quotaDays).Format(time.DateOnly)
	calls := map[string]int{}
	for date, n := range s.Calls {
		if date >= first {
			calls[min(date, today)] += n
			mended = mended || date > today
		}
	}
	s.Calls = calls
	if most := now.Add(q.whole()); s.Full.After(most) {
		s.Full, mended = most, true
	}
	return mended
}

func (s *quotaState) used() (n int) {
	for _, calls := range s.Calls {
		n += calls
	}
	return n
}

// callInterval returns the interval at which one more call becomes available.
func (q *quota) callInterval() time.Duration {
	return quotaDays * 24 * time.Hour / time.Duration(max(1, q.limit-q.burst))
}

// whole returns the time in which the whole burst becomes available.
func (q *quota) whole() time.Duration { return q.callInterval() * time.Duration(q.burst) }

// check returns an error if the quota does not allow calls now.
func (q *quota) check(s *quotaState, now time.Time, calls int, value Value, again bool) error {
	if q.limit == 0 {
		return nil
	}
	used := s.used()
	refused := &quotaError{limit: q.limit, used: used}
	if used+calls > q.limit {
		return refused
	}
	tenths := 10 - int(value)
	if again {
		tenths -= 2
	}
	wait := max(0, s.Full.Sub(now)) + q.callInterval()*time.Duration(calls) - q.whole()*time.Duration(tenths)/10
	if wait > 0 {
		refused.until = now.Add(wait)
		return refused
	}
	return nil
}

// take counts calls before they are made, or returns an error if the quota does not allow them.
func (q *quota) take(calls int, value Value, again bool) error {
	return q.update(func(s *quotaState, now time.Time) (bool, error) {
		if err := q.check(s, now, calls, value, again); err != nil {
			return false, err
		}
		if q.limit > 0 {
			s.Full = now.Add(max(0, s.Full.Sub(now)) + q.callInterval()*time.Duration(calls))
		}
		s.Calls[now.Format(time.DateOnly)] += calls
		return true, nil
	})
}

// note subtracts calls that were counted but not used, and saves the sizes of parts.
func (q *quota) note(back int, sizes map[string]int) error {
	return q.update(func(s *quotaState, now time.Time) (bool, error) {
		if back != 0 {
			s.Calls[now.Format(time.DateOnly)] -= back
			s.Full = s.Full.Add(-q.callInterval() * time.Duration(back))
		}
		changed := back != 0
		for name, n := range sizes {
			changed = changed || s.Sizes[name] != n
		}
		if s.Sizes == nil {
			s.Sizes = map[string]int{}
		}
		maps.Copy(s.Sizes, sizes)
		return changed, nil
	})
}

// call has the information that the quota needs about a request.
type call struct {
	cost  int // maximum number of calls; zero means one
	value Value
	again bool // the request is a retry
}

// counter is a transport that counts every call that is made for a request: tries, redirects, and
// retries that net/http makes by itself.
type counter struct {
	next  http.RoundTripper
	quota *quota
	call  call
}

// RoundTrip implements http.RoundTripper.
func (c *counter) RoundTrip(r *http.Request) (*http.Response, error) {
	cost := max(1, c.call.cost)
	if err := c.quota.take(cost, c.call.value, c.call.again); err != nil {
		return nil, errNotSent{err}
	}
	sent := false
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) {
		if sent { // net/http retries on a new connection after an idle one was closed; it is too late to refuse
			_ = c.quota.note(-cost, nil)
		}
		sent = true
	}}
	return c.next.RoundTrip(r.WithContext(httptrace.WithClientTrace(r.Context(), trace)))
}

// read returns the state. It does not need the lock of the file, since the file is replaced
// atomically.
func (q *quota) read() (*quotaState, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	s, err := &q.state, error(nil)
	if q.dir != "" {
		s, err = q.load()
	}
	if err != nil {
		return &quotaState{}, err
	}
	q.tidy(s, q.now().UTC())
	return s, nil
}

// use returns the numbers of calls that builders report, or nil if the file cannot be read.
func (q *quota) use(name string) *source.Quota {
	s, err := q.read()
	if err != nil {
		return nil
	}
	u := &source.Quota{Source: name, Limit: q.limit, Used: s.used()}
	if q.limit > 0 {
		left := max(0, q.limit-u.Used)
		u.Left = &left
	}
	return u
}
