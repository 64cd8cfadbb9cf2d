package sim

import "strconv"

// asset is one asset. A market has slots, one for each row of assets.ndjson; in
// some the asset changes over time, so that assets come and go while their
// number stays.
type asset struct {
	slot   int
	tenant int64 // number of the asset in its slot; -1: the only one
	hash   hash
}

// settled slots, the largest assets, have neither changes nor gaps, so that
// small markets are sound.
const settled = 20

// asset returns the asset that is in a slot now. Of a hundred slots, sixty keep
// theirs for ever; 38 change it for a new one after two months to three years;
// in two, two assets take turns of hours to days, so that each vanishes and
// comes back.
func (m *moment) asset(slot int) asset {
	h := m.seed.with(ofSlot).with(uint64(slot))
	a := asset{slot: slot, tenant: -1}
	life := h.with(ofLife)
	switch kind := life.below(100); {
	case slot < settled || kind < 60:
	case kind < 98:
		a.tenant = m.turn(life, 60*day, 3*365*day)
	default:
		a.tenant = m.turn(life, 6*hour, 10*day) % 2
	}
	a.hash = h.with(ofAsset).with(uint64(a.tenant))
	return a
}

// appendTag appends what tells the asset from all others, ever: its slot, and
// its number there behind a low line. A low line, since a slug's words are
// joined by hyphens and its last one is the tag.
func (a *asset) appendTag(b []byte) []byte {
	b = strconv.AppendInt(b, int64(a.slot), 36)
	if a.tenant >= 0 {
		b = append(b, '_')
		b = strconv.AppendInt(b, a.tenant, 36)
	}
	return b
}

// appendKey appends the asset's key as a JSON string.
func (a *asset) appendKey(b []byte) []byte {
	b = append(b, `"sim-`...)
	b = a.appendTag(b)
	return append(b, '"')
}

func (m *moment) assetRow(b []byte, slot int) []byte {
	a := m.asset(slot)
	name := a.name()
	b = append(b, `{"key":`...)
	b = a.appendKey(b)
	b = append(b, `,"name":`...)
	b = name.appendJSON(b)
	b = append(b, `,"symbol":`...)
	b = a.appendSymbol(b, name)
	b = append(b, `,"slug":`...)
	b = a.appendSlug(b, name)

	links := a.hash.with(ofLinks)
	if !links.with(0).percent(4) {
		b = append(b, `,"logo":"https://img.sim.example/coins/`...)
		b = a.appendTag(b)
		b = append(b, `.png"`...)
	}
	if n := links.with(1).below(4); n > 0 {
		b = append(b, `,"explorers":[`...)
		for i := range n {
			if i > 0 {
				b = append(b, ',')
			}
			at := links.with(2).with(i)
			b = append(b, `"https://scan.`...)
			b = append(b, explorers[at.below(uint64(len(explorers)))]...)
			b = append(b, `.sim.example/token/0x`...)
			b = appendHex(b, at.with(1))
			b = appendHex(b, at.with(2))
			b = append(b, '"')
		}
		b = append(b, ']')
	} else if links.with(2).percent(50) {
		b = append(b, `,"explorers":[]`...)
	}
	if links.with(3).percent(75) {
		b = append(b, `,"website":"https://`...)
		b = a.appendTag(b)
		b = append(b, `.sim.example/?ref=list&lang=en"`...)
	}
	if links.with(4).percent(20) {
		b = append(b, `,"whitepaper":"https://docs.sim.example/`...)
		b = a.appendTag(b)
		b = append(b, `/paper.pdf"`...)
	}
	switch kind := a.hash.with(ofStatus).below(100); {
	case kind < 6 && slot >= settled:
		b = append(b, `,"active":false`...)
	case kind >= 80:
		b = append(b, `,"active":true`...)
	}
	return append(b, "}\n"...)
}

// Bounds of prices and market caps: 1e-15 and 1e13, with a little room for
// rounding.
const (
	minPrice log2 = -214013587890
	maxCap   log2 = 185478442851
	topCap   log2 = 178018232432 // of slot 0, where it starts: 3e12
)

