package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/stores"
	"example.com/marketdata/internal/cmdline"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/testserver"
)

// TestStatusAsVerify checks that status and verify exit with the same status, whatever is wrong
// with a store. If nothing can be read, they must also report the same error.
func TestStatusAsVerify(t *testing.T) {
	server := testserver.Versitygw(t)
	credentials := func() {
		for _, variable := range server.Env() {
			name, value, _ := strings.Cut(variable, "=")
			t.Setenv(name, value)
		}
	}
	credentials()
	cache := t.TempDir()
	get := func(s artifacts.Store, key artifacts.Key) []byte {
		b, _, err := s.Get(context.Background(), key, 1<<20)
		must.OK(t, err)
		return b
	}
	remove := func(s artifacts.Store, prefix string, n int) {
		must.OK(t, s.List(context.Background(), prefix, func(i artifacts.Info) error {
			if n--; n < 0 {
				return nil
			}
			return s.Delete(context.Background(), i.Key)
		}))
	}
	put := func(s artifacts.Store, key artifacts.Key, b []byte) {
		must.OK(t, s.Delete(context.Background(), key))
		must.OK(t, s.Put(context.Background(), key, b))
	}
	var older []byte
	for _, c := range []struct {
		name   string
		status int
		same   bool // whether both report the same error
		spoil  func(s artifacts.Store)
	}{
		{"whole", cmdline.Done, false, func(artifacts.Store) {}},
		{"emptied", cmdline.Failed, true, func(s artifacts.Store) { remove(s, "", 1<<20) }},
		{"no credentials", cmdline.Failed, true, func(artifacts.Store) {
			for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} {
				must.OK(t, os.Unsetenv(name))
			}
			t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(cache, "none"))
			t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
		}},
		{"wrong credentials", cmdline.Failed, true, func(artifacts.Store) {
			credentials()
			t.Setenv("AWS_SECRET_ACCESS_KEY", "wrong")
		}},
		{"an older pointer", cmdline.Failed, false, func(s artifacts.Store) { put(s, artifacts.CurrentKey, older) }},
		{"a damaged pointer", cmdline.Failed, false,
			func(s artifacts.Store) { put(s, artifacts.CurrentKey, []byte("x")) }},
		{"a missing object", cmdline.Failed, false, func(s artifacts.Store) { remove(s, artifacts.ObjectPrefix, 1) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			credentials()
			address := server.URL(strings.ReplaceAll(c.name, " ", "-"))
			flags := []string{"--store", address, "--state-dir", cache}
			s := must.Get(stores.Open(t.Context(), address, stores.Options{}))(t)
			build := append([]string{"build", "--source", simulated, "--time"}, flags...)
			done(t, slices.Insert(build, 4, "2026-11-21T07:10:00Z")...)
			older = get(s, artifacts.CurrentKey)
			done(t, slices.Insert(build, 4, "2026-11-21T07:20:00Z")...)
			done(t, "change", "--store", address)
			c.spoil(s)
			verify, status := command(t, append([]string{"verify"}, flags...)...),
				command(t, append([]string{"status"}, flags...)...)
			if status.status != c.status || verify.status != c.status {
				t.Errorf("status %+v; verify %+v; want status %d", status, verify, c.status)
			}
			why := func(r result) string { // omit the object that was requested first
				return r.stdout + r.stderr[max(0, strings.Index(r.stderr, "no access to the store")):]
			}
			if c.same && why(status) != why(verify) {
				t.Errorf("status says %+v, verify %+v", status, verify)
			}
		})
	}
}
