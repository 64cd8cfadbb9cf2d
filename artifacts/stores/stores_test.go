package stores_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/dirstore"
	"example.com/marketdata/artifacts/s3store"
	"example.com/marketdata/artifacts/stores"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/testserver"
)

func TestFile(t *testing.T) {
	ctx := t.Context()
	t.Chdir(t.TempDir())
	for _, address := range []string{
		"file:store", "file:a/b", "file:./c%20d", "file:" + t.TempDir() + "/x", "file://" + t.TempDir() + "/y"} {
		if _, err := stores.Open(ctx, address, stores.Options{}); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is not there: %v", address, err)
		}
		r := must.Get(stores.OpenReader(ctx, address))(t)
		if _, _, err := r.Get(ctx, artifacts.CurrentKey, 10); err == nil || errors.Is(err, artifacts.ErrNotFound) {
			t.Errorf("%s is not there, Get: %v", address, err)
		}
		s := must.Get(stores.Open(ctx, address, stores.Options{Create: true}))(t)
		if _, ok := s.(*dirstore.Store); !ok {
			t.Errorf("%s is a %T", address, s)
		}
		must.OK(t, s.Put(ctx, artifacts.MustKey("a"), []byte("x")))
		path := strings.TrimPrefix(address, "file:")
		must.Get(os.Stat(filepath.Join(path, "a")))(t)
		if b, _, err := r.Get(ctx, artifacts.MustKey("a"), 10); err != nil || string(b) != "x" {
			t.Errorf("%s: reader got %q, %v", address, b, err)
		}
	}
}

// TestS3 checks that a test server's address and environment are sufficient to open its store.
func TestS3(t *testing.T) {
	ctx := t.Context()
	server := testserver.Versitygw(t)
	for _, variable := range server.Env() {
		name, value, _ := strings.Cut(variable, "=")
		t.Setenv(name, value)
	}
	s := must.Get(stores.Open(ctx, server.URL("a/b"), stores.Options{}))(t)
	if _, ok := s.(*s3store.Store); !ok {
		t.Errorf("it is a %T", s)
	}
	must.OK(t, s.Put(ctx, artifacts.MustKey("x"), []byte("x")))
	for address, want := range map[string]error{
		server.URL("a/b"): nil, server.URL("a"): artifacts.ErrNotFound, server.URL(""): artifacts.ErrNotFound} {
		r := must.Get(stores.OpenReader(ctx, address))(t)
		if _, _, err := r.Get(ctx, artifacts.MustKey("x"), 10); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", address, err, want)
		}
	}
}

func TestAddresses(t *testing.T) {
	t.Chdir(t.TempDir())
	for address, want := range map[string]string{
		"":                      `store "": want file:PATH or s3://bucket/prefix`,
		"x":                     "did you mean file:x? want file:PATH or s3://bucket/prefix",
		"/var/store":            "did you mean file:/var/store? want file",
		"http://host/bucket":    `bucket": want file:PATH or s3://bucket/prefix`,
		"File:x":                `x": want file:PATH or s3://bucket/prefix`,
		"file:":                 "the path is empty",
		"file:x?create=true":    "without parameters",
		"file://host/x":         "without a host",
		"s3:bucket":             "want s3://bucket/prefix",
		"s3://bucket?region":    "parameter region must have exactly one value",
		"s3://bucket?acl=x":     `unknown parameter "acl"; want s3://bucket/prefix?endpoint=`,
		"s3://bucket?region=%z": "invalid URL escape",
	} {
		s, err := stores.Open(t.Context(), address, stores.Options{Create: true})
		if err == nil || s != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Open(%q): %v, want %q", address, err, want)
		}
		r, err := stores.OpenReader(t.Context(), address)
		if err == nil || r != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("OpenReader(%q): %v, want %q", address, err, want)
		}
	}
	if left, err := os.ReadDir("."); err != nil || len(left) != 0 {
		t.Errorf("a wrong address made %v, %v", left, err)
	}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := stores.Open(done, "file:x", stores.Options{Create: true}); !errors.Is(err, context.Canceled) {
		t.Errorf("Open with a context that is done: %v", err)
	}
}
