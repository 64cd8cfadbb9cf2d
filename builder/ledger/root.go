package ledger

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"example.com/marketdata/artifacts"
)

// Root is the object that a manifest's Ledger names: one zstd frame that contains JSON.
type Root struct {
	Format int `json:"format"`
	// IDs holds every id ever assigned, by collection.
	IDs map[string]idSegments `json:"ids"`
	// Prices lists the snapshots whose prices are kept, oldest first.
	Prices priceList `json:"prices"`
	// Charted lists the history points of the snapshots in which fewer assets have points than have
	// prices. In all other snapshots every price is a point. Charted is nil in a root that was
	// written by a builder without history.
	Charted *priceList `json:"charted,omitempty"`
	// Returns logs the assets that came back: they have a price in a snapshot and had none in the
	// preceding one. There is one log for each step by which prices are thinned: every snapshot,
	// the first of each hour, and the first of each day.
	Returns [3]returnLog `json:"returns"`
	// Groups holds the newest market snapshot of each group, by collection.
	Groups map[string]artifacts.Ref `json:"groups"`
	// Totals holds the market's totals for the last 48 hours, oldest first.
	Totals []Total `json:"totals"`
	// Past is set only after an import. It names the past blocks that the next snapshot extends
	// instead of the previous snapshot's blocks (go doc ./artifacts, "Past").
	Past []artifacts.View `json:"past,omitempty"`

	// Directory describes what is listed at the newest snapshot. The next build compares its own
	// listings with it. If Directory is nil, the record of changes starts over with the next
	// snapshot.
	Directory *Directory `json:"directory,omitempty"`

	own []row // the newest snapshot's points, if they are in memory
}

// idSegments holds a collection's ids in the order in which they were assigned. Only the last
// segment may still change.
type idSegments struct {
	// Count is the number of ids in all segments.
	Count    int             `json:"count"`
	Segments []artifacts.Ref `json:"segments"`
}

// returnLog holds the returns in one step, oldest first. Only the last segment may still change.
type returnLog struct {
	Segments []returnSegment `json:"segments"`
}

// returnSegment is a segment with the time of its newest return.
type returnSegment struct {
	artifacts.Ref
	Newest time.Time `json:"newest"`
}

// Total is one snapshot's total market cap, in units of 1e-8 dollars.
type Total struct {
	Time      time.Time `json:"time"`
	MarketCap string    `json:"market_cap"`
}

// Encode returns the root's stored form, which is itself an object.
func (l *Root) Encode() []byte {
	b, err := json.Marshal(l)
	if err != nil {
		panic("BUG: ledger: " + err.Error())
	}
	return artifacts.Compress(nil, b)
}

// maxRootPlain is the maximum size of a decompressed root, in bytes. It suffices for about 2,800
// snapshots with a few parts each, and for the segments.
const maxRootPlain = 32 << 20

// parseRoot parses a root. It returns ErrFormat for a newer format and ErrCorrupt for any other
// error.
func parseRoot(b []byte) (*Root, error) {
	plain, err := artifacts.DecompressBounded(b, maxRootPlain)
	if err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	var l Root
	if err := artifacts.ParseFormat("ledger", plain, &l); err != nil {
		return nil, err
	}
	return &l, nil
}

// Refs returns all objects that the root names.
func (l *Root) Refs() []artifacts.Ref {
	var refs []artifacts.Ref
	for _, c := range slices.Sorted(maps.Keys(l.IDs)) {
		refs = append(refs, l.IDs[c].Segments...)
	}
	for _, p := range l.Prices {
		refs = append(refs, p.Parts...)
	}
	if l.Charted != nil {
		for _, p := range *l.Charted {
			refs = append(refs, p.Parts...)
		}
	}
	for _, log := range l.Returns {
		for _, s := range log.Segments {
			refs = append(refs, s.Ref)
		}
	}
	for _, c := range slices.Sorted(maps.Keys(l.Groups)) {
		refs = append(refs, l.Groups[c])
	}
	for i := range l.Past {
		for _, o := range l.Past[i].Objects {
			refs = append(refs, o.Ref)
		}
	}
	return append(refs, l.Directory.refs()...)
}

// Refs returns all objects that an encoded root names.
func Refs(root []byte) ([]artifacts.Ref, error) {
	r, err := parseRoot(root)
	if err != nil {
		return nil, err
	}
	return r.Refs(), nil
}

// ReadRoot reads and checks the root that ref names.
func ReadRoot(ctx context.Context, r artifacts.ObjectReader, ref artifacts.Ref) (*Root, error) {
	b, err := artifacts.ReadObject(ctx, r, ref)
	if err != nil {
		return nil, err
	}
	return parseRoot(b)
}
