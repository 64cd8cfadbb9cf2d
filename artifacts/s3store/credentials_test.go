package s3store_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/s3store"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/testserver"
)

// credentialsFile sets AWS_SHARED_CREDENTIALS_FILE to a file that does not exist yet, and removes
// all credentials from the environment. write creates the file or atomically replaces it.
func credentialsFile(t *testing.T) (path string, write func(contents string)) {
	t.Helper()
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"} {
		t.Setenv(name, "")
	}
	path = filepath.Join(t.TempDir(), "credentials")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", path)
	return path, func(contents string) {
		must.OK(t, os.WriteFile(path+".new", []byte(contents), 0o600))
		must.OK(t, os.Rename(path+".new", path))
	}
}

func profile(name, key, secret string) string {
	return fmt.Sprintf("[%s]\naws_access_key_id = %s\naws_secret_access_key = %s\n", name, key, secret)
}

// signedBy returns the access key that signed a request.
func signedBy(r *http.Request) string {
	_, rest, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=")
	key, _, _ := strings.Cut(rest, "/")
	return key
}

// TestRotation checks that rotating the credentials during any request of any call does not change
// the call's result, whichever error the store returns for the old credentials.
func TestRotation(t *testing.T) {
	_, write := credentialsFile(t)
	// try makes a call. The server refuses one request of the call, because the key was rotated in
	// the meantime; at is the number of this request. try returns the call's result and the number
	// of requests.
	try := func(name string, at int, code string) (got string, requests int) {
		f := &fake{file: true, page: 2}
		s := f.open(t)
		keys := 0
		var mu sync.Mutex // some calls make several requests at once
		write(profile("default", "key0", "secret"))
		for i := range 5 {
			must.OK(t, s.Put(t.Context(), artifacts.MustKey(fmt.Sprintf("objects/ab/%d", i)), []byte("x")))
		}
		f.answer = func(w http.ResponseWriter, r *http.Request) bool {
			mu.Lock()
			defer mu.Unlock()
			if requests++; requests == at {
				keys++
				write(profile("default", fmt.Sprint("key", keys), "secret"))
			}
			if signedBy(r) == fmt.Sprint("key", keys) {
				return false
			}
			fail(w, http.StatusForbidden, code)
			return true
		}
		if name == "list all" {
			return fmt.Sprint(s.List(t.Context(), "", func(i artifacts.Info) error {
				got += " " + i.Key.String()
				return nil
			}), got), requests
		}
		return fmt.Sprint(calls(t.Context(), s)[name]()), requests
	}
	names := append(slices.Sorted(maps.Keys(calls(t.Context(), (&fake{}).open(t)))), "list all")
	for i, name := range names {
		want, requests := try(name, 0, "")
		for at := 1; at <= requests; at++ {
			code := []string{"InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken"}[(i+at)%4]
			if name == "selftest" && at > 3 {
				break // its names are random, and its order is not fixed
			}
			if got, n := try(name, at, code); got != want || n <= requests && name != "selftest" {
				t.Errorf("%s, request %d of %d is refused: got %q after %d, want %q", name, at, requests, got, n, want)
			}
		}
	}
}

// TestRefused checks that credentials that stay refused are tried twice, and that the error names
// their source and says why there are no newer ones.
func TestRefused(t *testing.T) {
	path, write := credentialsFile(t)
	f := &fake{file: true}
	s := f.open(t)
	_, _, err := s.Get(t.Context(), artifacts.CurrentKey, 10)
	if !errors.Is(err, artifacts.ErrNoAccess) || !strings.Contains(err.Error(), path) || len(f.seen()) != 0 {
		t.Errorf("without the file: %v", err)
	}
	for _, c := range []struct{ contents, want string }{
		{"", "default"},
		{"[other]\naws_access_key_id = a\n", "default"},
		{"[default]\naws_access_key_id = a\n", "partial"},
		{"[default]\nregion = here\n", "has no aws_access_key_id"},
		{strings.Repeat("#", 70_000), "longer than 65536 bytes"},
	} {
		write(c.contents)
		if _, _, err = s.Get(t.Context(), artifacts.CurrentKey, 10); !errors.Is(err, artifacts.ErrNoAccess) ||
			!strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) || len(f.seen()) != 0 {
			t.Errorf("%.30q: %v, want %q", c.contents, err, c.want)
		}
	}
	write(profile("default", "good", "secret"))
	if _, _, err = s.Get(t.Context(), artifacts.CurrentKey, 10); !errors.Is(err, artifacts.ErrNotFound) {
		t.Fatalf("with a file that came later: %v", err)
	}
	f.seen()
	write("[default]\n") // a file that is only half written
	if _, _, err = s.Get(t.Context(), artifacts.CurrentKey, 10); !errors.Is(err, artifacts.ErrNotFound) {
		t.Errorf("beside a file that is not whole the last credentials do not go on: %v", err)
	}
	f.seen()
	f.answer = func(w http.ResponseWriter, _ *http.Request) bool {
		fail(w, http.StatusForbidden, "InvalidAccessKeyId")
		return true
	}
	_, _, err = s.Get(t.Context(), artifacts.CurrentKey, 10)
	if n := len(f.seen()); n != 2 || !errors.Is(err, artifacts.ErrNoAccess) ||
		!strings.Contains(err.Error(), "the access key of "+path) ||
		!strings.Contains(err.Error(), "has no aws_access_key_id") {
		t.Errorf("%d requests, %v", n, err)
	}
}

