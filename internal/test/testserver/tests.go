package testserver

import (
	"context"
	"errors"
	"net"
	"os"
	"testing"

	"example.com/marketdata/internal/test/must"
)

// RequireEnv is the name of an environment variable. If its value is 1, a test whose server does
// not start fails instead of being skipped.
const RequireEnv = "MARKETDATA_REQUIRE_S3"

// MinIO starts a MinIO server, which stops at the end of the test.
func MinIO(t testing.TB) *Server {
	t.Helper()
	return forTest(t, KindMinIO)
}

// Versitygw starts a versitygw server, which stops at the end of the test.
func Versitygw(t testing.TB) *Server {
	t.Helper()
	return forTest(t, KindVersitygw)
}

func forTest(t testing.TB, kind Kind) *Server {
	t.Helper()
	s, err := Start(t.Context(), kind, Options{Dir: t.TempDir()})
	if err != nil {
		if os.Getenv(RequireEnv) == "1" {
			t.Fatal(err)
		}
		t.Skipf("no %s to test with (%s=1 makes this fail): %v", kind, RequireEnv, err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Serve runs serve, a server's method, on a free port of 127.0.0.1 until t ends, and returns the
// address. To stop the server, it calls drain with a canceled context, so drain waits for no
// client.
func Serve(t testing.TB, serve func(net.Listener) error, drain func(context.Context) error) (address string) {
	t.Helper()
	ln := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	return ServeOn(t, ln, serve, drain)
}

// ServeOn is like Serve but uses the caller's listener.
func ServeOn(
	t testing.TB, ln net.Listener, serve func(net.Listener) error, drain func(context.Context) error,
) (address string) {
	t.Helper()
	served := make(chan error, 1)
	go func() { served <- serve(ln) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := drain(ctx); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return ln.Addr().String()
}
