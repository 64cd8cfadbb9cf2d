// Package auth decides which API keys are valid (INTERFACE.md, "Keys").
//
// Keys is the set of API keys in force, against which requests are checked. A Watcher polls the store for a
// newer set. While the store does not answer, and after a restart, the last set stays in force.
package auth

import (
	"crypto/subtle"
	"sync/atomic"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge/limit"
)

// Verdict is the result of Lookup.
type Verdict uint8

const (
	// Refused means that no key in force matches. Malformed, unknown, revoked and expired keys get the same
	// verdict, so that nobody can tell them apart.
	Refused Verdict = iota
	// Allowed means that the key is in force.
	Allowed
	// Undecided means that the text has the form of a key, but there is no key set to look it up in.
	Undecided
)

// Key is one API key of the set in force.
type Key struct {
	// ID names the key in logs and metrics.
	ID string
	// Limit is how often the key may be used.
	Limit limit.Limit
	// Query reports whether the key may be sent in the query of a URL.
	Query bool

	// Places bounds the slots that the key's requests occupy. It carries over to a new key set.
	Places *limit.Places

	// A new set keeps the bucket and lease as long as the limit does not change.
	bucket *limit.Bucket
	lease  *limit.Lease // nil if limits are not shared

	expires time.Time // zero: never

	pinned atomic.Int32 // see BeginPinned
}

// maxPinned bounds the concurrent pinned requests of a key. Such a request may wait for its snapshot, and the
// waiting slots are limited (see package snapshot), so no key may take them all.
const maxPinned = 128

// BeginPinned reports whether the key may have one more concurrent pinned request. The caller must call
// EndPinned afterwards, even if the result is false.
func (k *Key) BeginPinned() bool { return k.pinned.Add(1) <= maxPinned }

// EndPinned ends a request that BeginPinned counted.
func (k *Key) EndPinned() { k.pinned.Add(-1) }

// Take takes one token of the key; see limit.Bucket. If limits are shared, it may wait for their store, for
// at most limit.SharedConfig.Wait.
func (k *Key) Take(now int64) limit.Decision {
	if k.lease != nil {
		return k.lease.Take(k.bucket, now)
	}
	return k.bucket.Take(k.Limit, now)
}

// Charge takes n more tokens for a request that decision d admitted, even if fewer are left, and returns the
// new state; see limit.Bucket.
func (k *Key) Charge(d limit.Decision, now int64, n int) limit.Decision {
	if k.lease != nil {
		return k.lease.Charge(k.bucket, d, now, n)
	}
	return k.bucket.Charge(k.Limit, now, n)
}

// Keys is the set of keys in force. The zero value contains no set. Keys is safe for concurrent use, except
// that only one goroutine at a time may call Use.
type Keys struct {
	// Shared shares the limits of keys with other edges. If it is nil, they apply to this edge alone. It must
	// be set before the first Use.
	Shared *limit.Shared

	set atomic.Pointer[inForce]
	// until is the time from which the set is too old to use, in nanoseconds since 1970; 0 means never.
	until atomic.Int64
}

// inForce is a set of keys, indexed for Lookup.
type inForce struct {
	number uint64 // 1 for the first set that Use puts in force, and so on
	keys   map[artifacts.Digest]*Key
}

// Memo remembers the last allowed key of one connection. The next request of the connection usually presents
// the same key, and comparing two keys takes a twentieth of the time that hashing one takes. The zero value
// is empty. A Memo must not be used by several goroutines at the same time.
type Memo struct {
	set  uint64 // the number of the set that contained the key
	key  *Key
	text [artifacts.KeyLength]byte
}

// Lookup decides on the key that a request presents. memo belongs to the request's connection and may be nil.
// Lookup does not allocate.
//
// Lookup finds the key by its SHA-256 in a map. The duration depends on the digest, but a client cannot
// choose digests that resemble a stored one, so it learns nothing from the duration. The check of form and
// checksum may stop early, but it involves no secret. The comparison with the connection's last key takes
// constant time.
func (k *Keys) Lookup(text []byte, now time.Time, memo *Memo) (*Key, Verdict) {
	set := k.set.Load()
	var key *Key
	if memo != nil && set != nil && memo.set == set.number && subtle.ConstantTimeCompare(text, memo.text[:]) == 1 {
		key = memo.key
	} else if !artifacts.CheckKeyText(text) {
		return nil, Refused
	}
	if set == nil {
		return nil, Undecided
	}
	if until := k.until.Load(); until != 0 && now.UnixNano() >= until {
		return nil, Undecided
	}
	if key == nil {
		key = set.keys[artifacts.HashKey(text)]
	}
	if key == nil || !key.expires.IsZero() && !now.Before(key.expires) {
		return nil, Refused
	}
	if memo != nil && memo.key != key {
		memo.set, memo.key = set.number, key
		copy(memo.text[:], text)
	}
	return key, Allowed
}

// InForce reports whether the key with this hash, which Lookup has already allowed, is still in force.
func (k *Keys) InForce(hash artifacts.Digest, now time.Time) bool {
	set := k.set.Load()
	if set == nil {
		return false
	}
	if until := k.until.Load(); until != 0 && now.UnixNano() >= until {
		return false
	}
	key := set.keys[hash]
	return key != nil && (key.expires.IsZero() || now.Before(key.expires))
}

// Use puts a set in force instead of the previous one. It ignores revoked keys. A key keeps its bucket if its
// limit is unchanged. Otherwise it gets a new bucket, which lacks as many tokens as the old one does.
func (k *Keys) Use(set *artifacts.KeySet, now time.Time) {
	before := map[string]*Key{}
	number := uint64(1)
	if old := k.set.Load(); old != nil {
		for _, key := range old.keys {
			before[key.ID] = key
		}
		number = old.number + 1
	}
	keys := make(map[artifacts.Digest]*Key, len(set.Keys))
	for i := range set.Keys {
		entry := &set.Keys[i]
		if !entry.Revoked.IsZero() {
			continue
		}
		l, err := limit.New(entry.Rate, entry.Burst)
		if err != nil {
			panic("BUG: key set was not checked: " + err.Error())
		}
		key := &Key{ID: entry.ID, Limit: l, Query: entry.Query, expires: entry.Expires}
		old := before[entry.ID]
		if key.Places = new(limit.Places); old != nil {
			key.Places = old.Places
		}
		switch {
		case old == nil:
			key.bucket = new(limit.Bucket)
		case old.Limit == l:
			key.bucket, key.lease = old.bucket, old.lease
		default:
			key.bucket = old.bucket.Convert(old.Limit, l, limit.At(now))
		}
		if k.Shared != nil && key.lease == nil {
			key.lease = k.Shared.NewLease(entry.ID, l)
		}
		keys[entry.Hash] = key
	}
	k.set.Store(&inForce{number: number, keys: keys})
}

// count returns the number of keys that are in force at time now, or -1 if there is no set yet.
func (k *Keys) count(now time.Time) int {
	set := k.set.Load()
	if set == nil {
		return -1
	}
	n := 0
	for _, key := range set.keys {
		if key.expires.IsZero() || now.Before(key.expires) {
			n++
		}
	}
	return n
}
