package artifacts

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"sort"

	"github.com/zeebo/xxh3"
)

const (
	flagKeys  = 1 << 0
	flagTails = 1 << 1

	maxShardRows    = math.MaxUint16
	maxObjectShards = 4096
	maxShardColumns = 8

	// minRow is the minimum size of a row: one byte for its length, and {"id":1}.
	minRow = 1 + len(`{"id":1}`)
	// maxRowID is the maximum id (FEED.md, "Files").
	maxRowID = 1<<53 - 1
)

var errTruncated = errors.New("shard: ends too early")

// near is the number of rows that FindID examines around the expected position.
const near = 8

// sumSize is the size of a row's sum, in bytes.
const sumSize = 16

// Shard is a parsed shard: consecutive rows of one view. It refers to the bytes from which it was
// parsed, which must not change. It is safe for concurrent use.
type Shard struct {
	// Rows has the bytes of the rows, separated by commas.
	Rows []byte

	// The fields that most pages need are next to each other, because the cache lines of a rarely
	// used shard are not in the processor's caches.
	off      []uint32 // row i is Rows[off[i] : off[i+1]-1]
	sums     []byte   // the sums of the rows, one after the other
	runStart []uint32 // run j is rows runStart[j] to runStart[j+1]; nil: every run is one row
	ids      []uint64

	// Before is the number of rows that the first run has in earlier shards. After is the number of
	// rows that the last run has in later shards.
	Before, After int
	// FirstRun is the number of the shard's first run in the view.
	FirstRun int

	keys     []byte
	keyOff   []uint32 // key j is keys[keyOff[j]:keyOff[j+1]]; nil without keys
	common   int      // the length of the common prefix of all keys
	prefixes []uint64 // for each key, the first eight bytes after the common prefix, as a number
	ords     []uint32
	columns  int
	tails    []byte
	tailOff  []uint32
	tailSums []byte
	size     int
}

// Len returns the number of rows.
func (s *Shard) Len() int { return len(s.ids) }

// Runs returns the number of runs with rows in the shard.
func (s *Shard) Runs() int {
	if s.runStart == nil {
		return len(s.ids)
	}
	return len(s.runStart) - 1
}

// Row returns the bytes of row i, without its tail.
func (s *Shard) Row(i int) []byte { return s.Slice(i, i+1) }

// Slice returns rows i to j, excluding j, separated by commas. i must be less than j.
func (s *Shard) Slice(i, j int) []byte { return s.Rows[s.off[i] : s.off[j]-1 : s.off[j]-1] }

// AppendBackwards appends rows j-1 down to i to the first slice, each row preceded by a comma, and
// their sums to the second slice.
func (s *Shard) AppendBackwards(rows, sums []byte, i, j int) (moreRows, moreSums []byte) {
	if i >= j {
		return rows, sums
	}
	// Make room for all rows, then copy each one together with the comma that precedes it in
	// s.Rows.
	off := s.off[i : j+1]
	size := int(off[j-i] - off[0])
	at, end := len(rows), int(off[j-i])-1
	rows = slices.Grow(rows, size)[:at+size]
	for n := j - i - 1; n > 0; n-- {
		start := int(off[n]) - 1
		at += copy(rows[at:], s.Rows[start:end])
		end = start
	}
	rows[at] = ','
	copy(rows[at+1:], s.Rows[off[0]:end])
	k := len(sums)
	sums = slices.Grow(sums, (j-i)*sumSize)[:k+(j-i)*sumSize]
	for n := j - 1; n >= i; n-- {
		*(*[sumSize]byte)(sums[k:]) = *(*[sumSize]byte)(s.sums[n*sumSize:])
		k += sumSize
	}
	return rows, sums
}

// Tail returns the tail of row i, or nil if the view has no tails.
func (s *Shard) Tail(i int) []byte {
	if s.tailOff == nil {
		return nil
	}
	return s.tails[s.tailOff[i]:s.tailOff[i+1]:s.tailOff[i+1]]
}

// Sums returns the sums of rows i to j, excluding j, one after the other. A sum is the 128-bit XXH3
// hash of a row in big-endian order. By their sums, pages can be compared without reading the rows.
// Sums do not protect against forgery.
func (s *Shard) Sums(i, j int) []byte { return s.sums[i*sumSize : j*sumSize] }

