package traffic

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"net/textproto"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"example.com/marketdata/loadtest/check"
	"example.com/marketdata/loadtest/client"
	"example.com/marketdata/loadtest/engine"
)

// Target is a request from a targets file.
type Target struct {
	Method string
	// Base is the scheme and host if the target is an absolute URL, or "" if it is a path.
	Base   string
	Path   string // including the query
	Header []string
	Body   []byte
}

// Limits of a targets file.
const (
	maxTargets    = 1 << 20
	maxTargetBody = 16 << 20
)

// ParseTargets parses requests in vegeta's format. A request is a line METHOD URL, followed by header fields,
// one per line, and by @FILE if it has a body. Blank lines and lines that begin with # are ignored. A URL may
// be just a path. Relative names of body files are resolved in dir.
func ParseTargets(r io.Reader, dir string) ([]Target, error) {
	var all []Target
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		fail := func(why string) error { return fmt.Errorf("targets, line %d, %.80q: %s", n, line, why) }
		switch method, rest, _ := strings.Cut(line, " "); {
		case line == "" || line[0] == '#':
		case strings.ContainsFunc(line, unicode.IsControl):
			return nil, fail("a control character")
		case strings.HasPrefix(line, "http://"), strings.HasPrefix(line, "https://"):
			return nil, fail("want the method before a request's URL, such as GET; a service's address goes to --url")
		case line[0] == '@':
			if len(all) == 0 {
				return nil, fail("a body before the first request")
			}
			body, err := readBody(dir, line[1:])
			if err != nil {
				return nil, fail(err.Error())
			}
			all[len(all)-1].Body = body
		case method != "" && strings.Trim(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == "" && rest != "":
			if len(all) == maxTargets {
				return nil, fail(fmt.Sprintf("more than %d requests", maxTargets))
			}
			t, err := parseTarget(method, strings.TrimSpace(rest))
			if err != nil {
				return nil, fail(err.Error())
			}
			all = append(all, t)
		default:
			name, value, ok := strings.Cut(line, ":")
			if !ok || name == "" || strings.ContainsAny(name, " \t") {
				return nil, fail("want METHOD URL, Name: value, @FILE or # comment")
			}
			if len(all) == 0 {
				return nil, fail("a header field before the first request")
			}
			t := &all[len(all)-1]
			t.Header = append(t.Header, name+": "+strings.TrimSpace(value))
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("targets: %w", err)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("targets: no request")
	}
	return all, nil
}

func parseTarget(method, raw string) (Target, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return Target{}, fmt.Errorf("URL: %w", err)
	}
	// The path and query are sent exactly as written.
	t := Target{Method: method, Path: raw}
	if u.Host != "" {
		t.Base = u.Scheme + "://" + u.Host
		_, rest, _ := strings.Cut(raw, "://")
		if i := strings.IndexAny(rest, "/?#"); i < 0 {
			t.Path = "/"
		} else {
			t.Path = rest[i:]
		}
	}
	t.Path, _, _ = strings.Cut(t.Path, "#")
	if strings.HasPrefix(t.Path, "?") {
		t.Path = "/" + t.Path
	}
	if !strings.HasPrefix(t.Path, "/") || strings.ContainsAny(t.Path, " \t") {
		return Target{}, fmt.Errorf("want a URL or a path")
	}
	return t, nil
}

func readBody(dir, name string) ([]byte, error) {
	if !filepath.IsAbs(name) {
		name = filepath.Join(dir, name)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxTargetBody+1))
	if err == nil && len(b) > maxTargetBody {
		err = fmt.Errorf("body over %d bytes", maxTargetBody)
	}
	return b, err
}

// Targets is traffic that cycles through a list of requests. It implements engine.Source.
type Targets struct {
	targets []prepared
	keys    []string
	checker *check.Checker
	classes []string
}

// prepared contains the bytes of a target's request, except for the parts that depend on the endpoint or the
// key.
type prepared struct {
	method, path []byte // path ends with the HTTP version
	fields       []byte // header fields
	end          []byte // the empty line and the body
	host, key    bool   // whether the header fields contain a Host or an X-Api-Key
	ask          check.Ask
	class        int
}

