// Package change implements the change job, which records the 24-hour change of the total market
// cap.
package change

import (
	"context"
	"errors"
	"fmt"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/ledger"
	"example.com/marketdata/builder/market"
	"example.com/marketdata/builder/publish"
	"github.com/cockroachdb/apd/v3"
)

// window is the maximum age of the total with which the newest one is compared.
const window = 24 * time.Hour

// tries is the maximum number of attempts. The job starts again if another job has written its
// record in the meantime.
const tries = 5

// Record computes the 24-hour change of the total market cap from the totals in the published
// snapshot's ledger, and writes the change record (FEED.md, "Change of the total"). clock returns
// the job's time. For a store without a snapshot it returns nil and writes nothing.
//
// It reads the record's version before the totals, so that no record replaces one that was
// computed from newer totals.
func Record(ctx context.Context, s artifacts.Store, clock func() time.Time) (*artifacts.Change, error) {
	return RecordOf(ctx, s, clock, func() (*artifacts.Manifest, *artifacts.Pointer, error) {
		head, err := publish.ReadHead(ctx, s)
		if err != nil {
			return nil, nil, err
		}
		return head.Manifest, head.Pointer, nil
	})
}

// RecordOf is like Record, except that it gets the published snapshot from readSnapshot.
func RecordOf(ctx context.Context, s artifacts.Store, clock func() time.Time,
	readSnapshot func() (*artifacts.Manifest, *artifacts.Pointer, error),
) (*artifacts.Change, error) {
	for try := 1; ; try++ {
		before, version, err := last(ctx, s)
		if dropped, derr := publish.DropOversized(ctx, s, artifacts.ChangeKey, err); dropped {
			err = derr
		}
		if err != nil {
			return nil, fmt.Errorf("read change record: %w", err)
		}
		m, p, err := readSnapshot()
		if err != nil || m == nil {
			return nil, err
		}
		c, err := At(ctx, s, m, clock)
		if err != nil {
			return nil, fmt.Errorf("ledger: %w", err)
		}
		if c.Numbered, err = publish.Number(ctx, s, before.Numbered, clock()); err != nil {
			return nil, err
		}
		c.Sequence = p.Sequence
		// After an error, it is unknown whether the record was written. Either outcome is valid,
		// and the next try reads the record.
		if _, err = s.Swap(ctx, artifacts.ChangeKey, version, c.Encode()); err == nil {
			return c, publish.Mark(ctx, s, artifacts.ChangeKey)
		}
		if try == tries || ctx.Err() != nil {
			return nil, fmt.Errorf("write change record: %w", err)
		}
	}
}

// last returns the change record and its version. It returns a zero record if there is none or if
// it is damaged, since the next record does not depend on it. A record with a newer format, or one
// that exceeds the size limit, is an error.
func last(ctx context.Context, s artifacts.ObjectReader) (artifacts.Change, artifacts.Version, error) {
	b, version, err := s.Get(ctx, artifacts.ChangeKey, artifacts.MaxPointerSize)
	var c *artifacts.Change
	if err == nil {
		c, err = artifacts.ParseChange(b)
	}
	switch {
	case err == nil:
		return *c, version, nil
	case errors.Is(err, artifacts.ErrNotFound), errors.Is(err, artifacts.ErrCorrupt),
		errors.Is(err, artifacts.ErrSignature):
		return artifacts.Change{}, version, nil
	}
	return artifacts.Change{}, "", err
}

// At returns the change record for the totals in m, without a number.
func At(ctx context.Context, r artifacts.ObjectReader, m *artifacts.Manifest, now func() time.Time,
) (*artifacts.Change, error) {
	root, err := ledger.ReadRoot(ctx, r, m.Ledger)
	if err != nil {
		return nil, err
	}
	c, err := of(root.Totals)
	if err == nil {
		c.Database, c.Time = m.Database, now().UTC()
	}
	return c, err
}

// of compares the newest total with the earliest total in the preceding 24 hours.
func of(totals []ledger.Total) (*artifacts.Change, error) {
	if len(totals) == 0 {
		return nil, errors.New("has no totals")
	}
	newest := totals[len(totals)-1]
	base := newest
	for i := len(totals) - 1; i >= 0 && newest.Time.Sub(totals[i].Time) <= window; i-- {
		base = totals[i]
	}
	value, err := percentChange(newest.MarketCap, base.MarketCap)
	if err != nil {
		return nil, err
	}
	return &artifacts.Change{Format: artifacts.Format, Snapshot: newest.Time, Base: base.Time, Value: value}, nil
}

// percentChange returns (current - base) / base × 100 as a decimal string, rounded half to even to
// market.PercentDecimals places. For a base of zero it returns "0".
func percentChange(current, base string) (string, error) {
	n, b := total(current), total(base)
	if n == nil || b == nil {
		return "", fmt.Errorf("totals %.80q, %.80q: want integers from 0", current, base)
	}
	if b.IsZero() {
		return "0", nil
	}
	if _, err := apd.BaseContext.Sub(n, n, b); err != nil { // exact
		return "", err
	}
	n.Exponent = 2 // percent
	q := market.Quotient(n, b, market.PercentDecimals)
	q.Reduce(q) // remove trailing zeros
	return q.Text('f'), nil
}

// total parses a non-negative integer. It returns nil if text is anything else.
func total(text string) *apd.Decimal {
	x, _, err := apd.NewFromString(text)
	if err != nil || len(text) > market.MaxDigits || x.Form != apd.Finite || x.Exponent != 0 || x.Negative {
		return nil
	}
	return x
}

// Beyond reports whether n exceeds a number that edges have seen by so much that they refuse it as
// a successor.
func Beyond(n, seen uint64) bool { return n > seen+artifacts.MaxJump }
