package check

import (
	"io"
	"path/filepath"
	"testing"

	"github.com/rhysd/actionlint"
)

// TestWorkflows: actionlint finds nothing in the workflows of CI and releases.
func TestWorkflows(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, ".github/workflows/*.yml"))
	if err != nil || files == nil {
		t.Fatal(err)
	}
	linter, err := actionlint.NewLinter(io.Discard, &actionlint.LinterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	faults, err := linter.LintFiles(files, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range faults {
		t.Error(f)
	}
}
