package artifacts

import (
	"fmt"
	"time"
)

const (
	// MaxNumber is the largest sequence of a pointer and the largest number of a key set or change
	// record. Every JSON parser represents integers up to this value exactly.
	MaxNumber = 1 << 53
	// MaxJump is how far a sequence or number may exceed the last one that an edge has accepted.
	MaxJump = 1_000_000
)

// Identity is the cell IdentityKey, which distinguishes this store from any other. It is created
// before anything else is written. Store never changes, and Had only grows.
type Identity struct {
	Format int `json:"format"`
	// Store is 32 random lower-case hexadecimal digits.
	Store string `json:"store"`
	// Had lists which of the cells CurrentKey, ChangeKey and KeysKey this store has ever had. If
	// one of them is missing now, it was lost. Stores of the first releases do not have this field.
	Had []Key `json:"had,omitempty"`
}

// Encode returns the identity's stored form.
func (i *Identity) Encode() []byte { return EncodeSmall(i) }

// ParseIdentity parses an identity and ignores its signatures. It returns ErrFormat for a newer
// format and ErrCorrupt for any other fault.
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

// Numbered identifies one version of a key set or change record. The first releases wrote neither
// field; such a record counts as number 0 of the store that contains it.
type Numbered struct {
	// Store is the identity of the store for which the record was written.
	Store string `json:"store,omitempty"`
	// Number grows by one with each write of the record, up to MaxNumber.
	Number uint64 `json:"number,omitempty"`
}

// ParseNumbered returns the store and number of the cell b, which was read under key. The number of
// a pointer is its sequence. An identity has no number.
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

// Next returns the value of Numbered for the record that replaces n in the given store. sequence is
// the sequence of the store's pointer, or 0 if there is no pointer.
//
// The number of a store's first record is one more than the sum of the current time, in units of
// five minutes, and the sequence. So a record that replaces a lost one has a higher number than
// edges have seen: the change job runs every five minutes, keys change less often, and a restore
// raises sequence and numbers alike. The sequence counts only up to MaxJump / 4, because edges
// reject larger jumps.
func (n Numbered) Next(store string, now time.Time, sequence uint64) Numbered {
	if n.Number == 0 {
		n.Number = uint64(max(0, now.Unix())/300) + min(sequence, MaxJump/4)
	}
	return Numbered{Store: store, Number: n.Number + 1}
}
