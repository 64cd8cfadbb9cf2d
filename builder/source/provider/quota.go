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

// Value ranks the calls of a part: if the quota does not suffice, the least valuable
// calls are made more rarely.
type Value int

// The values, the most valuable first.
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

// quotaDays is how many dates of UTC a quota covers: enough for any month, on whatever day
// and at whatever hour the provider's begins.
const quotaDays = 32

const (
	quotaFile = "quota.json"
	quotaLock = "quota.lock"
	// maxQuota bounds quota.json, in bytes, and the option, in calls.
	maxQuota = 1 << 30
)

// quota counts the calls to a provider and refuses those beyond a number a month. It counts calls
// in the cache folder before they are made, under a lock that all processes with this folder share,
// so that neither a crash nor a second process makes the count too low.
//
// The calls of a month are spread over it: burst calls are available at once, the rest
// evenly. Less valuable calls, and retries, need more of the burst to be left.
type quota struct {
	limit, burst int // calls a month (0: no limit), and at once
	dir          string
	now          func() time.Time

	mu    sync.Mutex
	state quotaState
}

// quotaState is the form of quota.json.
type quotaState struct {
	Format int `json:"format"`
	// Full is when the whole burst will be available again.
	Full time.Time `json:"full"`
	// Calls are those of the last dates (UTC), by date.
	Calls map[string]int `json:"calls"`
	// Sizes are how many calls each part took the last time.
	Sizes map[string]int `json:"sizes,omitempty"`
}

// quotaError says that the quota does not allow a call now.
type quotaError struct {
	limit, used int
	until       time.Time // zero: not known
}

func (e *quotaError) Error() string {
	s := fmt.Sprintf("not asked: the quota of %d calls a month, %d of them used, allows no such call now", e.limit, e.used)
	if !e.until.IsZero() {
		s += "; the next one is allowed at " + e.until.UTC().Format(time.RFC3339)
	}
	return s
}

// update calls f with the state and saves it if f returns true, or if it had times left by a wrong clock.
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
	defer lock.Close() // this drops the lock
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

// load reads quota.json. A file that cannot be used is an error, because its count must
// not be lost.
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

// tidy drops dates older than a month, and reports whether it found times in the future, left by a
// wrong clock. Their calls count as today's, and the wait is at most that for a whole burst.
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

// each returns how long it takes until one more call is available.
func (q *quota) each() time.Duration {
	return quotaDays * 24 * time.Hour / time.Duration(max(1, q.limit-q.burst))
}

// whole returns how long it takes until the whole burst is available.
func (q *quota) whole() time.Duration { return q.each() * time.Duration(q.burst) }

// check returns an error if calls may not be made now.
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
	wait := max(0, s.Full.Sub(now)) + q.each()*time.Duration(calls) - q.whole()*time.Duration(tenths)/10
	if wait > 0 {
		refused.until = now.Add(wait)
		return refused
	}
	return nil
}

// take counts calls before they are made, or refuses them.
func (q *quota) take(calls int, value Value, again bool) error {
	return q.update(func(s *quotaState, now time.Time) (bool, error) {
		if err := q.check(s, now, calls, value, again); err != nil {
			return false, err
		}
		if q.limit > 0 {
			s.Full = now.Add(max(0, s.Full.Sub(now)) + q.each()*time.Duration(calls))
		}
		s.Calls[now.Format(time.DateOnly)] += calls
		return true, nil
	})
}

// note gives back calls that were counted but not used, and saves the sizes of parts.
func (q *quota) note(back int, sizes map[string]int) error {
	return q.update(func(s *quotaState, now time.Time) (bool, error) {
		if back != 0 {
			s.Calls[now.Format(time.DateOnly)] -= back
			s.Full = s.Full.Add(-q.each() * time.Duration(back))
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

// call is what the quota needs to know of a request.
type call struct {
	cost  int // at most; zero: one
	value Value
	again bool // the request was made before
}

// counter counts every call that is made for a request: tries, redirects, and what
// net/http asks again by itself.
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
		if sent { // a connection that was idle is closed: it is too late to refuse
			_ = c.quota.note(-cost, nil)
		}
		sent = true
	}}
	return c.next.RoundTrip(r.WithContext(httptrace.WithClientTrace(r.Context(), trace)))
}

// read returns the state. It needs no lock on the file, which is replaced in one step.
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

// use returns the numbers that builders report.
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
