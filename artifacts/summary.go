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

// summary describes neighbouring rows of a view, of one shard or of many: their first and last
// rows, counts and checksums. From summaries alone Check can tell whether the rows of two shards
// follow each other, and whether two views of a collection have the same rows and the right run
// numbers, so it reads each object once and keeps none.
type summary struct {
	rows                int
	before, after       int // as in Shard
	firstRun, lastRun   int
	firstLen, lastLen   int // rows of these runs that are summarized
	firstID, lastID     uint64
	firstKey, lastKey   string   // of these runs
	keyed, ids, idFence bool     // has keys; ids ascend throughout; fences give ids
	shards, cut         int      // how many shards, and the rows of all but the last
	unranked            int      // rows without a rank
	points              int      // the elements of each row's prices; 0 but in history
	newest              []newest // of history's rows

	sum  Digest   // of the rows' digests, as a number: stands for a set of rows
	own  uint64   // the sum of pair of each row's id and run
	ords []uint64 // by column: the sum of pair of each row's id and run there
	// words is the sum of hashWord: of the rows themselves in the views of words, of members and of
	// contracts, of those that its rows need in the assets', the markets' and the coins' view by id.
	words uint64
}

// newest is the place of the newest price in an asset's row of a block; that of a
// listing's row is -1.
type newest struct {
	id uint64
	at int
}

// pair hashes an id and a run. A sum of such stands for how a view numbers its
// runs: not against malice, which signatures are for, but against mistakes.
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

// summarize reads every row of a shard, whose view is the one by id or not. It
// refuses rows that are no JSON.
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
			same := full // in all views of the collection
			if bytes.HasPrefix(tail, groupsTail) {
				same = row
			}
			if !json.Valid(row) || !json.Valid(full) || !utf8.Valid(full) {
				return nil, fmt.Errorf("row of id %d is no JSON", id)
			}
			_, rest, _ := bytes.Cut(row, []byte(","))
			if !bytes.HasPrefix(rest, []byte(`"rank":`)) {
				p.unranked++
			}
			if err := checkFigures(rest); err != nil {
				return nil, fmt.Errorf("row of id %d: %w", id, err)
			}
			points, last, err := countPoints(rest)
			if n, wrong := countMoments(row); n > 0 {
				points, err = n, wrong
			}
			if err != nil || i > 0 && points != p.points {
				return nil, fmt.Errorf(
					"row of id %d has %d points, the first %d: %w", id, points, p.points, cmp.Or(err, ErrCorrupt))
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
			case byID && tail != nil: // of an asset
				words, err = wordSum(row)
			case p.keyed && s.columns == 0: // a word, a member of a group, or a contract
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

// countPoints returns how many points a row has, of which rest is what stands
// behind the id, and the place of the last price; 0 and -1 when it is of no block.
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
			return n, last, errors.New("a price is no decimal")
		}
	}
	if last < 0 {
		return n, last, errors.New("no price at all")
	}
	return n, last, nil
}

// join adds the rows of q, which must follow those of p.
func (p *summary) join(q *summary) error {
	goesOn := q.before > 0
	lastLen, firstLen := p.lastLen, q.firstLen // with the run's rows outside
	if p.firstRun == p.lastRun {
		lastLen += p.before
	}
	if q.firstRun == q.lastRun {
		firstLen += q.after
	}
	switch {
	case p.points != q.points:
		return errors.New("rows of other points")
	case p.keyed != q.keyed || len(p.ords) != len(q.ords):
		return errors.New("some shards have keys or columns that others have not")
	case goesOn != (p.after > 0), goesOn && (q.before != lastLen || p.after != firstLen):
		return errors.New("runs do not go on from shard to shard")
	case goesOn && q.firstRun != p.lastRun, !goesOn && q.firstRun != p.lastRun+1:
		return fmt.Errorf("run %d follows run %d", q.firstRun, p.lastRun)
	case goesOn && (p.lastID >= q.firstID || p.lastKey != q.firstKey):
		return fmt.Errorf("run %d goes on with another key, or with ids out of order", q.firstRun)
	case !goesOn && p.keyed && p.lastKey >= q.firstKey:
		return fmt.Errorf("key of run %d does not follow", q.firstRun)
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

// clone returns a copy that may be joined without changing p.
func (p *summary) clone() *summary {
	q := *p
	q.ords, q.newest = slices.Clone(p.ords), slices.Clone(p.newest)
	return &q
}

// summarizeObject reads every row of an object.
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

// check compares an object with what the manifest says of it: it is object o of view v.
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
		return fmt.Errorf("rows of %d points, want %d", p.points, len(v.Times))
	case len(p.ords) != len(v.Columns):
		return fmt.Errorf("%d columns, want %d", len(p.ords), len(v.Columns))
	case p.keyed != keyed:
		return fmt.Errorf("has keys: %v, want %v", p.keyed, keyed)
	case p.idFence != byID || fence != o.First:
		return errors.New("its fences, or that of the manifest, are not its first rows'")
	case byID && (!p.ids || p.lastRun-p.firstRun != p.rows-1):
		return errors.New("ids are out of order, or share a run")
	}
	return nil
}
