package engine

import (
	"cmp"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"example.com/marketdata/loadtest/client"
	"github.com/HdrHistogram/hdrhistogram-go"
)

// NewHistogram returns a histogram for nanoseconds with three significant digits, from 0.1 µs to ten minutes.
// Longer times count as ten minutes.
func NewHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(100, int64(maxLatency), 3)
}

const maxLatency = 10 * time.Minute

// Record adds a time to a histogram that NewHistogram has made. Negative times count as 0.
func Record(h *hdrhistogram.Histogram, d time.Duration) {
	// The time is within the range, so there is no error.
	_ = h.RecordValue(int64(min(max(d, 0), maxLatency)))
}

// Failure is the reason why a request got no correct answer.
type Failure string

// The failures of a request. The first five correspond to the errors of package client. FailStatus is an
// answer that reports a failure of the service.
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

// ClassResult contains the figures of a kind of request.
type ClassResult struct {
	Name     string
	Sent     uint64
	Failures map[Failure]uint64
	Statuses map[int]uint64
	// Due and Service are the latencies in nanoseconds, from when a request was due and from when it was
	// sent. They include all answers except Unexpected ones. They also include requests that timed out, with
	// the time until the timeout, because a server that leaves some requests unanswered would otherwise look
	// better.
	Due, Service *hdrhistogram.Histogram
}

// Interval is a part of a run, usually a second, including the warm-up. An answer counts in the interval in
// which it arrived.
type Interval struct {
	Start, End time.Duration
	Sent       uint64 // requests that were sent and are finished, with any outcome
	Answered   uint64 // those of them that got a correct answer
	Failed     uint64
	Limited    uint64 // those of them that were answered with 429
	Read       uint64 // bytes
	Due        *hdrhistogram.Histogram
	// LagP99 is the p99 of the send lag. For an interval of several seconds, it is the largest of the p99s of
	// the individual seconds.
	LagP99 time.Duration
	// CPU is the processor time that the process used, as a share of the time that it may use.
	CPU float64
	// Classes contains the counts since the end of the warm-up, without latencies. Err is the reason why one
	// of the interval's requests got no answer, or nil. Both are only available during Config.Tick.
	Classes []ClassResult
	Err     error
}

