package source

import (
	"crypto/sha256"
	"encoding/binary"
	"math/bits"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/market"
	"github.com/zeebo/xxh3"
)

// InputDigest returns the digest of a snapshot's input: the feed's database, the values of its
// accepted rows, the ids that the feed itself gives, and the settings. The settings can be any
// bytes. InputDigest must be called before the ledger assigns ids. The digest does not depend on
// the order of rows or members, nor on the feed's own time. Two builds at the same T with equal
// digests produce the same snapshot.
//
// Each row is hashed to 128 bits, and the digest of a collection is the sum of its row hashes. This
// needs no sorting and takes a tenth of the time of a SHA-256 over everything. It protects against
// accidental collisions, but not against rows crafted to collide. That suffices to recognize a
// repeated build.
func InputDigest(f *market.Feed, settings ...[]byte) artifacts.Digest {
	var all encoder
	all.text("feed 1") // the version of the encoding that follows
	all.text(f.Database)
	all.number(uint64(len(settings)))
	for _, s := range settings {
		all.text(string(s))
	}
	all.sum(rowSum(len(f.Assets), func(row *encoder, i int) { row.asset(&f.Assets[i]) }))
	assetKeys := make([]xxh3.Uint128, len(f.Assets))
	for i := range f.Assets {
		assetKeys[i] = xxh3.HashString128(f.Assets[i].Key)
	}
	all.sum(rowSum(len(f.Quotes), func(row *encoder, i int) { row.quote(&f.Quotes[i], assetKeys) }))
	all.sum(rowSum(len(f.Exchanges), func(row *encoder, i int) { row.exchange(&f.Exchanges[i]) }))
	all.sum(rowSum(len(f.Categories), func(row *encoder, i int) { row.group(&f.Categories[i], assetKeys) }))
	all.sum(rowSum(len(f.Chains), func(row *encoder, i int) { row.group(&f.Chains[i], assetKeys) }))
	if len(f.Rates) > 0 { // omitted if empty, so the digests of feeds without rates do not change
		all.sum(rowSum(len(f.Rates), func(row *encoder, i int) { row.rate(&f.Rates[i], assetKeys) }))
	}
	return sha256.Sum256(all)
}

// directoryForm is the version of the rows in the views for which artifacts.IsDirectory returns
// true. Raise it when package render changes these rows.
const directoryForm = "directory 2"

// DirectoryDigest returns the digest of the input to all rows in the views of coins, contracts and
// platforms. The input consists of the chains and the assets, which must already have their ids.
// The digest does not depend on the order of the rows in f. Like InputDigest, it protects only
// against accidental collisions.
func DirectoryDigest(f *market.Feed, r *market.Result) artifacts.Digest {
	var all encoder
	all.text(directoryForm)
	all.sum(rowSum(len(f.Assets), func(row *encoder, i int) { row.asset(&f.Assets[i]) }))
	all.sum(rowSum(len(f.Chains), func(row *encoder, i int) {
		g := &f.Chains[i]
		row.text(g.Slug)
		row.text(g.Name)
		row.text(g.DisplayName)
		row.count(g.EVMChainID)
		if row.given(g.Native >= 0) {
			row.text(f.Assets[g.Native].Key)
		}
	}))
	all.sum(rowSum(len(r.Chains), func(row *encoder, i int) { row.text(f.Chains[r.Chains[i].Group].Slug) }))
	return sha256.Sum256(all)
}

// multiset holds the number of hashes and their sum modulo 2^128.
type multiset struct {
	n   uint64
	sum xxh3.Uint128
}

func (m *multiset) add(h xxh3.Uint128) {
	var carry uint64
	m.n++
	m.sum.Lo, carry = bits.Add64(m.sum.Lo, h.Lo, 0)
	m.sum.Hi, _ = bits.Add64(m.sum.Hi, h.Hi, carry)
}

