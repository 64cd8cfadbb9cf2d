package memstore_test

import (
	"testing"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/internal/lab/memstore"
	"example.com/marketdata/internal/lab/storetest"
)

func TestStore(t *testing.T) {
	storetest.TestStore(t, func(*testing.T) artifacts.Store { return memstore.New() })
}
