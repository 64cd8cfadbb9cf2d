package artifacts

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// PastInterval is one of the three intervals at which the past is kept (INTERFACE.md, "Candles").
type PastInterval struct {
	// Name is the interval's name in requests and answers.
	Name string
	// Step is the interval's length. Intervals begin at whole multiples of it since
	// 1970-01-01T00:00:00Z.
	Step time.Duration
	// Age is the maximum age of the snapshots that are kept at this interval; 0 means that they are
	// kept forever. AgeItself reports whether a snapshot of exactly that age is still kept.
	Age       time.Duration
	AgeItself bool
	// Span is the number of intervals in a block. Blocks begin at whole multiples of Span times
	// Step since 1970-01-01T00:00:00Z.
	Span int
}

// Indexes of PastIntervals.
const (
	TenMinutes = iota
	Hours
	Days
)

// PastIntervals are the intervals of the past, shortest first: every snapshot, the first snapshot
// of each UTC hour, and the first snapshot of each UTC day. Hours and days also have candles.
var PastIntervals = [...]PastInterval{
	{"10m", Step, 48 * time.Hour, false, 6},
	{"1h", time.Hour, 90 * 24 * time.Hour, true, 24},
	{"1d", 24 * time.Hour, 0, true, 64},
}

// Keeps reports whether a snapshot at time t that is the first of its interval is still kept at T.
func (p *PastInterval) Keeps(T, t time.Time) bool {
	age := T.Sub(t)
	return p.Age == 0 || age < p.Age || age == p.Age && p.AgeItself
}

// BlockStart returns the start of the block that contains t.
func (p *PastInterval) BlockStart(t time.Time) time.Time {
	length := int64(p.Step/time.Second) * int64(p.Span)
	back := t.Unix() % length
	if back < 0 {
		back += length
	}
	return time.Unix(t.Unix()-back, 0).UTC()
}

// Block returns the name of the collection with the block that begins at start.
func (p *PastInterval) Block(start time.Time) string {
	return pastPrefix + p.Name + "/" + start.UTC().Format(time.RFC3339)
}

// The names begin like those of history, so that readers that do not know past blocks treat them
// like history.
const pastPrefix = historyPrefix + "past/"

// IsPast reports whether a collection is a block of the past.
func IsPast(collection string) bool { return strings.HasPrefix(collection, pastPrefix) }

// Has reports whether a collection is a block of this interval.
func (p *PastInterval) Has(collection string) bool {
	return strings.HasPrefix(collection, pastPrefix+p.Name+"/")
}

// Past returns a manifest's blocks of the interval, oldest first.
func (m *Manifest) Past(p *PastInterval) (blocks []*View) {
	for i := range m.Views {
		if v := &m.Views[i]; p.Has(v.Collection) {
			blocks = append(blocks, v)
		}
	}
	return blocks
}

// checkPast checks the properties that readers of the past rely on: the times of each block ascend,
// in the order in which the manifest lists the views, no two are in the same interval, and none is
// outside its block.
func (m *Manifest) checkPast() error {
	for i := range PastIntervals {
		p := &PastIntervals[i]
		var last time.Time
		for _, v := range m.Past(p) {
			if v.Sort != "id" || len(v.Times) == 0 {
				return fmt.Errorf("view %s/%s: not by id, or without times", v.Collection, v.Sort)
			}
			for j := range v.Times {
				if err := checkSnapshotTime(&v.Times[j]); err != nil {
					return fmt.Errorf("view %s: %w", v.Collection, err)
				}
				t := v.Times[j]
				if !last.IsZero() && !t.Truncate(p.Step).After(last.Truncate(p.Step)) || t.After(m.Time) {
					return fmt.Errorf("view %s: snapshot %v is out of order", v.Collection, t)
				}
				if p.Block(p.BlockStart(t)) != v.Collection {
					return fmt.Errorf("view %s: snapshot %v belongs to another block", v.Collection, t)
				}
				last = t
			}
		}
	}
	return nil
}

