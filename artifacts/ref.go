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

// RefOf returns the name of the object b.
func RefOf(b []byte) Ref { return Ref{Sum(b), int64(len(b))} }

// Check returns ErrCorrupt unless b is the object that r names.
func (r Ref) Check(b []byte) error {
	if int64(len(b)) != r.Size {
		return fmt.Errorf("%w: %d bytes, want %d", ErrCorrupt, len(b), r.Size)
	}
	if d := Sum(b); d != r.Digest {
		return fmt.Errorf("%w: %d bytes with digest %s", ErrCorrupt, len(b), d)
	}
	return nil
}

// IsDamage reports whether err says that an object is not there, or not as it
// should be; any other error means that this is not known.
func IsDamage(err error) bool {
	return errors.Is(err, ErrNotFound) || errors.Is(err, ErrCorrupt) || errors.Is(err, ErrTooLarge) ||
		errors.Is(err, ErrFormat)
}

// ReadObject reads and checks the object that ref names. Bytes that are not the
// ones named give ErrCorrupt, more of them ErrTooLarge.
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
		return nil, fmt.Errorf("%w: named with %d bytes", ErrCorrupt, ref.Size)
	}
	b, _, err := r.Get(ctx, key, ref.Size)
	if err != nil {
		return nil, err
	}
	return b, ref.Check(b)
}
