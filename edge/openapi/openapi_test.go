package openapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"example.com/marketdata/edge/openapi"
	"example.com/marketdata/internal/test/must"
	"github.com/getkin/kin-openapi/openapi3"
)

func TestDocument(t *testing.T) {
	const where = "https://keys.example/request?from=docs&x=1"
	for _, o := range []openapi.Options{{}, {KeyRequestURL: where}} {
		text, err := openapi.Document(o)
		must.OK(t, err)
		again, err := openapi.Document(o)
		if err != nil || !bytes.Equal(text, again) {
			t.Fatalf("two calls differ: %v", err)
		}
		if !bytes.HasPrefix(text, []byte(`{"openapi":"3.1.1","info":{"title":"Market Data Service"`)) {
			t.Errorf("it begins with %.80s", text)
		}
		doc := must.Get(openapi3.NewLoader().LoadFromData(text))(t)
		// Validate also checks the examples.
		must.OK(t, doc.Validate(context.Background()))
		said := strings.Contains(doc.Info.Description, "Request a key at <"+where+">.") &&
			strings.Contains(doc.Components.SecuritySchemes["ApiKey"].Value.Description, where)
		if said != (o.KeyRequestURL != "") || bytes.Contains(text, []byte("$KEYS")) ||
			leftMark.Match(text) || bytes.Contains(text, []byte("](quick-start.md)")) ||
			!bytes.Contains(text, []byte("](/docs/quick-start.md)")) {
			t.Errorf("with %+v the description is %.900s", o, doc.Info.Description)
		}
	}
}

// leftMark matches a placeholder that no page has replaced. Pages may contain variables of other programs.
var leftMark = regexp.MustCompile(`\$\{[a-z-]+\}`)

// TestPaths checks that the document has the paths in the order of INTERFACE.md, and each endpoint a second
// time below /at/, with the time in the path instead of X-Snapshot-Time.
func TestPaths(t *testing.T) {
	text := must.Get(openapi.Document(openapi.Options{}))(t)
	var paths []string
	for _, prefix := range []string{"", "/at/{time}"} {
		for _, endpoint := range endpoints {
			paths = append(paths, prefix+"/openapi/v1/"+endpoint)
		}
		if prefix == "" {
			paths = append(paths, prefix+"/openapi/v1/events")
		}
		for _, more := range []string{"", "/{name}", "/prices/{name}", "/files.json"} {
			paths = append(paths, prefix+"/openapi/v1/files"+more)
		}
	}
	last := -1
	for _, path := range paths {
		at := bytes.Index(text, []byte(`"`+path+`":{`))
		if at <= last {
			t.Errorf("%s stands at %d, behind %d", path, at, last)
		}
		last = at
	}
	doc := newChecker(t).Doc
	if n := doc.Paths.Len(); n != len(paths) {
		t.Errorf("%d paths, want %v", n, paths)
	}
	for _, endpoint := range endpoints {
		plain := doc.Paths.Value("/openapi/v1/" + endpoint).Get
		below := doc.Paths.Value("/at/{time}/openapi/v1/" + endpoint).Get
		if below.OperationID != plain.OperationID+"At" || !slices.Equal(below.Tags, []string{"Pinned"}) {
			t.Errorf("below /at/ %s is %s, tagged %v", endpoint, below.OperationID, below.Tags)
		}
		want := append([]string{"#/components/parameters/At"}, slices.DeleteFunc(refs(plain.Parameters),
			func(ref string) bool { return ref == "#/components/parameters/SnapshotTime" })...)
		if got := refs(below.Parameters); !slices.Equal(got, want) {
			t.Errorf("below /at/ %s takes %v, want %v", endpoint, got, want)
		}
		for status, want := range plain.Responses.Map() {
			got := below.Responses.Value(status)
			switch {
			case endpoint == "global" && status == "404": // before the first snapshot, when no pin exists
			case got == nil || got.Ref != want.Ref:
				t.Errorf("below /at/ %s is not answered by %s as elsewhere", endpoint, status)
			case status == "200":
				for kind, content := range want.Value.Content {
					if got.Value.Content[kind] == nil || got.Value.Content[kind].Schema.Ref != content.Schema.Ref {
						t.Errorf("below /at/ %s has another body", endpoint)
					}
				}
			}
		}
	}
}

// refs returns the references of parameters.
func refs(parameters openapi3.Parameters) (names []string) {
	for _, p := range parameters {
		names = append(names, p.Ref)
	}
	return names
}

// TestForGenerators checks properties of the document that generators and importers need. Each comes from a
// report about a program that failed without it.
func TestForGenerators(t *testing.T) {
	w, doc := newWorld(t), newChecker(t).Doc
	// 3x-ui 5907, fern 8807: evm_chain_id 11297108109 does not fit into an int of 32 bits.
	var root any
	must.OK(t, json.Unmarshal(must.Get(openapi.Document(openapi.Options{}))(t), &root))
	integers(t, "", root)
	for path, item := range doc.Paths.Map() {
		target, query, header := path, url.Values{}, []string(nil)
		for _, ref := range item.Get.Parameters {
			p := ref.Value
			// koios-go-client 46, swagger-ui 9400: HTTP libraries set these headers themselves and handle
			// their effects.
			if slices.Contains([]string{"Accept", "Accept-Encoding", "If-Match", "If-Modified-Since", "If-None-Match",
				"If-Range", "Range", "Content-Type", "Authorization"}, p.Name) {
				t.Errorf("%s has the parameter %s", path, p.Name)
			}
			if p.Example == nil {
				t.Errorf("%s: %s has no example", path, p.Name)
			}
			text := strings.Trim(fmt.Sprint(p.Example), "[]")
			switch p.In {
			case "path":
				target = strings.ReplaceAll(target, "{"+p.Name+"}", text)
			case "query":
				query.Set(p.Name, text)
			default:
				header = append(header, p.Name+": "+text)
			}
		}
		// openapi-to-postman 82, insomnia 1581, hoppscotch 4852: these programs fill in every example, and
		// send all parameters.
		q := question{method: "HEAD", target: target + "?" + query.Encode(), header: header}
		wantGone := strings.HasPrefix(path, "/at/") || strings.Contains(path, "/files/prices/") // an old time
		if a := w.open.ask(t, q); a.Status != 200 && !wantGone {
			t.Errorf("%s %v: %d", q.target, header, a.Status)
		}
		// hindsight 4292, orval 870, axios 2359: clients convert binary data to text.
		for kind, content := range item.Get.Responses.Status(200).Value.Content {
			if strings.HasPrefix(kind, "application/") && kind != "application/json" &&
				(content.Schema == nil || content.Schema.Value.Format != "binary") {
				t.Errorf("%s: %s is not binary", path, kind)
			}
		}
	}
}

// integers reports schemas of integers that may not fit into 32 bits and have no format.
func integers(t *testing.T, at string, node any) {
	t.Helper()
	switch node := node.(type) {
	case map[string]any:
		kinds := fmt.Sprint(node["type"])
		most, bounded := node["maximum"].(float64)
		if strings.Contains(kinds, "integer") && node["const"] == nil && node["format"] != "int64" &&
			(!bounded || most >= 1<<31) {
			t.Errorf("%s has no format", at)
		}
		for name, v := range node {
			integers(t, at+"/"+name, v)
		}
	case []any:
		for i, v := range node {
			integers(t, fmt.Sprint(at, "/", i), v)
		}
	}
}
