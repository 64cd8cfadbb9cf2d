package s3store_test

import (
	"fmt"
	"testing"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/s3store"
	"example.com/marketdata/internal/lab/storetest"
	"example.com/marketdata/internal/lab/testserver"
)

func TestStoreMinIO(t *testing.T)     { testStore(t, testserver.MinIO) }
func TestStoreVersitygw(t *testing.T) { testStore(t, testserver.Versitygw) }

// testStore gives each subtest a prefix of its own.
func testStore(t *testing.T, start func(testing.TB) *testserver.Server) {
	t.Parallel()
	server := start(t)
	n := 0
	storetest.TestStore(t, func(t *testing.T) artifacts.Store {
		n++
		return open(t, server.URL(fmt.Sprintf("store/%d", n)), server.Options())
	})
}

func open(t *testing.T, url string, o s3store.Options) *s3store.Store {
	t.Helper()
	s, err := s3store.Open(url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}
