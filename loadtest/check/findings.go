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
	Status   Kind = "status"   // the status differs from the interface
	Headers  Kind = "headers"  // request id, entity tag, snapshot time, coding, type
	Envelope Kind = "envelope" // not an envelope, or not JSON
	Paging   Kind = "paging"   // page, total, total_page and the number of items disagree
	Order    Kind = "order"    // items are not in the requested order
	Filter   Kind = "filter"   // an item does not match the filter
	Repeat   Kind = "repeat"   // a row has two positions in a snapshot's listing
	Tag      Kind = "tag"      // different bodies have equal entity tags, or equal bodies have different ones
	Oracle   Kind = "oracle"   // the bytes differ from the answer that the oracle computes
	Stream   Kind = "stream"   // a stream sent a forbidden event
	Snapshot Kind = "snapshot" // the snapshot itself violates the interface
)

// Finding is a kind of wrong answer, with the number of distinct ones and a few examples.
type Finding struct {
	Kind     Kind      `json:"kind"`
	Count    uint64    `json:"count"`
	Examples []Example `json:"examples"`
}

// Moment is the time of an observation. In a result it also contains the seconds since the start of the run.
type Moment struct {
	At  time.Time `json:"-" merge:"first"`
	AtS float64   `json:"at_s" merge:"min"`
}

// Example is a wrong answer.
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

// Swap is the first observation of a snapshot.
type Swap struct {
	Snapshot string `json:"snapshot"`
	Moment
}

// maxSwaps bounds the number of snapshots that a run distinguishes.
const maxSwaps = 10000

type swapList struct {
	latest atomic.Pointer[string]
	mu     sync.Mutex
	seen   []Swap
}

// add records a snapshot if it is new, and reports whether it did.
func (l *swapList) add(s Swap) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.seen) >= maxSwaps || slices.ContainsFunc(l.seen, func(o Swap) bool { return o.Snapshot == s.Snapshot }) {
		return false
	}
	l.seen = append(l.seen, s)
	if latest := l.latest.Load(); latest == nil || s.Snapshot > *latest { // times in this format sort as text
		l.latest.Store(&s.Snapshot)
	}
	return true
}

func (l *swapList) list() []Swap {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.seen)
}

// outdated reports whether at least two snapshots newer than pin were seen. Only then may the answer to the
// pinned request be 410, because the snapshot before the newest is always retained (INTERFACE.md, "Pinned
// paging").
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

// Latest returns the newest snapshot seen, or "" before the first.
func (c *Checker) Latest() string {
	if s := c.swaps.latest.Load(); s != nil {
		return *s
	}
	return ""
}

// Expect makes the oracle look for the manifest of a snapshot now, while the published manifest lists it. An
// edge may still answer from a withdrawn snapshot when it is no longer listed.
func (c *Checker) Expect(snapshot string) {
	if c.oracle != nil {
		<-c.oracle.find(snapshot).ready
	}
}

// Announce makes Latest return the given snapshot if it is the newest, before any answer names it.
func (c *Checker) Announce(snapshot string) { c.noteSnapshot(snapshot) }

// NoteChange makes the oracle read the change record. The oracle also reads it when it examines an answer of
// /global, but by then the record may have been replaced.
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
