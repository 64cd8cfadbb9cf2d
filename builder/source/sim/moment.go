package sim

import (
	"time"
)

// What hashes are of: things within the seed, and traits within a thing. The
// order matters: another one is another market.
const (
	ofMarket uint64 = iota
	ofSector
	ofSlot
	ofAsset
	ofExchange
	ofCategory
	ofChain

	ofLife
	ofName
	ofSymbol
	ofSlug
	ofKind
	ofPrice
	ofCap
	ofVolume
	ofLoss
	ofStyle
	ofLinks
	ofFees
	ofCounts
	ofTime
	ofStatus
	ofMembers
	ofNative
)

// sectors are the groups of assets that move together.
const sectors = 16

// moment is a market at one time. It never changes.
type moment struct {
	*Market
	time   time.Time
	unix   int64
	market log2 // how far the whole market has moved
	sector [sectors]log2
}

func newMoment(m *Market, t time.Time) *moment {
	at := &moment{Market: m, time: t, unix: t.Unix()}
	at.market = m.seed.with(ofMarket).walk(at.unix) * 5 / 8
	for i := range at.sector {
		at.sector[i] = m.seed.with(ofSector).with(uint64(i)).walk(at.unix) / 2
	}
	return at
}

const (
	hour = 3600 // seconds
	day  = 24 * hour
)

// yearOne is the Unix time before which there is no feed.
const yearOne = -62135596800

// turn returns the number of the present turn of h, when turns are as long as
// h chooses, from shortest to longest seconds, and do not begin all at once.
func (m *moment) turn(h hash, shortest, longest int64) int64 {
	length := shortest + int64(h.with(0).below(uint64(longest-shortest)))
	begin := int64(h.with(1).below(uint64(length)))
	return (m.unix - yearOne + begin) / length
}