// TestProfile checks that each store may have its own credentials, also when Kubernetes replaces
// the folder of the file.
func TestProfile(t *testing.T) {
	path, write := credentialsFile(t)
	write(profile("default", "usual", "secret") + profile("copy", "copys", "secret"))
	var signers []string
	f := &fake{answer: func(w http.ResponseWriter, r *http.Request) bool {
		signers = append(signers, signedBy(r))
		return false
	}}
	address := f.address(t)
	first, second := open(t, address, s3store.Options{}), open(t, address+"&profile=copy", s3store.Options{})
	ask := func() {
		for _, s := range []*s3store.Store{first, second} {
			if _, _, err := s.Get(t.Context(), artifacts.CurrentKey, 10); !errors.Is(err, artifacts.ErrNotFound) {
				t.Fatal(err)
			}
		}
	}
	ask()
	dir := t.TempDir()
	for i := range 3 {
		version := filepath.Join(dir, fmt.Sprint("..", i))
		must.OK(t, os.Mkdir(version, 0o755))
		text := profile("default", fmt.Sprint("usual", i), "secret") + profile("copy", fmt.Sprint("copys", i), "secret")
		must.OK(t, os.WriteFile(filepath.Join(version, "credentials"), []byte(text), 0o600))
		link := filepath.Join(dir, "..data")
		must.OK(t, os.Symlink(version, link+".new"))
		must.OK(t, os.Rename(link+".new", link))
		if i == 0 {
			must.OK(t, os.Remove(path))
			must.OK(t, os.Symlink(filepath.Join(link, "credentials"), path))
		}
		ask()
	}
	if want := "[usual copys usual0 copys0 usual1 copys1 usual2 copys2]"; fmt.Sprint(signers) != want {
		t.Errorf("signed by %v, want %s", signers, want)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "env")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	signers = nil
	first, second = open(t, address, s3store.Options{}), open(t, address+"&profile=copy", s3store.Options{})
	if ask(); fmt.Sprint(signers) != "[env copys2]" {
		t.Errorf("beside the environment: signed by %v", signers)
	}
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", "")
	if _, err := s3store.Open(address+"&profile=copy", s3store.Options{}); err == nil ||
		!strings.Contains(err.Error(), "AWS_SHARED_CREDENTIALS_FILE is not set") {
		t.Errorf("a profile of no file: %v", err)
	}
}

// TestRotationVersitygw uses ten accounts one after another and deletes each one as soon as the
// next one's credentials are in the file. No call of readers and writers that never pause may fail.
func TestRotationVersitygw(t *testing.T) {
	server := testserver.Versitygw(t)
	_, write := credentialsFile(t)
	rotate := func(i int) {
		account := fmt.Sprint("account", i)
		must.OK(t, server.AddAccount(t.Context(), account, "secret of "+account))
		write(profile("default", account, "secret of "+account))
		if i > 0 {
			must.OK(t, server.DeleteAccount(t.Context(), fmt.Sprint("account", i-1)))
		}
	}
	rotate(0)
	s := open(t, server.URL("rotated"), s3store.Options{})
	done := make(chan struct{})
	counts := make(chan int, 4)
	var workers sync.WaitGroup
	for w := range cap(counts) {
		workers.Go(func() {
			cell := artifacts.ProbeKey(fmt.Sprint("cell", w))
			var v artifacts.Version
			for n := 0; ; n++ {
				select {
				case <-done:
					counts <- n
					return
				default:
				}
				data := fmt.Append(nil, "value ", n)
				err := s.Put(t.Context(), artifacts.ObjectKey(artifacts.Sum(data)), data)
				if err == nil {
					v, err = s.Swap(t.Context(), cell, v, data)
				}
				if err == nil {
					_, _, err = s.Get(t.Context(), cell, 100)
				}
				if err == nil {
					err = s.List(t.Context(), artifacts.ProbePrefix, func(artifacts.Info) error { return nil })
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range 10 {
		rotate(i + 1)
	}
	close(done)
	workers.Wait()
	total := 0
	for range cap(counts) {
		total += <-counts
	}
	t.Logf("%d rounds of four calls during ten rotations", total)
	if total < 20 {
		t.Errorf("%d rounds are too few to have met a rotation", total)
	}
}

// TestRoleWithoutProxy checks that the store requests a role's credentials directly from the
// link-local address, never through a proxy, which could read the credentials or return others
// (aws-sdk-go 1226). net/http reads the environment only once, so another process makes the
// request.
func TestRoleWithoutProxy(t *testing.T) {
	const asks = "S3STORE_TEST_ASKS"
	if os.Getenv(asks) != "" {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		s := open(t, "s3://bucket?endpoint=http://192.0.2.1:9000", s3store.Options{})
		_, _, err := s.Get(ctx, artifacts.CurrentKey, 10)
		t.Log(err)
		return
	}
	var mu sync.Mutex
	var seen []string
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, r.Method+" "+r.URL.String())
		http.Error(w, "a proxy knows no role", http.StatusForbidden)
	}))
	t.Cleanup(proxy.Close)
	for name, env := range map[string]string{
		"instance": "", "task": "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI=/v2/credentials/x",
		"pod": "AWS_CONTAINER_CREDENTIALS_FULL_URI=http://169.254.170.23/v1/credentials",
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestRoleWithoutProxy$", "-test.v")
			cmd.Env = []string{asks + "=1", "HTTP_PROXY=" + proxy.URL, "http_proxy=" + proxy.URL, env}
			out, err := cmd.CombinedOutput()
			mu.Lock()
			defer mu.Unlock()
			if len(seen) > 0 {
				t.Errorf("the proxy was asked for %q: %v\n%s", seen, err, out)
			}
			seen = nil
		})
	}
}
