package openapi_test

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"

	"example.com/marketdata/edge/openapi"
	"example.com/marketdata/internal/lab/must"
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
		// Examples are validated, too.
		must.OK(t, doc.Validate(context.Background()))
		said := strings.Contains(doc.Info.Description, "Keys are requested at <"+where+">.") &&
			strings.Contains(doc.Components.SecuritySchemes["ApiKey"].Value.Description, where)
		if said != (o.KeyRequestURL != "") || bytes.Contains(text, []byte("$KEYS")) ||
			bytes.Contains(text, []byte("${")) {
			t.Errorf("with %+v the description is %.900s", o, doc.Info.Description)
		}
	}
}

// TestPaths finds the paths in the order of INTERFACE.md, which is that of
// openapi.yaml, and each endpoint a second time below /at/: the same, with the time
// in the path in place of X-Snapshot-Time.
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
		paths = append(paths, prefix+"/openapi/v1/files", prefix+"/openapi/v1/files/{name}")
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
			case endpoint == "global" && status == "404": // before the first snapshot nothing can be pinned
			case got == nil || got.Ref != want.Ref:
				t.Errorf("below /at/ %s is not answered by %s as elsewhere", endpoint, status)
			case status == "200" && got.Value.Content["application/json"].Schema.Ref !=
				want.Value.Content["application/json"].Schema.Ref:
				t.Errorf("below /at/ %s has another body", endpoint)
			}
		}
	}
}

// refs are what parameters refer to.
func refs(parameters openapi3.Parameters) (names []string) {
	for _, p := range parameters {
		names = append(names, p.Ref)
	}
	return names
}
