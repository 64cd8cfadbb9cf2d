package artifacts

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"time"
	"unicode"
	"unicode/utf8"
)

const (
	// MaxKeys bounds the entries of a key set, those out of force included.
	MaxKeys = 20_000
	// MaxKeySetSize bounds a key set, in bytes. MaxKeys entries with the
	// longest fields fit, every character of a name escaped.
	MaxKeySetSize = 20 << 20
	// MaxKeyName bounds a key's name, in characters.
	MaxKeyName = 100
	// MaxKeyRate and MaxKeyBurst bound the limits of a key.
	MaxKeyRate  = 1_000_000
	MaxKeyBurst = 1_000_000
)

// maxKeyID bounds a key's id, in bytes.
const maxKeyID = 64

// KeySet is the object KeysKey: who may ask (INTERFACE.md, "Keys"). It holds no
// key, only hashes. A store without it holds the empty set.
type KeySet struct {
	Format int `json:"format"`
	Numbered
	// Sequence is Number once more: edges of 1.0.0 with --trust-key ask for one that
	// does not go back.
	Sequence uint64 `json:"sequence,omitempty"`
	// Keys are the entries in the order in which they were made, at most
	// MaxKeys. No two have the same id or the same hash.
	Keys []KeyEntry `json:"keys"`
}

// KeyEntry describes one API key. Times are UTC, in whole seconds.
type KeyEntry struct {
	// ID names the key in logs, metrics and commands: 1 to 64 characters of A-Z a-z 0-9 _ -.
	ID string `json:"id"`
	// Name says whose key it is: 1 to MaxKeyName characters, no control
	// characters. Several keys may have the same name.
	Name string `json:"name"`
	// Hash is HashKey of the key.
	Hash Digest `json:"hash"`
	// Rate is how many requests a second the key is allowed, 1 to MaxKeyRate;
	// Burst how many at once, 1 to MaxKeyBurst.
	Rate  int `json:"rate"`
	Burst int `json:"burst"`
	// Created is when the key was made.
	Created time.Time `json:"created"`
	// Expires is the moment from which the key is no longer in force; zero: never.
	Expires time.Time `json:"expires,omitzero"`
	// Revoked is when the key was revoked; zero: it was not.
	Revoked time.Time `json:"revoked,omitzero"`
	// Query: the key may be sent in the query of CSV paths, too. Programs that do not know
	// the field take the key in headers alone, and lose the field where they write the set.
	Query bool `json:"query,omitempty"`
}

// InForce reports whether the key is in force at time now. A revoked key
// does not, whatever the time: the clocks of two machines may differ.
func (k *KeyEntry) InForce(now time.Time) bool {
	return k.Revoked.IsZero() && (k.Expires.IsZero() || now.Before(k.Expires))
}

// Check returns how the entry breaks what its fields' comments say, nil if it does not.
func (k *KeyEntry) Check() error {
	if !isKeyID(k.ID) {
		return fmt.Errorf("id %.80q: want 1 to %d characters of A-Z a-z 0-9 _ -", k.ID, maxKeyID)
	}
	if !utf8.ValidString(k.Name) {
		return fmt.Errorf("name %.120q: want UTF-8", k.Name)
	}
	if n := utf8.RuneCountInString(k.Name); n < 1 || n > MaxKeyName {
		return fmt.Errorf("name %.120q: want 1 to %d characters, got %d", k.Name, MaxKeyName, n)
	}
	for _, r := range k.Name {
		if unicode.IsControl(r) {
			return fmt.Errorf("name %.120q: has the control character %U", k.Name, r)
		}
	}
	if k.Hash.IsZero() {
		return errors.New("hash is missing")
	}
	if k.Rate < 1 || k.Rate > MaxKeyRate {
		return fmt.Errorf("rate %d: want a whole number of requests a second, 1 to %d", k.Rate, MaxKeyRate)
	}
	if k.Burst < 1 || k.Burst > MaxKeyBurst {
		return fmt.Errorf("burst %d: want a whole number of requests, 1 to %d", k.Burst, MaxKeyBurst)
	}
	if k.Created.IsZero() {
		return errors.New("created is missing")
	}
	for _, t := range []struct {
		name string
		time time.Time
	}{{"created", k.Created}, {"expires", k.Expires}, {"revoked", k.Revoked}} {
		if y := t.time.UTC().Year(); y < 1 || y > 9999 {
			return fmt.Errorf("%s: year %d: want 1 to 9999", t.name, y)
		}
	}
	return nil
}

