package docs

import (
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// layers says what the code of a folder must not import, and what its tests must not: folders
// below the module. A higher line may import a lower one.
//
//	internal/lab
//	loadtest
//	builder    edge
//	artifacts
//	internal (leaves)
var layers = []struct {
	folder      string
	code, tests []string
}{
	{"internal", []string{"artifacts", "builder", "edge", "loadtest"},
		[]string{"artifacts", "builder", "edge", "loadtest"}},
	{"artifacts", []string{"builder", "edge", "loadtest"}, []string{"builder", "edge", "loadtest"}},
	{"builder", []string{"edge", "loadtest"}, []string{"edge"}},
	{"edge", []string{"builder", "loadtest"}, []string{"builder", "loadtest"}},
	{"loadtest", []string{"builder", "edge"}, []string{"builder", "edge"}},
}

// present are imports that break the rules and are still to be removed.
var present = []string{
	"builder/cmd/builder/main_test.go imports edge",
	"builder/cmd/builder/mend_test.go imports edge",
	"builder/cmd/builder/signing_test.go imports edge",
	"builder/cmd/builder/watch_test.go imports edge",
	"loadtest/streams/streams_test.go imports builder",
	"loadtest/streams/streams_test.go imports builder/keys",
	"loadtest/streams/streams_test.go imports builder/source/sim",
	"loadtest/streams/streams_test.go imports edge",
}

// TestImports: imports point downward in layers, and what ships never imports internal/lab
// but in tests.
func TestImports(t *testing.T) {
	const module = "example.com/marketdata/"
	within := func(pkg string, folders ...string) bool {
		return slices.ContainsFunc(folders, func(f string) bool { return pkg == f || strings.HasPrefix(pkg, f+"/") })
	}
	var broken []string
	for _, file := range files(t, ".go") {
		if within(file, "internal/lab") || path.Ext(file) != ".go" {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, file), nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		test := strings.HasSuffix(file, "_test.go")
		var forbidden []string
		if !test {
			forbidden = []string{"internal/lab"}
		}
		for _, l := range layers {
			switch {
			case !within(file, l.folder):
			case test:
				forbidden = append(forbidden, l.tests...)
			default:
				forbidden = append(forbidden, l.code...)
			}
		}
		for _, spec := range parsed.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if pkg, ours := strings.CutPrefix(name, module); ours && within(pkg, forbidden...) {
				broken = append(broken, file+" imports "+pkg)
			}
		}
	}
	for _, b := range broken {
		if !slices.Contains(present, b) {
			t.Error(b)
		}
	}
	for _, p := range present {
		if !slices.Contains(broken, p) {
			t.Errorf("no longer so, remove it from the list: %s", p)
		}
	}
}
