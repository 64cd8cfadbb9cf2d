package check

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/internal/model"
	"example.com/marketdata/loadtest/client"
	"example.com/marketdata/loadtest/engine"
	"github.com/zeebo/xxh3"
)

// Expect is the kind of answer that a request must get.
type Expect uint8

const (
	// Any means that the expected answer is unknown. Under /openapi/v1/, the interface determines the correct
	// answer. For other paths, any status below 400 is correct.
	Any Expect = iota
	// Success means 200, or 304 for a conditional request.
	Success
	// BadRequest means that a parameter is invalid.
	BadRequest
	// Unauthorized means that the key is invalid. 429 is correct as well (INTERFACE.md, "Rate limits").
	Unauthorized
	// NotFound means that the path does not exist.
	NotFound
)

// Ask is a request. Its bytes belong to the caller and must be valid during Answer.
type Ask struct {
	// Target is the path and query, without the prefix of the base URL.
	Target []byte
	Head   bool
	Expect Expect
	// Pin, Tag, Accept and ID are the values of the header fields X-Snapshot-Time, If-None-Match,
	// Accept-Encoding and X-Request-Id, in this order. An empty value means that the field was not sent.
	Pin, Tag, Accept, ID []byte
}

// Config configures a Checker.
type Config struct {
	// Share is the share of the answers that are hashed and examined, 0 to 1.
	Share float64
	// Store is the store from which the oracle reads snapshots. If it is nil, there is no oracle.
	Store artifacts.Reader
	// MaxPending bounds the bytes of answers that wait for examination; 0 means 256 MiB.
	MaxPending int64
}

// Checker judges answers. It is safe for concurrent use.
type Checker struct {
	cfg     Config
	oracle  *judge // nil if there is no oracle
	seen    [64]seenShard
	ids     [64]idShard
	pending atomic.Int64 // bytes
	queue   chan *answer
	wake    chan struct{} // closed by Finish; workers then take no more breaks
	workers sync.WaitGroup
	limit   uint64 // Share as a bound for hashes

	checked, skipped, distinct, compared, uncompared atomic.Uint64
	done                                             atomic.Uint64 // examined

	tags     tagBook
	places   placeBook
	findings findings
	swaps    swapList
	policy   atomic.Pointer[string]
}

// seenShard records, by hash, which answers have been seen and whether they are wrong.
type seenShard struct {
	mu   sync.Mutex
	seen map[xxh3.Uint128]bool
}

type idShard struct {
	mu  sync.Mutex
	ids map[uint64]struct{}
}

const (
	maxSeen      = 4 << 20 // answers remembered
	maxIDs       = 1 << 18 // request ids remembered
	defaultBytes = 256 << 20
	queueLength  = 1 << 16
)

// New returns a Checker. The caller must call Finish.
func New(cfg Config) *Checker {
	if cfg.MaxPending == 0 {
		cfg.MaxPending = defaultBytes
	}
	c := &Checker{cfg: cfg, queue: make(chan *answer, queueLength), wake: make(chan struct{})}
	c.limit = uint64(cfg.Share * float64(1<<63))
	for i := range c.seen {
		c.seen[i].seen = map[xxh3.Uint128]bool{}
		c.ids[i].ids = map[uint64]struct{}{}
	}
	c.findings.kinds = map[Kind]*Finding{}
	if cfg.Store != nil {
		c.oracle = newJudge(cfg.Store)
	}
	c.workers.Go(c.work)
	return c
}

// Prepare reads the published snapshot for the oracle, so that a run does not begin with that work. Without
// an oracle it does nothing. If it fails, the oracle tries again when an answer names the snapshot.
func (c *Checker) Prepare() {
	if c.oracle != nil {
		c.oracle.prepare()
	}
}

// answer is a copy of an answer that waits for examination.
type answer struct {
	ask          string // the target
	head         bool
	expect       Expect
	pin, tag     string // as sent
	status       int
	snapshot     string // X-Snapshot-Time
	coding, etag string
	notFound     string
	ignored      string
	total        string // X-Total
	lastModified string
	length       string // Content-Length
	cacheControl string
	body         []byte
	key          xxh3.Uint128
	received     time.Time
}

