package artifacts

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/zeebo/xxh3"
)

// summary describes consecutive rows of a view, in one shard or several: their first and last rows,
// counts and checksums. With summaries alone Check can tell whether the rows of one shard follow
// those of another, and whether two views of a collection have the same rows and the right run
// numbers. So Check reads each object once and keeps none in memory.
type summary struct {
	rows                int
	before, after       int // as in Shard
	firstRun, lastRun   int
	firstLen, lastLen   int // the number of summarized rows in each of these runs
	firstID, lastID     uint64
	firstKey, lastKey   string   // the keys of these runs
	keyed, ids, idFence bool     // whether the view has keys; whether ids ascend throughout; whether fences have ids
	shards, cut         int      // the number of shards, and of rows in each shard but the last
	unranked            int      // the number of rows without a rank
	points              int      // the number of elements in each row's prices or moments; 0 outside of history
	newest              []newest // one element for each row of history

	sum  Digest   // the sum of the rows' digests as numbers, which identifies a set of rows
	own  uint64   // the sum of pair(id, run) over all rows
	ords []uint64 // for each column, the sum of pair(id, run in that view) over all rows
	// words is a sum of hashWord. In the views of words, members and contracts it covers the rows
	// themselves. In the views by id of assets, markets and coins it covers the rows that those
	// views must have.
	words uint64
}

// newest is the position of the newest price in an asset's row of a block. In a listing the
// position is -1.
type newest struct {
	id uint64
	at int
}

// pair hashes an id and a run. A sum of such hashes identifies how a view numbers its runs. It
// detects mistakes; signatures protect against forgery.
func pair(id uint64, run int) uint64 {
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:], id)
	binary.LittleEndian.PutUint64(b[8:], uint64(run))
	return xxh3.Hash(b[:])
}

// addDigest adds d to sum as a 256-bit number.
func addDigest(sum *Digest, d Digest) {
	carry := 0
	for i := len(sum) - 1; i >= 0; i-- {
		carry += int(sum[i]) + int(d[i])
		sum[i] = byte(carry)
		carry >>= 8
	}
}

// summarize summarizes all rows of a shard. byID says whether the shard belongs to a view by id.
// summarize rejects rows that are not JSON.
func summarize(s *Shard, byID bool) (*summary, error) {
	n, runs := s.Len(), s.Runs()
	_, firstLen := s.RunRows(0)
	lastStart, _ := s.RunRows(runs - 1)
	p := &summary{
		rows: n, before: s.Before, after: s.After, firstRun: s.FirstRun, lastRun: s.FirstRun + runs - 1,
		firstLen: firstLen, lastLen: n - lastStart, firstID: s.ID(0), lastID: s.ID(n - 1),
		firstKey: string(s.Key(0)), lastKey: string(s.Key(runs - 1)), keyed: s.keyOff != nil, ids: true,
		ords: make([]uint64, s.columns),
	}
	var full []byte
	for j := range runs {
		start, end := s.RunRows(j)
		for i := start; i < end; i++ {
			id, row, tail := s.ID(i), s.Row(i), s.Tail(i)
			full = append(full[:0], row...)
			if tail != nil {
				full = append(full[:len(full)-1], tail...)
			}
			// Tails of groups differ between the views of a collection, so rows are compared
			// without these tails.
			same := full
			if bytes.HasPrefix(tail, groupsTail) {
				same = row
			}
			if !json.Valid(row) || !json.Valid(full) || !utf8.Valid(full) {
				return nil, fmt.Errorf("the row of id %d is not JSON", id)
			}
			_, rest, _ := bytes.Cut(row, []byte(","))
			if !bytes.HasPrefix(rest, []byte(`"rank":`)) {
				p.unranked++
			}
			if err := checkFigures(rest); err != nil {
				return nil, fmt.Errorf("the row of id %d: %w", id, err)
			}
			points, last, err := countPoints(rest)
			if n, wrong := countMoments(row); n > 0 {
				points, err = n, wrong
			}
			if err != nil || i > 0 && points != p.points {
				return nil, fmt.Errorf(
					"the row of id %d has %d points, the first row %d: %w", id, points, p.points,
					cmp.Or(err, ErrCorrupt))
			}
			if p.points = points; last >= 0 || len(rest) == 0 || bytes.HasPrefix(rest, []byte(`"last":`)) {
				p.newest = append(p.newest, newest{id, last})
			}
			p.ids = p.ids && (i == 0 || s.ID(i-1) < id)
			addDigest(&p.sum, Sum(same))
			p.own += pair(id, s.FirstRun+j)
			for c := range p.ords {
				p.ords[c] += pair(id, int(s.Ord(c, i)))
			}
			var words uint64
			switch {
			case bytes.HasPrefix(tail, groupsTail):
				words, err = memberSum(row, tail)
			case bytes.HasPrefix(tail, platformsTail):
				words, err = contractSum(id, tail)
			case byID && tail != nil: // the row of an asset
				words, err = wordSum(row)
			case p.keyed && s.columns == 0: // the row of a word, of a member of a group, or of a contract
				words = hashWord(s.Key(j), row)
			}
			if err != nil {
				return nil, err
			}
			p.words += words
		}
	}
	return p, nil
}