// TailSum returns the sum of row i's tail, or nil if the view has no tails.
func (s *Shard) TailSum(i int) []byte {
	if s.tailOff == nil {
		return nil
	}
	return s.tailSums[i*sumSize : (i+1)*sumSize]
}

// ID returns the id of row i.
func (s *Shard) ID(i int) uint64 { return s.ids[i] }

// Ord returns the number of the run to which row i belongs in the view that column c names.
func (s *Shard) Ord(c, i int) uint32 { return s.ords[c*len(s.ids)+i] }

// Key returns the folded sort key of run j, or nil if the view has no keys.
func (s *Shard) Key(j int) []byte {
	if s.keyOff == nil {
		return nil
	}
	return s.keys[s.keyOff[j]:s.keyOff[j+1]:s.keyOff[j+1]]
}

// Run returns the run to which row i belongs, and the rows of that run in this shard: start to end,
// excluding end.
func (s *Shard) Run(i int) (run, start, end int) {
	if s.runStart == nil {
		return i, i, i + 1
	}
	j := sort.Search(len(s.runStart)-1, func(j int) bool { return int(s.runStart[j+1]) > i })
	return j, int(s.runStart[j]), int(s.runStart[j+1])
}

// RunRows returns the rows of run j in this shard: start to end, excluding end.
func (s *Shard) RunRows(j int) (start, end int) {
	if s.runStart == nil {
		return j, j + 1
	}
	return int(s.runStart[j]), int(s.runStart[j+1])
}

// FindKey returns the run with the given key, in a view with keys. If there is none, ok is false
// and run is the first one with a greater key.
func (s *Shard) FindKey(key []byte) (run int, ok bool) {
	lo, hi := 0, len(s.prefixes)
	if bytes.HasPrefix(key, s.keys[:s.common]) {
		// Search the prefixes, which are contiguous, before the keys, which are scattered. A rarely
		// used shard is not in the processor's caches, so each access to another cache line is
		// slow.
		p := prefix(key[s.common:])
		for lo < hi {
			m := int(uint(lo+hi) >> 1)
			if s.prefixes[m] < p {
				lo = m + 1
			} else {
				hi = m
			}
		}
		if hi = len(s.prefixes); lo+1 >= hi || s.prefixes[lo+1] > p { // No other key has this prefix.
			hi = min(hi, lo+1)
		}
	}
	for lo < hi {
		m := int(uint(lo+hi) >> 1)
		if bytes.Compare(s.Key(m), key) < 0 {
			lo = m + 1
		} else {
			hi = m
		}
	}
	return lo, lo < len(s.prefixes) && bytes.Equal(s.Key(lo), key)
}

// prefix returns the first eight bytes of a key as a number. A key with a lower number sorts first;
// keys with equal numbers may still differ.
func prefix(key []byte) uint64 {
	var b [8]byte
	copy(b[:], key)
	return binary.BigEndian.Uint64(b[:])
}

// FindID returns the row with the given id, in a view sorted by id.
func (s *Shard) FindID(id uint64) (row int, ok bool) {
	// Ids are mostly consecutive, so the row is close to where it would be if the missing ids were
	// spread evenly. A search from that position reads one cache line instead of seven.
	lo, hi := 0, len(s.ids)
	if hi > 1 && id > s.ids[0] && id < s.ids[hi-1] {
		h, l := bits.Mul64(id-s.ids[0], uint64(hi-1))
		guess, _ := bits.Div64(h, l, s.ids[hi-1]-s.ids[0])
		at := int(guess)
		if s.ids[at] < id {
			lo, hi = at+1, min(hi, at+near)
			if s.ids[hi-1] < id {
				lo, hi = hi, len(s.ids)
			}
		} else {
			lo, hi = max(at-near, 0), at
			if s.ids[lo] > id {
				lo, hi = 0, lo
			}
		}
	}
	for lo < hi {
		m := int(uint(lo+hi) >> 1)
		if s.ids[m] < id {
			lo = m + 1
		} else {
			hi = m
		}
	}
	return lo, lo < len(s.ids) && s.ids[lo] == id
}

// Size returns the memory that the shard occupies, in bytes. It is the cost of its cache entry.
func (s *Shard) Size() int { return s.size }

// ShardRows is the content of a shard for AppendShard. Unless a field says otherwise, its slices
// have one element per row.
type ShardRows struct {
	Before, After int
	FirstRun      int
	RunLens       []int      // one per run
	Keys          [][]byte   // one per run; nil if there are no keys
	Ords          [][]uint32 // Ords[column][row]
	Rows          [][]byte
	Tails         [][]byte // nil if there are no tails
}

