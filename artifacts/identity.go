package artifacts

import (
	"fmt"
	"time"
)

const (
	// MaxNumber bounds the sequence of a pointer and the numbers of key sets and
	// change records: every reader of JSON has integers up to here.
	MaxNumber = 1 << 53
	// MaxJump is how far a sequence or a number may be above the last one that an edge has seen.
	MaxJump = 1_000_000
)

// Identity is the object IdentityKey: which store this is. It is created before
// anything else is written. Store never changes; Had grows.
type Identity struct {
	Format int `json:"format"`
	// Store is 32 lower-case hexadecimal digits, random.
	Store string `json:"store"`
	// Had lists the small objects that this store has had: CurrentKey, ChangeKey, KeysKey.
	// One of them that is missing was lost. Stores of earlier versions do not say.
	Had []Key `json:"had,omitempty"`
}

// Encode returns the identity's stored form.
func (i *Identity) Encode() []byte { return EncodeSmall(i) }

// ParseIdentity reads an identity; a line of signatures behind it is left out.
// A newer format gives ErrFormat, and everything else that is wrong ErrCorrupt.
func ParseIdentity(b []byte) (*Identity, error) {
	var i Identity
	if err := ParseSmall("identity", b, &i); err != nil {
		return nil, err
	}
	if !isStoreID(i.Store) {
		return nil, fmt.Errorf("%w: identity: store %.80q: want 32 hexadecimal digits", ErrCorrupt, i.Store)
	}
	return &i, nil
}

// Numbered says of a key set or change record whose it is and which one. A record of before these
// fields has neither, and counts as the number 0 of the store that it lies in.
type Numbered struct {
	// Store is the identity of the store that it was written for.
	Store string `json:"store,omitempty"`
	// Number grows by one each time that the object is written, up to MaxNumber.
	Number uint64 `json:"number,omitempty"`
}

// ParseNumbered reads what an object that moves, by its key, says of itself: a
// pointer's number is its sequence, an identity has none.
func ParseNumbered(key Key, b []byte) (n Numbered, err error) {
	switch key {
	case CurrentKey:
		var p *Pointer
		if p, err = ParsePointer(b); err == nil {
			n = Numbered{Store: p.Store, Number: p.Sequence}
		}
	case KeysKey:
		var s *KeySet
		if s, err = ParseKeySet(b); err == nil {
			n = s.Numbered
		}
	case ChangeKey:
		var c *Change
		if c, err = ParseChange(b); err == nil {
			n = c.Numbered
		}
	default:
		var i *Identity
		if i, err = ParseIdentity(b); err == nil {
			n.Store = i.Store
		}
	}
	return n, err
}

func (n Numbered) check() error {
	if n == (Numbered{}) {
		return nil
	}
	if !isStoreID(n.Store) || n.Number == 0 || n.Number > MaxNumber {
		return fmt.Errorf("store %.80q, number %d: want 32 hexadecimal digits and 1 to 2^53, or neither", n.Store, n.Number)
	}
	return nil
}

// Next returns what the record says that takes the place of n in the given store, whose pointer has
// the given sequence, 0 without one. The first one of a store has the five minutes since 1970 and
// the sequence as its number, so that one that was lost goes on above the last that edges have
// seen: the change job runs every five minutes, keys are made more seldom, and a restore raises
// sequence and numbers alike. Of the sequence no more than MaxJump / 4 counts: edges would refuse
// the jump.
func (n Numbered) Next(store string, now time.Time, sequence uint64) Numbered {
	if n.Number == 0 {
		n.Number = uint64(max(0, now.Unix())/300) + min(sequence, MaxJump/4)
	}
	return Numbered{Store: store, Number: n.Number + 1}
}
