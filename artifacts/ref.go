package artifacts

import (
	"context"
	"errors"
	"fmt"
)

// Ref names an immutable object and its stored length in bytes.
type Ref struct {
	Digest Digest `json:"digest"`
	Size   int64  `json:"size"`
}

// RefOf returns the reference of the object with the bytes b.
func RefOf(b []byte) Ref { return Ref{Sum(b), int64(len(b))} }

// Check returns ErrCorrupt unless b is the object that r names.
func (r Ref) Check(b []byte) error {
	if int64(len(b)) != r.Size {
		return fmt.Errorf("%w: %d bytes, want %d", ErrCorrupt, len(b), r.Size)
	}
	if d := Sum(b); d != r.Digest {
		return fmt.Errorf("%w: the digest is %s, want %s", ErrCorrupt, d, r.Digest)
	}
	return nil
}

// IsDamage reports whether err means that an object is missing or damaged. Any other error means
// that the state of the object is not known.
func IsDamage(err error) bool {
	return errors.Is(err, ErrNotFound) || errors.Is(err, ErrCorrupt) || errors.Is(err, ErrTooLarge) ||
		errors.Is(err, ErrFormat)
}

// ReadObject reads and checks the object that ref names. It returns ErrTooLarge if the stored
// object is longer than ref says, and ErrCorrupt if it differs in any other way.
func ReadObject(ctx context.Context, r ObjectReader, ref Ref) ([]byte, error) {
	return read(ctx, r, ObjectKey(ref.Digest), ref)
}

// ReadManifest reads, checks and parses the manifest that ref names.
func ReadManifest(ctx context.Context, r ObjectReader, ref Ref) (*Manifest, error) {
	b, err := read(ctx, r, ManifestKey(ref.Digest), ref)
	if err != nil {
		return nil, err
	}
	return ParseManifest(b)
}

func read(ctx context.Context, r ObjectReader, key Key, ref Ref) ([]byte, error) {
	b, err := get(ctx, r, key, ref)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", key, err)
	}
	return b, nil
}

func get(ctx context.Context, r ObjectReader, key Key, ref Ref) ([]byte, error) {
	if ref.Size < 0 || ref.Size > MaxObjectSize {
		return nil, fmt.Errorf("%w: its reference says %d bytes", ErrCorrupt, ref.Size)
	}
	b, _, err := r.Get(ctx, key, ref.Size)
	if err != nil {
		return nil, err
	}
	return b, ref.Check(b)
}
