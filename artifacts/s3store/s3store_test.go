package s3store_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/retry"
	"example.com/marketdata/artifacts/s3store"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/storetest"
	"example.com/marketdata/internal/test/testserver"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// calls returns a call of each method of s that sends a request.
func calls(ctx context.Context, s artifacts.Store) map[string]func() error {
	all := storetest.Calls(ctx, s, "v")
	delete(all, "sync")
	all["swap new"] = func() error { _, err := s.Swap(ctx, artifacts.CurrentKey, "", []byte("x")); return err }
	return all
}

// wantUnknown checks that calls of a store that cannot be reached return errors other than a
// store's answers.
func wantUnknown(t *testing.T, s artifacts.Store) {
	t.Helper()
	for name, call := range calls(t.Context(), s) {
		err := call()
		if err == nil {
			t.Errorf("%s succeeds", name)
		}
		for _, answer := range []error{
			artifacts.ErrNotFound, artifacts.ErrConflict, artifacts.ErrNotModified, artifacts.ErrTooLarge} {
			if errors.Is(err, answer) {
				t.Errorf("%s: %v is an answer about an object", name, err)
			}
		}
	}
}

// TestAway checks that a missing bucket, missing credentials or a missing server are not reported
// as a missing object, and that the store works again after an outage.
func TestAway(t *testing.T) {
	t.Parallel()
	for _, start := range []func(testing.TB) *testserver.Server{testserver.MinIO, testserver.Versitygw} {
		server := start(t)
		t.Run(server.Kind.String(), func(t *testing.T) {
			t.Run("bucket", func(t *testing.T) {
				wantUnknown(t,
					open(t, strings.Replace(server.URL(""), testserver.Bucket, "no-such-bucket", 1), server.Options()))
			})
			t.Run("credentials", func(t *testing.T) {
				o := s3store.Options{
					Credentials: &s3store.Credentials{AccessKeyID: server.AccessKey, SecretAccessKey: "wrong"}}
				wantUnknown(t, open(t, server.URL(""), o))
			})
			s := open(t, server.URL(""), server.Options())
			v := must.Get(s.Swap(t.Context(), artifacts.CurrentKey, "", []byte("one")))(t)
			server.Stop()
			t.Run("server", func(t *testing.T) { wantUnknown(t, s) })
			must.OK(t, server.Start(t.Context()))
			if b, got, err := s.Get(t.Context(), artifacts.CurrentKey, 10); err != nil || string(b) != "one" ||
				got != v {
				t.Errorf("after the outage: %q of version %q, %v", b, got, err)
			}
		})
	}
}

// TestSelfTest checks that the self-test names the promise that a store breaks.
func TestSelfTest(t *testing.T) {
	const racers = 8
	var look sync.WaitGroup
	look.Add(racers)
	for name, c := range map[string]struct {
		fake *fake
		want string
	}{
		"none": {&fake{}, ""},
		"create": {&fake{ignore: map[string]bool{"If-None-Match": true}},
			"the store ignored If-None-Match: * of a write: a put of other bytes"},
		"match": {&fake{ignore: map[string]bool{"If-Match": true}},
			"the store ignored If-Match of a write: a swap with an old version succeeded"},
		"read": {
			&fake{ignore: map[string]bool{"GET If-None-Match": true}}, "the store ignored If-None-Match of a read"},
		"same ETag":  {&fake{sameTag: true}, "the store gave other bytes the same version"},
		"look first": {&fake{look: &look}, "8 of 8 simultaneous swaps of one version succeeded, want 1"},
		"not there": {&fake{answer: func(w http.ResponseWriter, r *http.Request) bool {
			if r.Header.Get("If-Match") != "" {
				fail(w, http.StatusNotImplemented, "NotImplemented")
			}
			return r.Header.Get("If-Match") != ""
		}}, "NotImplemented (HTTP status 501)"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.fake.open(t).SelfTest(t.Context())
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if n := len(c.fake.objects); n != 0 {
				t.Errorf("it left %d objects", n)
			}
		})
	}
}

