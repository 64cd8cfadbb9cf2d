// Package clients makes clients from the OpenAPI document and lets them ask a
// running edge. It needs node and the npm packages of typescript/, so it is run
// by "make test-clients", which installs them, and skipped without.
package clients

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"example.com/marketdata/edge"
	"example.com/marketdata/edge/openapi"
	"example.com/marketdata/edge/openapi/openapitest"
)

// required turns skipping into failing; "make test-clients" sets it.
const required = "MARKETDATA_REQUIRE_CLIENTS"

// TestTypeScript lints the document, generates types from it, type-checks a
// client that uses them, and runs it.
func TestTypeScript(t *testing.T) {
	skip := t.Skip
	if os.Getenv(required) != "" {
		skip = t.Fatal
	}
	if _, err := exec.LookPath("node"); err != nil {
		skip("node is not installed; this check needs version 20 or later")
	}
	const bin = "node_modules/.bin"
	if _, err := os.Stat(filepath.Join("typescript", bin, "openapi-typescript")); err != nil {
		skip("the npm packages are not installed; make test-clients installs them")
	}
	document, err := openapi.Document(openapi.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll("typescript/generated", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("typescript/generated/openapi.json", document, 0o644); err != nil {
		t.Fatal(err)
	}
	store := openapitest.Market(t)
	key := openapitest.Key(t, store, 1000, 1000)
	base := openapitest.Start(t, edge.Config{Reader: store})
	openapitest.Await(t, base, key)

	for _, command := range [][]string{
		{bin + "/redocly", "lint", "generated/openapi.json"},
		{bin + "/openapi-typescript", "generated/openapi.json", "--output", "generated/api.ts"},
		{bin + "/tsc"},
		{"node", "out/check.js"},
	} {
		cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
		cmd.Dir = "typescript"
		cmd.Env = append(os.Environ(), "BASE_URL="+base, "API_KEY="+key, "REDOCLY_TELEMETRY=off", "REDOCLY_SUPPRESS_UPDATE_NOTICE=true")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", command, err, out)
		}
	}
}
