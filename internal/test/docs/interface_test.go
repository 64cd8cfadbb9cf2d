package docs

import (
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/keys"
	"example.com/marketdata/builder/source"
	"example.com/marketdata/edge/query"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/testedge"
	"example.com/marketdata/internal/test/teststore"
)

const interfaceDocument = "edge/INTERFACE.md"

// exchange is an example: a request, and the shown part of its answer.
type exchange struct {
	line           int
	method, target string
	sent           http.Header
	status         int
	received       [][2]string // header lines; "(none)" for one that is absent
	body           string      // "" if it is not shown
}

// exchanges reads the examples in a block. Lines that begin with "> " belong to the request, and
// lines that begin with "< " to the answer. The first line of each is the request line or the
// status.
func exchanges(t *testing.T, b block) (list []exchange) {
	t.Helper()
	var e *exchange
	for i, line := range strings.Split(strings.TrimSpace(b.text), "\n") {
		request, isRequest := strings.CutPrefix(line, "> ")
		answer, isAnswer := strings.CutPrefix(line, "< ")
		switch {
		case line == "":
			e = nil
		case isRequest && e == nil:
			list = append(list, exchange{line: b.line + i + 1, sent: http.Header{}})
			e = &list[len(list)-1]
			e.method, e.target, _ = strings.Cut(request, " ")
		case isRequest && e.status == 0:
			name, value, _ := strings.Cut(request, ": ")
			e.sent.Add(name, value)
		case isAnswer && e != nil && e.status == 0:
			e.status, _ = strconv.Atoi(answer)
		case isAnswer && e != nil && strings.HasPrefix(answer, "{"):
			e.body = answer
		case isAnswer && e != nil:
			name, value, _ := strings.Cut(answer, ": ")
			e.received = append(e.received, [2]string{name, value})
		default:
			t.Fatalf("%s:%d: %q is no part of an example", interfaceDocument, b.line+i+1, line)
		}
	}
	return list
}

// fits reports whether got matches the document's text, in which … stands for any text.
func fits(shown, got string) bool {
	parts := strings.Split(shown, "…")
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	return regexp.MustCompile(`^` + strings.Join(parts, `.*`) + `$`).MatchString(got)
}

// folder is a feed that never changes.
type folder struct{ fstest.MapFS }

// Files implements teststore.Content.
func (f folder) Files(time.Time) source.Memory {
	files := source.Memory{}
	for name, file := range f.MapFS {
		files[name] = file.Data
	}
	return files
}

// TestInterface builds the example feed of FEED.md and sends an edge all requests that INTERFACE.md
// shows, each with its own key.
func TestInterface(t *testing.T) {
	var examples []exchange
	for _, b := range read(t, interfaceDocument).blocksOf(t, "http") {
		examples = append(examples, exchanges(t, b)...)
	}
	store := memstore.New()
	feed := exampleFeed(t)
	_, at, err := source.ReadInfo(t.Context(), source.FS(feed))
	must.OK(t, err)
	teststore.Publish(t, store, folder{feed}, at.Truncate(artifacts.Step))
	made := make([]string, len(examples)+1)
	for i := range made {
		made[i] = teststore.Key(t, store, keys.DefaultRate, keys.DefaultBurst).Key
	}
	ask := serve(t, store)
	for deadline := time.Now().Add(20 * time.Second); ; {
		status, _, _ := ask(t, "GET", "/openapi/v1/global", http.Header{"X-Api-Key": {made[len(examples)]}})
		if status == http.StatusOK {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the edge answers %d", status)
		}
		time.Sleep(5 * time.Millisecond)
	}
	for i, e := range examples {
		if key := e.sent.Get("X-Api-Key"); key == "" || key == "…" {
			e.sent.Set("X-Api-Key", made[i])
		}
		status, header, body := ask(t, e.method, e.target, e.sent)
		if status != e.status {
			t.Errorf("%s:%d: %s %s: status %d, want %d\n%s", interfaceDocument, e.line, e.method, e.target, status,
				e.status, body)
			continue
		}
		for _, line := range e.received {
			values := header.Values(line[0])
			if line[1] == "(none)" && len(values) > 0 ||
				line[1] != "(none)" && (len(values) != 1 || !fits(line[1], values[0])) {
				t.Errorf("%s:%d: %s: %q, want %q", interfaceDocument, e.line, line[0], values, line[1])
			}
		}
		if e.body != "" && !fits(e.body, body) {
			t.Errorf("%s:%d: %s\nwant %s", interfaceDocument, e.line, body, e.body)
		}
	}
}

// serve runs an edge over store until the test ends, and returns a function that sends requests to
// it.
func serve(
	t *testing.T, store artifacts.Reader,
) func(t *testing.T, method, target string, h http.Header) (int, http.Header, string) {
	t.Helper()
	e := testedge.Start(t, testedge.Config{Reader: store})
	client := &http.Client{Transport: &http.Transport{DisableCompression: true}} // otherwise it requests gzip itself
	t.Cleanup(client.CloseIdleConnections)
	return func(t *testing.T, method, target string, h http.Header) (int, http.Header, string) {
		t.Helper()
		req := must.Get(http.NewRequestWithContext(t.Context(), method, e.URL+target, nil))(t)
		req.Header = h
		res := must.Get(client.Do(req))(t)
		defer res.Body.Close()
		return res.StatusCode, res.Header, string(must.Get(io.ReadAll(res.Body))(t))
	}
}

// TestSortKeys: the table in "Sorting" has the keys of every endpoint, in the parser's order.
func TestSortKeys(t *testing.T) {
	_, section, _ := strings.Cut(read(t, interfaceDocument).prose, "## Sorting\n")
	section, _, _ = strings.Cut(section, "\n## ")
	word := regexp.MustCompile("`/?((?:percent_change\\.)?[a-z0-9_]+)`")
	listed := map[string][]string{} // by endpoint
	for line := range strings.Lines(section) {
		if cells := split(line); len(cells) == 3 {
			for _, endpoint := range word.FindAllStringSubmatch(cells[0], -1) {
				for _, key := range word.FindAllStringSubmatch(cells[1], -1) {
					listed[endpoint[1]] = append(listed[endpoint[1]], key[1])
				}
			}
		}
	}
	for e := range query.Endpoint(query.Endpoints) {
		var keys []string
		for _, key := range e.SortKeys() {
			keys = append(keys, key.Name())
		}
		if !slices.Equal(listed[e.Name()], keys) {
			t.Errorf("%s: the document sorts /%s by %q, the service by %q", interfaceDocument, e, listed[e.Name()],
				keys)
		}
	}
}

// character matches a character that is written as its code point, such as U+212A, because it does
// not print well.
var character = regexp.MustCompile(`U\+([0-9A-F]{4,6})`)

func TestFold(t *testing.T) {
	text := func(s string) string {
		return character.ReplaceAllStringFunc(s, func(m string) string {
			return string(rune(must.Get(strconv.ParseUint(m[2:], 16, 32))(t)))
		})
	}
	for line := range strings.Lines(read(t, interfaceDocument).blocksOf(t, "text fold")[0].text) {
		words := strings.Fields(line)
		if len(words) != 3 {
			t.Fatalf("%q", line)
		}
		equal := artifacts.Fold(text(words[0])) == artifacts.Fold(text(words[2]))
		if equal != (words[1] == "=") {
			t.Errorf("%s", line)
		}
	}
}