// Session is the state of one connection in a Checker. It must not be used concurrently.
type Session struct {
	c      *Checker
	buf    []byte
	last   []byte // the last X-Snapshot-Time
	lastID []byte // the last X-Request-Id that the service generated
}

// Session returns a new Session.
func (c *Checker) Session() *Session { return &Session{c: c} }

var apiPrefix = []byte(model.Prefix)

// Answer judges the answer r to the request a.
func (s *Session) Answer(a *Ask, r *client.Response) engine.Verdict {
	c := s.c
	api := bytes.HasPrefix(a.Target, apiPrefix)
	v := s.status(a, r, api)
	if v != engine.OK || !api || c.cfg.Share == 0 {
		return v
	}
	if detail := s.headers(a, r); detail != "" {
		c.wrong(Headers, a.Target, r, "%s", detail)
		return engine.Wrong
	}
	snapshot := r.Get("X-Snapshot-Time")
	if len(snapshot) > 0 && !bytes.Equal(snapshot, s.last) {
		s.last = append(s.last[:0], snapshot...)
		c.noteSnapshot(string(snapshot))
	}
	if s.examine(a, r, snapshot) {
		return engine.Wrong
	}
	return engine.OK
}

// status checks whether the status is the expected one.
func (s *Session) status(a *Ask, r *client.Response, api bool) engine.Verdict {
	if r.Status == 429 && s.c.policy.Load() == nil {
		policy := string(r.Get("RateLimit-Policy"))
		s.c.policy.Store(&policy)
	}
	switch {
	case r.Status >= 500 || r.Status == 429 && a.Expect != Unauthorized || r.Status == 408:
		return engine.Unexpected
	case !api:
		if r.Status >= 400 {
			return engine.Unexpected
		}
		return engine.OK
	}
	want := 0
	switch a.Expect {
	case Any:
		if r.Status == 401 || r.Status == 403 {
			return engine.Unexpected
		}
		return engine.OK // the examination decides
	case Success:
		switch {
		case r.Status == 200 || r.Status == 304 && len(a.Tag) > 0:
			return engine.OK
		case r.Status == 401 || r.Status == 403:
			return engine.Unexpected // the caller's key is not valid
		case r.Status == 410 && s.c.swaps.outdated(string(a.Pin)):
			return engine.OK
		}
		want = 200
	case BadRequest:
		want = 400
	case Unauthorized:
		if r.Status == 429 {
			return engine.OK
		}
		want = 401
	case NotFound:
		want = 404
	}
	if r.Status == want {
		return engine.OK
	}
	if s.c.cfg.Share > 0 {
		s.c.wrong(Status, a.Target, r, "status %d, want %d", r.Status, want)
	}
	return engine.Wrong
}

// headers performs cheap checks of the header fields. It describes the first problem, or returns "" if there
// is none.
func (s *Session) headers(a *Ask, r *client.Response) string {
	id := r.Get("X-Request-Id")
	switch {
	case r.Count("X-Request-Id") != 1:
		return fmt.Sprintf("%d X-Request-Id headers", r.Count("X-Request-Id"))
	case len(a.ID) > 0:
		if !bytes.Equal(id, a.ID) {
			return fmt.Sprintf("X-Request-Id %q, was sent %q", id, a.ID)
		}
	case !validID(id):
		return fmt.Sprintf("X-Request-Id %q is not valid", id)
	case bytes.Equal(id, s.lastID), !s.c.newID(id):
		return fmt.Sprintf("X-Request-Id %q for the second time", id)
	default:
		s.lastID = append(s.lastID[:0], id...)
	}
	if r.Status != 200 && r.Status != 304 {
		return ""
	}
	tag := r.Get("ETag")
	if len(tag) < 2 || tag[0] != '"' || tag[len(tag)-1] != '"' {
		return fmt.Sprintf("ETag %q", tag)
	}
	if r.Status == 304 && len(a.Tag) > 0 && a.Tag[0] == '"' && !bytes.Equal(bareTag(tag), bareTag(a.Tag)) {
		return fmt.Sprintf("304 with ETag %s to If-None-Match %s", tag, a.Tag)
	}
	if pin := a.Pin; len(pin) > 0 && !bytes.Equal(r.Get("X-Snapshot-Time"), pin) {
		return fmt.Sprintf("X-Snapshot-Time %q, was asked for %q", r.Get("X-Snapshot-Time"), pin)
	}
	if r.Status == 304 {
		return ""
	}
	if coding := r.Get("Content-Encoding"); coding != nil && !bytes.Contains(a.Accept, coding) &&
		!bytes.Contains(a.Accept, []byte("*")) {
		return fmt.Sprintf("Content-Encoding %q, asked was %q", coding, a.Accept)
	}
	want := []byte("application/json")
	if path, _, _ := bytes.Cut(a.Target, []byte("?")); bytes.HasSuffix(path, []byte(".csv")) {
		want = []byte("text/csv; charset=utf-8; header=present")
	}
	if t := r.Get("Content-Type"); !bytes.HasPrefix(t, want) {
		return fmt.Sprintf("Content-Type %q", t)
	}
	return ""
}

