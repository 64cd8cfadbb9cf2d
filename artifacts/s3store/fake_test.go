package s3store_test

import (
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/marketdata/artifacts/s3store"
)

// fake is an S3 server that, unlike real ones, can be told to break its promises. It implements
// only the requests that the store sends.
type fake struct {
	ignore  map[string]bool // condition headers that the server does not honor
	sameTag bool            // every object has the same ETag
	look    *sync.WaitGroup // all writes check their conditions at the same time, then write one by one
	page    int             // keys in a page of a list; 0: all
	file    bool            // use the credentials file
	// answer, if not nil, may answer a request in place of the server.
	answer func(w http.ResponseWriter, r *http.Request) (done bool)

	mu       sync.Mutex
	objects  map[string][]byte
	requests []string // each is "METHOD path"
	faults   []string // what was wrong with requests
}

func (f *fake) open(t *testing.T) *s3store.Store {
	t.Helper()
	o := s3store.Options{Credentials: &s3store.Credentials{AccessKeyID: "id", SecretAccessKey: "secret"}}
	if f.file {
		o.Credentials = nil
	}
	return open(t, f.address(t), o)
}

// address starts the server and returns the address of a store there.
func (f *fake) address(t *testing.T) string {
	t.Helper()
	f.objects = map[string][]byte{}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	t.Cleanup(func() {
		for _, fault := range f.faults {
			t.Error(fault)
		}
	})
	return "s3://bucket/p?endpoint=" + server.URL
}

// seen returns the requests since the last call of seen.
func (f *fake) seen() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	requests := f.requests
	f.requests = nil
	return requests
}

func (f *fake) etag(b []byte) string {
	if f.sameTag {
		return `"same"`
	}
	return fmt.Sprintf(`"%x"`, md5.Sum(b))
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	key := strings.TrimPrefix(r.URL.Path, "/bucket/")
	f.mu.Lock()
	f.requests = append(f.requests, r.Method+" "+key)
	sum, md := sha256.Sum256(body), md5.Sum(body)
	switch {
	case err != nil:
		f.faults = append(f.faults, err.Error())
	case r.Method == http.MethodPut && r.Header.Get("Content-MD5") != base64.StdEncoding.EncodeToString(md[:]):
		// Amazon S3, PutObject: required if the bucket has a retention period (docker-volume-backup
		// 727).
		f.faults = append(f.faults, fmt.Sprintf("PUT without the Content-MD5 of its %d bytes: %v", len(body), r.Header))
	case r.Method == http.MethodPut && r.Header.Get("X-Amz-Content-Sha256") != hex.EncodeToString(sum[:]),
		r.Header.Get("Content-Encoding") != "", len(r.TransferEncoding) > 0:
		f.faults = append(f.faults, fmt.Sprintf("body not sent whole and signed: %v", r.Header))
	}
	f.mu.Unlock()
	if f.answer != nil && f.answer(w, r) {
		return
	}
	switch r.Method {
	case http.MethodGet:
		f.get(w, r, key)
	case http.MethodPut:
		f.put(w, r, key, body)
	case http.MethodDelete:
		f.mu.Lock()
		delete(f.objects, key)
		f.mu.Unlock()
		w.WriteHeader(http.StatusNoContent)
	default:
		f.mu.Lock()
		f.faults = append(f.faults, "request with "+r.Method)
		f.mu.Unlock()
	}
}

func (f *fake) get(w http.ResponseWriter, r *http.Request, key string) {
	if r.URL.Query().Get("list-type") == "2" {
		f.list(w, r.URL.Query())
		return
	}
	f.mu.Lock()
	b, ok := f.objects[key]
	f.mu.Unlock()
	if !ok {
		fail(w, http.StatusNotFound, "NoSuchKey")
		return
	}
	w.Header().Set("ETag", f.etag(b))
	w.Header().Set("Last-Modified", time.Now().UTC().Format(http.TimeFormat))
	if !f.ignore["GET If-None-Match"] && r.Header.Get("If-None-Match") == f.etag(b) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.Write(b) // the client went away
}

func (f *fake) put(w http.ResponseWriter, r *http.Request, key string, body []byte) {
	f.mu.Lock()
	old, ok := f.objects[key]
	f.mu.Unlock()
	if f.look != nil && strings.HasPrefix(string(body), "racer") {
		f.look.Done()
		f.look.Wait()
	}
	none, match := r.Header.Get("If-None-Match"), r.Header.Get("If-Match")
	switch {
	case none != "" && none != "*", none == "" && match == "":
		f.mu.Lock()
		f.faults = append(f.faults, fmt.Sprintf("write without a condition, or a wrong one: %v", r.Header))
		f.mu.Unlock()
	case none == "*" && ok && !f.ignore["If-None-Match"],
		match != "" && ok && match != f.etag(old) && !f.ignore["If-Match"]:
		fail(w, http.StatusPreconditionFailed, "PreconditionFailed")
		return
	case match != "" && !ok && !f.ignore["If-Match"]:
		fail(w, http.StatusNotFound, "NoSuchKey")
		return
	}
	f.mu.Lock()
	f.objects[key] = body
	f.mu.Unlock()
	w.Header().Set("ETag", f.etag(body))
}

func (f *fake) list(w http.ResponseWriter, q url.Values) {
	type contents struct {
		Key          string
		Size         int
		LastModified time.Time
	}
	var answer struct {
		XMLName               xml.Name `xml:"ListBucketResult"`
		Contents              []contents
		IsTruncated           bool
		NextContinuationToken string
	}
	f.mu.Lock()
	for _, key := range slices.Sorted(maps.Keys(f.objects)) {
		after := max(q.Get("start-after"), q.Get("continuation-token"))
		if !strings.HasPrefix(key, q.Get("prefix")) || key <= after {
			continue
		}
		if answer.IsTruncated = f.page > 0 && len(answer.Contents) == f.page; answer.IsTruncated {
			answer.NextContinuationToken = answer.Contents[f.page-1].Key
			break
		}
		answer.Contents = append(answer.Contents, contents{key, len(f.objects[key]), time.Now().UTC()})
	}
	f.mu.Unlock()
	xml.NewEncoder(w).Encode(answer) // the client went away
}

func fail(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, "<Error><Code>%s</Code><Message>told to</Message></Error>", code)
}
