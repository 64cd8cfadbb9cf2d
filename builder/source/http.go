package source

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/internal/durable"
	"example.com/marketdata/internal/redact"
	"example.com/marketdata/internal/secret"
)

// Limits for reading a feed over HTTP.
const (
	// httpTime limits the total duration of all requests for a feed.
	httpTime = 5 * time.Minute
	// httpWait limits the wait for a response's header.
	httpWait = 30 * time.Second
	// maxHTTPFile is the maximum size of a decompressed file, in bytes. It suffices for a few
	// million assets.
	maxHTTPFile  = 1 << 30
	maxRedirects = 3
)

// authorizationEnv names the environment variable that contains the value of the Authorization
// header. The value is not part of the URL, which others could see.
const authorizationEnv = "FEED_AUTHORIZATION"

// httpFeed is the source feed+https://HOST/PATH, which fetches a feed's files with GET.
type httpFeed struct {
	base          *url.URL // without a query
	insecure      bool     // allow http to other machines
	authorization string
	client        *http.Client
	cache         string               // a folder, or "" to keep the last files in memory only
	last          map[string]*httpFile // by name
}

// httpFile is a fetched file with its ETag.
type httpFile struct {
	URL    string           `json:"url"`
	ETag   string           `json:"etag"`
	SHA256 artifacts.Digest `json:"sha256"`
	body   []byte
}

// openHTTP returns an Opener for feed+https://HOST/PATH?cache=DIR. The Opener accepts feed+http://…
// only for this machine, or for other machines with insecure=on.
func openHTTP(scheme string) Opener {
	return func(_ context.Context, rest string) (Source, error) {
		f := &httpFeed{last: map[string]*httpFile{}, authorization: secret.Env(authorizationEnv)}
		u, err := url.Parse(scheme + ":" + rest)
		if err != nil || u.Host == "" || u.Fragment != "" {
			return nil, errors.New("not a URL; want feed+https://HOST/PATH?cache=DIR")
		}
		if u.User != nil {
			return nil, fmt.Errorf("a user or a password in the URL would be seen in logs; set %s to the value of "+
				"the header Authorization", authorizationEnv)
		}
		query, err := url.ParseQuery(u.RawQuery)
		for name, values := range query {
			switch value := values[0]; {
			case len(values) > 1 || value == "":
				err = fmt.Errorf("%.40q: want one value", name)
			case name == "cache":
				f.cache = value
			case name == "insecure" && value == "on":
				f.insecure = true
			default:
				err = fmt.Errorf("%.40q is unknown", name)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("query: %w; want cache=DIR, insecure=on, both optional", err)
		}
		u.RawQuery = ""
		f.base = u
		if err := f.allowed(u); err != nil {
			return nil, err
		}
		if f.cache != "" {
			if err := durable.MkdirAll(f.cache, 0o777); err != nil {
				return nil, fmt.Errorf("cache: %w", err)
			}
		}
		f.client = &http.Client{Transport: Transport(), CheckRedirect: func(req *http.Request,
			via []*http.Request) error {
			if len(via) > maxRedirects || req.URL.Scheme != f.base.Scheme {
				return errors.New("redirected to another scheme, or too often")
			}
			return f.allowed(req.URL)
		}}
		return f, nil
	}
}

// Transport returns a transport for live sources. It limits both the wait for a response header and
// the header's length.
func Transport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.ResponseHeaderTimeout, t.MaxResponseHeaderBytes = httpWait, 64<<10
	return t
}

// ThisMachine reports whether requests to u stay on this machine.
func ThisMachine(u *url.URL) bool {
	ip, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && ip.IsLoopback()
}

func (f *httpFeed) allowed(u *url.URL) error {
	if u.Scheme == "https" || f.insecure || ThisMachine(u) {
		return nil
	}
	return fmt.Errorf("http to %s, which is not this machine, can be read and changed on the way: want feed+https, "+
		"or add insecure=on", u.Host)
}

func (f *httpFeed) String() string { return "feed+" + f.base.String() }

// Files fetches the feed. It fetches feed.json before and after the other files. If feed.json is
// unchanged, the files belong together.
func (f *httpFeed) Files(ctx context.Context, _ time.Time) (Files, error) {
	ctx, cancel := context.WithTimeout(ctx, httpTime)
	defer cancel()
	files := Memory{}
	get := func(name string, limit int64) error {
		b, err := f.get(ctx, name, limit)
		if errors.Is(err, fs.ErrNotExist) {
			delete(files, name)
			return nil
		}
		files[name] = b
		return err
	}
	if err := get(InfoFile, MaxLine); err != nil {
		return nil, err
	}
	before := files[InfoFile]
	if before == nil {
		return nil, fmt.Errorf("%s has no %s", f, InfoFile)
	}
	for _, name := range rowFiles {
		if err := get(name, maxHTTPFile); err != nil {
			return nil, err
		}
	}
	if err := get(InfoFile, MaxLine); err != nil {
		return nil, err
	}
	if !bytes.Equal(before, files[InfoFile]) {
		return nil, fmt.Errorf("%s: %w", f, ErrReplaced)
	}
	return files, nil
}

// get returns a file, or fs.ErrNotExist if the file does not exist.
func (f *httpFeed) get(ctx context.Context, name string, limit int64) ([]byte, error) {
	at := f.base.JoinPath(name).String()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, err
	}
	if f.authorization != "" {
		req.Header.Set("Authorization", f.authorization)
	}
	last := f.load(name, at)
	if last != nil {
		req.Header.Set("If-None-Match", last.ETag)
	}
	res, err := f.client.Do(req)
	if err != nil {
		return nil, redact.Error(err, f.authorization)
	}
	defer res.Body.Close()
	switch {
	case res.StatusCode == http.StatusNotFound || res.StatusCode == http.StatusGone:
		return nil, fmt.Errorf("%s: %w", at, fs.ErrNotExist)
	case res.StatusCode == http.StatusNotModified && last != nil:
		return last.body, nil
	case res.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s: status %d", at, res.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, limit+1))
	if err == nil && int64(len(body)) > limit {
		err = fmt.Errorf("more than %d bytes", limit)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", at, err)
	}
	if etag := res.Header.Get("ETag"); etag != "" {
		f.save(name, &httpFile{at, etag, sha256.Sum256(body), body})
	}
	return body, nil
}

// load returns a cached file, or nil if it does not exist or is damaged.
func (f *httpFeed) load(name, at string) *httpFile {
	if f.cache == "" {
		return f.last[name]
	}
	b, err := os.ReadFile(filepath.Join(f.cache, name))
	head, body, found := bytes.Cut(b, []byte("\n"))
	kept := &httpFile{body: body}
	if err != nil || !found || json.Unmarshal(head, kept) != nil || kept.URL != at ||
		kept.SHA256 != sha256.Sum256(body) {
		return nil
	}
	return kept
}

// save caches a file as an identifying line followed by the file's contents. If saving fails, the
// file is fetched again next time.
func (f *httpFeed) save(name string, file *httpFile) {
	if f.cache == "" {
		f.last[name] = file
		return
	}
	if head, err := json.Marshal(file); err == nil {
		_ = durable.ReplaceFile(filepath.Join(f.cache, name),
			io.MultiReader(bytes.NewReader(head), strings.NewReader("\n"), bytes.NewReader(file.body)), 0o644)
	}
}
