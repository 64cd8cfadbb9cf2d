package engine

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"example.com/marketdata/loadtest/client"
	"github.com/HdrHistogram/hdrhistogram-go"
)

// NewHistogram returns a histogram as this package fills them: nanoseconds, to
// three significant digits, from 0.1 µs to ten minutes. Longer times count as
// ten minutes.
func NewHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(100, int64(maxLatency), 3)
}

const maxLatency = 10 * time.Minute

// Record adds a time to a histogram of NewHistogram; less than 0 counts as 0.
func Record(h *hdrhistogram.Histogram, d time.Duration) {
	// Within the range by now, so there is no error.
	_ = h.RecordValue(int64(min(max(d, 0), maxLatency)))
}

// Failure is the reason why a request has no proper answer.
type Failure string

// The failures of a request. The first five are those of the client package;
// status is an answer that says that the service failed.
const (
	FailConnect   Failure = "connect"
	FailTimeout   Failure = "timeout"
	FailClosed    Failure = "closed"
	FailMalformed Failure = "malformed"
	FailTooLarge  Failure = "too_large"
	FailStatus    Failure = "status"
	FailWrong     Failure = "wrong"
	FailUnsent    Failure = "unsent"
)

func failureOf(err error) Failure {
	switch {
	case errors.Is(err, client.ErrTimeout):
		return FailTimeout
	case errors.Is(err, client.ErrConnect):
		return FailConnect
	case errors.Is(err, client.ErrMalformed):
		return FailMalformed
	case errors.Is(err, client.ErrTooLarge):
		return FailTooLarge
	}
	return FailClosed
}

// ClassResult holds the figures of one kind of request.
type ClassResult struct {
	Name     string
	Sent     uint64
	Failures map[Failure]uint64
	Statuses map[int]uint64
	// Due and Service are the latencies in nanoseconds from when a request was due and from when it
	// was sent. They hold the answers that were not Unexpected, and the requests that timed out, at
	// the time they were given up: leaving those out would flatter a server that never answers
	// some.
	Due, Service *hdrhistogram.Histogram
}

// Interval is a stretch of a run, usually a second. Answers count in the
// interval in which they arrived.
type Interval struct {
	Start, End time.Duration
	Sent       uint64 // requests sent and done with, whatever came of it
	Answered   uint64 // of these, with an answer as it should be
	Failed     uint64
	Read       uint64 // bytes
	Due        *hdrhistogram.Histogram
	LagP99     time.Duration
	// CPU is the share that the process itself took of what it may use.
	CPU float64
}

// Result holds the figures of a run. Requests of the warm-up count in none of them
// but Intervals.
type Result struct {
	Start time.Time
	// Length is how long requests were due, or sent: the schedule's length
	// without warm-up, less when the run was interrupted.
	Length time.Duration
	// Asked counts the requests that were due. InTime are those that were sent
	// before the schedule's end, Unsent those that never were, and Waited those
	// for which there was no free connection when they were due.
	Asked, InTime, Unsent, Waited uint64
	// Retried requests were sent again after their connection had been closed.
	Retried     uint64
	Connections uint64 // opened
	Classes     []ClassResult
	Lag         *hdrhistogram.Histogram
	Connect     *hdrhistogram.Histogram
	Read        uint64 // bytes
	Written     uint64
	Intervals   []*Interval
	// CPU is the processor time that the process took, and CPUs how many
	// processors it may use.
	CPU         time.Duration
	CPUs        float64
	Wall        time.Duration // of CPU
	Interrupted bool
}

// outcome is the outcome of a request.
type outcome struct {
	class           int
	due, sent, done time.Duration
	status          int
	read, written   int
	retried         bool
	verdict         Verdict
	err             error
}

// recorder keeps the figures in several shards, so that workers rarely wait for
// each other.
type recorder struct {
	shards  []*shard
	given   atomic.Uint32
	classes []string

	mu                    sync.Mutex // the rest
	asked, unsent, waited uint64
	intervals             []*Interval
	next                  []*window // one a shard
	started               time.Time
	cpu0, cpuLast         time.Duration
	last                  time.Duration
}

// window holds a shard's records of the current interval.
type window struct {
	sent, answered, failed, read uint64
	due, lag                     *hdrhistogram.Histogram
}

func newWindow() *window { return &window{due: NewHistogram(), lag: NewHistogram()} }

func (w *window) reset() {
	due, lag := w.due, w.lag
	due.Reset()
	lag.Reset()
	*w = window{due: due, lag: lag}
}

func (w *window) add(o *window) {
	w.sent += o.sent
	w.answered += o.answered
	w.failed += o.failed
	w.read += o.read
	w.due.Merge(o.due)
	w.lag.Merge(o.lag)
}

// shard is the figures of some of the workers.
type shard struct {
	mu            sync.Mutex // all below
	now           *window
	classes       []classShard
	lag, connect  *hdrhistogram.Histogram
	inTime        uint64
	retried       uint64
	connections   uint64
	read, written uint64
}