// TestAnswers checks how the status and body of an answer are interpreted.
func TestAnswers(t *testing.T) {
	t.Parallel()
	status := func(code int, name string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, _ *http.Request) bool { fail(w, code, name); return true }
	}
	for name, answer := range map[string]func(http.ResponseWriter, *http.Request) bool{
		"a proxy's 404": func(w http.ResponseWriter, r *http.Request) bool { http.NotFound(w, r); return true },
		"an HTML 404": func(w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, "<html><body><Code>NoSuchKey</Code></body></html>")
			return true
		},
		"a 404 without a body": func(w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(http.StatusNotFound)
			return true
		},
		"no such bucket": status(http.StatusNotFound, "NoSuchBucket"),
		"forbidden":      status(http.StatusForbidden, "AccessDenied"),
		"internal error": status(http.StatusInternalServerError, "InternalError"),
		"slow down":      status(http.StatusServiceUnavailable, "SlowDown"),
		"no answer":      func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) },
	} {
		if testing.Short() && name == "slow down" {
			continue // its self-test waits for 25 seconds
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &fake{answer: answer}
			s := f.open(t)
			wantUnknown(t, s)
			for name, call := range calls(t.Context(), s) {
				if name == "selftest" {
					continue // its cleanup makes further requests
				}
				f.seen()
				call() // wantUnknown has checked the result
				if got := f.seen(); len(got) != 1 {
					t.Errorf("%s made %d requests, want one attempt: %v", name, len(got), got)
				}
			}
		})
	}
}

// TestNoAccess checks that errors name the bucket or the credentials that are at fault.
func TestNoAccess(t *testing.T) {
	for code, want := range map[string]string{
		"NoSuchBucket": `has no bucket "bucket": create it`, "InvalidAccessKeyId": "of the given credentials",
		"SignatureDoesNotMatch": "secret key",
		"ExpiredToken":          "session token", "AccessDenied": `in bucket "bucket"`, "SlowDown": "",
	} {
		f := &fake{answer: func(w http.ResponseWriter, _ *http.Request) bool {
			fail(w, http.StatusForbidden, code)
			return true
		}}
		_, _, err := f.open(t).Get(t.Context(), artifacts.CurrentKey, 10)
		if errors.Is(err, artifacts.ErrNoAccess) != (want != "") || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%s: %v", code, err)
		}
	}
}

// TestRefusedWrites checks that a write is not retried after an answer that no retry can change,
// but is retried after an answer that asks for it (RFC 9110, 15.5.9 and 15.5.10; RFC 6585, 4;
// Amazon's error list, where RequestTimeout is a 400).
func TestRefusedWrites(t *testing.T) {
	for _, c := range []struct {
		status int
		code   string
		asked  int
	}{
		{400, "InvalidRequest", 1}, // "Content-MD5 OR x-amz-checksum- HTTP header is required for Put Object requests"
		{405, "MethodNotAllowed", 1},
		{413, "EntityTooLarge", 1},
		{403, "AccountProblem", 1},
		{400, "RequestTimeout", 3},
		{408, "RequestTimeout", 3},
		{429, "TooManyRequests", 3},
		{503, "SlowDown", 3},
		{500, "InternalError", 3},
	} {
		f := &fake{answer: func(w http.ResponseWriter, r *http.Request) bool { fail(w, c.status, c.code); return true }}
		s := retry.New(f.open(t), retry.Options{Tries: 3, Wait: 1, MaxWait: 1})
		for name, call := range map[string]func() error{
			"put":    func() error { return s.Put(t.Context(), artifacts.MustKey("objects/ab/1"), []byte("x")) },
			"delete": func() error { return s.Delete(t.Context(), artifacts.MustKey("objects/ab/1")) },
		} {
			f.seen()
			err := call()
			if n := len(f.seen()); n != c.asked || err == nil || !strings.Contains(err.Error(), c.code) {
				t.Errorf("%s, %d %s: %d requests, want %d: %v", name, c.status, c.code, n, c.asked, err)
			}
		}
	}
}

