// Package follow reads and verifies the cells of a store for an edge. While the store does not answer, it
// keeps asking.
//
// A copy of the store may fill gaps. A gap is a cell for which the store returns nothing valid. The copy
// never overrules the store:
//
//   - Only the store says which store this is. The copy counts only once the store's identity is known, and
//     only if it is a copy of that store.
//   - An answer from the store counts even if it is late. The highest number wins.
//   - A "not modified" answer from the copy counts only if the last read of the store failed or returned
//     nothing valid.
package follow

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/fallback"
	"example.com/marketdata/edge/floor"
)

// Cells reads the cells of a store. It is safe for concurrent use.
type Cells struct {
	Reader artifacts.CellReader
	// Fallback reads the copy of the store. It is nil if there is none.
	Fallback *fallback.Reader
	// Verify checks the signature of a cell. If it is nil, signatures are not checked.
	Verify func(key artifacts.Key, data []byte) error
	// Floor learns the store's identity before Cells returns anything from the store.
	Floor *floor.Floor
	// Timeout is the normal time limit for an answer. An answer that takes up to twice as long still counts.
	Timeout time.Duration
}

// NewCells returns Cells with an empty Floor and a Timeout of five seconds.
func NewCells(store artifacts.CellReader) *Cells {
	return &Cells{Reader: store, Floor: floor.Open("", nil, nil), Timeout: 5 * time.Second}
}

// Answer is the result of reading a cell.
type Answer struct {
	Data []byte
	// Version must be passed to the next Read. A version of the copy has no meaning for the store.
	Version artifacts.Version
	// Err is nil if Data is valid, artifacts.ErrNotModified if the cell has not changed, and otherwise the
	// reason why there is no valid cell, such as artifacts.ErrNotFound.
	Err error
	// Away means that the store does not answer. Data may still come from the copy.
	Away bool
	// Broken means that the cell is intact, but belongs to another store or is older than one that the edge
	// has taken.
	Broken bool

	second   bool // the answer comes from the copy
	waiting  bool // the store may still answer
	question int  // the number of the Follower's read
	of       artifacts.Numbered
}

// Unconfirmed reports whether the store has answered without a valid cell, and the copy has nothing newer.
// The copy can fill the gap, but it cannot confirm that the store has not changed.
func (a *Answer) Unconfirmed() bool {
	return a.second && !a.Away && errors.Is(a.Err, artifacts.ErrNotModified)
}

// counts reports whether the answer leaves no gap.
func (a *Answer) counts() bool { return a.Err == nil || errors.Is(a.Err, artifacts.ErrNotModified) }

// Read reads a cell from the store or, if that leaves a gap, from the copy. lastTaken is the version of the
// last Answer that the caller has taken, or "".
func (c *Cells) Read(ctx context.Context, key artifacts.Key, lastTaken artifacts.Version) Answer {
	first := c.ask(ctx, key, lastTaken)
	c.check(key, &first)
	if first.counts() || c.Fallback == nil {
		c.note(key, &first)
		return first
	}
	second := c.askCopy(ctx, key, lastTaken)
	return c.fill(key, lastTaken, first, second)
}

// note records that the store itself returned a cell, for the status report.
func (c *Cells) note(key artifacts.Key, a *Answer) {
	if c.Fallback != nil && a.counts() {
		c.Fallback.Note(key, "")
	}
}

// fill returns the copy's answer if it fills the gap in the store's answer, and otherwise the store's answer.
func (c *Cells) fill(key artifacts.Key, known artifacts.Version, first, second Answer) Answer {
	c.checkCopy(key, known, &second)
	if !second.counts() {
		first.Err = fmt.Errorf("%w; the fallback store: %v", first.Err, second.Err)
		return first
	}
	c.Fallback.Note(key, first.Err.Error())
	second.Away = first.Away
	return second
}

// ask reads a cell from the store. The answer still has to pass check.
func (c *Cells) ask(ctx context.Context, key artifacts.Key, known artifacts.Version) Answer {
	if strings.HasPrefix(string(known), ofCopy) {
		known = ""
	}
	err := c.Floor.Learn(func(key artifacts.Key) (store string, err error) {
		if a := c.get(ctx, c.Reader, 2*c.Timeout, key, ""); a.Away {
			return "", a.Err
		} else if a.Err == nil {
			store = a.of.Store
		}
		return store, nil
	})
	if err != nil {
		return Answer{Err: err, Away: true}
	}
	return c.get(ctx, c.Reader, 2*c.Timeout, key, known)
}

// ofCopy is the prefix of the versions of the copy. No store uses such versions.
const ofCopy = "\x00copy "

// askCopy reads a cell from the copy. The answer still has to pass checkCopy.
func (c *Cells) askCopy(ctx context.Context, key artifacts.Key, known artifacts.Version) Answer {
	own, its := strings.CutPrefix(string(known), ofCopy)
	if !its {
		own = ""
	}
	a := c.get(ctx, c.Fallback.Copy(), c.Timeout, key, artifacts.Version(own))
	a.second, a.Version = true, ofCopy+a.Version
	return a
}

// get reads a cell, verifies its signature, and parses it.
func (c *Cells) get(ctx context.Context, from artifacts.CellReader, timeout time.Duration, key artifacts.Key,
	known artifacts.Version,
) (a Answer) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	a.Data, a.Version, a.Err = from.GetIf(ctx, key, known, key.Limit())
	if a.Err != nil {
		a.Away = !errors.Is(a.Err, artifacts.ErrNotFound) && !errors.Is(a.Err, artifacts.ErrNotModified) &&
			!errors.Is(a.Err, artifacts.ErrTooLarge)
		return a
	}
	if c.Verify != nil {
		a.Err = c.Verify(key, a.Data)
	}
	if a.Err == nil {
		a.of, a.Err = artifacts.ParseNumbered(key, a.Data)
	}
	return a
}

// check refuses a cell from another store, or one that is older than a cell that the edge has taken.
func (c *Cells) check(key artifacts.Key, a *Answer) {
	if a.Err == nil {
		a.Err = c.Floor.Check(key, a.of.Store, a.of.Number)
		a.Broken = a.Err != nil
	}
}

// checkCopy is like check, for a cell from the copy. If the edge has already taken a cell with the same
// number, the cell counts as not modified.
func (c *Cells) checkCopy(key artifacts.Key, known artifacts.Version, a *Answer) {
	if a.Err != nil {
		return
	}
	var same bool
	if same, a.Err = c.Floor.CheckCopy(key, a.of.Store, a.of.Number); a.Err == nil && same && known != "" {
		a.Err = fmt.Errorf("the copy has it, too: %w", artifacts.ErrNotModified)
	}
}
