package clients

import (
	"encoding/json"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/openapitest"
)

// names contains the names in a client's API, in the case that its language uses.
type names struct {
	Methods, Options, Answer, Mirror, Error, Errors []string
	Queries                                         map[string][]string // the parameters by endpoint
}

// TestNames compares the clients' names with each other, with the table in README.md, and with the
// document's parameters.
func TestNames(t *testing.T) {
	have(t, python())
	compile(t)
	clients := []names{goNames(t), {}, {}}
	must.OK(t, json.Unmarshal(execute(t, "python", nil, python(), "-m", "tests.names"), &clients[1]))
	must.OK(t, json.Unmarshal(execute(t, "typescript", nil, "node", "out/test/names.js"), &clients[2]))

	paths := must.Get(openapitest.New())(t).Doc.Paths
	for i, c := range clients {
		for endpoint, got := range c.Queries {
			want := []string{"at"} // the header X-Snapshot-Time
			for _, p := range paths.Value("/openapi/v1/" + endpoint).Get.Parameters {
				if p.Value.In == "query" && p.Value.Name != "q" { // an argument of search, not a parameter
					want = append(want, p.Value.Name)
				}
			}
			if got := snake(got); !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
				t.Errorf("client %d: %s takes %v, and the document has %v", i, endpoint, got, want)
			}
		}
		if len(c.Queries) != 13 {
			t.Errorf("client %d has %d queries", i, len(c.Queries))
		}
	}

	table := namesTable(clients)
	readme := string(must.Get(os.ReadFile("README.md"))(t))
	_, rest, _ := strings.Cut(readme, "<!-- names:")
	_, rest, _ = strings.Cut(rest, "\n")
	if got, _, _ := strings.Cut(rest, "<!-- /names -->"); got != table {
		t.Errorf("README.md has\n%s\nand the clients\n%s", got, table)
	}
}

// namesTable returns a table of the names that the clients have in common, in the form of Python and in the
// order of Go, and of the names that only one of them has.
func namesTable(clients []names) string {
	var b strings.Builder
	row := func(title string, names []string) {
		b.WriteString("| " + title + " | `" + strings.Join(names, "`, `") + "` |\n")
	}
	b.WriteString("| | |\n| --- | --- |\n")
	alone := make([][]string, len(clients))
	for _, kind := range []struct {
		title string
		of    func(names) []string
	}{
		{"methods", func(n names) []string { return n.Methods }},
		{"parameters", func(n names) []string {
			var all []string
			for _, endpoint := range []string{
				"assets", "markets", "trending", "history", "candles", "prices", "changes"} {
				for _, name := range n.Queries[endpoint] {
					if !slices.Contains(all, name) {
						all = append(all, name)
					}
				}
			}
			return all
		}},
		{"options", func(n names) []string { return n.Options }},
		{"an answer", func(n names) []string { return n.Answer }},
		{"a mirror", func(n names) []string { return n.Mirror }},
		{"errors", func(n names) []string { return n.Errors }},
		{"an API error", func(n names) []string { return n.Error }},
	} {
		var common []string
		for i, c := range clients {
			for _, name := range kind.of(c) {
				snaked := snake([]string{name})[0]
				inAll := true
				for _, other := range clients {
					inAll = inAll && pick(kind.of(other), snaked) != nil
				}
				if !inAll {
					alone[i] = append(alone[i], name)
				} else if i == 0 {
					common = append(common, pick(kind.of(clients[1]), snaked)...)
				}
			}
		}
		row(kind.title, common)
	}
	for i, language := range []string{"Go", "Python", "TypeScript"} {
		row("only "+language, alone[i])
	}
	return b.String()
}

// pick returns the name in a list whose snake-case form is snaked.
func pick(list []string, snaked string) []string {
	i := slices.Index(snake(list), snaked)
	if i < 0 {
		return nil
	}
	return list[i : i+1]
}

var (
	humps    = regexp.MustCompile(`([a-z0-9])([A-Z])`)
	acronyms = regexp.MustCompile(`([A-Z])([A-Z][a-z])`)
)

// snake converts names of any language to snake case. It removes what a language adds: Go's prefix Err, and
// Python's _ after a keyword.
func snake(list []string) (snaked []string) {
	for _, name := range list {
		if rest, ok := strings.CutPrefix(name, "Err"); ok && rest != "or" {
			name = rest
		}
		name = acronyms.ReplaceAllString(humps.ReplaceAllString(name, "${1}_$2"), "${1}_$2")
		snaked = append(snaked, strings.TrimSuffix(strings.ToLower(name), "_"))
	}
	return snaked
}

// goNames reads the names of the Go client from its source.
func goNames(t *testing.T) names {
	t.Helper()
	var files []*ast.File
	set := token.NewFileSet()
	for _, file := range must.Get(filepath.Glob("go/*.go"))(t) {
		files = append(files, must.Get(parser.ParseFile(set, file, nil, parser.ParseComments))(t))
	}
	n := names{Queries: map[string][]string{}}
	list := func(functions []*doc.Func) (names []string) {
		for _, f := range functions {
			names = append(names, f.Name)
		}
		return names
	}
	pkg := must.Get(doc.NewFromFiles(set, files, "marketdata"))(t)
	n.Methods = list(pkg.Funcs) // Pages and Rows are functions, because methods have no type parameters
	for _, kind := range pkg.Types {
		endpoint, query := strings.CutSuffix(kind.Name, "Query")
		switch {
		case kind.Name == "Client":
			n.Methods = append(list(kind.Methods), n.Methods...)
		case kind.Name == "Answer":
			n.Methods, n.Answer = append(n.Methods, list(kind.Methods)...), fields(kind)
		case kind.Name == "Mirror":
			n.Mirror = append(fields(kind), list(kind.Methods)...)
		case kind.Name == "Option":
			n.Options = list(kind.Funcs)
		case kind.Name == "APIError":
			n.Error = fields(kind)
		case query && endpoint != "Pages":
			n.Queries[strings.ToLower(endpoint)] = fields(kind)
		}
	}
	n.Errors = []string{"APIError", "TransportError"}
	for _, group := range pkg.Consts {
		for _, name := range group.Names {
			if strings.HasPrefix(name, "Err") {
				n.Errors = append(n.Errors, name)
			}
		}
	}
	n.Queries["chains"] = n.Queries["categories"] // ChainsQuery is declared as CategoriesQuery
	return n
}

// fields returns the names of the exported fields of a struct.
func fields(kind *doc.Type) (names []string) {
	if s, ok := kind.Decl.Specs[0].(*ast.TypeSpec).Type.(*ast.StructType); ok {
		for _, f := range s.Fields.List {
			for _, name := range f.Names {
				if name.IsExported() {
					names = append(names, name.Name)
				}
			}
		}
	}
	return names
}
