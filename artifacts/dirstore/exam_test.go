package dirstore_test

import (
	"testing"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/dirstore"
	"example.com/marketdata/artifacts/storetest"
)

func TestExam(t *testing.T) {
	storetest.Exam(t, func(t *testing.T) artifacts.Store {
		s, err := dirstore.Open(t.TempDir(), dirstore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}
