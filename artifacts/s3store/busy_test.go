package s3store_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/retry"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/network"
	"example.com/marketdata/internal/test/testserver"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// behind opens a store on a real server through a proxy that can replace answers with errors.
func behind(t *testing.T, server *testserver.Server, prefix string, spoil func(http.ResponseWriter, *http.Request) bool,
) artifacts.Store {
	t.Helper()
	front := httptest.NewServer(must.Get(network.Front(server.Endpoint, spoil))(t))
	t.Cleanup(front.Close)
	t.Cleanup(http.DefaultTransport.(*http.Transport).CloseIdleConnections) // those to the proxy
	return retry.New(open(t, strings.Replace(server.URL(prefix), server.Endpoint, front.URL, 1), server.Options()),
		retry.Options{Wait: time.Millisecond, MaxWait: 10 * time.Millisecond})
}

// TestBusy checks that the self-test and the first write of a cell succeed on servers that are busy
// in the ways that users of other programs reported.
func TestBusy(t *testing.T) {
	if testing.Short() {
		t.Skip("its stores want pauses of twenty seconds")
	}
	t.Parallel()
	for _, start := range []func(testing.TB) *testserver.Server{testserver.MinIO, testserver.Versitygw} {
		server := start(t)
		for name, spoil := range map[string]func() func(http.ResponseWriter, *http.Request) bool{
			// treg 456: R2 accepts one write of a key at a time and answers concurrent ones with
			// 429.
			"one write of a key at a time": oneWrite,
			"no racer may write": func() func(http.ResponseWriter, *http.Request) bool {
				var racers atomic.Int32
				return func(w http.ResponseWriter, r *http.Request) bool {
					refused := r.Method == http.MethodPut && r.ContentLength == int64(len("racer 1")) &&
						racers.Add(1) <= 8
					if refused {
						fail(w, http.StatusTooManyRequests, "TooManyRequests")
					}
					return refused
				}
			},
			// attic 260: one request in five, of any kind.
			"a fifth is SlowDown": func() func(http.ResponseWriter, *http.Request) bool {
				var mu sync.Mutex
				dice := rand.New(rand.NewPCG(38, 17))
				return func(w http.ResponseWriter, r *http.Request) bool {
					mu.Lock()
					defer mu.Unlock()
					if dice.IntN(5) > 0 {
						return false
					}
					fail(w, http.StatusServiceUnavailable, "SlowDown")
					return true
				}
			},
			// opendal 6741; Amazon's error list: "retry the request".
			"the first write of a key is a 409":          first(http.StatusConflict, "ConditionalRequestConflict"),
			"the first write of a key is a 429":          first(http.StatusTooManyRequests, "SlowDown"),
			"the first write of a key, OperationAborted": first(http.StatusConflict, "OperationAborted"),
		} {
			t.Run(server.Kind.String()+", "+name, func(t *testing.T) {
				s := behind(t, server, strings.ReplaceAll(strings.ReplaceAll(name, " ", "-"), ",", ""), spoil())
				for range 2 {
					if err := s.SelfTest(t.Context()); err != nil {
						t.Error(err)
					}
				}
				v, err := s.Swap(t.Context(), artifacts.IdentityKey, "", []byte("one"))
				if err == nil {
					_, err = s.Swap(t.Context(), artifacts.IdentityKey, v, []byte("two"))
				}
				if err != nil {
					t.Error(err)
				}
				_, err = s.Swap(t.Context(), artifacts.IdentityKey, v, nil)
				if !errors.Is(err, artifacts.ErrConflict) {
					t.Errorf("a swap that has lost: %v", err)
				}
			})
		}
	}
}

// oneWrite refuses a write of a key while another write of the same key is in progress.
func oneWrite() func(http.ResponseWriter, *http.Request) bool {
	var mu sync.Mutex
	writing := map[string]bool{}
	return func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPut {
			return false
		}
		mu.Lock()
		defer mu.Unlock()
		if writing[r.URL.Path] {
			fail(w, http.StatusTooManyRequests, "TooManyRequests")
			return true
		}
		writing[r.URL.Path] = true
		time.AfterFunc(20*time.Millisecond, func() { // when the write ends
			mu.Lock()
			defer mu.Unlock()
			delete(writing, r.URL.Path)
		})
		return false
	}
}