type classShard struct {
	sent         uint64
	failures     map[Failure]uint64
	statuses     [600]uint64
	due, service *hdrhistogram.Histogram
}

func newRecorder(classes []string) *recorder {
	r := &recorder{classes: classes, started: time.Now()}
	r.cpu0 = cpuTime()
	r.cpuLast = r.cpu0
	for range min(8, runtime.GOMAXPROCS(0)) {
		s := &shard{
			now: newWindow(), lag: NewHistogram(), connect: NewHistogram(), classes: make([]classShard, len(classes))}
		for i := range s.classes {
			s.classes[i] = classShard{failures: map[Failure]uint64{}, due: NewHistogram(), service: NewHistogram()}
		}
		r.shards = append(r.shards, s)
		r.next = append(r.next, newWindow())
	}
	return r
}

// shard returns the shard for one more worker.
func (r *recorder) shard() *shard {
	return r.shards[int(r.given.Add(1)-1)%len(r.shards)]
}

func (r *recorder) dispatched(asked, unsent, waited uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked += asked
	r.unsent += unsent
	r.waited += waited
}

func (s *shard) opened(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.connections++
	Record(s.connect, d)
}

// record records an outcome; length is when the schedule ends.
func (s *shard) record(o *outcome, length time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, w := &s.classes[o.class], s.now
	c.sent++
	w.sent++
	if o.sent <= length {
		s.inTime++
	}
	if o.retried {
		s.retried++
	}
	s.read += uint64(o.read)
	s.written += uint64(o.written)
	w.read += uint64(o.read)
	Record(s.lag, o.sent-o.due)
	Record(w.lag, o.sent-o.due)
	measured := true
	switch {
	case o.err != nil:
		f := failureOf(o.err)
		c.failures[f]++
		measured = f == FailTimeout
	case o.verdict == Unexpected:
		c.failures[FailStatus]++
		measured = false
	case o.verdict == Wrong:
		c.failures[FailWrong]++
	}
	if o.err == nil {
		c.statuses[min(o.status, len(c.statuses)-1)]++
	}
	if o.err != nil || o.verdict != OK {
		w.failed++
	} else {
		w.answered++
	}
	if measured {
		Record(c.due, o.done-o.due)
		Record(c.service, o.done-o.sent)
		Record(w.due, o.done-o.due)
	}
}

// cut ends the current interval.
func (r *recorder) cut(now time.Duration, cpus float64) *Interval {
	r.mu.Lock()
	defer r.mu.Unlock()
	sum := newWindow()
	for i, s := range r.shards {
		// Merging takes long enough to show in the send lag, so the shard gets
		// the other window, and its own is read without a lock.
		s.mu.Lock()
		full := s.now
		s.now = r.next[i]
		s.mu.Unlock()
		sum.add(full)
		full.reset()
		r.next[i] = full
	}
	iv := &Interval{Start: r.last, End: now, Sent: sum.sent, Answered: sum.answered, Failed: sum.failed, Read: sum.read,
		Due: sum.due}
	iv.LagP99 = time.Duration(sum.lag.ValueAtQuantile(99))
	cpu := cpuTime()
	if cpus > 0 && now > r.last {
		iv.CPU = float64(cpu-r.cpuLast) / float64(now-r.last) / cpus
	}
	r.cpuLast, r.last = cpu, now
	r.intervals = append(r.intervals, iv)
	return iv
}

func (r *run) result(interrupted bool) *Result {
	rec := r.rec
	end := r.length
	if interrupted {
		end = min(r.now(), end)
	}
	out := &Result{
		Start: r.start, Length: max(0, end-r.cfg.Warmup), Asked: rec.asked, Unsent: rec.unsent, Waited: rec.waited,
		Lag: NewHistogram(), Connect: NewHistogram(), Intervals: rec.intervals,
		CPU: rec.cpuLast - rec.cpu0, CPUs: usableCPUs(), Wall: time.Since(rec.started), Interrupted: interrupted,
	}
	for i, name := range rec.classes {
		c := ClassResult{Name: name, Failures: map[Failure]uint64{}, Statuses: map[int]uint64{}, Due: NewHistogram(),
			Service: NewHistogram()}
		for _, s := range rec.shards {
			from := &s.classes[i]
			c.Sent += from.sent
			for f, n := range from.failures {
				c.Failures[f] += n
			}
			for status, n := range from.statuses {
				if n > 0 {
					c.Statuses[status] += n
				}
			}
			c.Due.Merge(from.due)
			c.Service.Merge(from.service)
		}
		out.Classes = append(out.Classes, c)
	}
	for _, s := range rec.shards {
		out.InTime += s.inTime
		out.Retried += s.retried
		out.Connections += s.connections
		out.Read += s.read
		out.Written += s.written
		out.Lag.Merge(s.lag)
		out.Connect.Merge(s.connect)
	}
	if len(r.cfg.Stages) == 0 {
		out.Asked = out.InTime
	}
	return out
}
