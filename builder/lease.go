package builder

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/publish"
)

// LeaseTime is how long a lease lasts after its last renewal. The holder renews it, and each waiter
// reads it, three times within this time. This costs each builder 360 store calls per hour.
const LeaseTime = 30 * time.Second

// maxLeaseSize is the maximum size of the lease object, in bytes.
const maxLeaseSize = 4 << 10

// Lease lets one of several builders work on a store while the others wait to take over (STORE.md,
// "The lease"). It only saves provider calls: two simultaneous holders do no harm, since the
// pointer moves by compare-and-swap.
//
// A Lease never compares the clocks of two machines. A holder counts LeaseTime from the start of
// its last renewal. A waiter counts it from the last change that it saw in the object. Each uses
// its own monotonic clock. So the holder gives up before a waiter takes over.
type Lease struct {
	Store artifacts.Store
	// Time is how long a lease lasts; 0 means LeaseTime. Tests set it.
	Time time.Duration
	// Held, if not nil, is called with true when the lease is taken and with false when it is lost.
	Held func(bool)
	Log  *slog.Logger

	owner   string            // this builder's name, which Run chooses at random
	last    leaseRecord       // the record that was last seen or written
	version artifacts.Version // the version of that record
	since   time.Time         // when that record was seen, or when writing it began
	sure    bool              // the last swap succeeded, so the record and its version are current
	failing bool              // the last claim failed, and the failure was logged
}

// leaseRecord is the content of artifacts.LeaseKey (go doc ./artifacts, "Lease").
type leaseRecord struct {
	Format int       `json:"format"`
	Number uint64    `json:"number"`
	Owner  string    `json:"owner"`
	Until  time.Time `json:"until"`
}

// Run calls fn whenever this builder holds the lease, until ctx is done. The context that fn
// receives ends with the lease. When ctx is done, Run waits for fn to return and gives the lease
// back.
func (l *Lease) Run(ctx context.Context, fn func(context.Context)) {
	l.Time = cmp.Or(l.Time, LeaseTime)
	l.owner = rand.Text()
	for l.wait(ctx) {
		l.hold(ctx, fn)
	}
	l.release()
}

func (l *Lease) pace() time.Duration { return l.Time / 3 }

// timeout limits the duration of a claim, and retryPause is the pause after a failed claim. Both
// are short enough for the holder to renew the lease in time after the store was unreachable for up
// to half of Time.
func (l *Lease) timeout() time.Duration    { return l.pace() / 4 }
func (l *Lease) retryPause() time.Duration { return l.pace() / 10 }

// wait returns true once this builder has the lease, and false once ctx is done.
func (l *Lease) wait(ctx context.Context) bool {
	for holder := ""; ctx.Err() == nil; {
		if l.claim(ctx) {
			l.Log.Info("got the lease", "self", l.owner, "number", l.last.Number, "before", holder)
			return true
		}
		if l.last.Owner != holder && l.last.Owner != l.owner {
			holder = l.last.Owner
			l.Log.Info("another builder has the lease; waiting", "holder", holder, "self", l.owner)
		}
		pause := l.pace()
		if left := l.Time - time.Since(l.since); left > 0 {
			pause = min(pause, left)
		}
		sleep(ctx, pause)
	}
	return false
}

// hold runs fn and renews the lease until the lease is lost or ctx is done.
func (l *Lease) hold(parent context.Context, fn func(context.Context)) {
	ctx, stop := context.WithCancel(parent)
	defer stop()
	left := func() time.Duration { return l.Time - time.Since(l.since) }
	expiry := time.AfterFunc(left(), stop)
	defer expiry.Stop()
	if l.Held != nil {
		l.Held(true)
		defer l.Held(false)
	}
	var working sync.WaitGroup
	defer working.Wait()
	working.Go(func() { fn(ctx) })
	pause := l.pace()
	for sleep(ctx, pause); ctx.Err() == nil; sleep(ctx, pause) {
		pause = l.retryPause()
		switch {
		case l.claim(ctx):
			expiry.Reset(left())
			pause = l.pace()
		case l.last.Owner != l.owner:
			stop() // another builder has taken over
		}
	}
	stop()
	if parent.Err() == nil {
		l.Log.Warn("lost the lease; work stops", "self", l.owner, "holder", l.last.Owner)
	}
}

