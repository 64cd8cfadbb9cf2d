package check

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/internal/model"
	"example.com/marketdata/loadtest/oracle"
)

// judge contains the oracle's snapshots and change records.
type judge struct {
	store  artifacts.Reader
	ctx    context.Context // for all reads; close cancels it
	cancel context.CancelFunc
	finds  sync.WaitGroup

	mu        sync.Mutex
	manifests map[string]*manifestEntry
	loaded    []*loaded // least recently used first
	changes   []*model.Change
	err       error // the first error
}

// manifestEntry is the search for the manifest of a snapshot, and its result.
type manifestEntry struct {
	ready chan struct{}
	m     *artifacts.Manifest
	err   error
}

type loaded struct {
	snapshot string
	once     sync.Once
	s        *oracle.Snapshot
	err      error
}

const (
	maxLoaded  = 4  // decoded snapshots in memory
	maxChanges = 64 // the number of change records remembered
	findTries  = 3
)

func newJudge(store artifacts.Reader) *judge {
	j := &judge{store: store, manifests: map[string]*manifestEntry{}}
	j.ctx, j.cancel = context.WithCancel(context.Background())
	j.readChange() // an edge may still use this record for a while after it has been replaced
	return j
}

func (j *judge) close() {
	j.cancel()
	j.finds.Wait()
}

func (j *judge) fail(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err == nil {
		j.err = err
	}
}

func (j *judge) trouble() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err == nil {
		return ""
	}
	return j.err.Error()
}

// find starts to look for the manifest of a snapshot. This happens when the snapshot is first seen, long
// before its examination, because later the published manifest may no longer list it.
func (j *judge) find(snapshot string) *manifestEntry {
	j.mu.Lock()
	defer j.mu.Unlock()
	if e := j.manifests[snapshot]; e != nil {
		return e
	}
	e := &manifestEntry{ready: make(chan struct{})}
	j.manifests[snapshot] = e
	j.finds.Go(func() {
		defer close(e.ready)
		t, err := time.Parse(model.TimeFormat, snapshot)
		if err != nil {
			e.err = err
			return
		}
		for try := range findTries {
			if try > 0 {
				select {
				case <-time.After(100 * time.Millisecond << try):
				case <-j.ctx.Done():
				}
			}
			if e.m, e.err = oracle.FindManifest(j.ctx, j.store, t); e.err == nil || j.ctx.Err() != nil {
				return
			}
		}
	})
	return e
}

// snapshot returns a decoded snapshot.
func (j *judge) snapshot(name string) (*oracle.Snapshot, error) {
	e := j.find(name)
	<-e.ready
	if e.err != nil {
		return nil, e.err
	}
	j.mu.Lock()
	i := slices.IndexFunc(j.loaded, func(l *loaded) bool { return l.snapshot == name })
	var l *loaded
	if i >= 0 {
		l = j.loaded[i]
		j.loaded = append(slices.Delete(j.loaded, i, i+1), l)
	} else {
		l = &loaded{snapshot: name}
		if len(j.loaded) >= maxLoaded {
			j.loaded = slices.Delete(j.loaded, 0, 1)
		}
		j.loaded = append(j.loaded, l)
	}
	j.mu.Unlock()
	l.once.Do(func() { l.s, l.err = oracle.Load(j.ctx, j.store, e.m) })
	return l.s, l.err
}

// prepare loads the published snapshot.
func (j *judge) prepare() {
	// If there is an error, the first answer reports it again.
	if p, err := oracle.Published(j.ctx, j.store); err == nil {
		_, _ = j.snapshot(p.Time.Format(model.TimeFormat))
	}
}

// readChange reads the change record and remembers it.
func (j *judge) readChange() {
	c, err := oracle.GetChange(j.ctx, j.store)
	if err != nil {
		j.fail(err)
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	same := func(o *model.Change) bool {
		return (o == nil) == (c == nil) && (o == nil || o.Value == c.Value && o.Database == c.Database)
	}
	if slices.ContainsFunc(j.changes, same) {
		return
	}
	if len(j.changes) == maxChanges {
		j.changes = slices.Delete(j.changes, 0, 1)
	}
	j.changes = append(j.changes, c)
}

// bodies returns the correct answers to a query. For /global there is one for each change record, because an
// edge reads a new record with some delay.
func (j *judge) bodies(s *oracle.Snapshot, q *model.Query) []model.Answer {
	if q.Endpoint != "global" {
		return []model.Answer{s.Answer(q, nil)}
	}
	j.readChange()
	j.mu.Lock()
	changes := slices.Clone(j.changes)
	j.mu.Unlock()
	var all []model.Answer
	for _, c := range changes {
		all = append(all, s.Answer(q, c))
	}
	return all
}

// compare compares a successful answer with the oracle's. ok is false if the snapshot could not be read.
func (c *Checker) compare(an *answer, q *model.Query, plain []byte) (kind Kind, detail string, ok bool) {
	s, err := c.oracle.snapshot(an.snapshot)
	if err != nil {
		c.uncompared.Add(1)
		if !errors.Is(err, context.Canceled) {
			c.oracle.fail(fmt.Errorf("snapshot %s: %w", an.snapshot, err))
		}
		return "", "", false
	}
	c.compared.Add(1)
	answers := c.oracle.bodies(s, q)
	if faults := s.Faults(); len(faults) > 0 {
		return Snapshot, faults[0], true
	}
	if len(answers) == 0 {
		return "", "", false
	}
	if an.status == 304 {
		return c.compareTag(an, answers)
	}
	same := func(a model.Answer) bool {
		if an.head {
			return an.coding != "" || an.length == strconv.Itoa(len(a.Body))
		}
		return a.Body == string(plain)
	}
	i := slices.IndexFunc(answers, same)
	switch want := answers[0].Body; {
	case i < 0 && an.head:
		return Oracle, fmt.Sprintf("HEAD with Content-Length %s, the body has %d bytes", an.length, len(want)), true
	case i < 0:
		return Oracle, "body " + model.Difference(string(plain), want), true
	}
	want := answers[i]
	if an.notFound != want.NotFound {
		return Oracle, fmt.Sprintf("X-Not-Found %q, want %q", an.notFound, want.NotFound), true
	}
	if an.total != want.Total {
		return Oracle, fmt.Sprintf("X-Total %q, want %q", an.total, want.Total), true
	}
	if modified := s.Time.Format("Mon, 02 Jan 2006 15:04:05 GMT"); an.lastModified != modified &&
		q.Endpoint != "global" && an.lastModified != "" {
		return Headers, fmt.Sprintf("Last-Modified %q, want %q", an.lastModified, modified), true
	}
	return "", "", true
}

// compareTag checks that the tag of a 304 belongs to a body that the oracle computed.
func (c *Checker) compareTag(an *answer, answers []model.Answer) (Kind, string, bool) {
	known, ok := c.tags.bodyOf(an.etag)
	if !ok || slices.ContainsFunc(answers, func(a model.Answer) bool { return bodyHash([]byte(a.Body)) == known }) {
		return "", "", true
	}
	return Oracle, fmt.Sprintf("304 with ETag %s, which stands for another body than the snapshot's", an.etag), true
}