// idBytes contains the bytes that a request id may consist of (INTERFACE.md, "Request ids").
var idBytes = func() (ok [256]bool) {
	for _, ch := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:=+/-") {
		ok[ch] = true
	}
	return ok
}()

// validID reports whether the service may generate id.
func validID(id []byte) bool {
	if len(id) < 20 || len(id) > 36 {
		return false
	}
	for _, ch := range id {
		if !idBytes[ch] {
			return false
		}
	}
	return true
}

// newID reports whether id is new, as far as the Checker remembers ids. It remembers one id in eight,
// selected by its value. So it still detects a service that repeats ids, at an eighth of the cost.
func (c *Checker) newID(id []byte) bool {
	h := xxh3.Hash(id)
	if h>>61 != 0 {
		return true
	}
	s := &c.ids[h%uint64(len(c.ids))]
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.ids[h]; ok {
		return false
	}
	if len(s.ids) < maxIDs/len(c.ids) {
		s.ids[h] = struct{}{}
	}
	return true
}

// bareTag removes the quotes and the name of the coding from an entity tag.
func bareTag(tag []byte) []byte {
	tag = bytes.Trim(bytes.TrimPrefix(tag, []byte("W/")), `"`)
	for _, coding := range []string{"-gzip", "-br", "-zstd"} {
		tag = bytes.TrimSuffix(tag, []byte(coding))
	}
	return tag
}

// examine enqueues an answer for examination if it is new. It reports whether the answer is known to be
// wrong.
func (s *Session) examine(a *Ask, r *client.Response, snapshot []byte) bool {
	c := s.c
	body := xxh3.Hash128(r.Body).Bytes()
	b := append(s.buf[:0], body[:]...)
	for _, part := range [][]byte{a.Target, a.Pin, snapshot, r.Get("Content-Encoding"), r.Get("ETag"),
		r.Get("X-Not-Found"), r.Get("X-Ignored"), r.Get("X-Total"), r.Get("Last-Modified"),
		r.Get("Content-Length")} {
		b = append(append(b, part...), 0)
	}
	head := byte(0)
	if a.Head {
		head = 1
	}
	b = append(b, byte(r.Status), byte(r.Status>>8), byte(a.Expect), head)
	if r.Status == 304 {
		b = append(b, a.Tag...)
	}
	s.buf = b
	key := xxh3.Hash128(b)
	if c.cfg.Share < 1 && key.Hi>>1 >= c.limit {
		c.skipped.Add(1)
		return false
	}
	c.checked.Add(1)
	shard := &c.seen[key.Lo%uint64(len(c.seen))]
	shard.mu.Lock()
	wrong, known := shard.seen[key]
	if !known && len(shard.seen) < maxSeen/len(c.seen) {
		shard.seen[key] = false
	}
	shard.mu.Unlock()
	if known {
		return wrong
	}
	c.distinct.Add(1)
	an := &answer{
		ask: string(a.Target), head: a.Head, expect: a.Expect, pin: string(a.Pin), tag: string(a.Tag),
		status: r.Status, snapshot: string(snapshot), coding: string(r.Get("Content-Encoding")),
		etag: string(r.Get("ETag")), notFound: string(r.Get("X-Not-Found")), ignored: string(r.Get("X-Ignored")),
		total:        string(r.Get("X-Total")),
		lastModified: string(r.Get("Last-Modified")), length: string(r.Get("Content-Length")),
		cacheControl: string(r.Get("Cache-Control")),
		key:          key, received: time.Now(),
	}
	size := int64(len(r.Body)) + 512
	if c.pending.Add(size) <= c.cfg.MaxPending {
		an.body = bytes.Clone(r.Body)
		select {
		case c.queue <- an:
			return false
		default:
		}
	}
	c.pending.Add(-size)
	an.body = r.Body
	return !c.judge(an)
}