func rowSum(n int, encode func(row *encoder, i int)) (m multiset) {
	var row encoder
	for i := range n {
		row = row[:0]
		encode(&row, i)
		m.add(xxh3.Hash128(row))
	}
	return m
}

// encoder appends values. Each value has a fixed length or is preceded by its length, so different
// sequences of values never produce the same bytes.
type encoder []byte

func (e *encoder) number(n uint64) { *e = binary.AppendUvarint(*e, n) }

func (e *encoder) text(s string) {
	e.number(uint64(len(s)))
	*e = append(*e, s...)
}

func (e *encoder) wide(hi, lo uint64) {
	*e = binary.LittleEndian.AppendUint64(*e, lo)
	*e = binary.LittleEndian.AppendUint64(*e, hi)
}

func (e *encoder) decimal(u market.U128) { e.wide(u.Hi, u.Lo) }

func (e *encoder) sum(m multiset) {
	e.number(m.n)
	e.wide(m.sum.Hi, m.sum.Lo)
}

// given records whether a value follows, and returns its argument.
func (e *encoder) given(ok bool) bool {
	if ok {
		e.number(1)
	} else {
		e.number(0)
	}
	return ok
}

func (e *encoder) count(n *uint64) {
	if e.given(n != nil) {
		e.number(*n)
	}
}

func (e *encoder) asset(a *market.Asset) {
	e.text(a.Key)
	e.number(a.ID)
	e.text(a.Name)
	e.text(a.Symbol)
	e.text(a.Slug)
	e.text(a.Logo)
	e.number(uint64(len(a.Explorers)))
	for _, url := range a.Explorers {
		e.text(url)
	}
	e.text(a.Website)
	e.text(a.Whitepaper)
	e.given(a.Active)
	for _, p := range a.Platforms {
		e.text(p.ID)
		e.text(p.Name)
		e.text(p.Address)
	}
}

func (e *encoder) quote(q *market.Quote, assetKeys []xxh3.Uint128) {
	e.wide(assetKeys[q.Asset].Hi, assetKeys[q.Asset].Lo)
	e.decimal(q.Price)
	e.decimal(q.MarketCap)
	e.decimal(q.Volume)
	for i, s := range q.Supplies {
		if !s.IsZero() {
			e.number(uint64(i))
			e.decimal(s)
		}
	}
}

func (e *encoder) rate(r *market.Rate, assetKeys []xxh3.Uint128) {
	e.text(r.Code)
	e.text(r.Name)
	e.text(r.Unit)
	e.text(r.Type)
	e.decimal(r.USD)
	if r.Asset >= 0 {
		e.wide(assetKeys[r.Asset].Hi, assetKeys[r.Asset].Lo)
	}
}

func (e *encoder) exchange(x *market.Exchange) {
	e.text(x.Key)
	e.number(x.ID)
	e.text(x.Name)
	e.text(x.Slug)
	e.text(x.Logo)
	for _, url := range x.Links {
		e.text(url)
	}
	e.decimal(x.Maker)
	e.decimal(x.Taker)
	if m := x.Market; e.given(m != nil) {
		if e.given(m.Volume != nil) {
			e.decimal(*m.Volume)
		}
		e.count(m.MarketsCount)
		e.count(m.CoinsCount)
		if e.given(m.DataTime != nil) {
			e.number(uint64(m.DataTime.Unix()))
		}
	}
}

func (e *encoder) group(g *market.Group, assetKeys []xxh3.Uint128) {
	e.text(g.Key)
	e.number(g.ID)
	e.text(g.Name)
	e.text(g.Slug)
	e.given(g.Active)
	var members multiset
	for _, m := range g.Members {
		members.add(assetKeys[m])
	}
	e.sum(members)
	e.text(g.DisplayName)
	e.count(g.EVMChainID)
	if e.given(g.Native >= 0) {
		e.wide(assetKeys[g.Native].Hi, assetKeys[g.Native].Lo)
	}
}
