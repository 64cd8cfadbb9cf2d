package main

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/testserver"
)

// TestSoak is a soak of twenty seconds.
func TestSoak(t *testing.T) {
	if testing.Short() {
		t.Skip("a soak takes half a minute, and -short was asked for")
	}
	if _, err := testserver.Program(t.Context(), testserver.KindMinIO); err != nil {
		if os.Getenv(testserver.RequireEnv) == "1" {
			t.Fatal(err)
		}
		t.Skipf("no MinIO to soak with (%s=1 makes this fail): %v", testserver.RequireEnv, err)
	}
	bin := t.TempDir()
	if out, err := exec.Command("go", "build", "-o", bin, "../../../builder/cmd/builder", "../../../edge/cmd/edge").
		CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	c := &cli{Duration: 20 * time.Second, Seed: 7, Bin: bin, Data: t.TempDir(), Assets: 300}
	var table, progress bytes.Buffer
	err := c.run(t.Context(), &table, &progress)
	t.Logf("%s%s", &progress, &table)
	must.OK(t, err)
	for _, row := range []string{"wrong answers", "answers of status 200", "requests below /at/", "streams of events"} {
		if !strings.Contains(table.String(), "| "+row) {
			t.Errorf("the table has no row of %s", row)
		}
	}
}
