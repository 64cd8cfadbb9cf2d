package s3store

import (
	"net/http"
	"sync/atomic"
	"time"
)

// clock compares this machine's clock with the Date of the answers that pass through
// it.
type clock struct {
	next http.RoundTripper
	now  func() time.Time
	skew atomic.Pointer[time.Duration] // by the last answer that had a Date; nil: none had
}

// RoundTrip implements http.RoundTripper.
func (c *clock) RoundTrip(r *http.Request) (*http.Response, error) {
	sent := c.now()
	res, err := c.next.RoundTrip(r)
	if err != nil {
		return res, err
	}
	// A cache on the way gives an answer of the past, with its age.
	if date, err := http.ParseTime(res.Header.Get("Date")); err == nil && res.Header.Get("Age") == "" {
		skew := skewOf(sent, c.now(), date)
		c.skew.Store(&skew)
	}
	return res, nil
}

// skewOf returns the least skew with which a server whose clock said date, in whole
// seconds, answered between sent and received: a slow answer is no wrong clock.
func skewOf(sent, received, date time.Time) time.Duration {
	if least := sent.Sub(date.Add(time.Second)); least > 0 {
		return least
	}
	return min(0, received.Sub(date))
}

// ClockSkew implements artifacts.Clock.
func (s *Store) ClockSkew() (skew time.Duration, known bool) {
	if d := s.clock.skew.Load(); d != nil {
		return *d, true
	}
	return 0, false
}
