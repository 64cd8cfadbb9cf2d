// Package keys creates, lists, revokes and rotates the API keys of a store (INTERFACE.md, "Keys").
//
// A store's keys are one small object, [artifacts.KeySet], which changes by compare-and-swap. Every
// operation reads the set, edits it and swaps it. If another operation was faster, it starts again,
// so concurrent operations all take effect. If a swap gets no response, the operation reads the set
// again to determine whether the swap took effect.
//
//	registry := keys.Registry{Store: store}
//	made, err := registry.Create(ctx, keys.Request{Name: "Board", Rate: keys.DefaultRate, Burst: keys.DefaultBurst})
//	fmt.Println(made.Key) // the key cannot be read again
package keys

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"example.com/marketdata/artifacts"
)

const (
	// DefaultRate and DefaultBurst are a key's default limits (INTERFACE.md, "Rate limits"):
	// requests per second, and requests in a burst.
	DefaultRate  = 100
	DefaultBurst = 200
	// QueryRate and QueryBurst are the default limits of a key that may be sent in the query, where
	// more people can read it. They suffice for a sheet with twenty formulas that are all fetched
	// every twenty seconds.
	QueryRate  = 1
	QueryBurst = 20
	// DefaultOverlap is how long a rotated key stays in force together with its successor.
	DefaultOverlap = 24 * time.Hour
)

// errUnknownID means that no key in the store has the given id.
var errUnknownID = errors.New("no key has this id; builder keys list shows all ids")

// Registry manages the API keys of one store. Its methods are safe for concurrent use, even by
// several processes.
type Registry struct {
	// Store is the store that holds the keys.
	Store artifacts.Store
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Random is the source of keys and ids; nil means crypto/rand.Reader. If it is not safe for
	// concurrent use, neither is the Registry.
	Random io.Reader
}

// Request describes a new key.
type Request struct {
	// Name says whose key it is. It has 1 to artifacts.MaxKeyName printable characters, with no
	// space at either end. It need not be unique.
	Name string
	// Rate is the number of requests per second that the key allows, from 1 to
	// artifacts.MaxKeyRate. Burst is the number of requests that it allows in one burst, from 1 to
	// artifacts.MaxKeyBurst.
	Rate, Burst int
	// Expires is when the key ceases to be in force, in whole seconds; zero means never. A time in
	// the past is allowed, in which case the key is never in force.
	Expires time.Time
	// Query also allows the key to be sent in the query of CSV paths.
	Query bool
}

// Created is a new key, in the form printed by keys create --json (COMMANDS.md, "Reports").
type Created struct {
	ID string `json:"id"`
	// Key is the key itself. It is stored nowhere, so a lost key must be replaced.
	Key     string    `json:"key"`
	Name    string    `json:"name"`
	Rate    int       `json:"rate"`
	Burst   int       `json:"burst"`
	Created time.Time `json:"created"`
	// Expires is nil (null in JSON) for a key that does not expire.
	Expires *time.Time `json:"expires"`
	// Query reports whether the key may also be sent in the query of CSV paths.
	Query bool `json:"query"`
}

// Listed is a key in the store, in the form printed by keys list --json (COMMANDS.md, "Reports").
type Listed struct {
	ID      string    `json:"id"`
	Name    string    `json:"name"`
	Rate    int       `json:"rate"`
	Burst   int       `json:"burst"`
	Created time.Time `json:"created"`
	// Expires is nil (null in JSON) for a key that does not expire. Revoked is nil for a key that
	// has not been revoked.
	Expires *time.Time `json:"expires"`
	Revoked *time.Time `json:"revoked"`
	Query   bool       `json:"query"`
}

// MaxCount is the maximum number of keys that one command can create.
const MaxCount = 1000

// Create makes a key. If the set is full, the new key replaces the key that became invalid the
// longest time ago. If all keys are valid, Create fails.
func (r *Registry) Create(ctx context.Context, req Request) (Created, error) {
	made, err := r.CreateAll(ctx, []Request{req}, func([]Created) error { return nil })
	if err != nil {
		return Created{}, err
	}
	return made[0], nil
}

// CreateAll makes at least one key, as Create does, in one write of the set: either all keys come
// into force or none does. Just before that write it calls saveKeys, at most once, and fails if
// saveKeys does. So the keys that saveKeys stores may never come into force, but every key that
// comes into force has been saved.
func (r *Registry) CreateAll(ctx context.Context, reqs []Request, saveKeys func([]Created) error) ([]Created, error) {
	made, entries := make([]Created, len(reqs)), make([]artifacts.KeyEntry, len(reqs))
	for i, req := range reqs {
		key, entry, err := r.entry(req)
		if err != nil {
			return nil, fmt.Errorf("create key: %w", err)
		}
		entries[i], made[i] = entry, created(key, &entry)
	}
	err := r.updateSaved(ctx, false, func(set *artifacts.KeySet) (bool, error) {
		if set.FindHash(entries[0].Hash) != nil {
			return true, nil
		}
		for _, entry := range entries {
			if err := add(set, entry, entry.Created); err != nil {
				return false, err
			}
		}
		return false, nil
	}, func() error { return saveKeys(made) })
	if err != nil {
		return nil, fmt.Errorf("create key: %w", err)
	}
	return made, nil
}

