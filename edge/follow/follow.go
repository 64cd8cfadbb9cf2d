// Package follow reads the cells of a store for an edge, verifies them, and asks a store
// that does not answer until it does.
//
// A copy of the store may fill its gaps. A gap is a cell that the store does not give, or not one that
// may be taken. The copy never outvotes the store:
//
//   - The store alone says which store this is. A copy counts once that is known, and only if it is one
//     of the same store.
//   - An answer of the store counts however late it comes. The highest number wins.
//   - What the copy says of a cell that has not changed counts only if the last question to the store
//     failed, or had an answer that may not be taken.
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

// Cells reads the cells of one store. It is safe for concurrent use.
type Cells struct {
	Reader artifacts.CellReader
	// Fallback has the copy of the store; nil: there is none.
	Fallback *fallback.Reader
	// Verify checks the signature of a cell before anybody believes it; nil: nothing does.
	Verify func(key artifacts.Key, data []byte) error
	// Floor learns which store this is before anything of it is taken.
	Floor *floor.Floor
	// Timeout is how long an answer usually takes at most. One that takes up to twice as long counts, too.
	Timeout time.Duration
}

// NewCells returns Cells of a store of which nothing is known, and which is to answer within five seconds.
func NewCells(store artifacts.CellReader) *Cells {
	return &Cells{Reader: store, Floor: floor.Open("", nil, nil), Timeout: 5 * time.Second}
}

// Answer is what is said of a cell.
type Answer struct {
	Data []byte
	// Version is to be given to the next question. The copy's mean nothing to the store.
	Version artifacts.Version
	// Err is nil if Data may be taken, artifacts.ErrNotModified if there is nothing new, and else says why
	// there is no cell that may be taken, as artifacts.ErrNotFound does.
	Err error
	// Away means that the store gives no answer. The copy's may be here in its place.
	Away bool
	// Broken means that the cell is whole and breaks continuity: it is of another store, or an older one.
	Broken bool

	second   bool // it is the copy's
	waiting  bool // the store may still answer
	question int  // counts the Follower's questions
	of       artifacts.Numbered
}

// Unconfirmed reports that the store has answered with a cell that may not be taken, or with none, and
// that the copy has nothing newer. The copy fills the gap, but it cannot say what the store would.
func (a *Answer) Unconfirmed() bool {
	return a.second && !a.Away && errors.Is(a.Err, artifacts.ErrNotModified)
}

// counts reports whether there is no gap.
func (a *Answer) counts() bool { return a.Err == nil || errors.Is(a.Err, artifacts.ErrNotModified) }

// Read asks the store about a cell and, if it leaves a gap, the copy. known is the version of the last
// Answer that was taken; "": none was.
func (c *Cells) Read(ctx context.Context, key artifacts.Key, known artifacts.Version) Answer {
	first := c.ask(ctx, key, known)
	c.check(key, &first)
	if first.counts() || c.Fallback == nil {
		c.note(key, &first)
		return first
	}
	second := c.askCopy(ctx, key, known)
	return c.fill(key, known, first, second)
}

// note tells whoever reads the status that the store gave a cell itself.
func (c *Cells) note(key artifacts.Key, a *Answer) {
	if c.Fallback != nil && a.counts() {
		c.Fallback.Note(key, "")
	}
}

// fill returns the copy's answer if it fills the gap that the store's leaves, and else the store's.
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

// ask asks the store. Its answer still has to pass check.
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

// ofCopy begins the versions of the copy. No store has such.
const ofCopy = "\x00copy "

// askCopy asks the copy. Its answer still has to pass checkCopy.
func (c *Cells) askCopy(ctx context.Context, key artifacts.Key, known artifacts.Version) Answer {
	own, its := strings.CutPrefix(string(known), ofCopy)
	if !its {
		own = ""
	}
	a := c.get(ctx, c.Fallback.Copy(), c.Timeout, key, artifacts.Version(own))
	a.second, a.Version = true, ofCopy+a.Version
	return a
}

// get reads a cell, and verifies and parses it.
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

// check refuses a cell of the store that breaks continuity.
func (c *Cells) check(key artifacts.Key, a *Answer) {
	if a.Err == nil {
		a.Err = c.Floor.Check(key, a.of.Store, a.of.Number)
		a.Broken = a.Err != nil
	}
}

// checkCopy is check for the copy. A number that was taken before is nothing new.
func (c *Cells) checkCopy(key artifacts.Key, known artifacts.Version, a *Answer) {
	if a.Err != nil {
		return
	}
	var same bool
	if same, a.Err = c.Floor.CheckCopy(key, a.of.Store, a.of.Number); a.Err == nil && same && known != "" {
		a.Err = fmt.Errorf("the copy has it, too: %w", artifacts.ErrNotModified)
	}
}
