package artifacts

import (
	"context"
	"errors"
	"time"
)

// The answers of a store that a caller acts on. They come wrapped: ask with errors.Is. Every other
// error means that the outcome is unknown; it is never turned into one of these.
var (
	// ErrNotFound: the store was asked, answered, and holds no such key. A store that cannot be
	// asked (no such folder or bucket, no connection) gives another error.
	ErrNotFound = errors.New("not found")
	// ErrConflict: Put met other bytes under its key, or Swap met another
	// version than the one it was to replace. Nothing was changed.
	ErrConflict = errors.New("conflict")
	// ErrNotModified: the version is still the one the caller knows.
	ErrNotModified = errors.New("not modified")
	// ErrTooLarge: the object is longer than the caller takes.
	ErrTooLarge = errors.New("too large")
)

// ErrNoAccess: there is no such folder or bucket, or the credentials do not
// open it. It says nothing of any object, and asking again at once does not help.
var ErrNoAccess = errors.New("no access to the store")

// ErrRefused: the store cannot do what a store must, or takes the request for wrong. Asking again
// does not help.
var ErrRefused = errors.New("the store cannot do this")

// BusyError says that the store wants to be asked again later. It may come with ErrConflict: a swap
// that is not repeated has lost.
type BusyError struct {
	// After is the pause that the store asks for; 0: it names none.
	After time.Duration
	// Undone says that the store did nothing, so that a swap may be repeated.
	Undone bool
	Err    error
}

func (e *BusyError) Error() string { return e.Err.Error() }
func (e *BusyError) Unwrap() error { return e.Err }

// Version is a store's opaque name for one state of a moving object. The zero
// Version means that there is no object.
type Version string

// Info describes one stored object, as List gives it.
type Info struct {
	Key  Key
	Size int64
	// Modified is when the object was last written, by the store's clock.
	Modified time.Time
}

// All methods of a store are safe for concurrent use, also between processes, and return when
// ctx is done.

// ObjectReader reads what a key names, above all immutable objects.
type ObjectReader interface {
	// Get returns the whole object and its version. When the object is longer
	// than limit bytes the error is ErrTooLarge, and no more than limit+1
	// bytes were read. A key without an object gives ErrNotFound.
	Get(ctx context.Context, key Key, limit int64) ([]byte, Version, error)
}

// CellReader reads cells.
type CellReader interface {
	// GetIf is Get for a caller that already holds version known: when that is
	// still the object's version, the error is ErrNotModified and no body was
	// transferred. With a zero known it is Get.
	GetIf(ctx context.Context, key Key, known Version, limit int64) ([]byte, Version, error)
}

// Reader is the part of a store that an edge gets: reading by known key, nothing else. Each method
// makes one attempt; package retry repeats them.
type Reader interface {
	ObjectReader
	CellReader
}

// Clock is implemented by a Reader that can compare clocks.
type Clock interface {
	// ClockSkew returns how far this machine's clock is ahead of the store's, by the
	// last answer; below zero, it is behind. The figure is the least that the answer
	// allows, so that a slow one shows none. It is not known before the first answer.
	ClockSkew() (skew time.Duration, known bool)
}

// SkewOf returns the ClockSkew of a Clock, and for any other reader that it is not known.
func SkewOf(r ObjectReader) (skew time.Duration, known bool) {
	if c, ok := r.(Clock); ok {
		return c.ClockSkew()
	}
	return 0, false
}

// Objects holds immutable objects.
type Objects interface {
	ObjectReader
	// Put writes an immutable object. The same bytes under the same key again succeed, and count as
	// written now (Info.Modified). Other bytes give ErrConflict and change nothing, unless the key
	// names data (see Key.Names): then the stored object is damaged, and Put replaces it. A reader
	// sees the whole object or none. The object is durable once a later Sync has returned.
	Put(ctx context.Context, key Key, data []byte) error
	// Sync returns when everything that Put has reported as written before the call is durable.
	Sync(ctx context.Context) error
	// List calls f for each key that begins with prefix, cells included, in no
	// particular order, and stops at f's first error, which it returns.
	List(ctx context.Context, prefix string, f func(Info) error) error
	// Delete removes an object or a cell; a missing one is no error.
	Delete(ctx context.Context, key Key) error
}

// Cells holds small values that move by compare-and-swap.
type Cells interface {
	CellReader
	// Swap replaces a cell if its version is still old; a zero old means that there must be none.
	// It returns the new version, durable. Another version gives ErrConflict, with nothing changed.
	// After any other error the swap may or may not have happened: read the cell back.
	Swap(ctx context.Context, key Key, old Version, data []byte) (Version, error)
}

// Store is the whole store, which a builder gets.
type Store interface {
	Objects
	Cells
	// Now returns the store's clock, the one that Info.Modified is read from.
	Now(ctx context.Context) (time.Time, error)
	// SelfTest proves that the store honours the conditions of Put and Swap,
	// by trying them under ProbePrefix, and returns what it found to be wrong.
	SelfTest(ctx context.Context) error
}