// first refuses the first write of each key.
func first(status int, code string) func() func(http.ResponseWriter, *http.Request) bool {
	return func() func(http.ResponseWriter, *http.Request) bool {
		var mu sync.Mutex
		seen := map[string]bool{}
		return func(w http.ResponseWriter, r *http.Request) bool {
			mu.Lock()
			defer mu.Unlock()
			if r.Method != http.MethodPut || seen[r.URL.Path] || strings.Contains(r.URL.Path, "/clock-") { // random
				return false
			}
			seen[r.URL.Path] = true
			fail(w, status, code)
			return true
		}
	}
}

// TestConflictForEver checks that a write that the store refuses as a conflict each time returns
// ErrConflict.
func TestConflictForEver(t *testing.T) {
	f := &fake{answer: func(w http.ResponseWriter, r *http.Request) bool {
		fail(w, http.StatusConflict, "ConditionalRequestConflict")
		return true
	}}
	s := retry.New(f.open(t), retry.Options{Tries: 4, Wait: 1, MaxWait: 1})
	_, err := s.Swap(t.Context(), artifacts.IdentityKey, "", []byte("x"))
	if n := len(f.seen()); n != 4 || !errors.Is(err, artifacts.ErrConflict) {
		t.Errorf("after %d requests %v", n, err)
	}
}

// TestRetryAfter checks both forms of the header: seconds and a date (RFC 9110, 10.2.3).
func TestRetryAfter(t *testing.T) {
	for value, want := range map[string]time.Duration{
		"7": 7 * time.Second, "0": 0, "": 0, "-5": 0, "soon": 0, "99999999999999999999": 0,
		time.Now().Add(40 * time.Second).UTC().Format(http.TimeFormat): 40 * time.Second,
	} {
		f := &fake{answer: func(w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("Retry-After", value)
			fail(w, http.StatusServiceUnavailable, "SlowDown")
			return true
		}}
		_, _, err := f.open(t).Get(t.Context(), artifacts.CurrentKey, 10)
		var busy *artifacts.BusyError
		if !errors.As(err, &busy) || busy.After > want || busy.After < want-5*time.Second {
			t.Errorf("%q: %+v", value, busy)
		}
	}
}