// figures returns the logarithms of the asset's price, market cap and volume.
func (m *moment) figures(a *asset) (price, marketCap, volume log2) {
	kind := a.hash.with(ofKind)
	start := a.hash.with(ofPrice)
	// How far the price is from where it started: its share in the market and
	// in its sector, and its own way, in units of 1/256.
	beta := kind.with(0).between(64, 384)
	gamma := kind.with(1).between(64, 256)
	var own log2
	switch v := kind.with(2).below(100); {
	case v < 60 || a.slot < settled:
		own = kind.with(3).between(128, 320)
	case v < 90:
		own = kind.with(3).between(256, 768)
	default:
		own = kind.with(3).between(768, maxOwn)
	}
	switch v := start.below(100); {
	case v < 3 && a.slot >= 2: // bound to the dollar
		beta, gamma, own = 0, 0, 1
	case a.slot < settled:
		price = start.with(0).between(-3*one, 17*one)
	case v < 13:
		price = start.with(0).between(-50*one, -27*one)
	case v < 70:
		price = start.with(0).between(-27*one, 0)
	default:
		price = start.with(0).between(0, 13*one)
	}
	moved := (m.market*beta + m.sector[kind.with(4).below(sectors)]*gamma + start.walk(m.unix)*own) >> 8
	price = max(minPrice, price+moved)

	// Market caps fall with the slot as a power of it, as the real ones do.
	marketCap = topCap - log2Int(uint64(a.slot)+1)*27/20 + moved
	if a.slot >= settled {
		marketCap += a.hash.with(ofCap).between(-3*one, 3*one)
	}
	marketCap = min(maxCap, marketCap)
	turnover := a.hash.with(ofVolume)
	volume = min(maxCap, marketCap+turnover.between(-8*one, 0)+turnover.walk(m.unix))
	return price, marketCap, volume
}

// maxOwn is the most that an asset follows its own way, in units of 1/256.
const maxOwn = 1280

// maxStep bounds what a price moves in one tick, as a logarithm: about 2^0.28.
const maxStep = walkStep * (384*5/8 + 256/2 + maxOwn) / 256

// lost reports whether the asset has no quote: four of a hundred never have
// one, three lose theirs now and then for hours to days.
func (m *moment) lost(a *asset) bool {
	h := a.hash.with(ofLoss)
	switch kind := h.below(100); {
	case a.slot < settled:
		return false
	case kind < 4:
		return true
	case kind < 7:
		return h.with(2).with(uint64(m.turn(h, 8*hour, 5*day))).percent(25)
	}
	return false
}

func (m *moment) quoteRow(b []byte, slot int) []byte {
	a := m.asset(slot)
	if m.lost(&a) {
		return b
	}
	price, marketCap, volume := m.figures(&a)
	style := a.hash.with(ofStyle)
	b = append(b, `{"key":`...)
	b = a.appendKey(b)
	b = append(b, `,"price":`...)
	b = price.decimal(8).appendJSON(b, style.with(0))
	switch kind := style.with(1).below(100); {
	case kind >= 15 || slot < settled:
		b = append(b, `,"market_cap":`...)
		b = marketCap.decimal(10).appendJSON(b, style.with(2))
	case kind < 5:
		b = append(b, `,"market_cap":null`...)
	case kind < 9:
		b = append(b, `,"market_cap":"0.0"`...)
	case kind < 10:
		b = append(b, `,"market_cap":0`...)
	}
	switch kind := style.with(3).below(100); {
	case kind >= 12 || slot < settled:
		b = append(b, `,"volume":`...)
		b = volume.decimal(10).appendJSON(b, style.with(4))
	case kind < 6:
		b = append(b, `,"volume":"0"`...)
	case kind < 8:
		b = append(b, `,"volume":null`...)
	}
	return append(b, "}\n"...)
}

func appendHex(b []byte, h hash) []byte {
	const digits = "0123456789abcdef"
	for shift := 60; shift >= 0; shift -= 4 {
		b = append(b, digits[h>>shift&15])
	}
	return b
}
