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
	// MaxKeys is the maximum number of entries of a key set, including revoked and expired ones.
	MaxKeys = 20_000
	// MaxKeySetSize is the maximum size of a key set, in bytes. It leaves room for MaxKeys entries
	// whose fields all have their maximum length, with every character of the names escaped.
	MaxKeySetSize = 20 << 20
	// MaxKeyName is the maximum length of a key's name, in characters.
	MaxKeyName = 100
	// MaxKeyRate and MaxKeyBurst are the maximum limits of a key.
	MaxKeyRate  = 1_000_000
	MaxKeyBurst = 1_000_000
)

// maxKeyID is the maximum length of a key's id, in bytes.
const maxKeyID = 64

// KeySet is the cell KeysKey: the API keys that edges accept (INTERFACE.md, "Keys"). It has no keys
// in plain text, only hashes. A store without a key set counts as one with an empty set.
type KeySet struct {
	Format int `json:"format"`
	Numbered
	// Sequence repeats Number, because edges of release 1.0.0 with --trust-key require a sequence
	// that never decreases.
	Sequence uint64 `json:"sequence,omitempty"`
	// Keys are the entries in order of creation, at most MaxKeys. No two have the same id or the
	// same hash.
	Keys []KeyEntry `json:"keys"`
}

// KeyEntry describes one API key. Times are UTC, in whole seconds.
type KeyEntry struct {
	// ID names the key in logs, metrics and commands: 1 to 64 characters of A-Z a-z 0-9 _ -.
	ID string `json:"id"`
	// Name says to whom the key belongs. It has 1 to MaxKeyName characters and no control
	// characters. Several keys may have the same name.
	Name string `json:"name"`
	// Hash is the key's hash, as HashKey returns it.
	Hash Digest `json:"hash"`
	// Rate is the number of requests per second that the key allows, from 1 to MaxKeyRate. Burst is
	// the number of requests that it allows at a time, from 1 to MaxKeyBurst.
	Rate  int `json:"rate"`
	Burst int `json:"burst"`
	// Created is when the key was made.
	Created time.Time `json:"created"`
	// Expires is when the key stops being in force; zero means never.
	Expires time.Time `json:"expires,omitzero"`
	// Revoked is when the key was revoked; zero means that it was not.
	Revoked time.Time `json:"revoked,omitzero"`
	// Query allows the key to be sent in the query string of CSV paths. Programs that do not know
	// the field accept the key only in headers, and drop the field when they rewrite the set.
	Query bool `json:"query,omitempty"`
}

// InForce reports whether the key is in force at the given time. A revoked key is never in force,
// not even before its time of revocation, because the clocks of two machines may differ.
func (k *KeyEntry) InForce(now time.Time) bool {
	return k.Revoked.IsZero() && (k.Expires.IsZero() || now.Before(k.Expires))
}

// Check returns an error if a field of the entry violates the rules in its comment.
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

// Find returns the entry with the given id, or nil.
func (s *KeySet) Find(id string) *KeyEntry {
	for i := range s.Keys {
		if s.Keys[i].ID == id {
			return &s.Keys[i]
		}
	}
	return nil
}

// FindHash returns the entry with the given hash, or nil. It examines every entry; callers that
// search often should build a map.
func (s *KeySet) FindHash(hash Digest) *KeyEntry {
	for i := range s.Keys {
		if s.Keys[i].Hash == hash {
			return &s.Keys[i]
		}
	}
	return nil
}

// Encode returns the stored form of the set. All entries must pass Check.
func (s *KeySet) Encode() []byte {
	out := *s
	out.Sequence = out.Number
	if out.Keys == nil {
		out.Keys = []KeyEntry{}
	}
	return EncodeSmall(&out)
}

// ParseKeySet parses a key set. It returns ErrFormat for a newer format, and ErrCorrupt for any
// other fault, even in a single entry. It converts times to UTC and rounds them down to whole
// seconds.
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
			return nil, fmt.Errorf("%w: key set: entry %d: id %s or its hash appears twice", ErrCorrupt, i, k.ID)
		}
		ids[k.ID], hashes[k.Hash] = true, true
	}
	return &s, nil
}

// A key consists of KeyPrefix, 33 random characters and a checksum of 6 characters.
const (
	// KeyPrefix is the beginning of every key, so that scanners for leaked secrets recognize it.
	KeyPrefix = "mdk_live_"
	// KeyLength is the length of a key in bytes.
	KeyLength = len(KeyPrefix) + keyRandom + keyCheck

	keyRandom = 33 // 196 random bits
	keyCheck  = 6  // 62^6 > 2^32
)

const base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// NewKey returns a new key: KeyPrefix, 33 base-62 digits (0-9 A-Z a-z, in this order of value)
// drawn uniformly with the given source of randomness, and 6 base-62 digits with the CRC-32 (IEEE)
// of everything before them, most significant digit first, padded with 0 on the left.
func NewKey(random io.Reader) (string, error) {
	key := make([]byte, 0, KeyLength)
	key = append(key, KeyPrefix...)
	var b [2 * keyRandom]byte
	// One read is almost always enough: of 66 random bytes the loop skips two on average and may
	// skip 33.
	for tries := 0; len(key) < KeyLength-keyCheck; tries++ {
		if tries == 10 {
			return "", errors.New("new key: the random source does not give random bytes")
		}
		if _, err := io.ReadFull(random, b[:]); err != nil {
			return "", fmt.Errorf("new key: random source: %w", err)
		}
		for _, c := range b {
			// 248 is the largest multiple of 62 that fits in a byte. Using the values above it,
			// too, would favor the first eight digits.
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

// CheckKeyText reports whether key has the form of a key and a correct checksum. It does not tell
// whether the key was ever created. It does not allocate.
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

// HashKey returns the SHA-256 of the whole text of a key, which is what a KeyEntry stores. It does
// not allocate.
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
