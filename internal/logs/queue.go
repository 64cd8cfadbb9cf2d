package logs

import (
	"bytes"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// maxQueued is the maximum number of bytes that wait in a Queue.
const maxQueued = 1 << 20

// dropped counts the lines that all queues have dropped.
var dropped atomic.Uint64

// Dropped returns the number of log lines that this process has dropped.
func Dropped() uint64 { return dropped.Load() }

// Queue is a writer that never blocks. It passes lines on to another writer, which may be slow or
// blocked, such as a pipe that nobody reads. It drops and counts the lines that arrive while it is
// full, and those that it cannot write.
type Queue struct {
	to   io.Writer
	note func(lost int) []byte

	mu      sync.Mutex
	waiting []byte
	lost    int
	closed  bool
	wake    chan struct{} // has a capacity of one
	done    chan struct{} // closed when everything has been written
}

// NewQueue returns a Queue that passes lines on to the given writer until Close. When writing works
// again after lines were dropped, it also writes note(lost), a line that reports their number.
func NewQueue(to io.Writer, note func(lost int) []byte) *Queue {
	q := &Queue{to: to, note: note, wake: make(chan struct{}, 1), done: make(chan struct{})}
	go q.run()
	return q
}

// Write implements io.Writer. It expects whole lines and never returns an error.
func (q *Queue) Write(lines []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting)+len(lines) > maxQueued {
		q.lose(lines)
	} else {
		q.waiting = append(q.waiting, lines...)
	}
	q.ring()
	return len(lines), nil
}

// lose counts lines as dropped. The caller holds the lock.
func (q *Queue) lose(lines []byte) {
	n := bytes.Count(lines, []byte("\n"))
	q.lost += n
	dropped.Add(uint64(n))
}

func (q *Queue) ring() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

func (q *Queue) run() {
	defer close(q.done)
	for range q.wake {
		q.mu.Lock()
		lines, lost, closed := q.waiting, q.lost, q.closed
		q.waiting, q.lost = nil, 0
		q.mu.Unlock()
		last := len(lines)
		if lost > 0 {
			lines = append(lines, q.note(lost)...)
		}
		if n, err := q.to.Write(lines); err != nil {
			q.mu.Lock()
			q.lost += lost
			q.lose(lines[min(n, last):last])
			q.mu.Unlock()
		}
		if closed {
			return
		}
	}
}

// Close waits until everything has been written, but no longer than the given patience.
func (q *Queue) Close(patience time.Duration) {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.ring()
	select {
	case <-q.done:
	case <-time.After(patience):
	}
}
