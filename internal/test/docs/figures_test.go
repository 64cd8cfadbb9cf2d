package docs

import (
	flags "flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"example.com/marketdata/internal/test/must"
)

var update = flags.Bool("update", false, "rewrite the tables of figures from the documents that they are taken from")

// marked matches a table with figures from another document. It has some of that document's rows
// and columns, identified by their names.
var marked = regexp.MustCompile(`(?s)<!-- figures: (\S+) -->\n(.*?)<!-- /figures -->`)

func TestFigures(t *testing.T) {
	found := 0
	for _, path := range files(t, ".md") {
		if filepath.Ext(path) != ".md" {
			continue
		}
		text := must.Get(os.ReadFile(filepath.Join(root, path)))(t)
		now := marked.ReplaceAllStringFunc(string(text), func(block string) string {
			found++
			m := marked.FindStringSubmatch(block)
			return "<!-- figures: " + m[1] + " -->\n" + taken(t, path, m[2], m[1]) + "<!-- /figures -->"
		})
		if now == string(text) {
			continue
		}
		if !*update {
			t.Errorf("%s has other figures than it is taken from: go test ./internal/test/docs -run TestFigures -update", path)
		} else if err := os.WriteFile(filepath.Join(root, path), []byte(now), 0o644); err != nil {
			t.Error(err)
		}
	}
	if found == 0 {
		t.Error("no table of figures was found")
	}
}

// taken returns table with its cells replaced with the cells of the same row and column in the
// document source.
func taken(t *testing.T, path, table, source string) string {
	t.Helper()
	b := must.Get(os.ReadFile(filepath.Join(root, source)))(t)
	columns, cells := []string(nil), map[[2]string]string{} // by row and column
	for line := range strings.Lines(string(b)) {
		switch row := split(line); {
		case row == nil:
			columns = nil
		case columns == nil:
			columns = row
		case len(row) == len(columns):
			for i, cell := range row {
				cells[[2]string{row[0], columns[i]}] = cell
			}
		}
	}
	var out strings.Builder
	columns = nil
	for line := range strings.Lines(table) {
		row := split(line)
		if columns == nil {
			columns = row
		} else if !strings.HasPrefix(line, "| --") {
			name := row[0]
			for i := range min(len(row), len(columns)) {
				if cell, ok := cells[[2]string{name, columns[i]}]; ok {
					row[i] = cell
				} else {
					t.Errorf("%s: %s has no row %q with a column %q", path, source, name, columns[i])
				}
			}
			line = "| " + strings.Join(row, " | ") + " |\n"
		}
		out.WriteString(line)
	}
	return out.String()
}

// split returns the cells of a table row, or nil for any other line.
func split(line string) (cells []string) {
	inner, ok := strings.CutPrefix(strings.TrimSpace(line), "|")
	if !ok {
		return nil
	}
	for cell := range strings.SplitSeq(strings.TrimSuffix(inner, "|"), "|") {
		cells = append(cells, strings.TrimSpace(cell))
	}
	return cells
}