// TestConflictStatus checks the answer 409, which means that another request is in progress: a swap
// has lost to it, and a put reads the object.
func TestConflictStatus(t *testing.T) {
	ctx := t.Context()
	f := &fake{}
	s := f.open(t)
	puts := 0
	f.answer = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPut {
			return false
		}
		if puts++; puts == 1 {
			fail(w, http.StatusConflict, "ConditionalRequestConflict")
		}
		return puts == 1
	}
	if _, err := s.Swap(ctx, artifacts.CurrentKey, "", []byte("x")); !errors.Is(err, artifacts.ErrConflict) {
		t.Errorf("Swap: %v", err)
	}
	puts = 0
	if err := s.Put(ctx, artifacts.MustKey("objects/ab/1"), []byte("x")); err != nil || puts != 2 {
		t.Errorf("Put beside one that was not applied: %v after %d writes", err, puts)
	}
	puts = 0
	if err := s.Put(ctx, artifacts.MustKey("objects/ab/1"), []byte("x")); err != nil {
		t.Errorf("Put beside one of the same bytes: %v", err)
	}
	puts = 0
	if err := s.Put(ctx, artifacts.MustKey("objects/ab/1"), []byte("y")); !errors.Is(err, artifacts.ErrConflict) {
		t.Errorf("Put beside one of other bytes: %v", err)
	}
	f.answer = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPut {
			fail(w, http.StatusConflict, "ConditionalRequestConflict")
		}
		return r.Method == http.MethodPut
	}
	err := s.Put(ctx, artifacts.MustKey("objects/ab/2"), []byte("x"))
	if err == nil || errors.Is(err, artifacts.ErrConflict) || errors.Is(err, artifacts.ErrNotFound) {
		t.Errorf("Put that is refused again and again with nothing there: %v", err)
	}
}

// TestBodies checks that at most limit+1 bytes of an object are read, whether or not the server
// states a length, and that a truncated body is an error.
func TestBodies(t *testing.T) {
	const limit = 100_000
	for name, c := range map[string]struct {
		length string // Content-Length; if empty, the body is chunked
		send   int
		want   error
	}{
		"fits":              {"100000", limit, nil},
		"fits, chunked":     {"", limit, nil},
		"too long":          {"100001", limit + 1, artifacts.ErrTooLarge},
		"too long, chunked": {"", limit + 1, artifacts.ErrTooLarge},
		"endless":           {"", 1 << 40, artifacts.ErrTooLarge},
		"endless, it says":  {"1099511627776", 1 << 40, artifacts.ErrTooLarge},
		"cut off":           {"100000", limit - 1, io.ErrUnexpectedEOF},
	} {
		t.Run(name, func(t *testing.T) {
			sent := make(chan int, 1)
			f := &fake{answer: func(w http.ResponseWriter, r *http.Request) bool {
				h := w.Header()
				h.Set("ETag", `"x"`)
				h.Set("Last-Modified", "Sat, 21 Nov 2026 12:00:00 GMT")
				if c.length != "" {
					h.Set("Content-Length", c.length)
				}
				n := 0
				defer func() { sent <- n }()
				for n < c.send {
					m, err := w.Write(make([]byte, min(10_000, c.send-n)))
					if n += m; err != nil {
						return true
					}
				}
				if c.length == "" {
					w.(http.Flusher).Flush()
				}
				return true
			}}
			b, v, err := f.open(t).Get(t.Context(), artifacts.MustKey("objects/ab/cd"), limit)
			if !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			if c.want == nil && len(b) != limit || c.want != nil && (b != nil || v != "") {
				t.Errorf("got %d bytes of version %q", len(b), v)
			}
			if n := <-sent; n > 50<<20 { // more than the buffers between the two can hold
				t.Errorf("the server could send %d bytes", n)
			}
		})
	}
}

// TestEndlessErrors checks that the store reads only a part of an endless answer, to a write or
// with an error status, and then closes the connection.
func TestEndlessErrors(t *testing.T) {
	for _, status := range []int{200, 404, 500, 503} {
		sent := make(chan int, 100)
		f := &fake{answer: func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodGet && status == 200 {
				return false
			}
			w.Header().Set("ETag", `"v"`)
			w.WriteHeader(status)
			n := 0
			for block := make([]byte, 64<<10); n < 1<<30; {
				m, err := w.Write(block)
				if n += m; err != nil {
					break
				}
			}
			sent <- n
			return true
		}}
		s := f.open(t)
		for name, call := range calls(t.Context(), s) {
			if name != "now" && name != "selftest" {
				_ = call() // the result does not matter
			}
		}
		for range len(calls(t.Context(), s)) - 2 {
			if status == 200 && len(sent) == 0 {
				break
			}
			if n := <-sent; n > 50<<20 { // more than the buffers between the two can hold
				t.Errorf("%d: the server could send %d bytes", status, n)
			}
		}
	}
}

