package changes

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/bits"
	"slices"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/market"
	"github.com/zeebo/xxh3"
)

// fields are the fields of an item that can change, in the order in which answers list them.
// Changes state the old and new values of the first numTextFields fields. For the remaining fields,
// an item has only a digest.
var fields = [...]string{"name", "symbol", "slug", "logo", "active", "links", "platforms", "members"}

const (
	name = iota
	symbol
	slug
	numTextFields = 4
)

// item is an asset, exchange, category or chain in a directory, with the values of its fields.
type item struct {
	id     uint64
	values [len(fields)]string
}

// partItems is the approximate number of items in a part. A part has about 100 KB, or 30 KB
// compressed.
const partItems = 1 << 10

// usualItem is the capacity, in bytes, that is reserved for an item. Many items are shorter.
const usualItem = 192

// parts holds the items of a collection. Each part is encoded with its items in ascending order of
// id.
type parts [][]byte

// newParts returns empty parts for a collection of n items.
func newParts(n int) parts {
	p := make(parts, 1<<bits.Len(uint(n/partItems)))
	for i := range p {
		p[i] = make([]byte, 0, usualItem*n/len(p))
	}
	return p
}

// part returns a pointer to the part of an id.
func (p parts) part(id uint64) *[]byte {
	return &p[(id*0x9e3779b97f4a7c15)>>32&uint64(len(p)-1)] // Fibonacci hashing
}

// add adds an item. Ids must ascend. An item is encoded as its id, followed by the length and the
// bytes of each value.
func (p parts) add(id uint64, values ...string) {
	to := p.part(id)
	*to = binary.AppendUvarint(*to, id)
	for _, v := range values {
		*to = append(binary.AppendUvarint(*to, uint64(len(v))), v...)
	}
}

// decode appends the items of a part to dst.
func decode(dst []item, part []byte) ([]item, error) {
	text := string(part)
	number := func() (n uint64) {
		n, size := binary.Uvarint(part)
		part = part[max(size, 0):]
		if size <= 0 {
			part = nil
		}
		return n
	}
	for len(part) > 0 {
		of := item{id: number()}
		for i := range of.values {
			n := number()
			if n > uint64(len(part)) || len(part) == 0 && n > 0 {
				return nil, fmt.Errorf("%w: a part of the directory ends too early", artifacts.ErrCorrupt)
			}
			at := len(text) - len(part)
			of.values[i], part = text[at:at+int(n)], part[n:]
		}
		dst = append(dst, of)
	}
	return dst, nil
}

// digester computes digests of values that are not kept as text.
type digester struct{ of []byte }

func (d *digester) add(s string) { d.of = append(binary.AppendUvarint(d.of, uint64(len(s))), s...) }

// end returns the digest of the strings added since the last call.
func (d *digester) end() string {
	sum := xxh3.Hash128(d.of).Bytes()
	d.of = d.of[:0]
	return string(sum[:])
}

// directory holds the listed items by collection, in the order of artifacts.ChangeCollections.
type directory [len(artifacts.ChangeCollections)]parts

// directoryOf returns the directory of a snapshot.
func directoryOf(f *market.Feed, r *market.Result) directory {
	return directory{assets(f), groups(f, f.Categories, r.Categories, false), groups(f, f.Chains, r.Chains, true),
		exchanges(f)}
}

// ascending returns the indices of n rows in ascending order of id.
func ascending(n int, id func(i int) uint64) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(id(a), id(b)) })
	return order
}

func assets(f *market.Feed) parts {
	all := newParts(len(f.Assets))
	var links, platforms digester
	for _, i := range ascending(len(f.Assets), func(i int) uint64 { return f.Assets[i].ID }) {
		a := &f.Assets[i]
		links.add(a.Website)
		links.add(a.Whitepaper)
		for _, e := range a.Explorers {
			links.add(e)
		}
		var active, on string
		if a.Active {
			active = "1"
		}
		if len(a.Platforms) > 0 {
			for _, p := range a.Platforms {
				platforms.add(p.ID)
				platforms.add(p.Address)
			}
			on = platforms.end()
		}
		all.add(a.ID, a.Name, a.Symbol, a.Slug, a.Logo, active, links.end(), on, "")
	}
	return all
}

func exchanges(f *market.Feed) parts {
	all := newParts(len(f.Exchanges))
	var links digester
	for _, i := range ascending(len(f.Exchanges), func(i int) uint64 { return f.Exchanges[i].ID }) {
		e := &f.Exchanges[i]
		for _, l := range e.Links {
			links.add(l)
		}
		all.add(e.ID, e.Name, "", e.Slug, e.Logo, "", links.end(), "", "")
	}
	return all
}

// groups returns the listed groups in a collection. Their members are their active coins. A chain's
// logo is the logo of its native coin.
func groups(f *market.Feed, of []market.Group, listed []market.ListedGroup, logos bool) parts {
	all := newParts(len(listed))
	var id, members []byte
	for _, i := range ascending(len(listed), func(i int) uint64 { return of[listed[i].Group].ID }) {
		g := &of[listed[i].Group]
		var n, sum, other uint64
		for _, m := range g.Members {
			if a := &f.Assets[m]; a.Active {
				id = binary.LittleEndian.AppendUint64(id[:0], a.ID)
				h := xxh3.Hash128(id)
				n, sum, other = n+1, sum+h.Lo, other+h.Hi
			}
		}
		members = binary.AppendUvarint(members[:0], n)
		members = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(members, sum), other)
		var logo string
		if logos && g.Native >= 0 {
			logo = f.Assets[g.Native].Logo
		}
		all.add(g.ID, g.Name, "", g.Slug, logo, "", "", "", string(members))
	}
	return all
}

// sumOf returns a digest of a part. Comparing digests shows whether a part has changed.
func sumOf(part []byte) string {
	sum := xxh3.Hash128(part).Bytes()
	return hex.EncodeToString(sum[:])
}

// maxPart is the maximum size of a decompressed part, in bytes.
const maxPart = 256 << 20

// open decompresses a stored part, checks it against sum and appends its items to dst.
func open(dst []item, stored []byte, sum string) ([]item, error) {
	plain, err := artifacts.DecompressBounded(stored, maxPart)
	if err == nil && sumOf(plain) != sum {
		err = fmt.Errorf("%w: a part of the directory has another digest", artifacts.ErrCorrupt)
	}
	if err != nil {
		return nil, err
	}
	return decode(dst, plain)
}
