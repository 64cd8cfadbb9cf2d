package engine

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// sleeper waits with a timer file descriptor (timerfd). The runtime's own timers may end a short sleep up to
// a millisecond late if the process is otherwise idle, since its poller counts in milliseconds. The expiry of
// a timer file descriptor is an event like data on a socket, and wakes the poller on time.
type sleeper struct {
	f  *os.File
	fd int
}

func newSleeper() (*sleeper, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	return &sleeper{f: os.NewFile(uintptr(fd), "timer"), fd: fd}, nil
}

// sleep returns after d, which is positive, or when wake is called.
func (s *sleeper) sleep(d time.Duration) {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(d.Nanoseconds())}
	if unix.TimerfdSettime(s.fd, 0, &spec, nil) != nil {
		time.Sleep(d)
		return
	}
	var expirations [8]byte
	s.f.Read(expirations[:]) // it fails only after wake, which also ends the sleep
}

// wake ends this sleep and all later ones.
func (s *sleeper) wake() { s.f.SetReadDeadline(time.Unix(1, 0)) }

func (s *sleeper) close() { s.f.Close() }