// AppendShard appends the plain form of a shard to dst (see the package documentation). It does not
// check its input: it also writes shards that readers reject.
func AppendShard(dst []byte, in *ShardRows) []byte {
	u := func(v int) { dst = binary.AppendUvarint(dst, uint64(v)) }
	flags := 0
	if in.Keys != nil {
		flags |= flagKeys
	}
	if in.Tails != nil {
		flags |= flagTails
	}
	u(len(in.Rows))
	u(flags)
	u(in.Before)
	u(in.After)
	u(in.FirstRun)
	u(len(in.RunLens))
	if len(in.RunLens) != len(in.Rows) {
		for _, n := range in.RunLens {
			u(n)
		}
	}
	for _, k := range in.Keys {
		u(len(k))
		dst = append(dst, k...)
	}
	u(len(in.Ords))
	for _, col := range in.Ords {
		for _, v := range col {
			dst = binary.AppendUvarint(dst, uint64(v))
		}
	}
	if in.Tails != nil {
		for _, t := range in.Tails {
			u(len(t))
		}
		for _, t := range in.Tails {
			dst = append(dst, t...)
		}
	}
	for _, r := range in.Rows {
		u(len(r))
	}
	for i, r := range in.Rows {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, r...)
	}
	return dst
}

// shardReader reads varints and rejects those above a limit. After the first fault, bad stays true.
type shardReader struct {
	b   []byte
	bad bool
}

func (r *shardReader) uint(limit uint64) int {
	v, n := binary.Uvarint(r.b)
	if n <= 0 || v > limit {
		r.bad = true
		return 0
	}
	r.b = r.b[n:]
	return int(v)
}

// parseShard checks the plain bytes of a shard and returns it. The bytes must not change
// afterwards. parseShard checks everything that is visible without parsing rows beyond their ids:
// lengths, separators, that the runs add up to the rows, that keys strictly ascend, and that ids
// ascend within each run.
func parseShard(plain []byte) (*Shard, error) {
	r := &shardReader{b: plain}
	limit := uint64(len(plain))
	n := r.uint(maxShardRows)
	flags := r.uint(flagKeys | flagTails)
	before, after, firstRun := r.uint(math.MaxInt32), r.uint(math.MaxInt32), r.uint(math.MaxInt32)
	runs := r.uint(uint64(n))
	if r.bad || n == 0 || runs == 0 {
		return nil, errors.New("shard: bad header")
	}
	// This bounds all memory that is allocated below to a small multiple of len(plain).
	if n*minRow > len(plain) {
		return nil, errTruncated
	}
	s := &Shard{Before: before, After: after, FirstRun: firstRun}
	if runs != n {
		s.runStart = make([]uint32, runs+1)
		sum := 0
		for j := range runs {
			l := r.uint(uint64(n))
			if sum += l; r.bad || l == 0 || sum > n {
				return nil, errors.New("shard: bad run length")
			}
			s.runStart[j+1] = uint32(sum)
		}
		if sum != n {
			return nil, errors.New("shard: runs do not add up to the rows")
		}
	}
	if flags&flagKeys != 0 {
		if err := s.parseKeys(r, runs, limit); err != nil {
			return nil, err
		}
	}
	s.columns = r.uint(maxShardColumns)
	if r.bad || uint64(s.columns*n) > limit {
		return nil, errTruncated
	}
	if s.columns > 0 {
		s.ords = make([]uint32, s.columns*n)
		for i := range s.ords {
			s.ords[i] = uint32(r.uint(math.MaxInt32))
		}
		if r.bad {
			return nil, errTruncated
		}
	}
	if flags&flagTails != 0 {
		s.tailOff = make([]uint32, n+1)
		sum := uint64(0)
		for i := range n {
			sum += uint64(r.uint(limit))
			if r.bad || sum > limit {
				return nil, errTruncated
			}
			s.tailOff[i+1] = uint32(sum)
		}
		if uint64(len(r.b)) < sum {
			return nil, errTruncated
		}
		s.tails, r.b = r.b[:sum:sum], r.b[sum:]
		for i := range n {
			if t := s.Tail(i); len(t) < 2 || t[0] != ',' || t[len(t)-1] != '}' {
				return nil, fmt.Errorf("shard: bad tail of row %d", i)
			}
		}
		s.tailSums = sumsOf(n, s.Tail)
	}
	if err := s.parseRows(r, n, limit); err != nil {
		return nil, err
	}
	if err := s.checkIDs(); err != nil {
		return nil, err
	}
	s.sums = sumsOf(n, s.Row)
	s.size = len(plain) + len(s.keys) + len(s.sums) + len(s.tailSums) +
		4*(len(s.off)+len(s.runStart)+len(s.keyOff)+len(s.ords)+len(s.tailOff)) + 8*(len(s.ids)+len(s.prefixes)) + 256
	return s, nil
}

