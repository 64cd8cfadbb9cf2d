package publish

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/signed"
	"example.com/marketdata/builder/transparency"
	"github.com/cenkalti/backoff/v5"
)

// LostError means that another publisher moved the pointer first. Readers see nothing of the failed
// publication.
type LostError struct {
	// Head is the snapshot that is now published.
	Head *Head
}

func (e *LostError) Error() string {
	p := e.Head.Pointer
	if p == nil {
		return "the pointer was removed while this snapshot was being made"
	}
	return fmt.Sprintf("another builder published snapshot %s (sequence %d) first", Stamp(p.Time), p.Sequence)
}

// Timing says when the pointer moves, and when edges activate its snapshot.
type Timing struct {
	// Now is the clock. It is read just before the pointer moves.
	Now func() time.Time
	// ActivateAfter is the delay between the move of the pointer and the activation of the snapshot
	// by edges, up to artifacts.MaxActivateAfter. If it is 0, each edge activates the snapshot as
	// soon as it can.
	ActivateAfter time.Duration
	// DataTimes is copied to the pointer.
	DataTimes map[string]time.Time
}

// maxBefore is the maximum age of the previous snapshot for which ActivateAfter applies.
const maxBefore = time.Hour

// The steps of Publish, in order.
const (
	StepSync     = "sync"     // make objects durable
	StepManifest = "manifest" // put the manifest and make it durable
	StepSwap     = "swap"     // move the pointer
	StepLog      = "log"      // in a signed store: write tiles and checkpoint
)

// Limits for determining whether a swap took effect. They apply even after the caller's context is
// done, since a builder that is stopped in the middle of a swap still needs to know.
const (
	swapTries   = 4
	settleTries = 5
	settleTime  = 30 * time.Second
)

// Publish replaces the head with m as the published snapshot. o must have put, or found in the
// store, every object that readers of m need. Publish returns the durable pointer, a *LostError if
// another publisher was faster, or another error if, as far as Publish can tell, the snapshot was
// not published. It calls onStep at the beginning of each step.
//
// If a swap gets no response, Publish reads the pointer back; the nonce shows who wrote it. If the
// pointer is still the head's, Publish repeats the same swap. This is harmless: if the first swap
// takes effect late, the second one finds its own nonce.
func (h *Head) Publish(ctx context.Context, o *Objects, m *artifacts.Manifest, at Timing, onStep func(name string),
) (*artifacts.Pointer, error) {
	body := m.Encode()
	if len(body) > artifacts.MaxManifestSize {
		return nil, fmt.Errorf("manifest has %d bytes; readers take %d", len(body), artifacts.MaxManifestSize)
	}
	// Make objects durable before the manifest that names them. Each step is durable before the
	// next one begins.
	onStep(StepSync)
	if err := o.store.Sync(ctx); err != nil {
		return nil, fmt.Errorf("sync objects: %w", err)
	}
	onStep(StepManifest)
	ref := artifacts.RefOf(body)
	if err := o.put(ctx, artifacts.ManifestKey(ref.Digest), body); err != nil {
		return nil, err
	}
	if err := o.store.Sync(ctx); err != nil {
		return nil, fmt.Errorf("sync manifest: %w", err)
	}
	onStep(StepSwap)
	return h.point(ctx, o.store, ref, m.Time, at, onStep)
}

// Point is the last step of Publish. It moves the pointer from the head to the manifest ref for
// time t. The manifest and everything that is reachable from it must be durable.
func (h *Head) Point(ctx context.Context, s artifacts.Store, ref artifacts.Ref, t time.Time, at Timing,
) (*artifacts.Pointer, error) {
	return h.point(ctx, s, ref, t, at, func(string) {})
}

func (h *Head) point(ctx context.Context, s artifacts.Store, ref artifacts.Ref, t time.Time, at Timing,
	onStep func(name string),
) (*artifacts.Pointer, error) {
	id, err := h.identity(ctx, s)
	if err != nil {
		return nil, err
	}
	now := at.Now().UTC()
	p := &artifacts.Pointer{
		Format: artifacts.Format, Store: id, Sequence: 1, Time: t, Manifest: ref,
		Nonce: randomID(), Published: now, DataTimes: at.DataTimes,
	}
	if last := h.Pointer; last != nil {
		p.Sequence = last.Sequence + 1
		// After an outage, clients have waited long enough, so edges activate the snapshot
		// immediately.
		if at.ActivateAfter > 0 && now.Sub(last.Time) <= maxBefore {
			p.ActivateAt = now.Add(at.ActivateAfter)
		}
	}
	if p.Sequence > artifacts.MaxNumber {
		return nil, fmt.Errorf("sequence %d: readers take up to 2^53", p.Sequence)
	}
	next, err := h.append(ctx, s, p)
	if err != nil {
		return nil, err
	}
	if err := h.swap(ctx, s, p); err != nil {
		return p, err
	}
	if next != nil {
		onStep(StepLog)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
		defer cancel()
		h.LogError = next.Write(ctx, s)
	}
	if h.Pointer == nil {
		// The snapshot is published, so an error here is not a failure. The next build marks the
		// pointer.
		_ = Mark(context.WithoutCancel(ctx), s, artifacts.CurrentKey)
	}
	return p, nil
}

