package s3store_test

import (
	"fmt"
	"testing"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/s3store"
	"example.com/marketdata/artifacts/storetest"
	"example.com/marketdata/internal/testserver"
)

func TestExamMinIO(t *testing.T)     { exam(t, testserver.MinIO) }
func TestExamVersitygw(t *testing.T) { exam(t, testserver.Versitygw) }

// exam gives each part of the exam a prefix of its own.
func exam(t *testing.T, start func(testing.TB) *testserver.Server) {
	t.Parallel()
	server := start(t)
	n := 0
	storetest.Exam(t, func(t *testing.T) artifacts.Store {
		n++
		return open(t, server.URL(fmt.Sprintf("exam/%d", n)), server.Options())
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