// claim takes or renews the lease, and reports whether this is known to have succeeded. If not,
// l.last is the holder's record, as far as is known.
func (l *Lease) claim(ctx context.Context) bool {
	call, cancel := context.WithTimeout(ctx, l.timeout())
	defer cancel()
	var err error
	for range 2 {
		if !l.sure {
			if err = l.look(call); err != nil {
				break
			}
		}
		if l.last.Owner != "" && l.last.Owner != l.owner && time.Since(l.since) < l.Time {
			return false
		}
		if err = l.swap(call, l.owner); err == nil {
			l.failing = false
			return true
		}
		if l.sure = false; !errors.Is(err, artifacts.ErrConflict) {
			break // the swap may have taken effect; the next call of look will tell
		}
	}
	if ctx.Err() == nil && !l.failing {
		l.failing = true
		l.Log.Warn("cannot get the lease; trying again until it succeeds", "err", err)
	}
	return false
}

// look reads the lease. It treats a lease that cannot be parsed as held by an unknown builder, and
// a lease that is too large as held by nobody. It removes the latter, because its version cannot be
// read, so no swap could replace it.
func (l *Lease) look(ctx context.Context) error {
	b, version, err := l.Store.GetIf(ctx, artifacts.LeaseKey, l.version, maxLeaseSize)
	if dropped, derr := publish.DropOversized(ctx, l.Store, artifacts.LeaseKey, err); dropped && derr == nil {
		err = artifacts.ErrNotFound
	}
	switch {
	case errors.Is(err, artifacts.ErrNotModified):
		return nil
	case errors.Is(err, artifacts.ErrNotFound):
		l.last, l.version = leaseRecord{}, ""
		return nil
	case err != nil:
		return err
	}
	var r leaseRecord
	if artifacts.ParseFormat("lease", b, &r) != nil {
		r = leaseRecord{Owner: "unknown"}
	}
	l.last, l.version, l.since = r, version, time.Now()
	return nil
}

// swap writes the lease. owner is l.owner, or "" to give the lease back.
func (l *Lease) swap(ctx context.Context, owner string) error {
	began := time.Now()
	next := leaseRecord{
		Format: artifacts.Format, Number: l.last.Number + 1, Owner: owner, Until: began.Add(l.Time).UTC()}
	b, err := json.Marshal(&next)
	if err != nil {
		return err
	}
	version, err := l.Store.Swap(ctx, artifacts.LeaseKey, l.version, append(b, '\n'))
	if err != nil {
		return err
	}
	l.last, l.version, l.since, l.sure = next, version, began, true
	return nil
}

// LeaseHolder returns the owner of the store's lease if the owner is alive, and "" otherwise. It
// watches the object for the duration of a lease, to see whether it changes. A builder that was
// stopped leaves a lease without an owner, in which case LeaseHolder does not wait.
func LeaseHolder(ctx context.Context, s artifacts.Store, lasts time.Duration, log *slog.Logger) (string, error) {
	l := &Lease{Store: s, Time: lasts}
	if err := l.look(ctx); err != nil || l.last.Owner == "" {
		return "", err
	}
	log.Info("a builder has the lease; waiting to see whether it is alive", "holder", l.last.Owner, "for", lasts)
	first := l.version
	for end := time.Now().Add(lasts); time.Now().Before(end); {
		sleep(ctx, l.retryPause())
		if err := l.look(ctx); err != nil || l.version != first {
			return l.last.Owner, err
		}
	}
	return "", nil
}

// release gives the lease back, so that waiters need not wait for it to expire.
func (l *Lease) release() {
	if l.last.Owner != l.owner {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), l.pace())
	defer cancel()
	if err := l.swap(ctx, ""); err != nil {
		l.Log.Warn("could not give the lease back; it expires by itself", "err", err)
	}
}
