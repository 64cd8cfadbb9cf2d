// Package auth decides who may ask (INTERFACE.md, "Keys"): it has the set of
// API keys that is in force, and keeps it in step with the object store.
//
// Keys is the set as requests see it. Watcher polls the store for a newer one,
// and keeps the last one through faults and restarts.
package auth

import (
	"crypto/subtle"
	"sync/atomic"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge/limit"
)

// Verdict is what Lookup says of a presented key.
type Verdict uint8

const (
	// Refused: no key in force. One verdict for malformed, unknown, revoked and
	// expired, so that nobody learns which.
	Refused Verdict = iota
	// Allowed: the key is in force.
	Allowed
	// Undecided: it has the form of a key, and there is no set to look it up
	// in.
	Undecided
)

// Key is one API key of the set in force.
type Key struct {
	// ID names the key in logs and metrics.
	ID string
	// Limit is how often the key may be used.
	Limit limit.Limit
	// Query: the key may be sent in the query, where a path takes one.
	Query bool

	// Places bounds the places that its requests hold. The same from set to set.
	Places *limit.Places

	// The same from set to set as long as the limit is.
	bucket *limit.Bucket
	lease  *limit.Lease // nil: the limit is this edge's alone

	expires time.Time // zero: never

	pinned atomic.Int32 // see BeginPinned
}

// maxPinned bounds the pinned requests of a key that are under way. Such a
// request may wait, and there are only so many places to wait in (package
// snapshot), of which nobody is to take all.
const maxPinned = 128

// BeginPinned reports whether one more pinned request of the key may be answered
// now. EndPinned ends each, also one that may not.
func (k *Key) BeginPinned() bool { return k.pinned.Add(1) <= maxPinned }

// EndPinned ends what BeginPinned began.
func (k *Key) EndPinned() { k.pinned.Add(-1) }

// Take takes a token of the key's; see limit.Bucket. With a shared limit it may
// wait for limit.DefaultWait.
func (k *Key) Take(now int64) limit.Decision {
	if k.lease != nil {
		return k.lease.Take(k.bucket, now)
	}
	return k.bucket.Take(k.Limit, now)
}

// Charge takes n tokens more for a request that d admitted, whether there are as
// many or not, and returns what is left; see limit.Bucket.
func (k *Key) Charge(d limit.Decision, now int64, n int) limit.Decision {
	if k.lease != nil {
		return k.lease.Charge(k.bucket, d, now, n)
	}
	return k.bucket.Charge(k.Limit, now, n)
}

// Keys is the set of keys in force. Its zero value has no set yet. It is safe
// for concurrent use, except that Use is for one goroutine at a time.
type Keys struct {
	// Shared keeps the keys' limits together with other edges; nil: they are
	// this edge's alone. It is set before the first Use.
	Shared *limit.Shared

	set atomic.Pointer[inForce]
	// Nothing in it is believed from this moment on, in nanoseconds since
	// 1970; 0: never.
	until atomic.Int64
}

// inForce is a set as it is looked up.
type inForce struct {
	number uint64 // counts the sets, from 1
	keys   map[artifacts.Digest]*Key
}

// Memo remembers the key that was allowed last on one connection, which mostly
// is the key of its next request too: to compare the text costs a twentieth of
// hashing it. The zero value remembers none. It is for one goroutine at a time.
type Memo struct {
	set  uint64 // the number of the set that it was in force in
	key  *Key
	text [artifacts.KeyLength]byte
}

// Lookup decides on the key that a request presents. memo is its connection's,
// or nil. It does not allocate.
//
// The key is looked up by its SHA-256, in a map. That takes a time that depends
// on the digest, and whoever presents keys cannot steer the digest towards one
// that is stored, so there is nothing to learn from how long it takes. What
// does end early is the check of form and checksum, which anyone can make, and
// the comparison with the key that the same connection presented before, which
// takes the same time wherever they differ.
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

// InForce reports whether the key with that hash, which was allowed before, still is.
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

// Use puts a set in force, in place of the one before. Revoked keys are left
// out. A key whose limit is unchanged keeps its bucket; one with another limit
// begins with as many tokens missing as it had.
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

// count returns how many keys are in force at time now, or -1 before there is
// a set.
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
