package pastrows

import (
	"bufio"
	"cmp"
	"container/heap"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/market"
	"example.com/marketdata/builder/past"
)

// record is one row.
type record struct {
	time       time.Time
	id         uint64
	file, line uint32
	price      market.U128
	marketCap  market.U128
	volume     market.U128
	hasVolume  bool
}

func (r *record) mark() time.Time { return r.time.Truncate(artifacts.Step) }

// compare orders records as Moments returns them: by ten-minute interval, then by asset. Within the
// same ten minutes, an asset's earliest row comes first. If two rows have the same time, the one
// that was read first comes first.
func (r *record) compare(s *record) int {
	return cmp.Or(r.mark().Compare(s.mark()), cmp.Compare(r.id, s.id), r.time.Compare(s.time),
		cmp.Compare(r.file, s.file), cmp.Compare(r.line, s.line))
}

// chunkRows is the number of records that are sorted in memory. They take about 60 MB. Tests lower
// it.
var chunkRows = 1 << 19

// sorter sorts any number of records. It sorts pieces in memory, writes them to files, and finally
// merges the files.
type sorter struct {
	dir    string
	chunk  []record
	pieces []string
}

func (s *sorter) add(r record) error {
	if len(s.chunk) == chunkRows {
		if err := s.spill(); err != nil {
			return err
		}
	}
	s.chunk = append(s.chunk, r)
	return nil
}

// end sorts the remaining records.
func (s *sorter) end() error {
	if len(s.pieces) > 0 && len(s.chunk) > 0 {
		return s.spill()
	}
	s.sort()
	return nil
}

func (s *sorter) sort() { slices.SortFunc(s.chunk, func(a, b record) int { return a.compare(&b) }) }

// spill sorts the records in memory and writes them to a file.
func (s *sorter) spill() (err error) {
	s.sort()
	name := filepath.Join(s.dir, fmt.Sprintf("rows-%06d", len(s.pieces)))
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	s.pieces = append(s.pieces, name)
	w := bufio.NewWriterSize(f, 256<<10)
	var b []byte
	for i := range s.chunk {
		b = s.chunk[i].append(b[:0])
		if _, err := w.Write(b); err != nil {
			return err
		}
	}
	s.chunk = s.chunk[:0]
	return w.Flush()
}

const recordBytes = 8 + 4 + 8 + 4 + 4 + 3*16 + 1

func (r *record) append(b []byte) []byte {
	order := binary.LittleEndian
	b = order.AppendUint64(b, uint64(r.time.Unix()))
	b = order.AppendUint32(b, uint32(r.time.Nanosecond()))
	b = order.AppendUint64(b, r.id)
	b = order.AppendUint32(order.AppendUint32(b, r.file), r.line)
	for _, u := range []market.U128{r.price, r.marketCap, r.volume} {
		b = order.AppendUint64(order.AppendUint64(b, u.Hi), u.Lo)
	}
	if r.hasVolume {
		return append(b, 1)
	}
	return append(b, 0)
}

func (r *record) read(b []byte) {
	order := binary.LittleEndian
	r.time = time.Unix(int64(order.Uint64(b)), int64(order.Uint32(b[8:]))).UTC()
	r.id = order.Uint64(b[12:])
	r.file, r.line = order.Uint32(b[20:]), order.Uint32(b[24:])
	for i, u := range []*market.U128{&r.price, &r.marketCap, &r.volume} {
		u.Hi, u.Lo = order.Uint64(b[28+16*i:]), order.Uint64(b[36+16*i:])
	}
	r.hasVolume = b[recordBytes-1] == 1
}

// piece is a sorted file that is being merged.
type piece struct {
	next record
	from *bufio.Reader
	file *os.File
}

// advance reads the next record. It returns io.EOF after the last one.
func (p *piece) advance() error {
	var b [recordBytes]byte
	if _, err := io.ReadFull(p.from, b[:]); err != nil {
		return err
	}
	p.next.read(b[:])
	return nil
}

// all returns all records in order.
func (s *sorter) all() iter.Seq2[*record, error] {
	if len(s.pieces) == 0 {
		return func(yield func(*record, error) bool) {
			for i := range s.chunk {
				if !yield(&s.chunk[i], nil) {
					return
				}
			}
		}
	}
	return func(yield func(*record, error) bool) {
		var open []*piece
		defer func() {
			for _, p := range open {
				p.file.Close() // the file was only read
			}
		}()
		for _, name := range s.pieces {
			f, err := os.Open(name)
			if err != nil {
				yield(nil, err)
				return
			}
			p := &piece{from: bufio.NewReaderSize(f, 64<<10), file: f}
			open = append(open, p)
			if err := p.advance(); err != nil {
				yield(nil, fmt.Errorf("%s: %w", name, err))
				return
			}
		}
		merge := pieces(slices.Clone(open))
		for heap.Init(&merge); len(merge) > 0; {
			p := merge[0]
			if !yield(&p.next, nil) {
				return
			}
			switch err := p.advance(); err {
			case nil:
				heap.Fix(&merge, 0)
			case io.EOF:
				heap.Pop(&merge)
			default:
				yield(nil, err)
				return
			}
		}
	}
}

// pieces is a heap of pieces, ordered by next record.
type pieces []*piece

func (h pieces) Len() int           { return len(h) }
func (h pieces) Less(i, j int) bool { return h[i].next.compare(&h[j].next) < 0 }
func (h pieces) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *pieces) Push(p any)        { *h = append(*h, p.(*piece)) }
func (h *pieces) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// Moments returns the rows that were read, grouped by ten-minute interval, oldest first. If an
// asset has several rows in the same ten minutes, the earliest one counts. The caller may keep the
// figures of a moment.
func (r *Rows) Moments(ctx context.Context) iter.Seq2[Moment, error] {
	return func(yield func(Moment, error) bool) {
		var m Moment
		for row, err := range r.sorter.all() {
			if err == nil && len(m.Figures) == 0 {
				err = ctx.Err()
			}
			if err != nil {
				yield(m, err)
				return
			}
			mark := row.mark()
			if len(m.Figures) > 0 && !mark.Equal(m.Time) {
				if !yield(m, nil) {
					return
				}
				m = Moment{}
			}
			if n := len(m.Figures); n > 0 && m.Figures[n-1].ID == row.id {
				r.Report.Repeated++
				continue
			}
			m.Time, m.Total = mark, r.totals[mark.Unix()]
			m.Figures = append(m.Figures, past.Figures{ID: row.id, Price: row.price, MarketCap: row.marketCap,
				Volume: row.volume, HasVolume: row.hasVolume, File: row.file, Line: row.line})
		}
		if len(m.Figures) > 0 {
			yield(m, nil)
		}
	}
}

// Place returns the place from which the figures were read.
func (r *Rows) Place(f *past.Figures) Place { return Place{r.Files[f.File], int(f.Line)} }
