// Command prepare builds the S3 servers that tests start, unless they are already built. MinIO
// takes about three minutes, which is too long for a test.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"example.com/marketdata/internal/test/testserver"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	for _, kind := range []testserver.Kind{testserver.KindMinIO, testserver.KindVersitygw} {
		if _, err := testserver.Program(ctx, kind); err != nil {
			fmt.Fprintf(os.Stderr, "prepare: %s: %v\n", kind, err)
			os.Exit(1)
		}
	}
}
