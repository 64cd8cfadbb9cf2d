package keys

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/publish"
	"github.com/cenkalti/backoff/v5"
)

// Limits for one operation. A conflict means that another operation succeeded, so many conflicts
// may occur. Any other swap error is a fault of the store. The store itself retries reads
// (artifacts/retry).
const (
	maxConflicts = 100
	maxFaults    = 4
)

// read returns the set and its version. If the store has no set, read returns an empty set and the
// zero version. If read cannot parse the set, for example because it has a newer format, read
// returns an error, so that no operation ever replaces the set.
func (r *Registry) read(ctx context.Context) (*artifacts.KeySet, artifacts.Version, error) {
	b, version, err := r.Store.Get(ctx, artifacts.KeysKey, artifacts.MaxKeySetSize)
	if errors.Is(err, artifacts.ErrNotFound) {
		return &artifacts.KeySet{Format: artifacts.Format}, "", nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("read key set: %w", err)
	}
	set, err := artifacts.ParseKeySet(b)
	return set, version, err
}

// update reads the set, calls edit to change it, and swaps it. It repeats this until a swap
// succeeds, edit reports that its change has already been made (settled), or edit fails. Each call
// of edit receives a newly read set.
//
// If the set is missing although the store had one, update returns publish.ErrLost, unless
// replaceLost is true.
//
// After a failed swap, update always reads the set again, even if the store reported a conflict:
// the store client may have sent the request twice, and the second request may have conflicted with
// the first.
func (r *Registry) update(ctx context.Context, replaceLost bool,
	edit func(*artifacts.KeySet) (settled bool, err error)) error {
	return r.updateSaved(ctx, replaceLost, edit, func() error { return nil })
}

// updateSaved is like update, but calls saveKeys just before the first swap, and fails if saveKeys
// does.
func (r *Registry) updateSaved(ctx context.Context, replaceLost bool,
	edit func(*artifacts.KeySet) (settled bool, err error), saveKeys func() error) error {
	saveKeys = sync.OnceValue(saveKeys)
	var swapErr error // the error of the last swap
	unknown := false  // it is unknown whether the last swap took effect
	conflicts, faults := 0, 0
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		var none struct{}
		set, version, err := r.read(ctx)
		if err == nil && version == "" && !replaceLost {
			// Replacing a lost set with a new one would lock out every key of the lost set.
			err = r.checkLost(ctx)
		}
		if err != nil {
			return none, backoff.Permanent(err)
		}
		unknown = false
		settled, err := edit(set)
		switch {
		case err != nil:
			return none, backoff.Permanent(err)
		case settled:
			return none, nil
		case conflicts > maxConflicts || faults > maxFaults:
			return none, backoff.Permanent(swapErr)
		}
		next, err := publish.Number(ctx, r.Store, set.Numbered, r.now())
		if err == nil && set.Store != "" && set.Store != next.Store {
			err = fmt.Errorf("%w: the key set is of store %s, this is store %s", artifacts.ErrCorrupt, set.Store,
				next.Store)
		}
		if err == nil {
			set.Numbered = next
			err = saveKeys()
		}
		if err != nil {
			return none, backoff.Permanent(err)
		}
		_, swapErr = r.Store.Swap(ctx, artifacts.KeysKey, version, set.Encode())
		if swapErr == nil {
			// The change has been made, whatever Mark returns. If Mark failed, the next change
			// marks it.
			_ = publish.Mark(context.WithoutCancel(ctx), r.Store, artifacts.KeysKey)
		}
		switch {
		case errors.Is(swapErr, artifacts.ErrConflict):
			conflicts++
		case swapErr != nil:
			faults++
			unknown = true
		}
		if swapErr != nil {
			swapErr = fmt.Errorf("swap key set: %w", swapErr)
		}
		return none, swapErr
	}, backoff.WithBackOff(pace()), backoff.WithMaxElapsedTime(0))
	if err != nil && unknown {
		return fmt.Errorf("the change may or may not have been stored; builder keys list shows it: %w", err)
	}
	return err
}

// checkLost returns publish.ErrLost if the key set is missing and the store had one.
func (r *Registry) checkLost(ctx context.Context) error {
	err := publish.CheckMissing(ctx, r.Store, artifacts.KeysKey)
	if errors.Is(err, publish.ErrLost) {
		err = fmt.Errorf("%w; put it back with builder keys restore --from each edge's cache folder, or revoke"+
			" all keys with builder keys revoke --all", err)
	}
	return err
}

func pace() backoff.BackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval = 20*time.Millisecond, time.Second
	return b
}
