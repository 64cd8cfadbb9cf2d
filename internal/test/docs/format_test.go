package docs

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"example.com/marketdata/internal/test/must"
)

const (
	maxColumns  = 120 // of a line; a tab is four columns
	maxLiteral  = 60  // of a string literal, because a literal that is split cannot be searched for
	maxFunction = 80  // lines of a function, not counting tables, which are composite literals of several lines
)

// long lists functions that are still too long.
var long = []string{
	"builder/render/views_test.go checkView",
	"builder/upkeep/history_test.go TestHistory",
	"builder/upkeep/rollback_test.go TestRollback",
	"builder/upkeep/status_test.go TestStatus",
	"deploy/check/kubernetes_test.go TestKubernetes",
	"edge/openapi/answers_test.go TestAnswers",
	"edge/web/board_test.go TestBoard",
	"edge/web/board_test.go TestBoardAsset",
	"edge/web/board_test.go TestBoardKey",
	"edge/web/board_test.go TestBoardKeyboard",
	"edge/web/board_test.go TestBoardTime",
	"internal/cmdline/mistakes_test.go TestMistakes",
}

// TestFormat checks that Go lines have at most 120 columns, that a file's imports form two groups
// (the standard library and the others), and that functions have at most 80 lines.
func TestFormat(t *testing.T) {
	var found []string
	for _, file := range files(t, ".go") {
		if filepath.Ext(file) != ".go" {
			continue // the Makefile
		}
		src := must.Get(os.ReadFile(filepath.Join(root, file)))(t)
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, file, src, parser.SkipObjectResolution)
		if err != nil {
			t.Error(err)
			continue
		}
		if ast.IsGenerated(parsed) {
			continue
		}
		for _, problem := range append(longLines(src), importGroups(set, parsed)...) {
			t.Errorf("%s:%s", file, problem)
		}
		for _, d := range parsed.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			name := file + " " + f.Name.Name
			lines := linesOf(set, f) - tables(set, f.Body)
			if lines <= maxFunction {
				continue
			}
			if found = append(found, name); !slices.Contains(long, name) {
				t.Errorf("%s has %d lines", name, lines)
			}
		}
	}
	for _, name := range long {
		if !slices.Contains(found, name) {
			t.Errorf("%s: take it off the list of long functions", name)
		}
	}
}

func linesOf(set *token.FileSet, n ast.Node) int {
	return set.Position(n.End()).Line - set.Position(n.Pos()).Line + 1
}

// tables counts the lines of the outermost composite literals of a function.
func tables(set *token.FileSet, body *ast.BlockStmt) (lines int) {
	if body == nil {
		return 0
	}
	ast.Inspect(body, func(n ast.Node) bool {
		c, ok := n.(*ast.CompositeLit)
		if ok {
			lines += linesOf(set, c) - 1
		}
		return !ok
	})
	return lines
}

// longLines returns the lines that are too long outside literals.
func longLines(src []byte) (problems []string) {
	set := token.NewFileSet()
	file := set.AddFile("", set.Base(), len(src))
	var s scanner.Scanner
	s.Init(file, src, nil, 0)
	uncounted := map[int]int{} // columns that a line need not count
	for {
		pos, tok, text := s.Scan()
		if tok == token.EOF {
			break
		}
		if tok == token.STRING {
			first := file.Line(pos)
			for i, part := range strings.Split(text, "\n") {
				uncounted[first+i] += max(0, utf8.RuneCountInString(part)-maxLiteral)
				if i > 0 || strings.Contains(text, "\n") {
					uncounted[first+i] = 1 << 20
				}
			}
		}
	}
	for i, line := range bytes.Split(src, []byte("\n")) {
		columns := utf8.RuneCount(line) + 3*bytes.Count(line, []byte("\t")) - uncounted[i+1]
		if columns > maxColumns {
			problems = append(problems, fmt.Sprintf("%d: %d columns", i+1, columns))
		}
	}
	return problems
}

// importGroups reports where a file's imports do not form two groups.
func importGroups(set *token.FileSet, f *ast.File) (problems []string) {
	last, standard := 0, true
	for _, i := range f.Imports {
		path, _ := strconv.Unquote(i.Path.Value) // the file has been parsed, so the path is valid
		host, _, _ := strings.Cut(path, "/")
		line, isStandard := set.Position(i.Pos()).Line, !strings.Contains(host, ".")
		switch {
		case isStandard && !standard:
			problems = append(problems, fmt.Sprintf("%d: %s belongs to the first group", line, path))
		case last > 0 && isStandard == standard && line > last+1 && i.Doc == nil:
			problems = append(problems, fmt.Sprintf("%d: a third group of imports", line))
		}
		last, standard = line, isStandard
	}
	return problems
}