func isKeyID(s string) bool {
	if len(s) < 1 || len(s) > maxKeyID {
		return false
	}
	for _, c := range []byte(s) {
		if digit62(c) < 0 && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

// Find returns the entry with this id, or nil.
func (s *KeySet) Find(id string) *KeyEntry {
	for i := range s.Keys {
		if s.Keys[i].ID == id {
			return &s.Keys[i]
		}
	}
	return nil
}

// FindHash returns the entry with this hash, or nil. It looks at every entry;
// who asks often builds a map.
func (s *KeySet) FindHash(hash Digest) *KeyEntry {
	for i := range s.Keys {
		if s.Keys[i].Hash == hash {
			return &s.Keys[i]
		}
	}
	return nil
}

// Encode returns the set's stored form. Entries must pass their Check.
func (s *KeySet) Encode() []byte {
	out := *s
	out.Sequence = out.Number
	if out.Keys == nil {
		out.Keys = []KeyEntry{}
	}
	return EncodeSmall(&out)
}

// ParseKeySet reads a key set. A set with one broken entry is refused whole with ErrCorrupt; a
// newer format gives ErrFormat. Times are brought to UTC and whole seconds, rounded down.
func ParseKeySet(b []byte) (*KeySet, error) {
	if len(b) > MaxKeySetSize {
		return nil, fmt.Errorf("%w: key set: %d bytes, at most %d are read", ErrTooLarge, len(b), MaxKeySetSize)
	}
	if !utf8.Valid(b) {
		return nil, fmt.Errorf("%w: key set: not UTF-8", ErrCorrupt)
	}
	var s KeySet
	if err := ParseSmall("key set", b, &s); err != nil {
		return nil, err
	}
	if err := s.check(); err != nil {
		return nil, fmt.Errorf("%w: key set: %w", ErrCorrupt, err)
	}
	if s.Keys == nil {
		return nil, fmt.Errorf("%w: key set: keys is missing", ErrCorrupt)
	}
	if len(s.Keys) > MaxKeys {
		return nil, fmt.Errorf("%w: key set: %d keys, at most %d are read", ErrCorrupt, len(s.Keys), MaxKeys)
	}
	ids, hashes := make(map[string]bool, len(s.Keys)), make(map[Digest]bool, len(s.Keys))
	for i := range s.Keys {
		k := &s.Keys[i]
		for _, t := range []*time.Time{&k.Created, &k.Expires, &k.Revoked} {
			*t = t.UTC().Truncate(time.Second)
		}
		if err := k.Check(); err != nil {
			return nil, fmt.Errorf("%w: key set: entry %d: %w", ErrCorrupt, i, err)
		}
		if ids[k.ID] || hashes[k.Hash] {
			return nil, fmt.Errorf("%w: key set: entry %d: id %s or its hash is there twice", ErrCorrupt, i, k.ID)
		}
		ids[k.ID], hashes[k.Hash] = true, true
	}
	return &s, nil
}

// The text of a key: KeyPrefix, 33 random characters, 6 of checksum.
const (
	// KeyPrefix begins every key, so that scanners for leaked secrets know it.
	KeyPrefix = "mdk_live_"
	// KeyLength is the length of a key in bytes.
	KeyLength = len(KeyPrefix) + keyRandom + keyCheck

	keyRandom = 33 // 196 random bits
	keyCheck  = 6  // 62^6 > 2^32
)

const base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// NewKey returns a new key's text: KeyPrefix, 33 characters of base 62 (0-9 A-Z a-z, in this order
// of value) drawn evenly from random, and as 6 more the CRC-32 (IEEE) of all that precedes, most
// significant digit first, filled up with 0 on the left.
func NewKey(random io.Reader) (string, error) {
	key := make([]byte, 0, KeyLength)
	key = append(key, KeyPrefix...)
	var b [2 * keyRandom]byte
	// One reading is enough, unless the source is broken: of 66 random bytes
	// two are passed over on average, and 33 may be.
	for tries := 0; len(key) < KeyLength-keyCheck; tries++ {
		if tries == 10 {
			return "", errors.New("new key: the random source does not give random bytes")
		}
		if _, err := io.ReadFull(random, b[:]); err != nil {
			return "", fmt.Errorf("new key: random source: %w", err)
		}
		for _, c := range b {
			// 248 is the largest multiple of 62 in a byte; to take the rest
			// too would favour the first eight characters.
			if c < 248 && len(key) < KeyLength-keyCheck {
				key = append(key, base62[c%62])
			}
		}
	}
	sum := crc32.ChecksumIEEE(key)
	key = key[:KeyLength]
	for i := KeyLength - 1; i >= KeyLength-keyCheck; i-- {
		key[i] = base62[sum%62]
		sum /= 62
	}
	return string(key), nil
}

// CheckKeyText reports whether key is the text of a key, checksum included. It
// says nothing of whether such a key was ever made. It does not allocate.
func CheckKeyText(key []byte) bool {
	if len(key) != KeyLength || string(key[:len(KeyPrefix)]) != KeyPrefix {
		return false
	}
	for _, c := range key[len(KeyPrefix):] {
		if digit62(c) < 0 {
			return false
		}
	}
	sum := uint64(0)
	for _, c := range key[KeyLength-keyCheck:] {
		sum = sum*62 + uint64(digit62(c))
	}
	return sum == uint64(crc32.ChecksumIEEE(key[:KeyLength-keyCheck]))
}

// HashKey returns the SHA-256 of a key's whole text, which is what a KeyEntry
// holds of it. It does not allocate.
func HashKey(key []byte) Digest { return Sum(key) }

// digit62 returns the value of a base-62 digit, or -1.
func digit62(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'A' <= c && c <= 'Z':
		return int(c-'A') + 10
	case 'a' <= c && c <= 'z':
		return int(c-'a') + 36
	}
	return -1
}
