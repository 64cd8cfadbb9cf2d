package s3store

import (
	"context"
	"fmt"
	"io"
	"time"
)

// readStall bounds how long a read waits for its answer to begin, and then for each
// further byte. It is as long as an edge waits for the pointer: a connection that died in an
// outage must not hold a fetch for longer than the store needs to be asked again.
const readStall = 5 * time.Second

// errStalled is a DeadlineExceeded: to its callers the store is slow.
var errStalled = fmt.Errorf("no byte for %v: %w", readStall, context.DeadlineExceeded)

// watch returns a context for one read, which ends with errStalled when progress
// is not called for readStall, and a stop that frees it.
func watch(ctx context.Context) (_ context.Context, progress, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(readStall, func() { cancel(errStalled) })
	return ctx, func() { timer.Reset(readStall) }, func() { timer.Stop(); cancel(nil) }
}

// progressReader calls progress for each read that gives bytes.
type progressReader struct {
	io.Reader
	progress func()
}

func (r progressReader) Read(b []byte) (n int, err error) {
	if n, err = r.Reader.Read(b); n > 0 {
		r.progress()
	}
	return n, err
}
