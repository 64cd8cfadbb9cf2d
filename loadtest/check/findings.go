package check

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"example.com/marketdata/loadtest/client"
)

// Kind is a kind of wrong answer.
type Kind string

// The kinds of wrong answers.
const (
	Status   Kind = "status"   // another status than the interface's
	Headers  Kind = "headers"  // request id, entity tag, snapshot time, coding, type
	Envelope Kind = "envelope" // not the envelope, or not JSON
	Paging   Kind = "paging"   // page, total, total_page and the number of items do not fit
	Order    Kind = "order"    // items are not in the order that was asked
	Filter   Kind = "filter"   // an item that does not pass the filter
	Repeat   Kind = "repeat"   // one row at two places of a snapshot's listing
	Tag      Kind = "tag"      // equal entity tags for other bodies, or the reverse
	Oracle   Kind = "oracle"   // not the bytes that the snapshot gives
	Stream   Kind = "stream"   // a forbidden event on a stream
	Snapshot Kind = "snapshot" // the snapshot itself breaks the interface
)

// Finding is a kind of wrong answer with how many distinct ones there were and
// some of them.
type Finding struct {
	Kind     Kind      `json:"kind"`
	Count    uint64    `json:"count"`
	Examples []Example `json:"examples"`
}

// Moment is the time of an observation: At, and in a result the seconds from the
// start of the run.
type Moment struct {
	At  time.Time `json:"-" merge:"first"`
	AtS float64   `json:"at_s" merge:"min"`
}

// Example is one wrong answer.
type Example struct {
	Target   string `json:"target"`
	Snapshot string `json:"snapshot"`
	Status   int    `json:"status"`
	Detail   string `json:"detail"`
	Moment
}

const (
	maxExamples = 5
	maxDetail   = 2000 // bytes
)

type findings struct {
	mu    sync.Mutex
	kinds map[Kind]*Finding
	later atomic.Uint64
}

func (f *findings) add(k Kind, e Example) {
	if len(e.Detail) > maxDetail {
		e.Detail = e.Detail[:maxDetail] + "…"
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	fd := f.kinds[k]
	if fd == nil {
		fd = &Finding{Kind: k}
		f.kinds[k] = fd
	}
	fd.Count++
	if len(fd.Examples) < maxExamples {
		fd.Examples = append(fd.Examples, e)
	}
}

func (f *findings) list() []Finding {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []Finding
	for _, fd := range f.kinds {
		all = append(all, *fd)
	}
	slices.SortFunc(all, func(a, b Finding) int { return cmp.Compare(a.Kind, b.Kind) })
	return all
}

// wrong records a finding of a cheap check.
func (c *Checker) wrong(k Kind, target []byte, r *client.Response, format string, args ...any) {
	c.findings.add(k, Example{Target: string(target), Snapshot: string(r.Get("X-Snapshot-Time")), Status: r.Status,
		Detail: fmt.Sprintf(format, args...), Moment: Moment{At: time.Now()}})
}

// Swap is the first sight of a snapshot.
type Swap struct {
	Snapshot string `json:"snapshot"`
	Moment
}

// maxSwaps bounds the snapshots that a run distinguishes.
const maxSwaps = 10000

type swapList struct {
	latest atomic.Pointer[string]
	mu     sync.Mutex
	seen   []Swap
}

// add reports whether the snapshot is new.
func (l *swapList) add(s Swap) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.seen) >= maxSwaps || slices.ContainsFunc(l.seen, func(o Swap) bool { return o.Snapshot == s.Snapshot }) {
		return false
	}
	l.seen = append(l.seen, s)
	if latest := l.latest.Load(); latest == nil || s.Snapshot > *latest { // the format sorts as text
		l.latest.Store(&s.Snapshot)
	}
	return true
}

func (l *swapList) list() []Swap {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.seen)
}

// outdated reports whether two snapshots newer than pin were seen: only then
// may a pinned request be answered 410, since the one before the newest is
// always retained (INTERFACE.md, "Pinned paging").
func (l *swapList) outdated(pin string) bool {
	if pin == "" {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	newer := 0
	for _, s := range l.seen {
		if s.Snapshot > pin {
			newer++
		}
	}
	return newer >= 2
}

// Latest returns the newest snapshot seen, "" before the first.
func (c *Checker) Latest() string {
	if s := c.swaps.latest.Load(); s != nil {
		return *s
	}
	return ""
}

// Expect has the oracle look for a snapshot's manifest now, while the published one
// lists it: one that is withdrawn may be answered from when it no longer does.
func (c *Checker) Expect(snapshot string) {
	if c.oracle != nil {
		<-c.oracle.find(snapshot).ready
	}
}

// Announce makes a snapshot Latest, if it is the newest, before an answer names it.
func (c *Checker) Announce(snapshot string) { c.noteSnapshot(snapshot) }

// NoteChange has the oracle read the change record. It does so by itself when it
// examines an answer of /global, which is too late for one that was replaced by then.
func (c *Checker) NoteChange() {
	if c.oracle != nil {
		c.oracle.readChange()
	}
}

func (c *Checker) noteSnapshot(snapshot string) {
	if c.swaps.add(Swap{snapshot, Moment{At: time.Now()}}) && c.oracle != nil {
		c.oracle.find(snapshot)
	}
}
