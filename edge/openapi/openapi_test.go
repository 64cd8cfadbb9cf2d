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
// openapi.yaml, and every endpoint below /at/, too.
func TestPaths(t *testing.T) {
	text := must.Get(openapi.Document(openapi.Options{}))(t)
	last := -1
	for _, endpoint := range append(slices.Clone(endpoints), "events") {
		at := bytes.Index(text, []byte(`"/openapi/v1/`+endpoint+`":{`))
		if at <= last {
			t.Errorf("%s stands at %d, behind %d", endpoint, at, last)
		}
		last = at
	}
	doc := newChecker(t).Doc
	if n := doc.Paths.Len(); n != len(endpoints)+2 {
		t.Errorf("%d paths, but %d endpoints, events and a path below /at/", n, len(endpoints))
	}
	below := doc.Paths.Value("/at/{time}/openapi/v1/{endpoint}").Get
	if names := below.Parameters.GetByInAndName("path", "endpoint").
		Schema.Value.Enum; !slices.Equal(names, toAny(endpoints)) {
		t.Errorf("below /at/ are %v, want %v", names, endpoints)
	}
	answers := below.Responses.Status(200).Value.Content.Get("application/json").Schema.Value.AnyOf
	for i, endpoint := range endpoints {
		want := doc.Paths.Value("/openapi/v1/" + endpoint).Get.Responses.Status(200).
			Value.Content.Get("application/json").Schema.Ref
		if i >= len(answers) || answers[i].Ref != want {
			t.Errorf("below /at/ %s is not answered as %s", endpoint, want)
		}
	}
}

func toAny(names []string) (all []any) {
	for _, name := range names {
		all = append(all, name)
	}
	return all
}
