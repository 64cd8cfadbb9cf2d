package artifacts

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"
)

// TestChecksum flips each bit of each cell: the parser rejects the result, or it means the same as
// before. Parsers also reject a cell without a checksum, or with a sequence or number above
// MaxNumber.
func TestChecksum(t *testing.T) {
	at := time.Date(2026, 11, 21, 7, 30, 0, 0, time.UTC)
	digest := Sum([]byte("manifest"))
	pointer := &Pointer{
		Format: Format, Store: strings.Repeat("0a", 16), Sequence: 4711, Time: at, Nonce: "n", Published: at,
		Manifest: Ref{Digest: digest, Size: 100},
	}
	numbered := Numbered{Store: pointer.Store, Number: 12}
	change := &Change{
		Format: Format, Numbered: numbered, Database: "d", Time: at, Snapshot: at, Base: at, Value: "-2.5"}
	keys := &KeySet{Format: Format, Numbered: numbered, Keys: []KeyEntry{keyEntry(1)}}
	identity := &Identity{Format: Format, Store: pointer.Store}
	for name, c := range map[string]struct {
		encoded []byte
		again   func(b []byte) ([]byte, error)
	}{
		"pointer":  {pointer.Encode(), encoder(ParsePointer)},
		"change":   {change.Encode(), encoder(ParseChange)},
		"identity": {identity.Encode(), encoder(ParseIdentity)},
		"keys":     {keys.Encode(), encoder(ParseKeySet)},
	} {
		refused := 0
		for bit := range 8 * len(c.encoded) {
			bad := bytes.Clone(c.encoded)
			bad[bit/8] ^= 1 << (bit % 8)
			switch got, err := c.again(bad); {
			case err == nil && !bytes.Equal(got, c.encoded):
				t.Errorf("%s: taken with bit %d wrong: %s", name, bit, bad)
			case err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrFormat):
				t.Errorf("%s with bit %d wrong: %v", name, bit, err)
			case err != nil:
				refused++
			}
		}
		if refused < 7*len(c.encoded) {
			t.Errorf("%s: refused with %d of %d bits wrong", name, refused, 8*len(c.encoded))
		}
		if _, err := c.again([]byte(withoutSum(c.encoded))); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s without a checksum: %v", name, err)
		}
		for from, tos := range map[string][]string{`:12,`: {`:9007199254740993,`, `:18446744073709551615,`},
			`:4711,`: {`:9007199254740993,`}, pointer.Store: {"", "x", strings.ToUpper(pointer.Store)}} {
			for _, to := range tos {
				bad := strings.Replace(withoutSum(c.encoded), from, to, 1)
				if _, err := c.again(withSum(bad)); bad != withoutSum(c.encoded) && !errors.Is(err, ErrCorrupt) {
					t.Errorf("%s with %s in the place of %s: %v", name, to, from, err)
				}
			}
		}
		if got, err := c.again(Sign(CurrentKey, c.encoded, SignKey{key: make([]byte, 64)})); err != nil ||
			!bytes.Equal(got, c.encoded) {
			t.Errorf("%s with a line of signatures: %s, %v", name, got, err)
		}
	}
}

// encoder returns a function that parses a cell and encodes it again.
func encoder[T interface{ Encode() []byte }](parse func([]byte) (T, error)) func([]byte) ([]byte, error) {
	return func(b []byte) ([]byte, error) {
		v, err := parse(b)
		if err != nil {
			return nil, err
		}
		return v.Encode(), nil
	}
}
