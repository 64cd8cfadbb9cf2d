//go:build !linux

package engine

import (
	"sync"
	"time"
)

// sleeper waits with a timer of the runtime.
type sleeper struct {
	woken chan struct{}
	once  sync.Once
}

func newSleeper() (*sleeper, error) { return &sleeper{woken: make(chan struct{})}, nil }

// sleep returns after d, or when wake is called.
func (s *sleeper) sleep(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-s.woken:
	}
}

// wake ends this sleep and all later ones.
func (s *sleeper) wake() { s.once.Do(func() { close(s.woken) }) }

func (s *sleeper) close() {}
