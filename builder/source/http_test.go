package source

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/internal/test/must"
)

// feedServer serves a feed under /feed/, with ETags, and counts its answers.
type feedServer struct {
	*httptest.Server
	files   map[string]string
	status  map[int]int // number of answers, by status
	handled func(name string)
	answer  func(w http.ResponseWriter, r *http.Request, name string) bool // returns true if it has answered
}

func serveFeed(t *testing.T, tls bool) *feedServer {
	s := &feedServer{files: content(t, FS(testFeed(QuotesFile, `{"key":"a","price":1}`))), status: map[int]int{}}
	s.Server = httptest.NewUnstartedServer(s)
	if tls {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s
}

func (s *feedServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := path.Base(r.URL.Path)
	if s.answer != nil && s.answer(w, r, name) {
		return
	}
	text, ok := s.files[name]
	etag := fmt.Sprintf("%q", fmt.Sprint(len(text), text[:min(len(text), 80)]))
	status := http.StatusOK
	switch {
	case !ok || r.URL.Path != "/feed/"+name:
		status = http.StatusNotFound
	case r.Header.Get("If-None-Match") == etag:
		status = http.StatusNotModified
	}
	s.status[status]++
	if s.handled != nil {
		s.handled(name)
	}
	w.Header().Set("ETag", etag)
	if status != http.StatusOK {
		w.WriteHeader(status)
		return
	}
	var body bytes.Buffer
	z := gzip.NewWriter(&body)
	if _, err := z.Write([]byte(text)); err != nil || z.Close() != nil {
		panic("BUG: gzip")
	}
	w.Header().Set("Content-Encoding", "gzip")
	_, _ = w.Write(body.Bytes())
}

// source opens the server's feed. query includes its question mark.
func (s *feedServer) source(t *testing.T, query string) *httpFeed {
	t.Helper()
	src := must.Get(Open(t.Context(), "feed+"+s.URL+"/feed"+query, nil))(t)
	f := src.(*httpFeed)
	f.client.Transport.(*http.Transport).TLSClientConfig = s.Client().Transport.(*http.Transport).TLSClientConfig
	return f
}

func TestHTTP(t *testing.T) {
	for _, tls := range []bool{false, true} {
		s := serveFeed(t, tls)
		dir := filepath.Join(t.TempDir(), "cache")
		expect := func(src *httpFeed, got, unchanged int) {
			t.Helper()
			clear(s.status)
			files := must.Get(src.Files(t.Context(), time.Time{}))(t)
			if feed, _ := mustRead(t, files, ReadOptions{}); len(feed.Assets) != 3 || len(feed.Quotes) != 1 {
				t.Errorf("%d assets, %d quotes", len(feed.Assets), len(feed.Quotes))
			}
			if s.status[http.StatusOK] != got || s.status[http.StatusNotModified] != unchanged ||
				s.status[http.StatusNotFound] != 4 {
				t.Errorf("answers %v, want %d new and %d unchanged", s.status, got, unchanged)
			}
		}
		src := s.source(t, "?cache="+dir)
		expect(src, 3, 1)                        // feed.json is unchanged the second time
		expect(src, 0, 4)                        // all files are cached
		expect(s.source(t, "?cache="+dir), 0, 4) // even after a restart
		kept := filepath.Join(dir, AssetsFile)
		b := must.Get(os.ReadFile(kept))(t)
		ok(t, os.WriteFile(kept, append(b[:len(b)-1], ' '), 0o600))
		expect(src, 1, 3) // the cached file is damaged
		s.files[QuotesFile] = `{"key":"b","price":1}`
		expect(src, 1, 3)
		if !tls { // the certificate of the TLS server is not for localhost
			s.URL = strings.Replace(s.URL, "127.0.0.1", "localhost", 1)
			expect(s.source(t, "?cache="+dir), 3, 1) // the cache belongs to another server
		}
		inMemory := s.source(t, "")
		expect(inMemory, 3, 1)
		expect(inMemory, 0, 4)
	}
}

// TestHTTPReplaced checks that files of two states are never returned together.
func TestHTTPReplaced(t *testing.T) {
	s := serveFeed(t, false)
	moves := 1
	s.handled = func(name string) {
		if name == ChainsFile && moves > 0 {
			moves--
			s.files[AssetsFile] += "\n"
			delete(s.files, QuotesFile)
			s.files[InfoFile] += " "
		}
	}
	use := func() (got map[string]string, err error) {
		err = Use(t.Context(), s.source(t, ""), time.Time{}, func(files Files) error {
			got = content(t, files)
			return nil
		})
		return got, err
	}
	if got, err := use(); err != nil || !maps.Equal(got, s.files) {
		t.Errorf("%q, %v", got, err)
	}
	moves = 1000
	if _, err := use(); !errors.Is(err, ErrReplaced) || moves != 997 {
		t.Errorf("%d moves: %v", 1000-moves, err)
	}
}

func TestHTTPFails(t *testing.T) {
	t.Setenv(authorizationEnv, "Bearer top-secret")
	s := serveFeed(t, false)
	_, port, _ := strings.Cut(s.Listener.Addr().String(), ":")
	elsewhere := "http://localhost:" + port
	for name, test := range map[string]struct {
		file   string
		answer func(w http.ResponseWriter, r *http.Request)
		want   string
	}{
		"no feed.json": {
			InfoFile, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) }, "has no feed.json",
		},
		"no assets": {
			AssetsFile, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(410) }, "assets.ndjson: missing",
		},
		"error": {
			ChainsFile, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) },
			"/feed/chains.ndjson: status 500",
		},
		"304 out of nowhere": {
			AssetsFile, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(304) }, "status 304",
		},
		"too long": {
			InfoFile, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, MaxLine+1)) },
			"more than 1048576 bytes",
		},
		"breaks off": {AssetsFile, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte("{"))
		}, "unexpected EOF"},
		"not gzip": {AssetsFile, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write([]byte("none"))
		}, "assets.ndjson: "},
		"another scheme": {
			AssetsFile,
			func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "https://"+r.Host, http.StatusFound) },
			"redirected to another scheme",
		},
		"another host": {AssetsFile, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://feed.example/", http.StatusFound)
		}, "http to feed.example, which is not this machine"},
		"for ever": {
			AssetsFile,
			func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path, http.StatusFound) },
			"too often",
		},
		"moved": {AssetsFile, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere+"/feed/new.ndjson", http.StatusFound)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s.files["new.ndjson"] = s.files[AssetsFile]
			s.answer = func(w http.ResponseWriter, r *http.Request, file string) bool {
				here := r.Host == s.Listener.Addr().String()
				if here != (r.Header.Get("Authorization") == "Bearer top-secret") {
					t.Errorf("%s: Authorization %q", r.Host, r.Header.Get("Authorization"))
				}
				if file == test.file {
					test.answer(w, r)
				}
				return file == test.file
			}
			files, err := s.source(t, "").Files(t.Context(), time.Time{})
			if err == nil {
				_, _, err = Read(t.Context(), files, ReadOptions{})
			}
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %s", err, test.want)
			}
		})
	}
}