// Result contains the figures of a run. Requests of the warm-up count only in Intervals.
type Result struct {
	Start time.Time
	// Length is how long requests were due or sent. It is the length of the schedule without the warm-up, or
	// less if the run was interrupted.
	Length time.Duration
	// Asked counts the requests that were due. InTime counts the requests that were sent before the end of the
	// schedule, Unsent those that were never sent, and Waited those that found no free connection when they
	// were due.
	Asked, InTime, Unsent, Waited uint64
	// Retried is the number of requests that were sent again after their connection had been closed.
	Retried     uint64
	Connections uint64 // the number of connections opened
	Classes     []ClassResult
	Lag         *hdrhistogram.Histogram
	Connect     *hdrhistogram.Histogram
	Read        uint64 // bytes
	Written     uint64
	Intervals   []*Interval
	// CPU is the processor time that the process used, and CPUs is the number of processors that it may use.
	CPU         time.Duration
	CPUs        float64
	Wall        time.Duration // the time over which CPU was measured
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

// recorder keeps the figures in several shards, so that workers rarely wait for each other.
type recorder struct {
	shards  []*shard
	given   atomic.Uint32
	classes []string

	mu                    sync.Mutex // guards all fields below
	asked, unsent, waited uint64
	intervals             []*Interval
	next                  []*window // one for each shard
	started               time.Time
	cpu0, cpuLast         time.Duration
	last                  time.Duration
}

// window contains a shard's records of the current interval.
type window struct {
	sent, answered, failed, limited, read uint64
	due, lag                              *hdrhistogram.Histogram
	err                                   error
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
	w.limited += o.limited
	w.err = cmp.Or(w.err, o.err)
	w.read += o.read
	w.due.Merge(o.due)
	w.lag.Merge(o.lag)
}

// shard contains the figures of some of the workers.
type shard struct {
	mu            sync.Mutex // guards all fields below
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

// shard returns the shard for a new worker.
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

// record records an outcome. scheduleEnd is the end of the schedule. warmedUp is false for requests of the
// warm-up, which count only in their intervals.
func (s *shard) record(o *outcome, scheduleEnd time.Duration, warmedUp bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	measured := o.err == nil && o.verdict != Unexpected || o.err != nil && failureOf(o.err) == FailTimeout
	w := s.now
	w.sent++
	w.read += uint64(o.read)
	Record(w.lag, o.sent-o.due)
	if o.err != nil || o.verdict != OK {
		w.failed++
	} else {
		w.answered++
	}
	if o.status == 429 {
		w.limited++
	}
	w.err = cmp.Or(w.err, o.err)
	if measured {
		Record(w.due, o.done-o.due)
	}
	if warmedUp {
		s.count(o, scheduleEnd, measured)
	}
}

// count adds an outcome to the figures of the run. The caller must hold mu.
func (s *shard) count(o *outcome, scheduleEnd time.Duration, measured bool) {
	c := &s.classes[o.class]
	c.sent++
	if o.sent <= scheduleEnd {
		s.inTime++
	}
	if o.retried {
		s.retried++
	}
	s.read += uint64(o.read)
	s.written += uint64(o.written)
	Record(s.lag, o.sent-o.due)
	switch {
	case o.err != nil:
		c.failures[failureOf(o.err)]++
	case o.verdict == Unexpected:
		c.failures[FailStatus]++
	case o.verdict == Wrong:
		c.failures[FailWrong]++
	}
	if o.err == nil {
		c.statuses[min(o.status, len(c.statuses)-1)]++
	}
	if measured {
		Record(c.due, o.done-o.due)
		Record(c.service, o.done-o.sent)
	}
}

// cut ends the current interval and returns it.
func (r *recorder) cut(now time.Duration, cpus float64) *Interval {
	r.mu.Lock()
	defer r.mu.Unlock()
	sum := newWindow()
	for i, s := range r.shards {
		// Merging under the lock would take long enough to affect the send lag. So give the shard its other
		// window, and read this one without the lock.
		s.mu.Lock()
		full := s.now
		s.now = r.next[i]
		s.mu.Unlock()
		sum.add(full)
		full.reset()
		r.next[i] = full
	}
	iv := &Interval{Start: r.last, End: now, Sent: sum.sent, Answered: sum.answered, Failed: sum.failed,
		Limited: sum.limited, Read: sum.read, Due: sum.due, Err: sum.err}
	iv.LagP99 = time.Duration(sum.lag.ValueAtQuantile(99))
	cpu := cpuTime()
	if cpus > 0 && now > r.last {
		iv.CPU = float64(cpu-r.cpuLast) / float64(now-r.last) / cpus
	}
	r.cpuLast, r.last = cpu, now
	return iv
}

// keep adds an interval to the series as a new element, or else merges it into the last one. It does not
// change iv, because Tick may have kept it.
func (r *recorder) keep(iv *Interval, begin bool) {
	if begin {
		kept := *iv
		kept.Classes, kept.Err = nil, nil
		r.intervals = append(r.intervals, &kept)
		return
	}
	last := r.intervals[len(r.intervals)-1]
	due := NewHistogram()
	due.Merge(last.Due)
	due.Merge(iv.Due)
	was, is := float64(last.End-last.Start), float64(iv.End-iv.Start)
	last.CPU = (last.CPU*was + iv.CPU*is) / max(was+is, 1)
	last.End, last.Due, last.LagP99 = iv.End, due, max(last.LagP99, iv.LagP99)
	last.Sent += iv.Sent
	last.Answered += iv.Answered
	last.Failed += iv.Failed
	last.Limited += iv.Limited
	last.Read += iv.Read
}

// counts returns the figures of each class, without latencies.
func (r *recorder) counts() []ClassResult {
	out := make([]ClassResult, len(r.classes))
	for i, name := range r.classes {
		out[i] = ClassResult{Name: name, Failures: map[Failure]uint64{}, Statuses: map[int]uint64{}}
	}
	for _, s := range r.shards {
		s.mu.Lock()
		for i := range s.classes {
			from, c := &s.classes[i], &out[i]
			c.Sent += from.sent
			for f, n := range from.failures {
				c.Failures[f] += n
			}
			for status, n := range from.statuses {
				if n > 0 {
					c.Statuses[status] += n
				}
			}
		}
		s.mu.Unlock()
	}
	return out
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
	out.Classes = rec.counts()
	for i := range out.Classes {
		c := &out.Classes[i]
		c.Due, c.Service = NewHistogram(), NewHistogram()
		for _, s := range rec.shards {
			c.Due.Merge(s.classes[i].due)
			c.Service.Merge(s.classes[i].service)
		}
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