func prepare(t *Target, class int) prepared {
	p := prepared{method: []byte(t.Method + " "), path: []byte(t.Path + " HTTP/1.1\r\n"), class: class}
	p.ask.Head = t.Method == "HEAD"
	if t.Method == "GET" || p.ask.Head { // the correct answers to other methods are unknown
		p.ask.Target = []byte(t.Path)
	}
	agent := false
	for _, h := range t.Header {
		p.fields = append(append(p.fields, h...), "\r\n"...)
		name, value, _ := strings.Cut(h, ": ")
		switch strings.ToLower(name) {
		case "host":
			p.host = true
		case "x-api-key":
			p.key = true
		case "user-agent":
			agent = true
		case "accept-encoding":
			p.ask.Accept = []byte(value)
		case "if-none-match":
			p.ask.Tag = []byte(value)
		case "x-snapshot-time":
			p.ask.Pin = []byte(value)
		case "x-request-id":
			p.ask.ID = []byte(value)
		}
	}
	if !agent {
		p.fields = append(p.fields, "User-Agent: loadtest\r\n"...)
	}
	if t.Body != nil {
		p.fields = fmt.Appendf(p.fields, "Content-Length: %d\r\n", len(t.Body))
	}
	p.end = append([]byte("\r\n"), t.Body...)
	return p
}

// AddHeader adds the header fields that the target does not have already. fields maps canonical names to
// header lines of the form "Name: value".
func (t *Target) AddHeader(fields map[string]string) {
	missing := maps.Clone(fields)
	for _, h := range t.Header {
		name, _, _ := strings.Cut(h, ":")
		delete(missing, textproto.CanonicalMIMEHeaderKey(name))
	}
	for _, name := range slices.Sorted(maps.Keys(missing)) {
		t.Header = append(t.Header, missing[name])
	}
}

// maxClasses bounds the number of classes. If there are more paths, the last class contains the requests for
// the remaining ones.
const maxClasses = 16

// NewTargets returns traffic that sends the targets in turn. Targets without an API key use the keys in turn.
func NewTargets(targets []Target, keys []string, c *check.Checker) *Targets {
	t := &Targets{keys: keys, checker: c}
	index := map[string]int{}
	for k := range targets {
		target := &targets[k]
		name, _, _ := strings.Cut(target.Path, "?")
		if target.Method != "GET" {
			name = target.Method + " " + name
		}
		if _, ok := index[name]; !ok && len(t.classes) >= maxClasses-1 {
			name = "others"
		}
		i, ok := index[name]
		if !ok {
			i = len(t.classes)
			t.classes = append(t.classes, name)
			index[name] = i
		}
		t.targets = append(t.targets, prepare(target, i))
	}
	return t
}

// Classes implements engine.Source.
func (t *Targets) Classes() []string { return t.classes }

// Session implements engine.Source.
func (t *Targets) Session() engine.Session { return &targetSession{t: t, check: t.checker.Session()} }

type targetSession struct {
	t     *Targets
	check *check.Session
	req   engine.Request
	ask   *check.Ask
}

// Request implements engine.Session.
func (s *targetSession) Request(i uint64, e *client.Endpoint) *engine.Request {
	p := &s.t.targets[i%uint64(len(s.t.targets))]
	s.ask, s.req.Class, s.req.Head = &p.ask, p.class, p.ask.Head
	b := append(append(append(s.req.Bytes[:0], p.method...), e.Prefix...), p.path...)
	if !p.host {
		b = header(b, "Host: ", e.Host)
	}
	b = append(b, p.fields...)
	if !p.key && len(s.t.keys) > 0 {
		b = header(b, "X-Api-Key: ", s.t.keys[i%uint64(len(s.t.keys))])
	}
	s.req.Bytes = append(b, p.end...)
	return &s.req
}

// Answer implements engine.Session.
func (s *targetSession) Answer(resp *client.Response) engine.Verdict {
	return s.check.Answer(s.ask, resp)
}

// Base returns the base URL that the targets share, or "" if none has one. It returns an error if their base
// URLs differ.
func Base(targets []Target) (string, error) {
	base := ""
	for _, t := range targets {
		if t.Base != "" && base != "" && t.Base != base {
			return "", fmt.Errorf("targets of %s and of %s: give --url to say where they go", base, t.Base)
		}
		if t.Base != "" {
			base = t.Base
		}
	}
	return base, nil
}
