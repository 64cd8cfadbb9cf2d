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

// Root is the object that a manifest's Ledger names, one zstd frame of JSON: what
// the builder must know of the past.
type Root struct {
	Format int `json:"format"`
	// IDs are the ids ever given out, by collection.
	IDs map[string]idSegments `json:"ids"`
	// Prices list the snapshots whose prices are kept, oldest first.
	Prices priceList `json:"prices"`
	// Charted are the points of history of those snapshots in which fewer assets
	// gave points than had a price; of all others they are the prices. nil in a
	// root from before history, which does not know.
	Charted *priceList `json:"charted,omitempty"`
	// Returns are the reappearances, one log for each of the three steps
	// in which prices are thinned out (every snapshot, the first of an hour,
	// the first of a day): assets that have a price in a snapshot of that step
	// and had none in the one before.
	Returns [3]returnLog `json:"returns"`
	// Groups are the newest market snapshots of each group, by collection.
	Groups map[string]artifacts.Ref `json:"groups"`
	// Totals are those of the last 48 hours, oldest first.
	Totals []Total `json:"totals"`

	own []row // the newest snapshot's points, if they are at hand
}

// idSegments is a collection's ids in the order in which they were given out, in
// segments of which only the last one may still change.
type idSegments struct {
	// Count is the number of ids in all segments.
	Count    int             `json:"count"`
	Segments []artifacts.Ref `json:"segments"`
}

// returnLog is the reappearances of one step, oldest first, in segments of
// which only the last one may still change.
type returnLog struct {
	Segments []returnSegment `json:"segments"`
}

// returnSegment is a segment with the time of its newest reappearance.
type returnSegment struct {
	artifacts.Ref
	Newest time.Time `json:"newest"`
}

// Total is the total market cap of one snapshot, in units of 1e-8.
type Total struct {
	Time      time.Time `json:"time"`
	MarketCap string    `json:"market_cap"`
}

// encode returns the ledger root's stored form.
func (l *Root) encode() []byte {
	b, err := json.Marshal(l)
	if err != nil {
		panic("BUG: ledger: " + err.Error())
	}
	return artifacts.Compress(nil, b)
}

// maxRootPlain bounds the ledger root: some 2,800 snapshots of a few
// parts each, and the segments.
const maxRootPlain = 32 << 20

// parseRoot reads a ledger root. A newer format gives ErrFormat, and
// everything else that is wrong ErrCorrupt.
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

// Refs returns every object that the ledger root names.
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
	return refs
}

// Refs returns every object that the ledger root with these bytes names.
func Refs(root []byte) ([]artifacts.Ref, error) {
	r, err := parseRoot(root)
	if err != nil {
		return nil, err
	}
	return r.Refs(), nil
}

// ReadRoot reads and checks the ledger root that ref names.
func ReadRoot(ctx context.Context, r artifacts.Reader, ref artifacts.Ref) (*Root, error) {
	b, err := artifacts.ReadObject(ctx, r, ref)
	if err != nil {
		return nil, err
	}
	return parseRoot(b)
}
