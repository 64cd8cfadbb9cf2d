package memstore_test

import (
	"testing"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/storetest"
)

func TestStore(t *testing.T) {
	storetest.TestStore(t, func(*testing.T) artifacts.Store { return memstore.New() })
}
