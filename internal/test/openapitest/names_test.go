package openapitest

import (
	"testing"

	"example.com/marketdata/builder/market"
	"example.com/marketdata/internal/test/must"
	"github.com/getkin/kin-openapi/openapi3"
)

// TestNames compares the names that the document lists with the builder's.
func TestNames(t *testing.T) {
	c := must.Get(New())(t)
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