// Numbered returns n copies of the request, with the names NAME-01, NAME-02 and so on.
func (q Request) Numbered(n int) []Request {
	all := make([]Request, n)
	for i := range all {
		all[i] = q
		all[i].Name = fmt.Sprintf("%s-%0*d", q.Name, max(2, len(strconv.Itoa(n))), i+1)
	}
	return all
}

// Check returns an error if the request is invalid in any store.
func (q Request) Check() error {
	_, _, err := new(Registry).entry(q)
	return err
}

// entry generates a key for a request, and returns the key and its entry.
func (r *Registry) entry(req Request) (string, artifacts.KeyEntry, error) {
	key, entry, err := r.draw()
	if err != nil {
		return "", entry, err
	}
	entry.Name, entry.Rate, entry.Burst = req.Name, req.Rate, req.Burst
	entry.Created, entry.Expires, entry.Query = r.now(), seconds(req.Expires), req.Query
	return key, entry, check(&entry)
}

// List returns all keys in the order in which they were created, including those that are no longer valid. For
// a store without keys, List returns an empty list, not nil.
func (r *Registry) List(ctx context.Context) ([]Listed, error) {
	set, version, err := r.read(ctx)
	if err == nil && version == "" {
		err = r.checkLost(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("list keys: %w", err)
	}
	list := make([]Listed, len(set.Keys))
	for i := range set.Keys {
		list[i] = listed(&set.Keys[i])
	}
	return list, nil
}

// Revoke makes a key permanently invalid and returns it. A key that was revoked earlier keeps
// its revocation time. An unknown id is an error.
func (r *Registry) Revoke(ctx context.Context, id string) (Listed, error) {
	now := r.now()
	var out Listed
	err := r.update(ctx, false, func(set *artifacts.KeySet) (bool, error) {
		k := set.Find(id)
		if k == nil {
			return false, errUnknownID
		}
		settled := !k.Revoked.IsZero()
		if !settled {
			k.Revoked = now
		}
		out = listed(k)
		return settled, nil
	})
	if err != nil {
		return Listed{}, fmt.Errorf("revoke key %s: %w", shown(id), err)
	}
	return out, nil
}

// RevokeAll makes every key permanently invalid and returns the number of keys. If the key set
// was lost, RevokeAll replaces it with an empty one.
func (r *Registry) RevokeAll(ctx context.Context) (int, error) {
	now := r.now()
	n := 0
	err := r.update(ctx, true, func(set *artifacts.KeySet) (bool, error) {
		settled := set.Number > 0 // if the set is missing, an empty one must be written
		n = len(set.Keys)
		for i := range set.Keys {
			if k := &set.Keys[i]; k.Revoked.IsZero() {
				k.Revoked, settled = now, false
			}
		}
		return settled, nil
	})
	if err != nil {
		return 0, fmt.Errorf("revoke all keys: %w", err)
	}
	return n, nil
}

// Rotate creates a key with the name, limits and expiry of the key with the given id, and makes the
// old key expire after overlap, which must be 0 or more. It refuses a key that is no longer valid.
// It also refuses a key that expires within the overlap: either that key was already rotated, or
// its successor would expire with it. Rotate calls saveKey as CreateAll calls saveKeys.
func (r *Registry) Rotate(ctx context.Context, id string, overlap time.Duration, saveKey func(Created) error,
) (Created, error) {
	out, err := r.rotate(ctx, id, overlap, saveKey)
	if err != nil {
		return Created{}, fmt.Errorf("rotate key %s: %w", shown(id), err)
	}
	return out, nil
}

func (r *Registry) rotate(ctx context.Context, id string, overlap time.Duration, saveKey func(Created) error,
) (Created, error) {
	if overlap < 0 {
		return Created{}, fmt.Errorf("overlap %v: want 0 or more", overlap)
	}
	now := r.now()
	end := seconds(now.Add(overlap))
	key, entry, err := r.draw()
	if err != nil {
		return Created{}, err
	}
	err = r.updateSaved(ctx, false, func(set *artifacts.KeySet) (bool, error) {
		if made := set.FindHash(entry.Hash); made != nil {
			entry = *made
			return true, nil
		}
		old := set.Find(id)
		switch {
		case old == nil:
			return false, errUnknownID
		case !old.Revoked.IsZero():
			return false, fmt.Errorf("it was revoked at %s; create a new key", text(old.Revoked))
		case !old.InForce(now):
			return false, fmt.Errorf("it expired at %s; create a new key", text(old.Expires))
		case !old.Expires.IsZero() && !old.Expires.After(end):
			return false, fmt.Errorf("it expires at %s, within the overlap of %v; rotate its successor, or create a "+
				"new key", text(old.Expires), overlap)
		}
		entry.Name, entry.Rate, entry.Burst = old.Name, old.Rate, old.Burst
		entry.Created, entry.Expires, entry.Query = now, old.Expires, old.Query
		old.Expires = end
		return false, add(set, entry, now)
	}, func() error { return saveKey(created(key, &entry)) })
	if err != nil {
		return Created{}, err
	}
	return created(key, &entry), nil
}

// draw returns a new random key, and an entry with its id and hash.
func (r *Registry) draw() (string, artifacts.KeyEntry, error) {
	random := r.Random
	if random == nil {
		random = rand.Reader
	}
	key, err := artifacts.NewKey(random)
	if err != nil {
		return "", artifacts.KeyEntry{}, err
	}
	var id [8]byte
	if _, err := io.ReadFull(random, id[:]); err != nil {
		return "", artifacts.KeyEntry{}, fmt.Errorf("new id: random source: %w", err)
	}
	return key, artifacts.KeyEntry{ID: hex.EncodeToString(id[:]), Hash: artifacts.HashKey([]byte(key))}, nil
}

// check applies the entry's own Check method, and stricter rules for a new name. Readers do not
// apply the stricter rules, because which characters are printable depends on the reader's Unicode
// tables.
func check(e *artifacts.KeyEntry) error {
	if err := e.Check(); err != nil {
		return err
	}
	if strings.TrimSpace(e.Name) != e.Name {
		return fmt.Errorf("name %.120q: want no space at its ends", e.Name)
	}
	for _, c := range e.Name {
		if !unicode.IsPrint(c) {
			return fmt.Errorf("name %.120q: %U is not printable", e.Name, c)
		}
	}
	return nil
}

// add appends e to the set. If the set is full, it first removes a key that is no longer valid.
func add(set *artifacts.KeySet, e artifacts.KeyEntry, now time.Time) error {
	if set.Find(e.ID) != nil {
		return fmt.Errorf("its id %s was drawn before; try again", e.ID)
	}
	if len(set.Keys) >= artifacts.MaxKeys && !forget(set, now) {
		return fmt.Errorf("the store holds %d keys, which is the maximum, and all are in force; revoke some",
			len(set.Keys))
	}
	set.Keys = append(set.Keys, e)
	return nil
}

// forget removes the key that became invalid the longest time ago, and reports whether there was
// one.
func forget(set *artifacts.KeySet, now time.Time) bool {
	oldest, since := -1, time.Time{}
	for i := range set.Keys {
		k := &set.Keys[i]
		if k.InForce(now) {
			continue
		}
		ended := k.Revoked
		if ended.IsZero() || !k.Expires.IsZero() && k.Expires.Before(ended) {
			ended = k.Expires
		}
		if oldest < 0 || ended.Before(since) {
			oldest, since = i, ended
		}
	}
	if oldest < 0 {
		return false
	}
	set.Keys = slices.Delete(set.Keys, oldest, oldest+1)
	return true
}

func created(key string, e *artifacts.KeyEntry) Created {
	return Created{
		ID: e.ID, Key: key, Name: e.Name, Rate: e.Rate, Burst: e.Burst, Created: e.Created, Expires: orNil(e.Expires),
		Query: e.Query,
	}
}

func listed(e *artifacts.KeyEntry) Listed {
	return Listed{
		ID: e.ID, Name: e.Name, Rate: e.Rate, Burst: e.Burst, Created: e.Created,
		Expires: orNil(e.Expires), Revoked: orNil(e.Revoked), Query: e.Query,
	}
}

func orNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func (r *Registry) now() time.Time {
	if r.Now != nil {
		return seconds(r.Now())
	}
	return seconds(time.Now())
}

// seconds truncates t to the precision of a key set.
func seconds(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }

// shown returns id in the form in which errors quote it. If a key was given instead of an id, shown
// hides it, because a key is a secret.
func shown(id string) string {
	if strings.Contains(id, artifacts.KeyPrefix) {
		return "(a key, not an id)"
	}
	return fmt.Sprintf("%.80q", id)
}

func text(t time.Time) string { return t.Format(time.RFC3339) }