// append adds a leaf for this publication to the log, if the store signs, and sets p.Log. It
// returns the part of the log that must be written after the pointer has moved. It returns nil for
// a store that does not sign.
func (h *Head) append(ctx context.Context, s artifacts.Store, p *artifacts.Pointer) (*transparency.Next, error) {
	if !signed.Signs(s) {
		return nil, nil
	}
	if err := h.catchUp(ctx, s, p); err != nil {
		return nil, err
	}
	next, err := transparency.Append(ctx, s, p.Store, h.Pointer, transparency.LeafOf(p))
	if errors.Is(err, transparency.ErrBehind) {
		now, rerr := ReadHead(ctx, s)
		if rerr == nil && now.version != h.version {
			return nil, &LostError{now}
		}
		return nil, errors.Join(fmt.Errorf("pointer %q: %w: %w; put the newest pointer back with builder restore --from a"+
			" backup", artifacts.CurrentKey, ErrLost, err), rerr)
	}
	if err == nil {
		err = next.Prepare(ctx, s)
	}
	if err != nil {
		return nil, fmt.Errorf("the log cannot be written, so the pointer stays: %w", err)
	}
	p.Log = &artifacts.LogHead{Size: next.N, Root: artifacts.Digest(next.Hash)}
	return next, nil
}

// catchUp adds leaves to the log for the head and its retained snapshots, if they were published
// while the store was not signed. If the head's manifest is unknown, catchUp uses the manifest of
// p, which retains the same snapshots.
func (h *Head) catchUp(ctx context.Context, s artifacts.Store, p *artifacts.Pointer) (err error) {
	if h.Pointer == nil || h.Pointer.Log != nil {
		return nil
	}
	var leaves []string
	if h.Manifest != nil {
		leaves = append(transparency.Leaves(h.Manifest), transparency.LeafOf(h.Pointer))
	} else {
		m, err := artifacts.ReadManifest(ctx, s, p.Manifest)
		if err != nil {
			return err
		}
		leaves = transparency.Leaves(m)
	}
	return transparency.CatchUp(ctx, s, p.Store, leaves)
}

func randomID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

func (h *Head) swap(ctx context.Context, s artifacts.Store, p *artifacts.Pointer) error {
	body := p.Encode()
	if len(body) > artifacts.MaxPointerSize {
		return fmt.Errorf("pointer has %d bytes; readers take %d", len(body), artifacts.MaxPointerSize)
	}
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		_, err := s.Swap(ctx, artifacts.CurrentKey, h.version, body)
		if err == nil {
			return struct{}{}, nil
		}
		settled, settleErr := h.settle(ctx, s, p)
		switch {
		case settleErr != nil:
			err = backoff.Permanent(fmt.Errorf("swap pointer: %w; whether it moved is unknown: %w", err, settleErr))
		case settled == nil:
			err = nil
		case settled.version != h.version:
			err = backoff.Permanent(&LostError{settled})
		default:
			err = fmt.Errorf("swap pointer: %w; it still names the previous snapshot", err)
		}
		return struct{}{}, err
	}, backoff.WithBackOff(pace()), backoff.WithMaxTries(swapTries))
	return err
}

func pace() backoff.BackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval = 100*time.Millisecond, 5*time.Second
	return b
}

// settle reads the pointer back. It returns nil if p was published, even if another builder has
// since published a successor. It recognizes this case because every manifest lists its
// predecessor.
func (h *Head) settle(ctx context.Context, s artifacts.Store, p *artifacts.Pointer) (*Head, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	return backoff.Retry(ctx, func() (*Head, error) {
		found, version, err := ReadPointer(ctx, s)
		switch {
		case errors.Is(err, artifacts.ErrNotFound):
			return &Head{}, nil
		case err != nil:
			return nil, err
		case found.Nonce == p.Nonce:
			return nil, nil
		case version == h.version:
			return h, nil
		}
		now, err := ReadHead(ctx, s)
		if err == nil && now.retains(p.Manifest.Digest) {
			return nil, nil
		}
		return now, err
	}, backoff.WithBackOff(pace()), backoff.WithMaxTries(settleTries))
}

func (h *Head) retains(d artifacts.Digest) bool {
	return h.Manifest != nil &&
		slices.ContainsFunc(h.Manifest.Retained, func(r artifacts.Retained) bool { return r.Manifest.Digest == d })
}