func TestNoETag(t *testing.T) {
	f := &fake{answer: func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("Last-Modified", "Sat, 21 Nov 2026 12:00:00 GMT")
		return true
	}}
	wantUnknown(t, f.open(t))
}

// TestHang checks that a call returns when its context is done, whatever the server does.
func TestHang(t *testing.T) {
	hung := make(chan struct{})
	f := &fake{answer: func(w http.ResponseWriter, r *http.Request) bool {
		select {
		case <-r.Context().Done():
		case <-hung:
		}
		return true
	}}
	s := f.open(t)
	t.Cleanup(func() { close(hung) })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	for name, call := range calls(ctx, s) {
		if name == "selftest" {
			continue // it continues with its cleanup
		}
		if err := call(); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestReadStall checks that a read fails if no byte arrives for readStall, but not if the whole
// read takes longer while bytes keep arriving. The answer for a cell may begin later: a store that
// takes 6.5 s for each cell still counts. (Otherwise an attacker's copy could outvote it.)
func TestReadStall(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes thirteen seconds")
	}
	for _, c := range []struct {
		key    string
		pieces int // how many of four pieces are sent, with a pause after each; -1: not even headers
		fails  bool
		begins time.Duration
	}{{"silent", -1, true, 0}, {"cut", 2, true, 0}, {"slow", 4, false, 0},
		{"keys", 4, false, 6500 * time.Millisecond}} {
		t.Run(c.key, func(t *testing.T) {
			t.Parallel()
			ended := make(chan struct{})
			f := &fake{answer: func(w http.ResponseWriter, r *http.Request) bool {
				time.Sleep(c.begins)
				if c.pieces >= 0 {
					w.Header().Set("Content-Length", "4")
					w.Header().Set("ETag", `"tag"`)
					w.Header().Set("Last-Modified", time.Now().UTC().Format(http.TimeFormat))
				}
				for range c.pieces {
					_, _ = w.Write([]byte("x")) // the client went away
					w.(http.Flusher).Flush()
					time.Sleep(1500 * time.Millisecond)
				}
				if c.fails {
					<-ended
				}
				return true
			}}
			s := f.open(t)
			t.Cleanup(func() { close(ended) })
			began := time.Now()
			b, _, err := s.Get(t.Context(), artifacts.MustKey(c.key), 4)
			switch took := time.Since(began); {
			case !c.fails && (err != nil || string(b) != "xxxx"):
				t.Errorf("%q, %v", b, err)
			case c.fails && (!errors.Is(err, context.DeadlineExceeded) || took > 10*time.Second):
				t.Errorf("%v after %v", err, took)
			}
		})
	}
}

// TestList checks that objects that no store can have written are not listed.
func TestList(t *testing.T) {
	f := &fake{}
	s := f.open(t)
	for _, key := range []string{"p/a", "p/", "p/folder/", "p/.hidden", "px", "q"} {
		f.objects[key] = nil
	}
	var got []string
	must.OK(t, s.List(
		t.Context(), "", func(i artifacts.Info) error { got = append(got, i.Key.String()); return nil }))
	if fmt.Sprint(got) != "[a]" {
		t.Errorf("List gives %q", got)
	}
}

// TestRole checks that a role's credentials are used if the environment has none.
func TestRole(t *testing.T) {
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN",
		"AWS_SHARED_CREDENTIALS_FILE", "AWS_WEB_IDENTITY_TOKEN_FILE",
		"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"} {
		t.Setenv(name, "")
	}
	given := true
	role := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !given {
			http.Error(w, "no role", http.StatusForbidden)
			return
		}
		fmt.Fprint(w, `{"AccessKeyId":"role-id","SecretAccessKey":"role-secret","Token":"role-token","Expiration":"2999-01-01T00:00:00Z"}`)
	}))
	t.Cleanup(role.Close)
	t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", role.URL)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)

	var seen http.Header
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = r.Header
		fail(w, http.StatusNotFound, "NoSuchKey")
	}))
	t.Cleanup(server.Close)
	get := func() error {
		s := open(t, "s3://bucket?endpoint="+server.URL, s3store.Options{})
		_, _, err := s.Get(t.Context(), artifacts.CurrentKey, 10)
		return err
	}
	if err := get(); !errors.Is(err, artifacts.ErrNotFound) {
		t.Fatal(err)
	}
	if !strings.Contains(seen.Get("Authorization"), "Credential=role-id/") ||
		seen.Get("X-Amz-Security-Token") != "role-token" {
		t.Errorf("not signed with the role's credentials: %v", seen)
	}

	given, seen = false, nil
	if err := get(); err == nil ||
		!strings.Contains(err.Error(), "neither AWS_ACCESS_KEY_ID nor AWS_SHARED_CREDENTIALS_FILE is set") {
		t.Errorf("without credentials: %v", err)
	}
	if seen != nil {
		t.Error("a request was sent without a signature")
	}

	t.Setenv("AWS_ACCESS_KEY_ID", "env-id")
	if _, err := s3store.Open("s3://bucket", s3store.Options{}); err == nil ||
		!strings.Contains(err.Error(), "AWS_SECRET_ACCESS_KEY is not") {
		t.Errorf("with half of the credentials: %v", err)
	}
	t.Setenv("AWS_SECRET_ACCESS_KEY", "env-secret")
	t.Setenv("AWS_SESSION_TOKEN", "env-token")
	if err := get(); !errors.Is(err, artifacts.ErrNotFound) {
		t.Fatal(err)
	}
	if !strings.Contains(seen.Get("Authorization"), "Credential=env-id/") ||
		seen.Get("X-Amz-Security-Token") != "env-token" {
		t.Errorf("not signed with the environment's credentials: %v", seen)
	}
}

