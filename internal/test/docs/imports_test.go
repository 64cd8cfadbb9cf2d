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

	"example.com/marketdata/internal/test/must"
)

// layers lists which packages the code of a folder must not import, and which its tests must not.
// All are folders in the module. A higher line may import a lower one:
//
//	internal/test    internal/bench
//	loadtest
//	builder    edge
//	artifacts
//	internal (leaves, and the model)
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

// TestImports: imports point downward through the layers, and code that is shipped does not import
// internal/test, except in tests.
func TestImports(t *testing.T) {
	const module = "example.com/marketdata/"
	within := func(pkg string, folders ...string) bool {
		return slices.ContainsFunc(folders, func(f string) bool { return pkg == f || strings.HasPrefix(pkg, f+"/") })
	}
	for _, file := range files(t, ".go") {
		if within(file, "internal/test", "internal/bench") || path.Ext(file) != ".go" {
			continue
		}
		parsed := must.Get(parser.ParseFile(token.NewFileSet(), filepath.Join(root, file), nil, parser.ImportsOnly))(t)
		test := strings.HasSuffix(file, "_test.go")
		var forbidden []string
		if !test {
			forbidden = []string{"internal/test", "internal/bench"}
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
			name := must.Get(strconv.Unquote(spec.Path.Value))(t)
			if pkg, ours := strings.CutPrefix(name, module); ours && within(pkg, forbidden...) {
				t.Errorf("%s imports %s", file, pkg)
			}
		}
	}
}
