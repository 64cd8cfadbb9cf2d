package artifacts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// CheckReport says what Check has read.
type CheckReport struct {
	// Snapshot is the published snapshot's time; empty before the first.
	Snapshot  string `json:"snapshot"`
	Sequence  uint64 `json:"sequence"`
	Snapshots int    `json:"snapshots"`
	Objects   int    `json:"objects"`
	Bytes     int64  `json:"bytes"`
	Rows      int64  `json:"rows"`
	// Problems are what is wrong, at most maxProblems of them.
	Problems []string `json:"problems"`
}

const maxProblems = 100

// Progress is told how many of the objects known so far were read.
type Progress func(done, total int)

// Check walks from the pointer to everything that it reaches (the published
// snapshot, the retained ones, their ledgers), and verifies each object: length
// and digest, index, shards, row and run counts, order, that rows are JSON and
// stand alike in every view of a collection. It reads each object once. The
// error is non-nil when the store could not be asked; what is wrong with what
// it answered is in the report. A store without a snapshot is fine.
func Check(ctx context.Context, r Reader, progress Progress) (*CheckReport, error) {
	c := &checker{r: r, seen: map[Digest]bool{}, report: &CheckReport{Problems: []string{}}, progress: progress}
	err := c.run(ctx)
	return c.report, err
}

type checker struct {
	r        Reader
	seen     map[Digest]bool
	report   *CheckReport
	progress Progress
	known    int
}

func (c *checker) problem(format string, args ...any) {
	if len(c.report.Problems) < maxProblems {
		c.report.Problems = append(c.report.Problems, fmt.Sprintf(format, args...))
	}
}

// isAnswer reports whether err is something the store said of an object, as
// against a store that could not be asked.
func isAnswer(err error) bool {
	return errors.Is(err, ErrNotFound) || errors.Is(err, ErrCorrupt) || errors.Is(err, ErrTooLarge) || errors.Is(err, ErrFormat) ||
		errors.Is(err, ErrSignature)
}

func (c *checker) run(ctx context.Context) error {
	b, _, err := c.r.Get(ctx, CurrentKey, MaxPointerSize)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	var p *Pointer
	if err == nil {
		p, err = ParsePointer(b)
	}
	if err != nil {
		return c.refuse("pointer", err)
	}
	c.report.Snapshot, c.report.Sequence = p.Time.Format("2006-01-02T15:04:05Z"), p.Sequence
	m, err := c.manifest(ctx, Retained{Time: p.Time, Manifest: p.Manifest})
	if err != nil || m == nil {
		return err
	}
	all := []*Manifest{m}
	for i, ret := range m.Retained {
		if last := m.Time; !ret.Time.Before(last) || i > 0 && !ret.Time.Before(m.Retained[i-1].Time) {
			c.problem("manifest of %v: retained %v does not follow", m.Time, ret.Time)
		}
		old, err := c.manifest(ctx, ret)
		if err != nil {
			return err
		}
		if old != nil {
			all = append(all, old)
		}
	}
	for _, m := range all {
		for i := range m.Views {
			c.known += len(m.Views[i].Objects)
		}
	}
	for _, m := range all {
		if err := c.snapshot(ctx, m); err != nil {
			return err
		}
	}
	return c.small(ctx)
}