// countPoints returns the number of points in a row and the position of the last price. rest is the
// part of the row after its id. If the row does not belong to a block of history, countPoints
// returns 0 and -1.
func countPoints(rest []byte) (n, last int, err error) {
	last = -1
	rest, ok := bytes.CutPrefix(rest, []byte(`"prices":[`))
	if !ok {
		return 0, last, nil
	}
	for price := range bytes.SplitSeq(bytes.TrimSuffix(rest, []byte("]}")), []byte(",")) {
		n++
		if string(price) == "null" {
			continue
		}
		if last = n - 1; len(price) < 3 || price[0] != '"' || price[len(price)-1] != '"' ||
			!isDecimal(string(price[1:len(price)-1]), 18) {
			return n, last, errors.New("a price is not a decimal")
		}
	}
	if last < 0 {
		return n, last, errors.New("no price at all")
	}
	return n, last, nil
}

// join adds the rows of q, which must directly follow those of p.
func (p *summary) join(q *summary) error {
	goesOn := q.before > 0
	lastLen, firstLen := p.lastLen, q.firstLen // including the rows of these runs in neighboring shards
	if p.firstRun == p.lastRun {
		lastLen += p.before
	}
	if q.firstRun == q.lastRun {
		firstLen += q.after
	}
	switch {
	case p.points != q.points:
		return errors.New("the rows have different numbers of points")
	case p.keyed != q.keyed || len(p.ords) != len(q.ords):
		return errors.New("some shards have keys or columns that others lack")
	case goesOn != (p.after > 0), goesOn && (q.before != lastLen || p.after != firstLen):
		return errors.New("a run does not continue correctly in the next shard")
	case goesOn && q.firstRun != p.lastRun, !goesOn && q.firstRun != p.lastRun+1:
		return fmt.Errorf("run %d follows run %d", q.firstRun, p.lastRun)
	case goesOn && (p.lastID >= q.firstID || p.lastKey != q.firstKey):
		return fmt.Errorf("run %d continues with another key, or with ids out of order", q.firstRun)
	case !goesOn && p.keyed && p.lastKey >= q.firstKey:
		return fmt.Errorf("the key of run %d is out of order", q.firstRun)
	}
	if goesOn && p.firstRun == p.lastRun {
		p.firstLen += q.firstLen
	}
	if goesOn && q.firstRun == q.lastRun {
		p.lastLen += q.lastLen
	} else {
		p.lastLen = q.lastLen
	}
	p.ids = p.ids && q.ids && p.lastID < q.firstID
	p.rows, p.shards, p.unranked = p.rows+q.rows, p.shards+q.shards, p.unranked+q.unranked
	p.after, p.lastRun, p.lastID, p.lastKey = q.after, q.lastRun, q.lastID, q.lastKey
	p.newest = append(p.newest, q.newest...)
	addDigest(&p.sum, q.sum)
	p.own += q.own
	p.words += q.words
	for c := range p.ords {
		p.ords[c] += q.ords[c]
	}
	return nil
}

// clone returns a copy of p. Joining rows to the copy does not change p.
func (p *summary) clone() *summary {
	q := *p
	q.ords, q.newest = slices.Clone(p.ords), slices.Clone(p.newest)
	return &q
}

// summarizeObject summarizes all rows of an object.
func summarizeObject(b []byte) (*summary, error) {
	x, shards, err := parseObject(b)
	if err != nil {
		return nil, err
	}
	var whole *summary
	for i, s := range shards {
		p, err := summarize(s, x.Shards[0].First.ID != 0)
		if err == nil && whole != nil {
			err = whole.join(p)
		}
		e, first := &x.Shards[i], &x.Shards[0]
		switch {
		case err != nil:
		case (e.First.ID != 0) != (first.First.ID != 0):
			err = errors.New("some fences give an id and others do not")
		case e.Rows > first.Rows || e.Rows < first.Rows && i < len(shards)-1:
			err = fmt.Errorf("%d rows, the first has %d", e.Rows, first.Rows)
		}
		if err != nil {
			return nil, fmt.Errorf("shard %d: %w", i, err)
		}
		if whole == nil {
			whole = p
		}
	}
	if whole == nil {
		return nil, errors.New("no shards")
	}
	whole.shards, whole.cut, whole.idFence = len(shards), shards[0].Len(), x.Shards[0].First.ID != 0
	return whole, nil
}

// check compares the summary of an object with the manifest, in which it is object o of view v.
func (p *summary) check(m *Manifest, v *View, o *ViewObject) error {
	byID := v.Sort == "id"
	keyed := !byID && (len(v.Columns) > 0 || v.Collection == SearchCollection || v.Collection == ContractsCollection)
	keyed = keyed || v.IsMembers() || IsChanges(v.Collection)
	var fence Fence
	if byID {
		fence.ID = p.firstID
	}
	if keyed {
		fence.Key = p.firstKey
	}
	rows, _ := m.Cut(v)
	switch {
	case p.rows != o.Rows:
		return fmt.Errorf("%d rows, want %d", p.rows, o.Rows)
	case p.shards != (o.Rows+rows-1)/rows || p.shards > 1 && p.cut != rows:
		return fmt.Errorf("%d shards, the first of %d rows; want %d rows a shard", p.shards, p.cut, rows)
	case p.points != len(v.Times):
		return fmt.Errorf("%d points per row, want %d", p.points, len(v.Times))
	case len(p.ords) != len(v.Columns):
		return fmt.Errorf("%d columns, want %d", len(p.ords), len(v.Columns))
	case p.keyed != keyed:
		return fmt.Errorf("has keys: %v, want %v", p.keyed, keyed)
	case p.idFence != byID || fence != o.First:
		return errors.New("its fences, or the manifest's fence, do not match its first rows")
	case byID && (!p.ids || p.lastRun-p.firstRun != p.rows-1):
		return errors.New("ids are out of order, or share a run")
	}
	return nil
}