// breaks is how long a worker rests after each examination during the run, as a multiple of the time that the
// examination took. So examinations take at most a quarter of a processor.
const breaks = 3

func (c *Checker) work() {
	for an := range c.queue {
		began := time.Now()
		if !c.judge(an) {
			c.findings.later.Add(1)
		}
		c.pending.Add(-int64(len(an.body)) - 512)
		c.done.Add(1)
		select {
		case <-c.wake:
		case <-time.After(breaks * time.Since(began)):
		}
	}
}

// judge examines an answer, and records what is wrong with it. It reports whether the answer is correct.
func (c *Checker) judge(an *answer) bool {
	kind, detail := c.examination(an)
	if detail == "" {
		return true
	}
	shard := &c.seen[an.key.Lo%uint64(len(c.seen))]
	shard.mu.Lock()
	if _, ok := shard.seen[an.key]; ok {
		shard.seen[an.key] = true
	}
	shard.mu.Unlock()
	c.findings.add(kind, Example{
		Target: an.ask, Snapshot: an.snapshot, Status: an.status, Detail: detail, Moment: Moment{At: an.received}})
	return false
}

// Wrong returns the number of wrong answers that were found after the engine had counted them as answered.
func (c *Checker) Wrong() uint64 { return c.findings.later.Load() }

// Policy returns the RateLimit-Policy of the first answer with status 429, or "" if there was none.
func (c *Checker) Policy() string {
	if p := c.policy.Load(); p != nil {
		return *p
	}
	return ""
}

// Report contains the findings of a Checker, as run.json stores them.
type Report struct {
	// Checked is the number of answers that were hashed, and Skipped the number of answers that were not
	// hashed because of Share. Distinct is the number of distinct answers; each was examined once.
	Checked  uint64 `json:"checked"`
	Skipped  uint64 `json:"skipped"`
	Distinct uint64 `json:"distinct"`
	// Compared is the number of distinct answers that were compared with the oracle's. Uncompared is the
	// number of distinct answers whose snapshot could not be read, or that were not examined.
	Compared   uint64 `json:"compared"`
	Uncompared uint64 `json:"uncompared"`
	// Wrong is the number of wrong answers. In the report of Finish, it counts only the wrong answers that
	// were found after the engine had counted them as answered. In the result of a run, it counts all of
	// them.
	Wrong uint64 `json:"wrong"`
	// OracleError is the reason why snapshots could not be read, or "".
	OracleError string    `json:"oracle_error,omitempty"`
	Findings    []Finding `json:"findings"`
	Swaps       []Swap    `json:"-"`
}

// Finish examines the remaining answers and returns the report. Answer must not be called during or after
// Finish. If progress is not nil, Finish calls it a few times a second with the number of answers that
// remain. When ctx is done, the rest remains unexamined and counts as Uncompared.
func (c *Checker) Finish(ctx context.Context, progress func(left int)) *Report {
	close(c.wake)
	close(c.queue)
	finished := make(chan struct{})
	go func() {
		c.workers.Wait()
		close(finished)
	}()
	t := time.NewTicker(200 * time.Millisecond)
	defer t.Stop()
	for left := true; left; {
		select {
		case <-finished:
			left = false
		case <-t.C:
			if progress != nil {
				progress(len(c.queue))
			}
		case <-ctx.Done():
			for range c.queue { // the worker ends when the queue is closed
				c.uncompared.Add(1)
			}
			<-finished
			left = false
		}
	}
	rep := &Report{
		Checked: c.checked.Load(), Skipped: c.skipped.Load(), Distinct: c.distinct.Load(), Compared: c.compared.Load(),
		Uncompared: c.uncompared.Load(),
		Wrong:      c.findings.later.Load(), Findings: c.findings.list(), Swaps: c.swaps.list(),
	}
	if c.oracle != nil {
		c.oracle.close()
		rep.OracleError = c.oracle.trouble()
	}
	return rep
}