// TestLongErrors checks that text from the server in an error is truncated to 200 bytes.
func TestLongErrors(t *testing.T) {
	long := strings.Repeat("x", 200_000)
	for name, answer := range map[string]func(http.ResponseWriter){
		"message": func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprintf(w, "<Error><Code>AccessDenied</Code><Message>%s</Message></Error>", long)
		},
		"code": func(w http.ResponseWriter) { fail(w, http.StatusForbidden, long) },
		"no HTTP": func(w http.ResponseWriter) {
			c, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			fmt.Fprintf(c, "%s\r\n\r\n", long) // the client went away
		},
	} {
		f := &fake{answer: func(w http.ResponseWriter, _ *http.Request) bool { answer(w); return true }}
		_, _, err := f.open(t).Get(context.Background(), artifacts.CurrentKey, 100)
		if err == nil || len(err.Error()) > 600 {
			t.Errorf("%s: an error of %d bytes", name, len(fmt.Sprint(err)))
		}
	}
}

func TestStoreMinIO(t *testing.T)     { testStore(t, testserver.MinIO) }
func TestStoreVersitygw(t *testing.T) { testStore(t, testserver.Versitygw) }

// testStore gives each subtest its own prefix.
func testStore(t *testing.T, start func(testing.TB) *testserver.Server) {
	t.Parallel()
	server := start(t)
	n := 0
	storetest.TestStore(t, func(t *testing.T) artifacts.Store {
		n++
		return open(t, server.URL(fmt.Sprintf("store/%d", n)), server.Options())
	})
}

// TestStoreGiven tests any server in an existing bucket. MARKETDATA_TEST_STORE has the store's
// address, and the credentials come from the same sources as for the programs (deploy/README.md,
// "S3 servers").
func TestStoreGiven(t *testing.T) {
	address := os.Getenv("MARKETDATA_TEST_STORE")
	if address == "" {
		t.Skip("MARKETDATA_TEST_STORE names no store")
	}
	n := 0
	storetest.TestStore(t, func(t *testing.T) artifacts.Store {
		n++
		return open(t, strings.Replace(address, "?", fmt.Sprintf("/%s-%d?", rand.Text(), n), 1), s3store.Options{})
	})
}

func open(t *testing.T, url string, o s3store.Options) *s3store.Store {
	t.Helper()
	s := must.Get(s3store.Open(url, o))(t)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}
