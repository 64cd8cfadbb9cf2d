package openapi_test

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"example.com/marketdata/builder/market"
	"example.com/marketdata/edge/openapi"
)

func TestDocument(t *testing.T) {
	const where = "https://keys.example/request?from=docs&x=1"
	for _, o := range []openapi.Options{{}, {KeyRequestURL: where}} {
		text, err := openapi.Document(o)
		if err != nil {
			t.Fatal(err)
		}
		again, err := openapi.Document(o)
		if err != nil || !bytes.Equal(text, again) {
			t.Fatalf("two calls differ: %v", err)
		}
		if !bytes.HasPrefix(text, []byte(`{"openapi":"3.1.1","info":{"title":"Market Data Service"`)) {
			t.Errorf("it begins with %.80s", text)
		}
		doc, err := openapi3.NewLoader().LoadFromData(text)
		if err != nil {
			t.Fatal(err)
		}
		// Examples are validated, too.
		if err := doc.Validate(context.Background()); err != nil {
			t.Error(err)
		}
		said := strings.Contains(doc.Info.Description, "Keys are requested at <"+where+">.") &&
			strings.Contains(doc.Components.SecuritySchemes["ApiKey"].Value.Description, where)
		if said != (o.KeyRequestURL != "") || bytes.Contains(text, []byte("$KEYS")) {
			t.Errorf("with %+v the description is %.900s", o, doc.Info.Description)
		}
	}
}

// TestNames compares names that the document lists with the builder's.
func TestNames(t *testing.T) {
	c := newChecker(t)
	for schema, names := range map[*openapi3.Schema][]string{
		c.Doc.Components.Schemas["PercentChange"].Value:                      market.Windows[:],
		c.Doc.Components.Schemas["Exchange"].Value.Properties["links"].Value: market.ExchangeLinks[:],
	} {
		if len(schema.Properties) != len(names) {
			t.Errorf("%d properties, want %v", len(schema.Properties), names)
		}
		for _, name := range names {
			if schema.Properties[name] == nil {
				t.Errorf("no %s", name)
			}
		}
	}
}

// TestOrder finds the paths in the order of INTERFACE.md, which is
// the order of openapi.yaml.
func TestOrder(t *testing.T) {
	text, err := openapi.Document(openapi.Options{})
	if err != nil {
		t.Fatal(err)
	}
	last := -1
	for _, endpoint := range endpoints {
		at := bytes.Index(text, []byte(`"/openapi/v1/`+endpoint+`":{`))
		if at <= last {
			t.Errorf("%s stands at %d, behind %d", endpoint, at, last)
		}
		last = at
	}
}