// Parts of a row of the past.
const (
	momentsKey = `,"moments":[`
	candlesKey = `],"candles":[`
)

// PastRow returns the elements of a row's moments and candles, without the brackets around them. ok
// is false if the row does not have this form. candles is nil in a block of ten-minute intervals.
// NextPast separates the elements.
func PastRow(row []byte) (moments, candles []byte, ok bool) {
	at := bytes.IndexByte(row, ',')
	if at < 0 {
		return nil, nil, false
	}
	rest, ok := bytes.CutPrefix(row[at:], []byte(momentsKey))
	if !ok {
		return nil, nil, false
	}
	if rest, ok = bytes.CutSuffix(rest, []byte("]}")); !ok {
		return nil, nil, false
	}
	moments, candles, _ = bytes.Cut(rest, []byte(candlesKey))
	return moments, candles, true
}

// NextPast splits the first element off moments or candles. The element is nil if it is null in the
// row, and otherwise consists of the values between its brackets, such as "91000.5",null,"2500000".
// ok is false if there is no further element.
func NextPast(elements []byte) (element, rest []byte, ok bool) {
	if rest, ok = bytes.CutPrefix(elements, []byte("null")); ok {
		return nil, bytes.TrimPrefix(rest, []byte(",")), true
	}
	end := bytes.IndexByte(elements, ']')
	if end < 1 || elements[0] != '[' {
		return nil, nil, false
	}
	return elements[1:end], bytes.TrimPrefix(elements[end+1:], []byte(",")), true
}

// AppendPastRow appends a row of the past. The elements of moments and candles have the form that
// NextPast returns. candles is nil in a block of ten-minute intervals.
func AppendPastRow(dst []byte, id uint64, moments, candles [][]byte) []byte {
	dst = strconv.AppendUint(append(dst, `{"id":`...), id, 10)
	dst = appendElements(append(dst, momentsKey...), moments)
	if candles != nil {
		dst = appendElements(append(dst, candlesKey...), candles)
	}
	return append(dst, "]}"...)
}

func appendElements(dst []byte, elements [][]byte) []byte {
	for i, e := range elements {
		if i > 0 {
			dst = append(dst, ',')
		}
		if e == nil {
			dst = append(dst, "null"...)
			continue
		}
		dst = append(append(append(dst, '['), e...), ']')
	}
	return dst
}

// The numbers of values in an element.
const (
	MomentValues = 3 // price, market cap, volume
	CandleValues = 6 // open, high, low, close, market cap, volume
)

// countMoments returns the number of moments in a row of the past, or 0 for any other row. It
// checks that prices are decimals, that market caps and volumes are decimals or null, and that the
// row has either no candles or as many candles as moments.
func countMoments(row []byte) (n int, err error) {
	moments, candles, ok := PastRow(row)
	if !ok {
		return 0, nil
	}
	check := func(elements []byte, values int) (n int, some bool, err error) {
		for len(elements) > 0 {
			element, rest, ok := NextPast(elements)
			if !ok {
				return n, some, errors.New("an element of the past is neither an array nor null")
			}
			n, elements = n+1, rest
			if element == nil {
				continue
			}
			some = true
			all := bytes.Split(element, []byte(","))
			if len(all) != values {
				return n, some, fmt.Errorf("an element of the past has %d values, want %d", len(all), values)
			}
			for i, v := range all {
				if known := values - 2; i >= known && string(v) == "null" {
					continue
				}
				if len(v) < 3 || v[0] != '"' || v[len(v)-1] != '"' || !isDecimal(string(v[1:len(v)-1]), 18) {
					return n, some, errors.New("a value of the past is not a decimal")
				}
			}
		}
		return n, some, nil
	}
	n, some, err := check(moments, MomentValues)
	if err != nil || candles == nil {
		return n, err
	}
	c, someCandle, err := check(candles, CandleValues)
	switch {
	case err != nil:
		return n, err
	case c != n:
		return n, fmt.Errorf("%d candles for %d moments", c, n)
	case !some && !someCandle:
		return n, errors.New("no price at all")
	}
	return n, nil
}
