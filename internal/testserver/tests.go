package testserver

import (
	"os"
	"testing"
)

// RequireEnv names the environment variable that, set to 1, makes a test fail
// rather than skip when its server does not start.
const RequireEnv = "MARKETDATA_REQUIRE_S3"

// MinIO starts a MinIO for t, which ends with it.
func MinIO(t testing.TB) *Server {
	t.Helper()
	return forTest(t, KindMinIO)
}

// Versitygw starts a versitygw for t, which ends with it.
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
