package dirstore_test

import (
	"testing"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/dirstore"
	"example.com/marketdata/internal/lab/storetest"
)

func TestStore(t *testing.T) {
	storetest.TestStore(t, func(t *testing.T) artifacts.Store {
		s, err := dirstore.Open(t.TempDir(), dirstore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}