// refuse turns what the store said into a problem; anything else is returned.
func (c *checker) refuse(what string, err error) error {
	if isAnswer(err) {
		c.problem("%s: %v", what, err)
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// small checks change and keys, which may be absent.
func (c *checker) small(ctx context.Context) error {
	b, _, err := c.r.Get(ctx, ChangeKey, MaxPointerSize)
	if err == nil {
		_, err = ParseChange(b)
	}
	if err != nil && !errors.Is(err, ErrNotFound) {
		if err := c.refuse("change record", err); err != nil {
			return err
		}
	}
	if b, _, err = c.r.Get(ctx, KeysKey, MaxKeySetSize); err == nil {
		_, err = ParseKeySet(b)
	}
	if err != nil && !errors.Is(err, ErrNotFound) {
		return c.refuse("key set", err)
	}
	return nil
}

func (c *checker) get(ctx context.Context, key string, ref Ref) ([]byte, error) {
	b, _, err := c.r.Get(ctx, key, ref.Size)
	if err != nil {
		return nil, err
	}
	if int64(len(b)) != ref.Size || Sum(b) != ref.Digest {
		return nil, fmt.Errorf("%w: %d bytes with digest %s, want %d", ErrCorrupt, len(b), Sum(b), ref.Size)
	}
	c.report.Objects++
	c.report.Bytes += int64(len(b))
	if c.progress != nil {
		c.progress(c.report.Objects, max(c.known, c.report.Objects))
	}
	return b, nil
}

func (c *checker) manifest(ctx context.Context, ret Retained) (*Manifest, error) {
	key := ManifestKey(ret.Manifest.Digest)
	b, err := c.get(ctx, key, ret.Manifest)
	var m *Manifest
	if err == nil {
		m, err = ParseManifest(b)
	}
	if err != nil {
		return nil, c.refuse(key, err)
	}
	if !m.Time.Equal(ret.Time) {
		c.problem("%s: is of %v, not of %v", key, m.Time, ret.Time)
	}
	c.report.Snapshots++
	return m, nil
}

func (c *checker) snapshot(ctx context.Context, m *Manifest) error {
	sums := map[string]Digest{} // collection: the rows as a set
	rows := map[string]int{}
	for i := range m.Views {
		v := &m.Views[i]
		sum, whole, err := c.view(ctx, m, v)
		if err != nil {
			return err
		}
		if n, ok := rows[v.Collection]; ok && n != v.Rows {
			c.problem("snapshot %v: view %s/%s has %d rows, another of its collection %d", m.Time, v.Collection, v.Sort, v.Rows, n)
		}
		rows[v.Collection] = v.Rows
		if !whole {
			continue // an object was seen before, in another snapshot's check
		}
		if prev, ok := sums[v.Collection]; ok && prev != sum {
			c.problem("snapshot %v: view %s/%s has other rows than another of its collection", m.Time, v.Collection, v.Sort)
		}
		sums[v.Collection] = sum
	}
	return c.ledger(ctx, m)
}

// view reads a view's objects, those that were not seen before, and returns
// the sum of its rows' digests, which does not depend on their order.
func (c *checker) view(ctx context.Context, m *Manifest, v *View) (sum Digest, whole bool, err error) {
	name := v.Collection + "/" + v.Sort
	whole = true
	runs, row, prev := 0, 0, (*Shard)(nil)
	for _, o := range v.Objects {
		if c.seen[o.Digest] {
			whole, row, prev = false, row+o.Rows, nil
			continue
		}
		c.seen[o.Digest] = true
		key := ObjectKey(o.Digest)
		b, err := c.get(ctx, key, o.Ref)
		if err != nil {
			whole, prev = false, nil
			if err := c.refuse(name+" "+key, err); err != nil {
				return sum, false, err
			}
			row += o.Rows
			continue
		}
		shards, err := ParseObject(b)
		if err != nil {
			whole, prev, row = false, nil, row+o.Rows
			c.problem("%s %s: %v", name, key, err)
			continue
		}
		n := 0
		for i, s := range shards {
			if i == 0 && s.firstFence(o.First) != o.First {
				c.problem("%s %s: fence of the manifest is not its first row's", name, key)
			}
			if prev == nil && (row > 0 || n > 0) {
				runs = s.FirstRun
			}
			c.shard(name, key, prev, s, len(v.Columns), &runs)
			for r := range s.Len() {
				full := append([]byte(nil), s.Row(r)...)
				if t := s.Tail(r); t != nil {
					full = append(full[:len(full)-1], t...)
				}
				if !json.Valid(full) || !utf8.Valid(full) {
					c.problem("%s %s: row of id %d is no JSON", name, key, s.ID(r))
				}
				addDigest(&sum, Sum(full))
			}
			if want := min(m.RowsPerShard, v.Rows-row-n); s.Len() != want {
				c.problem("%s %s: shard %d has %d rows, want %d", name, key, i, s.Len(), want)
			}
			n += s.Len()
			prev = s
		}
		if n != o.Rows {
			c.problem("%s %s: %d rows, want %d", name, key, n, o.Rows)
		}
		row += o.Rows
		c.report.Rows += int64(n)
	}
	if whole && runs != v.Runs {
		c.problem("%s: %d runs, want %d", name, runs, v.Runs)
	}
	if prev != nil && prev.After != 0 {
		c.problem("%s: its last run goes on behind its last row", name)
	}
	return sum, whole, nil
}

// shard checks that s follows prev (nil: unknown, or the first) and counts the
// runs that have begun so far.
func (c *checker) shard(name, key string, prev, s *Shard, columns int, runs *int) {
	if s.Columns() != columns {
		c.problem("%s %s: %d columns, want %d", name, key, s.Columns(), columns)
	}
	goesOn := s.Before > 0
	if goesOn {
		if s.FirstRun != *runs-1 && prev != nil {
			c.problem("%s %s: first run is %d, want %d", name, key, s.FirstRun, *runs-1)
		}
	} else if s.FirstRun != *runs {
		c.problem("%s %s: first run is %d, want %d", name, key, s.FirstRun, *runs)
	}
	*runs = s.FirstRun + s.Runs()
	if prev == nil {
		return
	}
	last := prev.Runs() - 1
	a, b := prev.RunRows(last)
	inPrev := b - a
	if last == 0 {
		inPrev += prev.Before
	}
	_, here := s.RunRows(0)
	if s.Runs() == 1 {
		here += s.After
	}
	switch {
	case goesOn != (prev.After > 0), goesOn && (s.Before != inPrev || prev.After != here):
		c.problem("%s %s: runs do not go on from shard to shard", name, key)
	case goesOn && (prev.ID(prev.Len()-1) >= s.ID(0) || string(prev.Key(last)) != string(s.Key(0))):
		c.problem("%s %s: a run that goes on has another key, or ids out of order", name, key)
	case !goesOn && s.Key(0) != nil && string(prev.Key(last)) >= string(s.Key(0)):
		c.problem("%s %s: keys out of order", name, key)
	case s.Key(0) == nil && name[len(name)-3:] == "/id" && prev.ID(prev.Len()-1) >= s.ID(0):
		c.problem("%s %s: ids out of order", name, key)
	}
}

// firstFence returns the fence of the shard's first row, of the kind of want.
func (s *Shard) firstFence(want Fence) Fence {
	var f Fence
	if s.keyOff != nil {
		f.Key = string(s.Key(0))
	}
	if want.ID != 0 {
		f.ID = s.ID(0)
	}
	return f
}

// addDigest adds d to sum as a 256-bit number, so that a sum of digests stands
// for a set of rows.
func addDigest(sum *Digest, d Digest) {
	carry := 0
	for i := len(sum) - 1; i >= 0; i-- {
		carry += int(sum[i]) + int(d[i])
		sum[i] = byte(carry)
		carry >>= 8
	}
}

// ParseObject reads all shards of an object.
func ParseObject(b []byte) ([]*Shard, error) {
	n, err := IndexSize(b)
	if err != nil {
		return nil, err
	}
	if n > int64(len(b)) {
		return nil, fmt.Errorf("%w: index of %d bytes in %d", ErrCorrupt, n, len(b))
	}
	x, err := ParseIndex(b[:n], int64(len(b)))
	if err != nil {
		return nil, err
	}
	shards := make([]*Shard, len(x.Shards))
	for i, e := range x.Shards {
		at := n + e.Offset
		if shards[i], err = ParseEntry(e, b[at:at+e.Stored]); err != nil {
			return nil, fmt.Errorf("shard %d: %w", i, err)
		}
	}
	return shards, nil
}

func (c *checker) ledger(ctx context.Context, m *Manifest) error {
	if c.seen[m.Ledger.Digest] {
		return nil
	}
	c.seen[m.Ledger.Digest] = true
	key := ObjectKey(m.Ledger.Digest)
	b, err := c.get(ctx, key, m.Ledger)
	var l *LedgerRoot
	if err == nil {
		l, err = ParseLedger(b)
	}
	if err != nil {
		return c.refuse("ledger "+key, err)
	}
	for _, ref := range l.Refs() {
		if c.seen[ref.Digest] {
			continue
		}
		c.seen[ref.Digest] = true
		if _, err := c.get(ctx, ObjectKey(ref.Digest), ref); err != nil {
			if err := c.refuse("ledger "+ObjectKey(ref.Digest), err); err != nil {
				return err
			}
		}
	}
	return nil
}
