package query

import (
	"bytes"
	"encoding/binary"
	"time"

	"example.com/marketdata/artifacts"
)

// Bounds of parameters, from INTERFACE.md, "Candles" and "Prices at a time".
const (
	// MaxCandles is the largest number of intervals in the range of /candles.
	MaxCandles = 1000
	// MaxPrices is the largest number of prices in an answer of /prices, and maxTimes the largest number of
	// times in a request.
	MaxPrices = 1000
	maxTimes  = 100
)

// DefaultCandles is the number of intervals that /candles returns by default, indexed by the interval's
// number in artifacts.PastIntervals.
var DefaultCandles = [len(artifacts.PastIntervals)]int64{artifacts.Hours: 168, artifacts.Days: 365}

// Past contains the parameters of /candles and /prices.
type Past struct {
	// Interval is the interval of /candles, as an index into artifacts.PastIntervals.
	Interval int
	// From and To are the inclusive range of /candles in Unix seconds. HasFrom and HasTo report whether
	// they were sent.
	From, To       int64
	HasFrom, HasTo bool
	// Times are the times of /prices in Unix seconds, in the order sent.
	Times []int64
}

// candles parses the parameters that are specific to /candles.
func (q *Query) candles(p *params) *ParamError {
	switch string(q.fold(p.value[paramInterval])) {
	case "", "1h":
		q.Past.Interval = artifacts.Hours
	case "1d":
		q.Past.Interval = artifacts.Days
	default:
		return errInterval
	}
	for _, bound := range [...]struct {
		param int
		sent  *bool
		to    *int64
		err   *ParamError
	}{
		{paramFrom, &q.Past.HasFrom, &q.Past.From, errFrom},
		{paramTo, &q.Past.HasTo, &q.Past.To, errTo},
	} {
		v := p.value[bound.param]
		if len(v) == 0 {
			continue
		}
		*bound.sent = true
		var ok bool
		if *bound.to, ok = parseMoment(q.unescape(v)); !ok {
			return bound.err
		}
	}
	if q.Past.HasFrom && q.Past.HasTo && q.Past.From > q.Past.To {
		return errFromAfterTo
	}
	return nil
}

// prices parses the times of /prices.
func (q *Query) prices(p *params) *ParamError {
	csv := q.unescape(p.value[paramTime])
	if len(csv) == 0 {
		return errTimeMissing
	}
	if bytes.Count(csv, comma) >= maxTimes {
		return errTimeCount
	}
	for n, more := 0, true; more; n++ {
		var element []byte
		if element, csv, more = bytes.Cut(csv, comma); len(element) == 0 {
			continue
		}
		t, ok := parseMoment(element)
		if !ok {
			return errTimeElement[n]
		}
		q.Past.Times = append(q.Past.Times, t)
	}
	if len(q.Past.Times) == 0 {
		return errTimeMissing
	}
	return nil
}

// parseMoment parses an RFC 3339 time or a number of Unix seconds, and returns Unix seconds. It drops
// fractions. The year must be between 1 and 9999.
func parseMoment(b []byte) (int64, bool) {
	if n, ok := ParseInt(b); ok {
		return n, n >= firstSecond && n <= lastSecond
	}
	t, ok := ParseLooseTime(b)
	return t.Unix(), ok
}

var (
	firstSecond = time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	lastSecond  = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC).Unix()
)

// appendPast appends the parameters of /candles and /prices to a cache key.
func (q *Query) appendPast(dst []byte) []byte {
	p := &q.Past
	flags := byte(p.Interval)
	if p.HasFrom {
		flags |= 1 << 6
	}
	if p.HasTo {
		flags |= 1 << 7
	}
	dst = append(dst, flags)
	if p.HasFrom {
		dst = binary.AppendVarint(dst, p.From)
	}
	if p.HasTo {
		dst = binary.AppendVarint(dst, p.To)
	}
	dst = binary.AppendUvarint(dst, uint64(len(p.Times)))
	for _, t := range p.Times {
		dst = binary.AppendVarint(dst, t)
	}
	return dst
}