func TestOpenHTTP(t *testing.T) {
	for spec, want := range map[string]string{
		"feed+https://h.example/feed?cache=" + t.TempDir(): "",
		"feed+http://h.example/feed?insecure=on":           "",
		"feed+http://[::1]:1/feed":                         "",
		"feed+http://h.example/feed":                       "want feed+https, or add insecure=on",
		"feed+https:feed":                                  "want feed+https://HOST/PATH?cache=DIR",
		"feed+https://h.example/feed#x":                    "not a URL",
		"feed+https://u:secret@h.example/feed":             "set FEED_AUTHORIZATION",
		"feed+https://h.example/feed?token=secret":         `"token" is unknown; want cache=DIR, insecure=on`,
		"feed+https://h.example/feed?insecure=yes":         "want cache=DIR",
		"feed+https://h.example/feed?cache=a&cache=b":      "want one value",
		"feed+https://h.example/feed?cache=http_test.go":   "cache: ",
	} {
		src, err := Open(t.Context(), spec, nil)
		if (err == nil) != (want == "") ||
			err != nil && (!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret")) {
			t.Errorf("%s: %v, want %s", spec, err, want)
		}
		if name, _, _ := strings.Cut(spec, "?"); err == nil && src.String() != name {
			t.Errorf("%s is named %s", spec, src)
		}
	}
}