// TestUnfit checks that a server that cannot hold a store causes one error with advice, without
// retries.
func TestUnfit(t *testing.T) {
	notImplemented := func(method, header string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			refused := r.Method == method && r.Header.Get(header) != ""
			if refused {
				fail(w, http.StatusNotImplemented, "NotImplemented")
			}
			return refused
		}
	}
	for name, c := range map[string]struct {
		answer func(http.ResponseWriter, *http.Request) bool
		want   string
	}{
		// obsidian-s3-sync 78: "A header you provided implies functionality that is not implemented".
		"create":  {notImplemented(http.MethodPut, "If-None-Match"), "needs If-None-Match: * and If-Match in writes"},
		"match":   {notImplemented(http.MethodPut, "If-Match"), "needs If-None-Match: * and If-Match in writes"},
		"changed": {notImplemented(http.MethodGet, "If-None-Match"), "If-None-Match in reads"},
		// terraform-provider-aws 14544, and Amazon's error list.
		"region": {func(w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, "<Error><Code>AuthorizationHeaderMalformed</Code><Message>expecting</Message><Region>eu-west-3</Region></Error>")
			return true
		}, `bucket "bucket" is in eu-west-3: name it in the address (region=) or in AWS_REGION`},
		"redirect": {func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("X-Amz-Bucket-Region", "ap-south-1")
			fail(w, http.StatusMovedPermanently, "PermanentRedirect")
			return true
		}, `bucket "bucket" is in ap-south-1: name it`},
		"illegal": {func(w http.ResponseWriter, _ *http.Request) bool {
			fail(w, http.StatusBadRequest, "IllegalLocationConstraintException")
			return true
		}, `bucket "bucket" is in another region: name it`},
		// ListObjectsV2 returns LastModified for each object; gc needs it.
		"no LastModified": {func(w http.ResponseWriter, r *http.Request) bool {
			prefix := r.URL.Query().Get("prefix")
			if prefix != "" {
				fmt.Fprintf(w, "<ListBucketResult><Contents><Key>%s</Key><Size>3</Size></Contents></ListBucketResult>", prefix)
			}
			return prefix != ""
		}, "do not say when an object was written"},
		"no list": {func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Query().Get("prefix") == "" {
				return false
			}
			fmt.Fprint(w, "<ListBucketResult></ListBucketResult>")
			return true
		}, "after a write of three bytes"},
		"denied": {func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodDelete {
				fail(w, http.StatusForbidden, "AccessDenied")
			}
			return r.Method == http.MethodDelete
		}, "lacks the permission s3:DeleteObject in bucket"},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fake{answer: c.answer}
			err := retry.New(f.open(t), retry.Options{Tries: 5, Wait: 1, MaxWait: 1}).SelfTest(t.Context())
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			puts := 0
			for _, r := range f.seen() {
				if strings.HasPrefix(r, "PUT ") && strings.HasSuffix(r, "-put") {
					puts++
				}
			}
			if puts > 4 { // new bytes, the same bytes, and other bytes
				t.Errorf("the self-test was repeated: %d writes", puts)
			}
		})
	}
}

// TestWrongRegion checks the error with a real server's answer.
func TestWrongRegion(t *testing.T) {
	t.Parallel()
	server := testserver.MinIO(t)
	address := strings.Replace(server.URL(""), "region="+testserver.Region, "region=eu-central-1", 1)
	_, _, err := open(t, address, server.Options()).Get(t.Context(), artifacts.CurrentKey, 10)
	want := "is in " + testserver.Region + ": name it"
	if !errors.Is(err, artifacts.ErrNoAccess) || !strings.Contains(err.Error(), want) {
		t.Error(err)
	}
}

// TestObjectLock checks that a store works in a bucket with a default retention period
// (docker-volume-backup 727).
func TestObjectLock(t *testing.T) {
	t.Parallel()
	server := testserver.MinIO(t)
	ctx := t.Context()
	admin := must.Get(minio.New(strings.TrimPrefix(server.Endpoint, "http://"), &minio.Options{
		Creds: credentials.NewStaticV4(server.AccessKey, server.SecretKey, "")}))(t)
	const bucket = "locked"
	must.OK(t, admin.MakeBucket(ctx, bucket, minio.MakeBucketOptions{ObjectLocking: true}))
	mode, days, unit := minio.Governance, uint(1), minio.Days
	must.OK(t, admin.SetBucketObjectLockConfig(ctx, bucket, &mode, &days, &unit))
	// MinIO accepts writes without Content-MD5 there; Amazon does not.
	s := behind(t, server, "", func(w http.ResponseWriter, r *http.Request) bool {
		refused := r.Method == http.MethodPut && r.Header.Get("Content-MD5") == ""
		if refused {
			fail(w, http.StatusBadRequest, "InvalidRequest")
		}
		return refused
	})
	locked := strings.Replace(server.URL("live"), testserver.Bucket, bucket, 1)
	for _, s := range []artifacts.Store{s, open(t, locked, server.Options())} {
		must.OK(t, s.SelfTest(ctx))
		v := must.Get(s.Swap(ctx, artifacts.CurrentKey, "", []byte("one")))(t)
		must.Get(s.Swap(ctx, artifacts.CurrentKey, v, []byte("two")))(t)
		must.OK(t, s.Delete(ctx, artifacts.CurrentKey))
		must.Get(s.Swap(ctx, artifacts.CurrentKey, "", []byte("three")))(t)
	}
}