// sumsOf returns the sums of text(0) to text(n-1), one after the other.
func sumsOf(n int, text func(i int) []byte) []byte {
	sums := make([]byte, 0, n*sumSize)
	for i := range n {
		sum := xxh3.Hash128(text(i)).Bytes()
		sums = append(sums, sum[:]...)
	}
	return sums
}

func (s *Shard) parseKeys(r *shardReader, runs int, limit uint64) error {
	s.keyOff = make([]uint32, runs+1)
	// The stored keys are interleaved with their lengths. Copy them to one slice, so that each key
	// is a subslice of it.
	rest := *r
	total := 0
	for range runs {
		l := rest.uint(limit)
		if rest.bad || l > len(rest.b) {
			return errTruncated
		}
		total += l
		rest.b = rest.b[l:]
	}
	s.keys = make([]byte, 0, total)
	for j := range runs {
		l := r.uint(limit)
		s.keys = append(s.keys, r.b[:l]...)
		r.b = r.b[l:]
		s.keyOff[j+1] = uint32(len(s.keys))
		if j > 0 && bytes.Compare(s.Key(j-1), s.Key(j)) >= 0 {
			return fmt.Errorf("shard: the key of run %d is out of order", j)
		}
	}
	// The keys ascend, so all begin with the common prefix of the first and the last one.
	first, last := s.Key(0), s.Key(runs-1)
	for s.common < min(len(first), len(last)) && first[s.common] == last[s.common] {
		s.common++
	}
	s.prefixes = make([]uint64, runs)
	for j := range s.prefixes {
		s.prefixes[j] = prefix(s.Key(j)[s.common:])
	}
	return nil
}

func (s *Shard) parseRows(r *shardReader, n int, limit uint64) error {
	s.off = make([]uint32, n+1)
	sum := uint64(0)
	for i := range n {
		l := r.uint(limit)
		if sum += uint64(l) + 1; r.bad || sum > limit+1 {
			return errTruncated
		}
		s.off[i+1] = uint32(sum)
	}
	if uint64(len(r.b)) != sum-1 {
		return fmt.Errorf("shard: %d bytes of rows, want %d", len(r.b), sum-1)
	}
	s.Rows = r.b
	s.ids = make([]uint64, n)
	for i := range n {
		row := s.Row(i)
		id, ok := rowID(row)
		if !ok || row[len(row)-1] != '}' || i+1 < n && s.Rows[s.off[i+1]-1] != ',' {
			return fmt.Errorf("shard: row %d is not a JSON object with an id, or not followed by a comma", i)
		}
		s.ids[i] = id
	}
	return nil
}

// rowID parses the id at the beginning of a row: 1 to maxRowID, without leading zeros, followed by
// a comma or the end of the row.
func rowID(row []byte) (id uint64, ok bool) {
	rest, ok := bytes.CutPrefix(row, []byte(`{"id":`))
	if !ok || len(rest) == 0 || rest[0] == '0' {
		return 0, false
	}
	for i, c := range rest {
		if c < '0' || c > '9' {
			return id, i > 0 && (c == ',' || c == '}')
		}
		if id = id*10 + uint64(c-'0'); id > maxRowID {
			return 0, false
		}
	}
	return 0, false
}

// IDEnd returns the offset at which the id of a row ends, given the id.
func IDEnd(id uint64) int {
	n := len(`{"id":0`)
	for ; id >= 10; id /= 10 {
		n++
	}
	return n
}

func (s *Shard) checkIDs() error {
	if s.runStart == nil {
		return nil
	}
	for j := range s.Runs() {
		a, b := s.RunRows(j)
		for i := a + 1; i < b; i++ {
			if s.ids[i-1] >= s.ids[i] {
				return fmt.Errorf("shard: the id of row %d is out of order in its run", i)
			}
		}
	}
	return nil
}
