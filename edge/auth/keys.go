// Package auth decides who may ask (contract section 9): it holds the set of
// API keys that is in force, and keeps it in step with the object store.
//
// Keys is the set as requests see it. Watcher polls the store for a newer one,
// and keeps the last one through faults and restarts.
package auth

import (
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
	// Limit and Bucket bound how often the key may be used. The bucket stays
	// the same from set to set as long as the limit does.
	Limit  limit.Limit
	Bucket *limit.Bucket

	expires time.Time // zero: never
}

// Keys is the set of keys in force. Its zero value holds no set yet. It is safe
// for concurrent use, except that Use is for one goroutine at a time.
type Keys struct {
	set atomic.Pointer[map[artifacts.Digest]*Key]
	// Nothing in it is believed from this moment on, in nanoseconds since
	// 1970; 0: never.
	until atomic.Int64
}

// Lookup decides on the key that a request presents. It does not allocate.
//
// The key is looked up by its SHA-256, in a map. That takes a time that depends
// on the digest, and whoever presents keys cannot steer the digest towards one
// that is stored, so there is nothing to learn from how long it takes. What
// does end early is the check of form and checksum, which anyone can make.
func (k *Keys) Lookup(text []byte, now time.Time) (*Key, Verdict) {
	if !artifacts.CheckKeyText(text) {
		return nil, Refused
	}
	set := k.set.Load()
	if set == nil {
		return nil, Undecided
	}
	if until := k.until.Load(); until != 0 && now.UnixNano() >= until {
		return nil, Undecided
	}
	key := (*set)[artifacts.HashKey(text)]
	if key == nil || !key.expires.IsZero() && !now.Before(key.expires) {
		return nil, Refused
	}
	return key, Allowed
}

// Use puts a set in force, in place of the one before. Revoked keys are left
// out. A key whose limit is unchanged keeps its bucket; one with another limit
// begins with as many tokens missing as it had.
func (k *Keys) Use(set *artifacts.KeySet, now time.Time) {
	before := map[string]*Key{}
	if old := k.set.Load(); old != nil {
		for _, key := range *old {
			before[key.ID] = key
		}
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
		key := &Key{ID: entry.ID, Limit: l, expires: entry.Expires}
		switch old := before[entry.ID]; {
		case old == nil:
			key.Bucket = new(limit.Bucket)
		case old.Limit == l:
			key.Bucket = old.Bucket
		default:
			key.Bucket = old.Bucket.Convert(old.Limit, l, limit.At(now))
		}
		keys[entry.Hash] = key
	}
	k.set.Store(&keys)
}

// count returns how many keys open the door at time now, or -1 before there is
// a set.
func (k *Keys) count(now time.Time) int {
	set := k.set.Load()
	if set == nil {
		return -1
	}
	n := 0
	for _, key := range *set {
		if key.expires.IsZero() || now.Before(key.expires) {
			n++
		}
	}
	return n
}
